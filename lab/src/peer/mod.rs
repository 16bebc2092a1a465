//! What the lab measures: one file per primitive with its trait, or a trait for each way to use it; implemented by the peers in `peers/`.
//!
//! The traits hand out each subject's own future, unboxed and unwrapped, and every workload is
//! monomorphised per subject, so that no subject pays for being measured.

mod barrier;
mod channel;
mod condvar;
mod event;
mod mutex;
mod net;
mod parker;
mod runtime;
mod rwlock;
mod semaphore;
mod timer;
mod token;
mod wait_group;

pub(crate) use barrier::AsyncBarrier;
pub(crate) use channel::{AsyncChannel, Oneshot, Received, Sent};
pub(crate) use condvar::AsyncCondvar;
pub(crate) use event::{AutoEvent, Broadcast};
pub(crate) use mutex::{AsyncMutex, LocalMutex};
pub(crate) use net::{KEYS, NetRuntime, NetWork, PLAIN_TEXT};
pub(crate) use parker::Park;
pub(crate) use runtime::{TaskRuntime, joined_runtime};
pub(crate) use rwlock::AsyncRwLock;
pub(crate) use semaphore::AsyncSemaphore;
pub(crate) use timer::Timer;
pub(crate) use token::StopCheck;
pub(crate) use wait_group::Membership;

/// Whose subject it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Tasuki's.
    Ours,
    /// Another crate's, doing the same job.
    Peer,
    /// A lower bound that does less: no tasks that wait, or no synchronisation.
    Floor,
}

impl Kind {
    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Peer => "peer",
            Kind::Floor => "floor",
        }
    }
}
