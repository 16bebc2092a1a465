//! Restarting a finished wait in place, in the same pinned memory: streams and sinks wait again after each message.

use crate::wait::{Op, Single, Wait};
use core::mem;
use core::pin::Pin;

/// A wait that is polled. Should foreign code panic, the wait can be polled again: a stream or a sink has not ended by that.
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
