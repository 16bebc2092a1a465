//! The wait group: wait until every task that was counted in is done.
//!
//! A [`Countdown`], where the states, transitions, invariants and orderings are. This file adds the
//! members, which are done when they are dropped, and the panic messages.
//!
//! | event                     | becomes                    | fn |
//! |---------------------------|----------------------------|----|
//! | add                       | [`Countdown::add`]         | [`WaitGroup::add`] |
//! | done, drop of a member    | [`Countdown::take_one`]    | [`WaitGroup::done`] |
//! | first poll of a wait      | [`Countdown::is_zero`], [`Countdown::enqueue_or_pass`] | [`WaitMembersOp`] |
//! | later poll of a wait      | [`Countdown::poll_queued`] | [`WaitMembersOp`] |
//! | drop of a wait            | [`Countdown::cancel`]      | [`WaitMembersOp`] |

use crate::countdown::Countdown;
use crate::primitive_ref::PrimitiveRef;
use crate::queue::Pinned;
use crate::queue::batch::while_unwinding;
use crate::shim::const_fn;
use crate::wait::{Op, Single, Wait, WaiterSlot};
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::fmt;
use core::task::{Context, Poll};

/// A count of tasks at work, and a way to wait until it is zero.
///
/// Count tasks in *before* they are started, with [`add`](Self::add) or [`member`](Self::member); each counts itself
/// out with [`done`](Self::done), once, or by dropping its member. [`wait`](Self::wait) ends when the count is zero,
/// at once if it is zero already. The group can then be used again: a new cycle may begin while waiters of the
/// last one have not been polled yet. They stay released, and no waiter of the new cycle is released early.
///
/// # Examples
///
/// ```
/// use tasuki::WaitGroup;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// static GROUP: WaitGroup = WaitGroup::new();
///
/// for _ in 0..3 {
///     let member = GROUP.member();
///     std::thread::spawn(move || drop(member));
/// }
/// GROUP.wait().await;
/// assert_eq!(GROUP.count(), 0);
/// # }
/// ```
///
/// # Order
///
/// All waiters are released together, at the moment when the count becomes zero; they are woken in the order in
/// which they came. A task that has seen the count at zero finds every waiter of that cycle released.
///
/// # Cancel
///
/// Dropping the future of a wait has no effect on the count or on other waiters.
///
/// # Panic
///
/// `done` at zero and `add` beyond the limit panic, and have then changed nothing. A waker that panics does so in the
/// `done` that reached zero, after all other waiters have been woken ([Wakers](crate#wakers)). A member that is dropped while its task panics
/// counts out like any other. If `done` was called too often, such a drop does not panic a second time, which would end the process.
///
/// # Memory ordering
///
/// What was done before any `done` of a cycle, the last or not, happens before what follows a wait that the cycle
/// ended.
///
/// # Re-entrancy
///
/// Wakers may call anything on the group, `add` and `done` included.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// [`MAX_MEMBERS`](Self::MAX_MEMBERS) members; no limit on the number of waiters. A member that is leaked
/// (`mem::forget`) is never done.
///
/// # Futurelock
///
/// None: a release is shared, so a future that is not polled keeps nothing from the others.
///
/// # When to use something else
///
/// To count down once from a number known at the start, a [`Latch`](crate::Latch); to meet again and again in a fixed
/// number, a [`Barrier`](crate::Barrier); to collect results, the join handles of the runtime.
#[doc(alias = "AsyncWaitGroup")]
#[doc(alias = "TaskTracker")]
pub struct WaitGroup {
    members: Countdown,
}

/// The future of [`WaitGroup::wait`].
pub type WaitMembers<'a> = Wait<Single<WaitMembersOp<'a>>>;

impl WaitGroup {
    /// The largest count.
    pub const MAX_MEMBERS: usize = Countdown::MAX;

    const_fn! {
        /// Creates a group without members.
        ///
        /// # Examples
        ///
        /// ```
        /// static GROUP: tasuki::WaitGroup = tasuki::WaitGroup::new();
        /// assert_eq!(GROUP.count(), 0);
        /// ```
        pub const fn new() -> Self {
            Self { members: Countdown::new(0) }
        }
    }

    /// Adds `n` to the count.
    ///
    /// # Panics
    ///
    /// If the count would exceed [`MAX_MEMBERS`](Self::MAX_MEMBERS); it is unchanged then. Calls that meet at the limit may all panic, though one of them would fit.
    ///
    /// # Examples
    ///
    /// ```
    /// let group = tasuki::WaitGroup::new();
    /// group.add(2);
    /// assert_eq!(group.count(), 2);
    /// ```
    #[inline]
    #[track_caller]
    pub fn add(&self, n: usize) {
        if self.members.add(n).is_err() {
            too_many();
        }
    }

