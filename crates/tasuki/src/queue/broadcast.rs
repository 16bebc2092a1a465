//! A queue that can release all its waiters at once, round by round.
//!
//! Events, barriers, latches, wait groups, once cells and tokens release many waiters by one call. A waiter that is polled or dropped in the middle of such a
//! release must find the same answer as one that is not: released.
//!
//! A wake-all reaches its waiters in batches, but it *happens* at one moment: when the round number goes
//! up, under `EDIT`. A waiter of an earlier round is released from then on, whether or not its batch has been
//! notified: its poll is `Ready`, and its cancel finds that it was released. A waiter that is enqueued later belongs to the
//! new round, and is not touched by the batches of the old one.
//!
//! # Orderings
//! `round`: Relaxed, a number that is compared. A waiter that finds its round over has seen `Notified` with Acquire, or
//! locks the queue, after the hold of the lock that ended the round: so what was done before the
//! release happens before what the waiter does, whether or not a batch has reached it.

use super::waiter::{Payload, Waiter, WaiterState, drop_waker};
use super::word::Word;
use super::{LockedQueue, Pinned, QueueGuard as _, Removed, WaitQueue};
use crate::shim::{AtomicU32, Ordering, const_fn};
use core::task::{Context, Poll};

/// A wait queue and the number of its round.
#[derive(Debug)]
pub(crate) struct Broadcast<N = ()> {
    pub(crate) queue: WaitQueue,
    /// Written under `EDIT`. Wraps: it is only compared for equality, by waiters of a release that is under way.
    round: AtomicU32,
    /// A note of the primitive; it is here because there is room beside the round.
    pub(crate) note: N,
}

/// What a cancel finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a wait that was released counts, one that was cancelled does not"]
pub(crate) enum CancelOutcome {
    /// The wait was removed before any release or grant.
    Cancelled,
    /// The wait had been granted, or its round released, before the cancel.
    AlreadyGranted,
}

impl Broadcast {
    const_fn! {
        /// A queue without waiters.
        pub(crate) const fn new(word: Word) -> Self {
            Self::with_note(word, ())
        }
    }
}

impl<N> Broadcast<N> {
    const_fn! {
        /// A queue without waiters, and the primitive's note.
        pub(crate) const fn with_note(word: Word, note: N) -> Self {
            Self { queue: WaitQueue::new(word), round: AtomicU32::new(0), note }
        }
    }

    /// Another number, as after many rounds.
    #[cfg(all(test, feature = "std"))]
    pub(crate) fn start_at(&self, round: u32) {
        // Relaxed: one thread.
        self.round.store(round, Ordering::Relaxed);
    }

    /// The payload of a waiter of this round. The evidence: the round does not change while the queue is locked.
    pub(crate) fn payload(&self, _locked: &LockedQueue<'_>) -> Payload {
        // Relaxed: written under `EDIT`, which the caller holds.
        Payload::round(self.round.load(Ordering::Relaxed))
    }

    /// Has the round of this waiter been released?
    #[inline]
    pub(crate) fn is_released(&self, waiter: &Waiter) -> bool {
        // Relaxed: see the header.
        self.round.load(Ordering::Relaxed) != waiter.round()
    }

    /// Releases all waiters that are queued now, and unlocks the queue.
    pub(crate) fn release_all(&self, locked: LockedQueue<'_>) {
        self.begin_round(&locked);
        locked.grant_all();
    }

    /// The moment of a release, for a primitive with something to do before the first waker runs; it goes on with
    /// [`LockedQueue::grant_all`] in the same hold of the lock.
    pub(crate) fn begin_round(&self, _locked: &LockedQueue<'_>) {
        // Relaxed: written under `EDIT`, which the caller holds; see the header for callers that do not.
        let next = self.round.load(Ordering::Relaxed).wrapping_add(1);
        self.round.store(next, Ordering::Relaxed);
    }

    /// A poll of a queued waiter: `Ready` once it was granted, or its round released.
    pub(crate) fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        match waiter.get().state() {
            WaiterState::Notified => return Poll::Ready(()),
            _ if self.is_released(waiter.get()) => {
                let _ = self.cancel(waiter, |_| {});
                return Poll::Ready(());
            }
            _ if waiter.get().will_wake(cx.waker()) => return Poll::Pending,
            _ => {}
        }
        // SAFETY: the waiters of this queue are never moved to another.
        unsafe { self.queue.rearm(waiter, cx) }
    }

    /// Cancels a wait, whatever its state. `in_time` runs under the queue lock if the waiter was neither released nor granted.
    pub(crate) fn cancel(
        &self,
        waiter: Pinned<'_>,
        in_time: impl FnOnce(&mut LockedQueue<'_>),
    ) -> CancelOutcome {
        if waiter.get().state() == WaiterState::Notified {
            return CancelOutcome::AlreadyGranted;
        }
        let mut locked = self.queue.lock();
        // SAFETY: the waiters of this queue are never moved to another.
        let Removed::Waker(waker) = (unsafe { locked.remove(waiter) }) else {
            return CancelOutcome::AlreadyGranted;
        };
        let outcome = if self.is_released(waiter.get()) {
            CancelOutcome::AlreadyGranted
        } else {
            in_time(&mut locked);
            CancelOutcome::Cancelled
        };
        drop_waker(locked.unlock_with(waker));
        outcome
    }
}
