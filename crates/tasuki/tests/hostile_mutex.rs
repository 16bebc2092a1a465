//! H3 on the mutex: a waker's clone, wake, wake_by_ref and drop are foreign code and may do anything.
//! B061, B063, B065, B129, B133, H15; S0-22.
//!
//! Six actions x four calls x every place where the mutex makes such a call x every policy. After each the
//! mutex works, the next waiter is served, and every waker made was dropped or woken exactly once.
//!
//! Out of reach for safe Rust, so not here:
//! * polling or dropping a future from a waker call made *by that same future's* poll or drop: both borrow it
//!   exclusively. "Another future" stands in for it; dropping it from the wake of its own grant is here.
//! * dropping the last `Arc` in the middle of a call: whoever calls holds the mutex, by a borrow or by an `Arc`.
//!   The hook drops the last one that the caller does not hold; the call then drops the very last.
//! * `wake_by_ref` on a queued waker: the mutex wakes by value only. `hand_off` is the one call that uses it.

mod kit;

use kit::poll::{panics, pending, poll};
use kit::waker::{Call, Spy};
use kit::watchdog::watchdog;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::Poll;
use tasuki::{Bypass, Fifo, Guard, Lifo, LockOwned, Mutex, OwnedMutexGuard, Policy};

type Shared<P> = Arc<Mutex<u32, P>>;
type Future<P> = Pin<Box<LockOwned<u32, P>>>;
/// A place from which a hook can take something; never locked while foreign code runs.
type Place<T> = Arc<StdMutex<Option<T>>>;

fn place<T>(value: T) -> Place<T> {
    Arc::new(StdMutex::new(Some(value)))
}

fn take<T>(place: &Place<T>) -> Option<T> {
    place.lock().unwrap().take()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    CallEverything,
    PollAnother,
    DropAnother,
    DropLastArc,
    Panic,
    WakeOnAnotherThread,
}

const ACTIONS: [Action; 6] = [
    Action::CallEverything,
    Action::PollAnother,
    Action::DropAnother,
    Action::DropLastArc,
    Action::Panic,
    Action::WakeOnAnotherThread,
];

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
    /// The guard is handed off with somebody waiting: wake, and `wake_by_ref` of the one who yields.
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

/// Everything a scene consists of. `victim` is the future whose waker is hostile; `other` is queued too.
struct Scene<P: Policy> {
    mutex: Shared<P>,
    guard: Option<OwnedMutexGuard<u32, P>>,
    other: Place<Future<P>>,
    other_spy: Arc<Spy>,
    spare: Place<Shared<P>>,
    hostile: Arc<Spy>,
}

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

fn hook<P: Policy>(action: Action, scene: &Scene<P>) -> Box<dyn Fn() + Send + Sync> {
    let weak = Arc::downgrade(&scene.mutex);
    let (other, spare) = (scene.other.clone(), scene.spare.clone());
    let spy = scene.other_spy.clone();
    Box::new(move || match action {
        Action::CallEverything => call_everything(&weak.upgrade().expect("somebody holds the mutex")),
        Action::PollAnother => {
            let Some(mut future) = take(&other) else { return };
            if poll(&mut future, &spy).is_pending() {
                *other.lock().unwrap() = Some(future);
            }
        }
        Action::DropAnother => drop(take(&other)),
        Action::DropLastArc => drop(take(&spare)),
        Action::Panic => panic!("a hostile waker"),
        Action::WakeOnAnotherThread => {
            let waker = spy.waker();
            std::thread::spawn(move || waker.wake()).join().unwrap();
        }
    })
}

impl<P: Policy> Scene<P> {
    fn new(action: Action, call: Call) -> Self {
        let mutex: Shared<P> = Arc::new(Mutex::with_policy(0));
        let guard = mutex.clone().try_lock_owned();
        let other = place(Box::pin(mutex.clone().lock_owned()));
        let spare = place(mutex.clone());
        let (hostile, other_spy) = (Arc::new(Spy::new()), Arc::new(Spy::new()));
        let scene = Self { mutex, guard, other, other_spy, spare, hostile };
        scene.hostile.on(call, hook(action, &scene));
        scene
    }

    fn future(&self) -> Future<P> {
        Box::pin(self.mutex.clone().lock_owned())
    }

    fn queue_other(&self) {
        let mut other = take(&self.other).unwrap();
        pending(&mut other, &self.other_spy);
        *self.other.lock().unwrap() = Some(other);
    }

