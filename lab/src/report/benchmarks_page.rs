//! Writes the results part of docs/benchmarks.md, one section for each file of results.

use super::json::Document;
use super::svg::{self, Chart};
use super::{Record, cells, fastest, figures, titles};
use crate::peer::Kind;
use std::fs;
use std::path::{Path, PathBuf};

/// What stands around the part that is written here.
const BEGIN: &str = "<!-- written by `lab report`: begin -->\n";
const END: &str = "<!-- written by `lab report`: end -->\n";
/// The document.
const PAGE: &str = "docs/benchmarks.md";
/// Where charts go.
const CHARTS: &str = "docs/charts";

/// Of ours the one that stands for all in a cell: the first of these that is there.
const OURS: [&str; 7] = [
    "tasuki-fifo",
    "tasuki",
    "tasuki-rt-2",
    "tasuki-fifo@tasuki-rt-next",
    "tasuki-parker",
    "tasuki-timeout",
    "tasuki-release",
];

/// What is compared between processors.
const COMPARED: [(&str, u64, &str); 12] = [
    ("mutex/uncontended", 1, "none"),
    ("mutex/hand-off", 64, "minimal"),
    ("mutex/enqueue", 1_000, "none"),
    ("mutex/cancel/random", 1_000_000, "none"),
    ("mutex/contended/section-0", 16, "tokio-2"),
    ("mutex/contended/section-0/yield", 16, "tokio-2"),
    ("semaphore/uncontended", 1, "none"),
    ("semaphore/held", 64, "tokio-2"),
    ("event/wake-all/call", 1_000, "none"),
    ("rwlock/read", 1, "none"),
    ("barrier/arrive", 64, "tokio-2"),
    ("parker/hop", 2, "none"),
];

/// A file of results: its name without an ending, and what it says.
type Run = (String, Document);

/// Where a run comes from, for people.
pub(crate) fn origin(document: &Document) -> String {
    let machine = &document.machine;
    let price = |ns: f64| if ns.is_finite() { format!("{ns:.1} ns") } else { "an unknown time".into() };
    let mut text = format!(
        "{}, {} processors. A locked pair (compare-exchange, swap) takes {}, a cache line {} from one processor to another. \
         {}, {}, commit {}, {}.",
        machine.processor,
        machine.processors,
        price(machine.locked_pair_ns),
        price(machine.bounce_ns),
        machine.kernel,
        machine.compiler,
        machine.commit,
        machine.date
    );
    if document.quick {
        text.push_str(" A quick run: for a first look, not for quoting.");
    }
    if !machine.note.is_empty() {
        text.push_str(&format!(" Note: {}.", machine.note));
    }
    text.push('\n');
    text
}

/// Writes the sections and their charts into the documents of this workspace.
pub(crate) fn publish(files: &[PathBuf]) -> Result<(), String> {
    let runs = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let page = root().join(PAGE);
    let before = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let text = replaced(&before, &sections(&runs))?;
    fs::write(&page, text).map_err(|error| format!("{}: {error}", page.display()))?;
    for (name, document) in &runs {
        let folder = root().join(CHARTS).join(name);
        // Those of an earlier run that are not drawn any more must not stay.
        fs::remove_dir_all(&folder).ok();
        let write = |chart: Chart| fs::write(folder.join(chart.file), chart.text);
        let written =
            fs::create_dir_all(&folder).and_then(|()| svg::chosen(document).into_iter().try_for_each(write));
        written.map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    println!("{} sections in {PAGE}", runs.len());
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the lab is a member of the workspace").to_owned()
}

fn read(file: &Path) -> Result<Run, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string());
    let document = text.and_then(|text| Document::read(&text));
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    document.map(|document| (name, document)).map_err(|error| format!("{}: {error}", file.display()))
}

/// The page with the part between the marks replaced.
fn replaced(page: &str, part: &str) -> Result<String, String> {
    let ends = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = ends.ok_or(format!("{PAGE} lacks the marks {BEGIN:?} and {END:?}"))?;
    Ok(format!("{head}{BEGIN}{part}{END}{tail}"))
}

/// All sections.
fn sections(runs: &[Run]) -> String {
    let mut out = String::new();
    for (name, document) in runs {
        out.push_str(&section(name, document));
    }
    out.push_str(&differences(runs));
    out
}

/// One run.
fn section(name: &str, document: &Document) -> String {
    let mut out = format!("\n### {}\n\n{}", document.machine.processor, origin(document));
    for chart in svg::chosen(document) {
        out.push_str(&format!("\n![{}](charts/{}/{})\n", chart.title, name, chart.file));
    }
    out.push_str("\n<details><summary>Every cell</summary>\n\n");
    out.push_str("Median in the unit of the last column; in parentheses the fairness where it is below 1.00. A fair peer has .95 and more in that very cell.\n\n");
    out.push_str("| what | cell | ours | fastest fair peer | ours / it | fastest peer | unit |\n|---|---|---|---|---|---|---|\n");
    for cell in cells(&document.records) {
        out.push_str(&row(cell));
    }
    out.push_str("\n</details>\n");
    for failure in &document.failures {
        let what = titles::title(&failure.workload, failure.n, &failure.runtime);
        out.push_str(&format!(
            "\n- {what}: {} {}: {}\n",
            failure.subject,
            failure.outcome.name(),
            failure.why
        ));
    }
    out.push_str(&missed(document));
    out
}

