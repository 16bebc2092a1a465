//! What can go wrong, as small types. Each message says what to do.

use core::error::Error;
use core::fmt;

/// The semaphore was closed, so nothing can be acquired any more.
///
/// Given by [`Semaphore::acquire`](crate::Semaphore::acquire) and its kin, to waiters too.
///
/// # Examples
///
/// ```
/// let semaphore = tasuki::Semaphore::new(1);
/// semaphore.close();
/// assert_eq!(semaphore.acquire().block().unwrap_err(), tasuki::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore is closed: stop acquiring from it")
    }
}

impl Error for Closed {}

/// Why permits could not be had without waiting.
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
    /// There are not enough permits now, or somebody waits for them already.
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
