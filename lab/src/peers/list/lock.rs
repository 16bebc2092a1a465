//! Lists every reader-writer lock, condition variable and timer that is measured.

use super::super::{async_io, async_lock, asyncband, maitake, mea, saa, standard, tasuki, tokio};
use super::{list, visitor};
use crate::peer::{AsyncCondvar, AsyncRwLock, Timer};

visitor! {
    /// Visits every reader-writer lock with its own type.
    VisitRwLock: AsyncRwLock
}
list! {
    /// Names every reader-writer lock the lab knows.
    each_rwlock: VisitRwLock;
    tasuki::Readers,
    tokio::TokioRwLock,
    async_lock::AsyncLockRwLock,
    asyncband::RwLock,
    mea::RwLock,
    maitake::MaitakeRwLock,
    saa::SaaRwLock,
    standard::StdRwLock,
}
visitor! {
    /// Visits every condition variable with its own type.
    VisitCondvar: AsyncCondvar
}
list! {
    /// Names every condition variable the lab knows.
    each_condvar: VisitCondvar;
    tasuki::Notified,
    asyncband::Condvar,
    mea::Condvar,
}
visitor! {
    /// Visits every timer with its own type.
    VisitTimer: Timer
}
list! {
    /// Names every timer the lab knows.
    each_timer: VisitTimer;
    tasuki::Timeout,
    tasuki::Sleep,
    tokio::TokioSleep,
    tokio::TokioTimeout,
    async_io::AsyncIoTimer,
}
