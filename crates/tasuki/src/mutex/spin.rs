//! Whether it pays to watch a lock before queueing, by what it brought before.
//!
//! A contender that finds the lock held, and the queue empty, may watch it for a moment: a short section ends sooner than a
//! task can be switched. There are two lengths. The short one outlasts a short section. The long one outlasts the interruption of a holder
//! in the middle of a short section; to queue then begins a convoy, which nothing ends as long as the tasks keep coming back (decision 5). It is
//! tried only where the short one has always paid off. But a lock that is mostly held shortly, and now and then over an await, looks just
//! the same: so the long one has a score of its own, and a lock where it is in vain tries it seldom (decision 13).
//!
//! | score   | meaning                         | success | in vain | not tried |
//! |---------|---------------------------------|---------|---------|-----------|
//! | `short` | `1..=8`: worthwhile; 8: trusted | + 1     | - 2; half, if a long one followed | |
//! | `short` | `-100..=0`: not worthwhile      |         |         | - 1; after -100 one chance |
//! | `long`  | `1..=4`: worthwhile             | + 1     | - 2     |           |
//! | `long`  | `-64..=0`: not worthwhile       |         |         | - 1; after -64 one chance |
//!
//! # Orderings
//! Relaxed, and not one operation: hints, of which some may be lost.

use crate::shim::{AtomicI8, Ordering, const_fn};

/// Longer than a short section, shorter than a task switch on another thread.
pub(super) const SHORT_NANOSECONDS: u32 = 250;
/// Longer than most interruptions.
pub(super) const LONG_NANOSECONDS: u32 = 50_000;

const SHORT_MAX: i8 = 8;
/// A new lock is not trusted yet. A long spin in vain leads back here.
const SHORT_NEW: i8 = 4;
/// After so many chances not taken, a short spin gets another chance.
const SHORT_PROBE: i8 = 100;
const LONG_MAX: i8 = 4;
const LONG_NEW: i8 = 2;
/// As `SHORT_PROBE`. One spin of 50 us in 64 held for longer is what a lock burns that is held over an await now and then.
const LONG_PROBE: i8 = 64;

/// How well spinning has paid off.
#[derive(Debug)]
pub(super) struct SpinScore {
    short: AtomicI8,
    long: AtomicI8,
}

impl SpinScore {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { short: AtomicI8::new(SHORT_NEW), long: AtomicI8::new(LONG_NEW) }
        }
    }

    /// Is a short spin worthwhile?
    pub(super) fn is_worthwhile(&self) -> bool {
        is_positive_or_due(&self.short, SHORT_PROBE)
    }

    /// Is a long spin worthwhile, after a short one that was not enough?
    pub(super) fn is_long_worthwhile(&self) -> bool {
        // Relaxed: see the header.
        self.short.load(Ordering::Relaxed) == SHORT_MAX && is_positive_or_due(&self.long, LONG_PROBE)
    }

    pub(super) fn short_succeeded(&self) {
        adjust(&self.short, 1, SHORT_MAX);
    }

    pub(super) fn short_failed(&self) {
        adjust(&self.short, -2, SHORT_MAX);
    }

    pub(super) fn long_succeeded(&self) {
        adjust(&self.long, 1, LONG_MAX);
    }

    pub(super) fn long_failed(&self) {
        adjust(&self.long, -2, LONG_MAX);
        adjust(&self.short, SHORT_NEW - SHORT_MAX, SHORT_MAX);
    }
}

/// Is the score positive? Where it is not, every so many questions are answered as if it were.
fn is_positive_or_due(score: &AtomicI8, probe: i8) -> bool {
    // Relaxed: see the header.
    let now = score.load(Ordering::Relaxed);
    if now > 0 {
        return true;
    }
    let next = if now <= -probe { 1 } else { now - 1 };
    // Relaxed: see the header.
    score.store(next, Ordering::Relaxed);
    next > 0
}

fn adjust(score: &AtomicI8, by: i8, max: i8) {
    // Relaxed: see the header.
    let next = score.load(Ordering::Relaxed).saturating_add(by).clamp(0, max);
    score.store(next, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One contender at a lock with so many short sections between two long ones; how many long spins in vain.
    fn burned(score: &SpinScore, rounds: usize, short: usize) -> usize {
        let mut burned = 0;
        for _ in 0..rounds {
            (0..short).filter(|_| score.is_worthwhile()).for_each(|_| score.short_succeeded());
            if score.is_worthwhile() {
                if score.is_long_worthwhile() {
                    score.long_failed();
                    burned += 1;
                } else {
                    score.short_failed();
                }
            }
        }
        burned
    }

    /// A lock that is held shortly a thousand times and then over an await burns a long spin for few of the latter.
    #[test]
    #[cfg_attr(miri, ignore = "millions of steps of one thread, and nothing unsafe in them")]
    fn a_mixed_lock_burns_little() {
        for short in [4, 10, 1_000] {
            let burned = burned(&SpinScore::new(), 6_500, short);
            assert!((1..=6_500 / 64 + 2).contains(&burned), "{burned} of 6,500 with {short} between");
        }
    }

    /// Where holders are interrupted, and nothing else, the long spin is made every time.
    #[test]
    fn an_interrupted_holder_is_waited_for() {
        let score = SpinScore::new();
        (0..SHORT_MAX).for_each(|_| score.short_succeeded());
        for _ in 0..1_000 {
            assert!(score.is_worthwhile() && score.is_long_worthwhile());
            score.long_succeeded();
        }
        // One that was too long is forgiven, as soon as the lock is trusted again.
        score.long_failed();
        assert!(!score.is_long_worthwhile());
        (0..SHORT_MAX).for_each(|_| score.short_succeeded());
        assert!(score.is_long_worthwhile());
    }

    /// A lock where spinning never pays off spins seldom.
    #[test]
    fn a_slow_lock_is_not_watched() {
        let score = SpinScore::new();
        let tries = (0..10_000).filter(|_| score.is_worthwhile()).map(|_| score.short_failed()).count();
        assert!((1..=10_000 / 100 + 3).contains(&tries), "{tries}");
    }
}
