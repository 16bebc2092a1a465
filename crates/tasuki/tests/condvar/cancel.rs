//! Waits on a condvar that are cancelled by a drop, a limit or a panic, in every state: what becomes of the notification.
//! B003, B007, B025, B035, B133, H2, H6.

use crate::kit::driver::Limits;
use crate::kit::fixture::{Site, Waiting};
use crate::kit::poll::{catch, panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{CancellationSource, Cancelled, Condvar, Elapsed, Mutex, runtime};

/// Where a waiter is when it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    NeverPolled,
    Waiting,
    /// Notified, behind a waiter that is called.
    Notified,
    Called,
    /// In the queue of the mutex.
    Moved,
    Granted,
    Resumed,
}

const PLACES: [Place; 7] = [
    Place::NeverPolled,
    Place::Waiting,
    Place::Notified,
    Place::Called,
    Place::Moved,
    Place::Granted,
    Place::Resumed,
];

/// H2, B007: dropped in each place: a `notify_one` from which no waiter came back goes to the next, a `notify_all` does not; no waiter is
/// woken who was not notified.
fn drop_in<P: Policy>(place: Place, by_all: bool) {
    let context = format!("{place:?}, by all: {by_all}, {}", std::any::type_name::<P>());
    let (site, spies) = (Site::<P>::new(), Spy::many::<3>());
    let notify = || if by_all { site.condvar.notify_all() } else { site.condvar.notify_one() };
    if place == Place::NeverPolled {
        drop(site.condvar.wait(site.mutex.try_lock().unwrap()));
        assert!(!site.mutex.is_locked());
        return;
    }
    // A waiter that is called first, and is not to be polled, if that is the place behind.
    let mut before = (place == Place::Notified).then(|| site.wait(&spies[2]));
    let mut victim = site.wait(&spies[0]);
    if before.is_some() {
        site.condvar.notify_one();
    }
    let late = Place::Waiting;
    if place != late {
        notify();
    }
    // Not there at the time of the notification.
    let mut next = site.wait(&spies[1]);
    let held = matches!(place, Place::Moved | Place::Granted).then(|| site.mutex.try_lock().unwrap());
    if matches!(place, Place::Moved | Place::Granted) {
        pending(&mut victim, &spies[0]);
    }
    if place == Place::Granted {
        drop(held);
        // With `Bypass` it is called by the mutex too, and has it when it looks.
        drop(victim);
    } else if place == Place::Resumed {
        drop(ready(&mut victim));
        drop(victim);
    } else {
        drop(victim);
        drop(held);
    }
    if let Some(before) = &mut before {
        drop(ready(before));
    }
    let passes_on = !by_all && !matches!(place, Place::Waiting | Place::Resumed);
    assert_eq!(poll(&mut next, &Spy::new()).is_ready(), passes_on, "{context}");
    drop(next);
    assert!(!site.mutex.is_locked(), "{context}: left locked");
    assert!(spies.iter().all(|spy| spy.alive() == 0), "{context}: wakers are left");
}

#[test]
fn h2_drop_matrix() {
    let _dog = watchdog(10);
    for place in PLACES {
        for by_all in [false, true] {
            drop_in::<Fifo>(place, by_all);
            drop_in::<Lifo>(place, by_all);
            drop_in::<Bypass<1>>(place, by_all);
            drop_in::<Bypass<0>>(place, by_all);
            drop_in::<Revocable>(place, by_all);
        }
    }
}

/// A notification is passed on through a whole chain of cancelled waiters.
#[test]
fn a_chain_of_cancels_passes_on() {
    let _dog = watchdog(30);
    let (site, spies) = (Site::<Fifo>::new(), Spy::many::<50>());
    let mut waiting: Vec<_> = spies.iter().map(|spy| Some(site.wait(spy))).collect();
    site.condvar.notify_one();
    for (number, wait) in waiting.iter_mut().enumerate().take(49) {
        assert_eq!(spies[number].wakes(), 1);
        *wait = None;
    }
    assert_eq!(spies[49].wakes(), 1);
    drop(ready(waiting[49].as_mut().unwrap()));
}

