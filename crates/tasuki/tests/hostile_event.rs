//! H3 on the event: a waker's clone, wake and drop are foreign code and may do anything. B061, B063, B129, H15.
//!
//! Six actions x the calls that an event makes x every place where it makes one, auto and manual, in one batch of
//! wakers and in several. After each the event works, and every waker was dropped or woken exactly once.
//!
//! Out of reach for safe Rust, so not here: `wake_by_ref` (an event wakes by value only; the test asserts that);
//! polling or dropping a future from a call made by that future's own poll or drop; dropping the event in the
//! middle of a call on it, because whoever calls keeps it alive.

mod kit;

use kit::poll::{BoxFuture, catch, panics, pending, poll, poll_with};
use kit::waker::{Call, Spy};
use kit::watchdog::watchdog;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Poll, Waker};
use tasuki::{Event, Reset};

type Place<T> = Arc<StdMutex<Option<T>>>;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    FirstPoll,
    Repoll,
    Set,
    CancelGiven,
    CancelQueued,
}

const MOMENTS: [Moment; 5] =
    [Moment::FirstPoll, Moment::Repoll, Moment::Set, Moment::CancelGiven, Moment::CancelQueued];

fn wait(event: &Arc<Event>) -> BoxFuture<()> {
    let event = event.clone();
    Box::pin(async move { event.wait().await })
}

/// `first` and `other` are queued around the victim, whose waker is hostile; the crowd is behind it.
struct Scene {
    event: Arc<Event>,
    first: Option<BoxFuture<()>>,
    other: Place<BoxFuture<()>>,
    crowd: Vec<BoxFuture<()>>,
    spare: Place<Arc<Event>>,
    hostile: Spy,
    spy: Arc<Spy>,
}

fn call_everything(event: &Event) {
    let spy = Spy::new();
    let was_set = event.is_set();
    let mut future = Box::pin(event.wait());
    let consumed = poll(&mut future, &spy).is_ready();
    assert!(!was_set || consumed);
    drop(format!("{event:?} {future:?}"));
    drop(future);
    event.reset();
    event.set();
    assert_eq!(spy.alive(), 0);
}

