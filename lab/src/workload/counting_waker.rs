//! A waker that counts its wakes, at next to no cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};

/// How often its wakers were woken. For the workloads of one thread: nothing is read-modify-written.
#[derive(Clone, Copy)]
pub(crate) struct WakeCount(&'static AtomicU64);

impl WakeCount {
    /// A new count; it is never freed, since a waker may outlive everything.
    pub(crate) fn new() -> WakeCount {
        WakeCount(Box::leak(Box::default()))
    }

    /// How often so far.
    pub(crate) fn count(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// A waker that counts here.
    pub(crate) fn waker(self) -> Waker {
        // SAFETY: the table's functions take the pointer for what it is, a counter that lives for ever.
        unsafe { Waker::from_raw(raw(std::ptr::from_ref(self.0).cast())) }
    }
}

fn raw(counter: *const ()) -> RawWaker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(raw, count, count, |_| ());
    RawWaker::new(counter, &TABLE)
}

/// Counts one wake.
fn count(counter: *const ()) {
    // SAFETY: the pointer comes from `WakeCount::waker`.
    let counter = unsafe { &*counter.cast::<AtomicU64>() };
    // Relaxed: a number of one thread.
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