    /// Takes one from the count; when it becomes zero, all waiters are released.
    ///
    /// # Panics
    ///
    /// If the count is zero; it is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let group = tasuki::WaitGroup::new();
    /// group.add(1);
    /// group.done();
    /// group.wait().await;
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn done(&self) {
        if self.members.take_one().is_err() {
            none_left();
        }
    }

    /// Adds one to the count, until the member is dropped.
    ///
    /// # Panics
    ///
    /// As [`add`](Self::add). Dropping a member panics if `done` was called in its place.
    ///
    /// # Examples
    ///
    /// ```
    /// let group = tasuki::WaitGroup::new();
    /// let member = group.member();
    /// assert_eq!(group.count(), 1);
    /// drop(member);
    /// assert_eq!(group.count(), 0);
    /// ```
    #[inline]
    #[track_caller]
    pub fn member(&self) -> WaitGroupMember<'_> {
        Member::new(self)
    }

    /// As [`member`](Self::member), with a member that keeps the group alive and can be moved into any task.
    ///
    /// # Panics
    ///
    /// As [`member`](Self::member).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let group = Arc::new(tasuki::WaitGroup::new());
    /// let member = group.clone().member_owned();
    /// std::thread::spawn(move || drop(member));
    /// group.wait().await;
    /// # }
    /// ```
    #[cfg(feature = "alloc")]
    #[track_caller]
    pub fn member_owned(self: Arc<Self>) -> OwnedWaitGroupMember {
        Member::new(self)
    }

    /// Waits until the count is zero.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: the count does not depend on its waiters.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let group = tasuki::WaitGroup::new();
    /// group.wait().await;
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> WaitMembers<'_> {
        Wait::new(WaitMembersOp { group: self })
    }

    /// Returns the count: how many members are not done. It may be outdated when it is returned.
    ///
    /// # Examples
    ///
    /// ```
    /// let group = tasuki::WaitGroup::new();
    /// group.add(3);
    /// group.done();
    /// assert_eq!(group.count(), 2);
    /// ```
    pub fn count(&self) -> usize {
        self.members.number()
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn too_many() -> ! {
    panic!("`WaitGroup::add` beyond `WaitGroup::MAX_MEMBERS`: is a `done` missing?")
}

#[cold]
#[inline(never)]
#[track_caller]
fn none_left() -> ! {
    panic!("`WaitGroup::done` without a member: call `add` before the task starts, and `done` once for each")
}

impl Default for WaitGroup {
    /// A group without members.
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("count", &self.count()).finish()
    }
}

/// One member of a [`WaitGroup`]: done when it is dropped.
///
/// Written as [`WaitGroupMember`] or, with an `Arc`, `OwnedWaitGroupMember`.
#[derive(Debug)]
#[must_use = "a member that is dropped at once is done at once"]
pub struct Member<R: PrimitiveRef<Primitive = WaitGroup>> {
    /// Dropped after `done` has returned: the release may wake the task that holds the only other handle.
    group: R,
}

/// One member of a borrowed [`WaitGroup`]: done when it is dropped.
pub type WaitGroupMember<'a> = Member<&'a WaitGroup>;

/// One member of a [`WaitGroup`] that keeps the group alive: done when it is dropped.
#[cfg(feature = "alloc")]
pub type OwnedWaitGroupMember = Member<Arc<WaitGroup>>;

impl<R: PrimitiveRef<Primitive = WaitGroup>> Member<R> {
    #[inline]
    #[track_caller]
    fn new(group: R) -> Self {
        group.primitive().add(1);
        Self { group }
    }
}

impl<R: PrimitiveRef<Primitive = WaitGroup>> Drop for Member<R> {
    #[inline]
    fn drop(&mut self) {
        if self.group.primitive().members.take_one().is_err() {
            // A task that panics drops its members too: a second panic would end the process.
            while_unwinding(|| none_left());
        }
    }
}

/// The operation of [`WaitGroup::wait`].
#[derive(Debug)]
pub struct WaitMembersOp<'a> {
    group: &'a WaitGroup,
}

impl Op for WaitMembersOp<'_> {
    type Output = ();
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::WaitMembers";

    #[inline]
    fn try_now(&mut self) -> Option<()> {
        self.group.members.is_zero().then_some(())
    }

    fn is_ready(&self) -> bool {
        self.group.members.is_zero()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.group.members.enqueue_or_pass(slot, cx)
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.group.members.poll_queued(waiter, cx)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<()> {
        self.group.members.cancel(waiter)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}
