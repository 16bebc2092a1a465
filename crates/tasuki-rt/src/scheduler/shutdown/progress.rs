//! Shutdown progress: a closing flag, and two countdowns of the workers: those that still have tasks of their own, and those whose threads have not ended.
//!
//! `Shared::close` sets the flag, each worker counts itself down as it leaves (`mod.rs`), and the caller of a shutdown waits for the second count.
//!
//! # Orderings
//! Release in `close` pairs with Acquire in `is_closing`. Each `left_home` releases what that worker did, and the last one
//! acquires it all.

use crate::shim::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, wait_until};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The flag, and how many workers there still are.
#[derive(Debug)]
pub(crate) struct ShutdownProgress {
    closing: AtomicBool,
    /// Workers that still have tasks of their own.
    at_home: AtomicUsize,
    /// A worker stays, or has stayed, until `at_home` is 0.
    has_stayed: AtomicBool,
    running: Mutex<usize>,
    ended: Condvar,
}

impl ShutdownProgress {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            closing: AtomicBool::new(false),
            at_home: AtomicUsize::new(workers),
            has_stayed: AtomicBool::new(false),
            running: Mutex::new(workers),
            ended: Condvar::new(),
        }
    }

    /// True once shutdown has begun.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        // Acquire: pairs with Release in `close`.
        self.closing.load(Ordering::Acquire)
    }

    /// running => closing. The task counts have been closed before.
    pub(crate) fn close(&self) {
        // Release: pairs with Acquire in `is_closing`: what was done before the shutdown.
        self.closing.store(true, Ordering::Release);
    }

    /// A worker has dropped what was its own. True for the last one.
    pub(crate) fn left_home(&self) -> bool {
        // AcqRel: Release pairs with the Acquire of the last one, which cleans up after all.
        self.at_home.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Does this worker stay, to mind the wheels until all have left home? The first does that asks.
    pub(crate) fn stays(&self) -> bool {
        // Relaxed: it decides which worker, and nothing else is said by it.
        !self.has_stayed.swap(true, Ordering::Relaxed)
    }

    /// How many workers have not dropped what was their own.
    pub(crate) fn at_home(&self) -> usize {
        // Relaxed: publishes nothing, and the worker that stays looks again and again. What the others registered before they left is found under the lock of the registry.
        self.at_home.load(Ordering::Relaxed)
    }

    /// A worker has ended.
    pub(crate) fn has_ended(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running -= 1;
        if *running == 0 {
            self.ended.notify_all();
        }
    }

    /// Waits for all workers; false when the time is over first.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while *running > 0 {
            let Some(again) = wait_until(&self.ended, running, deadline) else { return false };
            running = again;
        }
        true
    }
}
