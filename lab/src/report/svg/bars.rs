//! Draws one cell as a bar chart, fastest first.

use super::{Chart, colour, escaped, file, legend, open, short};
use crate::report::{Record, titles};

/// Height of one bar with its gap.
const ROW: usize = 21;
/// Least room for names.
const LEFT: usize = 190;
/// Room for one letter of a name.
const LETTER: usize = 7;
/// Length of the longest bar.
const BAR: f64 = 420.0;
/// Space above the first bar.
const TOP: usize = 86;
/// A bar this many times the fifth-fastest is cut, so that the others can be told apart.
const CUT: f64 = 6.0;

/// The chart of a cell.
pub(super) fn chart(cell: &[Record], origin: &str) -> Chart {
    let mut bars: Vec<&Record> = cell.iter().collect();
    bars.sort_by(|left, right| left.median.total_cmp(&right.median));
    let cut = bars[4.min(bars.len() - 1)].median * CUT;
    let longest = bars.iter().map(|bar| bar.median.min(cut)).fold(f64::MIN_POSITIVE, f64::max);
    let name = bars.iter().map(|bar| bar.subject.len()).max().unwrap_or(0);
    let left = LEFT.max(name * LETTER + 16);
    let (width, height) = ((left + BAR as usize + 190).max(860), TOP + ROW * bars.len() + 12);
    let Record { workload, n, runtime, unit, .. } = &cell[0];
    let title = titles::title(workload, *n, runtime);
    let unit = if unit == "ns/op" { "nanoseconds an operation, less is better" } else { unit };
    let mut text = open(width, height, &title, &format!("{unit}. {origin}"));
    text.push_str(&legend(66));
    for (row, record) in bars.iter().enumerate() {
        let share = record.median.min(cut) / longest;
        text.push_str(&bar(record, (left, TOP + row * ROW), share, record.median > cut));
    }
    text.push_str("</svg>\n");
    Chart { file: file(&[workload, &n.to_string(), runtime]), title, text }
}

/// One bar with its name, number, spread and fairness.
fn bar(record: &Record, (left, y): (usize, usize), share: f64, cut: bool) -> String {
    let length = (share * BAR).max(1.0);
    let mut note = String::new();
    if !record.is_fair() {
        note.push_str(&format!(", fairness {:.2}", record.fairness));
    }
    if record.capped {
        note.push_str(", too slow to be sampled");
    }
    if cut {
        note.push_str(" (bar cut)");
    }
    format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
         <rect class=\"bar\" x=\"{left}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{}\"/>\
         <text x=\"{:.1}\" y=\"{}\">{}{note}</text>\n",
        left - 8,
        y + 12,
        escaped(&record.subject),
        ROW - 6,
        colour(record.kind, record.is_fair()),
        left as f64 + length + 6.0,
        y + 12,
        short(record.median),
    )
}
