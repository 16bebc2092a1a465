//! Lists every event, wait group, barrier and token that is measured.

use super::super::{
    async_lock, asyncband, event_listener, floors, futures, futures_intrusive, maitake, mea, saa, tasuki,
    tokio, tokio_util,
};
use super::{list, visitor};
use crate::peer::{AsyncBarrier, AutoEvent, Broadcast, Membership, StopCheck};

visitor! {
    /// Visits every auto event with its own type.
    VisitAuto: AutoEvent
}
list! {
    /// Names every auto event the lab knows.
    each_auto_event: VisitAuto;
    tasuki::Auto,
    tokio::TokioNotify,
    event_listener::Flagged,
    asyncband::Auto,
    futures_intrusive::IntrusiveEvent,
    maitake::MaitakeQueue,
    saa::SaaGate,
    futures::OneWaiter,
}
visitor! {
    /// Visits what releases all its waiters, with its own type.
    VisitBroadcast: Broadcast
}
list! {
    /// Names every manual event the lab knows.
    each_manual_event: VisitBroadcast;
    tasuki::Manual,
    tokio::TokioNotify,
    event_listener::Flagged,
    asyncband::Manual,
    futures_intrusive::IntrusiveEvent,
    maitake::MaitakeQueue,
    saa::SaaGate,
}
list! {
    /// Names every wait group, about to be released.
    each_group_release: VisitBroadcast;
    tasuki::Release,
    tokio_util::UtilRelease,
    asyncband::Release,
    mea::Release,
}
list! {
    /// Names every token that can be waited for.
    each_token: VisitBroadcast;
    tasuki::Token,
    tokio_util::UtilToken,
    event_listener::Flagged,
    asyncband::Shutdown,
    mea::Shutdown,
}
visitor! {
    /// Visits every token that can be asked.
    VisitStop: StopCheck
}
list! {
    /// Names every token that can be asked.
    each_stop: VisitStop;
    tasuki::Token,
    tokio_util::UtilToken,
    event_listener::Flagged,
    asyncband::Shutdown,
    mea::Shutdown,
    floors::OneLoad,
}
visitor! {
    /// Visits every wait group with its own type.
    VisitGroup: Membership
}
list! {
    /// Names every wait group the lab knows.
    each_group: VisitGroup;
    tasuki::Members,
    tasuki::OwnedMembers,
    tokio_util::UtilTracker,
    asyncband::Group,
    mea::Group,
    floors::AddSub,
}
visitor! {
    /// Visits every barrier with its own type.
    VisitBarrier: AsyncBarrier
}
list! {
    /// Names every barrier the lab knows.
    each_barrier: VisitBarrier;
    tasuki::Parties,
    tokio::TokioBarrier,
    async_lock::AsyncLockBarrier,
    asyncband::Barrier,
    mea::Barrier,
    saa::SaaBarrier,
}
