//! Hostile wakers (H3) on the mutex: a waker's clone, wake, wake_by_ref and drop are foreign code and may do anything.
//! B061, B063, B065, B129, B133, H15; S0-22.
//!
//! Six actions x four calls x every place where the mutex makes such a call x every policy. After each the
//! mutex works, the next waiter is served, and every waker made was dropped or woken exactly once.
//!
//! Out of reach for safe Rust, so not here:
//! * polling or dropping a future from a waker call made *by that same future's* poll or drop: both borrow it
//!   exclusively. "Another future" stands in for it; dropping it from the wake of its own grant is here.
//! * dropping the last `Arc` in the middle of a call: the caller holds the mutex, by a borrow or by an `Arc`.
//!   The hook drops the last one that the caller does not hold; the call then drops the very last.
//! * `wake_by_ref` on a queued waker: the mutex wakes by value only. `hand_off` is the one call that uses it.

use crate::kit::hostile::{Cast, Deed, every_deed, take};
use crate::kit::poll::{panics, poll, poll_with};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::task::Poll;
use tasuki::future::LockOwned;
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{Guard, Mutex, OwnedMutexGuard};

type Shared<P> = Arc<Mutex<u32, P>>;
/// Where the mutex comes to make a call on a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The first poll queues: clone.
    FirstPoll,
    /// A poll with another waker: clone of the new, drop of the old.
    Repoll,
    /// The guard is dropped: wake.
    Unlock,
    /// A granted future is dropped: the wake of the next.
    CancelGranted,
    /// A queued future is dropped: drop.
    CancelQueued,
    /// The guard is handed off with a waiter: wake, and `wake_by_ref` of the task that yields.
    HandOff,
}

const MOMENTS: [Moment; 6] = [
    Moment::FirstPoll,
    Moment::Repoll,
    Moment::Unlock,
    Moment::CancelGranted,
    Moment::CancelQueued,
    Moment::HandOff,
];

/// Every method that a shared mutex has; nothing here may hang or break it.
fn call_everything<P: Policy>(mutex: &Shared<P>) {
    let spy = Spy::new();
    assert!(mutex.is_locked() || mutex.try_lock().is_some() || mutex.is_locked());
    drop(mutex.try_lock());
    drop(mutex.clone().try_lock_owned());
    let mut borrowed = Box::pin(mutex.lock());
    drop(poll(&mut borrowed, &spy));
    let mut owned = Box::pin(mutex.clone().lock_owned());
    if let Poll::Ready(guard) = poll(&mut owned, &spy) {
        drop(OwnedMutexGuard::hand_off(guard));
    }
    drop(format!("{mutex:?} {borrowed:?}"));
    drop(borrowed);
    drop(owned);
    assert_eq!(spy.alive(), 0);
}

/// A cast, and the guard that keeps it waiting.
struct Scene<P: Policy> {
    cast: Cast<Mutex<u32, P>, LockOwned<u32, P>>,
    guard: Option<OwnedMutexGuard<u32, P>>,
}

impl<P: Policy> Scene<P> {
    fn new(deed: (Deed, Call)) -> Self {
        let mutex: Shared<P> = Arc::new(Mutex::with_policy(0));
        let guard = mutex.clone().try_lock_owned();
        let wait = |mutex: &Shared<P>, _| Box::pin(mutex.clone().lock_owned());
        Self { cast: Cast::new(mutex, 0, wait, deed, call_everything), guard }
    }

    /// Runs the scene up to the moment, lets the hook loose there, and returns whether the moment panicked. These futures can be
    /// polled after a panic, so the victim stays.
    fn play(&mut self, moment: Moment) -> bool {
        let waker = self.cast.hostile.waker();
        if moment != Moment::FirstPoll {
            self.cast.queue_victim();
        }
        // After the victim with `Fifo`; before it with `Lifo`: both orders are covered.
        self.cast.queue_other();
        if moment == Moment::CancelGranted {
            self.guard = None;
        }
        self.cast.hostile.arm(1);
        let Self { cast, guard } = self;
        let mut poll_victim = |waker| panics(|| poll_with(cast.victim.as_mut().unwrap(), waker).is_ready());
        let panicked = match moment {
            Moment::FirstPoll => poll_victim(&waker),
            // Back again, so that the clone of the hostile waker has its turn too.
            Moment::Repoll => poll_victim(&Spy::new().waker()) | poll_victim(&waker),
            Moment::Unlock => panics(|| drop(guard.take())),
            Moment::CancelGranted => panics(|| drop(take(&cast.other))),
            Moment::CancelQueued => cast.drop_victim(),
            Moment::HandOff => panics(|| {
                let mut hand_off = Box::pin(Guard::hand_off(guard.take().unwrap()));
                assert!(poll_with(&mut hand_off, &waker).is_pending());
            }),
        };
        self.cast.hostile.arm(0);
        panicked
    }

    /// Every waiter that is left is served, one at a time, and then the lock is free.
    fn settle(mut self, context: &str) {
        self.guard = None;
        let left = self.cast.left();
        self.cast.serve_all(left, |_| (), context);
        assert!(!self.cast.shared.is_locked(), "{context}: left locked");
        let newcomer = poll(&mut Box::pin(self.cast.shared.lock()), &self.cast.calm).is_ready();
        assert!(newcomer, "{context}: a newcomer does not wait");
        self.cast.leave(context);
    }
}

/// All of it for one policy; every deed is done in every call.
fn all<P: Policy>() {
    let _dog = watchdog(60);
    every_deed(
        |_| true,
        |deed, call| {
            let mut done = false;
            for moment in MOMENTS {
                let context = format!("{deed:?} in {call:?} at {moment:?}");
                let mut scene = Scene::<P>::new((deed, call));
                let panicked = scene.play(moment);
                done |= scene.cast.was_done(deed, panicked, &context);
                scene.settle(&context);
            }
            done
        },
    );
}

#[test]
fn h3_fifo() {
    all::<Fifo>();
}

#[cfg(not(miri))]
#[test]
fn h3_fifo_without_the_spin() {
    all::<Fifo<false>>();
}

#[test]
fn h3_lifo() {
    all::<Lifo>();
}

#[test]
fn h3_bypass() {
    all::<Bypass<1>>();
    // Miri: the same code paths.
    if !cfg!(miri) {
        all::<Bypass>();
    }
}

#[test]
fn h3_revocable() {
    all::<Revocable>();
}
