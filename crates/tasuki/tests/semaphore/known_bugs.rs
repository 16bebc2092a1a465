//! Defects that other semaphores had, as scenarios: each is named after its number in the list of known defects (CONTRIBUTING.md says what these numbers are).

use crate::kit::poll::{panic_of, panics, pending, poll, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::task::Poll;
use tasuki::policy::{Bypass, Fifo, SemaphorePolicy};
use tasuki::{Closed, Semaphore, TryAcquireError};

const MAX: usize = Semaphore::MAX_PERMITS;

/// A cancelled waiter always resumed the next one: too many holders.
#[test]
fn b007_a_cancelled_waiter_wakes_no_task() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let (mut a, mut b) = (Box::pin(semaphore.acquire()), Box::pin(semaphore.acquire()));
    let (spy_a, spy_b) = (Spy::new(), Spy::new());
    pending(&mut a, &spy_a);
    pending(&mut b, &spy_b);
    drop(a);
    assert_eq!((spy_a.wakes(), spy_b.wakes()), (0, 0));
    pending(&mut b, &spy_b);
    drop(held);
    assert_eq!(spy_b.wakes(), 1);
    drop(ready(&mut b).unwrap());
}

/// Release skipped a cancelled head but left it queued.
#[test]
fn b015_a_cancelled_head_does_not_eat_the_permit() {
    fn check<P: SemaphorePolicy>() {
        let semaphore = Semaphore::<P>::with_policy(0);
        let (mut a, mut b) = (Box::pin(semaphore.acquire()), Box::pin(semaphore.acquire()));
        let spy = Spy::new();
        pending(&mut a, &Spy::new());
        pending(&mut b, &spy);
        semaphore.release(1);
        assert_eq!(spy.wakes(), 0);
        drop(a);
        assert_eq!(spy.wakes(), 1);
        drop(ready(&mut b).unwrap());
        assert_eq!(semaphore.available_permits(), 1);
    }
    check::<Fifo>();
    check::<Bypass>();
}

/// Cancelling the head moved the next waiter to the tail.
#[test]
fn b017_a_cancelled_head_keeps_the_order() {
    let semaphore = Semaphore::new(0);
    let mut waiters: Vec<_> = (0..10).map(|_| (Box::pin(semaphore.acquire()), Spy::new())).collect();
    for (future, spy) in &mut waiters {
        pending(future, spy);
    }
    drop(waiters.remove(0));
    for next in 0..waiters.len() {
        semaphore.release(1);
        let woken: Vec<_> = waiters.iter().map(|(_, spy)| spy.wakes()).collect();
        assert!(woken.iter().enumerate().all(|(at, wakes)| *wakes == usize::from(at <= next)), "{woken:?}");
    }
}

/// A wrong count came back on cancel, and "wake, then drop" panicked.
#[test]
fn b019_permits_come_back_from_woken_and_sleeping_waiters() {
    let semaphore = Semaphore::new(2);
    let (one, two) = (semaphore.try_acquire().unwrap(), semaphore.try_acquire().unwrap());
    let (mut p2, mut p3) = (Box::pin(semaphore.acquire()), Box::pin(semaphore.acquire()));
    pending(&mut p2, &Spy::new());
    pending(&mut p3, &Spy::new());
    drop(one);
    drop(p3);
    drop(p2);
    drop(two);
    assert_eq!(semaphore.available_permits(), 2);
}

/// An owned acquire was busy: polled again and again without having been woken.
#[test]
fn b037_two_polls_are_enough() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.clone().try_acquire_owned().unwrap();
    let mut future = Box::pin(semaphore.clone().acquire_owned());
    let spy = Spy::new();
    pending(&mut future, &spy);
    assert_eq!(spy.wakes(), 0);
    drop(held);
    assert_eq!(spy.wakes(), 1);
    assert!(poll(&mut future, &spy).is_ready());
}

/// A waiter acquired without dequeuing itself; its stale node ate the next wake. Here: a called head that takes.
#[test]
fn b051_a_waiter_that_takes_is_out_of_the_queue() {
    let semaphore = Semaphore::<Bypass>::with_policy(0);
    let (mut a, mut c) = (Box::pin(semaphore.acquire()), Box::pin(semaphore.acquire()));
    let spy = Spy::new();
    pending(&mut a, &Spy::new());
    semaphore.release(1);
    let permit = ready(&mut a).unwrap();
    drop(a);
    pending(&mut c, &spy);
    drop(permit);
    assert_eq!(spy.wakes(), 1);
    drop(ready(&mut c).unwrap());
}

/// The drop of a granted acquire returned its permits and woke no waiter.
#[test]
fn b053_the_drop_of_a_grant_wakes_the_next() {
    fn check<P: SemaphorePolicy>() {
        let semaphore = Semaphore::<P>::with_policy(0);
        let (mut a, mut b) = (Box::pin(semaphore.acquire_many(2)), Box::pin(semaphore.acquire()));
        let mut c = Box::pin(semaphore.acquire());
        let spies = [Spy::new(), Spy::new()];
        pending(&mut a, &Spy::new());
        pending(&mut b, &spies[0]);
        pending(&mut c, &spies[1]);
        semaphore.release(2);
        drop(a);
        assert_eq!(spies.each_ref().map(Spy::wakes), [1, 1]);
        ready(&mut b).unwrap().forget();
        drop(ready(&mut c).unwrap());
        assert_eq!(semaphore.available_permits(), 1);
    }
    check::<Fifo>();
    check::<Bypass<1>>();
}

