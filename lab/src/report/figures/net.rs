//! Judges the figures of sockets.

use super::{Cell, Verdict};

/// The name of ours, and of the peer that has as many threads.
const OURS: &str = "tasuki-rt-1";
const TOKIO: &str = "tokio-1";

/// Judges one table.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    match cell.workload() {
        // No slower than tokio, nor later, nor larger.
        "net/kv" | "net/kv-p99" | "net/hyper-p99" | "net/memory" => {
            cell.ratio(OURS, cell.find(TOKIO), 1.0, out)
        }
        // <= 0.95 x tokio's processor time and system calls; >= 1.05 x its requests a second.
        "net/kv-server-time" | "net/hyper-server-time" | "net/kv-calls" | "net/hyper-calls" | "net/hyper" => {
            cell.ratio(OURS, cell.find(TOKIO), 0.95, out)
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::peer::Kind;
    use crate::report::figures::judge;
    use crate::report::tests::record;

    #[test]
    fn the_processor_time_of_the_server_is_judged_beside_tokio() {
        let of = |ours| {
            judge(&[
                record("net/kv-server-time", 64, "tasuki-rt-1", Kind::Ours, ours),
                record("net/kv-server-time", 64, "tokio-1", Kind::Peer, 100.0),
            ])
        };
        assert!(of(90.0)[0].passes() && !of(99.0)[0].passes());
    }
}
