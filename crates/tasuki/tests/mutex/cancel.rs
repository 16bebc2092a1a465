//! A future dropped in any state, at any place of the queue: the baton is never lost and never doubled.
//! S0-22, S1-19, S1-20, S1-24..S1-28; B001, B005, B007, B013, B015, B017, B019, B051, B053, H2, H6, H7.

use crate::kit::policy::{Known, for_each_policy};
use crate::kit::poll::{pending, poll, ready};
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use tasuki::future::{Lock, LockOwned, WaitEvent};
use tasuki::policy::Fifo;
use tasuki::{Event, Mutex, OwnedMutexGuard};

type Boxed<'m, P> = Pin<Box<Lock<'m, u32, P>>>;

/// Waiters queued in order on a held mutex, each with its spy.
fn queued<'m, P: Known>(mutex: &'m Mutex<u32, P>, count: usize) -> Vec<(Option<Boxed<'m, P>>, Spy)> {
    let queue = |_| {
        let (mut future, spy) = (Box::pin(mutex.lock()), Spy::new());
        pending(&mut future, &spy);
        (Some(future), spy)
    };
    (0..count).map(queue).collect()
}

/// Serves all that are left, in order, each woken exactly once; then the lock is free.
#[track_caller]
fn drain<P: Known>(mutex: &Mutex<u32, P>, waiters: &mut [(Option<Boxed<'_, P>>, Spy)]) {
    for turn in P::service(waiters.len()) {
        let (future, spy) = &mut waiters[turn];
        let Some(mut future) = future.take() else { continue };
        assert_eq!(spy.wakes(), 1, "waiter {turn} was not woken in its turn");
        let guard = ready(&mut future);
        assert!(mutex.is_locked());
        drop(guard);
    }
    assert!(!mutex.is_locked());
    assert!(waiters.iter().all(|(_, spy)| spy.alive() == 0), "wakers left over");
    assert!(waiters.iter().all(|(_, spy)| spy.wakes() <= 1), "woken twice");
}

/// B001, both ways: dropped while the lock is held, and after it was released.
fn b001_dropped_early<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    for release_first in [false, true] {
        let guard = mutex.try_lock().unwrap();
        let mut waiters = queued(&mutex, 1);
        if release_first {
            drop(guard);
            drop(waiters[0].0.take());
        } else {
            drop(waiters[0].0.take());
            drop(guard);
        }
        assert!(mutex.try_lock().is_some());
        assert_eq!(waiters[0].1.wakes(), usize::from(release_first));
        assert_eq!(waiters[0].1.alive(), 0);
    }
}

/// An unpolled future has no place: dropping it is nothing.
fn drop_unpolled<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    let guard = mutex.try_lock().unwrap();
    let unpolled = [(); 3].map(|()| Box::pin(mutex.lock()));
    let mut waiters = queued(&mutex, 3);
    drop(unpolled);
    assert!(waiters.iter().all(|(_, spy)| spy.wakes() == 0));
    drop(guard);
    drain(&mutex, &mut waiters);
}

/// B007, B017, S1-19, S1-25: dropped while queued, at each place: no waiter is woken, no place changes.
fn drop_queued<P: Known>() {
    for gone in 0..5 {
        for also in 0..5 {
            let mutex = Mutex::<u32, P>::with_policy(0);
            let guard = mutex.try_lock().unwrap();
            let mut waiters = queued(&mutex, 5);
            waiters[gone].0 = None;
            waiters[also].0 = None;
            assert!(waiters.iter().all(|(_, spy)| spy.wakes() == 0), "a cancel wakes no waiter");
            for (future, spy) in waiters.iter_mut().filter(|(future, _)| future.is_some()) {
                pending(future.as_mut().unwrap(), spy);
            }
            drop(guard);
            drain(&mutex, &mut waiters);
            assert_eq!(waiters[gone].1.wakes(), 0);
        }
    }
}

/// B013, B053, H2, S1-26, S1-27: woken, and dropped before the poll: the next is woken, exactly once; all along the queue.
fn drop_notified<P: Known>() {
    for dropped in 1..=4 {
        let mutex = Mutex::<u32, P>::with_policy(0);
        let guard = mutex.try_lock().unwrap();
        let mut waiters = queued(&mutex, 4);
        drop(guard);
        let service = P::service(4);
        for turn in &service[..dropped] {
            assert_eq!(waiters[*turn].1.wakes(), 1);
            waiters[*turn].0 = None;
        }
        if dropped == 4 {
            assert!(!mutex.is_locked(), "the last one frees it");
        }
        drain(&mutex, &mut waiters);
    }
}

