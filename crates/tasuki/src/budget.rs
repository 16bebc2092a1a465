//! The cooperative budget: how many operations a poll of a task may end without waiting.
//!
//! A task that finds everything ready would never suspend, and keep its worker from all other tasks. So a runtime gives each
//! poll of a task a number ([`set_budget`]), and every awaitable takes one from it at its own first poll ([`charge`]). With the
//! budget exhausted an awaitable that would be ready does nothing, wakes its task and returns `Pending`; one that must wait enqueues as
//! always. So nothing is held during the yield, and no place in a queue is lost by it.
//!
//! What must wait never yields for want of budget, also if its own task grants it in the same poll: a task that enqueues a wait, releases what it waits for and claims it, again and again, suspends only where it wants to.
//!
//! An awaitable yields at most once, so that an executor inside a task, which polls again without a new budget, makes progress.
//!
//! [`Wait`](crate::future::Wait) is charged in `wait/single.rs`, for every operation. What is not a wait in a queue has a [`Charge`].
//!
//! # Under a foreign executor
//! Where no driver is installed, no runtime gives a budget. A task that never waits must not keep its thread for ever there either. Two limits apply:
//!
//! * Under tokio, with the feature `tokio`, each operation takes one unit of tokio's own budget (`host_executor.rs`).
//! * Under every foreign executor: an operation that would be ready yields if some hundreds of operations have begun on this thread, over at least 100 µs, since one yielded. The limit is lax because
//!   one poll cannot be told from the next, nor one task from another: a set of futures (`FuturesUnordered`) gives each of its children a waker of its own, so a change of the waker says nothing. That a wait begins, or is
//!   polled again, says nothing either: it may be one branch of a `select!`, in a task that goes on with the other.
//!   It costs one reading of the clock in 256 operations, and now and then a yield that was not needed, in a task that has returned and was polled again meanwhile, or that shares its thread.
//!
//!   One yield does not end a poll whose task polls several futures: `select!` takes another branch, a set another child. So the operations after it yield as well, until one that has yielded is polled again, which
//!   shows that its task has returned, or until 32 (`OVERRUN_YIELDS`) have yielded: what is polled once and dropped never shows it.
//!
//! Neither applies to a waker without data (a no-op, `now_or_never`), to `.block()`, or to a `try_*` function, which has no waker.
//!
//! Without `std` nothing is counted: there are no variables of a thread, and no runtime that gives a budget.

use crate::probe::foreign_code;
#[cfg(not(feature = "std"))]
use core::task::Waker;
use core::task::{Context, Poll};

#[cfg(feature = "std")]
pub(crate) use count::resumes;
#[cfg(feature = "std")]
pub use count::{charge, set_budget, uncharged, yields};
#[cfg(feature = "std")]
use count::{charge_without_refill, count_yield};

/// Nothing is counted.
#[cfg(not(feature = "std"))]
pub(crate) const fn charge(_cx: &Context<'_>) -> bool {
    true
}

#[cfg(not(feature = "std"))]
const fn charge_without_refill(_cx: &Context<'_>) -> bool {
    true
}

#[cfg(not(feature = "std"))]
pub(crate) const fn resumes() {}

/// There are no drivers.
#[cfg(not(feature = "std"))]
pub(crate) const fn switches_before_waits(_waker: &Waker) -> bool {
    false
}

#[cfg(feature = "std")]
pub(crate) use crate::runtime::switches_before_waits;

/// Nothing yields.
#[cfg(not(feature = "std"))]
#[cfg_attr(not(feature = "alloc"), expect(dead_code, reason = "there is no limit"))]
pub(crate) const fn yields() -> u32 {
    0
}

#[cfg(not(feature = "std"))]
const fn count_yield() {}

/// What would be ready yields, because the budget is exhausted: its task is woken, to poll again.
pub(crate) fn yield_once(cx: &Context<'_>) {
    count_yield();
    wake_again(cx);
}

/// Wakes the task that polls, which therefore runs again after the others.
pub(crate) fn wake_again(cx: &Context<'_>) {
    foreign_code();
    let wake = || cx.waker().wake_by_ref();
    // The poll may be inside of a wake that has a baton: this one has none.
    #[cfg(feature = "std")]
    crate::runtime::waking_plainly(wake);
    #[cfg(not(feature = "std"))]
    wake();
}

/// Charges one operation of a runtime's own future to the budget: once, and followed by at most one yield.
#[derive(Debug, Default)]
pub struct Charge {
    state: ChargeState,
}

#[derive(Clone, Copy, Debug, Default)]
enum ChargeState {
    #[default]
    New,
    /// Not polled since it yielded.
    Yielded,
    Taken,
}

