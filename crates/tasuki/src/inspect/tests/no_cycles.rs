//! Programs in which no deadlock may be reported: limits, signals, revoked grants, guards that moved, code without an identity.

use super::{Actor, two};
use crate::catch_panic::catch;
use crate::inspect::waits::unrecorded;
use crate::inspect::{self, Certainty, LockSnapshot, check_cycle};
use crate::runtime::sleep;
use crate::{CancellationSource, Event, Mutex, RwLock, Semaphore};
use alloc::sync::Arc;
use core::future::Future;
use core::task::{Context, Poll, Waker};
use std::boxed::Box;
use std::time::Duration;

/// A grant that was revoked is its sibling's, and the revoked future waits for nothing until it is polled again.
#[test]
fn a_revoked_grant_is_no_deadlock() {
    let (task, background) = two();
    let mutex = Mutex::<_, crate::policy::Revocable>::with_policy(0);
    let held = background.run(|| mutex.try_lock().unwrap());
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    task.waits(first.as_mut());
    task.waits(second.as_mut());
    background.run(|| drop(held));
    assert!(task.deadlock().is_some(), "until the third poll that finds it");
    task.waits(second.as_mut());
    task.waits(second.as_mut());
    let Poll::Ready(guard) = task.poll(second.as_mut()) else { panic!("the grant was not revoked") };
    assert!(task.deadlock().is_none(), "the first future is in no queue");
    task.waits(first.as_mut());
    assert!(task.deadlock().is_some(), "it waits for what its task holds");
    task.run(|| drop(guard));
    assert!(task.poll(first.as_mut()).is_ready());
    assert!(task.deadlock().is_none());
}

