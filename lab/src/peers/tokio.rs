//! tokio: fair, over a batch semaphore.

use crate::peer::{AsyncMutex, AsyncSemaphore};
use std::future::Future;

/// `::tokio::sync::Mutex`.
pub(crate) struct Tokio(::tokio::sync::Mutex<u64>);

impl AsyncMutex for Tokio {
    const NAME: &'static str = "tokio";
    const LOCK_BYTES: usize = size_of::<::tokio::sync::Mutex<()>>();
    type Guard<'a> = ::tokio::sync::MutexGuard<'a, u64>;

    fn new() -> Self {
        Tokio(::tokio::sync::Mutex::new(0))
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send {
        self.0.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock().ok()
    }
}

/// `::tokio::sync::Semaphore`.
pub(crate) struct TokioSemaphore(::tokio::sync::Semaphore);

impl AsyncSemaphore for TokioSemaphore {
    const NAME: &'static str = "tokio";
    const BYTES: usize = size_of::<::tokio::sync::Semaphore>();
    type Permit<'a> = Result<::tokio::sync::SemaphorePermit<'a>, ::tokio::sync::AcquireError>;

    fn new(permits: usize) -> Self {
        TokioSemaphore(::tokio::sync::Semaphore::new(permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Permit<'_>> + Send {
        self.0.acquire()
    }

    #[inline]
    fn try_acquire(&self) -> Option<Self::Permit<'_>> {
        self.0.try_acquire().ok().map(Ok)
    }
}
