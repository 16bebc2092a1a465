//! Judges the figures of the runtime.

use super::{Cell, Verdict, size, verdict};
use crate::report::{FAIR, Record, cells, fastest};

/// The name of ours.
const OURS: &str = "tasuki-rt-2";
/// Our lock on our runtime.
const LOCK: &str = "tasuki-fifo@tasuki-rt-next";
/// What is compared with other runtimes.
const COMPARED: [&str; 6] = [
    "runtime/spawn-join",
    "runtime/spawn-inside",
    "runtime/chained-spawn",
    "runtime/yield",
    "runtime/ping-pong",
    "runtime/timers",
];
/// In so many of them no peer is faster.
const MOST: f64 = 4.0;

/// Judges one table.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    match cell.workload() {
        "runtime/late" => late(cell, out),
        "runtime/memory" => size(cell, 200.0, out),
        "runtime/mutex" => mutex(cell, 0.45, FAIR, out),
        "runtime/hand-off" if cell.0[0].n > 2 => mutex(cell, 0.5, 0.9, out),
        // Never above 1.15 x the best flavour of the best peer.
        name if COMPARED.contains(&name) => cell.ratio(OURS, best_peer(cell), 1.15, out),
        _ => {}
    }
}

/// With one worker free a deadline is at most two milliseconds late.
fn late(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    if let Some(ours) = cell.find(OURS) {
        out.push(verdict(ours, "", ours.median, 2e6, "ns".into()));
    }
}

/// All but the executor that has one thread: what cannot spread its tasks need not synchronise.
fn best_peer(cell: Cell<'_>) -> Option<&Record> {
    fastest(cell.peers().filter(|record| record.subject != "async-executor-1"))
}

/// At most `limit` x the best fair peer on its best runtime, and at least so fair.
fn mutex(cell: Cell<'_>, limit: f64, fair: f64, out: &mut Vec<Verdict>) {
    cell.ratio(LOCK, cell.fair_peer(), limit, out);
    if let Some(ours) = cell.find(LOCK) {
        let fairness = verdict(ours, " fairness", ours.fairness, fair, String::new());
        out.push(Verdict { at_least: true, ..fairness });
    }
}

/// Faster than every flavour of every peer in at least four of the six, when all were measured.
pub(super) fn most(records: &[Record], out: &mut Vec<Verdict>) {
    let compared = cells(records).map(Cell).filter(|cell| COMPARED.contains(&cell.workload()));
    let pairs: Vec<_> = compared.filter_map(|cell| Some((cell.find(OURS)?, best_peer(cell)?))).collect();
    let [(ours, _), ..] = pairs[..] else { return };
    if pairs.len() < COMPARED.len() {
        return;
    }
    let faster = pairs.iter().filter(|(ours, theirs)| ours.median < theirs.median).count();
    let beside = format!("of {}", COMPARED.len());
    let what = format!("runtime/* {OURS} faster than all");
    out.push(Verdict { what, at_least: true, ..verdict(ours, "", faster as f64, MOST, beside) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Kind;
    use crate::report::figures;
    use crate::report::tests::record;

    #[test]
    fn faster_than_all_in_most() {
        let of = |wins: usize| {
            let pair = |(index, name): (usize, &&'static str)| {
                let ours = if index < wins { 9.0 } else { 11.0 };
                [record(name, 1, OURS, Kind::Ours, ours), record(name, 1, "other", Kind::Peer, 10.0)]
            };
            let records: Vec<_> = COMPARED.iter().enumerate().flat_map(pair).collect();
            let verdicts = figures::judge(&records);
            verdicts.iter().find(|verdict| verdict.at_least).expect("judged").passes()
        };
        assert!(of(4) && !of(3));
    }
}
