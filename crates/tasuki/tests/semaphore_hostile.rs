//! H3 on the semaphore: a waker's clone, wake and drop are foreign code and may do anything.
//! B061, B063, B065, B129, B133, H15; S0-22.
//!
//! Six actions x every call that the semaphore makes on a waker x every place where it makes one x both policies.
//! After each the permits are all there, the next waiter is served, and every waker made was dropped or
//! woken exactly once.
//!
//! Out of reach for safe Rust, so not here: polling or dropping a future from a waker call made by that same
//! future's poll or drop (both borrow it exclusively; "another future" stands in for it), and `wake_by_ref`
//! (the semaphore wakes by value only, which is asserted).

mod kit;

use kit::poll::{panics, pending, poll, poll_with, ready};
use kit::waker::{Call, Spy};
use kit::watchdog::watchdog;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use tasuki::{AcquireOwned, Bypass, Fifo, Semaphore, SemaphorePolicy};

type Shared<P> = Arc<Semaphore<P>>;
type Future<P> = Pin<Box<AcquireOwned<P>>>;
/// A place from which a hook can take something; never locked while foreign code runs.
type Place<T> = Arc<Mutex<Option<T>>>;

fn take<T>(place: &Place<T>) -> Option<T> {
    place.lock().unwrap().take()
}

/// More than a batch of wakers.
const MANY: usize = kit::scaled(40, 2);

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

/// Where the semaphore comes to make a call on a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The first poll queues: clone.
    FirstPoll,
    /// A poll with another waker: clone of the new, drop of the old.
    Repoll,
    /// A release serves one: wake.
    Release,
    /// A release serves many: wakes in batches.
    ReleaseMany,
    /// A granted future is dropped: the wake of the next.
    CancelGranted,
    /// A queued future is dropped: drop.
    CancelQueued,
    /// A big queued future at the head is dropped: drop, and the wake of the next.
    CancelBigHead,
    /// The semaphore is closed: wakes.
    Close,
}

const MOMENTS: [Moment; 8] = [
    Moment::FirstPoll,
    Moment::Repoll,
    Moment::Release,
    Moment::ReleaseMany,
    Moment::CancelGranted,
    Moment::CancelQueued,
    Moment::CancelBigHead,
    Moment::Close,
];

/// Every method that a shared semaphore has, with nothing changed in the end; none may hang or break it.
fn call_everything<P: SemaphorePolicy>(semaphore: &Shared<P>) {
    let spy = Spy::new();
    drop(semaphore.try_acquire());
    drop(semaphore.clone().try_acquire_many_owned(2));
    let mut borrowed = Box::pin(semaphore.acquire());
    drop(poll(&mut borrowed, &spy));
    let mut owned = Box::pin(semaphore.clone().acquire_many_owned(3));
    drop(poll(&mut owned, &spy));
    semaphore.release(semaphore.forget_permits(1));
    drop(format!("{semaphore:?} {borrowed:?}"));
    drop(borrowed);
    drop(owned);
    assert_eq!(spy.alive(), 0);
}

/// Everything a scene consists of. The hostile waker is that of the victim; `other` is queued behind it.
struct Scene<P: SemaphorePolicy> {
    semaphore: Shared<P>,
    other: Place<Future<P>>,
    other_spy: Arc<Spy>,
    spare: Place<Shared<P>>,
    hostile: Arc<Spy>,
    /// How many permits there are in all.
    total: usize,
}

impl<P: SemaphorePolicy> Scene<P> {
    fn new(action: Action, call: Call) -> Self {
        let semaphore: Shared<P> = Arc::new(Semaphore::with_policy(1));
        let other = Arc::new(Mutex::new(Some(Box::pin(semaphore.clone().acquire_many_owned(2)))));
        let spare = Arc::new(Mutex::new(Some(semaphore.clone())));
        let (hostile, other_spy) = (Arc::new(Spy::new()), Arc::new(Spy::new()));
        let scene = Self { semaphore, other, other_spy, spare, hostile, total: 1 };
        scene.hostile.on(call, scene.hook(action));
        scene
    }

