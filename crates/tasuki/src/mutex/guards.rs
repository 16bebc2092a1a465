//! What the guards of a mutex hold: the reference to the mutex, or to a part of its value; and what a condvar needs of it.

use super::raw::{AskingTask, RawMutex, Unlocked};
use crate::guard::{self, Exclusive, Holder, Narrow};
use crate::policy::Policy;
use crate::primitive_ref::{LockRef, RawRef};
use crate::probe::Site;
use crate::queue::{Deferred, Detached, Pinned, QueueWaker};
use core::fmt;
use core::task::{Context, Poll};

impl<P: Policy, R: LockRef<Raw = RawMutex<P>>> guard::sealed::Sealed for R {}

// SAFETY: a guard is made only by a caller that acquired the lock, and the lock excludes all others; the reference outlives the release.
unsafe impl<P: Policy, R: LockRef<Raw = RawMutex<P>>> Holder for R {
    type Target = R::Value;

    #[inline(always)]
    fn value(&self) -> *mut R::Value {
        LockRef::value(self)
    }

    #[inline(always)]
    fn release(&self) -> bool {
        self.raw().unlock() == Unlocked::WithWaiters
    }

    #[inline(always)]
    fn touch(&self) {
        self.raw().probe.touch();
    }
}

// SAFETY: one owner at a time.
unsafe impl<P: Policy, R: LockRef<Raw = RawMutex<P>>> Exclusive for R {}

/// A guard that a condvar can give up and take back. Not for mapped guards: while the lock is given up the part may go.
#[doc(hidden)]
pub trait Relock: Exclusive {
    /// Which mutex it is, to be compared.
    fn address(&self) -> usize;

    /// Takes over waiters of another queue, which is locked; see `RawMutex::adopt`.
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn adopt(&self, next: &mut dyn FnMut() -> Option<Detached>) -> Deferred<Option<QueueWaker>>;

    /// Can a grant of the mutex be revoked until it is claimed?
    const IS_REVOCABLE: bool;

    /// The task that runs, which a waiter brings into the queue of the mutex, if that wants to know it. A runtime is asked: not under a lock of a queue.
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn asking_task(&self) -> AskingTask;

    /// A poll of a waiter that is, or was, in the queue of the mutex.
    fn poll_moved(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()>;

    /// Is the mutex granted to a waiter that has not claimed it, and from which it could be revoked? A look.
    fn has_unclaimed_grant(&self) -> bool;

    /// Takes a waiter out of the queue of the mutex; true if it had been granted.
    fn cancel_moved(&self, waiter: Pinned<'_>) -> bool;

    /// The lock is held again, after a wait on a condvar.
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn acquired(&self, site: Site);
}

impl<P: Policy, R: LockRef<Raw = RawMutex<P>>> Relock for R {
    const IS_REVOCABLE: bool = P::REVOCABLE;

    fn address(&self) -> usize {
        core::ptr::from_ref(self.raw()).addr()
    }

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn adopt(&self, next: &mut dyn FnMut() -> Option<Detached>) -> Deferred<Option<QueueWaker>> {
        self.raw().adopt(next)
    }

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn asking_task(&self) -> AskingTask {
        RawMutex::<P>::task_to_note(!R::IS_COPIED)
    }

    fn poll_moved(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.raw().poll_queued(waiter, cx, !R::IS_COPIED)
    }

    fn has_unclaimed_grant(&self) -> bool {
        self.raw().has_unclaimed_grant()
    }

    fn cancel_moved(&self, waiter: Pinned<'_>) -> bool {
        self.raw().cancel(waiter)
    }

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn acquired(&self, site: Site) {
        self.raw().probe.set(site);
    }
}

/// What a guard of a part holds: the way to the lock, and where the part is.
#[doc(hidden)]
pub struct MappedMutex<K, U: ?Sized> {
    kept: K,
    part: *mut U,
}

// SAFETY: the pointer is access to the part, as `&mut U` would be.
unsafe impl<K: Send, U: ?Sized + Send> Send for MappedMutex<K, U> {}
// SAFETY: as above, `&U`.
unsafe impl<K: Sync, U: ?Sized + Sync> Sync for MappedMutex<K, U> {}

impl<K, U: ?Sized> fmt::Debug for MappedMutex<K, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MappedMutex")
    }
}

impl<K, U: ?Sized> guard::sealed::Sealed for MappedMutex<K, U> {}

// SAFETY: made from a guard, whose lock it keeps; the part was borrowed from its value, which the kept reference keeps.
unsafe impl<P: Policy, K: RawRef<Raw = RawMutex<P>>, U: ?Sized> Holder for MappedMutex<K, U> {
    type Target = U;

    #[inline(always)]
    fn value(&self) -> *mut U {
        self.part
    }

    #[inline(always)]
    fn release(&self) -> bool {
        self.kept.raw().unlock() == Unlocked::WithWaiters
    }

    #[inline(always)]
    fn touch(&self) {
        self.kept.raw().probe.touch();
    }
}

// SAFETY: one owner at a time.
unsafe impl<P: Policy, K: RawRef<Raw = RawMutex<P>>, U: ?Sized> Exclusive for MappedMutex<K, U> {}

// SAFETY: the mapped holder keeps the lock until it is released.
unsafe impl<P: Policy, R: LockRef<Raw = RawMutex<P>>> Narrow for R {
    type Narrowed<U: ?Sized> = MappedMutex<R::Kept, U>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U> {
        MappedMutex { kept: self.keep(), part }
    }
}

// SAFETY: as above.
unsafe impl<P: Policy, K: RawRef<Raw = RawMutex<P>>, V: ?Sized> Narrow for MappedMutex<K, V> {
    type Narrowed<U: ?Sized> = MappedMutex<K, U>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U> {
        MappedMutex { kept: self.kept, part }
    }
}
