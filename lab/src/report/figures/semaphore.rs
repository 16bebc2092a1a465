//! Judges the figures of the semaphore.

use super::{Cell, Verdict, size};

/// The name of our fair one.
const FIFO: &str = "tasuki-fifo";

/// Judges one table of the semaphore.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    match cell.workload() {
        "semaphore/size" => size(cell, 16.0, out),
        // <= 1.15 x a raw pair.
        "semaphore/uncontended" => cell.ratio(FIFO, cell.find("raw-cas-add"), 1.15, out),
        // <= 0.9 x the fastest fair peer, wherever tasks share permits.
        "semaphore/held" => cell.ratio(FIFO, cell.fair_peer(), 0.9, out),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::peer::Kind;
    use crate::report::figures::judge;
    use crate::report::tests::record;

    #[test]
    fn an_unfair_peer_is_not_the_measure() {
        let mut unfair = record("semaphore/held", 64, "quick", Kind::Peer, 10.0);
        unfair.fairness = 0.1;
        let records = [
            record("semaphore/held", 64, "tasuki-fifo", Kind::Ours, 30.0),
            record("semaphore/held", 64, "even", Kind::Peer, 40.0),
            unfair,
        ];
        assert!(judge(&records)[0].passes() && (judge(&records)[0].measured - 0.75).abs() < 1e-9);
    }
}
