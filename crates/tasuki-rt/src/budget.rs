//! How many operations a poll may find ready before one of them yields: 128, and no more once they have taken half a millisecond.
//!
//! The primitives count operations, and ask their driver when the count is used up ([`Driver::refill`](tasuki::runtime::Driver)). A count alone
//! bounds nothing if a task works for a millisecond between two operations. So a worker gives the 128 in instalments, and looks at the clock
//! between them: not in a poll with at most [`INSTALMENT`] operations, unless the thread is wary (below).
//!
//! | instalment | operations | clock |
//! |---|---|---|
//! | first, given when the poll begins | 16 | not read |
//! | second | 1 | read: the time begins |
//! | each other | 16, or what is left | read: none once [`LONGEST`] is over |
//!
//! The second instalment is one operation because the time since the poll began is not known. After a poll that took too long the thread is *wary* for 50 (`WARY`) ms: its polls begin with a look at the
//! clock and an instalment of one operation. Short polls of other tasks do not end that, for the task that was long may be the next. The thread in the `block_on` of a `Runtime` or a `Handle` has instalments too: no other task waits for its
//! poll, but other branches of its future do (`select!`, `timeout`). Blocking work is not charged.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How many ready operations a poll may use.
const BUDGET: u32 = 128;
/// How many come between two looks at the clock.
const INSTALMENT: u32 = 16;
/// How long ready operations, and what is done between them, may take.
const LONGEST: Duration = Duration::from_micros(500);
/// How long every poll is timed from its beginning, after one that took too long: the time in which a task with long sections comes again, beside a hundred polls of half a millisecond.
const WARY: Duration = Duration::from_millis(50);

/// The budget of the polls of one thread.
#[derive(Debug)]
pub(crate) struct Budget {
    /// What has not been given of this poll's.
    left: Cell<u32>,
    /// When the time began.
    since: Cell<Option<Instant>>,
    /// Until when polls are timed from their beginning, because one took too long.
    wary_until: Cell<Option<Instant>>,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { left: Cell::new(0), since: Cell::new(None), wary_until: Cell::new(None) }
    }

    /// A poll of a task begins: its first instalment.
    #[inline]
    pub(crate) fn begin(&self, now: impl FnOnce() -> Instant) -> u32 {
        if let Some(until) = self.wary_until.get() {
            return self.begin_wary(until, now());
        }
        self.left.set(BUDGET - INSTALMENT);
        self.since.set(None);
        INSTALMENT
    }

    #[cold]
    fn begin_wary(&self, until: Instant, now: Instant) -> u32 {
        if now >= until {
            self.wary_until.set(None);
        }
        self.left.set(BUDGET - 1);
        self.since.set(Some(now));
        1
    }

    /// A poll of a simulation begins, which is asked at every operation: nothing is given in advance.
    #[inline]
    pub(crate) fn begin_simulated(&self) -> u32 {
        self.left.set(0);
        0
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
                if now.saturating_duration_since(since) >= LONGEST {
                    self.wary_until.set(now.checked_add(WARY));
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

    /// How many operations a poll gets that begins then, if each takes so long.
    fn poll(budget: &Budget, start: Instant, operation: Duration) -> u32 {
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
            assert_eq!(poll(&budget, Instant::now(), Duration::from_nanos(100)), BUDGET);
            assert_eq!(budget.next(Instant::now), 0, "nothing is left, and the clock is not read for it");
        }
    }

    #[test]
    fn long_operations_are_bounded_by_time() {
        let (budget, start) = (Budget::new(), Instant::now());
        let (long, short) = (Duration::from_millis(1), Duration::from_nanos(100));
        assert_eq!(poll(&budget, start, long), INSTALMENT + 1);
        assert_eq!(poll(&budget, start + 20 * long, long), 1);
        for _ in 0..100 {
            assert_eq!(poll(&budget, start + 21 * long, short), BUDGET);
            assert_eq!(poll(&budget, start + 21 * long, long), 1, "short polls of other tasks end nothing");
        }
        let later = start + 30 * long + WARY;
        assert_eq!(poll(&budget, later, short), BUDGET, "the last one that is timed from its beginning");
        assert_eq!(poll(&budget, later, long), INSTALMENT + 1);
        let middling = Duration::from_micros(20);
        assert_eq!(poll(&budget, later, middling), 1 + 2 * INSTALMENT);
    }
}
