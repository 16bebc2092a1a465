//! async-lock: mutex (fair after 0.5 ms), semaphore, reader-writer lock, barrier.

use crate::peer::{AsyncBarrier, AsyncMutex, AsyncRwLock, AsyncSemaphore};
use std::future::Future;

/// `::async_lock::Mutex`.
pub(crate) struct AsyncLock(::async_lock::Mutex<u64>);

impl AsyncMutex for AsyncLock {
    const NAME: &'static str = "async-lock";
    const LOCK_BYTES: usize = size_of::<::async_lock::Mutex<()>>();
    type Guard<'a> = ::async_lock::MutexGuard<'a, u64>;

    fn new() -> Self {
        AsyncLock(::async_lock::Mutex::new(0))
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send {
        self.0.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock()
    }
}

/// `::async_lock::Semaphore`.
pub(crate) struct AsyncLockSemaphore(::async_lock::Semaphore);

impl AsyncSemaphore for AsyncLockSemaphore {
    const NAME: &'static str = "async-lock";
    const BYTES: usize = size_of::<::async_lock::Semaphore>();
    type Permit<'a> = ::async_lock::SemaphoreGuard<'a>;

    fn new(permits: usize) -> Self {
        AsyncLockSemaphore(::async_lock::Semaphore::new(permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Permit<'_>> + Send {
        self.0.acquire()
    }

    #[inline]
    fn try_acquire(&self) -> Option<Self::Permit<'_>> {
        self.0.try_acquire()
    }
}

/// `::async_lock::Barrier`.
pub(crate) struct AsyncLockBarrier(::async_lock::Barrier);

impl AsyncBarrier for AsyncLockBarrier {
    const NAME: &'static str = "async-lock";
    const BYTES: usize = size_of::<::async_lock::Barrier>();
    type WaitResult = ::async_lock::BarrierWaitResult;

    fn new(parties: usize) -> Self {
        AsyncLockBarrier(::async_lock::Barrier::new(parties))
    }

    #[inline]
    fn arrive(&self) -> impl Future<Output = Self::WaitResult> + Send {
        self.0.wait()
    }

    #[inline]
    fn is_leader(result: &Self::WaitResult) -> bool {
        result.is_leader()
    }
}

/// `::async_lock::RwLock<u64>`.
pub(crate) struct AsyncLockRwLock(::async_lock::RwLock<u64>);

impl AsyncRwLock for AsyncLockRwLock {
    const NAME: &'static str = "async-lock";
    const BYTES: usize = size_of::<::async_lock::RwLock<()>>();
    type Read<'a> = ::async_lock::RwLockReadGuard<'a, u64>;
    type Write<'a> = ::async_lock::RwLockWriteGuard<'a, u64>;

    fn new() -> Self {
        AsyncLockRwLock(::async_lock::RwLock::new(0))
    }

    #[inline]
    fn read(&self) -> impl Future<Output = Self::Read<'_>> + Send {
        self.0.read()
    }

    #[inline]
    fn write(&self) -> impl Future<Output = Self::Write<'_>> + Send {
        self.0.write()
    }
}