impl Charge {
    /// Takes one operation from the budget, at the first call. `Pending`, with the task woken, if the budget is exhausted: the caller then
    /// returns `Pending` and does nothing.
    pub fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.poll_by(cx, charge)
    }

    /// As [`poll`](Self::poll), of what is awaited to let other tasks run: yields also with the last operation that the driver has given, and does not ask it for more.
    pub(crate) fn poll_without_refill(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.poll_by(cx, charge_without_refill)
    }

    fn poll_by(&mut self, cx: &Context<'_>, charge: impl FnOnce(&Context<'_>) -> bool) -> Poll<()> {
        match self.state {
            ChargeState::New => {}
            ChargeState::Yielded => {
                self.state = ChargeState::Taken;
                resumes();
                return Poll::Ready(());
            }
            ChargeState::Taken => return Poll::Ready(()),
        }
        // Before the foreign code: if that panics, the awaitable can be polled again, and does not yield again.
        self.state = ChargeState::Taken;
        if charge(cx) {
            return Poll::Ready(());
        }
        self.state = ChargeState::Yielded;
        yield_once(cx);
        Poll::Pending
    }

    /// As [`poll`](Self::poll), for what is polled again after it was ready (a stream, a sink): each `Ready` is charged anew.
    #[cfg(all(feature = "alloc", any(feature = "futures-core", feature = "futures-sink")))]
    pub(crate) fn poll_each(&mut self, cx: &Context<'_>) -> Poll<()> {
        let charged = self.poll(cx);
        if charged.is_ready() {
            *self = Self::default();
        }
        charged
    }

    /// Charges nothing: the operation has to wait.
    pub fn waive(&mut self) {
        self.state = ChargeState::Taken;
    }
}

#[cfg(feature = "std")]
mod count {
    use crate::{host_executor, shim};
    use core::cell::Cell;
    use core::task::{Context, Waker};
    use core::time::Duration;
    use std::thread_local;
    use std::time::Instant;

    thread_local! {
        /// Empty at first: the first operation of a thread asks how much there is.
        static BUDGET: Cell<u64> = const { Cell::new(0) };
        static YIELDS: Cell<u32> = const { Cell::new(0) };
        static STREAK: Cell<Option<Streak>> = const { Cell::new(None) };
        /// A streak was too long: so many operations more yield.
        static OVERRUN: Cell<u32> = const { Cell::new(0) };
    }

    /// Under a foreign executor: the number of operations between two looks at the streak, and the least time before a yield.
    const GUEST_OPERATIONS: u64 = 256;
    const GUEST_TIME: Duration = Duration::from_micros(100);

    /// The number of operations after a look that found a waker without data, which has no task to yield. A prime: a loop that polls with such a waker now and then is looked at in another place of it each time.
    const TASKLESS_OPERATIONS: u64 = 251;

    /// So many operations yield at the end of a streak, if none of them is polled again: more than the branches of a `select!`, or the children that a set of futures polls before it yields itself
    /// (two, of `FuturesUnordered`; sets of sets have a power of two).
    const OVERRUN_YIELDS: u32 = 32;

    /// The threads of a model share these variables, and have no clock.
    const NO_GUEST_BUDGET: bool = shim::MODEL || !host_executor::HAS_CLOCK;

    /// Operations of this thread since one yielded.
    #[derive(Clone, Copy)]
    struct Streak {
        operations: u64,
        /// When it had [`GUEST_OPERATIONS`]; before that no clock is read.
        since: Option<Instant>,
    }

    /// Counted down all the same: there is one path for all. So many that no thread lives to use them up; 32 bits were
    /// gone within a minute, on a runtime that gives no budget and so never sets it again.
    const UNLIMITED: u64 = u64::MAX;

    /// Begins a poll: so many operations may be ready at once before one of them yields.
    #[inline]
    pub fn set_budget(operations: u32) {
        let _ = BUDGET.try_with(|budget| budget.set(u64::from(operations)));
    }

    /// Takes one operation that may be ready at once from the budget. False if the budget is exhausted: an operation that would be ready has to yield.
    #[inline(always)]
    pub fn charge(cx: &Context<'_>) -> bool {
        let charged = BUDGET.try_with(|budget| {
            // Subtracts first: that is two instructions.
            let (left, exhausted) = budget.get().overflowing_sub(1);
            budget.set(left);
            !exhausted || refill(budget, cx.waker())
        });
        // Where a thread ends there is no poll.
        charged.unwrap_or(true)
    }

    /// As [`charge`]; false also for the last operation that the driver of this thread has given.
    pub(super) fn charge_without_refill(cx: &Context<'_>) -> bool {
        // Asked first: the charge takes it.
        let is_last = crate::runtime::is_entered() && BUDGET.try_with(Cell::get) == Ok(1);
        charge(cx) && !is_last
    }

    /// Returns how often an operation that would have been ready has yielded on this thread; wraps around. A limit around an operation compares the numbers before and after its poll: an operation that only yielded does not
    /// wait, so the limit does not end it.
    pub fn yields() -> u32 {
        YIELDS.try_with(Cell::get).unwrap_or(0)
    }

