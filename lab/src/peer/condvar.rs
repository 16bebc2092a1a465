//! The trait that every measured condition variable implements.

use super::Kind;
use std::future::Future;
use std::ops::DerefMut;

/// A condition variable with the mutex it belongs to, around a counter.
pub(crate) trait AsyncCondvar: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Proof of holding the mutex.
    type Guard<'a>: DerefMut<Target = u64>;
    /// A free mutex around zero, and no waiter.
    fn new() -> Self;
    /// Takes the mutex.
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>>;
    /// Gives the mutex up, waits for a notification, takes the mutex again.
    fn wait<'a>(&'a self, guard: Self::Guard<'a>) -> impl Future<Output = Self::Guard<'a>>;
    /// Notifies one waiter.
    fn notify_one(&self);
}
