//! The figures that the project set out to reach: each is judged within one run, as a ratio to a peer or as a limit.

use super::{Record, cells, fastest};
use crate::peer::Kind;

mod channel;
mod inspect;
mod lock;
mod mutex;
mod net;
mod parker;
mod runtime;
mod semaphore;
mod signal;

/// What a rerun of one thread differs by: equals would else win by chance.
const NOISE: f64 = 1.03;

/// One judged figure.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// What is judged, and where.
    pub(crate) what: String,
    /// The measured ratio or number; not a number when there was nothing to compare with.
    pub(crate) measured: f64,
    /// Where the limit lies.
    pub(crate) limit: f64,
    /// Whether more is better.
    pub(crate) at_least: bool,
    /// What it was compared with.
    pub(crate) beside: String,
}

impl Verdict {
    /// Whether the figure was reached.
    pub(crate) fn passes(&self) -> bool {
        if self.at_least { self.measured >= self.limit } else { self.measured <= self.limit }
    }

    /// The figure as a line of a report.
    pub(crate) fn line(&self) -> String {
        let word = match self.passes() {
            _ if self.measured.is_nan() => "NONE",
            true => "PASS",
            false => "FAIL",
        };
        let sign = if self.at_least { ">=" } else { "<=" };
        let Verdict { what, measured, limit, beside, .. } = self;
        format!("{word}  {what}: {measured:.3} ({sign} {limit}) {beside}")
    }
}

/// Judges everything that was measured.
pub(crate) fn judge(records: &[Record]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for cell in cells(records) {
        let cell = Cell(cell);
        let (family, _) = cell.0[0].workload.split_once('/').unwrap_or_default();
        match family {
            "channel" => channel::judge(cell, &mut verdicts),
            "mutex" => mutex::judge(cell, &mut verdicts),
            "parker" => parker::judge(cell, &mut verdicts),
            "semaphore" => semaphore::judge(cell, &mut verdicts),
            "runtime" => runtime::judge(cell, &mut verdicts),
            "net" => net::judge(cell, &mut verdicts),
            "inspect" => inspect::judge(cell, &mut verdicts),
            "rwlock" | "condvar" | "time" => lock::judge(cell, &mut verdicts),
            _ => signal::judge(cell, &mut verdicts),
        }
    }
    mutex::flatness(records, &mut verdicts);
    runtime::most(records, &mut verdicts);
    allocations(records, &mut verdicts);
    verdicts
}

/// The records of one table.
#[derive(Clone, Copy)]
struct Cell<'a>(&'a [Record]);

impl<'a> Cell<'a> {
    /// Name of the workload.
    fn workload(self) -> &'a str {
        &self.0[0].workload
    }

    fn find(self, subject: &str) -> Option<&'a Record> {
        self.0.iter().find(|record| record.subject == subject && !record.capped)
    }

    fn fair_peer(self) -> Option<&'a Record> {
        fastest(self.peers().filter(|record| record.is_fair()))
    }

    fn unfair_peer(self) -> Option<&'a Record> {
        fastest(self.peers().filter(|record| !record.is_fair()))
    }

    fn peers(self) -> impl Iterator<Item = &'a Record> {
        // One that is too slow to be sampled is no measure.
        self.0.iter().filter(|record| record.is_peer() && !record.capped)
    }

    /// Judges ours / theirs; says so when there is no subject to compare with.
    fn ratio(self, ours: &str, theirs: Option<&Record>, limit: f64, out: &mut Vec<Verdict>) {
        let Some(ours) = self.find(ours) else { return };
        let Some(theirs) = theirs.filter(|theirs| theirs.median > 0.0) else {
            return out.push(verdict(
                ours,
                "",
                f64::NAN,
                limit,
                "no subject of that kind in this cell".into(),
            ));
        };
        let beside =
            format!("x {} ({:.1} / {:.1} {})", theirs.subject, ours.median, theirs.median, ours.unit);
        out.push(verdict(ours, "", ours.median / theirs.median, limit, beside));
    }
}

/// A verdict that wants little.
fn verdict(ours: &Record, aspect: &str, measured: f64, limit: f64, beside: String) -> Verdict {
    let Record { workload, n, runtime, subject, .. } = ours;
    let what = format!("{workload} n={n} {runtime} {subject}{aspect}");
    Verdict { what, measured, limit, at_least: false, beside }
}

/// No bigger than allowed.
fn size(cell: Cell<'_>, limit: f64, out: &mut Vec<Verdict>) {
    for ours in cell.0.iter().filter(|record| record.kind == Kind::Ours) {
        out.push(verdict(ours, "", ours.median, limit, "bytes".into()));
    }
}

/// Nothing is allocated by ours, in any cell whose runtime does not allocate by itself.
fn allocations(records: &[Record], out: &mut Vec<Verdict>) {
    // A table of runtimes shows their own allocations, tasks that are spawned in a sample are some; an operation of a oneshot makes one, which is one allocation.
    let quiet = |record: &&Record| {
        !record.runtime.starts_with("async-executor")
            && !["runtime/", "channel/oneshot", "inspect/contended"]
                .iter()
                .any(|family| record.workload.starts_with(family))
    };
    let ours = records.iter().filter(|record| record.kind == Kind::Ours && record.unit == "ns/op");
    let worst = ours.filter(quiet).max_by(|left, right| left.allocs_per_op.total_cmp(&right.allocs_per_op));
    if let Some(worst) = worst {
        // A runtime may grow a queue once; a wait that allocates shows as one an operation.
        let beside = "an operation, the worst cell of ours".into();
        out.push(verdict(worst, " allocations", worst.allocs_per_op, 0.001, beside));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn an_allocation_is_a_failure() {
        let mut ours = record("mutex/enqueue", 1_000, "tasuki-fifo", Kind::Ours, 5.0);
        ours.allocs_per_op = 1.0;
        assert!(judge(&[ours]).iter().any(|verdict| !verdict.passes()));
    }
}
