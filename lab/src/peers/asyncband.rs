//! asyncband's mutex: fair.

use crate::peer::AsyncMutex;
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
