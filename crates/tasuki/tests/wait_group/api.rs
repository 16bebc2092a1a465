//! The wait group: S2-45..S2-54, and what its waiters and its hostile wakers may do.

use crate::kit::alloc::allocations;
use crate::kit::gate::{self, Gate, hostile};
use crate::kit::poll::{BoxFuture, panic_of, panics, pending, poll, ready};
use crate::kit::rng::Seed;
use crate::kit::scaled;
use crate::kit::stress::Stress;
use crate::kit::waker::Spy;
use crate::kit::watchdog::{watchdog, watchdog_with};
use std::marker::PhantomPinned;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use tasuki::future::WaitMembers;
use tasuki::{OwnedWaitGroupMember, WaitGroup, WaitGroupMember};

impl Gate for WaitGroup {
    fn closed(_waiters: usize) -> Self {
        let group = WaitGroup::new();
        group.add(1);
        group
    }

    fn wait(gate: &Arc<Self>) -> BoxFuture<()> {
        let group = gate.clone();
        Box::pin(async move { group.wait().await })
    }

    fn open(&self) {
        self.done();
    }

    fn close_again(&self) -> bool {
        self.add(1);
        true
    }

    fn call_everything(&self) {
        let (spy, before) = (Spy::new(), self.count());
        let member = self.member();
        let mut future = Box::pin(self.wait());
        assert!(poll(&mut future, &spy).is_pending());
        self.add(1);
        self.done();
        drop(format!("{self:?} {future:?} {member:?}"));
        drop(member);
        assert_eq!(self.count(), before);
        assert_eq!(poll(&mut future, &spy).is_ready(), before == 0);
        drop(future);
        assert_eq!(spy.alive(), 0);
    }
}

#[test]
fn drop_matrix() {
    gate::drop_matrix::<WaitGroup>();
}

/// S2-49, S2-54.
#[test]
fn h15_release_in_batches() {
    gate::release_in_batches::<WaitGroup>();
}

#[test]
fn h15_release_with_panics() {
    gate::release_with_panics::<WaitGroup>();
}

#[test]
fn h8_spurious_polls() {
    gate::spurious_polls::<WaitGroup>();
}

#[test]
fn h6_forgotten_futures() {
    gate::forgotten_futures::<WaitGroup>();
}

#[test]
fn h9_cancel_storm() {
    gate::cancel_storm::<WaitGroup>();
}

#[test]
fn b063_wakers_reenter() {
    gate::wakers_reenter::<WaitGroup>();
}

#[test]
fn h3_hostile_wakers() {
    hostile::wakers::<WaitGroup>();
}

/// S2-48: at zero a wait is ready at once, without a waker.
#[test]
fn nothing_to_wait_for() {
    let _dog = watchdog(5);
    let group = WaitGroup::new();
    let spy = Spy::new();
    assert!(poll(&mut Box::pin(group.wait()), &spy).is_ready());
    assert_eq!(spy.calls(crate::kit::waker::Call::Clone), 0);
    group.add(0);
    assert_eq!((group.count(), WaitGroup::default().count()), (0, 0));
}

/// S2-45, S2-46, S2-48: only the last `done` releases.
#[test]
fn the_last_done_releases() {
    let _dog = watchdog(5);
    let group = WaitGroup::new();
    let spy = Spy::new();
    group.add(3);
    let mut future = Box::pin(group.wait());
    pending(&mut future, &spy);
    for left in [2, 1] {
        group.done();
        assert_eq!((group.count(), spy.wakes()), (left, 0));
        pending(&mut future, &spy);
    }
    group.done();
    assert_eq!((group.count(), spy.wakes()), (0, 1));
    ready(&mut future);
}

/// S2-52: a static group; members are counted before their tasks start, and each is done once.
#[test]
fn the_contract_of_go() {
    static GROUP: WaitGroup = WaitGroup::new();
    static WORK: AtomicUsize = AtomicUsize::new(0);
    let _dog = watchdog(20);
    for round in 1..=scaled(50, 2) {
        GROUP.add(4);
        for _ in 0..4 {
            std::thread::spawn(|| {
                WORK.fetch_add(1, Relaxed);
                GROUP.done();
            });
        }
        GROUP.wait().block();
        assert_eq!(WORK.load(Relaxed), 4 * round);
    }
}

/// A member is done when it goes: at the end of a scope, in a panic, on another thread.
#[test]
fn members() {
    let _dog = watchdog(5);
    let group = Arc::new(WaitGroup::new());
    let member = group.member();
    let owned = group.clone().member_owned();
    assert_eq!(group.count(), 2);
    drop(member);
    std::thread::scope(|scope| {
        scope.spawn(move || drop(owned));
        group.wait().block();
    });
    let in_panic = || {
        let _member = group.member();
        panic!("in the task");
    };
    assert_eq!(panic_of(in_panic), "in the task");
    assert_eq!(group.count(), 0);
    // The last handle goes with the member, after its `done`.
    let (owned, weak) = (group.clone().member_owned(), Arc::downgrade(&group));
    drop(group);
    assert_eq!(weak.upgrade().unwrap().count(), 1);
    drop(owned);
    assert!(weak.upgrade().is_none());
}

