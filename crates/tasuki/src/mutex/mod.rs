//! The mutex: one holder at a time, in an order that its policy decides.
//!
//! This file is the surface, with the contract on the page of [`Mutex`]. `raw.rs` has the word and its transitions, `lock.rs` the operation, `guards.rs` what guards hold, `owned.rs` the
//! functions that keep an `Arc`, `spin.rs` decides when to watch a held lock before queueing, `keyed.rs` is the lock that runtimes build on.

mod guards;
#[cfg(feature = "std")]
pub(crate) mod keyed;
mod lock;
#[cfg(feature = "alloc")]
mod owned;
pub(crate) mod raw;
mod spin;

use crate::guard::Guard;
use crate::policy::{Fifo, Policy};
use crate::primitive_ref::Lockable;
use crate::shim::const_fn;
use crate::wait::{Single, Wait};
use core::cell::UnsafeCell;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use guards::MappedMutex;
use raw::RawMutex;

pub(crate) use guards::Relock;
pub use lock::LockOp;
#[cfg(feature = "alloc")]
pub use owned::{LockOwned, LockOwnedOp, OwnedMappedMutexGuard, OwnedMutexGuard};

/// A mutual exclusion lock that suspends tasks instead of blocking threads.
///
/// The lock passes from owner to owner like a baton. An unlock with waiters does not free the
/// lock: it makes the first waiter the owner and wakes it. The woken task has nothing left to compete
/// for, and a newcomer finds the lock taken and queues.
///
/// `Mutex::new` is `const`, so a mutex can be a `static`. Waiting allocates nothing. A `Mutex<()>` has 16 bytes, its lock future 64 (12 and 48 with 32 bits). Where [`inspect`](crate::inspect) is active both are bigger,
/// and so is the mutex with the policy [`Revocable`](crate::policy::Revocable).
///
/// # Examples
///
/// ```
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
/// A lock future enqueues when it is first polled, not when it is created. The policy `P` decides the order:
///
/// * [`Fifo`], the default: strictly first come, first served.
/// * [`Lifo`](crate::policy::Lifo): newest first.
/// * [`Bypass<N>`](crate::policy::Bypass): first come, first served, with at most `N` exceptions for newcomers.
/// * [`Revocable`](crate::policy::Revocable): first come, first served between tasks. A grant that its task does not claim goes to another future of that task; the revoked future is next when it is polled again.
///
/// # Cancel
///
/// Dropping a lock future cancels the wait, in constant time, in every state and on every thread. If it
/// had been granted the lock already, the lock passes to the next waiter. No other waiter's place changes.
///
/// # Panic
///
/// A panic while the guard is held unlocks; there is no poisoning.
///
/// A waker that panics does so in the call that woke it ([Wakers](crate#wakers)), after the state is complete: no grant is lost. If a guard is dropped by a panic and the waker panics too, the second
/// panic is caught and dropped, and the first one goes on; without `std` it cannot be caught.
///
/// # Memory ordering
///
/// Everything done before an unlock happens before everything done after the lock that follows it.
///
/// # Re-entrancy
///
/// Locking twice in one task waits for ever, as with any mutex that is not re-entrant. Wakers may call
/// anything: none runs while the queue is locked. A waker should not block its thread ([Wakers](crate#wakers)).
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
/// again waits for itself. Drop the future, or keep polling it; or use the policy [`Revocable`](crate::policy::Revocable), with which the grant of a
/// future that is not polled goes to the one that is.
///
/// # When to use something else
///
/// * A section without `.await` inside, and short: `std::sync::Mutex` is as fast and simpler. Never hold that one
///   across an `.await`: it blocks a worker thread, and with it every task that the thread could run,
///   perhaps the owner's.
/// * A count of equal resources: a [`Semaphore`](crate::Semaphore).
/// * Many readers and few, long writes: a [`RwLock`](crate::RwLock).
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
pub type Lock<'a, T, P = Fifo> = Wait<Single<LockOp<&'a Mutex<T, P>>>>;

/// The guard of [`Mutex::lock`]: the lock is held until it is dropped. [`unlock`](Guard::unlock) says so in the code, [`hand_off`](Guard::hand_off) also lets the next owner run, [`map`](Guard::map) narrows it to a part of the value.
#[doc(alias = "ScopedLock")]
pub type MutexGuard<'a, T, P = Fifo> = Guard<&'a Mutex<T, P>>;

