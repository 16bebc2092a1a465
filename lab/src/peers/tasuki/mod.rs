//! Tasuki itself, one file a family.

mod mutex;
mod semaphore;

pub(crate) use mutex::{Bypass, Fifo, FifoNoSpin, Lifo, TasukiParker};
pub(crate) use semaphore::{BypassSemaphore, FifoSemaphore};
