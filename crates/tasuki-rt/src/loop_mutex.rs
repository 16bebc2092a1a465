//! The mutex of event loops: a task that waited on a loop resumes on it and unlocks on it.
//!
//! Future and guard are not `Send`, so a task that waits for it, or holds it across an await, is a pinned one: it resumes where
//! it waited by construction, and cannot unlock elsewhere. The lock itself, with its states and orderings, is
//! [`tasuki::runtime::KeyedRawMutex`]: each waiter carries the key of its loop, and the release that grants the lock makes that the
//! owner, under the lock of the queue. What a key is, and where a guard may be dropped, is said here.

use crate::context;
use crate::error::NotOnEventLoop;
use crate::event_loop::WorkerId;
use std::cell::UnsafeCell;
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use tasuki::runtime::{
    Domain, Key, KeyedGuard, KeyedLock, KeyedMutex, KeyedRawMutex, MappedKeyedGuard, keyed_lock,
    keyed_try_lock,
};

/// The event loops of the process, as owners of locks.
#[derive(Debug)]
#[doc(hidden)]
pub enum EventLoops {}

/// The lower half of a key is the number of the worker plus one; the upper half is as much of the runtime's number as fits.
const WORKER_BITS: u32 = usize::BITS / 2;

fn key_of(runtime: u32, worker: usize) -> Key {
    let key = (runtime as usize) << WORKER_BITS | (worker + 1);
    Key(NonZeroUsize::new(key).expect("a worker plus one is not 0"))
}

fn worker_of(key: Key) -> WorkerId {
    let index = (key.0.get() & ((1 << WORKER_BITS) - 1)) - 1;
    // With half of 32 bits the runtime's number may be cut off.
    if WORKER_BITS == u32::BITS { WorkerId::of(runtime_of(key) as u32, index) } else { WorkerId::new(index) }
}

fn runtime_of(key: Key) -> usize {
    key.0.get() >> WORKER_BITS
}

impl Domain for EventLoops {
    type Error = NotOnEventLoop;

    fn here() -> Result<Key, NotOnEventLoop> {
        context::with(|context| {
            let context = context?;
            Some(key_of(context.shared.id, context.event_loop()?))
        })
        .ok_or(NotOnEventLoop)
    }

    fn elsewhere() -> NotOnEventLoop {
        NotOnEventLoop
    }

    /// On the loop itself, and where its runtime is not: there the thread has left the loop. Not on another loop of its runtime, which
    /// can be on the same thread only in a simulation.
    fn may_release(owner: Key) -> bool {
        Self::here().map_or(true, |here| here == owner || runtime_of(here) != runtime_of(owner))
    }
}

/// A mutex whose waiters resume on the event loop (worker) that they waited on, and whose guard can be dropped only there.
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
///
/// # Not `Send`
///
/// The lock future and the guard are not `Send`. A task that uses them across an await is made by
/// [`spawn_on`](crate::spawn_on) or [`spawn_local`](crate::spawn_local), and stays on its loop; unlocking on another thread does not
/// compile:
///
/// ```compile_fail,E0277
/// # use tasuki_rt::LoopMutex;
/// # static MUTEX: LoopMutex<i32> = LoopMutex::new(0);
/// let guard = MUTEX.try_lock().unwrap().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
///
/// Nor does waiting for it in a task that may move:
///
/// ```compile_fail,E0277
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
/// As with [`tasuki::Mutex`]: dropping a lock future cancels the wait; if it had been granted the lock already, the next waiter gets it. `.timeout`, `.deadline` and `.or_cancelled` are those of every
/// [`Wait`](tasuki::future::Wait).
///
/// # Panic
///
/// A panic while the guard is held unlocks. A guard that reaches another thread by unsafe code panics there instead of unlocking, and so does one that a simulation moves to another of its loops. One that outlives
/// its loop on the same thread, as the result of a simulation may, unlocks.
///
/// # Memory ordering
///
/// Everything done before an unlock happens before everything done after the lock that follows it.
///
/// # Re-entrancy
///
/// Locking twice in one task waits for ever.
///
/// # Interrupts
///
/// A signal handler must not use it.
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
/// Where it does not matter on which thread a task resumes, use [`tasuki::Mutex`], which works under every executor.
pub struct LoopMutex<T: ?Sized> {
    raw: KeyedRawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex owns the value.
unsafe impl<T: ?Sized + Send> Send for LoopMutex<T> {}
// SAFETY: it gives the value to one thread at a time, so the value needs to be `Send` only.
unsafe impl<T: ?Sized + Send> Sync for LoopMutex<T> {}

// As `tasuki::Mutex`: the value may be seen after a panic that left it half changed; that is what a lock without poisoning means.
impl<T: ?Sized> UnwindSafe for LoopMutex<T> {}
impl<T: ?Sized> RefUnwindSafe for LoopMutex<T> {}

// SAFETY: two fields of the mutex; the value is reached through guards, or by `&mut`.
unsafe impl<T: ?Sized> KeyedMutex for LoopMutex<T> {
    type Value = T;
    type Domain = EventLoops;

