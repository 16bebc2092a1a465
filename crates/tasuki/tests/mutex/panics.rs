//! A waker that panics at every place where one can be called; the state is complete by then, so that no lock and
//! no signal is lost and nothing is touched twice. B065, B133, H15; S0-22.

use crate::kit::poll::{BoxFuture, panic_of, panics, pending, poll, poll_with, ready};
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::Poll;
use tasuki::future::LockOwned;
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{Event, Mutex, OwnedMutexGuard, Reset};

type Future<P> = Pin<Box<LockOwned<u32, P>>>;

fn held<P: Policy>() -> (Arc<Mutex<u32, P>>, OwnedMutexGuard<u32, P>) {
    let mutex: Arc<Mutex<u32, P>> = Arc::new(Mutex::with_policy(0));
    let guard = mutex.clone().try_lock_owned().unwrap();
    (mutex, guard)
}

fn lock<P: Policy>(mutex: &Arc<Mutex<u32, P>>) -> Future<P> {
    Box::pin(mutex.clone().lock_owned())
}

fn wait(event: &Arc<Event>) -> BoxFuture<()> {
    let event = event.clone();
    Box::pin(async move { event.wait().await })
}

/// A waker that panics in this call, once it is armed.
fn panicking(call: Call) -> Spy {
    Spy::hostile(call, || panic!("a hostile waker"))
}

fn every_policy(test: fn(&str)) {
    let _dog = watchdog(10);
    test("all");
}

/// The clone unlocks, so that the poll finds the lock free after all; the clone is then not needed, and its drop
/// panics. The lock that the poll took must not be lost with it.
fn first_poll_that_takes_the_lock<P: Policy>() {
    let (mutex, guard) = held::<P>();
    let guard = StdMutex::new(Some(guard));
    let spy = Spy::hostile(Call::Clone, move || drop(guard.lock().unwrap().take()));
    spy.on(Call::Drop, || panic!("a hostile waker"));
    let waker = spy.waker();
    let mut future = lock(&mutex);
    spy.arm(2);
    assert_eq!(panic_of(|| poll_with(&mut future, &waker).is_ready()), "a hostile waker");
    drop(future);
    assert!(!mutex.is_locked(), "the lock was lost in a panic");
    drop(waker);
    assert_eq!(spy.alive(), 0);
}

#[test]
fn b133_first_poll_that_takes_the_lock() {
    every_policy(|_| {
        first_poll_that_takes_the_lock::<Fifo>();
        first_poll_that_takes_the_lock::<Lifo>();
        first_poll_that_takes_the_lock::<Bypass>();
        first_poll_that_takes_the_lock::<Revocable>();
    });
}

/// The head was called and finds the lock free: it takes it, and drops the clone that it does not need.
#[test]
fn b133_poll_of_a_called_head_that_takes_the_lock() {
    let _dog = watchdog(10);
    let (mutex, guard) = held::<Bypass>();
    let (first, second, hostile) = (Spy::new(), Spy::new(), panicking(Call::Drop));
    let (mut a, mut b) = (lock(&mutex), lock(&mutex));
    pending(&mut a, &first);
    pending(&mut b, &second);
    drop(guard);
    assert_eq!(first.wakes(), 1);
    let waker = hostile.waker();
    hostile.arm(1);
    assert!(panics(|| poll_with(&mut a, &waker).is_ready()));
    drop(waker);
    drop(a);
    assert_eq!(second.wakes(), 1, "the next was not called");
    drop(ready(&mut b));
    assert!(!mutex.is_locked(), "the lock was lost in a panic");
    assert_eq!((first.alive(), second.alive(), hostile.alive()), (0, 0, 0));
}

