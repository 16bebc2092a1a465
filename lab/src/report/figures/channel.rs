//! Judges the figures of channels.

use super::{Cell, Verdict, verdict};
use crate::report::fastest;

/// The name of ours.
const OURS: &str = "tasuki";

/// The peers that lose nothing when a wait is cancelled and let no newcomer overtake a sender that waits: as the table of losses finds them.
const SAFE_AND_FAIR: [&str; 4] = ["asyncband", "flume", "futures-intrusive", "tokio"];

/// A wait that is cancelled stays registered there: there is nothing to compare.
const DO_NOT_DEREGISTER: [&str; 2] = ["futures", "postage"];

/// Judges one table.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    match cell.workload() {
        // <= 0.95 x the fastest peer.
        "channel/oneshot" | "channel/oneshot-waiting" => cell.ratio(OURS, fastest(cell.peers()), 0.95, out),
        // <= 0.6 x the fastest peer that deregisters; among a million flatness is judged.
        "channel/cancel-recv" | "channel/cancel-send" => {
            if cell.0[0].n == 1_000_000 {
                return;
            }
            let peers = cell.peers().filter(|peer| !DO_NOT_DEREGISTER.contains(&peer.subject.as_str()));
            cell.ratio(OURS, fastest(peers), 0.6, out);
        }
        // <= 0.6 x the fastest peer that is safe and fair, <= 1.1 x kanal, which is fair and loses messages.
        _ => {
            let peers = cell.peers().filter(|peer| SAFE_AND_FAIR.contains(&peer.subject.as_str()));
            cell.ratio(OURS, fastest(peers), 0.6, out);
            cell.ratio(OURS, cell.find("kanal"), 1.1, out);
        }
    }
    if let Some(ours) = cell.find(OURS).filter(|ours| ours.workload.starts_with("channel/many-")) {
        let fairness = verdict(ours, " fairness", ours.fairness, 0.9, String::new());
        out.push(Verdict { at_least: true, ..fairness });
    }
}

#[cfg(test)]
mod tests {
    use crate::peer::Kind;
    use crate::report::figures::judge;
    use crate::report::tests::record;

    #[test]
    fn the_measure_is_safe_and_fair() {
        let records = [
            record("channel/try", 1, "tasuki", Kind::Ours, 6.0),
            record("channel/try", 1, "asyncband", Kind::Peer, 11.0),
            record("channel/try", 1, "crossfire", Kind::Peer, 1.0),
            record("channel/try", 1, "kanal", Kind::Peer, 5.0),
        ];
        let passes: Vec<_> = judge(&records).iter().map(|verdict| verdict.passes()).collect();
        assert_eq!(passes[..2], [true, false]);
    }

    #[test]
    fn fairness_and_growth_are_judged() {
        let mut unfair = record("channel/many-to-one", 9, "tasuki", Kind::Ours, 6.0);
        unfair.fairness = 0.89;
        let records = [
            unfair,
            record("channel/cancel-recv", 1_000, "tasuki", Kind::Ours, 2.0),
            record("channel/cancel-recv", 1_000_000, "tasuki", Kind::Ours, 7.0),
        ];
        let lines: Vec<_> = judge(&records).iter().map(|verdict| verdict.line()).collect();
        assert!(
            lines.iter().any(|line| line.starts_with("FAIL") && line.contains("fairness: 0.890")),
            "{lines:?}"
        );
        assert!(
            lines.iter().any(|line| line.starts_with("FAIL") && line.contains("flatness: 3.500")),
            "{lines:?}"
        );
    }
}
