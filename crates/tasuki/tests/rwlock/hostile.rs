//! Hostile wakers (H3) on the reader-writer lock: a waker's clone, wake and drop are foreign code and may do anything; and futures dropped in every
//! state. B061, B063, B065, B129, B133, H2, H3, H4, H6, H15.
//!
//! Six actions x four calls x every moment at which the lock makes such a call. After each the lock works, every waiter is
//! served, and every waker made was dropped or woken exactly once.
//!
//! Out of reach for safe Rust, so not here: to poll or drop a future from a waker call made by that same future's poll or drop; to free
//! the lock in the middle of a call, since the caller holds it; `wake_by_ref`, which the lock does not call.

use crate::kit::hostile::{Cast, Deed, every_deed};
use crate::kit::poll::{BoxFuture, panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Poll, Waker};
use tasuki::{
    OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock,
    RwLockUpgradableReadGuard,
};

type Shared = Arc<RwLock<u32>>;

/// What a wait ends with.
enum Held {
    Read { _guard: OwnedRwLockReadGuard<u32> },
    Upgradable(OwnedRwLockUpgradableReadGuard<u32>),
    Write(OwnedRwLockWriteGuard<u32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Upgradable,
    Write,
}

const KINDS: [Kind; 3] = [Kind::Read, Kind::Upgradable, Kind::Write];

fn wait(lock: &Shared, kind: Kind) -> BoxFuture<Held> {
    let lock = lock.clone();
    match kind {
        Kind::Read => Box::pin(async { Held::Read { _guard: lock.read_owned().await } }),
        Kind::Upgradable => Box::pin(async { Held::Upgradable(lock.upgradable_read_owned().await) }),
        Kind::Write => Box::pin(async { Held::Write(lock.write_owned().await) }),
    }
}

fn upgrade(guard: OwnedRwLockUpgradableReadGuard<u32>) -> BoxFuture<Held> {
    Box::pin(async { Held::Write(OwnedRwLockUpgradableReadGuard::upgrade(guard).await) })
}

/// When the lock comes to call a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    FirstPoll,
    AnotherWaker,
    /// The writer leaves: a batch is woken.
    Leave,
    /// The writer becomes a reader.
    Downgrade,
    /// Granted, and dropped: the next is woken.
    CancelGranted,
    /// Queued, and dropped; those behind are woken.
    CancelQueued,
    /// An upgrade that has to wait is polled first, then again, then dropped.
    Upgrade,
}

/// How many wait behind.
const CROWDS: &[usize] = if cfg!(miri) { &[2] } else { &[0, 2, 80] };

const MOMENTS: [Moment; 7] = [
    Moment::FirstPoll,
    Moment::AnotherWaker,
    Moment::Leave,
    Moment::Downgrade,
    Moment::CancelGranted,
    Moment::CancelQueued,
    Moment::Upgrade,
];

/// Every method that a shared lock has; nothing here may hang or break it.
fn call_everything(lock: &Shared) {
    let spy = Spy::new();
    drop(format!("{lock:?}"));
    drop(lock.try_read());
    drop(lock.try_write());
    drop(lock.try_upgradable_read().map(RwLockUpgradableReadGuard::try_upgrade));
    let mut futures = KINDS.map(|kind| wait(lock, kind));
    for future in &mut futures {
        match poll(future, &spy) {
            Poll::Ready(Held::Write(guard)) => drop(OwnedRwLockWriteGuard::downgrade(guard)),
            Poll::Ready(Held::Upgradable(guard)) => drop(poll(&mut upgrade(guard), &spy)),
            Poll::Ready(Held::Read { .. }) | Poll::Pending => {}
        }
    }
    drop(futures);
    assert_eq!(spy.alive(), 0);
}

/// A cast, and the writer who keeps it waiting.
struct Scene {
    cast: Cast<RwLock<u32>, dyn Future<Output = Held> + Send>,
    writer: Option<OwnedRwLockWriteGuard<u32>>,
}

impl Scene {
    fn new(deed: (Deed, Call), kind: Kind, crowd: usize) -> Self {
        let lock: Shared = Arc::new(RwLock::new(0));
        let writer = lock.clone().try_write_owned();
        let wait = |lock: &Shared, number| match number {
            0 => wait(lock, kind),
            1 => wait(lock, Kind::Read),
            number => wait(lock, KINDS[(number - 2) % 3]),
        };
        Self { cast: Cast::new(lock, crowd, wait, deed, call_everything), writer }
    }

