//! saa's semaphore: 63 permits at most.

use super::Then;
use crate::peer::AsyncSemaphore;
use saa::Semaphore;
use std::future::Future;

/// `saa::Semaphore`.
pub(crate) struct SaaSemaphore(Semaphore);

/// Gives one permit back when dropped.
pub(crate) struct Permit<'a>(&'a Semaphore);

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

impl AsyncSemaphore for SaaSemaphore {
    const NAME: &'static str = "saa";
    const BYTES: usize = size_of::<Semaphore>();
    type Permit<'a> = Permit<'a>;

    fn new(permits: usize) -> Self {
        assert!(permits <= Semaphore::MAX_PERMITS, "more would be clamped");
        SaaSemaphore(Semaphore::with_permits(permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Permit<'_>> + Send {
        Then { future: self.0.acquire_async(), guard: |()| Permit(&self.0) }
    }

    #[inline]
    fn try_acquire(&self) -> Option<Permit<'_>> {
        self.0.try_acquire().then(|| Permit(&self.0))
    }

    fn future_bytes(&self) -> usize {
        size_of_val(&self.0.acquire_async())
    }
}
