//! Bar charts, one file a workload and runtime, for those who would rather look.

use super::{Record, cells};
use crate::peer::Kind;
use std::fmt::Write;
use std::path::Path;

/// Height of one bar with its gap.
const ROW: usize = 20;
/// Least room for names.
const LEFT: usize = 190;
/// Room for one letter of a name.
const LETTER: usize = 7;
/// Length of the longest bar.
const BAR: f64 = 420.0;
/// Space above the first bar.
const TOP: usize = 44;
/// A bar this many times the third-fastest is cut, so that the others can be told apart.
const CUT: f64 = 12.0;

/// Writes a chart per cell that has something to compare.
pub(crate) fn write(records: &[Record], dir: &Path) -> std::io::Result<usize> {
    std::fs::create_dir_all(dir)?;
    let mut written = 0;
    for cell in cells(records).filter(|cell| cell.len() > 1) {
        let first = &cell[0];
        let name = format!("{}-{}-{}.svg", first.workload.replace('/', "-"), first.n, first.runtime);
        std::fs::write(dir.join(name), chart(cell))?;
        written += 1;
    }
    Ok(written)
}

/// One chart.
fn chart(cell: &[Record]) -> String {
    let mut bars: Vec<&Record> = cell.iter().collect();
    bars.sort_by(|left, right| left.median.total_cmp(&right.median));
    let cut = bars[2.min(bars.len() - 1)].median * CUT;
    let longest = bars.iter().map(|bar| bar.median.min(cut)).fold(f64::MIN_POSITIVE, f64::max);
    let name = bars.iter().map(|bar| bar.subject.len()).max().unwrap_or(0);
    let left = LEFT.max(name * LETTER + 16);
    let (width, height) = (left + BAR as usize + 170, TOP + ROW * bars.len() + 12);
    let first = &cell[0];
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"15\">{}, n = {}, {} ({})</text>\n",
        first.workload, first.n, first.runtime, first.unit
    );
    for (row, record) in bars.iter().enumerate() {
        let share = record.median.min(cut) / longest;
        bar(&mut out, record, (left, TOP + row * ROW), share, record.median > cut);
    }
    out.push_str("</svg>\n");
    out
}

/// One bar with its name and number.
fn bar(out: &mut String, record: &Record, (left, y): (usize, usize), share: f64, cut: bool) {
    let colour = match record.kind {
        Kind::Ours => "#c8443c",
        Kind::Peer => "#7a8ca3",
        Kind::Floor => "#cfd6de",
    };
    let length = (share * BAR).max(1.0);
    let note = match (record.capped, cut) {
        (true, _) => " (capped)",
        (false, true) => " (cut)",
        (false, false) => "",
    };
    writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
         <rect x=\"{left}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{}\">{:.1}, fairness {:.2}{note}</text>",
        left - 8,
        y + 12,
        record.subject,
        ROW - 5,
        left as f64 + length + 6.0,
        y + 12,
        record.median,
        record.fairness,
    )
    .expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::record;

    #[test]
    fn a_chart_has_a_bar_for_everybody() {
        let records = [record("w", 1, "us", Kind::Ours, 6.0), record("w", 1, "them", Kind::Peer, 600.0)];
        let text = chart(&records);
        assert_eq!(text.matches("<rect x=").count(), 2);
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
    }
}