fn hook(action: Action, scene: &Scene) -> Box<dyn Fn() + Send + Sync> {
    let weak = Arc::downgrade(&scene.event);
    let (other, spare, spy) = (scene.other.clone(), scene.spare.clone(), scene.spy.clone());
    Box::new(move || match action {
        Action::CallEverything => call_everything(&weak.upgrade().expect("somebody holds the event")),
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

impl Scene {
    fn new(reset: Reset, action: Action, call: Call, crowd: usize) -> Self {
        let event = Arc::new(Event::new(reset, false));
        let other = Arc::new(StdMutex::new(Some(wait(&event))));
        let spare = Arc::new(StdMutex::new(Some(event.clone())));
        let first = (crowd % 2 == 0).then(|| wait(&event));
        let crowd = (0..crowd).map(|_| wait(&event)).collect();
        let (hostile, spy) = (Spy::new(), Arc::new(Spy::new()));
        let scene = Self { event, first, other, crowd, spare, hostile, spy };
        scene.hostile.on(call, hook(action, &scene));
        scene
    }

    fn queue_the_rest(&mut self) {
        for future in &mut self.crowd {
            pending(future, &self.spy);
        }
        let mut other = take(&self.other).unwrap();
        pending(&mut other, &self.spy);
        *self.other.lock().unwrap() = Some(other);
    }

    /// Runs the scene up to the moment and lets the hook loose there; true if the moment panicked.
    fn play(&mut self, moment: Moment, victim: &mut Option<BoxFuture<()>>) -> bool {
        let mut future = wait(&self.event);
        if let Some(first) = &mut self.first {
            pending(first, &self.spy);
        }
        if moment != Moment::FirstPoll {
            pending(&mut future, &self.hostile);
        }
        self.queue_the_rest();
        let (waker, calm) = (self.hostile.waker(), Spy::new());
        if moment == Moment::CancelGiven {
            self.event.set();
        }
        self.hostile.arm(1);
        // An `async` block that was ready or panicked cannot be polled again; what it held is dropped with it.
        let mut finished = false;
        let mut repoll = |waker: &Waker| {
            let poll = catch(|| finished || poll_with(&mut future, waker).is_ready());
            finished |= poll.unwrap_or(true);
            poll.is_none()
        };
        let panicked = match moment {
            Moment::FirstPoll => repoll(&waker),
            Moment::Repoll => {
                let away = repoll(&calm.waker());
                repoll(&waker) || away
            }
            Moment::Set => panics(|| (self.event.set(), self.event.set())),
            Moment::CancelGiven => panics(|| drop(self.first.take())),
            Moment::CancelQueued => panics(|| drop(std::mem::replace(&mut future, wait(&self.event)))),
        };
        self.hostile.arm(0);
        *victim = (!finished).then_some(future);
        panicked
    }

    /// Sets until nobody waits; everybody is served.
    fn settle(mut self, victim: Option<BoxFuture<()>>, context: &str) {
        let mut waiting: Vec<_> =
            self.first.take().into_iter().chain(victim).chain(take(&self.other)).collect();
        waiting.append(&mut self.crowd);
        let calm = Spy::new();
        while !waiting.is_empty() {
            let before = waiting.len();
            self.event.set();
            waiting.retain_mut(|future| poll(future, &calm) == Poll::Pending);
            assert!(waiting.len() < before, "{context}: nobody is served, {} wait", waiting.len());
        }
        self.event.set();
        assert!(self.event.is_set(), "{context}: nobody waits, so the signal stays");
        drop(take(&self.spare));
        assert_eq!(Arc::strong_count(&self.event), 1, "{context}: somebody keeps the event");
        assert_eq!((self.hostile.alive(), self.spy.alive(), calm.alive()), (0, 0, 0), "{context}");
    }
}

/// All of it for one kind of event; asserts which cells are reached.
fn all(reset: Reset) {
    let _dog = watchdog(60);
    let mut reached = Vec::new();
    for (action, call) in ACTIONS.into_iter().flat_map(|action| Call::ALL.map(|call| (action, call))) {
        for moment in MOMENTS {
            for crowd in [0, 1, 40] {
                // Miri: several batches only where they are woken.
                let batches = moment == Moment::Set && call == Call::Wake;
                if cfg!(miri) && crowd > 0 && !(batches && crowd == 40) {
                    continue;
                }
                let context = format!("{reset:?}: {action:?} in {call:?} at {moment:?}, crowd {crowd}");
                let mut scene = Scene::new(reset, action, call, crowd);
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
    for (action, call) in ACTIONS.into_iter().flat_map(|action| Call::ALL.map(|call| (action, call))) {
        let ran = reached.contains(&(action, call));
        assert_eq!(ran, call != Call::WakeByRef, "{action:?} in {call:?}");
    }
}

#[test]
fn h3_auto() {
    all(Reset::Auto);
}

#[test]
fn h3_manual() {
    all(Reset::Manual);
}

/// H15: a waiter that queues again from its own wake is not released by the same set.
#[test]
fn h15_requeueing_in_the_wake_is_not_released_twice() {
    let _dog = watchdog(10);
    let event = Arc::new(Event::manual());
    let spies: Vec<Arc<Spy>> = (0..70).map(|_| Arc::new(Spy::new())).collect();
    let again: Arc<StdMutex<Vec<BoxFuture<()>>>> = Arc::default();
    let late = Arc::new(Spy::new());
    let mut futures: Vec<_> = spies.iter().map(|_| wait(&event)).collect();
    for (future, spy) in futures.iter_mut().zip(&spies) {
        pending(future, spy);
        let (weak, again, late) = (Arc::downgrade(&event), again.clone(), late.clone());
        spy.on(Call::Wake, move || {
            let event = weak.upgrade().unwrap();
            event.reset();
            let mut future = wait(&event);
            pending(&mut future, &late);
            again.lock().unwrap().push(future);
        });
        spy.arm(1);
    }
    event.set();
    assert!(spies.iter().all(|spy| spy.wakes() == 1));
    futures.iter_mut().for_each(kit::poll::ready);
    let mut again = std::mem::take(&mut *again.lock().unwrap());
    assert_eq!((again.len(), late.wakes()), (70, 0));
    again.iter_mut().for_each(|future| pending(future, &late));
    event.set();
    assert_eq!(late.wakes(), 70);
    again.iter_mut().for_each(kit::poll::ready);
}
