//! The mutex of event loops: whoever waited on a loop resumes and unlocks on it.
//!
//! It is [`tasuki::Mutex`] with an owner. Future and guard are not `Send`, so a task that waits for it, or holds it
//! across an await, is a pinned one: it resumes where it waited by construction, and cannot unlock elsewhere.
//!
//! # The owner
//!
//! A word says which loop owns the lock. The order of the writes to it:
//!
//! | event | owner | by |
//! |---|---|---|
//! | lock, free | here | the poll that takes it |
//! | unlock, somebody waits | `here => the waiter's loop` | the scheduler, when the unlock posts the waiter ([`transferred`]) |
//! | poll of the new owner | its loop, again | the poll |
//! | unlock, nobody waits | `here => nobody` | the unlock |
//!
//! The arrows are compare-exchanges from the unlocking loop's own key. Nobody but this thread can write that key, except for a
//! waiter that is on this loop, which cannot run now; so a late arrow never overwrites a newer owner.

use crate::context;
use crate::error::NotOnEventLoop;
use crate::event_loop::WorkerId;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tasuki::{Lock, Mutex, MutexGuard};

/// Which loop: the runtime in the upper half, the worker plus one in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoopKey(u64);

impl LoopKey {
    const NOBODY: Self = Self(0);

    fn new(runtime: u32, worker: usize) -> Self {
        Self(u64::from(runtime) << 32 | (worker as u64 + 1))
    }

    fn here() -> Result<Self, NotOnEventLoop> {
        context::with(|context| {
            let context = context?;
            Some(Self::new(context.shared.id, context.event_loop()?))
        })
        .ok_or(NotOnEventLoop)
    }

    fn worker(self) -> Option<WorkerId> {
        let worker = (self.0 & u64::from(u32::MAX)) as usize;
        worker.checked_sub(1).map(WorkerId::new)
    }
}

/// The word. Relaxed everywhere: the lock orders what it guards, and the word is compared by the thread that wrote it, or
/// read for information.
#[derive(Debug)]
struct Owner(AtomicU64);