    /// The victim is an upgrade that waits for a reader.
    fn play_upgrade(&mut self, hostile: &Waker) -> bool {
        let cast = &mut self.cast;
        drop(cast.victim.take());
        self.writer = None;
        let guard = cast.shared.clone().try_upgradable_read_owned().unwrap();
        let _reader = cast.shared.clone().try_read_owned().unwrap();
        cast.victim = Some(upgrade(guard));
        cast.hostile.arm(1);
        let first = cast.poll_victim(hostile);
        let again = cast.poll_victim_with_another(hostile);
        cast.drop_victim() || !first || !again
    }

    /// The hook runs once, at the moment; true if that panicked.
    fn play(&mut self, moment: Moment) -> bool {
        let hostile = self.cast.hostile.waker();
        if moment == Moment::Upgrade {
            let panicked = self.play_upgrade(&hostile);
            self.cast.hostile.arm(0);
            return panicked;
        }
        let cast = &mut self.cast;
        if moment != Moment::FirstPoll {
            cast.queue_victim();
        }
        cast.queue_other();
        cast.queue_crowd();
        if moment == Moment::CancelGranted {
            self.writer = None;
        }
        cast.hostile.arm(1);
        let panicked = match moment {
            Moment::FirstPoll => !cast.poll_victim(&hostile),
            Moment::AnotherWaker => !cast.poll_victim_with_another(&hostile),
            Moment::Leave => panics(|| drop(self.writer.take())),
            Moment::Downgrade => {
                let writer = self.writer.take().unwrap();
                panics(|| drop(OwnedRwLockWriteGuard::downgrade(writer)))
            }
            Moment::CancelGranted | Moment::CancelQueued => cast.drop_victim(),
            Moment::Upgrade => unreachable!("played above"),
        };
        cast.hostile.arm(0);
        panicked
    }

    /// All that are left are served, and nothing is left behind.
    fn settle(mut self, context: &str) {
        self.writer = None;
        let left = self.cast.left();
        self.cast.serve_all(left, |_| (), context);
        assert!(self.cast.shared.try_write().is_some(), "{context}: left locked");
        self.cast.leave(context);
    }
}