    fn raw(&self) -> &KeyedRawMutex {
        &self.raw
    }

    fn value(&self) -> *mut T {
        self.value.get()
    }
}

/// The future of [`LoopMutex::lock`].
pub type LoopLock<'a, T> = KeyedLock<&'a LoopMutex<T>>;

/// The future of [`LoopMutex::lock_owned`].
pub type LoopLockOwned<T> = KeyedLock<Arc<LoopMutex<T>>>;

/// The guard of [`LoopMutex::lock`]: the lock is held until it is dropped, on the loop where it was taken.
///
/// `LoopMutexGuard::unlock(guard)` says so; `map` and `filter_map` narrow it to a part of the value.
pub type LoopMutexGuard<'a, T> = KeyedGuard<&'a LoopMutex<T>>;

/// The guard of [`LoopMutex::lock_owned`].
pub type OwnedLoopMutexGuard<T> = KeyedGuard<Arc<LoopMutex<T>>>;

/// A [`LoopMutexGuard`] of a part of the value.
pub type MappedLoopMutexGuard<'a, T, U> = MappedKeyedGuard<&'a LoopMutex<T>, U>;

/// An [`OwnedLoopMutexGuard`] of a part of the value.
pub type OwnedMappedLoopMutexGuard<T, U> = MappedKeyedGuard<Arc<LoopMutex<T>>, U>;

impl<T> LoopMutex<T> {
    /// Creates a free mutex.
    ///
    /// # Examples
    ///
    /// ```
    /// static MUTEX: tasuki_rt::LoopMutex<i32> = tasuki_rt::LoopMutex::new(1);
    /// assert!(!MUTEX.is_locked());
    /// ```
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self { raw: KeyedRawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// Gives the mutex a name, which the reports of [`tasuki::inspect`] show. Where `inspect` is not active the name is not kept.
    ///
    /// # Examples
    ///
    /// ```
    /// static ACCOUNTS: tasuki_rt::LoopMutex<u32> = tasuki_rt::LoopMutex::new(0).named("accounts");
    /// assert!(!ACCOUNTS.is_locked());
    /// ```
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.raw.rename(name);
        self
    }

    /// Returns the value. Owning the mutex proves that it is not locked.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::LoopMutex::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> LoopMutex<T> {
    /// Locks the mutex; waits while it is held, and resumes on the same event loop.
    ///
    /// # Errors
    ///
    /// [`NotOnEventLoop`] when it is polled on a thread that is no event loop: at once, and without a place in the queue. A wait that has begun on a loop and
    /// is polled elsewhere ends with the same error, and gives up its place.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place, never the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tasuki_rt::{Elapsed, LoopMutex, WorkerId};
    ///
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async {
    ///         let mutex = LoopMutex::new(1);
    ///         let mut guard = mutex.lock().await.unwrap();
    ///         assert_eq!(mutex.lock().timeout(Duration::ZERO).await.err(), Some(Elapsed));
    ///         *guard += 1;
    ///         drop(guard);
    ///         mutex.into_inner()
    ///     });
    ///     assert_eq!(task.await.unwrap(), 2);
    /// });
    /// ```
    #[track_caller]
    pub fn lock(&self) -> LoopLock<'_, T> {
        keyed_lock(self)
    }

