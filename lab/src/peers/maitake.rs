//! maitake-sync: mutex, semaphore, reader-writer lock, and its wait queue as an event; all fair.

use crate::peer::{AsyncMutex, AsyncRwLock, AsyncSemaphore, AutoEvent, Broadcast};
use std::future::Future;

/// `::maitake_sync::Mutex`.
pub(crate) struct Maitake(::maitake_sync::Mutex<u64>);

impl AsyncMutex for Maitake {
    const NAME: &'static str = "maitake";
    const LOCK_BYTES: usize = size_of::<::maitake_sync::Mutex<()>>();
    type Guard<'a> = ::maitake_sync::MutexGuard<'a, u64>;

    fn new() -> Self {
        Maitake(::maitake_sync::Mutex::new(0))
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

/// `::maitake_sync::Semaphore`.
pub(crate) struct MaitakeSemaphore(::maitake_sync::Semaphore);

impl AsyncSemaphore for MaitakeSemaphore {
    const NAME: &'static str = "maitake";
    const BYTES: usize = size_of::<::maitake_sync::Semaphore>();
    type Permit<'a> = Result<::maitake_sync::semaphore::Permit<'a>, ::maitake_sync::Closed>;

    fn new(permits: usize) -> Self {
        MaitakeSemaphore(::maitake_sync::Semaphore::new(permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Permit<'_>> + Send {
        self.0.acquire(1)
    }

    #[inline]
    fn try_acquire(&self) -> Option<Self::Permit<'_>> {
        self.0.try_acquire(1).ok().map(Ok)
    }
}

/// `::maitake_sync::WaitQueue`.
pub(crate) struct MaitakeQueue(::maitake_sync::WaitQueue);

impl AutoEvent for MaitakeQueue {
    const NAME: &'static str = "maitake";

    fn new() -> Self {
        MaitakeQueue(::maitake_sync::WaitQueue::new())
    }

    #[inline]
    fn set(&self) {
        self.0.wake();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }
}

impl Broadcast for MaitakeQueue {
    const NAME: &'static str = "maitake";
    const BYTES: usize = size_of::<::maitake_sync::WaitQueue>();

    fn new() -> Self {
        MaitakeQueue(::maitake_sync::WaitQueue::new())
    }

    fn rearm(&mut self) {
        // Nothing is stored when all are woken.
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }

    #[inline]
    fn release(&self) {
        self.0.wake_all();
    }
}

/// `::maitake_sync::RwLock<u64>`.
pub(crate) struct MaitakeRwLock(::maitake_sync::RwLock<u64>);

impl AsyncRwLock for MaitakeRwLock {
    const NAME: &'static str = "maitake";
    const BYTES: usize = size_of::<::maitake_sync::RwLock<()>>();
    type Read<'a> = ::maitake_sync::rwlock::RwLockReadGuard<'a, u64>;
    type Write<'a> = ::maitake_sync::rwlock::RwLockWriteGuard<'a, u64>;

    fn new() -> Self {
        MaitakeRwLock(::maitake_sync::RwLock::new(0))
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
