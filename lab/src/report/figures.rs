//! The figures the project set out to reach, each judged inside one run.

use super::{Record, cells, fastest};
use crate::peer::Kind;

/// Names of our subjects.
const FIFO: &str = "tasuki-fifo";
const NO_SPIN: &str = "tasuki-fifo-no-spin";
const BYPASS: &str = "tasuki-bypass";
const PARKER: &str = "tasuki-parker";
/// The N of the bypass that is measured.
const BYPASS_N: u64 = 64;

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
        match cell.0[0].workload.as_str() {
            "mutex/uncontended" => uncontended(cell, &mut verdicts),
            "mutex/hand-off" => hand_off(cell, &mut verdicts),
            "mutex/longest-wait" => longest_wait(cell, &mut verdicts),
            "mutex/size/lock" => size(cell, 16.0, &mut verdicts),
            "mutex/size/future" => size(cell, 64.0, &mut verdicts),
            name if name.starts_with("mutex/contended/") => contended(cell, &mut verdicts),
            name if name == "mutex/enqueue" || name.starts_with("mutex/cancel/") => {
                queue(cell, &mut verdicts);
            }
            name if name.starts_with("parker/") => parker(cell, &mut verdicts),
            _ => {}
        }
        spin_costs_nothing(cell, &mut verdicts);
    }
    flatness(records, &mut verdicts);
    allocations(records, &mut verdicts);
    verdicts
}

/// The records of one table.
#[derive(Clone, Copy)]
struct Cell<'a>(&'a [Record]);

impl<'a> Cell<'a> {
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
        self.0.iter().filter(|record| record.is_peer())
    }

    /// Judges ours / theirs; says so when there is nobody to compare with.
    fn ratio(self, ours: &str, theirs: Option<&Record>, limit: f64, out: &mut Vec<Verdict>) {
        let Some(ours) = self.find(ours) else { return };
        let Some(theirs) = theirs.filter(|theirs| theirs.median > 0.0) else {
            return out.push(verdict(ours, "", f64::NAN, limit, "nobody of that kind in this cell".into()));
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

/// <= 1.10 x a raw pair.
fn uncontended(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    cell.ratio(FIFO, cell.find("raw-cas-swap"), 1.10, out);
}

/// <= 0.75 x the fastest fair peer, and no slower than the unsynchronised mutex.
fn hand_off(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    if cell.0[0].runtime == "minimal" {
        cell.ratio(FIFO, cell.fair_peer(), 0.75, out);
        cell.ratio(FIFO, cell.find("futures-intrusive-local"), 1.0, out);
    }
}

/// `Fifo` beside the fair, `Bypass` beside the unfair, under tokio.
fn contended(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    let first = &cell.0[0];
    if first.runtime != "tokio-2" {
        return;
    }
    let yields = first.workload.ends_with("/yield");
    cell.ratio(FIFO, cell.fair_peer(), if yields && first.n == 16 { 0.3 } else { 1.0 }, out);
    if first.workload != "mutex/contended/section-0" {
        return;
    }
    cell.ratio(BYPASS, cell.unfair_peer(), if first.n == 2 { 1.5 } else { 1.25 }, out);
    if let Some(ours) = cell.find(BYPASS).filter(|_| first.n <= 16) {
        let fairness = verdict(ours, " fairness", ours.fairness, super::FAIR, String::new());
        out.push(Verdict { at_least: true, ..fairness });
    }
}

/// (waiters ahead + 1) x (N + 1) acquisitions, the waiters ahead being all other tasks at most.
fn longest_wait(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    if let Some(ours) = cell.find(BYPASS) {
        let bound = (ours.n * (BYPASS_N + 1)) as f64;
        out.push(verdict(ours, "", ours.max, bound, "acquisitions".into()));
    }
}

/// <= 0.9 x the fastest peer.
fn queue(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    if cell.0[0].n < 1_000_000 {
        cell.ratio(FIFO, fastest(cell.peers()), 0.9, out);
    }
}

/// No bigger than allowed.
fn size(cell: Cell<'_>, limit: f64, out: &mut Vec<Verdict>) {
    for ours in cell.0.iter().filter(|record| record.kind == Kind::Ours) {
        out.push(verdict(ours, "", ours.median, limit, "bytes".into()));
    }
}

/// No slower than the best, within what a rerun differs by: equals would else win by chance.
fn parker(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    let noise = if cell.0[0].n == 1 { 1.03 } else { 1.15 };
    cell.ratio(PARKER, fastest(cell.peers()), noise, out);
}

/// Every one-thread cell <= 1.03 x with the spin compiled out.
fn spin_costs_nothing(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    if ["alone", "disturbed"].contains(&cell.0[0].placement) && cell.0[0].unit == "ns/op" {
        cell.ratio(FIFO, cell.find(NO_SPIN), 1.03, out);
    }
}

/// Nothing is allocated by ours, in any cell whose runtime does not allocate by itself.
fn allocations(records: &[Record], out: &mut Vec<Verdict>) {
    let quiet = |record: &&Record| !record.runtime.starts_with("async-executor");
    let ours = records.iter().filter(|record| record.kind == Kind::Ours && record.unit == "ns/op");
    let worst = ours.filter(quiet).max_by(|left, right| left.allocs_per_op.total_cmp(&right.allocs_per_op));
    if let Some(worst) = worst {
        // A runtime may grow a queue once; a wait that allocates shows as one an operation.
        let beside = "an operation, the worst cell of ours".into();
        out.push(verdict(worst, " allocations", worst.allocs_per_op, 0.001, beside));
    }
}

/// A cancel among a million costs <= 3 x one among a thousand.
fn flatness(records: &[Record], out: &mut Vec<Verdict>) {
    let ours = |record: &&Record| record.kind == Kind::Ours && record.workload.starts_with("mutex/cancel/");
    for many in records.iter().filter(ours).filter(|record| record.n == 1_000_000) {
        let same =
            |few: &&Record| few.n == 1_000 && few.workload == many.workload && few.subject == many.subject;
        if let Some(few) = records.iter().find(same).filter(|_| !many.capped) {
            let beside = format!("x n=1000 ({:.1} / {:.1} ns/op)", many.median, few.median);
            out.push(verdict(many, " flatness", many.median / few.median, 3.0, beside));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn ratios_are_judged_inside_one_cell() {
        let mut unfair = record("mutex/contended/section-0", 16, "quick", Kind::Peer, 10.0);
        unfair.fairness = 0.1;
        let mut records = vec![
            record("mutex/contended/section-0", 16, FIFO, Kind::Ours, 40.0),
            record("mutex/contended/section-0", 16, BYPASS, Kind::Ours, 13.0),
            record("mutex/contended/section-0", 16, "slow", Kind::Peer, 60.0),
            unfair,
        ];
        records.iter_mut().for_each(|record| record.runtime = "tokio-2");
        let verdicts = judge(&records);
        let lines: Vec<String> = verdicts.iter().map(Verdict::line).collect();
        assert!(lines.iter().any(|line| line.starts_with("PASS") && line.contains("0.667")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("FAIL") && line.contains("1.300")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("fairness: 1.000 (>= 0.95)")), "{lines:?}");
    }

    #[test]
    fn an_allocation_is_a_failure() {
        let mut ours = record("mutex/enqueue", 1_000, FIFO, Kind::Ours, 5.0);
        ours.allocs_per_op = 1.0;
        assert!(judge(&[ours]).iter().any(|verdict| !verdict.passes()));
    }
}
