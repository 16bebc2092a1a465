//! The guards of the reader-writer lock: how it can be held. `upgrade.rs` turns one into another.
//!
//! Each is the one guard (`guard.rs`) over a holder of this file. The holder of a writer or of an upgradable reader has the lock, borrowed or counted; that of a reader, or of a part, has the value or the part by a pointer, and of
//! the lock only what it needs to release.

use super::RwLock;
use super::access::RwLockRef;
use super::admission::Kind;
use super::raw::RawRwLock;
use crate::guard::{Exclusive, Guard, Holder, Narrow, sealed};
use crate::primitive_ref::RawRef;
use crate::probe::Held;
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::fmt;

/// Holds the lock for reading, and shows the value or a part of it.
///
/// The value is a pointer of its own, and not found through the lock, so that the guard of a borrowed lock is covariant in the value: what
/// can only be read may stand for something that is borrowed for less long. (An `Arc` of the lock is invariant in it all the same.)
#[doc(hidden)]
pub struct Reading<K, U: ?Sized> {
    lock: K,
    held: Held,
    part: *const U,
}

impl<K, U: ?Sized> Reading<K, U> {
    /// The lock has been entered by a reader.
    #[inline(always)]
    pub(super) fn new<L: RwLockRef<Kept = K, Value = U>>(lock: L, held: Held) -> Self {
        Self { part: lock.value(), lock: lock.keep(), held }
    }
}

/// Holds the lock for reading, with the right to become the writer.
#[doc(hidden)]
#[derive(Debug)]
pub struct UpgradablyReading<L>(pub(super) L, pub(super) Held);

/// Holds the lock for writing.
#[doc(hidden)]
#[derive(Debug)]
pub struct Writing<L>(pub(super) L, pub(super) Held);

/// Holds the lock for writing, and shows a part of the value.
#[doc(hidden)]
pub struct MappedWriting<K, U: ?Sized> {
    lock: K,
    held: Held,
    part: *mut U,
}

/// The guard of [`RwLock::read`]: read access until it is dropped. [`map`](Guard::map) narrows it to a part of the value.
pub type RwLockReadGuard<'a, T> = Guard<Reading<&'a RawRwLock, T>>;
/// The guard of [`RwLock::upgradable_read`]: read access, and the right to become the writer: [`upgrade`](Guard::upgrade), [`try_upgrade`](Guard::try_upgrade), [`downgrade`](Guard::downgrade).
pub type RwLockUpgradableReadGuard<'a, T> = Guard<UpgradablyReading<&'a RwLock<T>>>;
/// The guard of [`RwLock::write`]: exclusive access until it is dropped. [`downgrade`](Guard::downgrade) goes on as a reader, [`downgrade_to_upgradable`](Guard::downgrade_to_upgradable) as an upgradable one.
pub type RwLockWriteGuard<'a, T> = Guard<Writing<&'a RwLock<T>>>;
/// The guard of [`RwLock::read_owned`]: a [`RwLockReadGuard`] that keeps the lock alive.
#[cfg(feature = "alloc")]
pub type OwnedRwLockReadGuard<T> = Guard<Reading<Arc<RwLock<T>>, T>>;
/// The guard of [`RwLock::upgradable_read_owned`]: a [`RwLockUpgradableReadGuard`] that keeps the lock alive.
#[cfg(feature = "alloc")]
pub type OwnedRwLockUpgradableReadGuard<T> = Guard<UpgradablyReading<Arc<RwLock<T>>>>;
/// The guard of [`RwLock::write_owned`]: a [`RwLockWriteGuard`] that keeps the lock alive.
#[cfg(feature = "alloc")]
pub type OwnedRwLockWriteGuard<T> = Guard<Writing<Arc<RwLock<T>>>>;
/// A read guard over a part of the value, made by `RwLockReadGuard::map`. It is the same type as [`RwLockReadGuard`] of the part.
pub type MappedRwLockReadGuard<'a, U> = Guard<Reading<&'a RawRwLock, U>>;
/// A write guard over a part of the value, made by `RwLockWriteGuard::map`. It cannot be downgraded: the closure may have returned what only a writer may see.
pub type MappedRwLockWriteGuard<'a, U> = Guard<MappedWriting<&'a RawRwLock, U>>;
/// An owned read guard over a part of the value.
#[cfg(feature = "alloc")]
pub type OwnedMappedRwLockReadGuard<T, U> = Guard<Reading<Arc<RwLock<T>>, U>>;
/// An owned write guard over a part of the value. It cannot be downgraded.
#[cfg(feature = "alloc")]
pub type OwnedMappedRwLockWriteGuard<T, U> = Guard<MappedWriting<Arc<RwLock<T>>, U>>;

impl<L> sealed::Sealed for UpgradablyReading<L> {}
impl<L> sealed::Sealed for Writing<L> {}
impl<K, U: ?Sized> sealed::Sealed for Reading<K, U> {}
impl<K, U: ?Sized> sealed::Sealed for MappedWriting<K, U> {}

// SAFETY: made only by a caller that entered as the upgradable reader; writers are kept out until `release`.
unsafe impl<L: RwLockRef> Holder for UpgradablyReading<L> {
    type Target = L::Value;

