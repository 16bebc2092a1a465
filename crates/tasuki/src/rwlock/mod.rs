//! The reader-writer lock: many readers or one writer, in the order in which they came.
//!
//! This file is the surface, with the contract on the page of [`RwLock`]. `raw.rs` has the word and its transitions, `segments.rs` the order of the queue; `admission.rs` decides which waiters enter;
//! `access.rs` has the operation, `guards.rs` the guards, `upgrade.rs` how one becomes another, `owned.rs` the functions that keep an `Arc`.

mod access;
mod admission;
mod guards;
#[cfg(feature = "alloc")]
mod owned;
mod raw;
mod segments;
mod upgrade;

pub use access::AccessOp;
pub use guards::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
#[cfg(feature = "alloc")]
pub use guards::{
    OwnedMappedRwLockReadGuard, OwnedMappedRwLockWriteGuard, OwnedRwLockReadGuard,
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard,
};
#[cfg(feature = "alloc")]
pub use owned::{ReadOwned, UpgradableReadOwned, WriteOwned};
pub use upgrade::{Upgrade, UpgradeOp};

use crate::guard::Guard;
use crate::probe::Site;
use crate::shim::const_fn;
use crate::wait::{Single, Wait};
use access::{ReadAccess, UpgradableAccess, WriteAccess};
use core::cell::UnsafeCell;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use guards::Reading;
use raw::RawRwLock;

/// A lock that many may read, or one may write, that suspends tasks instead of blocking threads.
///
/// A third kind of access lies between: one *upgradable* reader at a time, beside any number of plain ones. It can become the
/// writer without letting another writer in between.
///
/// A `RwLock<()>` is two words (three with 32 bits; more where [`inspect`](crate::inspect) is active); waiting allocates nothing; `RwLock::new` is `const`.
///
/// # Examples
///
/// ```
/// use tasuki::RwLock;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// static CONFIG: RwLock<u32> = RwLock::new(1);
///
/// let reader = CONFIG.try_read().unwrap();
/// let another = CONFIG.read().await;
/// assert_eq!(*reader + *another, 2);
/// assert!(CONFIG.try_write().is_none());
/// # }
/// ```
///
/// # Order
///
/// First come, first served between readers and writers, so neither side starves. Readers that wait next to
/// each other enter together. A reader may pass a queued *upgradable* reader, never a queued writer and
/// never a pending upgrade.
///
/// # Cancel
///
/// Dropping a future gives up its place, and the waiters that it stopped enter: a cancelled writer frees the
/// readers behind it. What had been granted is passed on. Dropping a pending [`upgrade`](RwLockUpgradableReadGuard) releases
/// the guard that it consumed; a limit that ends it gives that guard back ([`GivenBack`](crate::GivenBack)).
///
/// # Panic
///
/// A panic while a guard is held releases it; there is no poisoning.
///
/// # Memory ordering
///
/// What a writer did happens before what every later reader and writer does; what a reader did happens
/// before what every later writer does.
///
/// # Re-entrancy
///
/// A task that reads twice waits for ever if a writer queued in between: the second read is behind the writer,
/// the writer behind the first read. Wakers may call anything on the lock.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// `u32::MAX` readers at a time (2^27 - 1 with 32 bits), with room kept for the upgradable one, and about sixteen million (2^24) queued writers. One more panics, and changes nothing. A release looks at the
/// waiters that it lets in and at one more, however many wait.
///
/// # Futurelock
///
/// As for [`Mutex`](crate::Mutex): a future that was polled and is then neither polled nor dropped can be granted the
/// lock, and keeps it.
///
/// # When to use something else
///
/// When reads are as short as the lock operation itself, a [`Mutex`](crate::Mutex) is faster: a reader, too, has to write the word of the lock.
#[doc(alias = "AsyncRWMutex")]
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    value: UnsafeCell<T>,
}

// SAFETY: the lock owns the value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: readers share the value, writers take it in turns.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// As std's; see `Mutex`.
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

/// The future of [`RwLock::read`].
pub type Read<'a, T> = Wait<Single<AccessOp<&'a RwLock<T>, ReadAccess>>>;
/// The future of [`RwLock::write`].
pub type Write<'a, T> = Wait<Single<AccessOp<&'a RwLock<T>, WriteAccess>>>;
/// The future of [`RwLock::upgradable_read`].
pub type UpgradableRead<'a, T> = Wait<Single<AccessOp<&'a RwLock<T>, UpgradableAccess>>>;

