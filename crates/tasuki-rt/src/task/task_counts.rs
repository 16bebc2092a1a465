//! How many tasks a runtime has, and which threads may still spawn.
//!
//! Every spawn and every end of a task counts here; `drain` and shutdown wait for zero. Counted in rows, so that threads that spawn do not meet: one for each worker, for the tasks pinned to it; one more for
//! each worker, for the other tasks that begin or end on its thread; one for what begins or ends elsewhere; and one for blocking work, which ends by itself. A row has
//! two counters that only grow. Two bits of the counter of beginnings say which spawns are still accepted: a spawn learns that in the step that counts it, and the thread that
//! sets a bit learns which tasks were counted before. One bit of the counter of ends says that a drain waits for the last of them.
//!
//! # Which spawns are accepted
//!
//! | from | event | to | what may spawn then | fn |
//! |---|---|---|---|---|
//! | open | drain begins | draining | the threads of the runtime | [`TaskCounts::begin_drain`] |
//! | draining | no task is left | closed | nothing | [`TaskCounts::close_if_empty`] |
//! | any | shutdown | closed | nothing | [`TaskCounts::close`] |
//!
//! # Invariants
//! 1. A task is counted as begun before it is pushed anywhere, and as ended after its future was dropped. The refused are not counted: a thread that goes on spawning, or is in the destructor
//!    of a refused future, would else keep a drain or a shutdown waiting. (The step that learns of the refusal counts, and takes that back at once.)
//! 2. In any order of all steps, ended ≤ begun. So if the sum of *ended*, read first, equals the sum of *begun*, read
//!    afterwards, then between the two readings there was no task.
//!
//! # Orderings
//! Release in `end` pairs with Acquire in `sum`: a thread that sees an end sees the beginning (invariant 2), and what was done in between. Fence E in
//! `notify_if_last` pairs with itself: of two tasks that end in two rows while a drain waits, one sees both ends, and notifies it.

use crate::shim::{AtomicU64, Condvar, Mutex, Ordering, fence, wait_until};
use std::sync::PoisonError;
use std::time::Instant;

/// Spawns from outside of the runtime are refused.
const DRAINING: u64 = 1 << 62;
/// All spawns are refused.
const CLOSED: u64 = 1 << 63;
/// The rest of a counter.
const COUNT: u64 = DRAINING - 1;

/// Where a task begins or ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row {
    /// Pinned to this worker.
    Pinned(usize),
    /// Not pinned, on the thread of this worker.
    Worker(usize),
    /// Not pinned, on another thread.
    Outside,
    /// Blocking work, on any thread.
    Blocking,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct RowCounts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// The rows, and a condition variable for threads that wait for the last task.
#[derive(Debug)]
pub(crate) struct TaskCounts {
    rows: Box<[RowCounts]>,
    workers: usize,
    /// Taken before the condition variable is notified: so a look at the rows is not followed by a sleep that misses it.
    look: Mutex<()>,
    last_ended: Condvar,
}

impl TaskCounts {
    pub(crate) fn new(workers: usize) -> Self {
        let rows = (0..2 * workers + 2).map(|_| RowCounts::default()).collect();
        Self { rows, workers, look: Mutex::new(()), last_ended: Condvar::new() }
    }

    #[inline]
    fn row(&self, row: Row) -> &RowCounts {
        &self.rows[match row {
            Row::Pinned(home) => home,
            Row::Worker(worker) => self.workers + worker,
            Row::Outside => 2 * self.workers,
            Row::Blocking => 2 * self.workers + 1,
        }]
    }

    /// A task begins; false if it is refused, and not counted. `inside` tells whether a thread of the runtime spawns it.
    #[inline]
    #[must_use]
    pub(crate) fn begin(&self, row: Row, inside: bool) -> bool {
        let refuses = |begun: u64| begun & CLOSED != 0 || (begun & DRAINING != 0 && !inside);
        let begun = &self.row(row).begun;
        // Relaxed: a hint, which spares many threads that go on spawning from being counted for a moment each: the sums might never be equal.
        if !inside && refuses(begun.load(Ordering::Relaxed)) {
            return false;
        }
        // Relaxed: what is done later in the life of the task, or of its spawner, is released by an end; and the thread that
        // refuses spawns has changed this very counter, before or after.
        let refused = refuses(begun.fetch_add(1, Ordering::Relaxed));
        if refused {
            self.end(row);
        }
        !refused
    }

    /// A task has ended: its future is gone.
    #[inline]
    pub(crate) fn end(&self, row: Row) {
        // Release: pairs with Acquire in `sum`.
        let refused = self.row(row).ended.fetch_add(1, Ordering::Release) & !COUNT;
        if refused & DRAINING != 0 {
            self.notify_if_last();
        }
    }

    #[cold]
    fn notify_if_last(&self) {
        // Fence E: SeqCst, pairs with itself on another thread.
        fence(Ordering::SeqCst);
        if self.len() == 0 {
            drop(self.look.lock().unwrap_or_else(PoisonError::into_inner));
            self.last_ended.notify_all();
        }
    }

    /// open => draining: refuses spawns from outside of the runtime.
    pub(crate) fn begin_drain(&self) {
        for row in &self.rows {
            // Relaxed: a spawn that was counted before is in the number; one that is counted later sees the bit.
            row.begun.fetch_or(DRAINING, Ordering::Relaxed);
            row.ended.fetch_or(DRAINING, Ordering::Relaxed);
        }
    }

    /// any => closed: refuses all spawns.
    pub(crate) fn close(&self) {
        for row in &self.rows {
            // Relaxed: as above.
            row.begun.fetch_or(CLOSED, Ordering::Relaxed);
        }
    }

    /// draining => closed, if there is no task. What a posted closure spawns in between is dropped by the shutdown.
    fn close_if_empty(&self) -> bool {
        let empty = self.len() == 0;
        if empty {
            self.close();
        }
        empty
    }

    /// After `begin_drain`: waits until there is no task, and closes; false when the time is over first.
    pub(crate) fn drain(&self, deadline: Option<Instant>) -> bool {
        let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.close_if_empty() {
            let Some(again) = wait_until(&self.last_ended, look, deadline) else { return false };
            look = again;
        }
        true
    }

    /// How many tasks in some rows have not ended.
    fn sum(rows: &[RowCounts]) -> usize {
        // Acquire: pairs with Release in `end`; the ends first, by invariant 2.
        let ended: u64 = rows.iter().map(|row| row.ended.load(Ordering::Acquire) & COUNT).sum();
        // Relaxed: only the number counts, and what has ended had begun before.
        let begun: u64 = rows.iter().map(|row| row.begun.load(Ordering::Relaxed) & COUNT).sum();
        (begun - ended) as usize
    }

    /// How many tasks have not ended.
    pub(crate) fn len(&self) -> usize {
        Self::sum(&self.rows)
    }

    /// How many tasks pinned to this worker have not ended.
    pub(crate) fn pinned(&self, home: usize) -> usize {
        Self::sum(&self.rows[home..=home])
    }

    /// How many tasks that are not pinned have not ended.
    pub(crate) fn others(&self) -> usize {
        Self::sum(&self.rows[self.workers..])
    }

    /// The same, without blocking work: how many tasks only a worker ends.
    pub(crate) fn others_of_workers(&self) -> usize {
        Self::sum(&self.rows[self.workers..=2 * self.workers])
    }
}
