//! mea's mutex: fair, over a semaphore.

use crate::peer::AsyncMutex;
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
