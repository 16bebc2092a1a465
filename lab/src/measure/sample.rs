//! One sample: the time, allocations and fairness of one timed stretch of work.

use crate::alloc;
use std::ops::AddAssign;
use std::time::Instant;

/// A running clock, and the allocation counter at its start.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    start: Instant,
    allocations: u64,
}

/// What a [`Meter`] read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reading {
    /// Nanoseconds that went by.
    pub(crate) ns: f64,
    /// Allocations that were made, if they were counted.
    pub(crate) allocations: u64,
}

impl Meter {
    /// Starts the clock.
    #[inline]
    pub(crate) fn start() -> Meter {
        let allocations = alloc::allocations();
        Meter { start: Instant::now(), allocations }
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn read(&self) -> Reading {
        let ns = self.start.elapsed().as_nanos() as f64;
        Reading { ns, allocations: alloc::allocations() - self.allocations }
    }
}

impl AddAssign for Reading {
    fn add_assign(&mut self, other: Reading) {
        self.ns += other.ns;
        self.allocations += other.allocations;
    }
}

/// One measured stretch of work.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Operations done, checked by the workload.
    pub(crate) ops: u64,
    /// What they took.
    pub(crate) reading: Reading,
    /// Least-served task / most-served task.
    pub(crate) fairness: f64,
    /// The longest wait, in acquisitions by others, where the workload measures it.
    pub(crate) longest_wait: u64,
    /// The number itself, where it needs no clock.
    pub(crate) exact: f64,
    /// Why nothing could be measured, where that is no defect of the subject. Such a sample counts for nothing.
    pub(crate) unmeasured: Option<&'static str>,
}

impl Sample {
    /// A sample of work without competition.
    pub(crate) fn alone(ops: u64, reading: Reading) -> Sample {
        Sample { ops, reading, fairness: 1.0, longest_wait: 0, exact: 0.0, unmeasured: None }
    }

    /// A sample of work that tasks shared.
    pub(crate) fn shared(ops: u64, reading: Reading, fairness: f64) -> Sample {
        Sample { fairness, ..Self::alone(ops, reading) }
    }

    /// A number that needs no clock.
    pub(crate) fn exact(exact: f64) -> Sample {
        Sample { exact, ..Self::alone(1, Reading::default()) }
    }

    /// No sample: this machine, now, did not let it be measured.
    pub(crate) fn unmeasured(why: &'static str) -> Sample {
        Sample { unmeasured: Some(why), ..Self::alone(0, Reading::default()) }
    }
}

/// Least-served / most-served of the competitors of a sample.
pub(crate) fn fairness(served: &[u64]) -> f64 {
    let (least, most) = (served.iter().min(), served.iter().max());
    match (least, most) {
        (Some(&least), Some(&most)) if most > 0 => least as f64 / most as f64,
        _ => 1.0,
    }
}
