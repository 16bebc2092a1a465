//! The guard of one poll of a stream or a sink: should foreign code panic in the poll, it restarts the wait, which then can be polled again.

use crate::wait::{Op, Single, Wait};
use core::mem;
use core::pin::Pin;

/// A wait that is polled. Dropped, it restarts the wait in place: a stream or a sink has not ended by a panic.
pub(super) struct RestartOnPanic<'w, O: Op>(Pin<&'w mut Wait<Single<O>>>);

impl<'w, O: Op> RestartOnPanic<'w, O> {
    pub(super) fn new(wait: Pin<&'w mut Wait<Single<O>>>) -> Self {
        Self(wait)
    }

    pub(super) fn wait(&mut self) -> Pin<&mut Wait<Single<O>>> {
        self.0.as_mut()
    }

    /// The poll is over.
    pub(super) fn disarm(self) {
        mem::forget(self);
    }
}

impl<O: Op> Drop for RestartOnPanic<'_, O> {
    fn drop(&mut self) {
        self.0.as_mut().restart();
    }
}