    /// As [`lock`](Self::lock); the guard keeps the mutex alive.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock): a dropped future loses its place in the queue, never the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tasuki_rt::{LoopMutex, OwnedLoopMutexGuard, WorkerId};
    ///
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async {
    ///         let mutex = Arc::new(LoopMutex::new((1, "one")));
    ///         let guard = mutex.lock_owned().await.unwrap();
    ///         let name = OwnedLoopMutexGuard::map(guard, |pair| &mut pair.1);
    ///         assert_eq!(*name, "one");
    ///     });
    ///     task.await.unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn lock_owned(self: Arc<Self>) -> LoopLockOwned<T> {
        keyed_lock(self)
    }

    /// Tries to lock, without waiting.
    ///
    /// # Errors
    ///
    /// [`NotOnEventLoop`] on a thread that is no event loop.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::{LoopMutex, LoopMutexGuard, WorkerId};
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async {
    ///         let mutex = LoopMutex::new(1);
    ///         let guard = mutex.try_lock().unwrap().unwrap();
    ///         assert!(mutex.try_lock().unwrap().is_none());
    ///         LoopMutexGuard::unlock(guard);
    ///     });
    ///     task.await.unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn try_lock(&self) -> Result<Option<LoopMutexGuard<'_, T>>, NotOnEventLoop> {
        keyed_try_lock(self)
    }

    /// As [`try_lock`](Self::try_lock); the guard keeps the mutex alive.
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Self::try_lock).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tasuki_rt::{LoopMutex, NotOnEventLoop};
    /// let mutex = Arc::new(LoopMutex::new(1));
    /// assert_eq!(mutex.try_lock_owned().err(), Some(NotOnEventLoop));
    /// ```
    #[track_caller]
    pub fn try_lock_owned(self: Arc<Self>) -> Result<Option<OwnedLoopMutexGuard<T>>, NotOnEventLoop> {
        keyed_try_lock(self)
    }

    /// Returns the value, without locking: the borrow proves that it is not locked.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut mutex = tasuki_rt::LoopMutex::new(1);
    /// *mutex.get_mut() = 2;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns true if the lock is held, or granted to a waiter.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!tasuki_rt::LoopMutex::new(1).is_locked());
    /// ```
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    /// Returns the worker, in its runtime, whose loop owns the lock: from the moment it is granted, before the new owner runs.
    /// For information: it may have changed when it is looked at.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::LoopMutex::new(1).owner(), None);
    /// ```
    pub fn owner(&self) -> Option<WorkerId> {
        self.raw.owner().map(worker_of)
    }
}

impl<T: Default> Default for LoopMutex<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for LoopMutex<T> {
    #[track_caller]
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for LoopMutex<T> {
    /// Shows the value if the lock can be had at once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LoopMutex");
        match self.try_lock() {
            Ok(Some(value)) => shown.field("value", &&*value).finish(),
            _ => {
                shown.field("owner", &self.owner());
                if self.is_locked() {
                    shown.field("value", &self.raw);
                }
                shown.finish_non_exhaustive()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_which_worker_of_which_runtime() {
        for runtime in [1, 2, u16::MAX.into()] {
            for worker in [0, 1, usize::from(u16::MAX) - 1] {
                let key = key_of(runtime, worker);
                assert_eq!((runtime_of(key), worker_of(key)), (runtime as usize, WorkerId::new(worker)));
            }
        }
    }
}
