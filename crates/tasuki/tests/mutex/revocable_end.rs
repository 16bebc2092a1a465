//! `Revocable`: every way in which a revoked wait can end: dropped, by a limit, by a panic of foreign code, as a wait of a condvar.

use super::revocable::{Revoking, granted, lock, revoked, third_look};
use crate::kit::driver::FakeDriver;
use crate::kit::poll::{panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::task::Poll;
use tasuki::runtime::TaskId;
use tasuki::{CancellationSource, Condvar, runtime};

/// A drop in each state gives back what there is.
#[test]
fn h2_drop_in_each_state() {
    let _dog = watchdog(10);
    let mutex = Revoking::with_policy(0);
    let spy = Spy::new();
    let free = |spy: &Spy| !mutex.is_locked() && mutex.try_lock().is_some() && spy.alive() == 0;
    drop(granted(&mutex, &spy));
    assert!(free(&spy), "granted");
    let (snoozed, guard) = revoked(&mutex, &spy);
    drop(snoozed);
    assert!(mutex.is_locked());
    drop(guard);
    assert!(free(&spy), "revoked, and held by its sibling");
    let (snoozed, guard) = revoked(&mutex, &spy);
    drop((guard, snoozed));
    assert!(free(&spy), "revoked, and the lock is free");
    let (mut snoozed, guard) = revoked(&mutex, &spy);
    pending(&mut snoozed, &spy);
    drop((snoozed, guard));
    assert!(free(&spy), "queued again");
    let (mut snoozed, guard) = revoked(&mutex, &spy);
    pending(&mut snoozed, &spy);
    drop((guard, snoozed));
    assert!(free(&spy), "granted again");
    let snoozed = granted(&mutex, &spy);
    let mut noted = lock(&mutex);
    pending(&mut noted, &spy);
    drop((noted, snoozed));
    assert!(free(&spy), "a sibling that has seen the grant");
    let snoozed = granted(&mutex, &spy);
    let mut noted = lock(&mutex);
    pending(&mut noted, &spy);
    drop(snoozed);
    drop(ready(&mut noted));
    drop(noted);
    assert!(free(&spy), "a grant that a sibling has seen");
}

/// A limit ends the wait in each state, with the lock if it was granted.
#[test]
fn limits_in_each_state() {
    let _dog = watchdog(10);
    let (mutex, spy) = (Revoking::with_policy(0), Spy::new());
    let sources = [(); 3].map(|()| CancellationSource::new());
    let tokens = sources.each_ref().map(CancellationSource::token);
    let waiting = |token| {
        let held = mutex.try_lock().unwrap();
        let mut snoozed = Box::pin(mutex.lock().or_cancelled(token));
        pending(&mut snoozed, &spy);
        drop(held);
        snoozed
    };
    let steal = || {
        let mut other = lock(&mutex);
        third_look(&mut other, &spy)
    };
    let mut snoozed = waiting(&tokens[0]);
    sources[0].request_cancel();
    assert!(ready(&mut snoozed).is_ok(), "granted before");
    let mut snoozed = waiting(&tokens[1]);
    let Poll::Ready(guard) = steal() else { panic!("the grant was not revoked") };
    sources[1].request_cancel();
    assert!(ready(&mut snoozed).is_err(), "revoked, and held");
    drop((snoozed, guard));
    assert!(!mutex.is_locked() && mutex.try_lock().is_some());
    let mut snoozed = waiting(&tokens[2]);
    drop(steal());
    sources[2].request_cancel();
    assert!(ready(&mut snoozed).is_ok(), "revoked, and free");
    assert!(!mutex.is_locked() && mutex.try_lock().is_some());
}

/// Owned futures and guards are revoked as borrowed ones, and keep the mutex as long.
#[test]
fn owned_futures() {
    let _dog = watchdog(10);
    let (mutex, spy) = (Arc::new(Revoking::with_policy(0)), Spy::new());
    let held = mutex.clone().try_lock_owned().unwrap();
    let mut snoozed = Box::pin(mutex.clone().lock_owned());
    pending(&mut snoozed, &spy);
    drop(held);
    let mut other = Box::pin(mutex.clone().lock_owned());
    let Poll::Ready(guard) = third_look(&mut other, &spy) else { panic!("the grant was not revoked") };
    drop(other);
    assert_eq!(Arc::strong_count(&mutex), 3);
    let alive = Arc::downgrade(&mutex);
    drop((mutex, guard));
    drop(ready(&mut snoozed));
    drop(snoozed);
    assert_eq!(alive.strong_count(), 0);
}

/// The wake by which a waiter asks to be polled again panics, at its first poll and at a later one: it is queued, and can be polled or dropped.
#[test]
fn the_wake_of_the_own_task_panics() {
    let _dog = watchdog(10);
    for is_dropped in [false, true] {
        for is_newcomer in [false, true] {
            let mutex = Revoking::with_policy(0);
            let spy = Spy::hostile(Call::WakeByRef, || panic!("a hostile waker"));
            let held = mutex.try_lock().unwrap();
            let (mut snoozed, mut other) = (lock(&mutex), lock(&mutex));
            pending(&mut snoozed, &spy);
            if !is_newcomer {
                pending(&mut other, &spy);
            }
            drop(held);
            spy.arm(1);
            assert!(panics(|| poll(&mut other, &spy).is_ready()));
            if is_dropped {
                drop(other);
                drop(ready(&mut snoozed));
            } else {
                pending(&mut other, &spy);
                assert!(poll(&mut other, &spy).is_ready(), "the look counts");
                drop(other);
            }
            drop(snoozed);
            assert!(!mutex.is_locked() && mutex.try_lock().is_some());
            assert_eq!(spy.alive(), 0);
        }
    }
}

/// Wakers panic when they are dropped, in the poll that takes the grant over and in the poll of a revoked waiter that takes the free lock: the lock is not lost.
#[test]
fn a_drop_panics_while_the_lock_is_taken() {
    let _dog = watchdog(10);
    for is_revoked in [false, true] {
        let mutex = Revoking::with_policy(0);
        let (spy, hostile) = (Spy::new(), Spy::hostile(Call::Drop, || panic!("a hostile waker")));
        let driver = FakeDriver { task: Some(TaskId::fresh()), ..FakeDriver::new() };
        let take = |spy: &Spy| {
            let waker = spy.waker();
            let (mut snoozed, guard) = if is_revoked {
                let (snoozed, guard) = runtime::enter(&driver, || revoked(&mutex, &self::Spy::new()));
                (snoozed, Some(guard))
            } else {
                (runtime::enter(&driver, || granted(&mutex, &self::Spy::new())), None)
            };
            drop(guard);
            let mut other = lock(&mutex);
            let future = if is_revoked { &mut snoozed } else { &mut other };
            if !is_revoked {
                (0..2).for_each(|_| {
                    runtime::enter(&driver, || assert!(poll_with(future, &waker).is_pending()));
                });
            }
            spy.arm(1);
            assert!(panics(|| runtime::enter(&driver, || poll_with(future, &waker).is_ready())));
            spy.arm(0);
            assert!(mutex.is_locked(), "it is the panicked future's");
            drop((other, snoozed));
            assert!(!mutex.is_locked() && mutex.try_lock().is_some(), "the lock was lost in a panic");
        };
        take(&hostile);
        assert_eq!((spy.alive(), hostile.alive()), (0, 0));
    }
}

/// A wait on a condvar that owns the mutex, and is not polled, is revoked for a lock of the same task; and the other way round.
#[test]
fn waits_of_a_condvar() {
    let _dog = watchdog(10);
    for condvar_is_snoozed in [true, false] {
        let (mutex, condvar, spy) = (Revoking::with_policy(0), Condvar::new(), Spy::new());
        let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
        pending(&mut wait, &spy);
        let held = mutex.try_lock().unwrap();
        let mut other = lock(&mutex);
        if !condvar_is_snoozed {
            pending(&mut other, &spy);
        }
        condvar.notify_one();
        // It is called, and goes to the queue of the mutex.
        pending(&mut wait, &spy);
        if condvar_is_snoozed {
            pending(&mut other, &spy);
        }
        drop(held);
        let shows = |phase: &str, of: &dyn std::fmt::Debug| {
            let text = format!("{of:?}");
            assert!(text.contains(&format!("phase: {phase}")), "{text}");
        };
        if condvar_is_snoozed {
            shows("Granted", &wait);
            assert!(third_look(&mut other, &spy).is_ready());
            shows("Revoked", &wait);
            drop(ready(&mut wait));
        } else {
            assert!(third_look(&mut wait, &spy).is_ready());
            drop(ready(&mut other));
        }
        drop((wait, other));
        assert!(!mutex.is_locked());
        assert_eq!(spy.alive(), 0);
    }
}

/// A wait that another task has moved to the mutex's queue is revoked for a lock of its own task that has another waker, as in a set of futures.
#[test]
fn a_moved_wait_is_of_its_task() {
    let (mutex, condvar, [first_spy, spy, other_spy]) =
        (Revoking::with_policy(0), Condvar::new(), Spy::many());
    let task = FakeDriver::of(TaskId::fresh());
    let mut first = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    pending(&mut first, &first_spy);
    let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    runtime::enter(&task, || pending(&mut wait, &spy));
    condvar.notify_all();
    drop(ready(&mut first));
    let mut other = lock(&mutex);
    runtime::enter(&task, || assert!(third_look(&mut other, &other_spy).is_ready()));
    drop(ready(&mut wait));
}

/// A task waits for a condvar and keeps a lock future, which is granted meanwhile. Another waiter that is notified with it does not move it behind that grant without a word: its task is woken, and takes the lock over.
#[test]
fn a_wait_that_is_notified_behind_a_grant_of_its_task() {
    let _dog = watchdog(10);
    let (mutex, condvar, [first_spy, spy]) = (Revoking::with_policy(0), Condvar::new(), Spy::many());
    let mut first = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    pending(&mut first, &first_spy);
    let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    pending(&mut wait, &spy);
    let held = mutex.try_lock().unwrap();
    let mut kept = lock(&mutex);
    pending(&mut kept, &spy);
    drop(held);
    assert_eq!(spy.wakes(), 1, "the lock is granted to what is kept");
    pending(&mut wait, &spy);
    condvar.notify_all();
    pending(&mut first, &first_spy);
    for wakes in [2, 3, 4] {
        assert_eq!(spy.wakes(), wakes, "it is to be polled again");
        assert_eq!(poll(&mut wait, &spy).is_ready(), wakes == 4);
    }
    drop(ready(&mut first));
    drop(ready(&mut kept));
}

/// A revoked wait of a condvar that is dropped passes its notification on.
#[test]
fn a_revoked_wait_of_a_condvar_is_dropped() {
    let _dog = watchdog(10);
    let (mutex, condvar, [spy, stranger]) = (Revoking::with_policy(0), Condvar::new(), Spy::many());
    let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    pending(&mut wait, &spy);
    let mut next = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    pending(&mut next, &stranger);
    let held = mutex.try_lock().unwrap();
    condvar.notify_one();
    pending(&mut wait, &spy);
    let mut other = lock(&mutex);
    pending(&mut other, &spy);
    drop(held);
    assert!(third_look(&mut other, &spy).is_ready());
    drop(wait);
    assert_eq!(stranger.wakes(), 1);
    drop(ready(&mut next));
}

/// A sibling that has seen a grant is polled with another waker, and the old one panics when it is dropped: its task is woken all the same, to look again.
#[test]
fn a_sibling_whose_old_waker_panics_looks_again() {
    let (mutex, spy, task) = (Revoking::with_policy(0), Spy::new(), FakeDriver::of(TaskId::fresh()));
    let hostile = Spy::hostile(Call::Drop, || panic!("a hostile waker"));
    runtime::enter(&task, || {
        let mut kept = granted(&mutex, &Spy::new());
        let mut sibling = lock(&mutex);
        pending(&mut sibling, &hostile);
        hostile.arm(1);
        assert!(panics(|| poll(&mut sibling, &spy).is_ready()));
        assert_eq!(spy.wakes(), 1, "nothing else makes it look again");
        drop(ready(&mut sibling));
        drop(ready(&mut kept));
    });
    assert!(!mutex.is_locked());
}
