//! A queue that releases everybody at once, round by round.
//!
//! A wake-all reaches its waiters in batches, but it *happens* at one moment: when the round number goes
//! up, under `EDIT`. A waiter of an earlier round is released from then on, whether or not its batch has
//! come: it polls `Ready`, and cancelling it withdraws nothing. A waiter that comes later belongs to the
//! new round, and is not touched by the batches of the old one.
//!
//! # Orderings
//! `round`: Relaxed, a number that is compared. Whoever finds its round over has seen `Notified` with Acquire, or
//! goes on to an edit, which waits for the end of the one that ended the round: so what was done before the
//! release happens before what the waiter does, whether or not a batch has reached it.

use super::waiter::{Ask, State, Waiter, clone_waker, drop_waker};
use super::word::Word;
use super::{Editing, Pinned, QueueLock as _, Removed, WaitQueue};
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

/// What a future that gives up finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a wait that was released counts, one that was withdrawn does not"]
pub(crate) enum Withdrawn {
    /// It left before any release or grant.
    InTime,
    /// A grant was faster, or its round has been released.
    Given,
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
    #[cfg(test)]
    pub(crate) fn start_at(&self, round: u32) {
        // Relaxed: one thread.
        self.round.store(round, Ordering::Relaxed);
    }

    /// What a waiter of this round brings. The editor is the evidence that the round stands still.
    pub(crate) fn ask(&self, _editing: &Editing<'_>) -> Ask {
        // Relaxed: written under `EDIT`, which the caller holds.
        Ask { round: self.round.load(Ordering::Relaxed), ..Ask::default() }
    }

    /// Has the round of this waiter been released?
    #[inline]
    pub(crate) fn is_released(&self, waiter: &Waiter) -> bool {
        // Relaxed: see the header.
        self.round.load(Ordering::Relaxed) != waiter.round()
    }

    /// Releases everybody who waits now, and ends the edit.
    pub(crate) fn release_all(&self, editing: Editing<'_>) {
        self.begin_round(&editing);
        editing.grant_all();
    }

    /// The moment of a release, for a primitive with something to do before the first waker runs; it goes on with
    /// [`Editing::grant_all`] in the same edit.
    pub(crate) fn begin_round(&self, _editing: &Editing<'_>) {
        // Relaxed: written under `EDIT`, which the caller holds; see the header for those who do not.
        let next = self.round.load(Ordering::Relaxed).wrapping_add(1);
        self.round.store(next, Ordering::Relaxed);
    }

    /// A poll of a queued waiter: `Ready` once it was granted, or its round released.
    pub(crate) fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        match waiter.get().state() {
            State::Notified => return Poll::Ready(()),
            _ if self.is_released(waiter.get()) => {
                let _ = self.withdraw(waiter, |_| {});
                return Poll::Ready(());
            }
            _ if waiter.get().will_wake(cx.waker()) => return Poll::Pending,
            _ => {}
        }
        self.change_waker(waiter, cx)
    }

    #[cold]
    fn change_waker(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        let mut editing = self.queue.edit();
        if waiter.get().state() == State::Notified {
            drop(editing);
            drop_waker(Some(waker));
            return Poll::Ready(());
        }
        // SAFETY: not `Notified`, so it is where `push_back` put it, or in a snapshot (invariant 3 of the queue).
        let old = unsafe { editing.rearm(waiter, waker) };
        drop_waker(editing.unlock_with(old));
        Poll::Pending
    }

    /// Leaves the queue, whatever the state. `in_time` runs in the same edit if nothing had been given.
    pub(crate) fn withdraw(&self, waiter: Pinned<'_>, in_time: impl FnOnce(&mut Editing<'_>)) -> Withdrawn {
        if waiter.get().state() == State::Notified {
            return Withdrawn::Given;
        }
        let mut editing = self.queue.edit();
        // SAFETY: the waiters of this queue are never moved to another.
        let Removed::Waker(waker) = (unsafe { editing.remove(waiter) }) else { return Withdrawn::Given };
        let withdrawn = if self.is_released(waiter.get()) {
            Withdrawn::Given
        } else {
            in_time(&mut editing);
            Withdrawn::InTime
        };
        drop_waker(editing.unlock_with(waker));
        withdrawn
    }
}
