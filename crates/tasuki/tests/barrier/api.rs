//! The barrier: S2-66..S2-77, and arrivals that are cancelled.

use crate::kit::alloc::allocations;
use crate::kit::gate::{self, Gate, hostile};
use crate::kit::poll::{BoxFuture, panic_of, panics, pending, poll, ready};
use crate::kit::rng::Seed;
use crate::kit::scaled;
use crate::kit::stress::Stress;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::{watchdog, watchdog_with};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tasuki::future::{Arrive, Awaitable};
use tasuki::{Barrier, BarrierWaitResult, Elapsed};

/// The leader of a gate is the one that opens it.
impl Gate for Barrier {
    fn closed(waiters: usize) -> Self {
        Barrier::new(waiters + 1)
    }

    fn wait(gate: &Arc<Self>) -> BoxFuture<()> {
        let barrier = gate.clone();
        Box::pin(async move { assert!(!barrier.arrive_and_wait().await.is_leader()) })
    }

    /// Fills the phase up, for all that are missing.
    fn open(&self) {
        let spy = Spy::new();
        let mut fillers = Vec::new();
        loop {
            let mut arrival = Box::pin(self.arrive_and_wait());
            if let Poll::Ready(result) = poll(&mut arrival, &spy) {
                assert!(result.is_leader());
                break;
            }
            fillers.push(arrival);
        }
        assert_eq!(spy.wakes(), fillers.len());
    }

    fn close_again(&self) -> bool {
        true
    }

    fn call_everything(&self) {
        let spy = Spy::new();
        let mut arrival = Box::pin(self.arrive_and_wait());
        if let Poll::Ready(result) = poll(&mut arrival, &spy) {
            assert!(result.is_leader());
        }
        drop(format!("{self:?} {arrival:?}"));
        drop(arrival);
        assert_eq!(spy.alive(), 0);
    }
}

#[test]
fn drop_matrix() {
    gate::drop_matrix::<Barrier>();
}

/// S2-68, S2-76.
#[test]
fn h15_release_in_batches() {
    gate::release_in_batches::<Barrier>();
}

#[test]
fn h15_release_with_panics() {
    gate::release_with_panics::<Barrier>();
}

#[test]
fn h8_spurious_polls() {
    gate::spurious_polls::<Barrier>();
}

#[test]
fn h6_forgotten_futures() {
    gate::forgotten_futures::<Barrier>();
}

#[test]
fn h9_cancel_storm() {
    gate::cancel_storm::<Barrier>();
}

#[test]
fn b063_wakers_reenter() {
    gate::wakers_reenter::<Barrier>();
}

#[test]
fn h3_hostile_wakers() {
    hostile::wakers::<Barrier>();
}

fn arrived<'a>(barrier: &'a Barrier, spy: &Spy) -> Pin<Box<Arrive<'a>>> {
    let mut arrival = Box::pin(barrier.arrive_and_wait());
    pending(&mut arrival, spy);
    arrival
}

fn leader(barrier: &Barrier) -> bool {
    ready(&mut Box::pin(barrier.arrive_and_wait())).is_leader()
}

/// S2-66..S2-70: no party passes early, the last leads and knows it at once, the next phase begins by itself.
#[test]
fn phases() {
    let _dog = watchdog(5);
    let barrier = Barrier::new(3);
    for _ in 0..3 {
        let spy = Spy::new();
        let mut others = [arrived(&barrier, &spy), arrived(&barrier, &spy)];
        others.iter_mut().for_each(|other| pending(other, &spy));
        let clones = spy.calls(Call::Clone);
        let mut last = Box::pin(barrier.arrive_and_wait());
        assert!(matches!(poll(&mut last, &spy), Poll::Ready(result) if result.is_leader()));
        assert_eq!(spy.calls(Call::Clone), clones, "the last needs no waker");
        assert_eq!((spy.wakes(), spy.alive()), (2, 0));
        assert!(others.iter_mut().all(|other| !ready(other).is_leader()));
    }
}

/// A call is no arrival; the first poll is.
#[test]
fn an_arrival_counts_from_its_first_poll() {
    let _dog = watchdog(5);
    let barrier = Barrier::new(2);
    let spy = Spy::new();
    let unpolled = barrier.arrive_and_wait();
    let mut first = arrived(&barrier, &spy);
    drop(unpolled);
    pending(&mut first, &spy);
    assert!(leader(&barrier));
    assert!(!ready(&mut first).is_leader());
}

#[test]
fn one_party_is_complete_alone() {
    let barrier = Barrier::new(1);
    for _ in 0..3 {
        assert!(leader(&barrier));
    }
    assert_eq!(format!("{barrier:?}"), "Barrier { parties: 1, arrived: 0 }");
}

/// H13: no party is a mistake, and the largest number is none.
#[test]
fn limits() {
    assert_eq!(panic_of(|| Barrier::new(0)), "a barrier needs at least one party");
    let barrier = Barrier::new(usize::MAX);
    let spy = Spy::new();
    let arrivals = [arrived(&barrier, &spy), arrived(&barrier, &spy)];
    assert_eq!(format!("{barrier:?}"), format!("Barrier {{ parties: {}, arrived: 2 }}", usize::MAX));
    drop(arrivals);
    assert_eq!(format!("{barrier:?}"), format!("Barrier {{ parties: {}, arrived: 0 }}", usize::MAX));
}

