//! The condvar: no notification is lost, kept or doubled; a notified waiter goes to the queue of the mutex, and is woken as its owner.
//! B003, B023, B029, B039, H4, H5, H7, H15.

use crate::kit::fixture::{Site, Waiting};
use crate::kit::poll::{panic_of, panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Poll, Waker};
use tasuki::policy::Fifo;
use tasuki::{Condvar, Mutex, OwnedMutexGuard};

fn wakes(spies: &[Spy]) -> Vec<usize> {
    spies.iter().map(Spy::wakes).collect()
}

/// B023: nothing is kept for later, and a poll without a notification is pending, however often.
#[test]
fn b023_nothing_is_kept() {
    let _dog = watchdog(30);
    let (site, spy) = (Site::<Fifo>::new(), Spy::new());
    site.condvar.notify_one();
    site.condvar.notify_all();
    let mut wait = site.wait(&spy);
    for _ in 0..100 {
        pending(&mut wait, &spy);
    }
    assert_eq!((spy.wakes(), spy.alive(), site.mutex.is_locked()), (0, 1, false));
    site.condvar.notify_one();
    assert_eq!(spy.wakes(), 1);
    *ready(&mut wait) += 1;
    let mut again = site.wait(&spy);
    pending(&mut again, &spy);
    assert_eq!(spy.wakes(), 1);
}

/// The mutex is given up by the first poll, not by the call; an unpolled wait that is dropped gives it up too.
#[test]
fn the_mutex_is_given_up_by_the_first_poll() {
    let _dog = watchdog(30);
    let (site, spy) = (Site::<Fifo>::new(), Spy::new());
    let mut wait = Box::pin(site.condvar.wait(site.mutex.try_lock().unwrap()));
    assert!(site.mutex.is_locked());
    let mut next = Box::pin(site.mutex.lock());
    pending(&mut next, &spy);
    pending(&mut wait, &Spy::new());
    assert_eq!(spy.wakes(), 1, "the waiter for the mutex has it");
    drop(ready(&mut next));
    drop(site.condvar.wait(site.mutex.try_lock().unwrap()));
    assert!(!site.mutex.is_locked());
    drop(wait);
    assert!(!site.mutex.is_locked());
}

/// With a free mutex one notification is one wake-up, and comes back at once.
#[test]
fn one_notification_is_one_wake() {
    let _dog = watchdog(30);
    let (site, spies) = (Site::<Fifo>::new(), Spy::many::<2>());
    let (mut a, mut b) = (site.wait(&spies[0]), site.wait(&spies[1]));
    site.condvar.notify_one();
    assert_eq!(wakes(&spies), [1, 0]);
    assert_eq!(*ready(&mut a), 0);
    assert!(poll(&mut b, &spies[1]).is_pending());
    assert_eq!(wakes(&spies), [1, 0]);
}

/// However many are notified, one is woken; the others go with it to the queue of the mutex, and are woken one by one as its owners.
#[test]
fn notified_waiters_queue_on_the_mutex() {
    let _dog = watchdog(30);
    let (site, spies) = (Site::<Fifo>::new(), Spy::many::<100>());
    let mut waiting: Vec<_> = spies.iter().map(|spy| site.wait(spy)).collect();
    let held = site.mutex.try_lock().unwrap();
    let (mut outside, stranger) = (Box::pin(site.mutex.lock()), Spy::new());
    site.condvar.notify_all();
    assert_eq!(wakes(&spies).iter().sum::<usize>(), 1, "while the mutex is held");
    pending(&mut waiting[0], &spies[0]);
    assert_eq!(wakes(&spies).iter().sum::<usize>(), 1);
    pending(&mut outside, &stranger);
    drop(held);
    for (number, wait) in waiting.iter_mut().enumerate() {
        let woken: Vec<_> = wakes(&spies);
        let expected = (0..100).map(|other| usize::from(other <= number) + usize::from(other == 0));
        assert_eq!(woken, expected.collect::<Vec<_>>(), "as owners, in order");
        assert!(site.mutex.try_lock().is_none(), "no task gets between");
        *ready(wait) += 1;
    }
    assert_eq!(
        (*ready(&mut outside), stranger.wakes()),
        (100, 1),
        "behind the waiters that were queued before it"
    );
}

