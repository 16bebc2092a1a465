//! What the primitives tell `inspect/`, and checks with debug assertions; zero-sized and empty where neither is active.
//!
//! * **No foreign code under the queue lock.** Locking a queue raises a per-thread depth; every call into a
//!   `Waker` asserts that the depth is zero.
//! * **Holders and waits** ([`LockProbe`], [`WaitBegin`], [`WaitNote`]), in debug builds and with the feature `inspect`. A lock says which task takes, is granted and
//!   releases it; a wait says for what it waits, from its first poll to its end. A task with an identity that is about to wait for a lock that it holds is reported
//!   at once ([`task::on_self_deadlock`](crate::task::on_self_deadlock)); all other deadlocks are found in `inspect/`. Only tasks that are known are noted: by an identity, or inside of a poll of a wait by their waker.
//!
//! A probe changes no result. If the driver panics when a probe asks it for the running task, the panic is caught, and the task counts as one without an identity.

#[cfg(all(debug_assertions, feature = "std"))]
mod depth {
    use core::cell::Cell;

    std::thread_local! {
        static LOCKED_QUEUES: Cell<u32> = const { Cell::new(0) };
    }

    // Under the model all threads share one OS thread, so a per-thread depth means nothing.
    pub(crate) fn queue_locked() {
        if !crate::shim::MODEL {
            let _ = LOCKED_QUEUES.try_with(|depth| depth.set(depth.get() + 1));
        }
    }

    pub(crate) fn queue_unlocked() {
        if !crate::shim::MODEL {
            let _ = LOCKED_QUEUES.try_with(|depth| depth.set(depth.get() - 1));
        }
    }

    #[track_caller]
    pub(crate) fn foreign_code() {
        let depth = LOCKED_QUEUES.try_with(Cell::get).unwrap_or(0);
        assert_eq!(depth, 0, "foreign code must not run while a wait queue is locked");
    }
}

#[cfg(not(all(debug_assertions, feature = "std")))]
mod depth {
    #[inline(always)]
    pub(crate) fn queue_locked() {}
    #[inline(always)]
    pub(crate) fn queue_unlocked() {}
    #[inline(always)]
    pub(crate) fn foreign_code() {}
}

pub(crate) use depth::{foreign_code, queue_locked, queue_unlocked};

/// How a lock is held, or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    Exclusive,
    Read,
    Upgradable,
    /// Wanted only: from `Upgradable` to `Exclusive`.
    Upgrade,
    Permits,
    /// Held only: by a permit that may be sent to any other task, and nothing tells.
    OwnedPermits,
}

impl LockMode {
    /// How the permits of a semaphore are held, by a permit that borrows it or by one that does not.
    pub(crate) const fn permits(is_borrowed: bool) -> Self {
        if is_borrowed { Self::Permits } else { Self::OwnedPermits }
    }

    #[cfg_attr(
        not(all(any(debug_assertions, feature = "inspect"), feature = "std")),
        expect(dead_code, reason = "nothing is noted then")
    )]
    pub(crate) const fn is_permits(self) -> bool {
        matches!(self, Self::Permits | Self::OwnedPermits)
    }
}

#[cfg(all(any(debug_assertions, feature = "inspect"), feature = "std"))]
mod limits;
#[cfg(not(all(any(debug_assertions, feature = "inspect"), feature = "std")))]
#[path = "no_notes.rs"]
mod notes;
#[cfg(all(any(debug_assertions, feature = "inspect"), feature = "std"))]
mod notes;

#[cfg(all(any(debug_assertions, feature = "inspect"), feature = "std"))]
mod shown_lock;
#[cfg(feature = "std")]
mod signal_wait;
#[cfg(all(any(debug_assertions, feature = "inspect"), feature = "std"))]
mod wait_note;

#[cfg(feature = "std")]
use notes::WaitSlot;
#[cfg(feature = "alloc")]
pub(crate) use notes::limited;
pub(crate) use notes::{
    GrantProbe, Held, LockProbe, Polling, Site, Target, WaitBegin, WaitNote, waits_have_moved,
};
#[cfg(feature = "std")]
pub use notes::{with_limit, without_limits};
#[cfg(feature = "std")]
pub use signal_wait::{SignalSlot, SignalWait};
