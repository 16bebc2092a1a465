//! The traits that every measured event implements: one waiter for a signal, or all waiters at once.

use super::Kind;
use std::future::Future;

/// Releases one waiter, or is kept for the next one.
pub(crate) trait AutoEvent: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// An event that is not set.
    fn new() -> Self;
    /// Signals it.
    fn set(&self);
    /// Waits for a signal and takes it.
    fn wait(&self) -> impl Future;
}

/// Something whose waiters are all released together: an event, a group, a token.
pub(crate) trait Broadcast: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Its size.
    const BYTES: usize;
    /// One that is not released.
    fn new() -> Self;
    /// Makes it wait again after a release; what can be used once only is made anew.
    fn rearm(&mut self);
    /// The subject's own future.
    fn wait(&self) -> impl Future;
    /// Releases all waiters.
    fn release(&self);
}
