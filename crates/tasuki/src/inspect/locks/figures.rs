//! The figures of a lock: how many waits there were, the most at a time, and how long some of them and some of the holds took.
//!
//! Two looks at the clock for every wait would cost more than a short wait. So one in [`TIMED_WAITS`] is timed, the first included, and all that the watcher has found to be older than 0.1 s: it looks twice a second.
//!
//! # Who writes
//! `enqueued` and `longest_queue` are written under the lock of the queue, by [`Figures::enqueued`]; so they need no read-modify-write, and the number that a wait gets is its order in the queue.
//! `ended_alone` is written by the task that has the lock for itself alone, `ended_apart` by all others. All of them are Relaxed: numbers to look at.

use crate::inspect::durations::{CLASSES, Durations};
use std::sync::atomic::{AtomicU32, Ordering};

/// One wait in this many is timed: two readings of the clock take as long as a short wait. A power of two.
const TIMED_WAITS: u32 = 64;

/// How many took how long, by powers of two.
struct Histogram([AtomicU32; CLASSES]);

impl Histogram {
    #[expect(clippy::declare_interior_mutable_const, reason = "each use is another one")]
    const NEW: Self = Self([const { AtomicU32::new(0) }; CLASSES]);

    fn add(&self, nanoseconds: u64) {
        self.0[class(nanoseconds)].fetch_add(1, Ordering::Relaxed);
    }

    fn look(&self) -> Durations {
        Durations(self.0.each_ref().map(|count| count.load(Ordering::Relaxed)))
    }

    fn reset(&self) {
        self.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// The class of a time in a histogram.
fn class(nanoseconds: u64) -> usize {
    let class = (nanoseconds / 1_000).checked_ilog2().map_or(0, |log| log as usize + 1);
    class.min(CLASSES - 1)
}

#[repr(C)]
pub(crate) struct Figures {
    /// How many waits have begun and ended, and the most that there were at a time.
    enqueued: AtomicU32,
    ended_alone: AtomicU32,
    ended_apart: AtomicU32,
    longest_queue: AtomicU32,
    /// How many of the timed waits took how long.
    waited: Histogram,
    /// How many of the timed holds took how long.
    held: Histogram,
}

impl Figures {
    /// So many bytes at the beginning are what a wait that is not timed writes.
    pub(super) const COUNTS: usize = core::mem::offset_of!(Self, waited);

    #[expect(clippy::declare_interior_mutable_const, reason = "each use is another one")]
    pub(super) const NEW: Self = Self {
        enqueued: AtomicU32::new(0),
        ended_alone: AtomicU32::new(0),
        ended_apart: AtomicU32::new(0),
        longest_queue: AtomicU32::new(0),
        waited: Histogram::NEW,
        held: Histogram::NEW,
    };

    /// The record is another lock's from now on.
    pub(super) fn reset(&self) {
        let counts = [&self.enqueued, &self.ended_alone, &self.ended_apart, &self.longest_queue];
        counts.into_iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.waited.reset();
        self.held.reset();
    }

    /// Is the next wait to be timed?
    pub(in crate::inspect) fn times_wait(&self) -> bool {
        self.enqueued.load(Ordering::Relaxed) % TIMED_WAITS == 0
    }

    /// A wait begins. Called with the queue locked. How many have begun: its order in the queue.
    #[inline]
    pub(in crate::inspect) fn enqueued(&self) -> u32 {
        let order = self.enqueued.load(Ordering::Relaxed).wrapping_add(1);
        self.enqueued.store(order, Ordering::Relaxed);
        let queued = order.wrapping_sub(self.contentions());
        if queued > self.longest_queue.load(Ordering::Relaxed) {
            self.longest_queue.store(queued, Ordering::Relaxed);
        }
        order
    }

    /// A wait ends. `is_alone`: its task has the lock for itself alone now.
    #[inline]
    pub(in crate::inspect) fn ended(&self, is_alone: bool) {
        if is_alone {
            self.ended_alone
                .store(self.ended_alone.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        } else {
            self.ended_apart.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A hold that was timed took so long.
    pub(super) fn held(&self, nanoseconds: u64) {
        self.held.add(nanoseconds);
    }

    /// How many of the timed holds took how long.
    pub(in crate::inspect) fn holds(&self) -> Durations {
        self.held.look()
    }

    /// A wait that was timed, or old, took so long.
    pub(in crate::inspect) fn waited(&self, nanoseconds: u64) {
        self.waited.add(nanoseconds);
    }

    /// How many waits have ended.
    pub(in crate::inspect) fn contentions(&self) -> u32 {
        self.ended_alone.load(Ordering::Relaxed).wrapping_add(self.ended_apart.load(Ordering::Relaxed))
    }

    pub(in crate::inspect) fn longest_queue(&self) -> usize {
        self.longest_queue.load(Ordering::Relaxed) as usize
    }

    /// How many of the timed waits took how long.
    pub(in crate::inspect) fn waits(&self) -> Durations {
        self.waited.look()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_is_in_its_class() {
        for nanos in [0, 999, 1_000, 1_999, 2_000, 4_095_999, 4_096_000, 8_000_000_000, u64::MAX] {
            let mut counts = [0; CLASSES];
            counts[class(nanos)] = 1;
            let time = Duration::from_nanos(nanos);
            let found = Durations(counts).buckets().any(|(times, count)| count == 1 && times.contains(&time));
            assert!(found, "{time:?}");
        }
    }
}