    /// Runs the scene up to the moment, lets the hook loose there, and returns whether the moment panicked.
    /// `victim` is what is left of the hostile future.
    fn play(&mut self, moment: Moment, victim: &mut Option<Future<P>>) -> bool {
        let hostile = self.hostile.clone();
        let mut future = self.future();
        if moment != Moment::FirstPoll {
            pending(&mut future, &hostile);
        }
        // After the victim with `Fifo`; before it with `Lifo`: both orders are covered.
        self.queue_other();
        let panicked = match moment {
            Moment::FirstPoll => {
                let waker = hostile.waker();
                hostile.arm(1);
                let panicked = panics(|| kit::poll::poll_with(&mut future, &waker).is_ready());
                hostile.arm(0);
                drop(waker);
                panicked
            }
            Moment::Repoll => {
                let second = hostile.waker();
                let other = Spy::new();
                hostile.arm(1);
                let panicked = panics(|| poll(&mut future, &other).is_ready());
                // Back again, so that the clone of the hostile waker has its turn too.
                let panicked = panics(|| kit::poll::poll_with(&mut future, &second).is_ready()) || panicked;
                hostile.arm(0);
                drop(second);
                panicked
            }
            Moment::Unlock => self.loose(|scene| drop(scene.guard.take())),
            Moment::CancelGranted => {
                self.guard = None;
                self.loose(|scene| drop(take(&scene.other)))
            }
            Moment::CancelQueued => {
                hostile.arm(1);
                let panicked = panics(|| drop(future));
                hostile.arm(0);
                return panicked;
            }
            Moment::HandOff => {
                let waker = hostile.waker();
                let panicked = self.loose(|scene| {
                    let guard = scene.guard.take().unwrap();
                    let mut hand_off = Box::pin(Guard::hand_off(guard));
                    assert!(kit::poll::poll_with(&mut hand_off, &waker).is_pending());
                });
                drop(waker);
                panicked
            }
        };
        *victim = Some(future);
        panicked
    }

    fn loose(&mut self, call: impl FnOnce(&mut Self)) -> bool {
        self.hostile.arm(1);
        let panicked = panics(|| call(self));
        self.hostile.arm(0);
        panicked
    }

    /// Whoever still waits is served, one at a time, and then the lock is free.
    fn settle(mut self, victim: Option<Future<P>>, context: &str) {
        let served = Spy::new();
        let mut waiting: Vec<Future<P>> = take(&self.other).into_iter().chain(victim).collect();
        self.guard = None;
        while !waiting.is_empty() {
            let before = waiting.len();
            // A future that was finished by the hook is out of `other` already; a poll after it panics.
            waiting.retain_mut(|future| match poll(future, &served) {
                Poll::Ready(guard) => {
                    drop(guard);
                    false
                }
                Poll::Pending => true,
            });
            assert!(waiting.len() < before, "{context}: nobody is served, {} wait", waiting.len());
        }
        assert!(!self.mutex.is_locked(), "{context}: left locked");
        let newcomer = poll(&mut Box::pin(self.mutex.lock()), &served).is_ready();
        assert!(newcomer, "{context}: a newcomer waits for nobody");
        drop(take(&self.spare));
        assert_eq!(Arc::strong_count(&self.mutex), 1, "{context}: somebody keeps the mutex");
        assert_eq!((served.alive(), self.hostile.alive()), (0, 0), "{context}: wakers left over");
        assert_eq!(self.other_spy.alive(), 0, "{context}: wakers left over");
    }
}

/// All of it for one policy; returns in which of the 24 cells a hook ran.
fn all<P: Policy>() -> Vec<(Action, Call)> {
    let _dog = watchdog(60);
    let mut reached = Vec::new();
    for action in ACTIONS {
        for call in Call::ALL {
            for moment in MOMENTS {
                let context = format!("{action:?} in {call:?} at {moment:?}");
                let mut scene = Scene::<P>::new(action, call);
                let mut victim = None;
                let panicked = scene.play(moment, &mut victim);
                assert_eq!(panicked, action == Action::Panic && scene.hostile.fired(), "{context}");
                if scene.hostile.fired() {
                    reached.push((action, call));
                }
                scene.settle(victim, &context);
            }
        }
    }
    reached
}

fn all_cells_are_reached(reached: &[(Action, Call)]) {
    for action in ACTIONS {
        for call in Call::ALL {
            assert!(reached.contains(&(action, call)), "{action:?} in {call:?} never ran");
        }
    }
}

#[test]
fn h3_fifo() {
    all_cells_are_reached(&all::<Fifo>());
}

#[cfg(not(miri))]
#[test]
fn h3_fifo_without_the_spin() {
    all_cells_are_reached(&all::<Fifo<false>>());
}

#[test]
fn h3_lifo() {
    all_cells_are_reached(&all::<Lifo>());
}

#[test]
fn h3_bypass() {
    all_cells_are_reached(&all::<Bypass<1>>());
    // Miri: the same code paths.
    if !cfg!(miri) {
        all_cells_are_reached(&all::<Bypass>());
    }
}
