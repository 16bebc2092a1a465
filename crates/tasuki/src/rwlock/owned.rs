//! The reader-writer lock through an `Arc`: futures and guards that keep it alive and borrow nothing.

use super::access::{AccessOp, ReadAccess, UpgradableAccess, WriteAccess};
use super::{OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock};
use crate::wait::{Single, Wait};
use alloc::sync::Arc;

/// The future of [`RwLock::read_owned`].
pub type ReadOwned<T> = Wait<Single<AccessOp<Arc<RwLock<T>>, ReadAccess>>>;
/// The future of [`RwLock::write_owned`].
pub type WriteOwned<T> = Wait<Single<AccessOp<Arc<RwLock<T>>, WriteAccess>>>;
/// The future of [`RwLock::upgradable_read_owned`].
pub type UpgradableReadOwned<T> = Wait<Single<AccessOp<Arc<RwLock<T>>, UpgradableAccess>>>;

impl<T: ?Sized> RwLock<T> {
    /// As [`read`](Self::read), with a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read): a dropped future loses its place in the queue, never the lock.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read), if there are too many readers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = std::sync::Arc::new(tasuki::RwLock::new(1));
    /// assert_eq!(*lock.read_owned().await, 1);
    /// # }
    /// ```
    #[doc(alias = "read_arc")]
    #[track_caller]
    pub fn read_owned(self: Arc<Self>) -> ReadOwned<T> {
        AccessOp::wait(self)
    }

    /// As [`write`](Self::write), with a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write): a dropped future loses its place in the queue, never the lock.
    ///
    /// # Panics
    ///
    /// As [`write`](Self::write), if there are too many queued writers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = std::sync::Arc::new(tasuki::RwLock::new(1));
    /// *lock.clone().write_owned().await = 2;
    /// assert_eq!(*lock.try_read().unwrap(), 2);
    /// # }
    /// ```
    #[doc(alias = "write_arc")]
    #[track_caller]
    pub fn write_owned(self: Arc<Self>) -> WriteOwned<T> {
        AccessOp::wait(self)
    }

    /// As [`upgradable_read`](Self::upgradable_read), with a guard that keeps the lock alive.
    ///
    /// # Cancel safety
    ///
    /// As [`upgradable_read`](Self::upgradable_read): a dropped future loses its place in the queue, never the lock.
    ///
    /// # Panics
    ///
    /// As [`upgradable_read`](Self::upgradable_read), if there are too many readers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = std::sync::Arc::new(tasuki::RwLock::new(1));
    /// assert_eq!(*lock.upgradable_read_owned().await, 1);
    /// # }
    /// ```
    #[doc(alias = "upgradable_read_arc")]
    #[track_caller]
    pub fn upgradable_read_owned(self: Arc<Self>) -> UpgradableReadOwned<T> {
        AccessOp::wait(self)
    }

    /// As [`try_read`](Self::try_read), with a guard that keeps the lock alive.
    ///
    /// # Panics
    ///
    /// As [`try_read`](Self::try_read), if there are too many readers.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = std::sync::Arc::new(tasuki::RwLock::new(1));
    /// assert!(lock.try_read_owned().is_some());
    /// ```
    #[track_caller]
    #[must_use = "the lock is given back at once if the guard is not kept"]
    pub fn try_read_owned(self: Arc<Self>) -> Option<OwnedRwLockReadGuard<T>> {
        AccessOp::<_, ReadAccess>::try_enter(self)
    }

    /// As [`try_write`](Self::try_write), with a guard that keeps the lock alive.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = std::sync::Arc::new(tasuki::RwLock::new(1));
    /// assert!(lock.try_write_owned().is_some());
    /// ```
    #[track_caller]
    #[must_use = "the lock is given back at once if the guard is not kept"]
    pub fn try_write_owned(self: Arc<Self>) -> Option<OwnedRwLockWriteGuard<T>> {
        AccessOp::<_, WriteAccess>::try_enter(self)
    }

    /// As [`try_upgradable_read`](Self::try_upgradable_read), with a guard that keeps the lock alive.
    ///
    /// # Panics
    ///
    /// As [`try_upgradable_read`](Self::try_upgradable_read), if there are too many readers.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = std::sync::Arc::new(tasuki::RwLock::new(1));
    /// assert!(lock.try_upgradable_read_owned().is_some());
    /// ```
    #[track_caller]
    #[must_use = "the lock is given back at once if the guard is not kept"]
    pub fn try_upgradable_read_owned(self: Arc<Self>) -> Option<OwnedRwLockUpgradableReadGuard<T>> {
        AccessOp::<_, UpgradableAccess>::try_enter(self)
    }
}
