//! Judges the figures of the reader-writer lock, the condition variable and timers.

use super::{Cell, NOISE, Verdict, size};
use crate::report::fastest;

/// The name of ours.
const OURS: &str = "tasuki";
/// What a rerun of two threads differs by within one placement.
const TWO_THREADS: f64 = 1.15;

/// Judges one table.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    match cell.workload() {
        "rwlock/size" => size(cell, 24.0, out),
        // <= 1.15 x the standard library's, which blocks.
        "rwlock/read" | "rwlock/write" => cell.ratio(OURS, cell.find("std-rwlock"), 1.15, out),
        // No slower than the fastest peer.
        "rwlock/read-only" => cell.ratio(OURS, fastest(cell.peers()), TWO_THREADS, out),
        // Faster than every fair peer.
        "rwlock/mix-90-10" => cell.ratio(OURS, cell.fair_peer(), 1.0, out),
        "condvar/ping-pong" => cell.ratio(OURS, fastest(cell.peers()), NOISE, out),
        // No slower than tokio: each beside its like, and a whole wait with its limit beside a bare sleep.
        "time/arm-drop" => {
            cell.ratio("tasuki-sleep", cell.find("tokio-sleep"), 1.0, out);
            cell.ratio("tasuki-timeout", cell.find("tokio-timeout"), 1.0, out);
            cell.ratio("tasuki-timeout", cell.find("tokio-sleep"), 1.0, out);
        }
        _ => {}
    }
}