impl Owner {
    fn get(&self) -> LoopKey {
        LoopKey(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, owner: LoopKey) {
        self.0.store(owner.0, Ordering::Relaxed);
    }

    /// `from => to`, unless somebody newer owns it.
    fn pass(&self, from: LoopKey, to: LoopKey) {
        let _ = self.0.compare_exchange(from.0, to.0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

thread_local! {
    /// The owner word of the mutex that is being unlocked on this thread, until the new owner is known.
    static PASSING: Cell<Option<(NonNull<Owner>, LoopKey)>> = const { Cell::new(None) };
}

/// The scheduler posts the task that was given a baton to this loop.
pub(crate) fn transferred(runtime: u32, worker: usize) {
    if let Some((owner, from)) = PASSING.take() {
        // SAFETY: `passing` borrows the owner for as long as the pointer is there.
        unsafe { owner.as_ref() }.pass(from, LoopKey::new(runtime, worker));
    }
}

/// Runs an unlock; true if it passed the lock to somebody.
fn passing(owner: &Owner, here: LoopKey, unlock: impl FnOnce()) -> bool {
    struct Restore(Option<(NonNull<Owner>, LoopKey)>);
    impl Drop for Restore {
        fn drop(&mut self) {
            PASSING.set(self.0);
        }
    }
    let _restore = Restore(PASSING.replace(Some((NonNull::from(owner), here))));
    unlock();
    PASSING.take().is_none()
}

/// A mutex whose waiters resume on the event loop they waited on, and whose owner unlocks on its own.
///
/// The lock future and the guard are not `Send`. A task that uses them across an await is made by
/// [`spawn_on`](crate::spawn_on) or [`spawn_local`](crate::spawn_local), and stays on its loop; unlocking on another thread does not
/// compile:
///
/// ```compile_fail
/// # use tasuki_rt::LoopMutex;
/// # static MUTEX: LoopMutex<i32> = LoopMutex::new(0);
/// let guard = MUTEX.try_lock().unwrap().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
///
/// Nor does waiting for it in a task that may move:
///
/// ```compile_fail
/// # use tasuki_rt::LoopMutex;
/// # static MUTEX: LoopMutex<i32> = LoopMutex::new(0);
/// tasuki_rt::spawn(async { drop(MUTEX.lock().await) });
/// ```
///
/// # Order
///
/// First come, first served, among all loops.
///
/// # Cancel
///
/// As with [`tasuki::Mutex`]: a dropped future gives up its place; if it had been given the lock already, the next one gets it,
/// and the late post of the dropped one does nothing.
///
/// # Panic
///
/// A panic while the guard is held unlocks. A guard that reaches another thread all the same, by unsafe code, panics there
/// instead of unlocking.
///
/// # Memory ordering
///
/// Everything done before an unlock happens before everything done after the lock that follows it.
///
/// # Re-entrancy
///
/// Locking twice in one task waits for ever.
///
/// # Limits
///
/// Waiting needs an event loop; elsewhere it is the error [`NotOnEventLoop`].
///
/// # Futurelock
///
/// As with [`tasuki::Mutex`].
///
/// # When to use something else
///
/// If it does not matter where a task goes on, [`tasuki::Mutex`] is for every executor and every thread.
///
/// # Examples
///
/// ```
/// use tasuki_rt::{EventLoop, LoopMutex, Runtime};
///
/// static TOTAL: LoopMutex<usize> = LoopMutex::new(0);
///
/// let runtime = Runtime::builder().workers(2).build().unwrap();
/// let mut tasks = Vec::new();
/// runtime.for_each_worker(|worker| {
///     tasks.push(runtime.spawn_on(worker, move || async move {
///         let mut total = TOTAL.lock().await.unwrap();
///         assert_eq!(EventLoop::current().unwrap().id(), worker);
///         *total += 1;
///     }));
/// });
/// runtime.block_on(async { for task in tasks { task.await.unwrap() } });
/// assert!(!TOTAL.is_locked());
/// ```
#[derive(Debug)]
pub struct LoopMutex<T: ?Sized> {
    owner: Owner,
    mutex: Mutex<T>,
}

impl<T> LoopMutex<T> {
    /// A free mutex.
    ///
    /// # Examples
    ///
    /// ```
    /// static MUTEX: tasuki_rt::LoopMutex<i32> = tasuki_rt::LoopMutex::new(1);
    /// assert!(!MUTEX.is_locked());
    /// ```
    pub const fn new(value: T) -> Self {
        Self { owner: Owner(AtomicU64::new(0)), mutex: Mutex::new(value) }
    }

    /// The value. Owning the mutex proves that nobody has it locked.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::LoopMutex::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.mutex.into_inner()
    }
}

impl<T: ?Sized> LoopMutex<T> {
    /// Waits until the lock is the caller's, and resumes on the same event loop.
    ///
    /// # Errors
    ///
    /// [`NotOnEventLoop`] when it is polled on a thread that is none: at once, and without taking a place.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place, never the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::{LoopMutex, WorkerId};
    ///
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async {
    ///         let mutex = LoopMutex::new(1);
    ///         *mutex.lock().await.unwrap() += 1;
    ///         mutex.into_inner()
    ///     });
    ///     assert_eq!(task.await.unwrap(), 2);
    /// });
    /// ```
    pub fn lock(&self) -> LoopLock<'_, T> {
        LoopLock { mutex: self, wait: Some(self.mutex.lock()), _here: PhantomData }
    }

    /// The lock, if it can be had without waiting.
    ///
    /// # Errors
    ///
    /// [`NotOnEventLoop`] on a thread that is none.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tasuki_rt::{LoopMutex, WorkerId};
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async {
    ///         let mutex = LoopMutex::new(1);
    ///         let guard = mutex.try_lock().unwrap().unwrap();
    ///         assert!(mutex.try_lock().unwrap().is_none());
    ///         drop(guard);
    ///     });
    ///     task.await.unwrap();
    /// });
    /// ```
    pub fn try_lock(&self) -> Result<Option<LoopMutexGuard<'_, T>>, NotOnEventLoop> {
        let here = LoopKey::here()?;
        Ok(self.mutex.try_lock().map(|guard| LoopMutexGuard::new(self, guard, here)))
    }

    /// The value, without locking: the borrow proves that nobody has it locked.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut mutex = tasuki_rt::LoopMutex::new(1);
    /// *mutex.get_mut() = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.mutex.get_mut()
    }

    /// Is it locked now?
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!tasuki_rt::LoopMutex::new(1).is_locked());
    /// ```
    pub fn is_locked(&self) -> bool {
        self.mutex.is_locked()
    }

    /// The worker, in its runtime, whose loop owns the lock: from the moment it is passed on, before the new owner runs.
    /// For information: it may have changed when it is looked at.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::LoopMutex::new(1).owner(), None);
    /// ```
    pub fn owner(&self) -> Option<WorkerId> {
        self.owner.get().worker()
    }

    /// Gives up a wait, or what it had been granted.
    fn withdraw(&self, withdraw: impl FnOnce()) {
        let Ok(here) = LoopKey::here() else { return withdraw() };
        let passed = passing(&self.owner, here, withdraw);
        if !passed && !self.mutex.is_locked() {
            self.owner.pass(here, LoopKey::NOBODY);
        }
    }
}

/// The future of [`LoopMutex::lock`].
#[must_use = "a wait does nothing unless it is awaited"]
pub struct LoopLock<'a, T: ?Sized> {
    mutex: &'a LoopMutex<T>,
    /// Pinned; `None` when it has been dropped.
    wait: Option<Lock<'a, T>>,
    /// Not `Send`: it belongs to the loop that polls it.
    _here: PhantomData<*const ()>,
}

