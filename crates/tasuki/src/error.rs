//! The error types of the crate. Each message says what to do.

use core::error::Error;
use core::fmt;

/// The semaphore or channel was closed, so nothing can be acquired or received any more.
///
/// Returned by [`Semaphore::acquire`](crate::Semaphore::acquire), and by the receives and reservations of a [`channel`](crate::channel); also to those that wait when it is closed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let semaphore = tasuki::Semaphore::new(1);
/// semaphore.close();
/// assert_eq!(semaphore.acquire().await.unwrap_err(), tasuki::Closed);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: no more permits or messages will come, so stop waiting for them")
    }
}

impl Error for Closed {}

/// Why permits could not be acquired without waiting.
///
/// # Examples
///
/// ```
/// use tasuki::{Semaphore, TryAcquireError};
///
/// let semaphore = Semaphore::new(0);
/// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
/// semaphore.close();
/// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TryAcquireError {
    /// The semaphore was closed, so nothing can be acquired any more.
    Closed,
    /// There are not enough permits now, or waiters are queued for them already.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => Closed.fmt(f),
            Self::NoPermits => {
                f.write_str("not enough permits are free now: try again later, or wait with `acquire`")
            }
        }
    }
}

impl Error for TryAcquireError {}

impl From<Closed> for TryAcquireError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// The time limit of a wait was reached.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// let event = tasuki::Event::auto();
/// assert_eq!(event.wait().timeout(Duration::ZERO).await, Err(tasuki::Elapsed));
/// # }
/// ```
///
/// # Where the time comes from
///
/// * On `tasuki-rt` the workers keep the deadlines of their tasks, and a `LocalRuntime` those of its `block_on` as well.
/// * On tokio, with the feature `tokio`, tokio does, by its own clock. Its builder must have been told `enable_time`, otherwise the wait panics. Such a deadline comes only while that runtime runs.
/// * On the threads of a runtime with a [`Driver`](crate::runtime::Driver) of its own, that driver says where, also in [`block`](crate::future::Wait::block).
/// * Elsewhere (in the future of `tasuki_rt::Runtime::block_on`, too, which no worker polls), and in `block`, also under tokio, one thread of the process does. The first wait that needs it starts it. If the system refuses the thread, that wait panics, nothing is lost,
///   and the next wait tries again.
///
/// The child of a fork starts a thread of its own. Deadlines of waits that began before the fork come in the parent only.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed;

#[cfg(feature = "std")]
impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is over: the wait was cancelled, wait again or give up")
    }
}

#[cfg(feature = "std")]
impl Error for Elapsed {}

/// As [`ErrorKind::TimedOut`](std::io::ErrorKind::TimedOut).
#[cfg(feature = "std")]
impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

/// The token that limits a wait was cancelled.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let source = tasuki::CancellationSource::new();
/// source.request_cancel();
/// let event = tasuki::Event::auto();
/// assert_eq!(event.wait().or_cancelled(&source.token()).await, Err(tasuki::Cancelled));
/// # }
/// ```
#[cfg(feature = "alloc")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cancelled;

#[cfg(feature = "alloc")]
impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the token was cancelled: the wait has ended, finish what you are doing")
    }
}

#[cfg(feature = "alloc")]
impl Error for Cancelled {}

/// The task has no identity, by which a [`ReentrantMutex`](crate::ReentrantMutex) knows its owner.
///
/// # Examples
///
/// ```
/// let mutex = tasuki::ReentrantMutex::new(1);
/// assert_eq!(mutex.try_lock().unwrap_err(), tasuki::NoTaskIdentity);
/// ```
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoTaskIdentity;

#[cfg(feature = "std")]
impl fmt::Display for NoTaskIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task has no identity: wrap its outermost future in `tasuki::task::identify`")
    }
}

#[cfg(feature = "std")]
impl Error for NoTaskIdentity {}

/// A limit ended a wait, and the operation gives back what it was given.
///
/// The error of `.timeout()`, `.deadline()` and `.or_cancelled()` for two waits: the `upgrade` of a [`RwLockUpgradableReadGuard`](crate::RwLockUpgradableReadGuard), and the `send` of a
/// [`channel`](crate::channel). With all other waits the error is `E` alone, also with those that consume something: a limit that ends `recv` of a oneshot, `recv_owned` or `reserve_owned` drops the receiver or the sender, and a
/// [`Condvar`](crate::Condvar) wait has released its guard before.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tasuki::{RwLock, RwLockUpgradableReadGuard};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// let lock = RwLock::new(1);
/// let reader = lock.try_read().unwrap();
/// let guard = lock.try_upgradable_read().unwrap();
/// let ended = RwLockUpgradableReadGuard::upgrade(guard).timeout(Duration::from_millis(1)).await.unwrap_err();
/// assert_eq!((ended.limit, *ended.value), (tasuki::Elapsed, 1));
/// # drop(reader);
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct GivenBack<E, T> {
    /// The limit that was reached.
    pub limit: E,
    /// What the operation was given.
    pub value: T,
}

impl<E: fmt::Debug, T> fmt::Debug for GivenBack<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenBack").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<E: fmt::Display, T> fmt::Display for GivenBack<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limit.fmt(f)
    }
}

impl<E: Error, T> Error for GivenBack<E, T> {}

/// So that `?` works where only the limit is of interest; what was given back is dropped.
#[cfg(feature = "std")]
impl<T> From<GivenBack<Self, T>> for Elapsed {
    fn from(ended: GivenBack<Self, T>) -> Self {
        ended.limit
    }
}

/// So that `?` works where only the limit is of interest; what was given back is dropped.
#[cfg(feature = "alloc")]
impl<T> From<GivenBack<Self, T>> for Cancelled {
    fn from(ended: GivenBack<Self, T>) -> Self {
        ended.limit
    }
}