#[test]
fn h3_wakers_do_anything() {
    let _dog = watchdog(120);
    let kinds = if cfg!(miri) { &KINDS[2..] } else { &KINDS[..] };
    let is_made = |call| call != Call::WakeByRef;
    every_deed(is_made, |deed, call| {
        let mut done = false;
        for (moment, kind) in
            MOMENTS.into_iter().flat_map(|moment| kinds.iter().map(move |kind| (moment, *kind)))
        {
            for crowd in CROWDS.iter().copied() {
                let context = format!("{deed:?} in {call:?} at {moment:?}, {kind:?}, crowd {crowd}");
                let mut scene = Scene::new((deed, call), kind, crowd);
                let panicked = scene.play(moment);
                done |= scene.cast.was_done(deed, panicked, &context);
                scene.settle(&context);
            }
        }
        done
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NeverPolled,
    Queued,
    Granted,
    Resumed,
}

/// H2: three of every kind in every order, one of them dropped in every state: the others are served, each woken exactly once.
#[test]
fn h2_drop_matrix() {
    let _dog = watchdog(60);
    for order in 0..27 {
        let kinds = [KINDS[order / 9], KINDS[order / 3 % 3], KINDS[order % 3]];
        for state in [State::NeverPolled, State::Queued, State::Granted, State::Resumed] {
            for position in 0..3 {
                let context = format!("{kinds:?}, {position} dropped, {state:?}");
                drop_one(kinds, state, position, &context);
            }
        }
    }
}

fn drop_one(kinds: [Kind; 3], state: State, position: usize, context: &str) {
    let lock: Shared = Arc::new(RwLock::new(0));
    let mut holder = Some(Held::Write(lock.clone().try_write_owned().unwrap()));
    let spies: [Spy; 3] = std::array::from_fn(|_| Spy::new());
    let mut futures = kinds.map(|kind| Some(wait(&lock, kind)));
    for (number, future) in futures.iter_mut().enumerate() {
        if (number, state) != (position, State::NeverPolled) {
            pending(future.as_mut().unwrap(), &spies[number]);
        }
    }
    if matches!(state, State::NeverPolled | State::Queued) {
        futures[position] = None;
        assert_eq!((spies[position].wakes(), spies[position].alive()), (0, 0), "{context}");
    }
    // Holders leave one after the other; a waiter that is granted is polled, but for the one that is dropped instead.
    while let Some(held) = holder.take() {
        drop(held);
        for (number, slot) in futures.iter_mut().enumerate() {
            let Some(future) = slot else { continue };
            if number == position && state == State::Granted && spies[number].wakes() == 1 {
                *slot = None;
            } else if let Poll::Ready(held) = poll(future, &spies[number]) {
                // One holder at a time is enough here: what was held so far goes.
                drop(holder.replace(held));
                if number == position {
                    // S1-28: dropping a finished future is nothing.
                    *slot = None;
                    continue;
                }
                *slot = None;
            }
        }
    }
    assert!(futures.iter().all(Option::is_none), "{context}: a waiter waits for ever");
    for (number, spy) in spies.iter().enumerate() {
        let expected = usize::from(number != position || matches!(state, State::Granted | State::Resumed));
        assert_eq!((spy.wakes(), spy.alive()), (expected, 0), "{context}: waker {number}");
    }
    assert!(lock.try_write().is_some(), "{context}: left locked");
    assert_eq!(Arc::strong_count(&lock), 1, "{context}");
}

/// B133: the clone lets the lock become free, so that the first poll gets it after all; the clone is not needed, and its drop panics.
#[test]
fn b133_a_poll_that_gets_the_lock_and_panics() {
    let _dog = watchdog(30);
    for kind in KINDS {
        let lock: Shared = Arc::new(RwLock::new(0));
        let writer = StdMutex::new(lock.clone().try_write_owned());
        let hostile = Spy::hostile(Call::Clone, move || drop(writer.lock().unwrap().take()));
        hostile.on(Call::Drop, || panic!("a hostile waker"));
        let waker = hostile.waker();
        let mut future = wait(&lock, kind);
        hostile.arm(2);
        assert!(panics(|| poll_with(&mut future, &waker).is_ready()), "{kind:?}");
        assert!(lock.try_write().is_some(), "{kind:?}: lost in a panic");
        drop((future, waker));
        assert_eq!(hostile.alive(), 0);
    }
}

/// The same for an upgrade: the guard that it consumed is still held, and released with the future.
#[test]
fn b133_an_upgrade_that_gets_the_lock_and_panics() {
    let _dog = watchdog(30);
    let lock: Shared = Arc::new(RwLock::new(0));
    let guard = lock.clone().try_upgradable_read_owned().unwrap();
    let reader = StdMutex::new(lock.clone().try_read_owned());
    let hostile = Spy::hostile(Call::Clone, move || drop(reader.lock().unwrap().take()));
    hostile.on(Call::Drop, || panic!("a hostile waker"));
    let waker = hostile.waker();
    let mut future = Box::pin(OwnedRwLockUpgradableReadGuard::upgrade(guard));
    hostile.arm(2);
    assert!(panics(|| poll_with(&mut future, &waker).is_ready()));
    assert!(
        lock.try_read().is_some() && lock.try_upgradable_read().is_none(),
        "an upgradable reader holds it"
    );
    drop(ready(&mut future));
    assert!(lock.try_write().is_some());
    drop((future, waker));
    assert_eq!(hostile.alive(), 0);
}

/// Forgets a future, and remembers where it is.
fn leak<F>(future: Pin<Box<F>>, place: &AtomicPtr<()>) {
    // SAFETY: it is neither moved nor freed.
    let future = Box::into_raw(unsafe { Pin::into_inner_unchecked(future) });
    place.store(future.cast(), Relaxed);
}

/// H6: forgotten futures keep their place, as documented; what is gone is not touched, also when the lock goes first.
#[test]
fn h6_forgotten_futures() {
    let _dog = watchdog(30);
    /// Leak checkers do not mind what a static points to.
    static FORGOTTEN: [AtomicPtr<()>; 3] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 3];
    let spy = Spy::new();
    let lock = Box::new(RwLock::new(0));
    let writer = lock.try_write().unwrap();
    let (mut r, mut w, mut u) =
        (Box::pin(lock.read()), Box::pin(lock.write()), Box::pin(lock.upgradable_read()));
    pending(&mut r, &spy);
    pending(&mut w, &spy);
    pending(&mut u, &spy);
    drop(writer);
    assert_eq!(spy.wakes(), 1, "the reader has it, and keeps it");
    assert!(lock.try_read().is_none() && lock.try_write().is_none());
    leak(r, &FORGOTTEN[0]);
    leak(w, &FORGOTTEN[1]);
    leak(u, &FORGOTTEN[2]);
    drop(lock);
    assert_eq!(spy.alive(), 2, "what was forgotten keeps its waker");
}
