//! Charts: bars for one cell, curves for a series of numbers.

mod bars;
mod curves;

use super::json::Document;
use super::{Record, cells};
use crate::peer::Kind;
use std::path::Path;

/// The cells whose bars go into the documents.
const BARS: [(&str, u64, &str); 6] = [
    ("mutex/uncontended", 1, "none"),
    ("mutex/hand-off", 64, "minimal"),
    ("mutex/contended/section-0", 16, "tokio-2"),
    ("mutex/contended/section-0/yield", 16, "tokio-2"),
    ("semaphore/held", 64, "tokio-2"),
    ("runtime/mutex", 16, "each"),
];
/// What is drawn over its numbers.
const CURVES: [(&str, &str); 5] = [
    ("mutex/cancel/random", "none"),
    ("mutex/hand-off", "minimal"),
    ("mutex/contended/section-0", "tokio-2"),
    ("event/wake-all/call", "none"),
    ("semaphore/permits", "minimal"),
];

/// A chart: its file name, its title, and its text.
pub(crate) struct Chart {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) text: String,
}

/// The charts of the documents, of what a run has.
pub(crate) fn chosen(document: &Document) -> Vec<Chart> {
    let origin = origin(document);
    let growth = CURVES
        .iter()
        .filter_map(|(workload, runtime)| curves::chart(&document.records, workload, runtime, &origin));
    let chosen =
        |cell: &&[Record]| BARS.contains(&(cell[0].workload.as_str(), cell[0].n, cell[0].runtime.as_str()));
    let bars = cells(&document.records).filter(chosen).map(|cell| bars::chart(cell, &origin));
    bars.chain(growth).collect()
}

/// Writes a chart for every cell that has something to compare, and for every growth.
pub(crate) fn write(document: &Document, dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let origin = origin(document);
    let compared = cells(&document.records).filter(|cell| cell.len() > 1);
    for chart in compared.map(|cell| bars::chart(cell, &origin)).chain(chosen(document)) {
        std::fs::write(dir.join(chart.file), chart.text)?;
    }
    Ok(())
}

/// Where the numbers come from, in one line.
fn origin(document: &Document) -> String {
    let quick = if document.quick { ", quick run" } else { "" };
    format!("{}, {}{quick}", document.machine.processor, document.machine.date)
}

/// The file of a chart.
fn file(parts: &[&str]) -> String {
    format!("{}.svg", parts.join("-").replace('/', "-"))
}

/// How a subject is drawn: ours, a peer that was fair in that cell, one that was not, or a floor.
fn colour(kind: Kind, fair: bool) -> &'static str {
    match (kind, fair) {
        (Kind::Ours, _) => "#c8443c",
        (Kind::Peer, true) => "#3f6fa3",
        (Kind::Peer, false) => "#e0b060",
        (Kind::Floor, _) => "#c3c9d0",
    }
}

/// What the colours mean.
const LEGEND: [(&str, &str); 4] = [
    ("#c8443c", "Tasuki"),
    ("#3f6fa3", "peer, served its tasks evenly here"),
    ("#e0b060", "peer, served its tasks unevenly here"),
    ("#c3c9d0", "floor: does less"),
];

/// The opening of a chart: size, background, title, origin.
fn open(width: usize, height: usize, title: &str, subtitle: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"bold\">{}</text>\n\
         <text x=\"12\" y=\"42\" fill=\"#667\">{}</text>\n",
        escaped(title),
        escaped(subtitle)
    )
}

/// The meaning of the colours, in a row.
fn legend(y: usize) -> String {
    let mut x = 12;
    let mut out = String::new();
    for (colour, text) in LEGEND {
        out.push_str(&format!(
            "<rect x=\"{x}\" y=\"{}\" width=\"11\" height=\"11\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"#445\">{text}</text>\n",
            y - 10,
            x + 16,
            y
        ));
        x += 40 + 7 * text.len();
    }
    out
}

/// Text as XML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A number with as many decimals as its size deserves.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => super::titles::grouped(value.round() as u64),
        size if size >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn a_chart_has_a_bar_for_every_subject_and_tells_fair_from_unfair() {
        let mut unfair = record("mutex/hand-off", 64, "quick<T>", Kind::Peer, 600.0);
        unfair.fairness = 0.1;
        let cell = [record("mutex/hand-off", 64, "us", Kind::Ours, 6.0), unfair];
        let chart = bars::chart(&cell, "here");
        assert_eq!(chart.text.matches("class=\"bar\"").count(), 2);
        assert!(chart.text.contains("quick&lt;T&gt;") && chart.text.contains("fairness 0.10"));
        assert!(chart.text.starts_with("<svg") && chart.text.ends_with("</svg>\n"));
    }

    #[test]
    fn a_curve_has_a_line_for_every_subject_with_two_numbers() {
        let of = |n, subject, ns| record("mutex/cancel/random", n, subject, Kind::Peer, ns);
        let records = [
            of(10, "a", 1.0),
            of(10, "b", 2.0),
            of(1_000, "a", 1.0),
            of(1_000, "b", 200.0),
            of(10, "c", 1.0),
        ];
        let chart = curves::chart(&records, "mutex/cancel/random", "none", "here").unwrap();
        assert_eq!(chart.text.matches("<polyline").count(), 2);
        assert!(curves::chart(&records, "mutex/hand-off", "minimal", "here").is_none());
    }
}
