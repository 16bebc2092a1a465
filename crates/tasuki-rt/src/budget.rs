//! How many operations a poll may find ready before one of them yields: 128, and no more once they have taken half a millisecond.
//!
//! The primitives count operations, and ask their driver when the count is used up ([`Driver::refill`](tasuki::runtime::Driver)). A count alone
//! bounds nothing if a task works for a millisecond between two operations. So a worker gives the 128 in instalments, and looks at the clock
//! between them: not in a poll with at most [`INSTALMENT`] operations, unless the worker is wary (below).
//!
//! | instalment | operations | clock |
//! |---|---|---|
//! | first, given when the poll begins | 16 | not read |
//! | second | 1 | read: the time begins |
//! | each other | 16, or what is left | read: none once [`LONGEST`] is over |
//!
//! The second instalment is one operation because the time since the poll began is not known. After a poll that took too long the worker is *wary*: its polls begin with a look at the
//! clock and an instalment of one operation, until a poll that asks for more has been short. Threads in the `block_on` of a `Runtime` or a `Handle` get all 128 at once, and blocking work is not charged.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How many ready operations a poll may use.
const BUDGET: u32 = 128;
/// How many come between two looks at the clock.
const INSTALMENT: u32 = 16;
/// How long ready operations, and what is done between them, may take.
const LONGEST: Duration = Duration::from_micros(500);

/// The budget of the polls of one thread.
#[derive(Debug)]
pub(crate) struct Budget {
    /// What has not been given of this poll's.
    left: Cell<u32>,
    /// When the time began.
    since: Cell<Option<Instant>>,
    /// The last poll that was timed took too long.
    wary: Cell<bool>,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { left: Cell::new(0), since: Cell::new(None), wary: Cell::new(false) }
    }

    /// A poll of a task of a worker begins: its first instalment.
    #[inline]
    pub(crate) fn begin(&self, now: impl FnOnce() -> Instant) -> u32 {
        let (first, since) = if self.wary.get() { (1, Some(now())) } else { (INSTALMENT, None) };
        self.left.set(BUDGET - first);
        self.since.set(since);
        first
    }

    /// A poll that others do not wait for begins, or one that is asked at every operation: this is all it gets.
    #[inline]
    pub(crate) fn begin_untimed(&self, simulated: bool) -> u32 {
        self.left.set(0);
        if simulated { 0 } else { BUDGET }
    }

    /// The next instalment; 0 if there is none.
    pub(crate) fn next(&self, now: impl FnOnce() -> Instant) -> u32 {
        let left = self.left.get();
        if left == 0 {
            return 0;
        }
        let now = now();
        let given = match self.since.get() {
            None => {
                self.since.set(Some(now));
                1
            }
            Some(since) => {
                let is_over = now.saturating_duration_since(since) >= LONGEST;
                self.wary.set(is_over);
                if is_over {
                    self.left.set(0);
                    return 0;
                }
                INSTALMENT.min(left)
            }
        };
        self.left.set(left - given);
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many operations a poll gets, if each takes so long.
    fn poll(budget: &Budget, operation: Duration) -> u32 {
        let start = Instant::now();
        let mut used = budget.begin(|| start);
        loop {
            match budget.next(|| start + operation * used) {
                0 => return used,
                more => used += more,
            }
        }
    }

    #[test]
    fn short_operations_have_the_whole_budget() {
        let budget = Budget::new();
        for _ in 0..3 {
            assert_eq!(poll(&budget, Duration::from_nanos(100)), BUDGET);
            assert_eq!(budget.next(Instant::now), 0, "nothing is left, and the clock is not read for it");
        }
    }

    #[test]
    fn long_operations_are_bounded_by_time() {
        let budget = Budget::new();
        let (long, short) = (Duration::from_millis(1), Duration::from_nanos(100));
        assert_eq!(poll(&budget, long), INSTALMENT + 1);
        assert_eq!(poll(&budget, long), 1);
        assert_eq!(poll(&budget, long), 1);
        assert_eq!(poll(&budget, short), BUDGET);
        assert_eq!(poll(&budget, long), INSTALMENT + 1);
        let middling = Duration::from_micros(20);
        assert_eq!(poll(&budget, middling), 1 + 2 * INSTALMENT);
    }
}
