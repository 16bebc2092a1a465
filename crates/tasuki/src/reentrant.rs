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
//! | free              | lock                     | owner `me`, depth 1     | [`RawReentrantMutex::own`] |
//! | owner `me`, depth d | lock by the same task  | depth d + 1             | [`RawReentrantMutex::reenter`] |
//! | owner, depth d    | a guard is dropped       | depth d - 1             | [`RawReentrantMutex::release_once`] |
//! | owner, depth 1    | a guard is dropped       | no owner, unlocked      | [`RawReentrantMutex::release_once`] |
//!
//! # A stale look at the owner
//! Guards can be sent. So another thread may drop the last guard, and another task may take the lock, while the task that owned it locks again. That task may then read a stale owner, itself, and raise the
//! depth of the new owner. Therefore [`RawReentrantMutex::reenter`] reads the owner a second time, after it has raised the depth: a depth is published after its owner, so this read is not stale. If it finds another owner, it
//! lowers the depth again as the drop of a guard does; if that owner has released the lock meanwhile, this last step unlocks.
//!
//! # A branch that is polled too early
//! Two branches of a `join!` of one task wait for the lock, and it is granted to one of them. If the other branch is polled first, it finds the lock granted. It cannot know to which task, because the owner is written by the claim; so it waits on. When
//! the first branch claims the lock, the second could enter too, but nothing wakes it. So a poll that finds a grant without a claim notes that ([`RawReentrantMutex::note_early_poll`]), and the claim then wakes its task once
//! more ([`RawReentrantMutex::wake_branches`]): the `join!` polls all its branches again.
//!
//! # Orderings
//! `depth`: Release in [`RawReentrantMutex::own`] pairs with Acquire in [`RawReentrantMutex::reenter`]: the owner that belongs to the
//! depth. Release in [`RawReentrantMutex::release_once`] pairs with Acquire in the `release_once` that reaches zero: what all guards did
//! happens before the unlock. `owner`: Relaxed, a number that is compared. `polled_early`: Relaxed, written and read by the polls of one task, which come one after the other;
//! what other tasks write costs a wake.

use crate::budget::wake_again;
use crate::catch_panic::caught;
use crate::error::NoTaskIdentity;
use crate::guard::{Guard, Holder, sealed};
use crate::mutex::raw::{RawMutex, Unlocked};
use crate::policy::Fifo;
use crate::primitive_ref::{LockRef, Lockable, RefSlot};
use crate::probe::{LockMode, Site, Target};
use crate::queue::Pinned;
use crate::queue::waiter::WaiterState;
use crate::shim::{AtomicBool, AtomicU32, AtomicU64, Ordering, const_fn};
use crate::task::{self, TaskId};
use crate::wait::{Op, Single, Wait, WaiterSlot};
use alloc::sync::Arc;
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mutex = ReentrantMutex::new(5);
/// // `tasuki-rt` gives its tasks an identity, and so does tokio with the feature `tokio`: there `identify` is not needed.
/// let sum = task::identify(async {
///     let outer = mutex.lock().await.unwrap();
///     let inner = mutex.lock().await.unwrap();
///     assert_eq!(ReentrantMutexGuard::depth(&inner), 2);
///     *outer + *inner
/// });
/// assert_eq!(sum.await, 10);
/// # }
/// ```
///
/// # Order
///
/// First come, first served among tasks. The owner locks again at once (a branch of its task that was queued before: see *Limits*).
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
/// If one branch of a task gets the lock while another branch of the same task waits for it, the other has it too, at its next poll. A `join!` polls all its branches. A set of futures polls only those that were woken, so a
/// branch in it may have to wait until the last guard is dropped.
///
/// # Futurelock
///
/// As for [`Mutex`](crate::Mutex), also within one task: the lock is the task's when the future that was granted it is polled, and not before.
///
/// # When to use something else
///
/// When you can: a [`Mutex`](crate::Mutex) is smaller, needs no identity, and gives `&mut T`.
#[doc(alias = "AsyncRecursiveMutex")]
#[doc(alias = "ReentrantLock")]
pub struct ReentrantMutex<T: ?Sized> {
    raw: RawReentrantMutex,
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

/// The guard of [`ReentrantMutex::lock_owned`]: it keeps the mutex alive.
pub type OwnedReentrantMutexGuard<T> = Guard<Arc<ReentrantMutex<T>>>;

/// The future of [`ReentrantMutex::lock`].
pub type LockReentrant<'a, T> = Wait<Single<LockReentrantOp<&'a ReentrantMutex<T>>>>;

/// The future of [`ReentrantMutex::lock_owned`].
pub type LockReentrantOwned<T> = Wait<Single<LockReentrantOp<Arc<ReentrantMutex<T>>>>>;

impl<T> ReentrantMutex<T> {
    const_fn! {
        /// Creates a free mutex.
        ///
        /// # Examples
        ///
        /// ```
        /// static M: tasuki::ReentrantMutex<u8> = tasuki::ReentrantMutex::new(1);
        /// ```
        #[track_caller]
        pub const fn new(value: T) -> Self {
            let mut lock = RawMutex::new();
            lock.probe.is_reentrant();
            let (owner, depth) = (AtomicU64::new(NO_TASK), AtomicU32::new(0));
            Self { raw: RawReentrantMutex { lock, owner, depth, polled_early: AtomicBool::new(false) }, value }
        }
    }

