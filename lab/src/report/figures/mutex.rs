//! Judges the figures of the mutex.

use super::{Cell, NOISE, Verdict, size, verdict};
use crate::peer::Kind;
use crate::report::{FAIR, Record, fastest};

/// Names of our subjects.
const FIFO: &str = "tasuki-fifo";
const NO_SPIN: &str = "tasuki-fifo-no-spin";
const BYPASS: &str = "tasuki-bypass";
/// The floor of cancelling.
const UNLINK: &str = "raw-unlink";
/// The N of the bypass that is measured.
const BYPASS_N: u64 = 64;

/// Judges one table of the mutex.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    match cell.workload() {
        "mutex/uncontended" => uncontended(cell, out),
        "mutex/hand-off" => hand_off(cell, out),
        "mutex/longest-wait" => longest_wait(cell, out),
        "mutex/size/lock" => size(cell, 16.0, out),
        "mutex/size/future" => size(cell, 64.0, out),
        name if name.starts_with("mutex/contended/") => contended(cell, out),
        name if name == "mutex/enqueue" || name.starts_with("mutex/cancel/") => queue(cell, out),
        _ => {}
    }
    spin_costs_nothing(cell, out);
}

/// <= 1.15 x a raw pair, and no slower than any peer.
fn uncontended(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    cell.ratio(FIFO, cell.find("raw-cas-swap"), 1.15, out);
    cell.ratio(FIFO, fastest(cell.peers()), NOISE, out);
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
    // <= 0.4 x the fastest fair peer where many tasks come back at once; <= 1.1 x for two, which seldom meet.
    let limit = match (first.workload.as_str(), first.n) {
        ("mutex/contended/section-0/yield", 16) => 0.4,
        ("mutex/contended/section-100/yield", 2) => 1.1,
        _ => 1.0,
    };
    cell.ratio(FIFO, cell.fair_peer(), limit, out);
    if first.workload != "mutex/contended/section-0" {
        return;
    }
    cell.ratio(BYPASS, cell.unfair_peer(), if first.n == 2 { 1.5 } else { 1.25 }, out);
    if let Some(ours) = cell.find(BYPASS).filter(|_| first.n <= 16) {
        let fairness = verdict(ours, " fairness", ours.fairness, FAIR, String::new());
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

/// Every one-thread cell <= 1.03 x with the spin compiled out.
fn spin_costs_nothing(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    if ["alone", "disturbed"].contains(&cell.0[0].placement.as_str()) && cell.0[0].unit == "ns/op" {
        cell.ratio(FIFO, cell.find(NO_SPIN), NOISE, out);
    }
}

/// A cancel among a million costs <= 3 x one among a thousand, of mutexes and of channels; the floor's growth is told beside it.
pub(super) fn flatness(records: &[Record], out: &mut Vec<Verdict>) {
    let is_cancel = |name: &str| name.starts_with("mutex/cancel/") || name.starts_with("channel/cancel-");
    let ours = |record: &&Record| record.kind == Kind::Ours && is_cancel(&record.workload);
    for many in records.iter().filter(ours) {
        let Some((growth, text)) = growth(records, &many.workload, &many.subject) else { continue };
        if many.n == 1_000_000 {
            let floor = self::growth(records, &many.workload, UNLINK);
            let floor = floor.map_or_else(String::new, |(times, _)| format!("; {UNLINK}: {times:.1}"));
            out.push(verdict(many, " flatness", growth, 3.0, format!("{text}{floor}")));
        }
    }
}

/// How many times what it costs among a thousand an operation costs among a million.
fn growth(records: &[Record], workload: &str, subject: &str) -> Option<(f64, String)> {
    let cost = |n| {
        let same = |at: &&Record| at.n == n && at.workload == workload && at.subject == subject && !at.capped;
        records.iter().find(same).map(|record| record.median)
    };
    let (many, few) = (cost(1_000_000)?, cost(1_000)?);
    Some((many / few, format!("x n=1000 ({many:.1} / {few:.1} ns/op)")))
}

#[cfg(test)]
mod tests {
    use super::{BYPASS, FIFO};
    use crate::peer::Kind;
    use crate::report::figures::{Verdict, judge};
    use crate::report::tests::record;

    #[test]
    fn growth_is_judged_and_told_beside_the_floor() {
        let cell = |n, subject, kind, ns| record("mutex/cancel/random", n, subject, kind, ns);
        let records = [
            cell(1_000, FIFO, Kind::Ours, 5.0),
            cell(1_000, super::UNLINK, Kind::Floor, 2.0),
            cell(1_000_000, FIFO, Kind::Ours, 40.0),
            cell(1_000_000, super::UNLINK, Kind::Floor, 14.0),
        ];
        let lines: Vec<String> = judge(&records).iter().map(Verdict::line).collect();
        let told = |line: &&String| line.contains("flatness: 8.000") && line.ends_with("raw-unlink: 7.0");
        assert!(lines.iter().find(told).is_some_and(|line| line.starts_with("FAIL")), "{lines:?}");
    }

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
        records.iter_mut().for_each(|record| record.runtime = "tokio-2".into());
        let verdicts = judge(&records);
        let lines: Vec<String> = verdicts.iter().map(Verdict::line).collect();
        assert!(lines.iter().any(|line| line.starts_with("PASS") && line.contains("0.667")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("FAIL") && line.contains("1.300")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("fairness: 1.000 (>= 0.95)")), "{lines:?}");
    }
}
