//! What the model checker replaces. The only file of the crate that knows `cfg(loom)`.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence},
};
