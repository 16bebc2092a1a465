//! The guards of the reader-writer lock: how it can be held, and turned from one way into another.
//!
//! ```text
//!              downgrade                        downgrade
//!   write -----------------> read <---------------------- upgradable
//!     |  ^                                                  ^    |
//!     |  +--------------------- upgrade --------------------|----+
//!     +------------------ downgrade_to_upgradable ----------+
//! ```
//!
//! Each is the one guard (`guard.rs`) over a holder of this file. A holder has the lock, borrowed or counted; a guard over a part has only what it needs to release.

use super::admission::Kind;
use super::raw::RawRwLock;
use super::{Access, RwLock, RwLockRef};
use crate::error::GivenBack;
use crate::guard::{Exclusive, Guard, Holder, Narrow, sealed};
use crate::primitive_ref::RawRef;
use crate::probe::{Held, LockMode, Target};
use crate::queue::Pinned;
use crate::wait::{Op, Single, Wait, WaiterSlot};
#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::fmt;
use core::task::{Context, Poll};

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

/// The guard of [`RwLock::read`].
pub type RwLockReadGuard<'a, T> = Guard<Reading<&'a RawRwLock, T>>;
/// The guard of [`RwLock::upgradable_read`].
pub type RwLockUpgradableReadGuard<'a, T> = Guard<UpgradablyReading<&'a RwLock<T>>>;
/// The guard of [`RwLock::write`].
pub type RwLockWriteGuard<'a, T> = Guard<Writing<&'a RwLock<T>>>;
/// The guard of [`RwLock::read_owned`].
#[cfg(feature = "alloc")]
pub type OwnedRwLockReadGuard<T> = Guard<Reading<Arc<RwLock<T>>, T>>;
/// The guard of [`RwLock::upgradable_read_owned`].
#[cfg(feature = "alloc")]
pub type OwnedRwLockUpgradableReadGuard<T> = Guard<UpgradablyReading<Arc<RwLock<T>>>>;
/// The guard of [`RwLock::write_owned`].
#[cfg(feature = "alloc")]
pub type OwnedRwLockWriteGuard<T> = Guard<Writing<Arc<RwLock<T>>>>;
/// A read guard over a part of the value; the same type as [`RwLockReadGuard`], which does not know of the whole either.
pub type MappedRwLockReadGuard<'a, U> = Guard<Reading<&'a RawRwLock, U>>;
/// A write guard over a part of the value. It cannot be downgraded: the part may be there only for the writer.
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

/// To enter as a reader.
#[doc(hidden)]
#[derive(Debug)]
pub struct ReadAccess;

/// To enter as the upgradable reader.
#[doc(hidden)]
#[derive(Debug)]
pub struct UpgradableAccess;

/// To enter as the writer.
#[doc(hidden)]
#[derive(Debug)]
pub struct WriteAccess;

impl Access for ReadAccess {
    type Holder<L: RwLockRef> = Reading<L::Kept, L::Value>;

    const NAME: &'static str = "tasuki::future::Read";
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    const KIND: Kind = Kind::Read;

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    #[inline(always)]
    fn entered<L: RwLockRef>(lock: L, held: Held) -> Self::Holder<L> {
        Reading { part: lock.value(), lock: lock.keep(), held }
    }
}

impl Access for UpgradableAccess {
    type Holder<L: RwLockRef> = UpgradablyReading<L>;

    const NAME: &'static str = "tasuki::future::UpgradableRead";
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    const KIND: Kind = Kind::Upgradable;

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    #[inline(always)]
    fn entered<L: RwLockRef>(lock: L, held: Held) -> Self::Holder<L> {
        UpgradablyReading(lock, held)
    }
}

impl Access for WriteAccess {
    type Holder<L: RwLockRef> = Writing<L>;

    const NAME: &'static str = "tasuki::future::Write";
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    const KIND: Kind = Kind::Write;

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    #[inline(always)]
    fn entered<L: RwLockRef>(lock: L, held: Held) -> Self::Holder<L> {
        Writing(lock, held)
    }
}

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
    /// Keeps the lock and shows only a part of the value.
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

    /// Keeps the lock and shows only a part of the value, if there is one; else gives the guard back.
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

impl<L: RwLockRef> Guard<Writing<L>> {
    /// Goes on as a reader; no other writer comes in between, and waiting readers enter.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let mut writer = lock.try_write().unwrap();
    /// *writer = 2;
    /// let reader = RwLockWriteGuard::downgrade(writer);
    /// assert_eq!(*reader + *lock.try_read().unwrap(), 4);
    /// ```
    pub fn downgrade(guard: Self) -> Guard<Reading<L::Kept, L::Value>> {
        turn(guard, Kind::Write, |holder| (holder.0, holder.1), ReadAccess)
    }

    /// Goes on as the upgradable reader; no other writer comes in between.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let reader = RwLockWriteGuard::downgrade_to_upgradable(lock.try_write().unwrap());
    /// assert!(lock.try_read().is_some() && lock.try_upgradable_read().is_none());
    /// # drop(reader);
    /// ```
    pub fn downgrade_to_upgradable(guard: Self) -> Guard<UpgradablyReading<L>> {
        turn(guard, Kind::Write, |holder| (holder.0, holder.1), UpgradableAccess)
    }
}

