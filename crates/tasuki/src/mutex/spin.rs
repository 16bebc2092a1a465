//! Decides whether a contender spins before it queues, by how earlier spins on that lock have ended.
//!
//! A contender that finds the lock held and the queue empty may watch the lock for a moment (`raw/watch.rs`): a short section ends sooner than a task can be switched. There are two spins:
//!
//! * The short spin (250 ns) outlasts a short section.
//! * The long spin (100 µs) outlasts an interruption of the holder in the middle of a short section. To queue at such a moment begins a convoy, which does not end as long as the tasks keep coming back (decision 5).
//!
//! But for the first one of a lock, the long spin is tried only where the short ones have paid off so often that their score is at its best. A lock that is mostly held for short sections, and now and then over an await, looks just like that. So the long spin has a score of its
//! own, and a lock on which it fails tries it seldom (decision 13).
//!
//! A new lock has no score yet, and a convoy at its beginning would keep it from ever earning one. So the first long spin of a lock is decided by
//! how the first long spins of all locks of the process have ended (decision 16).
//!
//! | score   | meaning                         | success | in vain | not tried |
//! |---------|---------------------------------|---------|---------|-----------|
//! | `short` | `1..=8`: worthwhile; 8: trusted | + 1     | - 2; 4 at most, if a long one followed | |
//! | `short` | `-100..=0`: not worthwhile      |         |         | - 1; after -100 one chance |
//! | `long`  | `1..=4`: worthwhile             | + 1     | - 2     |           |
//! | `long`  | `-64..=0`: not worthwhile       |         |         | - 1; after -64 one chance |
//! | `long`  | `UNTRIED`: `FIRST_LONG` decides | 3, and `short` 8 | 0, and `short` 4 at most | |
//! | `FIRST_LONG` | as `long`, but `1..=16`: for the first long spin of each lock | + 1 | - 2 | as `long` |
//!
//! # Orderings
//! Relaxed, and not one operation: hints, of which some may be lost.

use crate::shim::{AtomicI8, Ordering, const_fn};

/// Longer than a short section, shorter than a task switch on another thread.
pub(super) const SHORT_NANOSECONDS: u32 = 250;
/// Longer than most interruptions.
pub(super) const LONG_NANOSECONDS: u32 = 100_000;

const SHORT_MAX: i8 = 8;
/// The score of a new lock, which is not trusted yet. A long spin that fails leads back here.
const SHORT_NEW: i8 = 4;
/// After this many chances that were not taken, a short spin is tried again.
const SHORT_PROBE: i8 = 100;
const LONG_MAX: i8 = 4;
const LONG_NEW: i8 = 2;
/// As `SHORT_PROBE`. One spin of 100 us in 64 held for longer is what a lock burns that is held over an await now and then.
const LONG_PROBE: i8 = 64;
/// The long score of a lock that has not made a long spin.
const UNTRIED: i8 = i8::MAX;

/// How well the first long spins of new locks have paid off, in the whole process.
static FIRST_LONG: StaticI8 = StaticI8::new(FIRST_LONG_MAX);
/// Eight first spins may fail, 0.8 ms in the life of a process, before new locks are cautious.
const FIRST_LONG_MAX: i8 = 16;

/// How well spinning has paid off.
#[derive(Debug)]
pub(super) struct SpinScore {
    short: AtomicI8,
    long: AtomicI8,
}

impl SpinScore {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { short: AtomicI8::new(SHORT_NEW), long: AtomicI8::new(UNTRIED) }
        }
    }

    /// Is a short spin worthwhile?
    pub(super) fn is_worthwhile(&self) -> bool {
        self.short.is_positive_or_due(SHORT_PROBE)
    }

    /// Is a long spin worthwhile, after a short one that was not enough?
    pub(super) fn is_long_worthwhile(&self) -> bool {
        self.is_long_worthwhile_beside(&FIRST_LONG)
    }

    fn is_long_worthwhile_beside(&self, first_long: &StaticI8) -> bool {
        if self.long.get() == UNTRIED {
            return first_long.is_positive_or_due(LONG_PROBE);
        }
        self.short.get() == SHORT_MAX && self.long.is_positive_or_due(LONG_PROBE)
    }

    pub(super) fn short_succeeded(&self) {
        self.short.adjust(1, SHORT_MAX);
    }

    pub(super) fn short_failed(&self) {
        self.short.adjust(-2, SHORT_MAX);
    }

    pub(super) fn long_succeeded(&self) {
        self.long_succeeded_beside(&FIRST_LONG);
    }

    fn long_succeeded_beside(&self, first_long: &StaticI8) {
        if self.long.get() == UNTRIED {
            first_long.adjust(1, FIRST_LONG_MAX);
            self.long.set(LONG_NEW);
            self.short.set(SHORT_MAX);
        }
        self.long.adjust(1, LONG_MAX);
    }

    pub(super) fn long_failed(&self) {
        self.long_failed_beside(&FIRST_LONG);
    }

    fn long_failed_beside(&self, first_long: &StaticI8) {
        if self.long.get() == UNTRIED {
            first_long.adjust(-2, FIRST_LONG_MAX);
            self.long.set(LONG_NEW);
        }
        self.long.adjust(-2, LONG_MAX);
        self.short.set(self.short.get().min(SHORT_NEW));
    }
}