    fn hook(&self, action: Action) -> Box<dyn Fn() + Send + Sync> {
        let weak = Arc::downgrade(&self.semaphore);
        let (other, spare) = (self.other.clone(), self.spare.clone());
        let spy = self.other_spy.clone();
        Box::new(move || match action {
            Action::CallEverything => call_everything(&weak.upgrade().expect("somebody holds it")),
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

    fn future(&self, permits: usize) -> Future<P> {
        Box::pin(self.semaphore.clone().acquire_many_owned(permits))
    }

    fn release(&mut self, permits: usize) {
        // First: a panic comes after everything has been done.
        self.total += permits;
        self.semaphore.release(permits);
    }

    fn loose(&mut self, call: impl FnOnce(&mut Self)) -> bool {
        self.hostile.arm(1);
        let panicked = panics(|| call(self));
        self.hostile.arm(0);
        panicked
    }

    /// Runs the scene up to the moment, lets the hook loose there, and returns whether the moment panicked.
    fn play(&mut self, moment: Moment, left: &mut Vec<Future<P>>) -> bool {
        let hostile = self.hostile.clone();
        // One permit is free: kept for the head, and too few for everybody else.
        let (mut head, mut victim) = (self.future(3), self.future(2));
        pending(&mut head, &Spy::new());
        if moment != Moment::FirstPoll {
            pending(&mut victim, &hostile);
        }
        let mut other = take(&self.other).unwrap();
        pending(&mut other, &self.other_spy);
        *self.other.lock().unwrap() = Some(other);
        let mut many: Vec<_> = (0..MANY).map(|_| self.future(2)).collect();
        let panicked = match moment {
            Moment::FirstPoll => {
                let waker = hostile.waker();
                self.loose(|_| drop(poll_with(&mut victim, &waker)))
            }
            Moment::Repoll => {
                let second = hostile.waker();
                // To another waker and back, so that the clone of the hostile one has its turn too.
                let away = self.loose(|_| drop(poll(&mut victim, &Spy::new())));
                away || self.loose(|_| drop(poll_with(&mut victim, &second)))
            }
            Moment::Release => self.loose(|scene| scene.release(4)),
            Moment::ReleaseMany => {
                many.iter_mut().for_each(|future| pending(future, &Spy::new()));
                self.loose(|scene| scene.release(2 * MANY + 6))
            }
            Moment::CancelGranted => {
                self.release(2);
                let granted = std::mem::replace(&mut head, self.future(1));
                self.loose(|_| drop(granted))
            }
            Moment::CancelQueued => {
                let dropped = std::mem::replace(&mut victim, self.future(1));
                self.loose(|_| drop(dropped))
            }
            Moment::CancelBigHead => {
                self.release(1);
                let dropped = std::mem::replace(&mut head, self.future(1));
                self.loose(|_| drop(dropped))
            }
            Moment::Close => {
                many.iter_mut().for_each(|future| pending(future, &Spy::new()));
                self.loose(|scene| scene.semaphore.close())
            }
        };
        left.extend([head, victim]);
        left.extend(many);
        panicked
    }

    /// Whoever still waits is served, and then every permit is free.
    fn settle(mut self, mut left: Vec<Future<P>>, context: &str) {
        let served = Spy::new();
        left.extend(take(&self.other));
        self.release(100);
        let mut rounds = 0;
        while !left.is_empty() {
            left.retain_mut(|future| match poll(future, &served) {
                Poll::Ready(outcome) => {
                    drop(outcome);
                    false
                }
                Poll::Pending => true,
            });
            rounds += 1;
            assert!(rounds < 100, "{context}: {} are not served", left.len());
        }
        assert_eq!(self.semaphore.available_permits(), self.total, "{context}: permits are conserved");
        drop(take(&self.spare));
        assert_eq!(Arc::strong_count(&self.semaphore), 1, "{context}: somebody keeps the semaphore");
        assert_eq!(self.hostile.calls(Call::WakeByRef), 0, "{context}");
        assert_eq!((served.alive(), self.hostile.alive()), (0, 0), "{context}: wakers left over");
        assert_eq!(self.other_spy.alive(), 0, "{context}: wakers left over");
    }
}

/// All of it for one policy; returns where hooks ran.
fn all<P: SemaphorePolicy>() {
    let _dog = watchdog(60);
    let mut reached = Vec::new();
    for action in ACTIONS {
        for call in [Call::Clone, Call::Wake, Call::Drop] {
            for moment in MOMENTS {
                let context = format!("{action:?} in {call:?} at {moment:?}");
                let mut scene = Scene::<P>::new(action, call);
                let mut left = Vec::new();
                let panicked = scene.play(moment, &mut left);
                assert_eq!(panicked, action == Action::Panic && scene.hostile.fired(), "{context}");
                if scene.hostile.fired() {
                    reached.push((call, moment));
                }
                scene.settle(left, &context);
            }
        }
    }
    for call in [
        (Call::Clone, Moment::FirstPoll),
        (Call::Clone, Moment::Repoll),
        (Call::Drop, Moment::Repoll),
        (Call::Wake, Moment::Release),
        (Call::Wake, Moment::ReleaseMany),
        (Call::Wake, Moment::CancelGranted),
        (Call::Drop, Moment::CancelQueued),
        (Call::Wake, Moment::CancelBigHead),
        (Call::Wake, Moment::Close),
    ] {
        assert_eq!(reached.iter().filter(|at| **at == call).count(), ACTIONS.len(), "{call:?}");
    }
}

#[test]
fn h3_fifo() {
    all::<Fifo>();
}

#[test]
fn h3_bypass() {
    all::<Bypass<1>>();
    all::<Bypass>();
}

/// A newcomer gets its permits after all, because the clone of its waker released some; then the drop of the clone
/// panics. The newcomer never hears of its permits: they go back.
#[test]
fn b133_a_newcomer_that_panics_keeps_nothing() {
    let semaphore = Arc::new(Semaphore::new(0));
    let hostile = Spy::new();
    let giver = semaphore.clone();
    hostile.on(Call::Clone, move || giver.release(2));
    hostile.on(Call::Drop, || panic!("a hostile waker"));
    let waker = hostile.waker();
    hostile.arm(2);
    let mut future = Box::pin(semaphore.acquire_many(2));
    assert!(panics(|| drop(poll_with(&mut future, &waker))));
    assert_eq!((hostile.hook_runs(), semaphore.available_permits()), (2, 2));
    drop(ready(&mut future).unwrap());
    assert_eq!(semaphore.available_permits(), 2);
}

/// A called head whose poll takes its permits, and whose next in line panics: the head gives them back when dropped.
#[test]
fn b133_a_head_that_panics_in_its_poll_gives_back() {
    let semaphore = Semaphore::<Bypass>::with_policy(0);
    let (mut head, mut next) = (Box::pin(semaphore.acquire_many(2)), Box::pin(semaphore.acquire_many(2)));
    let hostile = Spy::hostile(Call::Drop, || panic!("a hostile waker"));
    pending(&mut head, &Spy::new());
    pending(&mut next, &Spy::new());
    semaphore.release(3);
    let waker = hostile.waker();
    hostile.arm(1);
    // The poll clones its waker, takes the two, and drops the clone.
    assert!(panics(|| drop(poll_with(&mut head, &waker))));
    assert!(hostile.fired());
    drop(head);
    drop(ready(&mut next).unwrap());
    assert_eq!(semaphore.available_permits(), 3);
}

/// The wake of the served panics: everybody else has been woken, and all permits are accounted for.
#[test]
fn h15_a_panicking_wake_does_not_stop_the_others() {
    fn check(act: fn(&Semaphore), served: bool) {
        let semaphore = Semaphore::new(0);
        let mut waiters: Vec<_> = (0..70).map(|_| (Box::pin(semaphore.acquire()), Spy::new())).collect();
        for (at, (future, spy)) in waiters.iter_mut().enumerate() {
            if at % 20 == 3 {
                spy.on(Call::Wake, || panic!("a hostile waker"));
                spy.arm(1);
            }
            pending(future, spy);
        }
        assert!(panics(|| act(&semaphore)));
        for (future, spy) in &mut waiters {
            assert_eq!(spy.wakes(), 1);
            assert_eq!(ready(future).is_ok(), served);
        }
        drop(waiters);
        assert_eq!(semaphore.available_permits(), if served { 70 } else { 0 });
    }
    check(|semaphore| semaphore.release(70), true);
    check(Semaphore::close, false);
}

/// A refused waiter whose poll panics must not give back what it never had.
#[test]
fn b133_a_panic_in_a_refused_poll_makes_no_permits() {
    let semaphore = Arc::new(Semaphore::new(0));
    let spies: Vec<_> = (0..40).map(|_| Spy::new()).collect();
    let mut waiters: Vec<_> = spies.iter().map(|_| Box::pin(semaphore.acquire())).collect();
    for (future, spy) in waiters.iter_mut().zip(&spies) {
        pending(future, spy);
    }
    let mut last = Box::pin(semaphore.clone().acquire_owned());
    let hostile = Arc::new(Spy::hostile(Call::Drop, || panic!("a hostile waker")));
    pending(&mut last, &hostile);
    let (last, armed) = (Mutex::new(Some(last)), hostile.clone());
    // From the first wake of the close, before the batch of the last: its poll drops the hostile waker.
    spies[0].on(Call::Wake, move || {
        let mut last = last.lock().unwrap().take().unwrap();
        armed.arm(1);
        assert!(panics(|| drop(poll(&mut last, &Spy::new()))));
        drop(last);
    });
    spies[0].arm(1);
    semaphore.close();
    assert!(spies[0].fired() && hostile.fired());
    assert_eq!(semaphore.available_permits(), 0);
    assert_eq!(hostile.alive(), 0);
}
