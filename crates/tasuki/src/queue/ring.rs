//! A circular list of waiters through a sentinel that does not move: a waiter can be removed without knowing which list it is in.
//!
//! The wheel of the timers is made of rings. A ring belongs to one queue, whose `EDIT` bit guards it; a waiter leaves through [`LockedQueue::remove`](super::LockedQueue::remove) like any other.

use super::list;
use super::waiter::{self, Verdict, Waiter};
use super::{Deferred, LockedQueue, Pinned, QueueWaker};

/// The fixed point of a ring. It keeps pointers to itself from its first use on: it must not move after that, nor be kept in a `Box`
/// that moves (which ends every pointer that does not come from that box), nor be dropped while a waiter is in the ring.
#[derive(Debug)]
pub(crate) struct Ring {
    sentinel: Waiter,
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self { sentinel: Waiter::sentinel() }
    }

    fn sentinel(&self) -> *mut Waiter {
        (&raw const self.sentinel).cast_mut()
    }

    /// Is the ring empty?
    pub(crate) fn is_empty(&self, _locked: &LockedQueue<'_>) -> bool {
        // SAFETY: the evidence: the caller holds `EDIT`.
        let next = unsafe { list::next(self.sentinel()) };
        next.is_null() || next == self.sentinel()
    }

    /// Enqueues at the end. SAFETY: the ring stays where it is while the waiter is in it.
    pub(crate) unsafe fn push_back(&self, _locked: &mut LockedQueue<'_>, waiter: Pinned<'_>) {
        // SAFETY: the evidence, and the caller's contract.
        unsafe { list::push_ring(self.sentinel(), waiter.as_ptr()) };
    }

    /// Takes the first waiter out and notifies it; `None` if there is none.
    pub(crate) fn grant_front(&self, locked: &mut LockedQueue<'_>) -> Option<Deferred<Option<QueueWaker>>> {
        let front = self.take_front(locked)?;
        // SAFETY: the evidence; it has just been taken out of the ring.
        Some(Deferred::new(unsafe { waiter::notify(front, Verdict::Granted) }))
    }

    /// The first waiter, to look at.
    pub(crate) fn front<'e>(&self, locked: &'e LockedQueue<'_>) -> Option<&'e Waiter> {
        if self.is_empty(locked) {
            return None;
        }
        // SAFETY: the evidence; the ring is not empty.
        let front = unsafe { list::next(self.sentinel()) };
        // SAFETY: invariant 2: a listed waiter is alive, and it stays in the ring while the evidence is borrowed.
        Some(unsafe { &*front })
    }

    /// Moves the first waiter, if there is one, to the end of another ring.
    ///
    /// SAFETY: as [`push_back`](Self::push_back), for the other ring.
    pub(crate) unsafe fn move_front(&self, locked: &mut LockedQueue<'_>, to: &Ring) {
        if let Some(front) = self.take_front(locked) {
            // SAFETY: the evidence, and the caller's contract.
            unsafe { list::push_ring(to.sentinel(), front) };
        }
    }

    fn take_front(&self, locked: &mut LockedQueue<'_>) -> Option<*mut Waiter> {
        if self.is_empty(locked) {
            return None;
        }
        // SAFETY: the evidence; the ring is not empty.
        Some(unsafe { list::pop_ring(self.sentinel()) })
    }
}
