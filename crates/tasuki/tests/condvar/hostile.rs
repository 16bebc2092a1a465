//! Hostile wakers (H3) on the condvar: a waker's clone, wake and drop are foreign code and may do anything. B061, B063, B065, B133, H3, H15.
//!
//! Six actions x four calls x every moment at which the condvar, or the mutex for it, makes such a call. After each both work, every waiter
//! that is notified comes back, and every waker made was dropped or woken exactly once.
//!
//! Out of reach for safe Rust, so not here: to poll or drop a future from a waker call made by that same future's poll or drop; to free
//! the condvar in the middle of a call, since the caller holds it; `wake_by_ref`, which is never called.

use crate::kit::hostile::{Cast, every_deed};
use crate::kit::poll::{BoxFuture, panics, poll};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::sync::Arc;
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{Condvar, Mutex, OwnedMutexGuard};

type Shared<P> = Arc<(Arc<Mutex<u32, P>>, Condvar)>;
type Wait<P> = BoxFuture<OwnedMutexGuard<u32, P>>;
type Scene<P> = Cast<(Arc<Mutex<u32, P>>, Condvar), dyn Future<Output = OwnedMutexGuard<u32, P>> + Send>;

/// Locks, which must be possible at once, and waits.
fn wait<P: Policy>(shared: &Shared<P>) -> Wait<P> {
    let shared = shared.clone();
    Box::pin(async move {
        let guard = shared.0.clone().try_lock_owned().expect("no task holds it");
        shared.1.wait(guard).await
    })
}

/// When a waker is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    FirstPoll,
    AnotherWaker,
    /// The victim is called.
    Notify,
    /// The victim was called, and is polled: it goes to the mutex, which is free, or held.
    JoinFree,
    JoinHeld,
    /// The victim is in the queue of the mutex, and polled with another waker.
    AnotherWakerMoved,
    /// The victim is granted the mutex.
    Unlock,
    CancelWaiting,
    CancelCalled,
    CancelMoved,
    CancelGranted,
}

/// How many wait behind.
const CROWDS: &[usize] = if cfg!(miri) { &[1] } else { &[0, 2, 40] };

const MOMENTS: [Moment; 11] = [
    Moment::FirstPoll,
    Moment::AnotherWaker,
    Moment::Notify,
    Moment::JoinFree,
    Moment::JoinHeld,
    Moment::AnotherWakerMoved,
    Moment::Unlock,
    Moment::CancelWaiting,
    Moment::CancelCalled,
    Moment::CancelMoved,
    Moment::CancelGranted,
];

/// Every method of both; nothing here may hang or break them.
fn call_everything<P: Policy>(shared: &Shared<P>) {
    let spy = Spy::new();
    drop(format!("{:?} {:?}", shared.0, shared.1));
    if let Some(guard) = shared.0.clone().try_lock_owned() {
        let mut wait = Box::pin(shared.1.wait(guard));
        assert!(poll(&mut wait, &spy).is_pending());
    }
    if let Some(guard) = shared.0.try_lock() {
        let mut wait = Box::pin(shared.1.wait_while(guard, |_| false));
        assert!(poll(&mut wait, &spy).is_ready());
    }
    drop(poll(&mut Box::pin(shared.0.lock()), &spy));
    shared.1.notify_one();
    assert_eq!(spy.alive(), 0);
}

/// The hook runs once, at the moment; true if that panicked.
fn play<P: Policy>(scene: &mut Scene<P>, moment: Moment) -> bool {
    let hostile = scene.hostile.waker();
    if moment != Moment::FirstPoll {
        scene.queue_victim();
    }
    scene.queue_other();
    scene.queue_crowd();
    let mut held = match moment {
        Moment::JoinHeld
        | Moment::AnotherWakerMoved
        | Moment::Unlock
        | Moment::CancelMoved
        | Moment::CancelGranted => Some(scene.shared.0.clone().try_lock_owned().unwrap()),
        _ => None,
    };
    let not_called = [Moment::FirstPoll, Moment::AnotherWaker, Moment::Notify, Moment::CancelWaiting];
    if !not_called.contains(&moment) {
        scene.shared.1.notify_all();
    }
    if held.is_some() && moment != Moment::JoinHeld {
        assert!(scene.poll_victim(&hostile));
    }
    if moment == Moment::CancelGranted {
        held = None;
    }
    scene.hostile.arm(1);
    let panicked = match moment {
        Moment::FirstPoll | Moment::JoinFree | Moment::JoinHeld => !scene.poll_victim(&hostile),
        Moment::AnotherWaker | Moment::AnotherWakerMoved => !scene.poll_victim_with_another(&hostile),
        Moment::Notify => panics(|| scene.shared.1.notify_all()),
        Moment::Unlock => panics(|| drop(held.take())),
        Moment::CancelWaiting | Moment::CancelCalled | Moment::CancelMoved | Moment::CancelGranted => {
            scene.drop_victim()
        }
    };
    scene.hostile.arm(0);
    panicked
}

fn all<P: Policy>() {
    let _dog = watchdog(120);
    let is_made = |call| call != Call::WakeByRef;
    every_deed(is_made, |deed, call| {
        let mut done = false;
        for (moment, crowd) in
            MOMENTS.into_iter().flat_map(|moment| CROWDS.iter().map(move |crowd| (moment, *crowd)))
        {
            let context = format!("{deed:?} in {call:?} at {moment:?}, crowd {crowd}");
            let shared: Shared<P> = Arc::new((Arc::new(Mutex::with_policy(0)), Condvar::new()));
            let mut scene =
                Scene::new(shared, crowd, |shared, _| wait(shared), (deed, call), call_everything);
            let panicked = play(&mut scene, moment);
            done |= scene.was_done(deed, panicked, &context);
            let left = scene.left();
            scene.serve_all(left, |shared| shared.1.notify_all(), &context);
            assert!(!scene.shared.0.is_locked(), "{context}: left locked");
            scene.leave(&context);
        }
        done
    });
}

#[test]
fn h3_with_a_fifo_mutex() {
    all::<Fifo>();
}

#[test]
fn h3_with_a_lifo_mutex() {
    all::<Lifo>();
}

#[test]
fn h3_with_a_bypass_mutex() {
    all::<Bypass<1>>();
}

#[test]
fn h3_with_a_revocable_mutex() {
    all::<Revocable>();
}
