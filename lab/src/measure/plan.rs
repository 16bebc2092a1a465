//! The measuring plan: how many samples, how long each, when to stop; one for `--quick` and one for full runs.

use super::Group;
use std::time::Duration;

/// How much to measure.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Samples per subject.
    pub(crate) rounds: usize,
    /// Time one sample should fill.
    pub(crate) target: Duration,
    /// A sample that would take longer is not taken, unless the group is patient.
    pub(crate) cap: Duration,
    /// Time one subject of a group may take for all its samples, after the third.
    pub(crate) budget: Duration,
    /// Leave out what takes long and is no figure.
    pub(crate) quick: bool,
}

impl Plan {
    /// A few seconds per workload.
    pub(crate) const QUICK: Plan = Plan {
        rounds: 3,
        target: Duration::from_micros(1_500),
        cap: Duration::from_millis(40),
        budget: Duration::from_millis(200),
        quick: true,
    };
    /// Enough for a median worth quoting.
    pub(crate) const FULL: Plan = Plan {
        rounds: 15,
        target: Duration::from_millis(6),
        cap: Duration::from_millis(150),
        budget: Duration::from_millis(800),
        quick: false,
    };

    /// The plan of a run.
    pub(crate) const fn of(quick: bool) -> Plan {
        if quick { Self::QUICK } else { Self::FULL }
    }

    /// Nanoseconds a sample of the group should fill: two threads need longer to settle.
    pub(super) fn target_ns(&self, group: &Group) -> f64 {
        let times = if group.two_threads { 4 } else { 1 };
        (self.target * times).as_nanos() as f64
    }

    /// Nanoseconds a sample of the group may take.
    pub(super) fn cap_ns(&self, group: &Group) -> f64 {
        let cap = if group.patient { PATIENCE } else { self.cap };
        cap.as_nanos() as f64
    }

    /// Whether a subject that took so long for its samples has enough of them.
    pub(super) fn is_spent(&self, samples: usize, spent: Duration) -> bool {
        samples >= FEWEST && spent > self.budget
    }
}

/// Cap of a patient group.
const PATIENCE: Duration = Duration::from_secs(5);
/// Samples taken however long they take.
const FEWEST: usize = 3;
/// Probes that must all be too slow before a subject is capped: one may have met a noisy neighbour.
pub(super) const CHANCES: usize = 3;