/// B029: each `notify_one` is for another waiter, also before the first has looked.
#[test]
fn b029_notifications_add_up() {
    let _dog = watchdog(30);
    let (site, spies) = (Site::<Fifo>::new(), Spy::many::<4>());
    let mut waiting: Vec<_> = spies.iter().map(|spy| site.wait(spy)).collect();
    for _ in 0..3 {
        site.condvar.notify_one();
    }
    assert_eq!(wakes(&spies), [1, 1, 1, 0]);
    let order: Vec<_> = waiting.iter_mut().map(|wait| poll(wait, &Spy::new()).is_ready()).collect();
    assert_eq!(order, [true, true, true, false]);
    assert_eq!(wakes(&spies), [1, 1, 1, 0]);
}

/// B003, B039: a `notify_all` notifies the queued waiters and no more; a cancel does not pass it on.
#[test]
fn b003_notify_all_notifies_the_waiters_of_its_moment() {
    let _dog = watchdog(30);
    let (site, spies) = (Site::<Fifo>::new(), Spy::many::<3>());
    let (a, mut b) = (site.wait(&spies[0]), site.wait(&spies[1]));
    site.condvar.notify_all();
    let mut late = site.wait(&spies[2]);
    drop(a);
    assert_eq!(wakes(&spies), [1, 1, 0], "the call is passed on");
    drop(ready(&mut b));
    pending(&mut late, &spies[2]);
    site.condvar.notify_one();
    assert_eq!(wakes(&spies), [1, 1, 1]);
    drop(ready(&mut late));
}

#[test]
fn wait_while_checks_before_and_after() {
    let _dog = watchdog(30);
    let (site, spy) = (Site::<Fifo>::new(), Spy::new());
    let mut calls = 0;
    let condition = |n: &mut u32| {
        calls += 1;
        *n < 2
    };
    let mut wait = Box::pin(site.condvar.wait_while(site.mutex.try_lock().unwrap(), condition));
    pending(&mut wait, &spy);
    for expected in 1..=2 {
        *site.mutex.try_lock().unwrap() += 1;
        site.condvar.notify_one();
        assert_eq!(spy.wakes(), expected);
        if expected == 1 {
            pending(&mut wait, &spy);
            assert!(!site.mutex.is_locked());
        }
    }
    assert_eq!(*ready(&mut wait), 2);
    assert!(panic_of(|| poll(&mut wait, &spy).is_ready()).contains("WaitWhile"));
    drop(wait);
    assert_eq!(calls, 3);
    // Nothing to wait for: the mutex is not given up.
    let mut wait = Box::pin(site.condvar.wait_while(site.mutex.try_lock().unwrap(), |n| *n < 2));
    let guard = ready(&mut wait);
    assert!(site.mutex.is_locked());
    drop(guard);
}

#[test]
fn a_panicking_condition_gives_the_mutex_up() {
    let _dog = watchdog(30);
    let (site, spy) = (Site::<Fifo>::new(), Spy::new());
    let mut wait =
        Box::pin(site.condvar.wait_while(site.mutex.try_lock().unwrap(), |_| panic!("a condition")));
    assert_eq!(panic_of(|| poll(&mut wait, &spy).is_ready()), "a condition");
    assert!(!site.mutex.is_locked());
    drop(wait);
    assert!(!site.mutex.is_locked());
}

/// One mutex at a time; the panic changes nothing, and the guard is released.
#[test]
fn two_mutexes_panic() {
    let _dog = watchdog(30);
    let (site, other, spies) = (Site::<Fifo>::new(), Mutex::new(1_u32), Spy::many::<3>());
    let mut wait = site.wait(&spies[0]);
    let mut wrong = Box::pin(site.condvar.wait(other.try_lock().unwrap()));
    let message = panic_of(|| poll(&mut wrong, &spies[1]).is_ready());
    assert!(message.contains("one mutex at a time"), "{message}");
    assert!(other.is_locked(), "nothing has changed");
    assert_eq!(spies[1].alive(), 0);
    site.condvar.notify_one();
    drop(ready(&mut wait));
    // No waiter is left: now it may be used.
    pending(&mut wrong, &spies[1]);
    assert!(!other.is_locked());
    assert!(panics(
        || poll(&mut Box::pin(site.condvar.wait(site.mutex.try_lock().unwrap())), &spies[2]).is_ready()
    ));
    assert!(!site.mutex.is_locked());
    site.condvar.notify_all();
    assert_eq!(*ready(&mut wrong), 1);
}

