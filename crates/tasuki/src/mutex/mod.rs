//! The mutex: one holder at a time, in an order that its policy decides.
//!
//! This file is the surface, with the contract on the page of [`Mutex`]. `raw.rs` has the word and its transitions, `owned.rs` the forms that hold an `Arc`, `spin.rs` decides when to
//! watch a held lock before queueing, `keyed.rs` is the lock that runtimes build on.

#[cfg(feature = "std")]
pub(crate) mod keyed;
#[cfg(feature = "alloc")]
mod owned;
pub(crate) mod raw;
mod spin;

use crate::guard::{Exclusive, Guard, Holder, Narrow, sealed};
use crate::policy::{Fifo, Policy};
use crate::probe::Site;
use crate::queue::waiter::clone_waker;
use crate::queue::{Deferred, Detached, Pinned};
use crate::shim::const_fn;
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::cell::UnsafeCell;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::task::{Context, Poll, Waker};
use raw::{RawMutex, Unlocked};

#[cfg(feature = "alloc")]
pub use owned::{LockOwned, LockOwnedOp, OwnedMappedMutexGuard, OwnedMutexGuard};

/// A mutual exclusion lock that suspends tasks instead of blocking threads.
///
/// The lock passes from owner to owner like a baton. An unlock with waiters does not free the
/// lock: it makes the first waiter the owner and wakes it. The woken task has nothing left to compete
/// for, and a newcomer finds the lock taken and queues.
///
/// A `Mutex<()>` is two words, its lock future eight; waiting allocates nothing. `Mutex::new` is `const`, so a
/// mutex can be a `static`.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tasuki::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// async fn add(n: u64) {
///     let mut total = TOTAL.lock().await;
///     *total += n;
/// }
/// # let mut add = std::pin::pin!(add(2));
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(std::future::Future::poll(add.as_mut(), &mut cx).is_ready());
/// # assert_eq!(*TOTAL.try_lock().unwrap(), 2);
/// ```
///
/// # Order
///
/// By the policy `P`: strictly first come, first served ([`Fifo`], the default), newest first
/// ([`Lifo`](crate::policy::Lifo)), or first come with at most `N` exceptions ([`Bypass`](crate::policy::Bypass)). A place in
/// the queue is taken when the lock future is first polled.
///
/// # Cancel
///
/// Dropping a lock future gives up its place, in constant time, in every state and on every thread. If it
/// had been granted the lock already, the lock passes to the next. No other waiter's place changes.
///
/// # Panic
///
/// A panic while the guard is held unlocks; there is no poisoning. A waker that panics does so in the
/// call that woke it, after the state is complete: no grant is lost. If it is called while the thread unwinds (a guard is dropped by a panic), its own panic
/// ends the process, as any panic in a destructor does then.
///
/// # Memory ordering
///
/// Everything done before an unlock happens before everything done after the lock that follows it.
///
/// # Re-entrancy
///
/// Locking twice in one task waits for ever, as with any mutex that is not re-entrant. Wakers may call
/// anything: none runs while the queue is locked. A waker should not block its thread: what it was woken inside of may have more tasks to wake, and wakes those
/// first only if it blocks with [`block`](crate::future::Wait::block) or a [`Parker`](crate::Parker).
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// None on the number of waiters. A forgotten guard leaves the lock held for ever; a forgotten, queued
/// future keeps its place for ever, and with [`Fifo`] that stops the queue behind it.
///
/// # Futurelock
///
/// A lock future that has been polled once and is then neither polled nor dropped still gets its turn,
/// and keeps it. A task that holds on to such a future (a `select!` over `&mut future`) and then waits for the same lock
/// again waits for itself. Drop the future, or keep polling it.
///
/// # When to use something else
///
/// * A section without `.await` inside, and short: `std::sync::Mutex` is as fast and simpler. Never hold that one
///   across an `.await`: it blocks a worker thread, and with it every task that the thread could run,
///   perhaps the owner's.
/// * A count of equal resources: a semaphore.
#[doc(alias = "AsyncMutex")]
pub struct Mutex<T: ?Sized, P: Policy = Fifo> {
    raw: RawMutex<P>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex owns the value.
unsafe impl<T: ?Sized + Send, P: Policy> Send for Mutex<T, P> {}
// SAFETY: it gives the value to one thread at a time, so the value needs to be `Send` only.
unsafe impl<T: ?Sized + Send, P: Policy> Sync for Mutex<T, P> {}

// As std's: the value may be seen after a panic that left it half changed; that is what a lock without poisoning means.
impl<T: ?Sized, P: Policy> UnwindSafe for Mutex<T, P> {}
impl<T: ?Sized, P: Policy> RefUnwindSafe for Mutex<T, P> {}

/// The future of [`Mutex::lock`].
pub type Lock<'a, T, P = Fifo> = Wait<Single<LockOp<'a, T, P>>>;

/// The guard of [`Mutex::lock`]: the lock is held until it is dropped.
#[doc(alias = "ScopedLock")]
pub type MutexGuard<'a, T, P = Fifo> = Guard<&'a Mutex<T, P>>;

/// A guard over a part of the value, made by [`MutexGuard::map`](Guard::map).
pub type MappedMutexGuard<'a, U, P = Fifo> = Guard<MappedMutex<'a, U, P>>;

impl<T> Mutex<T> {
    const_fn! {
        /// A free mutex, strictly first come, first served.
        ///
        /// # Examples
        ///
        /// ```
        /// static M: tasuki::Mutex<i32> = tasuki::Mutex::new(5);
        /// assert_eq!(*M.try_lock().unwrap(), 5);
        /// ```
        pub const fn new(value: T) -> Self {
            Self::with_policy(value)
        }
    }
}

impl<T, P: Policy> Mutex<T, P> {
    const_fn! {
        /// A free mutex with the policy of its type.
        ///
        /// # Examples
        ///
        /// ```
        /// use tasuki::Mutex;
        /// use tasuki::policy::Bypass;
        ///
        /// static M: Mutex<i32, Bypass<16>> = Mutex::with_policy(5);
        /// assert!(!M.is_locked());
        /// ```
        pub const fn with_policy(value: T) -> Self {
            Self { raw: RawMutex::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value. Owning the mutex proves that it is not locked.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki::Mutex::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, P: Policy> Mutex<T, P> {
    /// Waits until the lock is the caller's.
    ///
    /// The lock is taken at the first poll if it is free, without suspending; otherwise the future queues
    /// and resumes as the owner.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # let rt = async {
    /// let mutex = tasuki::Mutex::new(1);
    /// *mutex.lock().await += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// # };
    /// # let mut rt = std::pin::pin!(rt);
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(std::future::Future::poll(rt.as_mut(), &mut cx).is_ready());
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Lock<'_, T, P> {
        Wait::new(LockOp { mutex: self, site: Site::here() })
    }

    /// As [`lock`](Self::lock), for at most this time: `lock().timeout(time)` under the name that other libraries give
    /// it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mutex = tasuki::Mutex::new(1);
    /// let guard = mutex.lock_for(Duration::from_secs(1)).block().unwrap();
    /// assert!(mutex.lock_for(Duration::from_millis(1)).block().is_err());
    /// # drop(guard);
    /// ```
    #[cfg(feature = "std")]
    #[doc(alias = "try_lock_for")]
    #[track_caller]
    pub fn lock_for(&self, time: core::time::Duration) -> crate::future::Timeout<Lock<'_, T, P>> {
        self.lock().timeout(time)
    }

    /// The lock, if it can be had without waiting.
    ///
    /// With [`Fifo`] and [`Lifo`](crate::policy::Lifo) it cannot be had while a grant is on its way to a waiter: no newcomer
    /// passes the queue. With [`Bypass`](crate::policy::Bypass) taking a free lock ahead of the queue is within the
    /// bound; it may also fail at the moment at which another waiter is enqueued or removed.
    ///
    /// # Examples
    ///
    /// ```
    /// let mutex = tasuki::Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_none());
    /// # drop(guard);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, P>> {
        let site = Site::here();
        self.raw.try_lock().then(|| self.guard(site))
    }

    /// The lock has been acquired.
    #[inline(always)]
    fn guard(&self, site: Site) -> MutexGuard<'_, T, P> {
        self.raw.owner.set(site);
        Guard::new(self)
    }