/// Granted between the look and the locked section: the clone releases the lock, its drop panics.
fn repoll_that_finds_the_grant<P: Policy>() {
    let (mutex, guard) = held::<P>();
    let guard = StdMutex::new(Some(guard));
    let first = Spy::new();
    let hostile = Spy::hostile(Call::Clone, move || drop(guard.lock().unwrap().take()));
    hostile.on(Call::Drop, || panic!("a hostile waker"));
    let mut future = lock(&mutex);
    pending(&mut future, &first);
    let waker = hostile.waker();
    hostile.arm(2);
    assert!(panics(|| poll_with(&mut future, &waker).is_ready()));
    drop(future);
    assert!(!mutex.is_locked(), "the lock was lost in a panic");
    drop(waker);
    assert_eq!((first.alive(), hostile.alive()), (0, 0));
}

#[test]
fn b133_repoll_that_finds_the_grant() {
    every_policy(|_| {
        repoll_that_finds_the_grant::<Fifo>();
        repoll_that_finds_the_grant::<Lifo>();
        repoll_that_finds_the_grant::<Bypass>();
        repoll_that_finds_the_grant::<Revocable>();
        repoll_that_finds_the_grant::<Bypass<0>>();
    });
}

/// B065: a clone that panics queues nothing, and the same future can be polled again.
fn clone_that_panics<P: Policy>() {
    let (mutex, guard) = held::<P>();
    let (hostile, spy) = (panicking(Call::Clone), Spy::new());
    let waker = hostile.waker();
    let mut future = lock(&mutex);
    hostile.arm(1);
    assert!(panics(|| poll_with(&mut future, &waker).is_ready()));
    let mut behind = lock(&mutex);
    pending(&mut behind, &spy);
    pending(&mut future, &spy);
    // And once more while it is queued: it keeps its place and its waker.
    hostile.arm(1);
    assert!(panics(|| poll_with(&mut future, &waker).is_ready()));
    drop(guard);
    assert_eq!(spy.wakes(), 1);
    let mut waiting = vec![behind, future];
    while !waiting.is_empty() {
        let before = waiting.len();
        waiting.retain_mut(|future| poll(future, &spy).is_pending());
        assert!(waiting.len() < before, "none is served");
    }
    assert!(!mutex.is_locked());
    drop(waker);
    assert_eq!((hostile.alive(), spy.alive()), (0, 0));
}

#[test]
fn b065_clone_that_panics() {
    every_policy(|_| {
        clone_that_panics::<Fifo>();
        clone_that_panics::<Lifo>();
        clone_that_panics::<Bypass>();
        clone_that_panics::<Revocable>();
    });
}

/// A wake that panics does so in `drop(guard)`, while the thread unwinds from another panic or not; the baton has
/// been passed by then.
fn wake_that_panics<P: Policy>() {
    let (mutex, guard) = held::<P>();
    let hostile = panicking(Call::Wake);
    let mut future = lock(&mutex);
    pending(&mut future, &hostile);
    hostile.arm(1);
    assert!(panics(|| drop(guard)));
    let guard = ready(&mut future);
    assert!(mutex.try_lock().is_none());
    drop(guard);
    assert!(!mutex.is_locked());
    assert_eq!(hostile.alive(), 0);
}

#[test]
fn wake_that_panics_loses_no_baton() {
    every_policy(|_| {
        wake_that_panics::<Fifo>();
        wake_that_panics::<Lifo>();
        wake_that_panics::<Bypass>();
        wake_that_panics::<Revocable>();
    });
}

/// The clone sets the event, so that the first poll is served after all; its drop panics. The signal goes back.
#[test]
fn b133_first_poll_that_takes_the_signal() {
    let _dog = watchdog(10);
    for reset in [Reset::Auto, Reset::Manual] {
        let event = Arc::new(Event::new(reset, false));
        let setter = Arc::downgrade(&event);
        let spy = Spy::hostile(Call::Clone, move || setter.upgrade().unwrap().set());
        spy.on(Call::Drop, || panic!("a hostile waker"));
        let waker = spy.waker();
        let mut future = Box::pin(event.wait());
        spy.arm(2);
        assert!(panics(|| poll_with(&mut future, &waker).is_ready()));
        drop(future);
        assert!(event.is_set(), "{reset:?}: the signal was lost in a panic");
        drop(waker);
        assert_eq!(spy.alive(), 0);
    }
}

