//! The mutex of futures-util: unfair.

use crate::peer::AsyncMutex;
use std::future::Future;

/// `::futures_util::lock::Mutex`.
pub(crate) struct Futures(::futures_util::lock::Mutex<u64>);

impl AsyncMutex for Futures {
    const NAME: &'static str = "futures";
    const LOCK_BYTES: usize = size_of::<::futures_util::lock::Mutex<()>>();
    type Guard<'a> = ::futures_util::lock::MutexGuard<'a, u64>;

    fn new() -> Self {
        Futures(::futures_util::lock::Mutex::new(0))
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
