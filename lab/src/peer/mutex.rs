//! The traits that every measured mutex implements: one for any executor, one for a single thread.

use super::Kind;
use std::future::Future;
use std::ops::DerefMut;

/// A mutex around a counter, for tasks of any executor.
pub(crate) trait AsyncMutex: Send + Sync + 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Waiting blocks the thread, so it cannot be held over an `.await`.
    const BLOCKS: bool = false;
    /// It cannot be waited for at all: only uncontended workloads apply.
    const NEVER_WAITS: bool = false;
    /// Size of the lock around nothing.
    const LOCK_BYTES: usize;
    /// Proof of holding the lock.
    type Guard<'a>: DerefMut<Target = u64>;
    /// A free lock around zero.
    fn new() -> Self;
    /// The subject's own future.
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send;
    /// Takes the lock if it is free.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
    /// Size of the subject's own lock future.
    fn future_bytes(&self) -> usize {
        size_of_val(&self.lock())
    }
}

/// A mutex for the workloads of one thread: every [`AsyncMutex`], and unsynchronised ones.
pub(crate) trait LocalMutex: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind;
    /// Waiting blocks the thread.
    const BLOCKS: bool = false;
    /// Size of the lock around nothing.
    const LOCK_BYTES: usize;
    /// Proof of holding the lock.
    type Guard<'a>: DerefMut<Target = u64>;
    /// A free lock around zero.
    fn new() -> Self;
    /// The subject's own future.
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>>;
    /// Takes the lock if it is free.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
    /// Size of the subject's own lock future.
    fn future_bytes(&self) -> usize;
}

impl<M: AsyncMutex> LocalMutex for M {
    const NAME: &'static str = M::NAME;
    const KIND: Kind = M::KIND;
    const BLOCKS: bool = M::BLOCKS || M::NEVER_WAITS;
    const LOCK_BYTES: usize = M::LOCK_BYTES;
    type Guard<'a> = M::Guard<'a>;

    fn new() -> Self {
        M::new()
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> {
        AsyncMutex::lock(self)
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        AsyncMutex::try_lock(self)
    }

    fn future_bytes(&self) -> usize {
        AsyncMutex::future_bytes(self)
    }
}
