//! asyncband's mutex: fair.

use crate::peer::{AsyncMutex, AsyncSemaphore};
use std::future::Future;

/// `::asyncband::mutex::Mutex`.
pub(crate) struct Asyncband(::asyncband::mutex::Mutex<u64>);

impl AsyncMutex for Asyncband {
    const NAME: &'static str = "asyncband";
    const LOCK_BYTES: usize = size_of::<::asyncband::mutex::Mutex<()>>();
    type Guard<'a> = ::asyncband::mutex::MutexGuard<'a, u64>;

    fn new() -> Self {
        Asyncband(::asyncband::mutex::Mutex::new(0))
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

/// `::asyncband::semaphore::Semaphore`.
pub(crate) struct AsyncbandSemaphore(::asyncband::semaphore::Semaphore);

impl AsyncSemaphore for AsyncbandSemaphore {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::semaphore::Semaphore>();
    type Permit<'a> = ::asyncband::semaphore::SemaphorePermit<'a>;

    fn new(permits: usize) -> Self {
        AsyncbandSemaphore(::asyncband::semaphore::Semaphore::new(permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Permit<'_>> + Send {
        self.0.acquire(1)
    }

    #[inline]
    fn try_acquire(&self) -> Option<Self::Permit<'_>> {
        self.0.try_acquire(1)
    }
}
