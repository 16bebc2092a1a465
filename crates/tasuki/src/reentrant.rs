//! The re-entrant mutex: owned by a task, which may lock it again.
//!
//! For code that calls itself, directly or through a callback, with the lock held. The lock is a plain [`RawMutex`]; beside it stand the owner, a task, and how often it has
//! locked. The drop of a guard that takes the depth to zero unlocks.
//!
//! ```text
//!   task 7:  lock        lock        drop        drop
//!   owner    7           7           7           none
//!   depth    1           2           1           0, unlocked
//! ```
//!
//! # Transitions
//!
//! | from              | event                    | to                      | fn |
//! |-------------------|--------------------------|-------------------------|----|
//! | free              | lock                     | owner `me`, depth 1     | [`ReentrantMutex::own`] |
//! | owner `me`, depth d | lock by the same task  | depth d + 1             | [`ReentrantMutex::reenter`] |
//! | owner, depth d    | a guard is dropped       | depth d - 1             | [`ReentrantMutex::release_once`] |
//! | owner, depth 1    | a guard is dropped       | no owner, unlocked      | [`ReentrantMutex::release_once`] |
//!
//! # A stale look at the owner
//! Guards can be sent, so the last one may be dropped by another thread while the owning task locks again. The owner that
//! this task reads may then be a stale `me`, and the depth that it raises another owner's. So it looks a second
//! time, after the depth: the depth that it raised was published after its owner. If that is not `me`, it takes the step
//! back like any guard; if the other owner has released it meanwhile, that unlocks.
//!
//! # Orderings
//! `depth`: Release in [`ReentrantMutex::own`] pairs with Acquire in [`ReentrantMutex::reenter`]: the owner that belongs to the
//! depth. Release in [`ReentrantMutex::release_once`] pairs with Acquire in the `release_once` that reaches zero: what all guards did
//! happens before the unlock. `owner`: Relaxed, a number that is compared.

use crate::catch_panic::caught;
use crate::error::NoTaskIdentity;
use crate::guard::{Guard, Holder, sealed};
use crate::mutex::raw::{RawMutex, Unlocked};
use crate::policy::Fifo;
use crate::probe::{LockMode, Site, Target};
use crate::queue::Pinned;
use crate::queue::waiter::WaiterState;
use crate::shim::{AtomicU32, AtomicU64, Ordering, const_fn};
use crate::task::{self, TaskId};
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::task::{Context, Poll};

/// The identity of no task.
const NO_TASK: u64 = 0;

/// A mutex that its owner, a *task*, may lock again.
///
/// The owner is the task, not the thread and not the future: the branches of one task's `join!` share the lock. Its
/// runtime, or [`task::identify`], says which task that is; without an identity locking is an error.
///
/// The guard gives `&T`: there may be several at a time. Put a `Cell` or `RefCell` inside to change the value, if the
/// guards stay in one thread at a time; see *Limits*.
///
/// # Examples
///
/// ```
/// use tasuki::{ReentrantMutex, ReentrantMutexGuard, task};
///
/// let mutex = ReentrantMutex::new(5);
/// let mut job = std::pin::pin!(task::identify(async {
///     let outer = mutex.lock().await.unwrap();
///     let inner = mutex.lock().await.unwrap();
///     assert_eq!(ReentrantMutexGuard::depth(&inner), 2);
///     *outer + *inner
/// }));
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::future::Future::poll(job.as_mut(), &mut cx), std::task::Poll::Ready(10));
/// ```
///
/// # Order
///
/// First come, first served among tasks; the owner never waits.
///
/// # Cancel
///
/// As [`Mutex`](crate::Mutex).
///
/// # Panic
///
/// A panic while a guard is held gives it back; there is no poisoning. Locking `u32::MAX` times panics before
/// anything has changed.
///
/// # Memory ordering
///
/// Everything done before the last guard was dropped happens before everything done after the lock that follows it.
///
/// # Re-entrancy
///
/// That is what it is for.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// The mutex can be shared, and its guard sent, only for `T: Send + Sync`: two guards of one task may be on two threads.
///
/// # Futurelock
///
/// As for [`Mutex`](crate::Mutex), between tasks.
///
/// # When to use something else
///
/// When you can: a [`Mutex`](crate::Mutex) is smaller, needs no identity, and gives `&mut T`.
#[doc(alias = "AsyncRecursiveMutex")]
#[doc(alias = "ReentrantLock")]
pub struct ReentrantMutex<T: ?Sized> {
    raw: RawMutex<Fifo>,
    owner: AtomicU64,
    depth: AtomicU32,
    /// Guards give `&T` only, so it needs no cell, and the mutex is covariant in it, as std's.
    value: T,
}

