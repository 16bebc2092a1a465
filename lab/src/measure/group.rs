//! A group: one workload, and the subjects (primitives of ours or of peers) that are measured on it.

use super::Sample;
use crate::peer::Kind;

/// One subject of a group.
pub(crate) struct Contender {
    /// Its name in reports.
    pub(crate) subject: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// Does about that many operations and checks that they were done.
    pub(crate) run: Box<dyn FnMut(u64) -> Sample>,
}

impl Contender {
    /// A subject with a number that needs no clock, such as a size.
    pub(crate) fn exact(subject: &'static str, kind: Kind, value: impl Fn() -> f64 + 'static) -> Contender {
        Contender { subject, kind, run: Box::new(move |_| Sample::exact(value())) }
    }
}

/// What is read off a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Nanoseconds per operation.
    Time,
    /// The longest wait in acquisitions by others.
    LongestWait,
    /// A number that one sample shows, in this unit.
    Exact(&'static str),
}

impl Metric {
    /// The unit of its values.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Metric::Time => "ns/op",
            Metric::LongestWait => "acquisitions",
            Metric::Exact(unit) => unit,
        }
    }

    /// Its value in a sample.
    pub(super) fn value(self, sample: &Sample) -> f64 {
        match self {
            Metric::Time => sample.reading.ns / sample.ops.max(1) as f64,
            Metric::LongestWait => sample.longest_wait as f64,
            Metric::Exact(_) => sample.exact,
        }
    }
}

/// Subjects that do the same work.
pub(crate) struct Group {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Tasks or waiters.
    pub(crate) n: u64,
    /// The executor.
    pub(crate) runtime: &'static str,
    /// Operations of the first, smallest probe.
    pub(crate) probe_ops: u64,
    /// Fewest operations of a valid sample.
    pub(crate) least_ops: u64,
    /// Whether samples run on two threads.
    pub(crate) two_threads: bool,
    /// Whether long samples are the point of it.
    pub(crate) patient: bool,
    /// What is read off a sample.
    pub(crate) metric: Metric,
    /// The subjects.
    pub(crate) contenders: Vec<Contender>,
}

impl Group {
    /// A group of numbers that need no clock.
    pub(crate) fn exact(
        workload: impl Into<String>,
        unit: &'static str,
        contenders: Vec<Contender>,
    ) -> Group {
        Group { metric: Metric::Exact(unit), ..Self::on_one_thread(workload, 1, "none", 1, contenders) }
    }

    /// Its name: "mutex/hand-off n=64 minimal".
    pub(crate) fn key(&self) -> String {
        format!("{} n={} {}", self.workload, self.n, self.runtime)
    }

    /// A group on one thread whose smallest unit of work is `unit` operations.
    pub(crate) fn on_one_thread(
        workload: impl Into<String>,
        n: usize,
        runtime: &'static str,
        unit: u64,
        contenders: Vec<Contender>,
    ) -> Group {
        Group {
            workload: workload.into(),
            n: n as u64,
            runtime,
            probe_ops: unit,
            least_ops: unit,
            two_threads: false,
            patient: false,
            metric: Metric::Time,
            contenders,
        }
    }

    /// The same on two threads, with enough work for `n` tasks to be compared.
    pub(crate) fn on_two_threads(
        workload: impl Into<String>,
        n: usize,
        runtime: &'static str,
        contenders: Vec<Contender>,
    ) -> Group {
        let group = Self::on_one_thread(workload, n, runtime, 16 * n as u64, contenders);
        Group { least_ops: 64 * n as u64, two_threads: true, ..group }
    }
}