/// B035: a limit that ends a wait which was notified passes the notification on, and gives no guard.
#[test]
fn b035_a_limit_loses_no_notification() {
    let _dog = watchdog(30);
    let (site, spies, source) = (Site::<Fifo>::new(), Spy::many::<2>(), CancellationSource::new());
    let token = source.token();
    for place in [Place::Called, Place::Moved, Place::Granted] {
        let source = CancellationSource::new();
        let token = source.token();
        let mut limited = Box::pin(site.condvar.wait(site.mutex.try_lock().unwrap()).or_cancelled(&token));
        pending(&mut limited, &spies[0]);
        let mut other = site.wait(&spies[1]);
        let held = site.mutex.try_lock().unwrap();
        site.condvar.notify_one();
        if place != Place::Called {
            pending(&mut limited, &spies[0]);
        }
        if place == Place::Granted {
            drop(held);
            source.request_cancel();
            assert!(ready(&mut limited).is_ok(), "it was granted");
            pending(&mut other, &spies[1]);
            continue;
        }
        source.request_cancel();
        assert!(matches!(ready(&mut limited), Err(Cancelled)));
        drop(held);
        drop(ready(&mut other));
    }
    source.request_cancel();
    let mut limited = Box::pin(site.condvar.wait(site.mutex.try_lock().unwrap()).or_cancelled(&token));
    assert!(matches!(ready(&mut limited), Err(Cancelled)), "before the first poll");
    assert!(!site.mutex.is_locked(), "it lets go at once, and not when it is dropped");
}

#[test]
#[cfg_attr(miri, ignore = "the timer thread never ends")]
fn a_timeout_gives_no_guard_back() {
    let _dog = watchdog(60);
    let site = Site::<Fifo>::new();
    let wait = site.condvar.wait(site.mutex.try_lock().unwrap()).timeout(Duration::from_millis(5));
    assert_eq!(wait.block().unwrap_err(), Elapsed);
    assert!(!site.mutex.is_locked());
    let wait = site.condvar.wait_while(site.mutex.try_lock().unwrap(), |n| *n == 0);
    assert_eq!(wait.deadline(Instant::now()).block().unwrap_err(), Elapsed);
    assert!(!site.mutex.is_locked());
}

/// B025: what ends one wait does not end the next.
#[test]
fn b025_a_token_ends_its_own_wait_only() {
    let _dog = watchdog(30);
    let (site, spy, source) = (Site::<Fifo>::new(), Spy::new(), CancellationSource::new());
    let token = source.token();
    let mut limited = Box::pin(site.condvar.wait(site.mutex.try_lock().unwrap()).or_cancelled(&token));
    pending(&mut limited, &spy);
    site.condvar.notify_one();
    let guard = ready(&mut limited).unwrap();
    let mut next = Box::pin(site.condvar.wait(guard));
    pending(&mut next, &spy);
    source.request_cancel();
    pending(&mut next, &spy);
    assert_eq!(spy.wakes(), 1);
}

/// A limit on a wait for a condition: the guard, if the condition has come; else nothing.
#[test]
fn a_limited_wait_while() {
    let _dog = watchdog(30);
    let site = Site::<Fifo>::new();
    for satisfied in [false, true] {
        let (spy, source) = (Spy::new(), CancellationSource::new());
        let token = source.token();
        *site.mutex.try_lock().unwrap() = 0;
        let wait = site.condvar.wait_while(site.mutex.try_lock().unwrap(), |n| *n == 0);
        let mut wait = Box::pin(wait.or_cancelled(&token));
        pending(&mut wait, &spy);
        *site.mutex.try_lock().unwrap() = u32::from(satisfied);
        site.condvar.notify_one();
        source.request_cancel();
        assert_eq!(ready(&mut wait).is_ok(), satisfied);
        assert!(!site.mutex.is_locked());
        assert_eq!(spy.alive(), 0);
    }
}