// SAFETY: the mutex owns the value.
unsafe impl<T: ?Sized + Send> Send for ReentrantMutex<T> {}
// SAFETY: guards give `&T`, of one task at a time, but perhaps on several threads.
unsafe impl<T: ?Sized + Send + Sync> Sync for ReentrantMutex<T> {}

// As std's: guards give `&T` only.
impl<T: ?Sized + UnwindSafe> UnwindSafe for ReentrantMutex<T> {}
impl<T: ?Sized + RefUnwindSafe> RefUnwindSafe for ReentrantMutex<T> {}

/// The guard of [`ReentrantMutex::lock`].
pub type ReentrantMutexGuard<'a, T> = Guard<&'a ReentrantMutex<T>>;

/// The future of [`ReentrantMutex::lock`].
pub type LockReentrant<'a, T> = Wait<Single<LockReentrantOp<'a, T>>>;

impl<T> ReentrantMutex<T> {
    const_fn! {
        /// A free mutex.
        ///
        /// # Examples
        ///
        /// ```
        /// static M: tasuki::ReentrantMutex<u8> = tasuki::ReentrantMutex::new(1);
        /// ```
        #[track_caller]
        pub const fn new(value: T) -> Self {
            let mut raw = RawMutex::new();
            raw.probe.is_reentrant();
            Self {
                raw,
                owner: AtomicU64::new(NO_TASK),
                depth: AtomicU32::new(0),
                value,
            }
        }
    }

    const_fn! {
        /// The same lock with a name, which the reports of [`inspect`](crate::inspect) show. Where `inspect` is not active the name is not kept.
        ///
        /// # Examples
        ///
        /// ```
        /// static ACCOUNTS: tasuki::ReentrantMutex<u32> = tasuki::ReentrantMutex::new(0).named("accounts");
        /// assert!(ACCOUNTS.try_lock().is_err());
        /// ```
        #[must_use]
        pub const fn named(mut self, name: &'static str) -> Self {
            self.raw.probe.rename(name);
            self
        }
    }