/// Overflow was noticed after the addition.
#[test]
fn b077_an_overflow_changes_nothing() {
    let _dog = watchdog(5);
    let semaphore = Semaphore::new(MAX);
    assert!(panic_of(|| semaphore.release(1)).contains("MAX_PERMITS"));
    assert!(panics(|| semaphore.release(usize::MAX)));
    assert_eq!(semaphore.available_permits(), MAX);
    drop(semaphore.try_acquire().unwrap());
    // The same with a queue, where the permits are kept beside the word.
    let semaphore = Semaphore::new(MAX - 1);
    let mut waiter = Box::pin(semaphore.acquire_many(MAX));
    let spy = Spy::new();
    pending(&mut waiter, &spy);
    assert!(panics(|| semaphore.release(2)));
    assert!(panics(|| semaphore.release(usize::MAX)));
    assert_eq!((spy.wakes(), semaphore.available_permits()), (0, 0));
    semaphore.release(1);
    drop(ready(&mut waiter).unwrap());
    assert_eq!(semaphore.available_permits(), MAX);
    // A closed one is no exception, and stays closed.
    semaphore.close();
    assert!(panics(|| semaphore.release(1)));
    assert_eq!((semaphore.available_permits(), semaphore.is_closed()), (MAX, true));
}

/// Forgetting permits of a closed semaphore opened it again.
#[test]
fn b087_a_closed_semaphore_stays_closed() {
    for size in 0..4 {
        for sub in 0..4 {
            let semaphore = Semaphore::new(size);
            semaphore.close();
            assert_eq!(semaphore.forget_permits(sub), sub.min(size));
            assert!(semaphore.is_closed());
            assert_eq!(semaphore.available_permits(), size.saturating_sub(sub));
            semaphore.release(sub);
            assert!(semaphore.is_closed() && semaphore.try_acquire().is_err());
        }
    }
}

/// The initial number was ignored. (A negative one cannot be written.)
#[test]
fn b093_the_initial_number_counts() {
    for n in [0, 1, 2, 1000, MAX] {
        let semaphore = Semaphore::new(n);
        assert_eq!(semaphore.available_permits(), n);
        assert_eq!(semaphore.try_acquire_many(n).unwrap().num_permits(), n);
        assert_eq!(semaphore.try_acquire_many(n + 1).unwrap_err(), TryAcquireError::NoPermits);
    }
}

/// An acquire that is doomed from the start succeeded now and then: here, of a closed semaphore with permits.
#[test]
fn b097_one_outcome_a_thousand_times() {
    let semaphore = Semaphore::new(1);
    semaphore.close();
    for _ in 0..1000 {
        assert_eq!(ready(&mut Box::pin(semaphore.acquire())).unwrap_err(), Closed);
    }
}

#[test]
fn b103_a_try_on_a_closed_semaphore_says_closed() {
    for permits in 0..3 {
        let semaphore = Semaphore::new(permits);
        semaphore.close();
        assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
        assert_eq!(semaphore.try_acquire_many(9).unwrap_err(), TryAcquireError::Closed);
    }
}

/// `close` woke under the lock of the wait list.
#[test]
fn b129_close_wakes_outside_the_lock() {
    let _dog = watchdog(5);
    let semaphore = Arc::new(Semaphore::new(0));
    let mut waiter = Box::pin(semaphore.acquire());
    let hooked = semaphore.clone();
    let spy = Spy::hostile(Call::Wake, move || {
        assert!(hooked.is_closed() && hooked.try_acquire().is_err());
        hooked.release(1);
        assert_eq!(hooked.forget_permits(1), 1);
        hooked.close();
    });
    pending(&mut waiter, &spy);
    spy.arm(1);
    semaphore.close();
    assert!(spy.fired());
    assert_eq!(ready(&mut waiter).unwrap_err(), Closed);
}

/// Permits of a half-served big request came back on cancel, and the peer was not told.
#[test]
fn b135_a_half_served_request_gives_up() {
    let semaphore = Semaphore::new(1);
    let (mut big, mut small) = (Box::pin(semaphore.acquire_many(2)), Box::pin(semaphore.acquire()));
    let spy = Spy::new();
    pending(&mut big, &Spy::new());
    pending(&mut small, &spy);
    drop(big);
    assert_eq!(spy.wakes(), 1);
    drop(ready(&mut small).unwrap());
    // The same in front of a close.
    let semaphore = Semaphore::new(1);
    let mut big = Box::pin(semaphore.acquire_many(2));
    pending(&mut big, &Spy::new());
    semaphore.close();
    drop(big);
    assert_eq!(semaphore.available_permits(), 1);
}

/// H4: the waker of the last poll is the one that is woken; the others are dropped.
#[test]
fn b033_h4_the_last_waker_counts() {
    let semaphore = Semaphore::new(0);
    let spies = [Spy::new(), Spy::new()];
    let mut future = Box::pin(semaphore.acquire());
    for at in [0, 1, 0, 1] {
        pending(&mut future, &spies[at]);
    }
    semaphore.release(1);
    assert_eq!(spies.each_ref().map(Spy::wakes), [0, 1]);
    assert!(matches!(poll(&mut future, &spies[0]), Poll::Ready(Ok(_))));
    assert_eq!(spies.each_ref().map(Spy::alive), [0, 0]);
}

/// H1: a future that was polled and is then left alone still gets its permits, and keeps them (documented).
#[test]
fn h1_futurelock_is_as_documented() {
    let semaphore = Semaphore::new(0);
    let (mut snoozed, mut second) = (Box::pin(semaphore.acquire()), Box::pin(semaphore.acquire()));
    let spy = Spy::new();
    pending(&mut snoozed, &Spy::new());
    pending(&mut second, &spy);
    semaphore.release(1);
    assert_eq!(spy.wakes(), 0);
    assert!(poll(&mut second, &spy).is_pending());
    drop(snoozed);
    assert_eq!(spy.wakes(), 1);
    drop(ready(&mut second).unwrap());
}
