//! H3: the waker's clone, wake and drop are foreign code. Each of six things they might do, in each call that a gate makes,
//! at each moment when it makes one, alone and in a crowd of more than a batch.
//!
//! Out of reach for safe Rust, so not here: `wake_by_ref` (a gate wakes by value only, which is asserted); to poll or drop
//! a future from inside its own poll or drop; to free the gate while it is in use, since whoever uses it holds it.

use super::super::kit::poll::{BoxFuture, catch, panics, pending, poll, poll_with, ready};
use super::super::kit::waker::{Call, Spy};
use super::super::kit::watchdog::watchdog;
use super::{Gate, works_again};
use std::sync::{Arc, Mutex};
use std::task::Waker;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    FirstPoll,
    AnotherWaker,
    Open,
    Cancel,
}

const MOMENTS: [Moment; 4] = [Moment::FirstPoll, Moment::AnotherWaker, Moment::Open, Moment::Cancel];

/// A place that a hook can take from.
type Place<T> = Arc<Mutex<Option<T>>>;

fn place<T>(content: T) -> Place<T> {
    Arc::new(Mutex::new(Some(content)))
}

fn take<T>(place: &Place<T>) -> Option<T> {
    place.lock().unwrap().take()
}

/// A victim with a hostile waker, somebody before it, a crowd and another behind it.
struct Scene<G> {
    gate: Arc<G>,
    handle: Place<Arc<G>>,
    first: BoxFuture<()>,
    victim: Option<BoxFuture<()>>,
    crowd: Vec<BoxFuture<()>>,
    other: Place<BoxFuture<()>>,
    hostile: Spy,
    calm: Arc<Spy>,
}

impl<G: Gate> Scene<G> {
    fn new(deed: Deed, call: Call, crowd: usize) -> Self {
        let gate = Arc::new(G::closed(crowd + 3));
        let scene = Self {
            handle: place(gate.clone()),
            first: G::wait(&gate),
            victim: Some(G::wait(&gate)),
            crowd: (0..crowd).map(|_| G::wait(&gate)).collect(),
            other: place(G::wait(&gate)),
            hostile: Spy::new(),
            calm: Arc::new(Spy::new()),
            gate,
        };
        let weak = Arc::downgrade(&scene.gate);
        let (other, handle, calm) = (scene.other.clone(), scene.handle.clone(), scene.calm.clone());
        scene.hostile.on(call, move || match deed {
            Deed::CallEverything => weak.upgrade().unwrap().call_everything(),
            Deed::PollAnother => {
                let mut future = take(&other).unwrap();
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
        pending(&mut self.first, &self.calm);
        if victim_too {
            pending(self.victim.as_mut().unwrap(), &self.hostile);
        }
        self.crowd.iter_mut().for_each(|future| pending(future, &self.calm));
        let mut other = take(&self.other).unwrap();
        pending(&mut other, &self.calm);
        *self.other.lock().unwrap() = Some(other);
    }

    /// One poll of the victim; false if it panicked. A future that is finished is taken away.
    fn poll_victim(&mut self, waker: &Waker) -> bool {
        let Some(mut victim) = self.victim.take() else { return true };
        let poll = catch(|| poll_with(&mut victim, waker));
        if poll.is_some_and(|poll| poll.is_pending()) {
            self.victim = Some(victim);
        }
        poll.is_some()
    }

    /// The hook runs once, at the moment; true if that panicked.
    fn play(&mut self, moment: Moment) -> bool {
        self.queue_all(moment != Moment::FirstPoll);
        let (hostile, calm) = (self.hostile.waker(), self.calm.waker());
        self.hostile.arm(1);
        let panicked = match moment {
            Moment::FirstPoll => !self.poll_victim(&hostile),
            Moment::AnotherWaker => {
                let away = self.poll_victim(&calm);
                let back = self.poll_victim(&hostile);
                !(away && back)
            }
            Moment::Open => panics(|| self.gate.open()),
            Moment::Cancel => panics(|| drop(self.victim.take())),
        };
        self.hostile.arm(0);
        panicked
    }

    /// Everybody who is left gets through, and nothing is left behind.
    fn settle(mut self, context: &str) {
        let mut waiting: Vec<_> = self.victim.take().into_iter().chain(take(&self.other)).collect();
        waiting.push(self.first);
        waiting.append(&mut self.crowd);
        waiting.retain_mut(|future| poll(future, &self.calm).is_pending());
        if !waiting.is_empty() {
            self.gate.open();
            waiting.iter_mut().for_each(ready);
        }
        drop(waiting);
        works_again(&self.gate, context);
        drop(take(&self.handle));
        assert_eq!(Arc::strong_count(&self.gate), 1, "{context}: somebody keeps the gate");
        assert_eq!((self.hostile.alive(), self.calm.alive()), (0, 0), "{context}: wakers are left");
    }
}

pub(crate) fn wakers<G: Gate>() {
    let _dog = watchdog(60);
    for (deed, call) in DEEDS.into_iter().flat_map(|deed| Call::ALL.map(|call| (deed, call))) {
        let mut reached = false;
        for (moment, crowd) in MOMENTS.into_iter().flat_map(|moment| [0, 1, 40].map(|crowd| (moment, crowd)))
        {
            let context = format!("{deed:?} in {call:?} at {moment:?}, crowd {crowd}");
            let mut scene = Scene::<G>::new(deed, call, crowd);
            let panicked = scene.play(moment);
            let fired = scene.hostile.hook_runs() > 0;
            reached |= fired;
            assert_eq!(panicked, deed == Deed::Panic && fired, "{context}");
            scene.settle(&context);
        }
        assert_eq!(reached, call != Call::WakeByRef, "{deed:?} in {call:?}");
    }
}