    /// Is it held, or on its way to a new owner? True or false only for the moment of the look.
    ///
    /// # Examples
    ///
    /// ```
    /// let mutex = tasuki::Mutex::new(1);
    /// let guard = mutex.try_lock();
    /// assert!(mutex.is_locked());
    /// # drop(guard);
    /// ```
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    /// The value, without locking: the exclusive borrow proves that it is not locked.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut mutex = tasuki::Mutex::new(1);
    /// *mutex.get_mut() = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default, P: Policy> Default for Mutex<T, P> {
    fn default() -> Self {
        Self::with_policy(T::default())
    }
}

/// For the default policy only, so that `Mutex::from(5)` says which; others have [`with_policy`](Mutex::with_policy).
impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug, P: Policy> fmt::Debug for Mutex<T, P> {
    /// Shows the value if the lock can be had at once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(value) => f.debug_struct("Mutex").field("value", &&*value).finish(),
            None => f.debug_struct("Mutex").field("value", &self.raw.owner.shown()).finish(),
        }
    }
}

/// The operation of [`Mutex::lock`].
pub struct LockOp<'a, T: ?Sized, P: Policy> {
    mutex: &'a Mutex<T, P>,
    site: Site,
}

impl<T: ?Sized, P: Policy> fmt::Debug for LockOp<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockOp")
    }
}

