//! saa's lock, shared by readers: 62 at most.

use super::Then;
use crate::peer::AsyncRwLock;
use saa::Lock;
use std::cell::UnsafeCell;
use std::future::Future;
use std::ops::{Deref, DerefMut};

/// `saa::Lock` with a counter.
pub(crate) struct SaaRwLock {
    lock: Lock,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is reached only through guards, and the lock admits one writer or some readers.
unsafe impl Sync for SaaRwLock {}

/// Releases its share when dropped.
pub(crate) struct Read<'a>(&'a SaaRwLock);

/// Releases the lock when dropped.
pub(crate) struct Write<'a>(&'a SaaRwLock);

impl AsyncRwLock for SaaRwLock {
    const NAME: &'static str = "saa";
    const BYTES: usize = size_of::<Lock>();
    type Read<'a> = Read<'a>;
    type Write<'a> = Write<'a>;

    fn new() -> Self {
        SaaRwLock { lock: Lock::new(), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn read(&self) -> impl Future<Output = Read<'_>> + Send {
        let guard = |shared: bool| {
            assert!(shared, "no holder poisons the lock");
            Read(self)
        };
        Then { future: self.lock.share_async(), guard }
    }

    #[inline]
    fn write(&self) -> impl Future<Output = Write<'_>> + Send {
        let guard = |locked: bool| {
            assert!(locked, "no holder poisons the lock");
            Write(self)
        };
        Then { future: self.lock.lock_async(), guard }
    }
}

impl Deref for Read<'_> {
    type Target = u64;

    #[inline]
    fn deref(&self) -> &u64 {
        // SAFETY: a guard exists, so the lock is shared with it and no writer is inside.
        unsafe { &*self.0.value.get() }
    }
}

impl Drop for Read<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.lock.release_share();
    }
}

impl Deref for Write<'_> {
    type Target = u64;

    #[inline]
    fn deref(&self) -> &u64 {
        // SAFETY: a guard exists, so the lock is held for it.
        unsafe { &*self.0.value.get() }
    }
}

impl DerefMut for Write<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut u64 {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl Drop for Write<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.lock.release_lock();
    }
}