/// S1-28: dropping a completed future is nothing, wherever its guard is.
fn drop_completed<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    let mut future = Box::pin(mutex.lock());
    let guard = ready(&mut future);
    let mut waiters = queued(&mutex, 2);
    drop(future);
    assert!(mutex.is_locked() && waiters.iter().all(|(_, spy)| spy.wakes() == 0));
    drop(guard);
    // Again for one that was queued first.
    let first = P::service(2)[0];
    let (mut future, spy) = mem::take(&mut waiters[first]);
    let guard = ready(future.as_mut().unwrap());
    drop(future);
    assert!(mutex.is_locked());
    drop(guard);
    assert_eq!((spy.wakes(), spy.alive()), (1, 0));
    let second = P::service(2)[1];
    drop(ready(waiters[second].0.as_mut().unwrap()));
    assert!(!mutex.is_locked());
}

/// B019: the tail goes after the head was granted; then the head. No panic, nothing lost.
fn b019_tail_then_granted_head<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    let guard = mutex.try_lock().unwrap();
    let mut waiters = queued(&mutex, 3);
    drop(guard);
    for turn in P::service(3).into_iter().rev() {
        waiters[turn].0 = None;
    }
    assert!(mutex.try_lock().is_some());
    assert_eq!(waiters.iter().map(|(_, spy)| spy.wakes()).sum::<usize>(), 1);
}

/// B051: a future that got the lock at its first poll has left nothing in the queue.
fn b051_no_stale_place<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    let mut quick = Box::pin(mutex.lock());
    let guard = ready(&mut quick);
    let mut waiters = queued(&mutex, 1);
    drop(guard);
    assert_eq!(waiters[0].1.wakes(), 1);
    drain(&mutex, &mut waiters);
    drop(quick);
}

/// The middle of the queue goes while the head holds the grant and a newcomer arrives.
fn drop_between_grant_and_newcomer<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    let guard = mutex.try_lock().unwrap();
    let mut waiters = queued(&mutex, 3);
    drop(guard);
    waiters[1].0 = None;
    // With `Bypass` the lock is free now, and a newcomer would take it.
    if !P::BARGES {
        let mut late = queued(&mutex, 1);
        assert!(mutex.try_lock().is_none());
        late[0].0 = None;
    }
    drain(&mutex, &mut waiters);
}

/// H7: queued here, dropped there; granted here, the guard dropped there.
fn h7_across_threads<P: Known>() {
    let mutex: Arc<Mutex<u32, P>> = Arc::new(Mutex::with_policy(0));
    let guard = mutex.clone().try_lock_owned().unwrap();
    let spies = [(); 3].map(|()| Spy::new());
    let mut futures = spies.each_ref().map(|spy| {
        let mut future: Pin<Box<LockOwned<u32, P>>> = Box::pin(mutex.clone().lock_owned());
        pending(&mut future, spy);
        Some(future)
    });
    let elsewhere = |drops: Box<dyn FnOnce() + Send>| std::thread::spawn(drops).join().unwrap();
    let middle = futures[1].take();
    elsewhere(Box::new(move || drop(middle)));
    elsewhere(Box::new(move || drop(guard)));
    let first = P::service(3)[0];
    let granted = futures[first].take();
    assert_eq!(spies[first].wakes(), 1);
    elsewhere(Box::new(move || drop(granted)));
    let last = P::service(3)[2];
    let mut future = futures[last].take().unwrap();
    let guard: OwnedMutexGuard<u32, P> = ready(&mut future);
    elsewhere(Box::new(move || drop(guard)));
    assert!(!mutex.is_locked());
    assert!(spies.iter().all(|spy| spy.alive() == 0));
}

for_each_policy! {
    b001_dropped_early
    drop_unpolled
    drop_queued
    drop_notified
    drop_completed
    b019_tail_then_granted_head
    b051_no_stale_place
    drop_between_grant_and_newcomer
    h7_across_threads
}

