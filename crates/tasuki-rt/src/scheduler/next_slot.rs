//! The *next* slot: one task that its worker runs before all others, and that may be stolen.
//!
//! Only the owner fills it; the owner and thieves empty it. So an owner that finds it empty may fill it by a
//! plain store.
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | empty | owner puts | full | [`NextSlot::put`] |
//! | full | owner puts | full with the new one; the old one comes back | [`NextSlot::put`] |
//! | full | owner or thief takes | empty | [`NextSlot::take`] |
//!
//! # Orderings
//! Release in `put` pairs with Acquire in `take`: publishes the task.

use crate::shim::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

/// A place for one task, as the raw pointer of a runnable.
#[derive(Debug)]
pub(crate) struct NextSlot(AtomicPtr<()>);

impl NextSlot {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Puts a task, and returns the one that was there. For the owner only.
    #[must_use]
    pub(crate) fn put(&self, task: NonNull<()>) -> Option<NonNull<()>> {
        // Relaxed: only the owner makes it full, and that is us.
        if self.0.load(Ordering::Relaxed).is_null() {
            // Release: pairs with Acquire in `take`.
            self.0.store(task.as_ptr(), Ordering::Release);
            return None;
        }
        // Release: pairs with Acquire in `take`; Acquire is not needed, what comes back is our own.
        NonNull::new(self.0.swap(task.as_ptr(), Ordering::Release))
    }

    /// Takes the task, if there is one and no other thread was faster.
    ///
    /// Not a swap: that would write an empty slot again, and race with the plain store of `put` for nothing.
    #[inline]
    #[must_use]
    pub(crate) fn take(&self) -> Option<NonNull<()>> {
        // Relaxed: only compared, nothing is read through it.
        let seen = self.0.load(Ordering::Relaxed);
        if seen.is_null() {
            return None;
        }
        // Acquire: pairs with Release in `put`. Relaxed on failure: nothing was taken.
        // The exchanged pointer, not `seen`: another task may have been put since at the address of a dead one, and only
        // the pointer that was put is valid for it.
        let taken = self.0.compare_exchange(seen, ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed);
        taken.ok().and_then(NonNull::new)
    }

    /// A look; for the owner it is exact when empty.
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a hint, nothing is read through it.
        self.0.load(Ordering::Relaxed).is_null()
    }
}
