//! tokio's mutex: fair, over a batch semaphore.

use crate::peer::AsyncMutex;
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