impl<L: RwLockRef> Guard<UpgradablyReading<L>> {
    /// Waits until the other readers have left, and goes on as the writer. No other writer comes in between;
    /// new readers wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the guard that it consumed. A limit that ends it gives the guard back
    /// ([`GivenBack`]).
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{RwLock, RwLockUpgradableReadGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let reader = lock.try_upgradable_read().unwrap();
    /// *RwLockUpgradableReadGuard::upgrade(reader).block() = 2;
    /// assert_eq!(lock.into_inner(), 2);
    /// ```
    #[track_caller]
    pub fn upgrade(guard: Self) -> Upgrade<L> {
        Wait::new(UpgradeOp { guard: Some(guard) })
    }

    /// Goes on as the writer if there is no other reader; else gives the guard back.
    ///
    /// # Errors
    ///
    /// The guard itself, if there are other readers.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{RwLock, RwLockUpgradableReadGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let upgradable = lock.try_upgradable_read().unwrap();
    /// let reader = lock.try_read().unwrap();
    /// let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).unwrap_err();
    /// drop(reader);
    /// *RwLockUpgradableReadGuard::try_upgrade(upgradable).unwrap() = 2;
    /// ```
    pub fn try_upgrade(guard: Self) -> Result<Guard<Writing<L>>, Self> {
        if guard.holder().0.raw().try_upgrade() {
            let UpgradablyReading(lock, held) = guard.into_holder();
            lock.raw().probe.change(held, LockMode::Exclusive);
            Ok(Guard::new(Writing(lock, held)))
        } else {
            Err(guard)
        }
    }

    /// Goes on as a plain reader; another upgradable reader may enter.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{RwLock, RwLockUpgradableReadGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let reader = RwLockUpgradableReadGuard::downgrade(lock.try_upgradable_read().unwrap());
    /// assert!(lock.try_upgradable_read().is_some());
    /// # drop(reader);
    /// ```
    pub fn downgrade(guard: Self) -> Guard<Reading<L::Kept, L::Value>> {
        turn(guard, Kind::Upgradable, |holder| (holder.0, holder.1), ReadAccess)
    }
}

/// Turns a guard into a weaker one. A waker that panics leaves the lock held in the weaker way, by the new guard, which
/// unwinding then drops.
fn turn<H: Holder, L: RwLockRef, A: Access>(
    guard: Guard<H>,
    held_as: Kind,
    lock: impl FnOnce(H) -> (L, Held),
    _weaker: A,
) -> Guard<A::Holder<L>> {
    let (lock, held) = lock(guard.into_holder());
    let raw: *const RawRwLock = lock.raw();
    lock.raw().probe.change(held, A::KIND.mode());
    let weak = Guard::new(A::entered(lock, held));
    // SAFETY: the weaker guard holds the same handle, which keeps the lock where it is.
    unsafe { &*raw }.downgrade(held_as, A::KIND);
    weak
}

/// The future of [`RwLockUpgradableReadGuard::upgrade`](Guard::upgrade).
pub type Upgrade<L> = Wait<Single<UpgradeOp<L>>>;

/// The operation of an upgrade. It owns the guard until the writer's guard takes its place.
pub struct UpgradeOp<L: RwLockRef> {
    guard: Option<Guard<UpgradablyReading<L>>>,
}

impl<L: RwLockRef> UpgradeOp<L> {
    fn raw(&self) -> &RawRwLock {
        self.guard.as_ref().expect("the guard is here until the writer's takes its place").holder().0.raw()
    }

    fn upgraded(&mut self) -> Guard<Writing<L>> {
        let guard = self.guard.take().expect("the guard is here until the writer's takes its place");
        let UpgradablyReading(lock, held) = guard.into_holder();
        lock.raw().probe.change(held, LockMode::Exclusive);
        Guard::new(Writing(lock, held))
    }
}

impl<L: RwLockRef> fmt::Debug for UpgradeOp<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpgradeOp")
    }
}

impl<L: RwLockRef> Op for UpgradeOp<L> {
    type Output = Guard<Writing<L>>;
    type Unfinished<E> = GivenBack<E, Guard<UpgradablyReading<L>>>;
    const NAME: &'static str = "tasuki::future::Upgrade";

    fn try_now(&mut self) -> Option<Self::Output> {
        self.raw().try_upgrade().then(|| self.upgraded())
    }

    fn is_ready(&self) -> bool {
        self.raw().is_ready(Kind::Upgrade)
    }

    fn target(&self) -> Target<'_> {
        let held = self.guard.as_ref().map(|guard| guard.holder().1);
        held.map_or(Target::SIGNAL, |held| Target::upgrade(&self.raw().probe, held))
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw().enqueue_or_upgrade(slot, cx).map(|()| self.upgraded())
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw().poll_queued(waiter, cx).map(|()| self.upgraded())
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.raw().cancel(waiter).then(|| self.upgraded())
    }

    fn unfinished<E>(&mut self, limit: E) -> Self::Unfinished<E> {
        let value = self.guard.take().expect("the guard is here until the writer's takes its place");
        GivenBack { limit, value }
    }
}
