//! saa's lock: one word, spins before it queues. It guards no value, so the value is kept beside it.

use crate::peer::AsyncMutex;
use saa::Lock;
use std::cell::UnsafeCell;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// `saa::Lock` with a counter.
pub(crate) struct Saa {
    lock: Lock,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is reached only through a guard, and the lock admits one guard at a time.
unsafe impl Sync for Saa {}

/// Releases the lock when dropped.
pub(crate) struct Guard<'a>(&'a Saa);

/// Maps the lock's `bool` to a guard: no state of its own, so nothing is added to each poll.
struct Locking<'a, F> {
    future: F,
    mutex: &'a Saa,
}

impl<'a, F: Future<Output = bool>> Future for Locking<'a, F> {
    type Output = Guard<'a>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Guard<'a>> {
        let mutex = self.mutex;
        // SAFETY: structural pinning - the field is never moved and there is no `Drop` impl.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        future.poll(cx).map(|locked| {
            assert!(locked, "no holder poisons the lock");
            Guard(mutex)
        })
    }
}

impl AsyncMutex for Saa {
    const NAME: &'static str = "saa";
    const LOCK_BYTES: usize = size_of::<Lock>();
    type Guard<'a> = Guard<'a>;

    fn new() -> Self {
        Saa { lock: Lock::new(), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Guard<'_>> + Send {
        Locking { future: self.lock.lock_async(), mutex: self }
    }

    #[inline]
    fn try_lock(&self) -> Option<Guard<'_>> {
        self.lock.try_lock().is_ok().then(|| Guard(self))
    }

    fn future_bytes(&self) -> usize {
        size_of_val(&self.lock.lock_async())
    }
}

impl Deref for Guard<'_> {
    type Target = u64;

    #[inline]
    fn deref(&self) -> &u64 {
        // SAFETY: a guard exists, so the lock is held for it.
        unsafe { &*self.0.value.get() }
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut u64 {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.lock.release_lock();
    }
}
