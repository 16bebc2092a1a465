//! Subjects that do the same work.

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

/// What is read off a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Nanoseconds per operation.
    Time,
    /// The longest wait in acquisitions by others.
    LongestWait,
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
