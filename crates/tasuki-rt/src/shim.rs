//! What the model checker replaces. The only file of the crate that knows `cfg(loom)`.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
};

/// The primitives' own: why, is said there.
#[cfg(loom)]
#[path = "../../tasuki/src/shim/dependent.rs"]
#[allow(dead_code, reason = "it has every width")]
mod dependent;

#[cfg(loom)]
pub(crate) use dependent::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{Ordering, fence},
};
