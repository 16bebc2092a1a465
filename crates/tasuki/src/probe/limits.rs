//! Counts, per thread, the limits (`.timeout` and the like) around the poll that runs: a wait that begins under one is ended by it, so `inspect/` must not report it.

use core::cell::Cell;

use std::thread::LocalKey;

std::thread_local! {
    /// How many limits there are around the poll that runs.
    static LIMITS: Cell<u32> = const { Cell::new(0) };
    /// How many limits of a runtime. They may be over before the wait is: a future that is borrowed is polled without them later, and its wait is not noted as one with a limit.
    static RUNTIME_LIMITS: Cell<u32> = const { Cell::new(0) };
}

fn counted<R>(limits: &'static LocalKey<Cell<u32>>, poll: impl FnOnce() -> R) -> R {
    struct Less(&'static LocalKey<Cell<u32>>);
    impl Drop for Less {
        fn drop(&mut self) {
            let _ = self.0.try_with(|limits| limits.set(limits.get().wrapping_sub(1)));
        }
    }
    let _ = limits.try_with(|limits| limits.set(limits.get().wrapping_add(1)));
    let _less = Less(limits);
    poll()
}

/// Runs a poll that a limit ends, if nothing else does and the limit ever comes.
pub(crate) fn limited<R>(ends: impl FnOnce() -> bool, poll: impl FnOnce() -> R) -> R {
    if ends() { counted(&LIMITS, poll) } else { poll() }
}

/// Runs a poll that a limit of the runtime, a sleep beside it, ends: strict mode ([`strict`](crate::task::strict)) does not panic in it.
pub fn with_limit<R>(poll: impl FnOnce() -> R) -> R {
    counted(&RUNTIME_LIMITS, poll)
}

/// Runs what waits with its thread: the limits around the poll that this thread is in do not end it, for that poll does not end before.
pub fn without_limits<R>(wait: impl FnOnce() -> R) -> R {
    struct RestoreLimits(u32, u32);
    impl Drop for RestoreLimits {
        fn drop(&mut self) {
            let _ = LIMITS.try_with(|limits| limits.set(self.0));
            let _ = RUNTIME_LIMITS.try_with(|limits| limits.set(self.1));
        }
    }
    let taken = |limits: &'static LocalKey<Cell<u32>>| limits.try_with(Cell::take).unwrap_or(0);
    let _restore = RestoreLimits(taken(&LIMITS), taken(&RUNTIME_LIMITS));
    wait()
}

/// Does a limit end the poll that runs, if nothing else does?
pub(super) fn is_limited() -> bool {
    LIMITS.try_with(Cell::get).unwrap_or(0) > 0
}

/// Is there a limit of any kind around the poll that runs?
pub(super) fn has_limit() -> bool {
    is_limited() || RUNTIME_LIMITS.try_with(Cell::get).unwrap_or(0) > 0
}