/// A `wait_while` that waits again panics in that poll, if a waiter with another mutex has come meanwhile; the drop of its future releases the lock.
#[test]
fn a_wait_that_begins_again_finds_another_mutex() {
    let _dog = watchdog(30);
    let (condvar, first, other, spies) = (Condvar::new(), Mutex::new(0), Mutex::new(0), Spy::many::<2>());
    let mut wait = Box::pin(condvar.wait_while(first.try_lock().unwrap(), |n| *n == 0));
    pending(&mut wait, &spies[0]);
    condvar.notify_one();
    let mut with_other = Box::pin(condvar.wait(other.try_lock().unwrap()));
    pending(&mut with_other, &spies[1]);
    let message = panic_of(|| poll(&mut wait, &spies[0]).is_ready());
    assert!(message.contains("one mutex at a time"), "{message}");
    assert!(first.is_locked(), "the guard is in the future");
    drop(wait);
    assert!(!first.is_locked());
    condvar.notify_one();
    drop(ready(&mut with_other));
}

/// Called with one mutex, while others wait with another: each goes to its own.
#[test]
fn a_call_is_for_one_mutex() {
    let _dog = watchdog(30);
    let (site, other, spies) = (Site::<Fifo>::new(), Mutex::new(1_u32), Spy::many::<3>());
    let mut a = site.wait(&spies[0]);
    site.condvar.notify_one();
    let mut b = Box::pin(site.condvar.wait(other.try_lock().unwrap()));
    pending(&mut b, &spies[1]);
    let mut c = Box::pin(site.condvar.wait(other.try_lock().unwrap()));
    pending(&mut c, &spies[2]);
    site.condvar.notify_all();
    assert_eq!(wakes(&spies), [1, 1, 0], "the others have their own call");
    assert_eq!(*ready(&mut a), 0);
    assert_eq!(*ready(&mut b), 1);
    assert_eq!(*ready(&mut c), 1);
    assert!(!site.mutex.is_locked() && !other.is_locked());
}

/// H4: only the last waker is woken, wherever the waiter is.
#[test]
fn h4_only_the_last_waker_counts() {
    let _dog = watchdog(30);
    let (site, spies) = (Site::<Fifo>::new(), Spy::many::<4>());
    let (mut a, mut b) = (site.wait(&spies[0]), site.wait(&spies[0]));
    pending(&mut a, &spies[1]);
    pending(&mut b, &spies[1]);
    pending(&mut a, &spies[0]);
    let held = site.mutex.try_lock().unwrap();
    site.condvar.notify_all();
    assert_eq!(wakes(&spies), [1, 0, 0, 0]);
    // Notified, and not moved yet.
    pending(&mut b, &spies[2]);
    pending(&mut a, &spies[3]);
    // Moved.
    pending(&mut b, &spies[3]);
    pending(&mut a, &spies[2]);
    drop(held);
    assert_eq!(wakes(&spies), [1, 0, 1, 0]);
    drop(ready(&mut a));
    assert_eq!(wakes(&spies), [1, 0, 1, 1]);
    drop(ready(&mut b));
    assert!(spies.iter().all(|spy| spy.alive() == 0));
}

#[test]
fn h5_polled_after_the_end() {
    let _dog = watchdog(30);
    let (site, spy) = (Site::<Fifo>::new(), Spy::new());
    let mut wait = site.wait(&spy);
    site.condvar.notify_one();
    drop(ready(&mut wait));
    assert!(panic_of(|| poll(&mut wait, &spy).is_ready()).contains("WaitNotified"));
    assert!(!site.mutex.is_locked());
}

/// H15: wakers may call anything: here every wake notifies, waits and locks.
#[test]
fn wakers_reenter() {
    let _dog = watchdog(10);
    let site = Arc::new((Arc::new(Mutex::new(0_u32)), Condvar::new()));
    let spies = Spy::many::<40>();
    let mut waiting: Vec<_> = spies
        .iter()
        .map(|spy| {
            let (site, weak) = (site.clone(), Arc::downgrade(&site));
            spy.on(Call::Wake, move || {
                let site = weak.upgrade().unwrap();
                site.1.notify_one();
                site.1.notify_all();
                if let Some(guard) = site.0.clone().try_lock_owned() {
                    let mut wait = Box::pin(site.1.wait(guard));
                    drop(poll_with(&mut wait, Waker::noop()));
                }
                drop(site.0.try_lock());
            });
            let mut wait: crate::kit::poll::BoxFuture<OwnedMutexGuard<u32>> = Box::pin(async move {
                let guard = site.0.clone().try_lock_owned().unwrap();
                site.1.wait(guard).await
            });
            pending(&mut wait, spy);
            spy.arm(1);
            wait
        })
        .collect();
    site.1.notify_one();
    while !waiting.is_empty() {
        let before = waiting.len();
        waiting.retain_mut(|wait| match poll_with(wait, Waker::noop()) {
            Poll::Ready(mut guard) => {
                *guard += 1;
                false
            }
            Poll::Pending => true,
        });
        assert!(waiting.len() < before, "{before} wait, and none comes back");
    }
    assert_eq!(*site.0.try_lock().unwrap(), 40);
    assert!(spies.iter().all(|spy| spy.alive() == 0));
}