    pub(super) fn count_yield() {
        let _ = YIELDS.try_with(|yields| yields.set(yields.get().wrapping_add(1)));
    }

    /// Calls `f` without charging the budget of this thread: for what is no part of the poll, or has a budget of its own.
    pub fn uncharged<R>(f: impl FnOnce() -> R) -> R {
        struct RestoreBudget(u64);
        impl Drop for RestoreBudget {
            fn drop(&mut self) {
                let _ = BUDGET.try_with(|budget| budget.set(self.0));
            }
        }
        let _restore =
            RestoreBudget(BUDGET.try_with(|budget| budget.replace(UNLIMITED)).unwrap_or(UNLIMITED));
        f()
    }

    /// The budget is exhausted, for the rest of the poll unless the driver has more.
    #[cold]
    fn refill(budget: &Cell<u64>, waker: &Waker) -> bool {
        // First: a driver that panics leaves an exhausted budget, not one without an end.
        budget.set(0);
        let Some(more) = crate::runtime::refill() else { return refill_guest(budget, waker) };
        budget.set(u64::from(more).saturating_sub(1));
        more > 0
    }

    /// Without a driver: the budget of the host, and the lax limit.
    fn refill_guest(budget: &Cell<u64>, waker: &Waker) -> bool {
        if NO_GUEST_BUDGET {
            budget.set(UNLIMITED);
            return true;
        }
        // A waker without data (a no-op) never yields: its caller takes one poll for the answer (`now_or_never`).
        if waker.data().is_null() {
            budget.set(if host_executor::HAS_BUDGET { 0 } else { TASKLESS_OPERATIONS - 1 });
            return true;
        }
        let left = OVERRUN.try_with(Cell::get).unwrap_or(0);
        if left > 0 {
            let _ = OVERRUN.try_with(|overrun| overrun.set(left - 1));
            budget.set(0);
            return false;
        }
        let operations = if host_executor::HAS_BUDGET { 1 } else { GUEST_OPERATIONS };
        budget.set(operations - 1);
        let proceeds = host_executor::proceed(waker);
        let streak = STREAK.try_with(Cell::take).ok().flatten();
        let (streak, overruns) = if proceeds { Streak::after(streak, operations) } else { (None, false) };
        let _ = STREAK.try_with(|last| last.set(streak));
        if overruns {
            let _ = OVERRUN.try_with(|overrun| overrun.set(OVERRUN_YIELDS - 1));
            budget.set(0);
        }
        proceeds && !overruns
    }

    /// What has yielded is polled again, so its task has returned.
    pub(crate) fn resumes() {
        let _ = OVERRUN.try_with(|overrun| overrun.set(0));
    }

    impl Streak {
        /// The streak with so many operations more, or a new one; and whether it is over, because its task overruns.
        fn after(last: Option<Self>, operations: u64) -> (Option<Self>, bool) {
            let Some(mut streak) = last else { return (Some(Self { operations, since: None }), false) };
            streak.operations += operations;
            if streak.operations < GUEST_OPERATIONS {
                return (Some(streak), false);
            }
            streak.operations = 0;
            let overruns = host_executor::clock()
                .duration_since(*streak.since.get_or_insert_with(host_executor::clock))
                >= GUEST_TIME;
            (Some(streak).filter(|_| !overruns), overruns)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::runtime::{Driver, TaskId, Timers, enter};
        use alloc::sync::Arc;

        /// With so much at each refill.
        struct Frugal(u32);

        impl Driver for Frugal {
            fn task(&self) -> Option<TaskId> {
                None
            }

            fn timers(&self) -> Option<Arc<Timers>> {
                None
            }

            fn may_block(&self) -> bool {
                true
            }

            fn refill(&self) -> u32 {
                self.0
            }
        }

        #[test]
        fn a_driver_that_has_more_is_asked_again() {
            enter(&Frugal(2), || {
                set_budget(0);
                let cx = Context::from_waker(Waker::noop());
                assert!((0..10).all(|_| charge(&cx)));
            });
        }

        /// A runtime that gives no budget limits nothing, however long its thread has been running.
        #[test]
        fn no_budget_is_not_exhausted() {
            fn after_a_minute() {
                BUDGET.set(BUDGET.get().saturating_sub(u64::from(u32::MAX)));
                assert!((0..2).all(|_| charge(&Context::from_waker(Waker::noop()))));
            }
            enter(&Frugal(0), || {
                after_a_minute();
                uncharged(after_a_minute);
                let cx = Context::from_waker(Waker::noop());
                set_budget(1);
                assert_eq!([charge(&cx), charge(&cx)], [true, false]);
                uncharged(after_a_minute);
                assert!(!charge(&cx));
            });
        }
    }
}