    const_fn! {
        /// Gives the lock a name, which the reports of [`inspect`](crate::inspect) show. Where `inspect` is not active the name is not kept.
        ///
        /// # Examples
        ///
        /// ```
        /// static ACCOUNTS: tasuki::ReentrantMutex<u32> = tasuki::ReentrantMutex::new(0).named("accounts");
        /// assert!(ACCOUNTS.try_lock().is_err());
        /// ```
        #[must_use]
        pub const fn named(mut self, name: &'static str) -> Self {
            self.raw.lock.probe.rename(name);
            self
        }
    }

    /// Returns the value. Owning the mutex proves that it is not locked.
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
    /// Locks the mutex; waits while another task holds it. A task that holds it already locks it once more.
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
        LockReentrantOp::wait(self)
    }

    /// As [`lock`](Self::lock), with a guard that keeps the mutex alive and can be stored anywhere.
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
    /// As [`lock`](Self::lock): a dropped future loses its place in the queue, never the lock. It holds a reference to the mutex until then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tasuki::{ReentrantMutex, task};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let mutex = Arc::new(ReentrantMutex::new(1));
    /// let guard = task::identify(mutex.clone().lock_owned()).await.unwrap();
    /// assert_eq!(*guard, 1);
    /// # }
    /// ```
    #[doc(alias = "lock_arc")]
    #[track_caller]
    pub fn lock_owned(self: Arc<Self>) -> LockReentrantOwned<T> {
        LockReentrantOp::wait(self)
    }

    /// Tries to lock, without waiting.
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
        Ok(self.raw.acquire_now(Site::here())?.then(|| Guard::new(self)))
    }

    /// As [`try_lock`](Self::try_lock), with a guard that keeps the mutex alive.
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
    /// let mutex = std::sync::Arc::new(tasuki::ReentrantMutex::new(1));
    /// assert!(mutex.try_lock_owned().is_err());
    /// ```
    #[doc(alias = "try_lock_arc")]
    #[track_caller]
    pub fn try_lock_owned(self: Arc<Self>) -> Result<Option<OwnedReentrantMutexGuard<T>>, NoTaskIdentity> {
        Ok(self.raw.acquire_now(Site::here())?.then(|| Guard::new(self)))
    }

    /// Returns true if a task holds the lock, or it is granted to a waiter. The answer may be outdated when it is returned. It needs no identity.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!tasuki::ReentrantMutex::new(1).is_locked());
    /// ```
    pub fn is_locked(&self) -> bool {
        self.raw.lock.is_locked()
    }

    /// Returns the value, without locking: the exclusive borrow proves that it is not locked.
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
}

impl<T: ?Sized> Lockable for ReentrantMutex<T> {
    type Raw = RawReentrantMutex;
    type Value = T;

    #[inline(always)]
    fn raw(&self) -> &RawReentrantMutex {
        &self.raw
    }

    /// For `&T` only.
    #[inline(always)]
    fn value(&self) -> *mut T {
        (&raw const self.value).cast_mut()
    }
}

/// The lock without the value.
#[doc(hidden)]
#[derive(Debug)]
pub struct RawReentrantMutex {
    lock: RawMutex<Fifo>,
    owner: AtomicU64,
    depth: AtomicU32,
    /// A wait was polled while the lock was granted and not claimed.
    polled_early: AtomicBool,
}

impl RawReentrantMutex {
    /// Acquires it for the running task, if that needs no wait.
    #[track_caller]
    fn acquire_now(&self, site: Site) -> Result<bool, NoTaskIdentity> {
        let me = task::current().ok_or(NoTaskIdentity)?;
        if self.reenter(me) {
            return Ok(true);
        }
        let free = self.lock.try_lock();
        if free {
            self.own(me, site);
        }
        Ok(free)
    }

