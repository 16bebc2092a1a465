//! `QueueWaker`: a `Waker` on its way into or out of the slot of a waiter. Its drop catches a panic while another panic unwinds.
//!
//! Its drop is foreign code, like its wake. Between the two a thread may run other foreign code: a release wakes the next owner and then drops the waker of a wait that was
//! cancelled. If that code panics, the waker is dropped while the panic unwinds, and a second panic there would end the process. So whatever holds a waker holds a
//! [`QueueWaker`], whose drop catches that one; the first panic goes on.

use super::batch::while_unwinding;
use crate::probe;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::task::Waker;

/// A waker, dropped without a second panic. It is not dropped under `EDIT`.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct QueueWaker(ManuallyDrop<Waker>);

impl QueueWaker {
    #[inline(always)]
    pub(super) fn new(waker: Waker) -> Self {
        Self(ManuallyDrop::new(waker))
    }

    /// Wakes the task; the waker is used up by it.
    #[inline(always)]
    pub(super) fn wake(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: the drop does not run.
        unsafe { ManuallyDrop::take(&mut this.0) }.wake();
    }
}

impl Deref for QueueWaker {
    type Target = Waker;

    #[inline(always)]
    fn deref(&self) -> &Waker {
        &self.0
    }
}

impl Drop for QueueWaker {
    #[inline]
    fn drop(&mut self) {
        probe::foreign_code();
        while_unwinding(|| {
            // SAFETY: taken once: this is its drop.
            drop(unsafe { ManuallyDrop::take(&mut self.0) });
        });
    }
}