impl<'a, T: ?Sized> Future for LoopLock<'a, T> {
    type Output = Result<LoopMutexGuard<'a, T>, NotOnEventLoop>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: a projection: `wait` is never moved, only dropped in place; the rest is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let here = match LoopKey::here() {
            Ok(here) => here,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let wait = this.wait.as_mut().expect("there until the drop");
        // SAFETY: as above.
        let wait = unsafe { Pin::new_unchecked(wait) };
        wait.poll(cx).map(|guard| Ok(LoopMutexGuard::new(this.mutex, guard, here)))
    }
}

impl<T: ?Sized> Drop for LoopLock<'_, T> {
    fn drop(&mut self) {
        let Self { mutex, wait, .. } = self;
        mutex.withdraw(|| *wait = None);
    }
}

impl<T: ?Sized> fmt::Debug for LoopLock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopLock").field("wait", &self.wait).finish_non_exhaustive()
    }
}

/// The guard of [`LoopMutex::lock`]: the lock is held until it is dropped, on the loop where it was taken.
#[must_use = "the lock is given back at once if the guard is not kept"]
pub struct LoopMutexGuard<'a, T: ?Sized> {
    mutex: &'a LoopMutex<T>,
    guard: ManuallyDrop<MutexGuard<'a, T>>,
    /// Not `Send`: it is dropped where it was taken.
    _here: PhantomData<*const ()>,
}

impl<'a, T: ?Sized> LoopMutexGuard<'a, T> {
    fn new(mutex: &'a LoopMutex<T>, guard: MutexGuard<'a, T>, here: LoopKey) -> Self {
        mutex.owner.set(here);
        Self { mutex, guard: ManuallyDrop::new(guard), _here: PhantomData }
    }
}

impl<T: ?Sized> Drop for LoopMutexGuard<'_, T> {
    fn drop(&mut self) {
        let owner = &self.mutex.owner;
        let here = LoopKey::here().unwrap_or(LoopKey::NOBODY);
        assert!(
            here == owner.get(),
            "a `LoopMutex` owned by {:?} is unlocked elsewhere: keep the guard on its event loop",
            owner.get().worker()
        );
        // SAFETY: dropped here and nowhere else; not used again.
        let passed = passing(owner, here, || unsafe { ManuallyDrop::drop(&mut self.guard) });
        if !passed {
            owner.pass(here, LoopKey::NOBODY);
        }
    }
}

impl<T: ?Sized> Deref for LoopMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for LoopMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for LoopMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for LoopMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