    /// The lock has been acquired: it is `me`'s.
    fn own(&self, me: TaskId, site: Site) {
        self.lock.probe.set(site);
        // Relaxed: published by the depth.
        self.owner.store(me.get(), Ordering::Relaxed);
        // Release: pairs with Acquire in `reenter`.
        self.depth.store(1, Ordering::Release);
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

    /// A wait of the running task goes on. If the lock is granted and not claimed, that may be to another branch of the same task.
    fn note_early_poll(&self) {
        // Relaxed: the release that granted the lock came before the wake that led to this poll.
        if self.depth.load(Ordering::Relaxed) == 0 {
            // Relaxed: see the header.
            self.polled_early.store(true, Ordering::Relaxed);
        }
    }

    /// The running task claims the lock: polls its other branches again, if one was polled too early. Before the claim is complete: if the waker panics, the lock is still the waiter's.
    fn wake_branches(&self, cx: &Context<'_>) {
        // Relaxed: see the header. A look first: it is seldom set.
        if self.polled_early.load(Ordering::Relaxed) {
            // Relaxed: as above. Before the wake, in which a branch may be polled too early once more.
            self.polled_early.store(false, Ordering::Relaxed);
            let still_early = EarlyOnPanic(&self.polled_early);
            wake_again(cx);
            core::mem::forget(still_early);
        }
    }

    /// One less deep; the last unlocks. True if there were waiters.
    fn release_once(&self) -> bool {
        // AcqRel: Release pairs with Acquire in the `release_once` that reaches zero, which is this same operation.
        if self.depth.fetch_sub(1, Ordering::AcqRel) > 1 {
            return false;
        }
        // Relaxed: published by the unlock; until then `me` would find the depth at zero.
        self.owner.store(NO_TASK, Ordering::Relaxed);
        self.lock.unlock() == Unlocked::WithWaiters
    }

    /// A guard is used, by whatever task.
    #[inline(always)]
    fn touch(&self) {
        // Relaxed: a number to look at.
        self.lock.probe.touch_shared(self.owner.load(Ordering::Relaxed));
    }
}

/// The waker panicked: the branches are still to be woken, by the poll that claims the lock.
struct EarlyOnPanic<'l>(&'l AtomicBool);

impl Drop for EarlyOnPanic<'_> {
    fn drop(&mut self) {
        // Relaxed: as in `RawReentrantMutex::wake_branches`.
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<R: Holder + LockRef<Raw = RawReentrantMutex>> Guard<R> {
    /// Returns how many times the task has locked the mutex now.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{ReentrantMutex, ReentrantMutexGuard, task};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mutex = ReentrantMutex::new(());
    /// let depth = task::identify(async {
    ///     let guard = mutex.lock().await.unwrap();
    ///     ReentrantMutexGuard::depth(&guard)
    /// });
    /// assert_eq!(depth.await, 1);
    /// # }
    /// ```
    pub fn depth(guard: &Self) -> u32 {
        // Relaxed: a number to look at.
        guard.holder().raw().depth.load(Ordering::Relaxed)
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
        let (owner, depth) = (self.raw.owner.load(Ordering::Relaxed), self.raw.depth.load(Ordering::Relaxed));
        let mut shown = f.debug_struct("ReentrantMutex");
        shown.field("owner", &owner).field("depth", &depth);
        if self.is_locked() {
            shown.field("value", &self.raw.lock.probe.shown());
        }
        shown.finish_non_exhaustive()
    }
}

impl<T: ?Sized> sealed::Sealed for &ReentrantMutex<T> {}
impl<T: ?Sized> sealed::Sealed for Arc<ReentrantMutex<T>> {}

// SAFETY: made only by the task that owns the lock; only `&T` is given, and every other task is kept out until `release`.
unsafe impl<T: ?Sized> Holder for &ReentrantMutex<T> {
    type Target = T;

    fn value(&self) -> *mut T {
        LockRef::value(self)
    }

    fn release(&self) -> bool {
        self.raw().release_once()
    }

    #[inline(always)]
    fn touch(&self) {
        self.raw().touch();
    }
}

// SAFETY: as above; the `Arc` outlives the release.
unsafe impl<T: ?Sized> Holder for Arc<ReentrantMutex<T>> {
    type Target = T;

    fn value(&self) -> *mut T {
        LockRef::value(self)
    }

    fn release(&self) -> bool {
        self.raw().release_once()
    }

    #[inline(always)]
    fn touch(&self) {
        self.raw().touch();
    }
}

/// The operation of [`ReentrantMutex::lock`] and [`ReentrantMutex::lock_owned`]: `R` is the reference to the mutex.
pub struct LockReentrantOp<R> {
    mutex: RefSlot<R>,
    /// The wait is over: its waiter is in no queue, and the lock is not its own, or no longer.
    is_over: bool,
    site: Site,
}

impl<R: Holder + LockRef<Raw = RawReentrantMutex>> LockReentrantOp<R> {
    #[track_caller]
    fn wait(mutex: R) -> Wait<Single<Self>> {
        Wait::new(Self { mutex: RefSlot::new(mutex), is_over: false, site: Site::here() })
    }

    fn raw(&self) -> &RawReentrantMutex {
        self.mutex.get().raw()
    }

    fn guard(&mut self) -> Guard<R> {
        Guard::new(self.mutex.take())
    }

    /// As [`granted`](Self::granted), of a wait that was queued.
    fn granted_queued(&mut self, me: Option<TaskId>) -> Result<Guard<R>, NoTaskIdentity> {
        // First: if the waker of the next owner panics, the drop of the future must not unlock again.
        self.is_over = me.is_none();
        self.granted(me)
    }

    /// The lock has been granted to the task that polls now. Its identity was asked for before: the runtime that knows it may panic.
    fn granted(&mut self, me: Option<TaskId>) -> Result<Guard<R>, NoTaskIdentity> {
        match me {
            Some(me) => {
                self.raw().own(me, self.site);
                Ok(self.guard())
            }
            None => {
                self.raw().lock.unlock();
                Err(NoTaskIdentity)
            }
        }
    }
}

impl<R> fmt::Debug for LockReentrantOp<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockReentrantOp")
    }
}

