//! The latch: a count-down that happens once (the counting of S2-45..S2-54 without `add`).

use crate::kit::alloc::allocations;
use crate::kit::gate::{self, Gate, hostile};
use crate::kit::poll::{BoxFuture, panic_of, panics, pending, poll, ready};
use crate::kit::rng::Seed;
use crate::kit::scaled;
use crate::kit::stress::Stress;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::{watchdog, watchdog_with};
use std::marker::PhantomPinned;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use tasuki::Latch;
use tasuki::future::WaitLatch;

impl Gate for Latch {
    fn closed(_waiters: usize) -> Self {
        Latch::new(1)
    }

    fn wait(gate: &Arc<Self>) -> BoxFuture<()> {
        let latch = gate.clone();
        Box::pin(async move { latch.wait().await })
    }

    fn open(&self) {
        self.count_down();
    }

    /// Once open, it stays open. One that is closed is opened here, so that the caller may rely on it.
    fn close_again(&self) -> bool {
        if !self.try_wait() {
            self.count_down();
        }
        false
    }

    fn call_everything(&self) {
        let spy = Spy::new();
        let mut future = Box::pin(self.wait());
        assert_eq!(poll(&mut future, &spy).is_ready(), self.try_wait());
        assert_eq!(self.count() == 0, self.try_wait());
        if self.try_wait() {
            assert!(panics(|| self.count_down()));
        }
        drop(format!("{self:?} {future:?}"));
        drop(future);
        assert_eq!(spy.alive(), 0);
    }
}

#[test]
fn drop_matrix() {
    gate::drop_matrix::<Latch>();
}

#[test]
fn h15_release_in_batches() {
    gate::release_in_batches::<Latch>();
}

#[test]
fn h15_release_with_panics() {
    gate::release_with_panics::<Latch>();
}

#[test]
fn h8_spurious_polls() {
    gate::spurious_polls::<Latch>();
}

#[test]
fn h6_forgotten_futures() {
    gate::forgotten_futures::<Latch>();
}

#[test]
fn h9_cancel_storm() {
    gate::cancel_storm::<Latch>();
}

#[test]
fn b063_wakers_reenter() {
    gate::wakers_reenter::<Latch>();
}

#[test]
fn h3_hostile_wakers() {
    hostile::wakers::<Latch>();
}

#[test]
fn it_opens_after_its_counts_and_stays_open() {
    let _dog = watchdog(5);
    let latch = Latch::new(2);
    let spy = Spy::new();
    let mut future = Box::pin(latch.wait());
    pending(&mut future, &spy);
    latch.count_down();
    assert!(!latch.try_wait());
    assert_eq!((latch.count(), spy.wakes()), (1, 0));
    pending(&mut future, &spy);
    latch.count_down();
    assert!(latch.try_wait());
    assert_eq!((latch.count(), spy.wakes()), (0, 1));
    ready(&mut future);
    let clones = spy.calls(Call::Clone);
    assert!(poll(&mut Box::pin(latch.wait()), &spy).is_ready());
    assert_eq!(spy.calls(Call::Clone), clones, "an open latch needs no waker");
}

/// B077, H13: below zero, with and without waiters before; and a start beyond the limit.
#[test]
fn misuse_panics_before_any_change() {
    let _dog = watchdog(5);
    let latch = Latch::new(0);
    assert!(latch.try_wait());
    assert!(panic_of(|| latch.count_down()).contains("`Latch::count_down` of an open latch"));
    assert_eq!(latch.count(), 0);
    ready(&mut Box::pin(latch.wait()));
    assert!(panics(|| Latch::new(Latch::MAX_COUNT + 1)));
    let largest = Latch::new(Latch::MAX_COUNT);
    let spy = Spy::new();
    let mut future = Box::pin(largest.wait());
    pending(&mut future, &spy);
    largest.count_down();
    assert_eq!(largest.count(), Latch::MAX_COUNT - 1);
    pending(&mut future, &spy);
}

/// H5.
#[test]
fn polling_a_finished_wait_panics() {
    let latch = Latch::new(0);
    let mut future = Box::pin(latch.wait());
    ready(&mut future);
    let message = panic_of(|| ready(&mut future));
    assert_eq!(message, "`tasuki::future::WaitLatch` polled after it was finished");
}

#[test]
fn no_allocation() {
    let _dog = watchdog(5);
    let latch = Latch::new(2);
    let spy = Spy::new();
    let waker = spy.waker();
    let (count, ()) = allocations(|| {
        let mut cx = Context::from_waker(&waker);
        let mut kept = std::pin::pin!(latch.wait());
        assert!(kept.as_mut().poll(&mut cx).is_pending());
        {
            let mut dropped = std::pin::pin!(latch.wait());
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
        }
        latch.count_down();
        latch.count_down();
        assert_eq!(kept.as_mut().poll(&mut cx), Poll::Ready(()));
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
    assert!(size_of::<Latch>() <= 24);
    send_sync_unpin::<Latch>();
    send_sync::<WaitLatch<'_>>();
    <WaitLatch<'_> as AmbiguousIfUnpin<_>>::check();
}

/// A latch for each round: half of the tasks count, the others wait and are dropped at random. A waiter that gets through sees
/// what all counts stand for.
#[test]
fn stress() {
    let seed = Seed::pick();
    let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
    let (tasks, rounds) = (16, scaled(3_000, 6));
    let work: Arc<Vec<(Latch, AtomicUsize)>> =
        Arc::new((0..rounds).map(|_| (Latch::new(tasks / 2), AtomicUsize::new(0))).collect());
    let run = Stress { threads: 4, tasks, rounds, cancel_per_mille: 200, seed: seed.0 };
    let outcome = run.run(|turn| {
        // A future that counts does so when it is made: a dropped one has counted too.
        if turn.task % 2 == 0 {
            let (latch, done) = &work[turn.round];
            done.fetch_add(1, Relaxed);
            latch.count_down();
        }
        let work = work.clone();
        Box::pin(async move {
            let (latch, done) = &work[turn.round];
            latch.wait().await;
            assert_eq!(done.load(Relaxed), tasks / 2, "open before its time");
        })
    });
    assert!(outcome.cancelled > 0 && outcome.completed > outcome.cancelled);
    assert!(work.iter().all(|(latch, _)| latch.try_wait()));
    println!("{outcome:?}");
}
