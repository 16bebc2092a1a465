//! The trait that every measured barrier implements.

use super::Kind;
use std::future::Future;

/// A cyclic barrier, for tasks of any executor.
pub(crate) trait AsyncBarrier: Send + Sync + 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Its size.
    const BYTES: usize;
    /// Most parties it can have.
    const MOST: usize = usize::MAX;
    /// What an arrival gets at the end of its phase.
    type WaitResult: Send;
    /// A barrier for so many parties.
    fn new(parties: usize) -> Self;
    /// The subject's own future.
    fn arrive(&self) -> impl Future<Output = Self::WaitResult> + Send;
    /// Whether it was the one leader of its phase.
    fn is_leader(result: &Self::WaitResult) -> bool;
}