/// B027: a dropped arrival is withdrawn, at the head, in the middle and at the tail; no early release, one leader.
#[test]
fn b027_a_dropped_arrival_is_withdrawn() {
    let _dog = watchdog(5);
    for position in 0..3 {
        let barrier = Barrier::new(4);
        let spy = Spy::new();
        let mut arrivals: Vec<_> = (0..3).map(|_| arrived(&barrier, &spy)).collect();
        drop(arrivals.remove(position));
        arrivals.push(arrived(&barrier, &spy));
        assert_eq!(spy.wakes(), 0, "three live arrivals of four");
        arrivals.iter_mut().for_each(|arrival| pending(arrival, &spy));
        assert!(leader(&barrier));
        assert_eq!((spy.wakes(), spy.alive()), (3, 0));
        assert!(arrivals.iter_mut().all(|arrival| !ready(arrival).is_leader()));
    }
}

/// B027, as it happens: a timeout around an arrival. The poll that times out has cancelled it.
#[test]
#[cfg_attr(miri, ignore = "Miri wants every thread to end, and the timer's does not")]
fn b027_an_arrival_that_timed_out_is_withdrawn() {
    let _dog = watchdog(5);
    let barrier = Barrier::new(2);
    assert_eq!(barrier.arrive_and_wait().timeout(Duration::from_millis(5)).block(), Err(Elapsed));
    let spy = Spy::new();
    let mut first = arrived(&barrier, &spy);
    assert!(leader(&barrier));
    assert!(!ready(&mut first).is_leader());
}

/// After the phase was completed a drop takes nothing back, not even from the next phase that has begun.
#[test]
fn a_drop_after_the_phase_changes_nothing() {
    let _dog = watchdog(5);
    let barrier = Barrier::new(2);
    let spy = Spy::new();
    let released = arrived(&barrier, &spy);
    assert!(leader(&barrier));
    let mut next = arrived(&barrier, &spy);
    drop(released);
    pending(&mut next, &spy);
    assert!(leader(&barrier));
    assert!(!ready(&mut next).is_leader());
}

/// A waker that panics when it is cloned: no party has arrived.
#[test]
fn a_clone_that_panics_is_no_arrival() {
    let _dog = watchdog(5);
    let barrier = Barrier::new(2);
    let (spy, hostile) = (Spy::new(), Spy::hostile(Call::Clone, || panic!("no clone")));
    hostile.arm(1);
    let mut arrival = Box::pin(barrier.arrive_and_wait());
    assert!(panics(|| poll(&mut arrival, &hostile)));
    let mut first = arrived(&barrier, &spy);
    drop(arrival);
    pending(&mut first, &spy);
    assert!(leader(&barrier));
    ready(&mut first);
    assert_eq!(hostile.alive(), 0);
}

/// The other party comes while the waker is cloned, and its waker panics when the phase is complete: the arrival has
/// happened, so another poll must not arrive again.
#[test]
fn a_wake_that_panics_makes_no_second_arrival() {
    let _dog = watchdog(5);
    let barrier = Arc::new(Barrier::new(2));
    let bad = Arc::new(Spy::hostile(Call::Wake, || panic!("no wake")));
    bad.arm(1);
    let others = Arc::new(std::sync::Mutex::new(Vec::new()));
    let late = Spy::hostile(Call::Clone, {
        let (barrier, bad, others) = (barrier.clone(), bad.clone(), others.clone());
        move || {
            let mut other = <Barrier as Gate>::wait(&barrier);
            pending(&mut other, &bad);
            others.lock().unwrap().push(other);
        }
    });
    late.arm(1);
    let mut arrival = Box::pin(barrier.arrive_and_wait());
    assert_eq!(panic_of(|| poll(&mut arrival, &late)), "no wake");
    assert!(arrival.has_ended(), "its wait is over");

    let mut next = arrived(&barrier, &Spy::new());
    let message = panic_of(|| poll(&mut arrival, &late));
    assert_eq!(message, "`tasuki::future::Arrive` polled after it was finished");
    pending(&mut next, &Spy::new());
    ready(&mut others.lock().unwrap()[0]);
    drop(arrival);
    assert!(leader(&barrier));
    ready(&mut next);
    assert_eq!((late.alive(), bad.alive()), (0, 0));
}

/// H5.
#[test]
fn polling_a_finished_arrival_panics() {
    let barrier = Barrier::new(1);
    let mut arrival = Box::pin(barrier.arrive_and_wait());
    assert!(ready(&mut arrival).is_leader());
    let message = panic_of(|| ready(&mut arrival));
    assert_eq!(message, "`tasuki::future::Arrive` polled after it was finished");
}