/// A guard over a part of the value, made by [`MutexGuard::map`](Guard::map).
pub type MappedMutexGuard<'a, U, P = Fifo> = Guard<MappedMutex<&'a RawMutex<P>, U>>;

impl<T> Mutex<T> {
    const_fn! {
        /// Creates a free mutex, strictly first come, first served.
        ///
        /// # Examples
        ///
        /// ```
        /// static M: tasuki::Mutex<i32> = tasuki::Mutex::new(5);
        /// assert_eq!(*M.try_lock().unwrap(), 5);
        /// ```
        #[track_caller]
        pub const fn new(value: T) -> Self {
            Self::with_policy(value)
        }
    }
}

impl<T, P: Policy> Mutex<T, P> {
    const_fn! {
        /// Creates a free mutex with the policy of its type.
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
        #[track_caller]
        pub const fn with_policy(value: T) -> Self {
            Self { raw: RawMutex::new(), value: UnsafeCell::new(value) }
        }
    }

    const_fn! {
        /// Gives the lock a name, which the reports of [`inspect`](crate::inspect) show. Where `inspect` is not active the name is not kept.
        ///
        /// # Examples
        ///
        /// ```
        /// static ACCOUNTS: tasuki::Mutex<u32> = tasuki::Mutex::new(0).named("accounts");
        /// assert!(!ACCOUNTS.is_locked());
        /// ```
        #[must_use]
        pub const fn named(mut self, name: &'static str) -> Self {
            self.raw.probe.rename(name);
            self
        }
    }

    /// Returns the value. Owning the mutex proves that it is not locked.
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
    /// Locks the mutex; waits while it is held.
    ///
    /// A free lock is taken at the first poll, unless the [budget](crate#the-budget) of the task is used up. A held lock is waited for: the future enqueues
    /// at that poll, and the poll after its grant returns the guard.
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
        LockOp::wait(self)
    }

    /// As [`lock`](Self::lock), for at most this time: short for `lock().timeout(time)`. In parking_lot this is `try_lock_for`.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock): a dropped future loses its place in the queue, never the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let mutex = tasuki::Mutex::new(1);
    /// let guard = mutex.lock_for(Duration::from_secs(1)).await.unwrap();
    /// assert!(mutex.lock_for(Duration::from_millis(1)).await.is_err());
    /// # drop(guard);
    /// # }
    /// ```
    #[cfg(feature = "std")]
    #[doc(alias = "try_lock_for")]
    #[track_caller]
    pub fn lock_for(&self, time: core::time::Duration) -> crate::future::Timeout<Lock<'_, T, P>> {
        self.lock().timeout(time)
    }

    /// Tries to lock, without waiting; `None` if the lock is held.
    ///
    /// With [`Fifo`], [`Lifo`](crate::policy::Lifo) and [`Revocable`](crate::policy::Revocable) it also fails while the lock is granted to a waiter that has not claimed it yet: no newcomer
    /// overtakes the queue. With [`Bypass`](crate::policy::Bypass) it may take a free lock ahead of the queue, which counts as one overtaking;
    /// it may also fail while another thread has locked the queue.
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
    #[must_use = "the lock is given back at once if the guard is not kept"]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, P>> {
        lock::try_lock(self)
    }

    /// Returns true if the lock is held, or granted to a waiter. The answer may be outdated when it is returned.
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

    /// Returns the value, without locking: the exclusive borrow proves that it is not locked.
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
    #[track_caller]
    fn default() -> Self {
        Self::with_policy(T::default())
    }
}

/// For the default policy only, so that `Mutex::from(5)` says which; others have [`with_policy`](Mutex::with_policy).
impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug, P: Policy> fmt::Debug for Mutex<T, P> {
    /// Shows the value, or that the mutex is locked; where [`inspect`](crate::inspect) is active also by which task, where it was taken, how many wait, and how long the longest of these waits has lasted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(value) => f.debug_struct("Mutex").field("value", &&*value).finish(),
            None => f.debug_struct("Mutex").field("value", &self.raw.probe.shown()).finish(),
        }
    }
}

impl<T: ?Sized, P: Policy> Lockable for Mutex<T, P> {
    type Raw = RawMutex<P>;
    type Value = T;

    #[inline(always)]
    fn raw(&self) -> &RawMutex<P> {
        &self.raw
    }

    #[inline(always)]
    fn value(&self) -> *mut T {
        self.value.get()
    }
}
