//! Tasuki itself, one file a family.

mod mutex;
mod rwlock;
mod semaphore;
mod signal;

pub(crate) use mutex::{Bypass, Fifo, FifoNoSpin, Lifo, Revocable, TasukiParker};
pub(crate) use rwlock::{Notified, Readers, Sleep, Timeout};
pub(crate) use semaphore::{BypassSemaphore, FifoSemaphore};
pub(crate) use signal::{Auto, Manual, Members, OwnedMembers, Parties, Release, Token};
