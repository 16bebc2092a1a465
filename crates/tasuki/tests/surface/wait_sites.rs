//! Every wait says where in the user's code it was asked for, and where its lock was made: a site inside the crate would tell nothing. A table over all futures of the crate.

#![cfg(all(any(debug_assertions, feature = "inspect"), not(miri)))]

use crate::kit::sources;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tasuki::channel::{self, Channel, oneshot, rendezvous};
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, Mutex, OnceCell, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard, Semaphore, WaitGroup, inspect, runtime, task,
};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future as a task: it waits, and every wait of the task was asked for in this file.
fn waits_here(what: &str, future: impl Future) {
    let mut task = pin!(task::identify(future));
    let id = task.id();
    assert!(poll(task.as_mut()).is_pending(), "{what} was to wait");
    let waits: Vec<_> = inspect::snapshot().waits.into_iter().filter(|wait| wait.task == id).collect();
    assert!(!waits.is_empty(), "{what} is not noted");
    for wait in waits {
        let at = wait.at.unwrap_or_else(|| panic!("{what} has no site"));
        assert!(at.file().ends_with("wait_sites.rs"), "{what} was asked for at {at}");
        if let Some(made) = wait.lock.map(|(_, label)| label.made_at.expect("it has no name")) {
            assert!(made.file().ends_with("wait_sites.rs"), "the lock of {what} was made at {made}");
        }
    }
}

/// Polls a future as a task that holds what it got: every lock of the task was asked for in this file.
fn held_here<T>(what: &str, future: impl Future<Output = T>) {
    let mut task = pin!(task::identify(async {
        let _held = future.await;
        std::future::pending::<()>().await;
    }));
    let id = task.id();
    assert!(poll(task.as_mut()).is_pending());
    let holders = inspect::snapshot().locks.into_iter().flat_map(|lock| lock.holders);
    let mine: Vec<_> = holders.filter(|holder| holder.task == id).collect();
    assert!(!mine.is_empty(), "the holder of {what} is not noted");
    for holder in mine {
        let at = holder.at.unwrap_or_else(|| panic!("{what} has no site"));
        assert!(at.file().ends_with("wait_sites.rs"), "{what} was asked for at {at}");
    }
}

/// A lock that is free, taken without a wait: it is the place of the call that is noted of its holder.
#[test]
fn holders_of_free_locks() {
    let (mutex, lock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
    let (semaphore, reentrant) = (Arc::new(Semaphore::new(1)), Arc::new(ReentrantMutex::new(0)));
    held_here("Mutex::lock", mutex.lock());
    held_here("Mutex::lock_owned", mutex.clone().lock_owned());
    held_here("Mutex::try_lock", async { mutex.try_lock() });
    held_here("RwLock::write", lock.write());
    held_here("RwLock::write_owned", lock.clone().write_owned());
    held_here("RwLock::try_write", async { lock.try_write() });
    held_here("Semaphore::acquire", semaphore.acquire());
    held_here("Semaphore::acquire_owned", semaphore.clone().acquire_owned());
    held_here("Semaphore::try_acquire", async { semaphore.try_acquire().unwrap() });
    held_here("ReentrantMutex::lock", reentrant.lock());
    held_here("ReentrantMutex::lock_owned", reentrant.clone().lock_owned());
    held_here("ReentrantMutex::try_lock", async { reentrant.try_lock().unwrap() });
}

/// Are given the place by the function that calls them, or are no waits: a hand-off waits for nothing, and a task says itself where it waits.
const WITHOUT_A_SITE: [&str; 6] = [
    "condvar/wait_while::wait",
    "condvar::wait_at",
    "guard::hand_off",
    "limited::wait",
    "task::identify",
    "wait::into_single",
];

/// Whatever returns a wait tracks its caller: also what is not in the tables below, such as an `IntoFuture`.
#[test]
fn every_function_that_waits_tracks_its_caller() {
    let found = sources::functions_that_wait();
    assert!(found.len() > 60, "{} are found", found.len());
    let untracked = found.into_iter().filter(|(_, tracked)| !tracked).map(|(name, _)| name);
    // Programs of unit tests have no user.
    let untracked = untracked.filter(|name| !name.contains("random_programs"));
    sources::same(&untracked.collect(), WITHOUT_A_SITE);
}

#[test]
fn locks() {
    let (mutex, lock, semaphore) =
        (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)), Arc::new(Semaphore::new(1)));
    let (_guard, _write, _permit) = (mutex.try_lock(), lock.try_write(), semaphore.try_acquire());
    waits_here("Mutex::lock", mutex.lock());
    waits_here("Mutex::lock_owned", mutex.clone().lock_owned());
    waits_here("RwLock::read", lock.read());
    waits_here("RwLock::write", lock.write());
    waits_here("RwLock::upgradable_read", lock.upgradable_read());
    waits_here("RwLock::read_owned", lock.clone().read_owned());
    waits_here("RwLock::write_owned", lock.clone().write_owned());
    waits_here("RwLock::upgradable_read_owned", lock.clone().upgradable_read_owned());
    waits_here("Semaphore::acquire", semaphore.acquire());
    waits_here("Semaphore::acquire_many", semaphore.acquire_many(1));
    waits_here("Semaphore::acquire_owned", semaphore.clone().acquire_owned());
    waits_here("Semaphore::acquire_many_owned", semaphore.clone().acquire_many_owned(1));
    let lock = RwLock::new(0);
    let (_read, upgradable) = (lock.try_read(), lock.try_upgradable_read().unwrap());
    waits_here("RwLockUpgradableReadGuard::upgrade", RwLockUpgradableReadGuard::upgrade(upgradable));
    let reentrant = Arc::new(ReentrantMutex::new(0));
    let mut holder = Box::pin(task::identify(async {
        let _guard = reentrant.lock().await;
        std::future::pending::<()>().await;
    }));
    assert!(poll(holder.as_mut()).is_pending());
    waits_here("ReentrantMutex::lock", reentrant.lock());
    waits_here("ReentrantMutex::lock_owned", reentrant.clone().lock_owned());
}