/// H15: a wake-all that meets panicking wakers wakes all others first, then panics.
#[test]
fn h15_wake_all_survives_panicking_wakers() {
    let _dog = watchdog(20);
    let event = Arc::new(Event::manual());
    let count = scaled(100, 70);
    let spies: Vec<Spy> =
        (0..count).map(|n| if n % 7 == 3 { panicking(Call::Wake) } else { Spy::new() }).collect();
    let mut futures: Vec<_> = spies.iter().map(|_| wait(&event)).collect();
    for (future, spy) in futures.iter_mut().zip(&spies) {
        pending(future, spy);
        spy.arm(1);
    }
    assert_eq!(panic_of(|| event.set()), "a hostile waker");
    assert!(spies.iter().all(|spy| spy.wakes() == 1 && spy.alive() == 0), "{spies:?}");
    futures.iter_mut().for_each(ready);
    assert!(event.is_set());
}

/// A wake-all in several batches: a waker of the first batch polls a waiter of the last. It is released already, so it
/// is ready and leaves the snapshot; the waker that it no longer needs panics when it is dropped. The waiter must
/// not be removed a second time.
#[test]
fn b133_released_waiter_that_leaves_the_snapshot() {
    let _dog = watchdog(20);
    for drop_inside in [true, false] {
        let event = Arc::new(Event::manual());
        let hostile = panicking(Call::Drop);
        let mut last = wait(&event);
        let spies: Vec<Spy> = (0..40).map(|_| Spy::new()).collect();
        let mut futures: Vec<_> = spies.iter().map(|_| wait(&event)).collect();
        for (future, spy) in futures.iter_mut().zip(&spies[..39]) {
            pending(future, spy);
        }
        pending(&mut last, &hostile);
        pending(&mut futures[39], &spies[39]);
        hostile.arm(1);
        let last = Arc::new(StdMutex::new(Some(last)));
        let place = last.clone();
        spies[0].on(Call::Wake, move || {
            let Some(mut future) = place.lock().unwrap().take() else { return };
            assert!(panics(|| ready(&mut future)), "the waker's drop panics");
            if !drop_inside {
                *place.lock().unwrap() = Some(future);
            }
        });
        spies[0].arm(1);
        event.set();
        assert!(spies[0].fired() && hostile.fired());
        last.lock().unwrap().take();
        futures.iter_mut().for_each(ready);
        assert!(spies.iter().all(|spy| spy.wakes() == 1 && spy.alive() == 0), "{spies:?}");
        assert_eq!((hostile.wakes(), hostile.alive()), (0, 0));
    }
}

/// A panic while the guard is held unlocks (S0-22), and so does one in the closure of `map`; no poisoning.
#[test]
fn a_panic_in_the_section_unlocks() {
    let _dog = watchdog(10);
    let mutex = Arc::new(Mutex::new(0));
    let spy = Spy::new();
    let mut next = None;
    assert!(panics(|| {
        let mut guard = mutex.try_lock().unwrap();
        let future = next.insert(lock(&mutex));
        pending(future, &spy);
        *guard = 1;
        panic!("in the section");
    }));
    assert_eq!(spy.wakes(), 1);
    assert_eq!(*ready(next.as_mut().unwrap()), 1);
    assert!(panics(|| {
        OwnedMutexGuard::map(mutex.clone().try_lock_owned().unwrap(), |_| -> &mut u32 { panic!("in map") })
    }));
    assert!(!mutex.is_locked());
    let Poll::Ready(guard) = poll(&mut lock(&mutex), &spy) else { panic!("free") };
    assert_eq!(*guard, 1);
}
