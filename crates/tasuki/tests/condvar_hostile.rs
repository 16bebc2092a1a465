//! H3 on the condvar: a waker's clone, wake and drop are foreign code and may do anything. B061, B063, B065, B133, H3, H15.
//!
//! Six actions x four calls x every moment at which the condvar, or the mutex for it, makes such a call. After each both work, everybody
//! who is notified comes back, and every waker made was dropped or woken exactly once.
//!
//! Out of reach for safe Rust, so not here: to poll or drop a future from a waker call made by that same future's poll or drop; to free
//! the condvar in the middle of a call, since whoever calls holds it; `wake_by_ref`, which nobody calls.

mod kit;

use kit::poll::{BoxFuture, catch, panics, pending, poll, poll_with};
use kit::waker::{Call, Spy};
use kit::watchdog::watchdog;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Poll, Waker};
use tasuki::{Bypass, Condvar, Fifo, Lifo, Mutex, OwnedMutexGuard, Policy};

type Shared<P> = Arc<(Arc<Mutex<u32, P>>, Condvar)>;
type Wait<P> = BoxFuture<OwnedMutexGuard<u32, P>>;
type Place<T> = Arc<StdMutex<Option<T>>>;

fn place<T>(value: T) -> Place<T> {
    Arc::new(StdMutex::new(Some(value)))
}

fn take<T>(place: &Place<T>) -> Option<T> {
    place.lock().unwrap().take()
}

