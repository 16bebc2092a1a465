//! The trait that every measured reader-writer lock implements.

use super::Kind;
use std::future::Future;
use std::ops::{Deref, DerefMut};

/// A reader-writer lock around a counter, for tasks of any executor.
pub(crate) trait AsyncRwLock: Send + Sync + 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Size of the lock around nothing.
    const BYTES: usize;
    /// Proof of reading.
    type Read<'a>: Deref<Target = u64>;
    /// Proof of writing.
    type Write<'a>: DerefMut<Target = u64>;
    /// A free lock around zero.
    fn new() -> Self;
    /// The subject's own future.
    fn read(&self) -> impl Future<Output = Self::Read<'_>> + Send;
    /// The subject's own future.
    fn write(&self) -> impl Future<Output = Self::Write<'_>> + Send;
}
