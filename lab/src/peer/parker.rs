//! The trait that every measured thread parker implements.

use super::Kind;

/// Something a thread parks on; made by the thread that parks.
pub(crate) trait Park: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// The handle that wakes it.
    type Unparker: Send + 'static;
    /// A parker of this thread, without a token.
    fn new() -> Self;
    /// A handle for another thread.
    fn unparker(&self) -> Self::Unparker;
    /// Waits for a token and takes it.
    fn park(&self);
    /// Leaves a token.
    fn unpark(unparker: &Self::Unparker);
}
