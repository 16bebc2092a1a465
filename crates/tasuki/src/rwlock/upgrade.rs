//! From one way to hold a reader-writer lock to another, without letting a writer in between.
//!
//! ```text
//!              downgrade                        downgrade
//!   write -----------------> read <---------------------- upgradable
//!     |  ^                                                  ^    |
//!     |  +--------------------- upgrade --------------------|----+
//!     +------------------ downgrade_to_upgradable ----------+
//! ```

use super::access::{Access, ReadAccess, RwLockRef, UpgradableAccess};
use super::admission::Kind;
use super::guards::{Reading, UpgradablyReading, Writing};
use super::raw::RawRwLock;
use crate::error::GivenBack;
use crate::guard::{Guard, Holder};
use crate::probe::{Held, LockMode, Target};
use crate::queue::Pinned;
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::task::{Context, Poll};

impl<L: RwLockRef> Guard<Writing<L>> {
    /// Turns the write access into a read access. No other writer gets the lock in between. The waiting readers that have no queued writer before them are let in.
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

    /// Turns the write access into an upgradable read. No other writer gets the lock in between.
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
    /// Waits until the other readers have released the lock, and returns the guard of a writer. No other writer is granted the lock in between;
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
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let lock = RwLock::new(1);
    /// let reader = lock.try_upgradable_read().unwrap();
    /// *RwLockUpgradableReadGuard::upgrade(reader).await = 2;
    /// assert_eq!(lock.into_inner(), 2);
    /// # }
    /// ```
    #[track_caller]
    pub fn upgrade(guard: Self) -> Upgrade<L> {
        Wait::new(UpgradeOp { guard: Some(guard) })
    }

    /// Tries to upgrade, without waiting: fails, and returns the guard, if there are other readers.
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

    /// The guard is with the task that polls, though another may have taken it.
    fn touch(&self) {
        if let Some(guard) = &self.guard {
            guard.holder().touch();
        }
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
        self.touch();
        self.raw().enqueue_or_upgrade(slot, cx).map(|()| self.upgraded())
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.touch();
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
