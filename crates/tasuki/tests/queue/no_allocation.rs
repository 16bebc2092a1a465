//! Waiting allocates nothing: not to lock, queue, grant, cancel, signal or hand off. S2-03, S2-10, S2-19.

use crate::kit::alloc::allocations;
use crate::kit::policy::{Known, for_each_policy};
use crate::kit::poll::{pending, poll_with, ready};
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use tasuki::{Event, Guard, Mutex, MutexGuard, OnceCell, OwnedMutexGuard, Parker, Reset};

#[track_caller]
fn none<R>(call: impl FnOnce() -> R) -> R {
    let (count, output) = allocations(call);
    assert_eq!(count, 0, "{count} allocations");
    output
}

fn lock_and_unlock<P: Known>() {
    let mutex = none(|| Mutex::<u32, P>::with_policy(0));
    let mut cx = Context::from_waker(Waker::noop());
    none(|| {
        assert!(pin!(mutex.lock()).poll(&mut cx).is_ready());
        drop(mutex.try_lock());
        drop(MutexGuard::map(mutex.try_lock().unwrap(), |value| value));
        drop(Guard::hand_off(mutex.try_lock().unwrap()));
    });
}

fn queue_grant_and_cancel<P: Known>() {
    const COUNT: usize = 100;
    let mutex = Arc::new(Mutex::<u32, P>::with_policy(0));
    let (w1, w2) = (Spy::new(), Spy::new());
    let mut futures: Vec<_> = (0..COUNT).map(|_| Some(Box::pin(mutex.clone().lock_owned()))).collect();
    let guard = none(|| mutex.clone().try_lock_owned().unwrap());
    none(|| {
        for future in futures.iter_mut().flatten() {
            pending(future, &w1);
            pending(future, &w2);
        }
    });
    // Every third leaves while it waits.
    let gone: Vec<_> = futures.iter_mut().step_by(3).map(Option::take).collect();
    none(|| {
        // The memory of the boxes is given back here; that is no allocation.
        drop(gone);
        drop(guard);
    });
    for (count, turn) in P::service(COUNT).into_iter().enumerate() {
        let Some(mut future) = futures[turn].take() else { continue };
        none(|| match count % 2 {
            0 => drop(OwnedMutexGuard::hand_off(ready(&mut future))),
            // Granted, and dropped before the poll.
            _ => drop(future),
        });
    }
    assert!(!mutex.is_locked());
}

/// The first `.block()` of a thread makes its parker; no later one allocates, asleep or not. One inside of another makes a parker of its own.
fn block<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    *mutex.lock().block() += 1;
    let made = || std::thread::scope(|scope| scope.spawn(|| allocations(|| *mutex.lock().block()).0).join());
    assert_eq!(made().unwrap(), 1, "the first of a thread");
    let cell = OnceCell::new();
    let inside = cell.get_or_init(async || *mutex.lock().block());
    assert_eq!(allocations(|| *inside.block()).0, 1, "the inner one");
    let guard = mutex.try_lock().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            Event::new(Reset::Auto, true).wait().block();
            let warm = Event::auto();
            std::thread::scope(|scope| {
                scope.spawn(|| warm.set());
                warm.wait().block();
            });
            none(|| *mutex.lock().block() += 1);
        });
        std::thread::sleep(std::time::Duration::from_millis(5));
        drop(guard);
        waiter.join().unwrap();
    });
    assert_eq!(mutex.into_inner(), 2);
}

for_each_policy! {
    lock_and_unlock
    queue_grant_and_cancel
    block
}

#[test]
fn events() {
    let _dog = watchdog(10);
    for reset in [Reset::Auto, Reset::Manual] {
        let (event, spy) = (none(|| Event::new(reset, false)), Spy::new());
        let mut futures: Vec<_> = (0..100).map(|_| Box::pin(event.wait())).collect();
        let waker = spy.waker();
        none(|| futures.iter_mut().for_each(|future| assert!(poll_with(future, &waker).is_pending())));
        none(|| (0..100).for_each(|_| event.set()));
        let unseen = futures.split_off(50);
        none(|| futures.iter_mut().for_each(ready));
        none(|| drop(unseen));
        none(|| event.reset());
    }
}

#[test]
fn parker() {
    let _dog = watchdog(10);
    let parker = Parker::new();
    none(|| {
        parker.unparker().unpark();
        parker.park();
        assert!(!parker.park_timeout(std::time::Duration::from_millis(1)));
    });
}