/// Waiters of the last cycle that have not been polled leave during the next; those of the next stay.
#[test]
fn cycles_overlap() {
    let _dog = watchdog(5);
    let group = WaitGroup::new();
    let (old, new) = (Spy::new(), Spy::new());
    group.add(1);
    let mut first = Box::pin(group.wait());
    pending(&mut first, &old);
    group.done();
    group.add(2);
    let mut second = Box::pin(group.wait());
    pending(&mut second, &new);
    ready(&mut first);
    group.done();
    pending(&mut second, &new);
    assert_eq!((old.wakes(), new.wakes()), (1, 0));
    group.done();
    assert_eq!(new.wakes(), 1);
    ready(&mut second);
}

/// A waiter that has left leaves a group that counts as before.
#[test]
fn a_dropped_wait_leaves_the_count_alone() {
    let _dog = watchdog(5);
    let group = WaitGroup::new();
    let spy = Spy::new();
    group.add(2);
    let mut dropped = Box::pin(group.wait());
    pending(&mut dropped, &spy);
    drop(dropped);
    group.done();
    assert_eq!(group.count(), 1);
    let mut late = Box::pin(group.wait());
    pending(&mut late, &spy);
    group.done();
    assert_eq!((group.count(), spy.wakes(), spy.alive()), (0, 1, 0));
    ready(&mut late);
    group.add(1);
    group.done();
    assert_eq!(group.count(), 0);
}

/// B077, B091, H13: both limits, with and without waiters; a check that fails changes nothing.
#[test]
fn misuse_panics_before_any_change() {
    let _dog = watchdog(5);
    let group = Arc::new(WaitGroup::new());
    assert!(panic_of(|| group.done()).contains("`WaitGroup::done` without a member"));
    assert_eq!(group.count(), 0);
    assert!(panics(|| group.add(WaitGroup::MAX_MEMBERS + 1)));
    assert!(panics(|| group.add(usize::MAX)));
    assert_eq!(group.count(), 0);
    group.add(WaitGroup::MAX_MEMBERS - 1);
    let member = group.member();
    let spy = Spy::new();
    let mut future = Box::pin(group.wait());
    pending(&mut future, &spy);
    assert!(panic_of(|| group.add(1)).contains("`WaitGroup::add` beyond"));
    assert!(panics(|| group.member()) && panics(|| group.clone().member_owned()));
    assert!(panics(|| group.add(WaitGroup::MAX_MEMBERS)) && panics(|| group.add(usize::MAX)));
    assert_eq!((group.count(), Arc::strong_count(&group)), (WaitGroup::MAX_MEMBERS, 1));
    pending(&mut future, &spy);
    drop(member);
    assert_eq!((group.count(), spy.wakes()), (WaitGroup::MAX_MEMBERS - 1, 0));
}

/// H5.
#[test]
fn polling_a_finished_wait_panics() {
    let group = WaitGroup::new();
    let mut future = Box::pin(group.wait());
    ready(&mut future);
    let message = panic_of(|| ready(&mut future));
    assert_eq!(message, "`tasuki::future::WaitMembers` polled after it was finished");
}

/// S2-50.
#[test]
fn no_allocation() {
    let _dog = watchdog(5);
    let group = WaitGroup::new();
    let spy = Spy::new();
    let waker = spy.waker();
    let (count, ()) = allocations(|| {
        let mut cx = Context::from_waker(&waker);
        let member = group.member();
        let mut kept = std::pin::pin!(group.wait());
        assert!(kept.as_mut().poll(&mut cx).is_pending());
        {
            let mut dropped = std::pin::pin!(group.wait());
            assert!(dropped.as_mut().poll(&mut cx).is_pending());
        }
        drop(member);
        assert_eq!(kept.as_mut().poll(&mut cx), Poll::Ready(()));
    });
    assert_eq!(count, 0);
}

#[test]
fn sizes() {
    assert!(size_of::<WaitGroup>() <= 24);
    assert_eq!(size_of::<WaitGroupMember<'_>>(), size_of::<usize>());
}

#[test]
fn auto_traits() {
    fn send_sync_unpin<T: Send + Sync + Unpin>() {}
    fn send_sync<T: Send + Sync>() {}
    trait AmbiguousIfUnpin<A> {
        fn check() {}
    }
    impl<T: ?Sized> AmbiguousIfUnpin<()> for T {}
    impl<T: ?Sized + Unpin> AmbiguousIfUnpin<PhantomPinned> for T {}
    send_sync_unpin::<WaitGroup>();
    send_sync_unpin::<WaitGroupMember<'_>>();
    send_sync_unpin::<OwnedWaitGroupMember>();
    send_sync::<WaitMembers<'_>>();
    <WaitMembers<'_> as AmbiguousIfUnpin<_>>::check();
}

/// Cycles without end, waits dropped at random: no waiter is forgotten, and none goes before the waiters that were
/// counted in when it came are done.
#[test]
fn stress() {
    let seed = Seed::pick();
    let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
    let group = Arc::new(WaitGroup::new());
    let done = Arc::new(AtomicUsize::new(0));
    let run = Stress { threads: 4, tasks: 16, rounds: scaled(4_000, 6), cancel_per_mille: 300, seed: seed.0 };
    let outcome = run.run(|turn| {
        let (group, done) = (group.clone(), done.clone());
        if turn.task % 4 != 0 {
            return Box::pin(async move { group.wait().await });
        }
        let member = group.clone().member_owned();
        Box::pin(async move {
            let own = done.fetch_add(1, Relaxed);
            drop(member);
            group.wait().await;
            assert!(done.load(Relaxed) > own, "what was done before is seen");
        })
    });
    assert!(outcome.cancelled > 0 && outcome.completed > outcome.cancelled);
    assert_eq!((group.count(), Arc::strong_count(&group)), (0, 1));
    println!("{outcome:?}");
}
