//! Acquiring with permits that keep the semaphore alive through an `Arc`.

use super::permit::{Permit, PermitHolder, Release, sealed};
use super::{Fifo, Op, Pinned, Semaphore, SemaphorePolicy, Single, Wait, WaiterSlot, checked};
use crate::error::{Closed, TryAcquireError};
use alloc::sync::Arc;
use core::fmt;
use core::task::{Context, Poll};

/// The future of [`Semaphore::acquire_owned`] and [`Semaphore::acquire_many_owned`].
pub type AcquireOwned<P = Fifo> = Wait<Single<AcquireOwnedOp<P>>>;

/// Permits that keep their [`Semaphore`] alive; they go back to it on drop.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// let semaphore = Arc::new(tasuki::Semaphore::new(1));
/// let permit: tasuki::OwnedSemaphorePermit = semaphore.clone().try_acquire_owned().unwrap();
/// let task = std::thread::spawn(move || drop(permit));
/// # task.join().unwrap();
/// assert_eq!(semaphore.available_permits(), 1);
/// ```
pub type OwnedSemaphorePermit<P = Fifo> = Permit<Arc<Semaphore<P>>>;

impl<P: SemaphorePolicy> Semaphore<P> {
    /// As [`acquire`](Self::acquire), with a permit that keeps the semaphore alive and can be stored anywhere.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire): a dropped future loses its place in the queue, never the permits.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the semaphore is closed, or is closed during the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(tasuki::Semaphore::new(1));
    /// let permit = semaphore.clone().acquire_owned().block().unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// ```
    pub fn acquire_owned(self: Arc<Self>) -> AcquireOwned<P> {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Self::acquire_many), with a permit that keeps the semaphore alive.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire_many`](Self::acquire_many): a dropped future loses its place in the queue, never the permits.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the semaphore is closed, or is closed during the wait.
    ///
    /// # Panics
    ///
    /// At the call, if `permits` is more than [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(tasuki::Semaphore::new(3));
    /// let permit = semaphore.clone().acquire_many_owned(2).block().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(permit);
    /// ```
    #[track_caller]
    pub fn acquire_many_owned(self: Arc<Self>, permits: usize) -> AcquireOwned<P> {
        Wait::new(AcquireOwnedOp { semaphore: Some(self), permits: checked(permits) })
    }

    /// As [`try_acquire`](Self::try_acquire), with a permit that keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(tasuki::Semaphore::new(1));
    /// let permit = semaphore.clone().try_acquire_owned().unwrap();
    /// assert!(semaphore.try_acquire_owned().is_err());
    /// # drop(permit);
    /// ```
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit<P>, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// As [`try_acquire_many`](Self::try_acquire_many), with a permit that keeps the semaphore alive.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let semaphore = Arc::new(tasuki::Semaphore::new(3));
    /// assert_eq!(semaphore.try_acquire_many_owned(2).unwrap().num_permits(), 2);
    /// ```
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        permits: usize,
    ) -> Result<OwnedSemaphorePermit<P>, TryAcquireError> {
        self.raw.try_take(permits)?;
        Ok(Permit::new(self, permits))
    }
}

/// The operation of [`Semaphore::acquire_owned`].
pub struct AcquireOwnedOp<P: SemaphorePolicy> {
    /// Gone once the permit has it.
    semaphore: Option<Arc<Semaphore<P>>>,
    permits: usize,
}

impl<P: SemaphorePolicy> AcquireOwnedOp<P> {
    fn semaphore(&self) -> &Semaphore<P> {
        self.semaphore.as_deref().expect("the semaphore is here until the permit takes it")
    }

    fn permit(&mut self, (): ()) -> OwnedSemaphorePermit<P> {
        let semaphore = self.semaphore.take().expect("the semaphore is here until the permit takes it");
        Permit::new(semaphore, self.permits)
    }
}

impl<P: SemaphorePolicy> fmt::Debug for AcquireOwnedOp<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireOwnedOp").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl<P: SemaphorePolicy> Op for AcquireOwnedOp<P> {
    type Output = Result<OwnedSemaphorePermit<P>, Closed>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::AcquireOwned";

    fn try_now(&mut self) -> Option<Self::Output> {
        let permits = self.permits;
        self.semaphore().raw.take_fast(permits).then(|| Ok(self.permit(())))
    }

    fn is_ready(&self) -> bool {
        self.semaphore().raw.is_ready(self.permits)
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let permits = self.permits;
        self.semaphore().raw.enqueue_or_take(permits, slot, cx).map_ok(|taken| self.permit(taken))
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.semaphore().raw.poll_queued(waiter, cx).map_ok(|taken| self.permit(taken))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        let ended = self.semaphore().raw.cancel(waiter)?;
        Some(ended.map(|taken| self.permit(taken)))
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

impl<P: SemaphorePolicy> sealed::Sealed for Arc<Semaphore<P>> {}

impl<P: SemaphorePolicy> PermitHolder for Arc<Semaphore<P>> {
    fn release(&self, permits: usize, _right: Release) {
        self.raw.release(permits);
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}
