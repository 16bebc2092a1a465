//! maitake-sync's mutex: fair, over a wait queue.

use crate::peer::AsyncMutex;
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