impl<T> RwLock<T> {
    const_fn! {
        /// Creates a free lock.
        ///
        /// # Examples
        ///
        /// ```
        /// static TABLE: tasuki::RwLock<[u8; 4]> = tasuki::RwLock::new([0; 4]);
        /// assert_eq!(TABLE.try_read().unwrap().len(), 4);
        /// ```
        #[track_caller]
        pub const fn new(value: T) -> Self {
            Self { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
        }
    }

    const_fn! {
        /// Gives the lock a name, which the reports of [`inspect`](crate::inspect) show. Where `inspect` is not active the name is not kept.
        ///
        /// # Examples
        ///
        /// ```
        /// static ACCOUNTS: tasuki::RwLock<u32> = tasuki::RwLock::new(0).named("accounts");
        /// assert!(ACCOUNTS.try_read().is_some());
        /// ```
        #[must_use]
        pub const fn named(mut self, name: &'static str) -> Self {
            self.raw.probe.rename(name);
            self
        }
    }

    /// Returns the value. Owning the lock proves that it is not held.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki::RwLock::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading; waits while a writer holds the lock or is queued ahead. Other readers may hold it, too.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never the lock.
    ///
    /// # Panics
    ///
    /// If the number of readers has reached its limit ([Limits](Self#limits)); nothing has changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = tasuki::RwLock::new(1);
    /// assert_eq!(*lock.read().await, 1);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn read(&self) -> Read<'_, T> {
        AccessOp::wait(self)
    }

    /// Locks for writing; waits until no other task holds the lock.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, and frees the readers behind it.
    ///
    /// # Panics
    ///
    /// In a poll, if about sixteen million writers are queued ([Limits](Self#limits)); nothing has changed then. Readers are not affected.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let lock = tasuki::RwLock::new(1);
    /// *lock.write().await += 1;
    /// assert_eq!(lock.into_inner(), 2);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn write(&self) -> Write<'_, T> {
        AccessOp::wait(self)
    }

    /// Locks for reading, with the right to become the writer; waits while a writer or another upgradable reader
    /// holds the lock or is queued ahead. Plain readers may hold it, too.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never the lock.
    ///
    /// # Panics
    ///
    /// If the number of readers has reached its limit ([Limits](Self#limits)); nothing has changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{RwLock, RwLockUpgradableReadGuard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let cache = RwLock::new(None);
    /// {
    ///     let seen = cache.upgradable_read().await;
    ///     if seen.is_none() {
    ///         *RwLockUpgradableReadGuard::upgrade(seen).await = Some(42);
    ///     }
    /// }
    /// assert_eq!(cache.into_inner(), Some(42));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn upgradable_read(&self) -> UpgradableRead<'_, T> {
        AccessOp::wait(self)
    }

    /// Tries to lock for reading, without waiting.
    ///
    /// # Panics
    ///
    /// If the number of readers has reached its limit ([Limits](Self#limits)); nothing has changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = tasuki::RwLock::new(1);
    /// let reader = lock.try_read().unwrap();
    /// assert!(lock.try_read().is_some());
    /// # drop(reader);
    /// ```
    #[inline]
    #[track_caller]
    #[must_use = "the lock is given back at once if the guard is not kept"]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        AccessOp::<_, ReadAccess>::try_enter(self)
    }

    /// Tries to lock for writing, without waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = tasuki::RwLock::new(1);
    /// *lock.try_write().unwrap() = 2;
    /// # assert_eq!(lock.into_inner(), 2);
    /// ```
    #[inline]
    #[track_caller]
    #[must_use = "the lock is given back at once if the guard is not kept"]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        AccessOp::<_, WriteAccess>::try_enter(self)
    }

    /// Tries to lock for an upgradable read, without waiting.
    ///
    /// # Panics
    ///
    /// If the number of readers has reached its limit ([Limits](Self#limits)); nothing has changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// let lock = tasuki::RwLock::new(1);
    /// let reader = lock.try_upgradable_read().unwrap();
    /// assert!(lock.try_upgradable_read().is_none());
    /// # drop(reader);
    /// ```
    #[inline]
    #[track_caller]
    #[must_use = "the lock is given back at once if the guard is not kept"]
    pub fn try_upgradable_read(&self) -> Option<RwLockUpgradableReadGuard<'_, T>> {
        AccessOp::<_, UpgradableAccess>::try_enter(self)
    }

    /// Returns the value, without locking: the exclusive borrow proves that the lock is not held.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut lock = tasuki::RwLock::new(1);
    /// *lock.get_mut() = 2;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    /// Shows the value if it can be read at once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.raw.try_enter_to_show(Site::here());
        match held.map(|held| Guard::new(Reading::new(self, held))) {
            Some(value) => f.debug_struct("RwLock").field("value", &&*value).finish(),
            None => f.debug_struct("RwLock").field("value", &self.raw.probe.shown()).finish(),
        }
    }
}