impl<R: Holder + LockRef<Raw = RawReentrantMutex>> Op for LockReentrantOp<R> {
    type Output = Result<Guard<R>, NoTaskIdentity>;
    type Unfinished<E> = E;
    const NAME: &'static str =
        if R::IS_COPIED { "tasuki::future::LockReentrant" } else { "tasuki::future::LockReentrantOwned" };

    fn try_now(&mut self) -> Option<Self::Output> {
        match self.raw().acquire_now(self.site) {
            Ok(acquired) => acquired.then(|| Ok(self.guard())),
            Err(no_identity) => Some(Err(no_identity)),
        }
    }

    fn is_ready(&self) -> bool {
        // Without an identity it is refused at once; the owner goes deeper at once.
        let owner = self.raw().owner.load(Ordering::Relaxed);
        task::current().is_none_or(|me| me.get() == owner) || self.raw().lock.is_ready()
    }

    fn target(&self) -> Target<'_> {
        Target::lock(&self.raw().lock.probe, LockMode::Exclusive)
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = task::current();
        let poll = self.raw().lock.enqueue_or_lock(slot, cx, false);
        if poll.is_pending() {
            self.raw().note_early_poll();
        }
        poll.map(|()| self.granted(me))
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.is_over, "`{}` polled after it was finished", Self::NAME);
        let me = task::current();
        // Another branch of the same task may have got the lock meanwhile: then this one need not wait for it.
        let shares =
            waiter.get().state() != WaiterState::Notified && me.is_some_and(|me| self.raw().reenter(me));
        if shares {
            let guard = self.guard();
            // First: if the waker panics when it is dropped, the drop of the future has nothing left to do.
            self.is_over = true;
            let granted = guard.holder().raw().lock.cancel(waiter);
            debug_assert!(!granted, "no other wait can be granted a lock that this task holds");
            return Poll::Ready(Ok(guard));
        }
        let poll = self.raw().lock.poll_queued(waiter, cx, false);
        if poll.is_pending() {
            self.raw().note_early_poll();
        } else {
            self.raw().wake_branches(cx);
        }
        poll.map(|()| self.granted_queued(me))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        if self.is_over || !self.raw().lock.cancel(waiter) {
            return None;
        }
        // Dropped where no task has an identity, or none can be told: `granted` has passed the lock on.
        self.granted_queued(caught(task::current).flatten()).ok().map(Ok)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }

    fn ended_by_panic(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panic_place::line_of_panic;

    /// As deep as it goes: the panic points to the line of the caller, and nothing has changed.
    #[test]
    fn one_lock_too_many_names_its_caller() {
        let mutex = Arc::new(ReentrantMutex::new(()));
        let mut job = std::boxed::Box::pin(crate::task::identify(core::future::poll_fn(|_| {
            let guard = mutex.try_lock().unwrap().unwrap();
            mutex.raw.depth.store(u32::MAX, Ordering::Relaxed);
            let place = (line!(), line_of_panic(|| drop(mutex.try_lock())));
            assert_eq!(place, (place.0, place.0));
            let place = (line!(), line_of_panic(|| drop(mutex.clone().try_lock_owned())));
            assert_eq!(place, (place.0, place.0));
            assert_eq!(mutex.raw.depth.load(Ordering::Relaxed), u32::MAX);
            mutex.raw.depth.store(1, Ordering::Relaxed);
            drop(guard);
            Poll::Ready(mutex.try_lock().unwrap().is_some())
        })));
        let mut cx = Context::from_waker(core::task::Waker::noop());
        assert_eq!(core::future::Future::poll(job.as_mut(), &mut cx), Poll::Ready(true));
    }
}