    fn value(&self) -> *mut L::Value {
        self.0.value()
    }

    #[inline]
    fn release(&self) -> bool {
        self.0.raw().release(Kind::Upgradable, self.1)
    }

    #[inline(always)]
    fn touch(&self) {
        self.0.raw().probe.touch_held(self.1);
    }
}

// SAFETY: made only by a caller that entered as the writer; all others are kept out until `release`.
unsafe impl<L: RwLockRef> Holder for Writing<L> {
    type Target = L::Value;

    fn value(&self) -> *mut L::Value {
        self.0.value()
    }

    #[inline]
    fn release(&self) -> bool {
        self.0.raw().release(Kind::Write, self.1)
    }

    #[inline(always)]
    fn touch(&self) {
        self.0.raw().probe.touch_held(self.1);
    }
}

// SAFETY: one writer at a time.
unsafe impl<L: RwLockRef> Exclusive for Writing<L> {}

// SAFETY: the pointer is access to the part, as `&U` would be.
unsafe impl<K: Send, U: ?Sized + Sync> Send for Reading<K, U> {}
// SAFETY: as above.
unsafe impl<K: Sync, U: ?Sized + Sync> Sync for Reading<K, U> {}
// SAFETY: the pointer is access to the part, as `&mut U` would be.
unsafe impl<K: Send, U: ?Sized + Send> Send for MappedWriting<K, U> {}
// SAFETY: as above, `&U`.
unsafe impl<K: Sync, U: ?Sized + Sync> Sync for MappedWriting<K, U> {}

// SAFETY: made only by a caller that entered as a reader, or from its guard; writers are kept out until `release`. The part is the value, or was borrowed
// from it.
unsafe impl<K: RawRef<Raw = RawRwLock>, U: ?Sized> Holder for Reading<K, U> {
    type Target = U;

    #[inline]
    fn value(&self) -> *mut U {
        self.part.cast_mut()
    }

    #[inline]
    fn release(&self) -> bool {
        self.lock.raw().release(Kind::Read, self.held)
    }

    #[inline(always)]
    fn touch(&self) {
        self.lock.raw().probe.touch_held(self.held);
    }
}

// SAFETY: made from a write guard, whose access it keeps; the part was borrowed from its value.
unsafe impl<K: RawRef<Raw = RawRwLock>, U: ?Sized> Holder for MappedWriting<K, U> {
    type Target = U;

    fn value(&self) -> *mut U {
        self.part
    }

    fn release(&self) -> bool {
        self.lock.raw().release(Kind::Write, self.held)
    }

    #[inline(always)]
    fn touch(&self) {
        self.lock.raw().probe.touch_held(self.held);
    }
}

// SAFETY: one writer at a time.
unsafe impl<K: RawRef<Raw = RawRwLock>, U: ?Sized> Exclusive for MappedWriting<K, U> {}

// SAFETY: the mapped holder keeps the lock until it is released.
unsafe impl<L: RwLockRef> Narrow for Writing<L> {
    type Narrowed<U: ?Sized> = MappedWriting<L::Kept, U>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U> {
        MappedWriting { held: self.1, lock: self.0.keep(), part }
    }
}

// SAFETY: as above.
unsafe impl<K: RawRef<Raw = RawRwLock>, V: ?Sized> Narrow for MappedWriting<K, V> {
    type Narrowed<U: ?Sized> = MappedWriting<K, U>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U> {
        MappedWriting { held: self.held, lock: self.lock, part }
    }
}

impl<K, U: ?Sized> fmt::Debug for Reading<K, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reading")
    }
}

impl<K, U: ?Sized> fmt::Debug for MappedWriting<K, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MappedWriting")
    }
}

impl<K: RawRef<Raw = RawRwLock>, V: ?Sized> Guard<Reading<K, V>> {
    /// Keeps the lock and gives access to a part of the value only.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{RwLock, RwLockReadGuard};
    ///
    /// let lock = RwLock::new((1, "one"));
    /// let name = RwLockReadGuard::map(lock.try_read().unwrap(), |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// ```
    pub fn map<U: ?Sized>(guard: Self, part: impl FnOnce(&V) -> &U) -> Guard<Reading<K, U>> {
        let part: *const U = part(&guard);
        let Reading { lock, held, .. } = guard.into_holder();
        Guard::new(Reading { lock, held, part })
    }

    /// Keeps the lock and gives access to a part of the value only; returns the guard if `part` returns `None`.
    ///
    /// # Errors
    ///
    /// The guard itself, if the closure returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{RwLock, RwLockReadGuard};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// let guard = lock.try_read().unwrap();
    /// let first = RwLockReadGuard::filter_map(guard, |v| v.first()).unwrap();
    /// assert_eq!(*first, 1);
    /// ```
    pub fn filter_map<U: ?Sized>(
        guard: Self,
        part: impl FnOnce(&V) -> Option<&U>,
    ) -> Result<Guard<Reading<K, U>>, Self> {
        let Some(part) = part(&guard).map(|part| part as *const U) else { return Err(guard) };
        let Reading { lock, held, .. } = guard.into_holder();
        Ok(Guard::new(Reading { lock, held, part }))
    }
}
