//! The mutex through an `Arc`: locks and guards that keep it alive and borrow nothing.

use super::raw::Unlocked;
use super::{
    Deferred, Detached, Fifo, Mutex, Op, Pinned, Policy, Relock, Single, Wait, WaiterSlot, Waker, clone_waker,
};
use crate::guard::{Exclusive, Guard, Holder, Narrow, sealed};
use crate::probe::Site;
use alloc::sync::Arc;
use core::fmt;
use core::task::{Context, Poll};

/// The future of [`Mutex::lock_owned`].
pub type LockOwned<T, P = Fifo> = Wait<Single<LockOwnedOp<T, P>>>;

/// The guard of [`Mutex::lock_owned`]: it keeps the mutex alive.
pub type OwnedMutexGuard<T, P = Fifo> = Guard<Arc<Mutex<T, P>>>;

/// An owned guard over a part of the value, made by [`OwnedMutexGuard::map`](Guard::map).
pub type OwnedMappedMutexGuard<T, U, P = Fifo> = Guard<OwnedMappedMutex<T, U, P>>;

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
    ///
    /// let mutex = Arc::new(tasuki::Mutex::new(1));
    /// let guard = mutex.clone().lock_owned().block();
    /// assert_eq!(*guard, 1);
    /// ```
    #[track_caller]
    pub fn lock_owned(self: Arc<Self>) -> LockOwned<T, P> {
        Wait::new(LockOwnedOp { mutex: Some(self), site: Site::here() })
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
    #[track_caller]
    pub fn try_lock_owned(self: Arc<Self>) -> Option<OwnedMutexGuard<T, P>> {
        let site = Site::here();
        self.raw.try_lock().then(|| {
            self.raw.owner.set(site);
            Guard::new(self)
        })
    }
}

/// The operation of [`Mutex::lock_owned`].
pub struct LockOwnedOp<T: ?Sized, P: Policy> {
    /// Gone once the guard has it.
    mutex: Option<Arc<Mutex<T, P>>>,
    site: Site,
}

impl<T: ?Sized, P: Policy> LockOwnedOp<T, P> {
    fn mutex(&self) -> &Mutex<T, P> {
        self.mutex.as_deref().expect("the mutex is here until the guard takes it")
    }

    fn guard(&mut self) -> OwnedMutexGuard<T, P> {
        self.mutex().raw.owner.set(self.site);
        Guard::new(self.mutex.take().expect("the mutex is here until the guard takes it"))
    }
}

impl<T: ?Sized, P: Policy> fmt::Debug for LockOwnedOp<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockOwnedOp")
    }
}

impl<T: ?Sized, P: Policy> Op for LockOwnedOp<T, P> {
    type Output = OwnedMutexGuard<T, P>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::LockOwned";

    fn try_now(&mut self) -> Option<Self::Output> {
        self.mutex().raw.try_lock().then(|| self.guard())
    }

    fn is_ready(&self) -> bool {
        self.mutex().raw.is_ready()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.mutex().raw.owner.check(self.site);
        self.mutex().raw.enqueue_or_lock(slot, clone_waker(cx.waker())).map(|()| self.guard())
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.mutex().raw.poll_queued(waiter, cx).map(|()| self.guard())
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.mutex().raw.cancel(waiter).then(|| self.guard())
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

impl<T: ?Sized, P: Policy> sealed::Sealed for Arc<Mutex<T, P>> {}

// SAFETY: a guard is made only by a caller that acquired the lock; the `Arc` outlives the release.
unsafe impl<T: ?Sized, P: Policy> Holder for Arc<Mutex<T, P>> {
    type Target = T;

    fn value(&self) -> *mut T {
        self.value.get()
    }

    fn release(&self) -> bool {
        self.raw.unlock() == Unlocked::WithWaiters
    }
}

// SAFETY: one owner at a time.
unsafe impl<T: ?Sized, P: Policy> Exclusive for Arc<Mutex<T, P>> {}

impl<T: ?Sized, P: Policy> Relock for Arc<Mutex<T, P>> {
    fn address(&self) -> usize {
        (&raw const self.raw).addr()
    }

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn adopt(&self, next: &mut dyn FnMut() -> Option<Detached>) -> Deferred<Option<Waker>> {
        self.raw.adopt(next)
    }

    fn poll_moved(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.raw.poll_queued(waiter, cx)
    }

    fn cancel_moved(&self, waiter: Pinned<'_>) -> bool {
        self.raw.cancel(waiter)
    }

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn acquired(&self, site: Site) {
        self.raw.owner.set(site);
    }
}

/// What an [`OwnedMappedMutexGuard`] holds: the mutex, and where the part is.
#[doc(hidden)]
pub struct OwnedMappedMutex<T: ?Sized, U: ?Sized, P: Policy> {
    mutex: Arc<Mutex<T, P>>,
    value: *mut U,
}

// SAFETY: the pointer is access to the part, as `&mut U` would be; the mutex may be dropped with the guard.
unsafe impl<T: ?Sized + Send, U: ?Sized + Send, P: Policy> Send for OwnedMappedMutex<T, U, P> {}
// SAFETY: as above, `&U`.
unsafe impl<T: ?Sized + Send, U: ?Sized + Sync, P: Policy> Sync for OwnedMappedMutex<T, U, P> {}

impl<T: ?Sized, U: ?Sized, P: Policy> fmt::Debug for OwnedMappedMutex<T, U, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnedMappedMutex")
    }
}

impl<T: ?Sized, U: ?Sized, P: Policy> sealed::Sealed for OwnedMappedMutex<T, U, P> {}

// SAFETY: made from a guard, whose lock it keeps; the part was borrowed from its value, which the `Arc` keeps.
unsafe impl<T: ?Sized, U: ?Sized, P: Policy> Holder for OwnedMappedMutex<T, U, P> {
    type Target = U;

    fn value(&self) -> *mut U {
        self.value
    }

    fn release(&self) -> bool {
        self.mutex.raw.unlock() == Unlocked::WithWaiters
    }
}

// SAFETY: one owner at a time.
unsafe impl<T: ?Sized, U: ?Sized, P: Policy> Exclusive for OwnedMappedMutex<T, U, P> {}

// SAFETY: the mapped holder keeps the lock, and the `Arc`, until it is released.
unsafe impl<T: ?Sized, P: Policy> Narrow for Arc<Mutex<T, P>> {
    type Narrowed<U: ?Sized> = OwnedMappedMutex<T, U, P>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U> {
        OwnedMappedMutex { mutex: self, value: part }
    }
}

// SAFETY: as above.
unsafe impl<T: ?Sized, V: ?Sized, P: Policy> Narrow for OwnedMappedMutex<T, V, P> {
    type Narrowed<U: ?Sized> = OwnedMappedMutex<T, U, P>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U> {
        OwnedMappedMutex { mutex: self.mutex, value: part }
    }
}
