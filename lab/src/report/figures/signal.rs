//! Judges the figures of events, wait groups, barriers and tokens.

use super::{Cell, NOISE, Verdict, size, verdict};
use crate::report::fastest;

/// The name of ours.
const OURS: &str = "tasuki";

/// Judges one table.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    let peer = fastest(cell.peers());
    match cell.workload() {
        "event/size" => size(cell, 16.0, out),
        "wait-group/size" => size(cell, 24.0, out),
        "barrier/size" => size(cell, 32.0, out),
        // No slower than the fastest peer.
        "event/ping-pong" | "event/wake-all/register" | "event/wake-all/complete" => {
            cell.ratio(OURS, peer, NOISE, out);
        }
        // <= 1.15 x the fastest peer, which may wake under its lock; ours does not.
        "event/wake-all/call" | "token/cancel/call" => {
            cell.ratio(OURS, peer, 1.15, out);
            two_passes(cell, out);
        }
        // <= 1.0 x tokio-util's tracker.
        "wait-group/add-done" => cell.ratio(OURS, cell.find("tokio-util"), 1.0, out),
        // <= 0.7 x the fastest peer.
        "barrier/arrive" => cell.ratio(OURS, peer, 0.7, out),
        // A cancelled arrival is withdrawn.
        "barrier/cancelled-arrival" => {
            if let Some(ours) = cell.find(OURS) {
                out.push(verdict(ours, "", ours.median, 0.0, "arrivals leaked".into()));
            }
        }
        // One load.
        "token/check" => cell.ratio(OURS, cell.find("raw-load"), NOISE, out),
        _ => {}
    }
}

/// Beside the floor of a release that runs no foreign code under its lock: <= 1.15 x, where there are enough waiters that the call itself does not count.
fn two_passes(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    if let Some(floor) = cell.find("raw-two-passes").filter(|floor| floor.n >= 1_000) {
        cell.ratio(OURS, Some(floor), 1.15, out);
    }
}

#[cfg(test)]
mod tests {
    use crate::peer::Kind;
    use crate::report::figures::{Verdict, judge};
    use crate::report::tests::record;

    #[test]
    fn a_leaked_arrival_of_ours_is_a_failure() {
        let of = |leaked| judge(&[record("barrier/cancelled-arrival", 1, "tasuki", Kind::Ours, leaked)]);
        assert!(of(0.0)[0].passes() && !of(1.0)[0].passes());
    }

    /// Results that were measured before the lab had the floor are judged without it.
    #[test]
    fn a_wake_all_is_judged_beside_its_floor_too() {
        let ours = |n| record("event/wake-all/call", n, "tasuki", Kind::Ours, 2.0);
        let peer = |n| record("event/wake-all/call", n, "fast", Kind::Peer, 1.0);
        let floor = |n| record("event/wake-all/call", n, "raw-two-passes", Kind::Floor, 1.9);
        let beside_it = |records: &[_]| {
            let lines = judge(records).iter().map(Verdict::line).collect::<Vec<_>>();
            lines.into_iter().filter(|line| line.contains("raw-two-passes")).collect::<Vec<_>>()
        };
        let told = beside_it(&[ours(1_000), peer(1_000), floor(1_000)]);
        assert!(told.len() == 1 && told[0].starts_with("PASS"), "{told:?}");
        assert!(beside_it(&[ours(10), peer(10), floor(10)]).is_empty(), "the call itself counts");
        assert!(beside_it(&[ours(1_000), peer(1_000)]).is_empty());
    }

    #[test]
    fn the_fastest_peer_is_the_measure() {
        let records = [
            record("barrier/arrive", 8, "tasuki", Kind::Ours, 15.0),
            record("barrier/arrive", 8, "slow", Kind::Peer, 100.0),
            record("barrier/arrive", 8, "fast", Kind::Peer, 20.0),
        ];
        assert!(!judge(&records)[0].passes());
    }
}