impl<'a, T: ?Sized, P: Policy> LockOp<'a, T, P> {
    /// Apart, so that the usual first poll that has to wait calls nothing after the clone of its waker: whatever is stored
    /// between these two locked operations delays the second.
    #[cold]
    #[inline(never)]
    fn enqueue_slow(&self, slot: WaiterSlot<'_>, waker: Waker) -> Poll<MutexGuard<'a, T, P>> {
        self.mutex.raw.enqueue_or_lock_slow(slot, waker).map(|()| self.mutex.guard(self.site))
    }
}

impl<'a, T: ?Sized, P: Policy> Op for LockOp<'a, T, P> {
    type Output = MutexGuard<'a, T, P>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::Lock";

    #[inline(always)]
    fn try_now(&mut self) -> Option<Self::Output> {
        // Copied first: after the compare-exchange they would be read from memory again.
        let (mutex, site) = (self.mutex, self.site);
        mutex.raw.try_lock().then(|| mutex.guard(site))
    }

    fn is_ready(&self) -> bool {
        self.mutex.raw.is_ready()
    }

    #[inline(always)]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.mutex.raw.owner.check(self.site);
        // Looked at before the clone, which usually is a locked operation: a load behind that would have to wait for it.
        let mutex = self.mutex;
        let word = mutex.raw.look();
        let waker = clone_waker(cx.waker());
        match mutex.raw.try_enqueue(word, slot, waker) {
            Ok(()) => Poll::Pending,
            Err((slot, waker)) => self.enqueue_slow(slot, waker),
        }
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.mutex.raw.poll_queued(waiter, cx).map(|()| self.mutex.guard(self.site))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.mutex.raw.cancel(waiter).then(|| self.mutex.guard(self.site))
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

impl<T: ?Sized, P: Policy> sealed::Sealed for &Mutex<T, P> {}

// SAFETY: a guard is made only by a caller that acquired the lock, and the lock excludes all others.
unsafe impl<T: ?Sized, P: Policy> Holder for &Mutex<T, P> {
    type Target = T;

    #[inline(always)]
    fn value(&self) -> *mut T {
        self.value.get()
    }

    #[inline(always)]
    fn release(&self) -> bool {
        self.raw.unlock() == Unlocked::WithWaiters
    }
}

// SAFETY: one owner at a time.
unsafe impl<T: ?Sized, P: Policy> Exclusive for &Mutex<T, P> {}

/// A guard that a condvar can give up and take back. Not for mapped guards: while the lock is given up the part may go.
#[doc(hidden)]
pub trait Relock: Exclusive {
    /// Which mutex it is, to be compared.
    fn address(&self) -> usize;

    /// Takes over waiters of another queue, which is being edited; see `RawMutex::adopt`.
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn adopt(&self, next: &mut dyn FnMut() -> Option<Detached>) -> Deferred<Option<Waker>>;

    /// A poll of a waiter that is, or was, in the queue of the mutex.
    fn poll_moved(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()>;

    /// Takes a waiter out of the queue of the mutex; true if it had been granted.
    fn cancel_moved(&self, waiter: Pinned<'_>) -> bool;

    /// The lock is held again, after a wait on a condvar.
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn acquired(&self, site: Site);
}

impl<T: ?Sized, P: Policy> Relock for &Mutex<T, P> {
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

/// What a [`MappedMutexGuard`] holds: the lock, and where the part is.
#[doc(hidden)]
pub struct MappedMutex<'a, U: ?Sized, P: Policy> {
    raw: &'a RawMutex<P>,
    value: *mut U,
}

// SAFETY: the pointer is access to the part, as `&mut U` would be.
unsafe impl<U: ?Sized + Send, P: Policy> Send for MappedMutex<'_, U, P> {}
// SAFETY: as above, `&U`.
unsafe impl<U: ?Sized + Sync, P: Policy> Sync for MappedMutex<'_, U, P> {}

impl<U: ?Sized, P: Policy> fmt::Debug for MappedMutex<'_, U, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MappedMutex")
    }
}

impl<U: ?Sized, P: Policy> sealed::Sealed for MappedMutex<'_, U, P> {}

// SAFETY: made from a guard, whose lock it keeps; the part was borrowed from its value.
unsafe impl<U: ?Sized, P: Policy> Holder for MappedMutex<'_, U, P> {
    type Target = U;

    #[inline(always)]
    fn value(&self) -> *mut U {
        self.value
    }

    #[inline(always)]
    fn release(&self) -> bool {
        self.raw.unlock() == Unlocked::WithWaiters
    }
}

// SAFETY: one owner at a time.
unsafe impl<U: ?Sized, P: Policy> Exclusive for MappedMutex<'_, U, P> {}

// SAFETY: the mapped holder keeps the lock until it is released.
unsafe impl<'a, T: ?Sized, P: Policy> Narrow for &'a Mutex<T, P> {
    type Narrowed<U: ?Sized> = MappedMutex<'a, U, P>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U> {
        MappedMutex { raw: &self.raw, value: part }
    }
}

// SAFETY: as above.
unsafe impl<'a, V: ?Sized, P: Policy> Narrow for MappedMutex<'a, V, P> {
    type Narrowed<U: ?Sized> = MappedMutex<'a, U, P>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U> {
        MappedMutex { raw: self.raw, value: part }
    }
}
