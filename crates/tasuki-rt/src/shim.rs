//! What the model checker replaces. The only file of the crate that knows `cfg(tasuki_loom)`.

#[cfg(not(tasuki_loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// The primitives' own: why, is said there.
#[cfg(tasuki_loom)]
#[path = "../../tasuki/src/shim/dependent.rs"]
#[allow(dead_code, reason = "it has every width")]
mod dependent;

#[cfg(tasuki_loom)]
pub(crate) use dependent::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(tasuki_loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{Ordering, fence},
    },
};

/// A cell whose accesses the model checker can see; here it is `std`'s.
#[cfg(not(tasuki_loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(tasuki_loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// A read: no write may happen at the same time.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// A write: no other access may happen at the same time.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