/// Locks by every constructor: the place where one was made is that of the call.
#[test]
fn constructors() {
    let mutexes = [Mutex::new(0), Mutex::with_policy(0), Mutex::from(0), Mutex::default()];
    for mutex in &mutexes {
        let _held = mutex.try_lock();
        waits_here("Mutex::lock", mutex.lock());
    }
    for lock in &[RwLock::new(0), RwLock::from(0), RwLock::default()] {
        let _held = lock.try_write();
        waits_here("RwLock::read", lock.read());
    }
    let semaphores: [Semaphore; 2] = [Semaphore::new(0), Semaphore::with_policy(0)];
    semaphores.iter().for_each(|semaphore| waits_here("Semaphore::acquire", semaphore.acquire()));
    for mutex in &[ReentrantMutex::new(0), ReentrantMutex::from(0), ReentrantMutex::default()] {
        let mut holder = Box::pin(task::identify(async {
            let _guard = mutex.lock().await;
            std::future::pending::<()>().await;
        }));
        assert!(poll(holder.as_mut()).is_pending());
        waits_here("ReentrantMutex::lock", mutex.lock());
    }
}

#[test]
fn signals() {
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let (event, barrier, latch, group) = (Event::auto(), Barrier::new(2), Latch::new(1), WaitGroup::new());
    let _member = group.member();
    waits_here("Condvar::wait", async { drop(condvar.wait(mutex.lock().await).await) });
    waits_here("Condvar::wait_while", async {
        drop(condvar.wait_while(mutex.lock().await, |_| true).await);
    });
    waits_here("Event::wait", event.wait());
    waits_here("Barrier::arrive_and_wait", barrier.arrive_and_wait());
    waits_here("Latch::wait", latch.wait());
    waits_here("WaitGroup::wait", group.wait());
    waits_here("sleep", runtime::sleep(Duration::from_secs(600)));
    waits_here("sleep_until", runtime::sleep_until(runtime::now() + Duration::from_secs(600)));
    waits_here("Sleep::reset", async {
        let mut sleep = pin!(runtime::sleep(Duration::ZERO));
        sleep.as_mut().reset(runtime::now() + Duration::from_secs(600));
        sleep.await;
    });
    let (source, mutex) = (CancellationSource::new(), Mutex::new(0));
    let (token, _guard) = (source.token(), mutex.try_lock());
    waits_here("CancellationToken::on_cancel", token.on_cancel());
    waits_here("CancellationToken::on_cancel_owned", token.clone().on_cancel_owned());
    waits_here("run_until_cancelled", token.run_until_cancelled(mutex.lock()));
    waits_here("or_cancelled", mutex.lock().or_cancelled(&token));
    waits_here("timeout", mutex.lock().timeout(Duration::from_secs(600)));
    waits_here("deadline", mutex.lock().deadline(runtime::now() + Duration::from_secs(600)));
}

#[test]
fn once_cells() {
    let cell = OnceCell::<u8>::new();
    let mut running = Box::pin(cell.get_or_init(std::future::pending::<u8>));
    assert!(poll(running.as_mut()).is_pending());
    waits_here("OnceCell::wait", cell.wait());
    waits_here("OnceCell::get_or_init", cell.get_or_init(async || 1));
    waits_here("OnceCell::get_or_try_init", cell.get_or_try_init(async || Ok::<_, ()>(1)));
}

#[test]
fn channels() {
    let (sender, receiver) = channel::bounded::<u8>(1);
    waits_here("Receiver::recv", receiver.recv());
    waits_here("Receiver::recv_many", async { receiver.recv_many(&mut Vec::new(), 1).await });
    waits_here("Receiver::recv_owned", receiver.clone().recv_owned());
    waits_here("Sender::closed", sender.closed());
    sender.try_send(1).unwrap();
    waits_here("Sender::send", sender.send(2));
    waits_here("Sender::reserve", sender.reserve());
    waits_here("Sender::reserve_many", sender.reserve_many(1));
    waits_here("Sender::reserve_owned", sender.clone().reserve_owned());
    let inline = Channel::<u8, 1>::new();
    waits_here("InlineChannel::recv", inline.recv());
    waits_here("InlineChannel::closed", inline.closed());
    inline.try_send(1).unwrap();
    waits_here("InlineChannel::send", inline.send(2));
    let (sender, mut receiver) = oneshot::oneshot::<u8>();
    waits_here("oneshot::Sender::closed", sender.closed());
    waits_here("oneshot::Receiver::recv_mut", receiver.recv_mut());
    waits_here("oneshot::Receiver::recv", receiver.recv());
    let (_sender, receiver) = oneshot::oneshot::<u8>();
    waits_here("oneshot::Receiver", async { receiver.await });
    let (sender, receiver) = rendezvous::rendezvous::<u8>();
    waits_here("rendezvous::Sender::closed", sender.closed());
    waits_here("rendezvous::Sender::send", sender.send(1));
    waits_here("rendezvous::Receiver::recv", receiver.recv());
}
