//! mea's mutex: fair, over a semaphore.

use crate::peer::{AsyncMutex, AsyncSemaphore};
use std::future::Future;

/// `::mea::mutex::Mutex`.
pub(crate) struct Mea(::mea::mutex::Mutex<u64>);

impl AsyncMutex for Mea {
    const NAME: &'static str = "mea";
    const LOCK_BYTES: usize = size_of::<::mea::mutex::Mutex<()>>();
    type Guard<'a> = ::mea::mutex::MutexGuard<'a, u64>;

    fn new() -> Self {
        Mea(::mea::mutex::Mutex::new(0))
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

/// `::mea::semaphore::Semaphore`.
pub(crate) struct MeaSemaphore(::mea::semaphore::Semaphore);

impl AsyncSemaphore for MeaSemaphore {
    const NAME: &'static str = "mea";
    const BYTES: usize = size_of::<::mea::semaphore::Semaphore>();
    type Permit<'a> = ::mea::semaphore::SemaphorePermit<'a>;

    fn new(permits: usize) -> Self {
        MeaSemaphore(::mea::semaphore::Semaphore::new(permits))
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
