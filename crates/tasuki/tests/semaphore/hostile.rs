//! Hostile wakers (H3) on the semaphore: a waker's clone, wake and drop are foreign code and may do anything.
//! B061, B063, B065, B129, B133, H15; S0-22.
//!
//! Six actions x every call that the semaphore makes on a waker x every place where it makes one x both policies.
//! After each the permits are all there, the next waiter is served, and every waker made was dropped or
//! woken exactly once.
//!
//! Out of reach for safe Rust, so not here: polling or dropping a future from a waker call made by that same
//! future's poll or drop (both borrow it exclusively; "another future" stands in for it), and `wake_by_ref`
//! (the semaphore wakes by value only, which is asserted).

use crate::kit::hostile::{Cast, DEEDS, Deed};
use crate::kit::poll::{panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use tasuki::Semaphore;
use tasuki::future::AcquireOwned;
use tasuki::policy::{Bypass, Fifo, SemaphorePolicy};

type Shared<P> = Arc<Semaphore<P>>;
type Future<P> = Pin<Box<AcquireOwned<P>>>;

/// More than a batch of wakers.
const MANY: usize = crate::kit::scaled(40, 2);

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

/// A cast, whose crowd is queued only where it matters.
struct Scene<P: SemaphorePolicy> {
    cast: Cast<Semaphore<P>, AcquireOwned<P>>,
    /// How many permits there are in all.
    total: usize,
}

impl<P: SemaphorePolicy> Scene<P> {
    fn new(deed: (Deed, Call)) -> Self {
        let semaphore: Shared<P> = Arc::new(Semaphore::with_policy(1));
        let wait = |semaphore: &Shared<P>, _| Box::pin(semaphore.clone().acquire_many_owned(2));
        Self { cast: Cast::new(semaphore, MANY, wait, deed, call_everything), total: 1 }
    }

    fn release(&mut self, permits: usize) {
        // First: a panic comes after everything has been done.
        self.total += permits;
        self.cast.shared.release(permits);
    }

    fn loose(&mut self, call: impl FnOnce(&mut Self)) -> bool {
        self.cast.hostile.arm(1);
        let panicked = panics(|| call(self));
        self.cast.hostile.arm(0);
        panicked
    }

    /// One poll of the victim, which stays: it can be polled after a panic.
    fn poll_victim(&mut self, waker: &Waker) -> bool {
        self.loose(|scene| drop(poll_with(scene.cast.victim.as_mut().unwrap(), waker)))
    }

    /// Runs the scene up to the moment, lets the hook loose there, and returns whether the moment panicked. `head` stands before
    /// the victim.
    fn play(&mut self, moment: Moment, head: &mut Option<Future<P>>) -> bool {
        let hostile = self.cast.hostile.waker();
        // One permit is free: kept for the head, and too few for all others.
        pending(head.insert(Box::pin(self.cast.shared.clone().acquire_many_owned(3))), &Spy::new());
        if moment != Moment::FirstPoll {
            self.cast.queue_victim();
        }
        self.cast.queue_other();
        if matches!(moment, Moment::ReleaseMany | Moment::Close) {
            self.cast.queue_crowd();
        }
        match moment {
            Moment::FirstPoll => self.poll_victim(&hostile),
            // To another waker and back, so that the clone of the hostile one has its turn too.
            Moment::Repoll => self.poll_victim(&Spy::new().waker()) || self.poll_victim(&hostile),
            Moment::Release => self.loose(|scene| scene.release(4)),
            Moment::ReleaseMany => self.loose(|scene| scene.release(2 * MANY + 6)),
            Moment::CancelGranted => {
                self.release(2);
                self.loose(|_| drop(head.take()))
            }
            Moment::CancelQueued => self.loose(|scene| drop(scene.cast.victim.take())),
            Moment::CancelBigHead => {
                self.release(1);
                self.loose(|_| drop(head.take()))
            }
            Moment::Close => self.loose(|scene| assert!(scene.cast.shared.close())),
        }
    }

    /// Every waiter that is left is served, and then every permit is free.
    fn settle(mut self, head: Option<Future<P>>, context: &str) {
        self.release(100);
        let left = head.into_iter().chain(self.cast.left()).collect();
        self.cast.serve_all(left, |_| (), context);
        assert_eq!(self.cast.shared.available_permits(), self.total, "{context}: permits are conserved");
        assert_eq!(self.cast.hostile.calls(Call::WakeByRef), 0, "{context}");
        self.cast.leave(context);
    }
}

/// All of it for one policy, and where hooks must run.
fn all<P: SemaphorePolicy>() {
    let _dog = watchdog(60);
    let mut reached = Vec::new();
    for (deed, call) in DEEDS.into_iter().flat_map(|deed| Call::ALL.map(|call| (deed, call))) {
        for moment in MOMENTS {
            let context = format!("{deed:?} in {call:?} at {moment:?}");
            let (mut scene, mut head) = (Scene::<P>::new((deed, call)), None);
            let panicked = scene.play(moment, &mut head);
            if scene.cast.was_done(deed, panicked, &context) {
                reached.push((call, moment));
            }
            scene.settle(head, &context);
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
        assert_eq!(reached.iter().filter(|at| **at == call).count(), DEEDS.len(), "{call:?}");
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

/// The wake of the served panics: all others have been woken, and all permits are accounted for.
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
    check(|semaphore| assert!(semaphore.close()), false);
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
