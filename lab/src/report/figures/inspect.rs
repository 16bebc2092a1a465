//! The figures of the feature `inspect`: how many times as long the same operation takes with notes.

use super::{Cell, Verdict};

/// Judges one table.
pub(super) fn judge(cell: Cell<'_>, out: &mut Vec<Verdict>) {
    let limit = match cell.workload() {
        "inspect/uncontended" | "inspect/semaphore" | "inspect/rwlock-read" => 1.5,
        "inspect/contended" => 1.1,
        _ => return,
    };
    cell.ratio("inspect-on", cell.find("inspect-off"), limit, out);
}

#[cfg(test)]
mod tests {
    use crate::peer::Kind;
    use crate::report::figures::judge;
    use crate::report::tests::record;

    #[test]
    fn notes_are_judged_beside_none() {
        let cell = |workload, on| {
            let records = [
                record(workload, 16, "inspect-on", Kind::Ours, on),
                record(workload, 16, "inspect-off", Kind::Floor, 10.0),
            ];
            judge(&records).iter().all(|verdict| verdict.passes())
        };
        assert!(cell("inspect/contended", 11.0) && !cell("inspect/contended", 11.1));
        assert!(cell("inspect/uncontended", 15.0) && !cell("inspect/uncontended", 15.1));
        assert!(cell("inspect/lock-bytes", 500.0), "stated, not judged");
    }
}