/// Locks, which must be possible at once, and waits.
fn wait<P: Policy>(shared: &Shared<P>) -> Wait<P> {
    let shared = shared.clone();
    Box::pin(async move {
        let guard = shared.0.clone().try_lock_owned().expect("nobody holds it");
        shared.1.wait(guard).await
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    CallEverything,
    PollAnother,
    DropAnother,
    DropOneHandle,
    Panic,
    WakeElsewhere,
}

const DEEDS: [Deed; 6] = [
    Deed::CallEverything,
    Deed::PollAnother,
    Deed::DropAnother,
    Deed::DropOneHandle,
    Deed::Panic,
    Deed::WakeElsewhere,
];

/// When somebody comes to call a waker.
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

/// A victim with a hostile waker, and a crowd and another behind it.
struct Scene<P: Policy> {
    shared: Shared<P>,
    handle: Place<Shared<P>>,
    victim: Option<Wait<P>>,
    crowd: Vec<Wait<P>>,
    other: Place<Wait<P>>,
    hostile: Spy,
    calm: Arc<Spy>,
}

impl<P: Policy> Scene<P> {
    fn new(deed: Deed, call: Call, crowd: usize) -> Self {
        let shared: Shared<P> = Arc::new((Arc::new(Mutex::with_policy(0)), Condvar::new()));
        let scene = Self {
            handle: place(shared.clone()),
            victim: Some(wait(&shared)),
            crowd: (0..crowd).map(|_| wait(&shared)).collect(),
            other: place(wait(&shared)),
            hostile: Spy::new(),
            calm: Arc::new(Spy::new()),
            shared,
        };
        let weak = Arc::downgrade(&scene.shared);
        let (other, handle, calm) = (scene.other.clone(), scene.handle.clone(), scene.calm.clone());
        scene.hostile.on(call, move || match deed {
            Deed::CallEverything => call_everything(&weak.upgrade().unwrap()),
            Deed::PollAnother => {
                let Some(mut future) = take(&other) else { return };
                if poll(&mut future, &calm).is_pending() {
                    *other.lock().unwrap() = Some(future);
                }
            }
            Deed::DropAnother => drop(take(&other)),
            Deed::DropOneHandle => drop(take(&handle)),
            Deed::Panic => panic!("a hostile waker"),
            Deed::WakeElsewhere => {
                let waker = calm.waker();
                std::thread::spawn(move || waker.wake()).join().unwrap();
            }
        });
        scene
    }

    fn queue_all(&mut self, victim_too: bool) {
        if victim_too {
            pending(self.victim.as_mut().unwrap(), &self.hostile);
        }
        let mut other = take(&self.other).unwrap();
        pending(&mut other, &self.calm);
        *self.other.lock().unwrap() = Some(other);
        self.crowd.iter_mut().for_each(|future| pending(future, &self.calm));
    }

    /// One poll of the victim; false if it panicked. A future that is finished is taken away.
    fn poll_victim(&mut self, waker: &Waker) -> bool {
        let Some(mut victim) = self.victim.take() else { return true };
        let poll = catch(|| poll_with(&mut victim, waker));
        if poll.as_ref().is_none_or(Poll::is_pending) {
            self.victim = Some(victim);
        }
        poll.is_some()
    }

    /// The hook runs once, at the moment; true if that panicked.
    fn play(&mut self, moment: Moment) -> bool {
        let (hostile, calm) = (self.hostile.waker(), self.calm.waker());
        self.queue_all(moment != Moment::FirstPoll);
        let notify = |scene: &Self| scene.shared.1.notify_all();
        let held = match moment {
            Moment::JoinHeld
            | Moment::AnotherWakerMoved
            | Moment::Unlock
            | Moment::CancelMoved
            | Moment::CancelGranted => Some(self.shared.0.clone().try_lock_owned().unwrap()),
            _ => None,
        };
        if !matches!(
            moment,
            Moment::FirstPoll | Moment::AnotherWaker | Moment::Notify | Moment::CancelWaiting
        ) {
            notify(self);
        }
        if held.is_some() && moment != Moment::JoinHeld {
            assert!(self.poll_victim(&hostile));
        }
        let mut held = held;
        if moment == Moment::CancelGranted {
            held = None;
        }
        self.hostile.arm(1);
        let panicked = match moment {
            Moment::FirstPoll | Moment::JoinFree | Moment::JoinHeld => !self.poll_victim(&hostile),
            Moment::AnotherWaker | Moment::AnotherWakerMoved => {
                let away = self.poll_victim(&calm);
                !(self.poll_victim(&hostile) && away)
            }
            Moment::Notify => panics(|| notify(self)),
            Moment::Unlock => panics(|| drop(held.take())),
            Moment::CancelWaiting | Moment::CancelCalled | Moment::CancelMoved | Moment::CancelGranted => {
                panics(|| drop(self.victim.take()))
            }
        };
        self.hostile.arm(0);
        panicked
    }

    /// Everybody who is left comes back, and nothing is left behind.
    fn settle(mut self, context: &str) {
        let mut waiting: Vec<_> = self.victim.take().into_iter().chain(take(&self.other)).collect();
        waiting.append(&mut self.crowd);
        while !waiting.is_empty() {
            let before = waiting.len();
            self.shared.1.notify_all();
            waiting.retain_mut(|future| {
                catch(|| poll(future, &self.calm)).is_some_and(|poll| poll.is_pending())
            });
            assert!(waiting.len() < before, "{context}: {before} wait, and nobody comes back");
        }
        assert!(!self.shared.0.is_locked(), "{context}: left locked");
        drop(take(&self.handle));
        assert_eq!(Arc::strong_count(&self.shared), 1, "{context}: somebody keeps them");
        assert_eq!((self.hostile.alive(), self.calm.alive()), (0, 0), "{context}: wakers are left");
    }
}

fn all<P: Policy>() {
    let _dog = watchdog(120);
    for (deed, call) in DEEDS.into_iter().flat_map(|deed| Call::ALL.map(|call| (deed, call))) {
        let mut reached = false;
        for (moment, crowd) in
            MOMENTS.into_iter().flat_map(|moment| CROWDS.iter().map(move |crowd| (moment, *crowd)))
        {
            let context = format!("{deed:?} in {call:?} at {moment:?}, crowd {crowd}");
            let mut scene = Scene::<P>::new(deed, call, crowd);
            let panicked = scene.play(moment);
            let fired = scene.hostile.fired();
            reached |= fired;
            assert_eq!(panicked, deed == Deed::Panic && fired, "{context}");
            scene.settle(&context);
        }
        assert_eq!(reached, call != Call::WakeByRef, "{deed:?} in {call:?}");
    }
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
