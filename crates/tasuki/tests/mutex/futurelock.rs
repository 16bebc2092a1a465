//! Futurelock (H1, Oxide RFD 609): a lock future that was polled once and is then neither polled nor dropped gets its turn
//! and keeps it, unless its policy is `Revocable` (`revocable.rs`).

use crate::kit::policy::{Known, for_each_policy};
use crate::kit::poll::{pending, poll, ready};
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tasuki::future::Lock;
use tasuki::policy::Bypass;
use tasuki::{Event, Mutex};

/// The program of the RFD. A background task holds the lock; this task waits for it and for a timer, the timer wins, and
/// in that arm the task locks again, while it still keeps the first future.
async fn rfd_609<P: Known>(mutex: &Mutex<u32, P>, timer: &Event, drop_the_loser: bool) {
    let mut first: Option<Pin<Box<Lock<'_, u32, P>>>> = Some(Box::pin(mutex.lock()));
    let mut timer = Box::pin(timer.wait());
    let select = poll_fn(|cx: &mut Context<'_>| {
        if first.as_mut().unwrap().as_mut().poll(cx).is_ready() {
            return Poll::Ready("lock");
        }
        timer.as_mut().poll(cx).map(|()| "timer")
    });
    assert_eq!(select.await, "timer");
    if drop_the_loser {
        first = None;
    }
    *mutex.lock().await += 1;
    drop(first);
}

/// Strict policies wait for themselves; every later poll of the task is in vain. `Lifo` serves the newest first, so the second
/// lock, which queued later, gets its turn; with `Revocable` it takes the turn of the first, at the third poll that finds it unclaimed.
fn rfd_609_is_as_documented<P: Known>() {
    let (mutex, timer, spy) = (Mutex::<u32, P>::with_policy(0), Event::auto(), Spy::new());
    let background = mutex.try_lock().unwrap();
    let mut task = Box::pin(rfd_609(&mutex, &timer, false));
    pending(&mut task, &spy);
    timer.set();
    assert_eq!(spy.wakes(), 1);
    pending(&mut task, &spy);
    drop(background);
    assert_eq!(spy.wakes(), 2, "the wake does come; the task polls the other future");
    if P::NEWEST_FIRST {
        ready(&mut task);
    } else if P::REVOKES {
        for wakes in [3, 4] {
            pending(&mut task, &spy);
            assert_eq!(spy.wakes(), wakes, "it is to be polled again");
        }
        assert!(poll(&mut task, &spy).is_ready());
    } else {
        // The second lock was queued behind the first, which owns the lock or is called for it.
        (0..10).for_each(|_| pending(&mut task, &spy));
        assert_eq!(spy.wakes(), 2);
        // Another task is stuck behind it as well, unless the policy lets newcomers pass.
        let newcomer = poll(&mut Box::pin(mutex.lock()), &Spy::new()).is_ready();
        assert_eq!(newcomer, P::BARGES);
        drop(task);
    }
    assert!(!mutex.is_locked(), "dropping the task frees everything");
    assert!(mutex.try_lock().is_some());
}

/// The cure that the documentation names: drop the future that lost.
fn rfd_609_without_the_loser<P: Known>() {
    let (mutex, timer, spy) = (Mutex::<u32, P>::with_policy(0), Event::auto(), Spy::new());
    let background = mutex.try_lock().unwrap();
    let mut task = Box::pin(rfd_609(&mutex, &timer, true));
    pending(&mut task, &spy);
    timer.set();
    pending(&mut task, &spy);
    drop(background);
    ready(&mut task);
    assert_eq!(*mutex.try_lock().unwrap(), 1);
}

/// The other cure: keep polling it. Also the variant of a set of futures whose wakers differ.
fn snoozed_future_that_is_polled_again<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    let (snoozed, other) = (Spy::new(), Spy::new());
    let guard = mutex.try_lock().unwrap();
    let (mut a, mut b) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    if P::NEWEST_FIRST {
        pending(&mut b, &other);
        pending(&mut a, &snoozed);
    } else {
        pending(&mut a, &snoozed);
        pending(&mut b, &other);
    }
    drop(guard);
    assert_eq!((snoozed.wakes(), other.wakes()), (1, 0));
    (0..10).for_each(|_| pending(&mut b, &other));
    drop(ready(&mut a));
    assert_eq!(other.wakes(), 1);
    drop(ready(&mut b));
}

for_each_policy! {
    rfd_609_is_as_documented
    rfd_609_without_the_loser
    snoozed_future_that_is_polled_again
}

/// `Bypass` while the lock is free: the second lock of the same task is a newcomer and takes it, ahead of the snoozed one.
#[test]
fn bypass_lets_a_newcomer_of_the_same_task_pass() {
    let _dog = watchdog(10);
    let (mutex, spy) = (Mutex::<u32, Bypass<2>>::with_policy(0), Spy::new());
    let guard = mutex.try_lock().unwrap();
    let mut snoozed = Box::pin(mutex.lock());
    pending(&mut snoozed, &spy);
    drop(guard);
    for _ in 0..2 {
        drop(ready(&mut Box::pin(mutex.lock())));
    }
    // The bound is reached: now the snoozed one owns it, and the next newcomer waits.
    pending(&mut Box::pin(mutex.lock()), &spy);
    assert!(mutex.is_locked());
    drop(snoozed);
    assert!(!mutex.is_locked());
}

/// The variant of the event: a signal given to a snoozed wait is not seen until it is polled or dropped.
#[test]
fn snoozed_wait_of_an_auto_event() {
    let _dog = watchdog(10);
    let (event, spy) = (Event::auto(), Spy::new());
    let mut snoozed = Box::pin(event.wait());
    pending(&mut snoozed, &spy);
    let mut other = Box::pin(event.wait());
    pending(&mut other, &spy);
    event.set();
    (0..10).for_each(|_| pending(&mut other, &spy));
    assert_eq!(spy.wakes(), 1);
    drop(snoozed);
    assert_eq!(spy.wakes(), 2);
    ready(&mut other);
}
