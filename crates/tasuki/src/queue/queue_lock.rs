//! The queue lock around a value: for what keeps its waiters elsewhere than in the list of the word.
//!
//! A [`QueueLock`] is a wait queue whose list stays empty: only its lock is used, and the value beside it is reached through the guard of that lock. Its three users:
//!
//! | user | value |
//! |---|---|
//! | the timers (`timer/mod.rs`) | the wheel, which sorts its waiters into many rings (`ring.rs`) |
//! | a tree of tokens (`cancellation/tree.rs`) | the state of the tree; the lock also guards the links in the nodes |
//! | a `Revocable` mutex (`mutex/raw/overdue.rs`) | a bucket of the table of unclaimed grants |
//!
//! Waiters leave the rings by the same functions as any list, and wakers come out as [`Deferred`](super::Deferred) values, woken after the unlock.

use super::word::Word;
use super::{LockedQueue, QueueGuard, WaitQueue};
use crate::shim::{UnsafeCell, const_fn};
use core::fmt;

/// A value that only the holder of the queue lock reaches.
pub(crate) struct QueueLock<T> {
    /// Its list is always empty.
    queue: WaitQueue,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes where the lock goes.
unsafe impl<T: Send> Send for QueueLock<T> {}
// SAFETY: `value` is touched only through `QueueLockGuard`, which holds `EDIT`.
unsafe impl<T: Send> Sync for QueueLock<T> {}

/// The evidence of holding a [`QueueLock`], and the way to its value.
#[must_use = "the lock is released when this is dropped"]
pub(crate) struct QueueLockGuard<'q, T> {
    locked: LockedQueue<'q>,
    value: &'q UnsafeCell<T>,
}

impl<T> QueueLock<T> {
    const_fn! {
        pub(crate) const fn new(value: T) -> Self {
            Self { queue: WaitQueue::new(Word::flags(0)), value: UnsafeCell::new(value) }
        }
    }

    /// The word now, with the flags that a holder has set. A look.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) fn look(&self) -> Word {
        self.queue.load()
    }

    /// Waits for the end of other holds. No foreign code may run before the guard is dropped.
    #[inline(always)]
    pub(crate) fn lock(&self) -> QueueLockGuard<'_, T> {
        QueueLockGuard { locked: self.queue.lock(), value: &self.value }
    }

    /// Another value, which is not guarded by any thread. The one before is not dropped.
    ///
    /// SAFETY: no other thread uses the lock meanwhile. In the child of a fork: a thread that is not there may have locked it.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn reset(&self, value: T) {
        // SAFETY: the caller's contract.
        self.value.with_mut(|place| unsafe { place.write(value) });
        // SAFETY: the caller's contract; the list of this queue is always empty.
        unsafe { self.queue.reset() };
    }

    /// As [`WaitQueue::poll_queued`].
    ///
    /// SAFETY: the waiter was put into a list that this lock guards, and has not been moved to one that it does not.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) unsafe fn poll_queued(
        &self,
        waiter: super::Pinned<'_>,
        cx: &mut core::task::Context<'_>,
    ) -> core::task::Poll<()> {
        // SAFETY: the caller's contract.
        unsafe { self.queue.poll_queued(waiter, cx) }
    }
}

impl<'q, T> QueueLockGuard<'q, T> {
    /// The locked queue and the value, for no longer than the guard is borrowed.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut LockedQueue<'q>, &mut T) {
        // SAFETY: `QueueLock::lock` paired the two: `EDIT` of the value's own queue is held, so this is the only guard of it, and it
        // is borrowed for as long as the reference lives.
        (&mut self.locked, self.value.with_mut(|value| unsafe { &mut *value }))
    }

    /// The value, for no longer than the guard is borrowed.
    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub(crate) fn value(&mut self) -> &mut T {
        self.parts().1
    }
}

impl<T> QueueGuard for QueueLockGuard<'_, T> {}

impl<T> fmt::Debug for QueueLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLock").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for QueueLockGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLockGuard").finish_non_exhaustive()
    }
}
