//! The trait that every measured wait group implements.

use super::Kind;
use std::future::Future;

/// Counts members, and is waited for until there are none.
pub(crate) trait Membership: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// It cannot be waited for at all: only uncontended workloads apply.
    const NEVER_WAITS: bool = false;
    /// A member for a while; leaves when dropped.
    type Member<'a>;
    /// A member that a task can own.
    type Owned: 'static;
    /// A group without members.
    fn new() -> Self;
    /// One member more.
    fn member(&self) -> Self::Member<'_>;
    /// One member more, that keeps the group.
    fn owned(&self) -> Self::Owned;
    /// Waits until all members have left.
    fn wait(self) -> impl Future<Output = ()> + 'static;
}