    /// The value. Owning the mutex proves that it is not locked.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki::ReentrantMutex::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: ?Sized> ReentrantMutex<T> {
    /// Waits until the lock is this task's; at once if it is already.
    ///
    /// # Errors
    ///
    /// [`NoTaskIdentity`] if the task has no identity.
    ///
    /// # Panics
    ///
    /// At a depth of `u32::MAX`, before anything has changed.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mutex = tasuki::ReentrantMutex::new(1);
    /// assert_eq!(mutex.lock().await.unwrap_err(), tasuki::NoTaskIdentity);
    /// # }
    /// ```
    #[track_caller]
    pub fn lock(&self) -> LockReentrant<'_, T> {
        Wait::new(LockReentrantOp { mutex: self, left: false, site: Site::here() })
    }

    /// The lock, if it can be had without waiting.
    ///
    /// # Errors
    ///
    /// [`NoTaskIdentity`] if the task has no identity.
    ///
    /// # Panics
    ///
    /// At a depth of `u32::MAX`, before anything has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// let mutex = tasuki::ReentrantMutex::new(1);
    /// assert!(mutex.try_lock().is_err());
    /// ```
    #[track_caller]
    pub fn try_lock(&self) -> Result<Option<ReentrantMutexGuard<'_, T>>, NoTaskIdentity> {
        let me = task::current().ok_or(NoTaskIdentity)?;
        if self.reenter(me) {
            return Ok(Some(Guard::new(self)));
        }
        Ok(self.raw.try_lock().then(|| self.own(me, Site::here())))
    }

    /// The value, without locking: the exclusive borrow proves that it is not locked.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut mutex = tasuki::ReentrantMutex::new(1);
    /// *mutex.get_mut() = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The lock has been acquired: it is `me`'s.
    fn own(&self, me: TaskId, site: Site) -> ReentrantMutexGuard<'_, T> {
        self.raw.probe.set(site);
        // Relaxed: published by the depth.
        self.owner.store(me.get(), Ordering::Relaxed);
        // Release: pairs with Acquire in `reenter`.
        self.depth.store(1, Ordering::Release);
        Guard::new(self)
    }

    /// One deeper, if the lock is `me`'s.
    #[track_caller]
    fn reenter(&self, me: TaskId) -> bool {
        // Relaxed: only this task writes `me`; a stale `me` is found out below.
        if self.owner.load(Ordering::Relaxed) != me.get() {
            return false;
        }
        // Relaxed: it is acted on by the compare-exchange below.
        let mut depth = self.depth.load(Ordering::Relaxed);
        loop {
            if depth == 0 {
                return false;
            }
            let deeper =
                depth.checked_add(1).expect("a re-entrant mutex can be locked `u32::MAX` times at most");
            // Acquire: pairs with Release in `own`. Relaxed on failure: it looks again.
            match self.depth.compare_exchange(depth, deeper, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => depth = now,
            }
        }
        // Relaxed: the owner of this depth, or a newer one, see the header.
        let is_mine = self.owner.load(Ordering::Relaxed) == me.get();
        if !is_mine {
            self.release_once();
        }
        is_mine
    }

    /// One less deep; the last unlocks. True if there were waiters.
    fn release_once(&self) -> bool {
        // AcqRel: Release pairs with Acquire in the `release_once` that reaches zero, which is this same operation.
        if self.depth.fetch_sub(1, Ordering::AcqRel) > 1 {
            return false;
        }
        // Relaxed: published by the unlock; until then `me` would find the depth at zero.
        self.owner.store(NO_TASK, Ordering::Relaxed);
        self.raw.unlock() == Unlocked::WithWaiters
    }
}

impl<T: ?Sized> Guard<&ReentrantMutex<T>> {
    /// How often the task has locked the mutex now.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{ReentrantMutex, ReentrantMutexGuard, task};
    ///
    /// let mutex = ReentrantMutex::new(());
    /// let mut job = std::pin::pin!(task::identify(async {
    ///     let guard = mutex.lock().await.unwrap();
    ///     ReentrantMutexGuard::depth(&guard)
    /// }));
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert_eq!(std::future::Future::poll(job.as_mut(), &mut cx), std::task::Poll::Ready(1));
    /// ```
    pub fn depth(guard: &Self) -> u32 {
        // Relaxed: a number to look at.
        guard.holder().depth.load(Ordering::Relaxed)
    }
}

impl<T: Default> Default for ReentrantMutex<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for ReentrantMutex<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized> fmt::Debug for ReentrantMutex<T> {
    /// Shows which task has it locked, not the value: to look at that needs an identity.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: numbers to look at.
        let (owner, depth) = (self.owner.load(Ordering::Relaxed), self.depth.load(Ordering::Relaxed));
        f.debug_struct("ReentrantMutex").field("owner", &owner).field("depth", &depth).finish_non_exhaustive()
    }
}

impl<T: ?Sized> sealed::Sealed for &ReentrantMutex<T> {}

// SAFETY: made only by the task that owns the lock; only `&T` is given, and every other task is kept out until `release`.
unsafe impl<T: ?Sized> Holder for &ReentrantMutex<T> {
    type Target = T;

    fn value(&self) -> *mut T {
        (&raw const self.value).cast_mut()
    }

    fn release(&self) -> bool {
        self.release_once()
    }

