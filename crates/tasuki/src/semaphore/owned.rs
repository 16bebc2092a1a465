//! Acquiring with permits that keep the semaphore alive through an `Arc`.

use super::{AcquireOp, Fifo, Permit, Semaphore, SemaphorePolicy, Single, Wait, checked};
use crate::error::TryAcquireError;
use crate::probe::{Site, WaitNote};
use alloc::sync::Arc;

/// The operation of [`Semaphore::acquire_owned`].
pub type AcquireOwnedOp<P> = AcquireOp<Arc<Semaphore<P>>>;

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
    /// [`Closed`](crate::Closed) if the semaphore is closed, or is closed during the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let semaphore = Arc::new(tasuki::Semaphore::new(1));
    /// let permit = semaphore.clone().acquire_owned().await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// # }
    /// ```
    #[doc(alias = "acquire_arc")]
    #[track_caller]
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
    /// [`Closed`](crate::Closed) if the semaphore is closed, or is closed during the wait.
    ///
    /// # Panics
    ///
    /// At the call, if `permits` is more than [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let semaphore = Arc::new(tasuki::Semaphore::new(3));
    /// let permit = semaphore.clone().acquire_many_owned(2).await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # drop(permit);
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire_many_owned(self: Arc<Self>, permits: usize) -> AcquireOwned<P> {
        AcquireOp::wait(self, checked(permits))
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
    #[doc(alias = "try_acquire_arc")]
    #[track_caller]
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
    #[track_caller]
    pub fn try_acquire_many_owned(
        self: Arc<Self>,
        permits: usize,
    ) -> Result<OwnedSemaphorePermit<P>, TryAcquireError> {
        self.raw.try_take(permits)?;
        Ok(Permit::new(self, permits, WaitNote::NONE, Site::here()))
    }
}