/// H6: a wait that was polled and forgotten has ended its borrow of the mutex, and is still in the list. A notification after the mutex
/// is gone, or has moved, or another is in its place, touches only what is there.
#[test]
fn h6_a_forgotten_wait_outlives_its_mutex() {
    let _dog = watchdog(30);
    /// Leak checkers do not mind what a static points to.
    static FORGOTTEN: [AtomicPtr<()>; 6] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 6];
    let forget = |wait: Waiting<'_, Fifo>, at: usize| {
        // SAFETY: it is neither moved nor freed.
        let wait = Box::into_raw(unsafe { Pin::into_inner_unchecked(wait) });
        FORGOTTEN[at].store(wait.cast(), Relaxed);
    };
    let spy = Spy::new();
    for (at, all) in [(0, false), (2, true)] {
        let condvar = Condvar::new();
        for number in 0..2 {
            let mutex = Box::new(Mutex::new(0_u32));
            let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
            // The second finds the first in the list, with a mutex that is gone: perhaps it is at the same place.
            if catch(|| poll(&mut wait, &spy).is_pending()).is_some() {
                forget(wait, at + number);
            }
        }
        if all {
            condvar.notify_all();
        }
        condvar.notify_one();
        condvar.notify_one();
    }
    // The mutex moves while a forgotten wait has it.
    let condvar = Condvar::new();
    let mutex = Box::new(Mutex::new(0_u32));
    let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    pending(&mut wait, &spy);
    forget(wait, 4);
    let moved = *mutex;
    condvar.notify_one();
    condvar.notify_all();
    assert!(!moved.is_locked());
}

/// B133: a waker that panics when it is dropped, in each place: the notification goes on all the same.
#[test]
fn b133_a_panicking_drop_passes_on() {
    let _dog = watchdog(10);
    for place in [Place::Waiting, Place::Notified, Place::Moved] {
        let (site, spies) = (Site::<Fifo>::new(), Spy::many::<2>());
        let hostile = Spy::hostile(Call::Drop, || panic!("a hostile waker"));
        // Notified and not called: with another before it that is notified.
        let before = if place == Place::Notified { 2 } else { 0 };
        let mut first: Vec<_> = (0..before).map(|_| site.wait(&spies[0])).collect();
        site.condvar.notify_all();
        let mut victim = site.wait(&hostile);
        let mut next = site.wait(&spies[1]);
        let held = site.mutex.try_lock().unwrap();
        if place != Place::Waiting {
            site.condvar.notify_one();
        }
        if place == Place::Moved {
            pending(&mut victim, &hostile);
        }
        hostile.arm(1);
        assert!(panics(|| drop(victim)), "{place:?}");
        drop(held);
        for first in &mut first {
            drop(ready(first));
        }
        assert_eq!(poll(&mut next, &spies[1]).is_ready(), place != Place::Waiting, "{place:?}");
        drop(next);
        assert!(!site.mutex.is_locked());
        assert_eq!(hostile.alive(), 0);
    }
}

/// The unlock of the first poll wakes a waiter whose waker panics: the wait is queued by then, and can be cancelled or go on.
#[test]
fn b133_a_panic_in_the_unlock_of_the_first_poll() {
    let _dog = watchdog(30);
    for goes_on in [false, true] {
        let (site, spy) = (Site::<Fifo>::new(), Spy::new());
        let hostile = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
        let mut wait = Box::pin(site.condvar.wait(site.mutex.try_lock().unwrap()));
        let mut locker = Box::pin(site.mutex.lock());
        pending(&mut locker, &hostile);
        hostile.arm(1);
        assert!(panics(|| poll(&mut wait, &spy).is_ready()));
        drop(ready(&mut locker));
        if goes_on {
            site.condvar.notify_one();
            drop(ready(&mut wait));
        }
        drop(wait);
        assert!(!site.mutex.is_locked());
        assert_eq!((spy.alive(), hostile.alive()), (0, 0));
    }
}