    #[inline(always)]
    fn touch(&self) {
        // Relaxed: a number to look at.
        self.raw.probe.touch_shared(self.owner.load(Ordering::Relaxed));
    }
}

/// The operation of [`ReentrantMutex::lock`].
pub struct LockReentrantOp<'a, T: ?Sized> {
    mutex: &'a ReentrantMutex<T>,
    /// The waiter has left the queue, and the lock is not its own, or no longer.
    left: bool,
    site: Site,
}

impl<'a, T: ?Sized> LockReentrantOp<'a, T> {
    /// The lock has been granted to the task that polls now. Its identity was asked for before: the runtime that knows it may panic.
    fn granted(&mut self, me: Option<TaskId>) -> Result<ReentrantMutexGuard<'a, T>, NoTaskIdentity> {
        match me {
            Some(me) => Ok(self.mutex.own(me, self.site)),
            None => {
                // First: if the waker of the next owner panics, the drop of the future must not unlock again.
                self.left = true;
                self.mutex.raw.unlock();
                Err(NoTaskIdentity)
            }
        }
    }
}

impl<T: ?Sized> fmt::Debug for LockReentrantOp<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockReentrantOp")
    }
}

impl<'a, T: ?Sized> Op for LockReentrantOp<'a, T> {
    type Output = Result<ReentrantMutexGuard<'a, T>, NoTaskIdentity>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::LockReentrant";

    fn try_now(&mut self) -> Option<Self::Output> {
        self.mutex.try_lock().transpose()
    }

    fn is_ready(&self) -> bool {
        // Without an identity it is refused at once; the owner goes deeper at once.
        let owner = self.mutex.owner.load(Ordering::Relaxed);
        task::current().is_none_or(|me| me.get() == owner) || self.mutex.raw.is_ready()
    }

    fn target(&self) -> Target<'_> {
        Target::lock(&self.mutex.raw.probe, LockMode::Exclusive)
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = task::current();
        self.left = false;
        self.mutex.raw.enqueue_or_lock(slot, cx, false).map(|()| self.granted(me))
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.left, "`{}` polled after it was finished", Self::NAME);
        let me = task::current();
        // Another branch of the same task may have got the lock meanwhile: then this one need not wait for it.
        let shares =
            waiter.get().state() != WaiterState::Notified && me.is_some_and(|me| self.mutex.reenter(me));
        if shares {
            let guard = Guard::new(self.mutex);
            // First: if the waker panics when it is dropped, the drop of the future has nothing left to do.
            self.left = true;
            let granted = self.mutex.raw.cancel(waiter);
            debug_assert!(!granted, "no other wait can be granted a lock that this task holds");
            return Poll::Ready(Ok(guard));
        }
        self.mutex.raw.poll_queued(waiter, cx, false).map(|()| self.granted(me))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        if self.left || !self.mutex.raw.cancel(waiter) {
            return None;
        }
        // Dropped where no task has an identity, or none can be told: `granted` has passed the lock on.
        self.granted(caught(task::current).flatten()).ok().map(Ok)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panic_place::line_of_panic;

    /// As deep as it goes: the panic points to the line of the caller, and nothing has changed.
    #[test]
    fn one_lock_too_many_names_its_caller() {
        let mutex = ReentrantMutex::new(());
        let mut job = std::boxed::Box::pin(crate::task::identify(core::future::poll_fn(|_| {
            let guard = mutex.try_lock().unwrap().unwrap();
            mutex.depth.store(u32::MAX, Ordering::Relaxed);
            let place = (line!(), line_of_panic(|| drop(mutex.try_lock())));
            assert_eq!(place, (place.0, place.0));
            assert_eq!(mutex.depth.load(Ordering::Relaxed), u32::MAX);
            mutex.depth.store(1, Ordering::Relaxed);
            drop(guard);
            Poll::Ready(mutex.try_lock().unwrap().is_some())
        })));
        let mut cx = Context::from_waker(core::task::Waker::noop());
        assert_eq!(core::future::Future::poll(job.as_mut(), &mut cx), Poll::Ready(true));
    }
}