/// S2-77: threads that start together.
#[test]
fn a_startup_barrier() {
    static READY: Barrier = Barrier::new(4);
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let _dog = watchdog(20);
    for round in 1..=scaled(100, 2) {
        let threads = [(); 4].map(|()| {
            std::thread::spawn(move || {
                STARTED.fetch_add(1, Relaxed);
                let result = READY.arrive_and_wait().block();
                assert!(STARTED.load(Relaxed) >= 4 * round);
                result
            })
        });
        let results = threads.map(|thread| thread.join().unwrap());
        assert_eq!(results.iter().filter(|result| result.is_leader()).count(), 1);
    }
}

/// S2-71.
#[test]
fn no_allocation() {
    let _dog = watchdog(5);
    let barrier = Barrier::new(2);
    let spy = Spy::new();
    let waker = spy.waker();
    let (count, ()) = allocations(|| {
        let mut cx = Context::from_waker(&waker);
        {
            let mut dropped = std::pin::pin!(barrier.arrive_and_wait());
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
        }
        let mut kept = std::pin::pin!(barrier.arrive_and_wait());
        assert!(kept.as_mut().poll(&mut cx).is_pending());
        let mut last = std::pin::pin!(barrier.arrive_and_wait());
        assert!(last.as_mut().poll(&mut cx).is_ready());
        assert!(kept.as_mut().poll(&mut cx).is_ready());
    });
    assert_eq!(count, 0);
}

#[test]
fn size_and_auto_traits() {
    fn send_sync_unpin<T: Send + Sync + Unpin>() {}
    fn send_sync<T: Send + Sync>() {}
    trait AmbiguousIfUnpin<A> {
        fn check() {}
    }
    impl<T: ?Sized> AmbiguousIfUnpin<()> for T {}
    impl<T: ?Sized + Unpin> AmbiguousIfUnpin<PhantomPinned> for T {}
    assert!(size_of::<Barrier>() <= 32);
    send_sync_unpin::<Barrier>();
    send_sync_unpin::<BarrierWaitResult>();
    send_sync::<Arrive<'_>>();
    <Arrive<'_> as AmbiguousIfUnpin<_>>::check();
}

const PARTIES: usize = 5;

/// What came out of the barrier of the stress test.
#[derive(Debug, Default)]
struct Passed {
    leaders: AtomicUsize,
    others: AtomicUsize,
}

impl Passed {
    fn count(&self, result: BarrierWaitResult) {
        let counter = if result.is_leader() { &self.leaders } else { &self.others };
        counter.fetch_add(1, Relaxed);
    }
}

/// Tells the filler that no party is left, also when the test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// When the first tasks have ended, too few may be left to meet. From then on this thread stands in for all parties but
/// one; returns how many of its arrivals were still waiting at the end.
fn fill(barrier: &Barrier, passed: &Passed, few: &AtomicBool, done: &AtomicBool) -> usize {
    let spy = Spy::new();
    let mut arrivals: Vec<Pin<Box<Arrive<'_>>>> = Vec::new();
    while !done.load(Relaxed) {
        std::thread::yield_now();
        if few.load(Relaxed) {
            arrivals.resize_with(PARTIES - 1, || Box::pin(barrier.arrive_and_wait()));
        }
        arrivals.retain_mut(|arrival| match poll(arrival, &spy) {
            Poll::Ready(result) => {
                passed.count(result);
                false
            }
            Poll::Pending => true,
        });
    }
    arrivals.len()
}

/// Arrivals without end, dropped at random in any state. A phase is one leader and `PARTIES - 1` others, of which some may
/// have been dropped after their release; so the numbers have to fit.
#[test]
fn stress() {
    let seed = Seed::pick();
    let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
    let (barrier, passed) = (Arc::new(Barrier::new(PARTIES)), Arc::new(Passed::default()));
    let (few, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let rounds = scaled(4_000, 6);
    let run = Stress { threads: 4, tasks: 16, rounds, cancel_per_mille: 250, seed: seed.0 };
    let (outcome, left) = std::thread::scope(|scope| {
        let filler = scope.spawn(|| fill(&barrier, &passed, &few, &done));
        let outcome = {
            let _done = Done(&done);
            run.run(|turn| {
                few.fetch_or(turn.round + 1 == rounds, Relaxed);
                let (barrier, passed) = (barrier.clone(), passed.clone());
                Box::pin(async move { passed.count(barrier.arrive_and_wait().await) })
            })
        };
        (outcome, filler.join().unwrap())
    });
    let (leaders, others) = (passed.leaders.load(Relaxed), passed.others.load(Relaxed));
    println!("{outcome:?}, {leaders} leaders, {others} others, {left} left");
    assert!(outcome.cancelled > 0 && leaders > 0);
    let led = leaders * (PARTIES - 1);
    assert!(others <= led && led <= others + outcome.cancelled + left, "{leaders} leaders, {others} others");
    assert!(leader_after(&barrier, PARTIES - 1), "no party is left in the barrier");
}

/// So many arrivals wait, and the next one leads.
fn leader_after(barrier: &Barrier, waiting: usize) -> bool {
    let spy = Spy::new();
    let arrivals: Vec<_> = (0..waiting).map(|_| arrived(barrier, &spy)).collect();
    leader(barrier) && spy.wakes() == arrivals.len()
}
