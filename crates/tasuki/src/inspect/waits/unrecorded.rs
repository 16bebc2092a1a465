//! The tasks that have had a wait for which there was no record left.
//!
//! Such a wait is not noted, so it cannot keep its task out of a cycle, though the task may go on by it. What is reported of the task is only suspected. Records end where their number does not grow, with the feature
//! `critical-section` (`pool.rs`).
//!
//! A bit for each task, by its number; it is never cleared, and tasks whose numbers differ by a multiple of [`TASKS`] have the same. All Relaxed: a look that misses a new bit is as one that came before.

use std::sync::atomic::{AtomicU32, Ordering};

/// A power of two.
const TASKS: u64 = 1 << 16;

static BITS: [AtomicU32; TASKS as usize / 32] = [const { AtomicU32::new(0) }; TASKS as usize / 32];

/// Where the bit of a task is.
fn bit(task: u64) -> (&'static AtomicU32, u32) {
    let at = (task % TASKS) as usize;
    (&BITS[at / 32], 1 << (at % 32))
}

/// A wait of this task begins without a record.
#[cold]
pub(in crate::inspect) fn note(task: u64) {
    let (word, bit) = bit(task);
    word.fetch_or(bit, Ordering::Relaxed);
}

/// May the task have had such a wait?
pub(in crate::inspect) fn is_noted(task: u64) -> bool {
    let (word, bit) = bit(task);
    word.load(Ordering::Relaxed) & bit != 0
}

/// As if it had not, for tasks of other tests.
#[cfg(all(test, not(miri)))]
pub(in crate::inspect) fn forget(task: u64) {
    let (word, bit) = bit(task);
    word.fetch_and(!bit, Ordering::Relaxed);
}
