//! The trait that every measured timer implements.

use super::Kind;
use std::future::Future;
use std::time::Duration;

/// Something that is over after a time.
pub(crate) trait Timer: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// What must exist while timers do.
    type Home;
    /// Makes that.
    fn home() -> Self::Home;
    /// The subject's own future; does nothing before its first poll.
    fn after(home: &Self::Home, time: Duration) -> impl Future;
}