/// B133: a waiter that is called cannot clone its waker: it stays called, and passes the call on if it is dropped.
#[test]
fn b133_a_panicking_clone_of_the_called() {
    let _dog = watchdog(30);
    for goes_on in [false, true] {
        let (site, spies) = (Site::<Fifo>::new(), Spy::many::<2>());
        let hostile = Spy::hostile(Call::Clone, || panic!("a hostile waker"));
        let (mut a, mut b) = (site.wait(&spies[0]), site.wait(&spies[1]));
        site.condvar.notify_all();
        let waker = hostile.waker();
        hostile.arm(1);
        assert!(panics(|| poll_with(&mut a, &waker).is_ready()));
        if goes_on {
            drop(ready(&mut a));
        }
        drop(a);
        assert_eq!(spies[1].wakes(), 1);
        drop(ready(&mut b));
        drop(waker);
        assert_eq!(hostile.alive(), 0);
    }
}

/// B035: a notification that came to a wait whose time was over is another's.
#[test]
fn a_notification_at_the_last_moment_goes_on() {
    let _dog = watchdog(30);
    let (mutex, condvar, limits) = (Mutex::new(0), Condvar::new(), Limits::new());
    let spies = Spy::many::<2>();
    let mut limited = Box::pin(condvar.wait(mutex.try_lock().unwrap()).deadline(limits.deadline()));
    runtime::enter(&limits.driver, || pending(&mut limited, &spies[0]));
    let mut other = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    pending(&mut other, &spies[1]);
    // Called, and the time is over; and the mutex is not to be had.
    let held = mutex.try_lock().unwrap();
    condvar.notify_one();
    limits.end();
    assert!(ready(&mut limited).is_err());
    drop(held);
    drop(ready(&mut other));
    assert!(!mutex.is_locked());
}

/// B133: it came back with a `notify_one`, and its waker panics when the limit lets go of it: the notification is another's.
#[test]
fn a_notification_is_not_lost_in_a_panic() {
    let _dog = watchdog(30);
    for all in [false, true] {
        let (mutex, condvar, limits) = (Mutex::new(0), Condvar::new(), Limits::new());
        let (hostile, calm) = (Spy::hostile(Call::Drop, || panic!("a hostile waker")), Spy::new());
        let mut limited = Box::pin(condvar.wait(mutex.try_lock().unwrap()).or_cancelled(&limits.token));
        pending(&mut limited, &hostile);
        if all {
            condvar.notify_all();
        } else {
            condvar.notify_one();
        }
        let mut other = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
        pending(&mut other, &calm);
        hostile.arm(1);
        // The limit has the hostile waker still.
        assert!(panics(|| poll(&mut limited, &calm).is_ready()));
        assert!(!mutex.is_locked(), "the guard was lost in a panic");
        drop(limited);
        assert_eq!(poll(&mut other, &calm).is_ready(), !all);
        drop(other);
        assert!(!mutex.is_locked());
        assert_eq!((hostile.alive(), calm.alive()), (0, 0));
    }
}

/// A condition that panics after a `notify_one`: the wait does not come back, and the notification is the next waiter's. Also if a limit ends the wait at that moment.
#[test]
fn a_condition_that_panics_passes_the_notification_on() {
    let _dog = watchdog(30);
    for by_limit in [false, true] {
        let (mutex, condvar, spy, limits) = (Mutex::new(0), Condvar::new(), Spy::new(), Limits::new());
        let condition = |n: &mut u32| if *n == 0 { true } else { panic!("mine") };
        let mut first =
            Box::pin(condvar.wait_while(mutex.try_lock().unwrap(), condition).or_cancelled(&limits.token));
        pending(&mut first, &spy);
        let mut next = Box::pin(condvar.wait_while(mutex.try_lock().unwrap(), |n| *n == 0));
        pending(&mut next, &spy);
        let mut held = mutex.try_lock().unwrap();
        *held = 1;
        condvar.notify_one();
        // Moves to the queue of the mutex.
        pending(&mut first, &spy);
        drop(held);
        if by_limit {
            limits.end();
        }
        assert!(panics(|| poll(&mut first, &spy).map(drop)));
        assert_eq!(*ready(&mut next), 1, "by a limit: {by_limit}");
    }
}
