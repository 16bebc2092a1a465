//! Judges the figures of the parker.

use super::{Cell, NOISE, Verdict};
use crate::report::fastest;

/// No slower than the best, within what a rerun differs by (equals would else win by chance): unpark of a set token, and a round of two threads.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    let noise = if cell.0[0].n == 1 { NOISE } else { 1.15 };
    cell.ratio("tasuki-parker", fastest(cell.peers()), noise, out);
}