/// H6: a forgotten future. Unpolled: nothing. Queued: it keeps its place, and with `Fifo` stops the queue behind it
/// when its turn comes, as documented. Granted: the same, at once. A forgotten guard leaves the lock held.
#[test]
fn h6_forgotten() {
    let _dog = watchdog(10);
    let spy = Spy::new();
    // What is forgotten is leaked; a test that leaks on purpose keeps the pieces reachable.
    static UNPOLLED: Mutex<u32> = Mutex::new(0);
    mem::forget(UNPOLLED.lock());
    assert!(UNPOLLED.try_lock().is_some());

    static QUEUED: Mutex<u32> = Mutex::new(0);
    let guard = QUEUED.try_lock().unwrap();
    let mut forgotten = Box::pin(QUEUED.lock());
    pending(&mut forgotten, &spy);
    let mut behind = Box::pin(QUEUED.lock());
    pending(&mut behind, &spy);
    let forgotten = mem::ManuallyDrop::new(forgotten);
    drop(guard);
    assert_eq!(spy.wakes(), 1);
    pending(&mut behind, &spy);
    assert!(QUEUED.try_lock().is_none() && QUEUED.is_locked());
    drop(behind);
    // Remembered after all: everything is as it was.
    drop(mem::ManuallyDrop::into_inner(forgotten));
    assert!(!QUEUED.is_locked());
    assert_eq!(spy.alive(), 0);

    static GUARD: Mutex<u32> = Mutex::new(0);
    mem::forget(GUARD.try_lock());
    assert!(GUARD.is_locked() && GUARD.try_lock().is_none());
    let mut waiting = Box::pin(GUARD.lock());
    pending(&mut waiting, &spy);
    drop(waiting);
    assert_eq!(spy.alive(), 0);
}

/// H6: the queue's owner may go while a forgotten future is in it: neither is touched again.
#[test]
fn h6_forgotten_future_outlives_its_mutex() {
    /// Leak checkers do not mind what a static points to.
    static FORGOTTEN: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
    let spy = Spy::new();
    let mutex: Mutex<u32, Fifo> = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    let mut future = Box::pin(mutex.lock());
    pending(&mut future, &spy);
    // SAFETY: it is not moved: it is never touched again.
    let future = unsafe { Pin::into_inner_unchecked(future) };
    FORGOTTEN.store(Box::into_raw(future).cast(), Relaxed);
    drop(guard);
    assert_eq!(spy.wakes(), 1);
    assert!(mutex.is_locked());
    // The mutex goes here; the future stays.
}

/// The same matrix for the event: a signal given and not seen goes on, exactly once, at every place.
#[test]
fn event_drop_matrix() {
    let _dog = watchdog(10);
    for gone in 0..4 {
        let event = Event::auto();
        let spies = [(); 4].map(|()| Spy::new());
        let mut futures: Vec<Option<Pin<Box<WaitEvent<'_>>>>> = Vec::new();
        for spy in &spies {
            let mut future = Box::pin(event.wait());
            pending(&mut future, spy);
            futures.push(Some(future));
        }
        drop(event.wait());
        futures[gone] = None;
        assert!(spies.iter().all(|spy| spy.wakes() == 0), "B007: a cancel wakes no waiter");
        // B013: given, dropped before the poll, along the whole queue; the last gives it back to the flag.
        event.set();
        for turn in (0..4).filter(|turn| *turn != gone) {
            assert_eq!(spies[turn].wakes(), 1);
            assert!(!event.is_set());
            futures[turn] = None;
        }
        assert!(event.is_set());
        assert!(spies.iter().all(|spy| spy.alive() == 0));
        // B005: the first poll of a newcomer may be ready, and is.
        assert!(poll(&mut Box::pin(event.wait()), &spies[0]).is_ready());
        assert!(!event.is_set());
    }
}

/// B003: dropping a waiter that was released by a manual set gives nothing back, and takes nothing.
#[test]
fn b003_released_and_dropped() {
    let _dog = watchdog(10);
    let (event, spy) = (Event::manual(), Spy::new());
    let mut future = Box::pin(event.wait());
    pending(&mut future, &spy);
    event.set();
    event.reset();
    drop(future);
    assert!(!event.is_set(), "a released waiter leaves no signal behind");
    let mut next = Box::pin(event.wait());
    pending(&mut next, &spy);
    event.set();
    ready(&mut next);
}