/// A revoked future that its task does not poll is in no queue: it hides no deadlock of the task. Strict mode judges in the middle of a poll, which may come to it yet.
#[test]
fn a_revoked_future_hides_no_deadlock() {
    let (task, other) = two();
    let (mutex, plain) = (Mutex::<_, crate::policy::Revocable>::with_policy(0), Mutex::new(0));
    let _plain = other.run(|| plain.try_lock().unwrap());
    let held = task.run(|| mutex.try_lock().unwrap());
    let (mut kept, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    task.waits(kept.as_mut());
    task.waits(second.as_mut());
    task.run(|| drop(held));
    task.waits(second.as_mut());
    task.waits(second.as_mut());
    let Poll::Ready(guard) = task.poll(second.as_mut()) else { panic!("the grant was not revoked") };
    let (mut one, mut two) = (Box::pin(plain.lock()), Box::pin(mutex.lock()));
    task.waits(one.as_mut());
    other.waits(two.as_mut());
    assert_eq!(task.deadlock().expect("the revoked future ends nothing").hops.len(), 2);
    assert!(catch(|| check_cycle(task.number())).is_ok(), "the poll that runs may poll it");
    task.waits(kept.as_mut());
    assert!(task.deadlock().is_some() && catch(|| check_cycle(task.number())).is_err(), "queued again");
    drop(guard);
}

/// A wait that ends by itself is in no cycle, nor is a task that has one.
#[test]
fn limits_sleeps_and_signals() {
    let (me, source, mutex, event) = (Actor::new(), CancellationSource::new(), Mutex::new(0), Event::auto());
    let token = source.token();
    let _held = me.run(|| mutex.try_lock().unwrap());
    let mut limited = Box::pin(mutex.lock().or_cancelled(&token));
    me.waits(limited.as_mut());
    assert!(me.deadlock().is_none());
    drop(limited);
    let mut lock = Box::pin(mutex.lock());
    me.waits(lock.as_mut());
    assert!(me.deadlock().is_some());
    let mut time = Box::pin(sleep(Duration::from_secs(3600)));
    me.waits(time.as_mut());
    assert!(me.deadlock().is_none(), "the sleep ends");
    drop(time);
    let mut signal = Box::pin(event.wait());
    me.waits(signal.as_mut());
    assert!(me.deadlock().is_none(), "the signal may come");
    drop(signal);
    assert!(me.deadlock().is_some());
}

/// A guard that is used by another task is that task's; one that is dropped elsewhere is gone; one that is forgotten stays.
#[test]
fn guards_that_are_sent_dropped_elsewhere_and_forgotten() {
    let (one, two) = two();
    let (a, b) = (Arc::new(Mutex::new(0)), Mutex::new(0));
    let _held_b = two.run(|| b.try_lock().unwrap());
    let mut sent = one.run(|| a.clone().try_lock_owned().unwrap());
    let other = Actor::new();
    other.run(|| *sent += 1);
    let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    one.waits(wants_b.as_mut());
    two.waits(wants_a.as_mut());
    assert!(one.deadlock().is_none(), "the guard is with another task");
    // Used without an identity: no task is known to have it.
    *sent += 1;
    assert!(one.deadlock().is_none());
    one.run(|| *sent += 1);
    assert!(one.deadlock().is_some());
    drop(sent);
    assert!(one.deadlock().is_none(), "granted to the second task, which has only to be polled");
    let claimed = two.poll(wants_a.as_mut());
    let Poll::Ready(guard) = claimed else { panic!("it was granted") };
    core::mem::forget(guard);
    one.run(|| drop(wants_b));
    let mut again = Box::pin(a.lock());
    two.waits(again.as_mut());
    assert!(two.deadlock().is_some(), "a forgotten guard is never released");
}

/// A guard that code without an identity uses keeps its slot: another holder gets another.
#[test]
fn a_holder_without_an_identity_keeps_its_slot() {
    let (one, two) = two();
    let lock = RwLock::new(0);
    let first = one.run(|| lock.try_read().unwrap());
    assert_eq!(*first, 0, "used without an identity");
    let _second = two.run(|| lock.try_read().unwrap());
    drop(first);
    let mut write = Box::pin(lock.write());
    two.waits(write.as_mut());
    assert!(two.deadlock().is_some(), "its read was forgotten with that of the other");
    drop(write);
    // Claimed without an identity: the same.
    let semaphore = Semaphore::new(2).named("claimed without an identity");
    let _held = one.run(|| semaphore.try_acquire().unwrap());
    let permit = one.run(|| semaphore.try_acquire().unwrap());
    let mut acquire = Box::pin(semaphore.acquire());
    two.waits(acquire.as_mut());
    drop(permit);
    let claimed = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(claimed.is_ready(), "polled without an identity");
    let snapshot = inspect::snapshot();
    let is_it = |lock: &&LockSnapshot| lock.label.name == Some("claimed without an identity");
    let found = snapshot.locks.iter().find(is_it).expect("it is used");
    assert_eq!((found.holders.len(), found.unknown_holders), (1, 1));
    let mut again = Box::pin(semaphore.acquire());
    one.waits(again.as_mut());
    assert!(one.deadlock().is_none(), "the other permit may be released");
    drop(claimed);
}

/// In strict mode the wait that closes a cycle panics, and leaves nothing behind. (The switch is one of the process: `tests/process/self_deadlock.rs` has the tests of what other tasks see.)
#[test]
fn a_wait_that_closes_a_cycle_is_found_when_it_begins() {
    let (one, two) = two();
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    let (_held_a, held_b) = (one.run(|| a.try_lock().unwrap()), two.run(|| b.try_lock().unwrap()));
    let check = |actor: Actor| catch(|| check_cycle(actor.number())).is_err();
    let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    one.waits(wants_b.as_mut());
    assert!(!check(one));
    two.waits(wants_a.as_mut());
    assert!(check(one) && check(two));
    let tail = Actor::new();
    let mut waits = Box::pin(a.lock());
    tail.waits(waits.as_mut());
    assert!(!check(tail), "it closes nothing");
    drop((wants_b, held_b));
    assert!(!check(two));
}

/// A task has had a wait for which there was no record, and may go on by it: its cycle is only suspected, and strict mode does not panic.
#[test]
fn a_wait_without_a_record_is_a_doubt() {
    let (task, mutex) = (Actor::new(), Mutex::new(0));
    let _held = task.run(|| mutex.try_lock().unwrap());
    let mut wait = Box::pin(mutex.lock());
    task.waits(wait.as_mut());
    let certainty = || task.deadlock().map(|deadlock| deadlock.certainty);
    assert_eq!(certainty(), Some(Certainty::Deadlock));
    unrecorded::note(task.number());
    assert_eq!(certainty(), Some(Certainty::Suspected));
    assert!(catch(|| check_cycle(task.number())).is_ok());
    unrecorded::forget(task.number());
}

/// A lock at the address of another is another; so is the same lock that was moved.
#[test]
fn a_forgotten_wait_of_a_lock_that_is_gone() {
    let (one, two) = two();
    let mutex = Mutex::new(0);
    one.run(|| core::mem::forget(mutex.try_lock()));
    {
        let mut wait = Box::pin(mutex.lock());
        two.waits(wait.as_mut());
        core::mem::forget(wait);
    }
    let moved = Box::new(mutex);
    let mut again = Box::pin(moved.lock());
    one.waits(again.as_mut());
    assert!(one.deadlock().is_some(), "the holder went with the lock");
    drop(again);
    drop(moved);
    assert!(one.deadlock().is_none() && two.deadlock().is_none());
}