/// S3-29: a waiter that comes back holds the mutex, as far as the search for self-deadlocks knows.
#[test]
#[cfg(debug_assertions)]
fn a_wait_that_ends_is_known_to_hold_the_mutex() {
    let _dog = watchdog(30);
    let (site, spy) = (Site::<Fifo>::new(), Spy::new());
    let mut task = Box::pin(tasuki::task::identify(async {
        let guard = site.mutex.lock().await;
        let guard = site.condvar.wait(guard).await;
        let first = format!("{:?}", site.mutex);
        let mut waited = false;
        let guard = site.condvar.wait_while(guard, |_| !std::mem::replace(&mut waited, true)).await;
        let second = format!("{:?}", site.mutex);
        drop(guard);
        (first, second, format!("{:?}", site.mutex))
    }));
    pending(&mut task, &spy);
    assert_eq!(format!("{:?}", site.mutex), "Mutex { value: 0 }", "while it waits no task holds it");
    site.condvar.notify_one();
    pending(&mut task, &spy);
    site.condvar.notify_one();
    let (first, second, after) = ready(&mut task);
    assert!(first.contains("locked by task") && first.contains(file!()), "{first}");
    assert!(second.contains("locked by task") && second.contains(file!()), "{second}");
    assert_eq!(after, "Mutex { value: 0 }");
}

/// Notifications from threads, and a place where the first to be woken is kept from running.
#[test]
fn the_called_is_late() {
    let _dog = watchdog(30);
    let (site, spies) = (Site::<Fifo>::new(), Spy::many::<3>());
    let (mut a, mut b) = (site.wait(&spies[0]), site.wait(&spies[1]));
    site.condvar.notify_one();
    site.condvar.notify_one();
    assert_eq!(wakes(&spies), [1, 1, 0], "each notification wakes its waiter");
    let mut c = site.wait(&spies[2]);
    drop(ready(&mut b));
    drop(ready(&mut a));
    pending(&mut c, &spies[2]);
    let slot: StdMutex<Option<Waiting<'_, Fifo>>> = StdMutex::new(Some(c));
    site.condvar.notify_one();
    std::thread::scope(|scope| {
        // H7: it ends on another thread.
        scope.spawn(|| drop(ready(slot.lock().unwrap().as_mut().unwrap())));
    });
    assert!(!site.mutex.is_locked());
}

/// Waiters that were notified together with one that does not run are moved by the next notified waiter that runs.
#[test]
fn the_next_that_runs_brings_all() {
    let _dog = watchdog(30);
    let (site, spies) = (Site::<Fifo>::new(), Spy::many::<4>());
    let (mut a, mut b) = (site.wait(&spies[0]), site.wait(&spies[1]));
    let mut c = site.wait(&spies[2]);
    site.condvar.notify_all();
    let mut d = site.wait(&spies[3]);
    assert_eq!(wakes(&spies), [1, 0, 0, 0]);
    site.condvar.notify_one();
    assert_eq!(wakes(&spies), [1, 1, 0, 0], "for d, by way of b");
    drop(ready(&mut b));
    assert_eq!(wakes(&spies), [1, 1, 1, 0], "the next owner");
    drop(ready(&mut c));
    drop(ready(&mut d));
    drop(ready(&mut a));
}

/// A waiter that was woken to move the others is kept without being polled: each further notification wakes one more of them, which moves the rest, also if none is left to be notified.
#[test]
fn another_notification_wakes_another() {
    for by_one in [false, true] {
        let (mutex, condvar, spies): (_, _, [Spy; 4]) = (Mutex::new(0), Condvar::new(), Spy::many());
        let mut waits: Vec<_> = spies
            .iter()
            .map(|spy| {
                let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
                pending(&mut wait, spy);
                wait
            })
            .collect();
        condvar.notify_all();
        assert_eq!(wakes(&spies), [1, 0, 0, 0]);
        if by_one {
            condvar.notify_one()
        } else {
            condvar.notify_all()
        }
        assert_eq!(wakes(&spies), [1, 1, 0, 0], "the first is kept");
        for at in [1, 2, 3, 0] {
            drop(ready(&mut waits[at]));
        }
        assert_eq!(wakes(&spies), [1, 1, 1, 1]);
        condvar.notify_all();
        assert_eq!(wakes(&spies), [1, 1, 1, 1], "no waiter is left");
    }
}
