//! A wait of a runtime's own future, which is in no queue of this crate.

use super::WaitNote;

/// A wait of a runtime's own future, for something that is no lock of this crate: the end of a task. It goes on from a poll that is pending to the one that is ready, or to the drop. Where waits are noted
/// ([`inspect`](crate::inspect)) the task that has it is in no cycle: it may go on by this wait. Elsewhere it is empty.
#[derive(Debug)]
pub struct SignalWait(WaitNote);

impl Default for SignalWait {
    fn default() -> Self {
        Self::new()
    }
}

impl SignalWait {
    /// It has not begun.
    pub const fn new() -> Self {
        Self(WaitNote::NONE)
    }

    /// The future of this name has been polled by the running task, and waits.
    #[inline]
    pub fn waits(&mut self, name: &'static &'static str) {
        if self.0.is_none() {
            self.0 = WaitNote::of_signal(name);
        } else {
            self.0.polled();
        }
    }

    /// It is over.
    #[inline]
    pub fn ends(&mut self) {
        core::mem::replace(&mut self.0, WaitNote::NONE).leave();
    }
}

impl Drop for SignalWait {
    #[inline]
    fn drop(&mut self) {
        self.ends();
    }
}