/// A number that is read and written Relaxed: of a lock, or of the process.
trait Score {
    fn get(&self) -> i8;
    fn set(&self, score: i8);

    /// Is the score positive? Where it is not, one question in a while is answered as if it were: see the table.
    fn is_positive_or_due(&self, probe: i8) -> bool {
        let now = self.get();
        if now > 0 {
            return true;
        }
        let next = if now <= -probe { 1 } else { now - 1 };
        self.set(next);
        next > 0
    }

    fn adjust(&self, by: i8, max: i8) {
        self.set(self.get().saturating_add(by).clamp(0, max));
    }
}

impl Score for AtomicI8 {
    fn get(&self) -> i8 {
        // Relaxed: see the header.
        self.load(Ordering::Relaxed)
    }

    fn set(&self, score: i8) {
        // Relaxed: see the header.
        self.store(score, Ordering::Relaxed);
    }
}

/// As [`AtomicI8`], which the model checker replaces; a lock of the model does not spin.
struct StaticI8(core::sync::atomic::AtomicI8);

impl StaticI8 {
    const fn new(score: i8) -> Self {
        Self(core::sync::atomic::AtomicI8::new(score))
    }
}

impl Score for StaticI8 {
    fn get(&self) -> i8 {
        // Relaxed: see the header.
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, score: i8) {
        // Relaxed: see the header.
        self.0.store(score, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One contender at a lock with so many short sections between two long ones; how many long spins in vain.
    fn burned(score: &SpinScore, first_long: &StaticI8, rounds: usize, short: usize) -> usize {
        let mut burned = 0;
        for _ in 0..rounds {
            (0..short).filter(|_| score.is_worthwhile()).for_each(|_| score.short_succeeded());
            if score.is_worthwhile() {
                if score.is_long_worthwhile_beside(first_long) {
                    score.long_failed_beside(first_long);
                    burned += 1;
                } else {
                    score.short_failed();
                }
            }
        }
        burned
    }

    /// A lock that is held a thousand times for a short time, and then over an await, burns a long spin for few of the latter.
    #[test]
    #[cfg_attr(miri, ignore = "millions of steps of one thread, and nothing unsafe in them")]
    fn a_mixed_lock_burns_little() {
        for short in [4, 10, 1_000] {
            let first_long = StaticI8::new(FIRST_LONG_MAX);
            let burned = burned(&SpinScore::new(), &first_long, 6_500, short);
            assert!((1..=6_500 / 64 + 2).contains(&burned), "{burned} of 6,500 with {short} between");
        }
    }

    /// Locks that are held over an await at their first contention, and then dropped, burn a long spin for few of them.
    #[test]
    fn new_locks_burn_little() {
        let first_long = StaticI8::new(FIRST_LONG_MAX);
        let burned: usize = (0..6_500).map(|_| burned(&SpinScore::new(), &first_long, 1, 0)).sum();
        assert!((1..=6_500 / 64 + 8).contains(&burned), "{burned} of 6,500");
    }

    /// A new lock whose holder is interrupted is waited for, and trusted from then on.
    #[test]
    fn a_new_lock_is_given_a_chance() {
        let first_long = StaticI8::new(FIRST_LONG_MAX);
        for _ in 0..1_000 {
            let score = SpinScore::new();
            assert!(score.is_worthwhile() && score.is_long_worthwhile_beside(&first_long));
            score.long_succeeded_beside(&first_long);
            assert!(score.is_worthwhile() && score.is_long_worthwhile_beside(&first_long));
        }
        assert_eq!(first_long.get(), FIRST_LONG_MAX);
    }

    /// Where holders are interrupted, and nothing else, the long spin is made every time.
    #[test]
    fn an_interrupted_holder_is_waited_for() {
        let first_long = StaticI8::new(FIRST_LONG_MAX);
        let score = SpinScore::new();
        (0..SHORT_MAX).for_each(|_| score.short_succeeded());
        for _ in 0..1_000 {
            assert!(score.is_worthwhile() && score.is_long_worthwhile_beside(&first_long));
            score.long_succeeded_beside(&first_long);
        }
        // One that was too long is forgiven, as soon as the lock is trusted again.
        score.long_failed_beside(&first_long);
        assert!(!score.is_long_worthwhile_beside(&first_long));
        (0..SHORT_MAX).for_each(|_| score.short_succeeded());
        assert!(score.is_long_worthwhile_beside(&first_long));
    }

    /// A lock where spinning never pays off spins seldom.
    #[test]
    fn a_slow_lock_is_not_watched() {
        let score = SpinScore::new();
        let tries = (0..10_000).filter(|_| score.is_worthwhile()).map(|_| score.short_failed()).count();
        assert!((1..=10_000 / 100 + 3).contains(&tries), "{tries}");
    }
}
