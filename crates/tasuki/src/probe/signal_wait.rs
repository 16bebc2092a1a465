//! `SignalWait` and `SignalSlot`: by them a runtime notes the waits of its own futures (a `JoinHandle`), which are in no queue of this crate.
//!
//! `inspect/` has to know of such a wait: a task that has one may go on by it, and is in no cycle. The future has the [`SignalWait`], from a poll that is pending to the one that is ready. The code that ends the wait, such as the end
//! of a task, has the [`SignalSlot`], which leads to the wait. Both are empty where `inspect/` is not active.

use super::{WaitNote, WaitSlot};

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
    /// Creates a wait that has not begun.
    pub const fn new() -> Self {
        Self(WaitNote::NONE)
    }

    /// Notes that the future of this name was polled by the running task, and waits.
    #[inline]
    pub fn waits(&mut self, name: &'static &'static str) {
        if self.0.is_none() {
            self.0 = WaitNote::of_signal(name);
        } else {
            self.0.polled();
        }
    }

    /// Notes that the wait has ended.
    #[inline]
    pub fn ends(&mut self) {
        core::mem::replace(&mut self.0, WaitNote::NONE).end();
    }
}

/// Which [`SignalWait`] the code that gives the signal has to end: the last one that was noted here. Where nothing is noted it is empty.
///
/// # Examples
///
/// ```
/// use tasuki::runtime::{SignalSlot, SignalWait};
///
/// static NAME: &str = "my_runtime::JoinHandle";
/// let (slot, mut wait) = (SignalSlot::new(), SignalWait::new());
/// // A poll of the future that waits is pending:
/// wait.waits(&NAME);
/// slot.set(&wait);
/// // What it waits for comes, and its task is woken:
/// slot.came();
/// // The next poll is ready:
/// wait.ends();
/// ```
#[derive(Debug)]
pub struct SignalSlot(WaitSlot);

impl Default for SignalSlot {
    fn default() -> Self {
        Self::new()
    }
}

impl SignalSlot {
    /// Creates an empty slot.
    pub const fn new() -> Self {
        Self(WaitSlot::new())
    }

    /// Notes the wait that has begun. Called by its own future.
    #[inline]
    pub fn set(&self, wait: &SignalWait) {
        self.0.set(wait.0);
    }

    /// Notes that the signal has come, before its task is woken: from now on the wait keeps its task out of no cycle, whether its future is polled or not. Does nothing if the wait has ended.
    #[inline]
    pub fn came(&self) {
        self.0.came();
    }
}

impl Drop for SignalWait {
    #[inline]
    fn drop(&mut self) {
        self.ends();
    }
}
