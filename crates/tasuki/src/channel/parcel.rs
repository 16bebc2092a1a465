//! The message of a send, in its future: taken by the future itself, or by the granter that moves it into a slot.

use crate::shim::UnsafeCell;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomPinned;
use core::mem::MaybeUninit;

/// A message that may be taken from outside of its future while that waits. Touched by its future, or under the queue lock while the future is
/// queued.
pub(super) struct Parcel<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    full: Cell<bool>,
    /// The queue has a pointer to it.
    _pin: PhantomPinned,
}

// SAFETY: a shared parcel gives the message to one side only, which may be another thread: that needs `T: Send`, and nothing is shared.
unsafe impl<T: Send> Sync for Parcel<T> {}

impl<T> Parcel<T> {
    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(MaybeUninit::new(value)), full: Cell::new(true), _pin: PhantomPinned }
    }

    /// Is the message still here?
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.full.get()
    }

    /// The message.
    ///
    /// SAFETY: the caller is its future and not queued, or holds the queue lock; the parcel is full.
    #[inline(always)]
    pub(super) unsafe fn take(&self) -> T {
        debug_assert!(self.full.get(), "the message has gone");
        self.full.set(false);
        // SAFETY: it was full; the caller's contract.
        self.value.with(|value| unsafe { (*value).assume_init_read() })
    }
}

impl<T> Drop for Parcel<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.full.get() {
            crate::probe::foreign_code();
            // SAFETY: full, and its owner drops it, out of the queue.
            self.value.with_mut(|value| unsafe { (*value).assume_init_drop() });
        }
    }
}

impl<T> fmt::Debug for Parcel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel").field("full", &self.full.get()).finish_non_exhaustive()
    }
}
