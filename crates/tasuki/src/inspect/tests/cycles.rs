//! Cycles that are found: over every kind of lock, with the tasks, locks and places of each.

use super::{Actor, tasks, two};
use crate::inspect::{Certainty, Hold, LockKind, deadlocks};
use crate::{Condvar, Mutex, MutexGuard, ReentrantMutex, RwLock, RwLockUpgradableReadGuard, Semaphore};
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::boxed::Box;
use std::string::ToString;
use std::vec::Vec;

#[test]
fn a_task_that_locks_twice() {
    let (me, mutex) = (Actor::new(), Mutex::new(0));
    let _held = me.run(|| mutex.try_lock().unwrap());
    let mut again = Box::pin(mutex.lock());
    me.waits(again.as_mut());
    let found = me.deadlock().expect("it waits for itself");
    assert_eq!((found.certainty, tasks(&found)), (Certainty::Deadlock, std::vec![me.0]));
    assert!(deadlocks().iter().any(|one| tasks(one) == [me.0]));
    drop(again);
    assert!(me.deadlock().is_none(), "a wait that was dropped is over");
}

/// Both locks and all four places are told, and the name where there is one.
#[test]
fn two_locks_in_opposite_order() {
    let (one, two) = two();
    let (a, b) = (Mutex::new(0).named("accounts"), Mutex::new(0));
    let (_held_a, _held_b) = (one.run(|| a.try_lock().unwrap()), two.run(|| b.try_lock().unwrap()));
    let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    one.waits(wants_b.as_mut());
    assert!(one.deadlock().is_none());
    two.waits(wants_a.as_mut());
    let found = one.deadlock().expect("they wait for each other");
    assert_eq!(tasks(&found), [one.0, two.0]);
    assert_eq!(found.hops[1].lock.name, Some("accounts"));
    let text = found.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "deadlock: 2 tasks wait for each other");
    assert!(lines.len() == 3 && lines[2].contains("the mutex `accounts`, which task"), "{text}");
    assert!(lines[1].contains("the mutex made at ") && text.matches("cycles.rs:").count() == 5, "{text}");
}

/// A task whose waits began on two threads is stuck when both are behind it: their records are in the tables of both.
#[test]
fn waits_that_began_on_two_threads() {
    let [me, one, two] = [(); 3].map(|()| Actor::new());
    let (mine, first, second) = (Mutex::new(0), Mutex::new(0), Mutex::new(0));
    let _mine = me.run(|| mine.try_lock().unwrap());
    let _first = one.run(|| first.try_lock().unwrap());
    let _second = two.run(|| second.try_lock().unwrap());
    let (mut wants_first, mut wants_second) = (Box::pin(first.lock()), Box::pin(second.lock()));
    me.waits(wants_first.as_mut());
    std::thread::scope(|scope| _ = scope.spawn(|| me.waits(wants_second.as_mut())));
    let mut one_wants = Box::pin(mine.lock());
    one.waits(one_wants.as_mut());
    assert!(me.deadlock().is_none(), "the other wait may end");
    let mut two_wants = Box::pin(mine.lock());
    two.waits(two_wants.as_mut());
    assert!(me.deadlock().is_some());
    drop(wants_second);
    let found = me.deadlock().expect("the first wait is enough, if it is the only one");
    assert_eq!(tasks(&found), [me.0, one.0]);
}

/// A cycle over every lock that has a holder, with a tail that waits for it.
#[test]
fn a_cycle_over_every_kind_of_lock() {
    let actors: Vec<Actor> = (0..4).map(|_| Actor::new()).collect();
    let (mutex, lock, reentrant) = (Mutex::new(0), RwLock::new(0), ReentrantMutex::new(0));
    let _mutex = actors[0].run(|| mutex.try_lock().unwrap());
    let _read = actors[1].run(|| lock.try_read().unwrap());
    let _again = actors[1].run(|| lock.try_read().unwrap());
    let _reentrant = actors[2].run(|| reentrant.try_lock().unwrap().unwrap());
    let (mut write, mut relock, mut last) =
        (Box::pin(lock.write()), Box::pin(reentrant.lock()), Box::pin(mutex.lock()));
    actors[0].waits(write.as_mut());
    actors[1].waits(relock.as_mut());
    assert!(actors[1].deadlock().is_none());
    actors[2].waits(last.as_mut());
    let mut tail = Box::pin(mutex.lock());
    actors[3].waits(tail.as_mut());
    for actor in &actors {
        let found = actor.deadlock().expect("all are stuck");
        assert_eq!(tasks(&found), [actors[0].0, actors[1].0, actors[2].0]);
        let kinds: Vec<LockKind> = found.hops.iter().map(|hop| hop.lock.kind).collect();
        assert_eq!(kinds, [LockKind::RwLock, LockKind::ReentrantMutex, LockKind::Mutex]);
    }
}

/// One of many readers is enough for a writer; and a reader waits for the writer before it.
#[test]
fn a_reader_behind_a_writer() {
    let (one, two) = two();
    let others: Vec<Actor> = (0..6).map(|_| Actor::new()).collect();
    let lock = RwLock::new(0);
    let _others: Vec<_> = others.iter().map(|other| other.run(|| lock.try_read().unwrap())).collect();
    let first = one.run(|| lock.try_read().unwrap());
    let (mut write, mut second) = (Box::pin(lock.write()), Box::pin(lock.read()));
    two.waits(write.as_mut());
    one.waits(second.as_mut());
    let found = one.deadlock().expect("the second read waits for the writer, and that for the first");
    assert_eq!(tasks(&found), [one.0, two.0]);
    assert_eq!(found.hops[0].holder.hold, Hold::Queued);
    drop(write);
    assert!(one.deadlock().is_none(), "readers do not wait for each other");
    drop(first);
}

