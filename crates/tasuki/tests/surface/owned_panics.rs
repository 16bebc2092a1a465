//! What owns its primitive (an `Arc`), and is dropped as the last owner, after a waker has panicked: the value's destructor panics, too, and does not end the process. Every owned guard, permit and
//! future has a row, compared with the sources.

use super::foreign_panics::hostile;
use super::subjects::HOUR;
use crate::kit::poll::{panic_of, pending, poll_with, ready};
use crate::kit::sources;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex};
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{
    Condvar, Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard,
    OwnedRwLockWriteGuard, ReentrantMutex, RwLock, channel, task,
};

/// Counts its drop, which panics.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
        panic!("a value");
    }
}

/// Own nothing of the user's: there is no second destructor.
const WITHOUT_VALUE: [&str; 4] =
    ["AcquireOwned", "OnCancelOwned", "OwnedSemaphorePermit", "OwnedWaitGroupMember"];

/// The rows, each by the name of what it is about.
#[derive(Default)]
struct Rows(RefCell<BTreeSet<&'static str>>);

impl Rows {
    /// `give` releases what the guard holds. That wakes a waiter, whose waker drops its task, as an executor that has shut down, and panics: the guard is the last owner then.
    fn guard<G, F>(&self, name: &'static str, make: impl FnOnce(Bomb) -> (G, F), give: impl FnOnce(G))
    where
        F: Future + Send + 'static,
    {
        let drops = Arc::new(AtomicUsize::new(0));
        let (guard, waiter) = make(Bomb(drops.clone()));
        let (mut waiter, task) = (Box::pin(waiter), Arc::new(StdMutex::new(None)));
        let late = task.clone();
        let spy = Spy::hostile(Call::Wake, move || {
            drop(late.lock().unwrap().take());
            panic!("a hostile waker");
        });
        pending(&mut waiter, &spy);
        *task.lock().unwrap() = Some(waiter);
        spy.arm(1);
        assert_eq!(panic_of(|| give(guard)), "a hostile waker", "{name}");
        assert_eq!((spy.hook_runs(), drops.load(Relaxed)), (1, 1), "{name}");
        self.0.borrow_mut().insert(name);
    }

    /// A future that waits, and is the last owner, is dropped; its waker panics when it is dropped.
    fn future<F: Future>(&self, name: &'static str, make: impl FnOnce(Bomb) -> F) {
        let (drops, spy) = (Arc::new(AtomicUsize::new(0)), hostile(Call::Drop));
        let mut future = Box::pin(make(Bomb(drops.clone())));
        pending(&mut future, &spy);
        spy.arm(1);
        assert_eq!(panic_of(|| drop(future)), "a hostile waker", "{name}");
        assert_eq!((spy.hook_runs(), drops.load(Relaxed)), (1, 1), "{name}");
        self.0.borrow_mut().insert(name);
    }
}

/// A mutex that stays locked.
fn locked<P: Policy>(bomb: Bomb) -> Arc<Mutex<Bomb, P>> {
    let mutex = Arc::new(Mutex::with_policy(bomb));
    mem::forget(mutex.try_lock().unwrap());
    mutex
}

/// A lock that stays locked.
fn write_locked(bomb: Bomb) -> Arc<RwLock<Bomb>> {
    let lock = Arc::new(RwLock::new(bomb));
    mem::forget(lock.try_write().unwrap());
    lock
}

fn guards_of_mutexes(rows: &Rows) {
    fn held<P: Policy>(bomb: Bomb) -> (OwnedMutexGuard<Bomb, P>, impl Future + Send) {
        let mutex = Arc::new(Mutex::<_, P>::with_policy(bomb));
        (mutex.clone().try_lock_owned().unwrap(), mutex.lock_owned())
    }
    rows.guard("OwnedMutexGuard", held::<Fifo>, drop);
    rows.guard("OwnedMutexGuard", held::<Lifo>, drop);
    rows.guard("OwnedMutexGuard", held::<Bypass>, drop);
    rows.guard("OwnedMutexGuard", held::<Revocable>, drop);
    rows.guard("OwnedMutexGuard", held::<Fifo>, OwnedMutexGuard::unlock);
    rows.guard("OwnedMutexGuard", held::<Fifo>, |guard| _ = OwnedMutexGuard::hand_off(guard));
    rows.guard("OwnedMappedMutexGuard", held::<Fifo>, |guard| {
        drop(OwnedMutexGuard::map(guard, |bomb| &mut bomb.0));
    });
    rows.guard(
        "OwnedReentrantMutexGuard",
        |bomb| {
            let mutex = Arc::new(ReentrantMutex::new(bomb));
            let mut first = Box::pin(task::identify(mutex.clone().lock_owned()));
            (ready(&mut first).unwrap(), task::identify(mutex.lock_owned()))
        },
        drop,
    );
}

fn guards_of_rwlocks(rows: &Rows) {
    let lock = |bomb| Arc::new(RwLock::new(bomb));
    let reading = |bomb| {
        let lock = lock(bomb);
        (lock.clone().try_read_owned().unwrap(), lock.write_owned())
    };
    let writing = |bomb| {
        let lock = lock(bomb);
        (lock.clone().try_write_owned().unwrap(), lock.read_owned())
    };
    let upgradable = |bomb| {
        let lock = lock(bomb);
        (lock.clone().try_upgradable_read_owned().unwrap(), lock.upgradable_read_owned())
    };
    rows.guard("OwnedRwLockReadGuard", reading, drop);
    rows.guard("OwnedMappedRwLockReadGuard", reading, |guard| {
        drop(OwnedRwLockReadGuard::map(guard, |bomb| &bomb.0));
    });
    rows.guard("OwnedRwLockWriteGuard", writing, drop);
    rows.guard("OwnedRwLockWriteGuard", writing, |guard| drop(OwnedRwLockWriteGuard::downgrade(guard)));
    rows.guard("OwnedMappedRwLockWriteGuard", writing, |guard| {
        drop(OwnedRwLockWriteGuard::map(guard, |bomb| &mut bomb.0));
    });
    rows.guard("OwnedRwLockUpgradableReadGuard", upgradable, drop);
    rows.guard("OwnedRwLockUpgradableReadGuard", upgradable, |guard| {
        drop(OwnedRwLockUpgradableReadGuard::downgrade(guard));
    });
}

fn futures_of_locks(rows: &Rows) {
    rows.future("LockOwned", |bomb| locked::<Fifo>(bomb).lock_owned());
    rows.future("LockOwned", |bomb| locked::<Lifo>(bomb).lock_owned());
    rows.future("LockOwned", |bomb| locked::<Bypass>(bomb).lock_owned());
    rows.future("LockOwned", |bomb| locked::<Revocable>(bomb).lock_owned());
    rows.future("LockOwned", |bomb| locked::<Fifo>(bomb).lock_owned().timeout(HOUR));
    rows.future("LockOwned", |bomb| async { drop(locked::<Fifo>(bomb).lock_owned().await) });
    rows.future("LockReentrantOwned", |bomb| {
        let mutex = Arc::new(ReentrantMutex::new(bomb));
        let mut first = Box::pin(task::identify(async { mem::forget(mutex.lock().await.unwrap()) }));
        ready(&mut first);
        drop(first);
        task::identify(mutex.lock_owned())
    });
    rows.future("ReadOwned", |bomb| write_locked(bomb).read_owned());
    rows.future("WriteOwned", |bomb| write_locked(bomb).write_owned());
    rows.future("UpgradableReadOwned", |bomb| write_locked(bomb).upgradable_read_owned());
    rows.future("Upgrade", |bomb| {
        let lock = Arc::new(RwLock::new(bomb));
        mem::forget(lock.try_read().unwrap());
        OwnedRwLockUpgradableReadGuard::upgrade(lock.try_upgradable_read_owned().unwrap())
    });
    let condvar = Condvar::new();
    let held = |bomb| Arc::new(Mutex::new(bomb)).try_lock_owned().unwrap();
    rows.future("WaitNotified", |bomb| condvar.wait(held(bomb)));
    rows.future("WaitNotified", |bomb| condvar.wait(held(bomb)).timeout(HOUR));
    rows.future("WaitWhile", |bomb| condvar.wait_while(held(bomb), |_| true));
    rows.future("WaitWhile", |bomb| condvar.wait_while(held(bomb), |_| true).timeout(HOUR));
}

/// The rows of what owns a side of a channel. Its last handle drops the messages, and wakes the other side.
fn channels(rows: &Rows) {
    // Two wakers panic, of the receive and of what waits for the end of the receivers.
    let (sender, receiver) = channel::bounded::<u8>(1);
    let (drops, wakes) = (hostile(Call::Drop), hostile(Call::Wake));
    let (mut receive, mut closed) = (Box::pin(receiver.recv_owned()), Box::pin(sender.closed()));
    pending(&mut receive, &drops);
    pending(&mut closed, &wakes);
    drops.arm(1);
    wakes.arm(1);
    assert_eq!(panic_of(|| drop(receive)), "a hostile waker");
    assert_eq!((drops.hook_runs(), wakes.hook_runs()), (1, 1));
    ready(&mut closed);
    rows.0.borrow_mut().insert("RecvOwned");

    // The permit of the last sender goes: it wakes what waits for room, and the receivers. The messages are the receiver's.
    let (sender, receiver) = channel::bounded::<u8>(1);
    let (wakes, other) = (hostile(Call::Wake), hostile(Call::Wake));
    let permit = sender.clone().try_reserve_owned().map_err(drop).unwrap();
    let (mut reserve, mut receive) = (Box::pin(sender.reserve_owned()), Box::pin(receiver.recv()));
    pending(&mut reserve, &wakes);
    pending(&mut receive, &other);
    wakes.arm(1);
    assert_eq!(panic_of(|| drop(permit)), "a hostile waker");
    other.arm(1);
    assert_eq!(panic_of(|| drop(reserve)), "a hostile waker");
    assert_eq!((wakes.hook_runs(), other.hook_runs()), (1, 1));
    assert!(ready(&mut receive).is_err());

    // The waker of a reservation that waits panics, and the reservation is the last handle of the channel, which then drops its messages.
    let (spent, drops) = (Arc::new(AtomicUsize::new(0)), hostile(Call::Drop));
    let (sender, receiver) = channel::bounded(1);
    assert!(sender.try_send(Bomb(spent.clone())).is_ok());
    let mut reserve = Box::pin(sender.reserve_owned());
    pending(&mut reserve, &drops);
    mem::forget(receiver);
    drops.arm(1);
    assert_eq!(panic_of(|| drop(reserve)), "a hostile waker");
    assert_eq!((drops.hook_runs(), spent.load(Relaxed)), (1, 0), "a forgotten receiver keeps the messages");
    rows.0.borrow_mut().extend(["OwnedPermit", "ReservationOwned", "ReserveOwned"]);
}

#[test]
#[cfg_attr(miri, ignore = "reads files, and leaks")]
fn the_last_owner_goes_after_a_panic() {
    let _dog = watchdog(60);
    let rows = Rows::default();
    guards_of_mutexes(&rows);
    guards_of_rwlocks(&rows);
    futures_of_locks(&rows);
    channels(&rows);
    let owned = sources::exported().into_iter();
    let owned: BTreeSet<_> =
        owned.filter(|name| name.starts_with("Owned") || name.ends_with("Owned")).collect();
    let covered: BTreeSet<_> = rows.0.into_inner().into_iter().chain(WITHOUT_VALUE).collect();
    for name in owned {
        assert!(covered.contains(name.as_str()), "{name} has no row");
    }
}

/// A poll panics, and the future is dropped while that unwinds, in the frame of an `async` block.
#[test]
fn a_poll_panics_in_an_async_block() {
    let (drops, spy) = (Arc::new(AtomicUsize::new(0)), hostile(Call::Clone));
    let mutex = locked::<Fifo>(Bomb(drops.clone()));
    let mut task = Box::pin(async { drop(mutex.lock_owned().await) });
    let waker = spy.waker();
    spy.arm(1);
    assert_eq!(panic_of(|| poll_with(&mut task, &waker).map(drop)), "a hostile waker");
    assert_eq!(drops.load(Relaxed), 1);
}

/// A condition that owns a value, and a guard that is the last owner of another, in a wait that was not polled.
#[test]
fn two_values_of_one_wait() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (condvar, owned) = (Condvar::new(), Bomb(drops.clone()));
    let guard = Arc::new(Mutex::new(Bomb(drops.clone()))).try_lock_owned().unwrap();
    let wait = condvar.wait_while(guard, move |_| mem::size_of_val(&owned) > 0);
    assert_eq!(panic_of(|| drop(wait)), "a value");
    assert_eq!(drops.load(Relaxed), 2);
}
