//! Requests to stop.

use super::Kind;

/// Tells whether it was asked to stop; waiting for that is a [`Broadcast`](super::Broadcast).
pub(crate) trait StopCheck: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Nobody asked yet.
    fn new() -> Self;
    /// Whether somebody asked.
    fn is_requested(&self) -> bool;
    /// Asks.
    fn request(&self);
}
