//! The operation of `read`, `upgradable_read` and `write`, written once over the kind of access, for a borrowed or counted lock.

use super::RwLock;
use super::admission::Kind;
use super::guards::{Reading, UpgradablyReading, Writing};
use super::raw::RawRwLock;
use crate::guard::{Guard, Holder};
use crate::primitive_ref::{LockRef, Lockable, RefSlot};
use crate::probe::{Held, Site, Target, WaitNote};
use crate::queue::Pinned;
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::marker::PhantomData;
use core::task::{Context, Poll};

impl<T: ?Sized> Lockable for RwLock<T> {
    type Raw = RawRwLock;
    type Value = T;

    #[inline(always)]
    fn raw(&self) -> &RawRwLock {
        &self.raw
    }

    #[inline(always)]
    fn value(&self) -> *mut T {
        self.value.get()
    }
}

/// A reference to a reader-writer lock, borrowed or counted.
#[doc(hidden)]
pub trait RwLockRef: LockRef<Raw = RawRwLock> {}

impl<L: LockRef<Raw = RawRwLock>> RwLockRef for L {}

/// A way to enter the lock.
#[doc(hidden)]
pub trait Access {
    /// What the guard holds then.
    type Holder<L: RwLockRef>: Holder;

    /// Its name in a panic.
    const NAME: &'static str;

    /// Which kind.
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    const KIND: Kind;

    /// The lock has been entered.
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn entered<L: RwLockRef>(lock: L, held: Held) -> Self::Holder<L>;
}

/// The operation of [`RwLock::read`] and the others: `L` is the reference to the lock, `A` how it is entered.
///
/// The reference is named once, and what the guard holds follows from it: an operation that named both would mention a lifetime twice,
/// and the compiler, which forgets lifetimes in a suspended future, could not see any more that they are the same.
pub struct AccessOp<L, A> {
    lock: RefSlot<L>,
    site: Site,
    access: PhantomData<A>,
}

impl<L: RwLockRef, A: Access> AccessOp<L, A> {
    #[inline(always)]
    #[track_caller]
    pub(super) fn wait(lock: L) -> Wait<Single<Self>> {
        Wait::new(Self { lock: RefSlot::new(lock), site: Site::here(), access: PhantomData })
    }

    /// Enters without waiting.
    #[inline(always)]
    #[track_caller]
    pub(super) fn try_enter(lock: L) -> Option<Guard<A::Holder<L>>> {
        let held = lock.raw().try_enter(A::KIND, Site::here())?;
        Some(Guard::new(A::entered(lock, held)))
    }

    #[inline(always)]
    fn raw(&self) -> &RawRwLock {
        self.lock.get().raw()
    }

    #[inline(always)]
    fn guard(&mut self, note: WaitNote) -> Guard<A::Holder<L>> {
        let held = self.raw().probe.claim(A::KIND.mode(), note, self.site);
        Guard::new(A::entered(self.lock.take(), held))
    }
}

impl<L, A> fmt::Debug for AccessOp<L, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessOp")
    }
}

impl<L: RwLockRef, A: Access> Op for AccessOp<L, A> {
    type Output = Guard<A::Holder<L>>;
    type Unfinished<E> = E;
    const NAME: &'static str = A::NAME;

    #[inline(always)]
    fn try_now(&mut self) -> Option<Self::Output> {
        self.raw().try_enter_fast(A::KIND).then(|| self.guard(WaitNote::NONE))
    }

    fn is_ready(&self) -> bool {
        self.raw().is_ready(A::KIND)
    }

    fn target(&self) -> Target<'_> {
        Target::lock(&self.raw().probe, A::KIND.mode())
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw().enqueue_or_enter(A::KIND, slot, cx).map(|()| self.guard(WaitNote::NONE))
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw().poll_queued(waiter, cx).map(|()| self.guard(waiter.get().note()))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.raw().cancel(waiter).then(|| self.guard(waiter.get().note()))
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

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
        Reading::new(lock, held)
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
