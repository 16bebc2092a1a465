//! The mutex through an `Arc`: locks and guards that keep it alive and borrow nothing.

use super::guards::MappedMutex;
use super::lock::{self, LockOp};
use super::{Fifo, Mutex, Policy};
use crate::guard::Guard;
use crate::wait::{Single, Wait};
use alloc::sync::Arc;

/// The operation of [`Mutex::lock_owned`].
pub type LockOwnedOp<T, P> = LockOp<Arc<Mutex<T, P>>>;

/// The future of [`Mutex::lock_owned`].
pub type LockOwned<T, P = Fifo> = Wait<Single<LockOwnedOp<T, P>>>;

/// The guard of [`Mutex::lock_owned`]: it keeps the mutex alive.
pub type OwnedMutexGuard<T, P = Fifo> = Guard<Arc<Mutex<T, P>>>;

/// An owned guard over a part of the value, made by [`OwnedMutexGuard::map`](Guard::map).
pub type OwnedMappedMutexGuard<T, U, P = Fifo> = Guard<MappedMutex<Arc<Mutex<T, P>>, U>>;

impl<T: ?Sized, P: Policy> Mutex<T, P> {
    /// As [`lock`](Self::lock), with a guard that keeps the mutex alive and can be stored anywhere.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock): a dropped future loses its place in the queue, never the lock. It holds a reference to the mutex until then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let mutex = Arc::new(tasuki::Mutex::new(1));
    /// let guard = mutex.clone().lock_owned().await;
    /// assert_eq!(*guard, 1);
    /// # }
    /// ```
    #[doc(alias = "lock_arc")]
    #[track_caller]
    pub fn lock_owned(self: Arc<Self>) -> LockOwned<T, P> {
        LockOp::wait(self)
    }

    /// As [`try_lock`](Self::try_lock), with a guard that keeps the mutex alive.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let mutex = Arc::new(tasuki::Mutex::new(1));
    /// let guard = mutex.clone().try_lock_owned().unwrap();
    /// assert!(mutex.try_lock_owned().is_none());
    /// # drop(guard);
    /// ```
    #[doc(alias = "try_lock_arc")]
    #[track_caller]
    #[must_use = "the lock is given back at once if the guard is not kept"]
    pub fn try_lock_owned(self: Arc<Self>) -> Option<OwnedMutexGuard<T, P>> {
        lock::try_lock(self)
    }
}
