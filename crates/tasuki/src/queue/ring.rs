//! A ring of waiters through a sentinel that stays where it is: a list that its members can leave without
//! knowing where they are.
//!
//! The wheel of the timers is made of rings, and a wake-all makes one of the list. A ring belongs to one
//! queue, whose `EDIT` bit guards it; a waiter leaves through [`Editing::remove`](super::Editing::remove) like any other.

#[cfg(feature = "std")]
use super::Pinned;
use super::list;
use super::waiter::Waiter;
#[cfg(feature = "std")]
use super::waiter::{self, Verdict};
use super::{Editing, Moving};
#[cfg(feature = "std")]
use core::task::Waker;

/// The fixed point of a ring. It must not move, or be dropped, while somebody is in the ring.
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

    /// Is nobody in the ring?
    pub(crate) fn is_empty(&self, _editing: &Editing<'_>) -> bool {
        // SAFETY: the evidence: the caller holds `EDIT`.
        let next = unsafe { list::next(self.sentinel()) };
        next.is_null() || next == self.sentinel()
    }

    /// Makes a ring of the whole list, which is then empty. The ring must be empty.
    ///
    /// SAFETY: the ring stays where it is while somebody is in it.
    pub(crate) unsafe fn take_list(&self, editing: &mut Editing<'_>) {
        debug_assert!(self.is_empty(editing));
        if let Some(head) = editing.take_list() {
            // SAFETY: the evidence, and the caller's contract.
            unsafe { list::close_ring(self.sentinel(), head) };
        }
    }

    /// Takes the first waiter out, to be put into another queue, and marks it.
    pub(crate) fn take(&self, editing: &mut Editing<'_>, mark: u32) -> Option<Moving> {
        let front = self.take_front(editing)?;
        Some(editing.moving(front, mark))
    }

    /// Enqueues at the end. SAFETY: the ring stays where it is while the waiter is in it.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn push_back(&self, _editing: &mut Editing<'_>, waiter: Pinned<'_>) {
        // SAFETY: the evidence, and the caller's contract.
        unsafe { list::push_ring(self.sentinel(), waiter.as_ptr()) };
    }

    /// Takes the first waiter out and notifies it; `None` if there is none.
    #[cfg(feature = "std")]
    pub(crate) fn grant_front(&self, editing: &mut Editing<'_>) -> Option<Option<Waker>> {
        let front = self.take_front(editing)?;
        // SAFETY: the evidence; it has just been taken out of the ring.
        Some(unsafe { waiter::notify(front, Verdict::Granted) })
    }

    /// The first waiter, to look at.
    #[cfg(feature = "std")]
    pub(crate) fn front<'e>(&self, editing: &'e Editing<'_>) -> Option<&'e Waiter> {
        if self.is_empty(editing) {
            return None;
        }
        // SAFETY: the evidence; the ring is not empty.
        let front = unsafe { list::next(self.sentinel()) };
        // SAFETY: invariant 2: a listed waiter is alive, and nobody can take it while the edit is borrowed.
        Some(unsafe { &*front })
    }

    /// Moves the first waiter, if there is one, to the end of another ring.
    ///
    /// SAFETY: as [`push_back`](Self::push_back), for the other ring.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn move_front(&self, editing: &mut Editing<'_>, to: &Ring) {
        if let Some(front) = self.take_front(editing) {
            // SAFETY: the evidence, and the caller's contract.
            unsafe { list::push_ring(to.sentinel(), front) };
        }
    }

    fn take_front(&self, editing: &mut Editing<'_>) -> Option<*mut Waiter> {
        if self.is_empty(editing) {
            return None;
        }
        // SAFETY: the evidence; the ring is not empty.
        Some(unsafe { list::pop_ring(self.sentinel()) })
    }
}
