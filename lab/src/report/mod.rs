//! The results of a run, and their forms: table, JSON, charts, and the page docs/benchmarks.md.

pub(crate) mod benchmarks_page;
pub(crate) mod figures;
pub(crate) mod json;
pub(crate) mod parse;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod titles;

use crate::peer::Kind;

/// Least fairness of a lock that is called fair.
pub(crate) const FAIR: f64 = 0.95;

/// One measured number with its spread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Tasks or waiters.
    pub(crate) n: u64,
    /// The executor.
    pub(crate) runtime: String,
    /// Who was measured.
    pub(crate) subject: String,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// One in ten samples is below this.
    pub(crate) p10: f64,
    /// Half of the samples are below this.
    pub(crate) median: f64,
    /// Nine in ten samples are below this.
    pub(crate) p90: f64,
    /// The largest sample.
    pub(crate) max: f64,
    /// Unit of the four above.
    pub(crate) unit: String,
    /// Least-served task / most-served task.
    pub(crate) fairness: f64,
    /// Samples kept.
    pub(crate) samples: usize,
    /// Placement of the processors during the samples kept.
    pub(crate) placement: String,
    /// Heap allocations an operation.
    pub(crate) allocs_per_op: f64,
    /// Too slow to be sampled: one short probe instead.
    pub(crate) capped: bool,
}

impl Record {
    /// Whether both belong to one table: same work, same number, same runtime.
    pub(crate) fn is_beside(&self, other: &Record) -> bool {
        (&self.workload, self.n, &self.runtime) == (&other.workload, other.n, &other.runtime)
    }

    /// Whether it is another crate's.
    pub(crate) fn is_peer(&self) -> bool {
        self.kind == Kind::Peer
    }

    /// Whether all tasks were served alike.
    pub(crate) fn is_fair(&self) -> bool {
        self.fairness >= FAIR
    }
}

/// A subject of a cell that has no number, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Tasks or waiters.
    pub(crate) n: u64,
    /// The executor.
    pub(crate) runtime: String,
    /// Which subject.
    pub(crate) subject: String,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// What happened.
    pub(crate) outcome: Outcome,
    /// The reason, for people.
    pub(crate) why: String,
}

/// Why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// This machine did not let it be measured; no defect of the subject.
    Unmeasured,
    /// It panicked: a check of the workload, or the subject itself.
    Panicked,
    /// It did not end in time, and was ended.
    Hung,
    /// It brought the process down.
    Crashed,
}

impl Outcome {
    /// All of them.
    pub(crate) const ALL: [Outcome; 4] =
        [Outcome::Unmeasured, Outcome::Panicked, Outcome::Hung, Outcome::Crashed];

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Unmeasured => "unmeasured",
            Outcome::Panicked => "panicked",
            Outcome::Hung => "hung",
            Outcome::Crashed => "crashed",
        }
    }
}

impl Failure {
    /// Whether it is a defect of ours.
    pub(crate) fn is_defect_of_ours(&self) -> bool {
        self.kind == Kind::Ours && self.outcome != Outcome::Unmeasured
    }
}

/// The tables of a report: consecutive records of the same work.
pub(crate) fn cells(records: &[Record]) -> impl Iterator<Item = &[Record]> {
    records.chunk_by(|left, right| left.is_beside(right))
}

/// The record with the smallest median.
pub(crate) fn fastest<'a>(records: impl Iterator<Item = &'a Record>) -> Option<&'a Record> {
    records.min_by(|left, right| left.median.total_cmp(&right.median))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record for the tests of the forms.
    pub(crate) fn record(workload: &str, n: u64, subject: &str, kind: Kind, median: f64) -> Record {
        Record {
            workload: workload.into(),
            n,
            runtime: "none".into(),
            subject: subject.into(),
            kind,
            p10: median,
            median,
            p90: median,
            max: median,
            unit: "ns/op".into(),
            fairness: 1.0,
            samples: 1,
            placement: "alone".into(),
            allocs_per_op: 0.0,
            capped: false,
        }
    }

    #[test]
    fn records_of_one_cell_stay_together() {
        let records = [
            record("a", 1, "x", Kind::Ours, 2.0),
            record("a", 1, "y", Kind::Peer, 1.0),
            record("a", 2, "x", Kind::Ours, 3.0),
        ];
        let sizes: Vec<usize> = cells(&records).map(<[Record]>::len).collect();
        assert_eq!(sizes, [2, 1]);
        assert_eq!(fastest(records.iter()).unwrap().subject, "y");
    }
}
