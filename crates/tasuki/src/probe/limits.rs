//! The limits around the poll that runs: a wait that begins under one ends by itself, and is in no cycle.

use core::cell::Cell;

std::thread_local! {
    /// How many limits there are around the poll that runs.
    static LIMITS: Cell<u32> = const { Cell::new(0) };
}

/// Runs a poll that a limit ends, if nothing else does.
pub(crate) fn limited<R>(poll: impl FnOnce() -> R) -> R {
    struct Less;
    impl Drop for Less {
        fn drop(&mut self) {
            let _ = LIMITS.try_with(|limits| limits.set(limits.get().wrapping_sub(1)));
        }
    }
    let _ = LIMITS.try_with(|limits| limits.set(limits.get().wrapping_add(1)));
    let _less = Less;
    poll()
}

/// Does a limit end the poll that runs, if nothing else does?
pub(super) fn is_limited() -> bool {
    LIMITS.try_with(Cell::get).unwrap_or(0) > 0
}
