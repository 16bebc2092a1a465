//! The trait that every measured semaphore implements.

use super::Kind;
use std::future::Future;

/// A counting semaphore, for tasks of any executor.
pub(crate) trait AsyncSemaphore: Send + Sync + 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// It cannot be waited for at all: only uncontended workloads apply.
    const NEVER_WAITS: bool = false;
    /// Its size.
    const BYTES: usize;
    /// Gives the permit back when dropped; a peer's `Result` around it is left as it is.
    type Permit<'a>: Send;
    /// A semaphore with so many permits.
    fn new(permits: usize) -> Self;
    /// The subject's own future, for one permit.
    fn acquire(&self) -> impl Future<Output = Self::Permit<'_>> + Send;
    /// Takes a permit if one is free.
    fn try_acquire(&self) -> Option<Self::Permit<'_>>;
    /// Size of the subject's own future.
    fn future_bytes(&self) -> usize {
        size_of_val(&self.acquire())
    }
}