/// An upgrade does not wait for its own read, but for another of the same task.
#[test]
fn an_upgrade() {
    let (one, two) = two();
    let lock = RwLock::new(0);
    let upgradable = one.run(|| lock.try_upgradable_read().unwrap());
    let read = two.run(|| lock.try_read().unwrap());
    let mut upgrade = Box::pin(RwLockUpgradableReadGuard::upgrade(upgradable));
    one.waits(upgrade.as_mut());
    assert!(one.deadlock().is_none());
    let mut second = Box::pin(lock.read());
    two.waits(second.as_mut());
    assert_eq!(tasks(&two.deadlock().expect("a read behind the upgrade")), [one.0, two.0]);
    drop((read, second));
}

/// The program of Oxide's RFD 609: granted to a future that is not polled, while its task waits by another.
#[test]
fn futurelock() {
    let (task, background) = two();
    let mutex = Mutex::new(0);
    let held = background.run(|| mutex.try_lock().unwrap());
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    task.waits(first.as_mut());
    task.waits(second.as_mut());
    assert!(task.deadlock().is_none(), "the background task will release it");
    background.run(|| drop(held));
    let found = task.deadlock().expect("the lock is with the first future");
    assert_eq!((found.certainty, found.hops[0].holder.hold), (Certainty::Futurelock, Hold::Unclaimed));
    assert!(found.to_string().contains("has not been polled since"), "{found}");
    // Another task that waits is in it, too, at the moment at which it begins to wait.
    let mut other = Box::pin(mutex.lock());
    background.waits(other.as_mut());
    assert!(background.deadlock().is_some());
    assert!(task.poll(first.as_mut()).is_ready());
    assert!(task.deadlock().is_none(), "the lock was claimed, used and released");
}

/// Suspected where all permits are in the cycle; nothing where one is not.
#[test]
fn permits() {
    let (one, two) = two();
    let (semaphore, mutex) = (Semaphore::new(2), Mutex::new(0));
    let _one = one.run(|| semaphore.try_acquire().unwrap());
    let permit = two.run(|| semaphore.try_acquire().unwrap());
    let _mutex = one.run(|| mutex.try_lock().unwrap());
    let (mut acquire, mut lock) = (Box::pin(semaphore.acquire_many(2)), Box::pin(mutex.lock()));
    one.waits(acquire.as_mut());
    assert!(one.deadlock().is_none(), "the other may release");
    two.waits(lock.as_mut());
    let found = two.deadlock().expect("both wait");
    assert_eq!(found.certainty, Certainty::Suspected);
    drop(permit);
    assert!(one.deadlock().is_some(), "it waits for what it holds");
    drop(acquire);
    // Held by code without an identity: it may release.
    let _unknown = semaphore.try_acquire().unwrap();
    let mut acquire = Box::pin(semaphore.acquire());
    one.waits(acquire.as_mut());
    assert!(one.deadlock().is_none());
}

/// A notified wait waits for the mutex.
#[test]
fn a_condvar_that_was_notified() {
    let (one, two) = two();
    let (mutex, other, condvar) = (Mutex::new(0), Mutex::new(0), Condvar::new());
    let guard = one.run(|| mutex.try_lock().unwrap());
    let _other = one.run(|| other.try_lock().unwrap());
    let mut wait = Box::pin(condvar.wait(guard));
    one.waits(wait.as_mut());
    let held = two.run(|| mutex.try_lock().unwrap());
    let mut lock = Box::pin(other.lock());
    two.waits(lock.as_mut());
    assert!(one.deadlock().is_none(), "it waits for a signal");
    two.run(|| condvar.notify_one());
    one.waits(wait.as_mut());
    assert_eq!(tasks(&one.deadlock().expect("now it waits for the mutex")).len(), 2);
    drop(held);
    assert!(one.deadlock().is_none());
    let _: MutexGuard<'_, i32> = match one.poll(wait.as_mut()) {
        Poll::Ready(guard) => guard,
        Poll::Pending => panic!("it was granted"),
    };
}

/// Chains that are longer than the first question follows are judged, too.
#[test]
fn a_long_chain() {
    let length = if cfg!(miri) { 40 } else { 200 };
    let actors: Vec<Actor> = (0..length).map(|_| Actor::new()).collect();
    let locks: Vec<Mutex<()>> = (0..length).map(|_| Mutex::new(())).collect();
    let _guards: Vec<_> =
        actors.iter().zip(&locks).map(|(actor, lock)| actor.run(|| lock.try_lock().unwrap())).collect();
    let mut waits: Vec<_> = (0..length).map(|n| Box::pin(locks[(n + 1) % length].lock())).collect();
    for n in 0..length - 1 {
        actors[n].waits(waits[n].as_mut());
    }
    assert!(actors[0].deadlock().is_none());
    actors[length - 1].waits(waits[length - 1].as_mut());
    assert_eq!(actors[7].deadlock().expect("the chain is closed").hops.len(), length);
    let mut stranger = pin!(locks[0].lock());
    assert!(
        stranger.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(),
        "without an identity, and without a note"
    );
}