/// One cell.
fn row(cell: &[Record]) -> String {
    let Record { workload, n, runtime, unit, .. } = &cell[0];
    let peers = || cell.iter().filter(|at| at.is_peer() && !at.capped);
    let (ours, fair, any) = (ours(cell), fastest(peers().filter(|at| at.is_fair())), fastest(peers()));
    let named = |at: Option<&Record>| at.map_or("–".into(), |at| format!("{} ({})", value(at), at.subject));
    let ratio = match (ours, fair) {
        (Some(ours), Some(fair)) if fair.median > 0.0 => format!("{:.2}", ours.median / fair.median),
        _ => "–".into(),
    };
    format!(
        "| {} | `{workload}` {} {runtime} | {} | {} | {ratio} | {} | {unit} |\n",
        titles::title(workload, *n, runtime),
        titles::grouped(*n),
        ours.map_or("–".into(), value),
        named(fair),
        named(any)
    )
}

/// The one of ours that stands for all.
fn ours(cell: &[Record]) -> Option<&Record> {
    let named = OURS.iter().find_map(|name| cell.iter().find(|at| at.subject == *name));
    named.or_else(|| fastest(cell.iter().filter(|at| at.kind == Kind::Ours)))
}

fn value(record: &Record) -> String {
    let fairness = if record.fairness < 0.995 { format!(" ({:.2})", record.fairness) } else { String::new() };
    let number = match record.median {
        size if size >= 1_000.0 => titles::grouped(size.round() as u64),
        size if size >= 100.0 => format!("{size:.0}"),
        size => format!("{size:.1}"),
    };
    format!("{number}{fairness}")
}

/// The figures that were not reached in this run.
fn missed(document: &Document) -> String {
    let verdicts = figures::judge(&document.records);
    let judged = verdicts.iter().filter(|verdict| !verdict.measured.is_nan()).count();
    let missed: Vec<_> =
        verdicts.iter().filter(|verdict| !verdict.measured.is_nan() && !verdict.passes()).collect();
    let mut out = format!(
        "\n<details><summary>{} of {judged} figures were reached in this run; the others</summary>\n\n| figure | goal | measured |\n|---|---|---|\n",
        judged - missed.len()
    );
    for verdict in missed {
        let sign = if verdict.at_least { "at least" } else { "at most" };
        let figures::Verdict { what, limit, measured, beside, .. } = verdict;
        out.push_str(&format!("| {what} | {sign} {limit} | {measured:.2} {beside} |\n"));
    }
    out.push_str("\n</details>\n");
    out
}

/// The same cells on every processor.
fn differences(runs: &[Run]) -> String {
    let documents: Vec<&Document> = runs.iter().map(|(_, document)| document).collect();
    let mut out = String::from(
        "\n### How it differs between processors\n\nOurs beside the fastest fair peer of that cell (below 1 ours is faster), and ours in locked pairs of that processor.\n\n| what |",
    );
    for document in &documents {
        out.push_str(&format!(" {} |", document.machine.processor));
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(documents.len()));
    out.push('\n');
    let pairs = documents.iter().map(|at| value_of(at.machine.locked_pair_ns));
    out.push_str(&format!("| a locked pair | {} |\n", pairs.collect::<Vec<_>>().join(" | ")));
    let lines = documents.iter().map(|at| value_of(at.machine.bounce_ns));
    out.push_str(&format!(
        "| a cache line to another processor | {} |\n",
        lines.collect::<Vec<_>>().join(" | ")
    ));
    for (workload, n, runtime) in COMPARED {
        out.push_str(&format!("| {} |", titles::title(workload, n, runtime)));
        for document in &documents {
            out.push_str(&format!(" {} |", compared(document, (workload, n, runtime))));
        }
        out.push('\n');
    }
    out
}

fn value_of(ns: f64) -> String {
    if ns.is_finite() { format!("{ns:.1} ns") } else { "not known".into() }
}

fn compared(document: &Document, key: (&str, u64, &str)) -> String {
    let is = |cell: &&[Record]| (cell[0].workload.as_str(), cell[0].n, cell[0].runtime.as_str()) == key;
    let Some(cell) = cells(&document.records).find(is) else { return "–".into() };
    let Some(ours) = ours(cell) else { return "–".into() };
    let pairs = ours.median / document.machine.locked_pair_ns;
    let peers = cell.iter().filter(|at| at.is_peer() && !at.capped && at.is_fair());
    match fastest(peers).filter(|at| at.median > 0.0) {
        Some(fair) => format!("{:.2}; {pairs:.1} pairs", ours.median / fair.median),
        None => format!("no fair peer; {pairs:.1} pairs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number in the document that no file of results has, or an old chart, is a mistake of a hand.
    #[test]
    fn the_documents_are_what_the_lab_writes() {
        let mut files: Vec<PathBuf> = fs::read_dir(root().join("docs/results"))
            .expect("results are kept")
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let runs: Vec<Run> = files.iter().map(|file| read(file).unwrap()).collect();
        assert!(!runs.is_empty());
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        let again = replaced(&page, &sections(&runs)).unwrap();
        assert!(page == again, "write it anew: cargo run --release -- report docs/results/*.json");
        for (name, document) in &runs {
            for chart in svg::chosen(document) {
                let kept = fs::read_to_string(root().join(CHARTS).join(name).join(&chart.file));
                assert!(kept.is_ok_and(|kept| kept == chart.text), "{} is drawn otherwise", chart.file);
            }
        }
    }
}
