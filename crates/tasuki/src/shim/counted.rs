//! Atomics that record what is done to them, for the table of `docs/locked-operations.md`.
//!
//! What an operation costs differs between processors; which accesses it makes does not. In a build with `--cfg tasuki_counts`
//! (`cargo xtask counts`) every atomic of a primitive is one of these (not those of the whole process, such as the scores in `mutex/spin.rs`), and [`trace`] returns the accesses that the calling thread made.
//! There is no `Deref` to the real atomics: a method that is missing here does not compile, instead of going uncounted.

use core::sync::atomic::{self, Ordering};
use std::cell::RefCell;
use std::vec::Vec;

/// What was done to an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A read-modify-write, successful or not: the locked operation of the processor.
    Locked,
}

/// One access, and to which atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicAccess {
    /// What was done.
    pub kind: AccessKind,
    /// Where the atomic is.
    pub address: usize,
}

std::thread_local! {
    static TRACE: RefCell<Option<Vec<AtomicAccess>>> = const { RefCell::new(None) };
}

/// Runs `f`; the accesses that this thread made meanwhile, in their order.
pub fn trace(f: impl FnOnce()) -> Vec<AtomicAccess> {
    TRACE.set(Some(Vec::new()));
    f();
    TRACE.take().unwrap_or_default()
}

fn record<T>(kind: AccessKind, atomic: *const T) {
    TRACE.with_borrow_mut(|trace| {
        if let Some(trace) = trace {
            trace.push(AtomicAccess { kind, address: atomic.addr() });
        }
    });
}

macro_rules! counted {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name $(<$t>)?(atomic::$name $(<$t>)?);

        #[allow(dead_code, reason = "not every type needs every operation")]
        impl $(<$t>)? $name $(<$t>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                record(AccessKind::Load, &raw const self.0);
                self.0.load(ordering)
            }

            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                record(AccessKind::Store, &raw const self.0);
                self.0.store(value, ordering);
            }

            pub(crate) fn swap(&self, value: $value, ordering: Ordering) -> $value {
                record(AccessKind::Locked, &raw const self.0);
                self.0.swap(value, ordering)
            }

            pub(crate) fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                record(AccessKind::Locked, &raw const self.0);
                self.0.compare_exchange(from, to, success, failure)
            }

            /// Never fails spuriously, so that a count is always the same.
            pub(crate) fn compare_exchange_weak(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(from, to, success, failure)
            }

            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut seen = self.load(failure);
                while let Some(next) = change(seen) {
                    match self.compare_exchange(seen, next, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(now) => seen = now,
                    }
                }
                Err(seen)
            }

            /// The real one, for the operating system.
            pub(crate) fn uncounted(&self) -> &atomic::$name $(<$t>)? {
                &self.0
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $value:ty, $($operation:ident)*) => {
        #[allow(dead_code, reason = "not every type needs every operation")]
        impl $name {
            $(pub(crate) fn $operation(&self, value: $value, ordering: Ordering) -> $value {
                record(AccessKind::Locked, &raw const self.0);
                self.0.$operation(value, ordering)
            })*
        }
    };
}

counted!(AtomicPtr<T>, *mut T);
counted!(AtomicBool, bool);
counted!(AtomicI8, i8);
counted!(AtomicU16, u16);
counted!(AtomicU32, u32);
counted!(AtomicU64, u64);
counted!(AtomicUsize, usize);
arithmetic!(AtomicU32, u32, fetch_add fetch_sub fetch_and fetch_or);
arithmetic!(AtomicU64, u64, fetch_add fetch_sub fetch_and fetch_or);
arithmetic!(AtomicUsize, usize, fetch_add fetch_sub fetch_and fetch_or);

/// The sleep of the parker, on a counted word.
#[derive(Debug)]
pub(crate) struct Sleeper(crate::parker::sleep::Sleeper);

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self(crate::parker::sleep::Sleeper::new())
    }

    pub(crate) fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<std::time::Instant>) {
        self.0.sleep(word.uncounted(), expected, deadline);
    }

    pub(crate) fn wake(&self, word: &AtomicU32) {
        self.0.wake(word.uncounted());
    }
}
