//! The trait that every measured cancellation token implements.

use super::Kind;

/// Tells whether it was asked to stop; waiting for that is a [`Broadcast`](super::Broadcast).
pub(crate) trait StopCheck: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Not requested yet.
    fn new() -> Self;
    /// Whether it was requested.
    fn is_requested(&self) -> bool;
    /// Asks.
    fn request(&self);
}
