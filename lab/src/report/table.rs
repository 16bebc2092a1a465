//! Prints the results as text: one table a cell, fastest first, with ratios.

use super::{Failure, Record, cells, fastest};
use crate::peer::Kind;
use std::fmt::Write;

/// Least room for a name.
const NAME: usize = 26;

/// All tables, and below them the subjects that have no number, and why.
pub(crate) fn tables(records: &[Record], failures: &[Failure]) -> String {
    let mut out = String::new();
    for cell in cells(records) {
        table(&mut out, cell);
    }
    for failure in failures {
        let Failure { workload, n, runtime, subject, outcome, why, .. } = failure;
        let line = format!("! {workload} n={n} {runtime}: {subject} {}: {why}", outcome.name());
        writeln!(out, "{line}").expect("a string takes everything");
    }
    out
}

/// One table.
fn table(out: &mut String, cell: &[Record]) {
    let first = &cell[0];
    let mut sorted: Vec<&Record> = cell.iter().collect();
    sorted.sort_by(|left, right| left.median.total_cmp(&right.median));
    let floor = fastest(cell.iter().filter(|record| record.kind == Kind::Floor && !record.capped));
    let peers = || cell.iter().filter(|record| record.is_peer() && !record.capped);
    let fair = fastest(peers().filter(|record| record.is_fair()));
    let peer = fastest(peers());
    let width = cell.iter().map(|record| record.subject.len() + 1).max().unwrap_or(0).max(NAME);
    let mut line = |text: String| writeln!(out, "{text}").expect("a string takes everything");
    line(format!("\n{}  n={}  runtime={}  [{}]", first.workload, first.n, first.runtime, first.unit));
    line(format!(
        "  {:<width$}{:>10}{:>10}{:>10}{:>7}{:>9}{:>9}{:>9}{:>9}  {}",
        "", "median", "p10", "p90", "fair", "/floor", "/fair", "/peer", "allocs", "samples"
    ));
    for record in sorted {
        let mark = match record.kind {
            Kind::Ours => '*',
            Kind::Floor => '_',
            Kind::Peer => ' ',
        };
        let capped = if record.capped { " capped" } else { "" };
        line(format!(
            "{mark} {:<width$}{:>10}{:>10}{:>10}{:>7.2}{:>9}{:>9}{:>9}{:>9}  {} {}{capped}",
            record.subject,
            short(record.median),
            short(record.p10),
            short(record.p90),
            record.fairness,
            ratio(record, floor),
            ratio(record, fair),
            ratio(record, peer),
            short(record.allocs_per_op),
            record.samples,
            record.placement,
        ));
    }
}

/// How many times slower than another.
fn ratio(record: &Record, other: Option<&Record>) -> String {
    match other {
        Some(other) if other.median > 0.0 => match record.median / other.median {
            times if times >= 100.0 => format!("{times:.0}x"),
            times => format!("{times:.2}x"),
        },
        _ => "-".into(),
    }
}

/// A number with as many decimals as its size deserves.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn a_table_names_every_subject_with_ratios() {
        let records = [
            record("w", 1, "us", Kind::Ours, 6.0),
            record("w", 1, "them", Kind::Peer, 4.0),
            record("w", 1, "bottom", Kind::Floor, 2.0),
        ];
        let text = tables(&records, &[]);
        assert!(text.contains("3.00x") && text.contains("1.50x"), "{text}");
        let place = |name| text.find(name).unwrap();
        assert!(place("bottom") < place("them") && place("them") < place("us"));
    }
}
