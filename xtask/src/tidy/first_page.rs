//! README.md: its figures are those of the committed results, its peers those that the lab pins, its compiler that of the manifests.

use super::{Breach, Page, text};

const PAGE: &str = "README.md";
const RESULTS: &str = "docs/results/amd-epyc.json";
const PEERS: &str = "lab/Cargo.toml";

/// A figure of the page: the words around it, and where it was measured: workload, number, runtime, and a subject, or the fastest of a kind of peers.
type Figure = (&'static str, &'static str, [&'static str; 4]);

/// The peer with the smallest median: of all, of those that serve every task about equally often, of those that do not.
pub(super) const FASTEST: &str = "the fastest peer";
const FASTEST_FAIR: &str = "the fastest fair peer";
const FASTEST_UNFAIR: &str = "the fastest unfair peer";

const FIGURES: [Figure; 7] = [
    ("", " ns an operation;", ["mutex/hand-off", "64", "minimal", "tasuki-fifo"]),
    ("the fastest fair peer takes ", ",", ["mutex/hand-off", "64", "minimal", FASTEST_FAIR]),
    ("tokio ", ".", ["mutex/hand-off", "64", "minimal", "tokio"]),
    ("With `Bypass` ", " ns;", ["mutex/hand-off", "64", "minimal", "tasuki-bypass"]),
    ("the fastest unfair peer takes ", ",", ["mutex/hand-off", "64", "minimal", FASTEST_UNFAIR]),
    ("", " ns each,", ["mutex/cancel/random", "10000", "none", "tasuki-fifo"]),
    ("the fastest peer takes ", ".", ["mutex/cancel/random", "10000", "none", FASTEST]),
];

pub(crate) fn figures(pages: &[Page]) -> Vec<Breach> {
    let (page, results) = (text(pages, PAGE), text(pages, RESULTS));
    let facts = page.split_once("## Three measured facts").map_or("", |(_, rest)| rest);
    let facts = facts.split("\n## ").next().unwrap_or_default();
    let mut breaches = Vec::new();
    for (before, after, cell) in FIGURES {
        let Some(median) = median(results, cell) else {
            breaches.push(Breach::whole(
                RESULTS,
                format!("has no {}, which the first page tells", cell.join(" ")),
            ));
            continue;
        };
        if !facts.contains(&format!("{before}{median:.0}{after}")) {
            let what = format!(
                "does not say \"{before}{median:.0}{after}\", as {RESULTS} has it: {}",
                cell.join(" ")
            );
            breaches.push(Breach::whole(PAGE, what));
        }
    }
    let commit = value(results, "commit").and_then(|commit| commit.get(..7)).unwrap_or_default();
    if !facts.contains(&format!("commit {commit}")) {
        breaches.push(Breach::whole(PAGE, format!("its figures are those of commit {commit}")));
    }
    breaches
}

/// The value of a key in a line of JSON, without its quotes.
pub(super) fn value<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    let rest = line.split_once(&format!("\"{key}\": "))?.1;
    match rest.strip_prefix('"') {
        Some(rest) => rest.split('"').next(),
        None => rest.split([',', '}']).next(),
    }
}

/// The median of a subject in a cell of a file of results.
pub(super) fn median(results: &str, [workload, n, runtime, subject]: [&str; 4]) -> Option<f64> {
    let cell = [("workload", workload), ("n", n), ("runtime", runtime)];
    let number = |line: &str, key: &str| value(line, key)?.parse::<f64>().ok();
    let is_subject = |line: &str| {
        let is_fair = number(line, "fairness").is_some_and(|fairness| fairness > 0.5);
        let is_peer = value(line, "kind") == Some("peer");
        match subject {
            FASTEST => is_peer,
            FASTEST_FAIR => is_peer && is_fair,
            FASTEST_UNFAIR => is_peer && !is_fair,
            _ => value(line, "subject") == Some(subject),
        }
    };
    let of_cell = |line: &&str| cell.iter().all(|(key, wanted)| value(line, key) == Some(*wanted));
    let medians = results.lines().filter(of_cell).filter(|line| is_subject(line));
    medians.filter_map(|line| number(line, "median")).min_by(f64::total_cmp)
}

/// "| | tasuki | tokio 1.54 `sync` |": the lab pins that version; and the page names the compiler of the manifests.
pub(crate) fn versions(pages: &[Page]) -> Vec<Breach> {
    let (page, peers) = (text(pages, PAGE), text(pages, PEERS));
    let mut breaches = Vec::new();
    let heads = page.lines().enumerate().filter(|(_, line)| line.starts_with("| | tasuki |"));
    for (line, cell) in
        heads.flat_map(|(line, head)| head.split('|').skip(3).map(move |cell| (line, cell.trim())))
    {
        let mut words = cell.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let pinned =
            peers.lines().find_map(|line| line.strip_prefix(&format!("{name} = "))?.split_once("\"="));
        let pinned = pinned.and_then(|(_, rest)| rest.split('"').next()).unwrap_or("no version");
        if !pinned.starts_with(&format!("{version}.")) {
            breaches.push(Breach::at(
                PAGE,
                line,
                format!("compares with {name} {version}; the lab has {pinned}"),
            ));
        }
    }
    for manifest in
        pages.iter().filter(|page| page.path.starts_with("crates/") && page.path.ends_with("/Cargo.toml"))
    {
        let version = manifest.text.lines().find_map(|line| line.strip_prefix("rust-version = \""));
        let Some(version) = version.map(|version| version.trim_end_matches('"')) else { continue };
        for path in [PAGE, "CONTRIBUTING.md"] {
            if !text(pages, path).contains(&format!("Rust {version}")) {
                breaches
                    .push(Breach::whole(path, format!("does not name Rust {version}, of {}", manifest.path)));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_results() {
        let mut facts = "## Three measured facts\n\nOf commit a33e8a3.\n".to_owned();
        let mut results = "{\"machine\": {\"commit\": \"a33e8a3010+\"},\n".to_owned();
        let row = |[workload, n, runtime, subject]: [&str; 4], median: f64| {
            let kind = if subject.starts_with("tasuki") { "ours" } else { "peer" };
            let fairness = u32::from(subject != FASTEST_UNFAIR);
            format!(
                "{{\"kind\": \"{kind}\", \"workload\": \"{workload}\", \"runtime\": \"{runtime}\", \"subject\": \"{subject}\", \
                 \"median\": {median}, \"fairness\": {fairness}, \"n\": {n}}},\n"
            )
        };
        for (median, (before, after, cell)) in (30..).zip(FIGURES) {
            facts += &format!("| {before}{median}{after} |\n");
            results += &row(cell, f64::from(median) + 0.2);
        }
        let checked = |facts: &str, results: &str| {
            figures(&[Page::new(PAGE, facts), Page::new(RESULTS, results)]).len()
        };
        assert_eq!(checked(&facts, &results), 0);
        assert_eq!(checked(&facts, &results.replace("\"median\": 30.2", "\"median\": 31.7")), 1);
        assert_eq!(checked(&facts, &results.replace("a33e8a3", "b33e8a3")), 1);
        assert_eq!(checked(&facts, &results.replace("mutex/cancel", "mutex/other")), 2);
        let faster = row(["mutex/hand-off", "64", "minimal", "another"], 20.0);
        assert_eq!(checked(&facts, &(results.clone() + &faster)), 1, "the fastest fair peer is another one");
    }

    #[test]
    fn versions_are_those_of_the_manifests() {
        let peers = Page::new(PEERS, "tokio = { version = \"=1.54.1\" }\nasync-lock = \"=3.5.0\"\n");
        let library = Page::new("crates/a/Cargo.toml", "rust-version = \"1.85\"\n");
        let rules = Page::new("CONTRIBUTING.md", "Rust 1.85\n");
        let checked = |head: &str| {
            let page = Page::new(PAGE, head);
            let others = [&peers, &library, &rules].map(|page| Page::new(&page.path, &page.text));
            versions(&[page].into_iter().chain(others).collect::<Vec<_>>()).len()
        };
        assert_eq!(checked("| | tasuki | tokio 1.54 `sync` | async-lock 3.5 |\nRust 1.85\n"), 0);
        assert_eq!(checked("| | tasuki | tokio 1.53 `sync` | async-lock 3.5 |\nRust 1.85\n"), 1);
        assert_eq!(checked("| | tasuki | tokio 1.54 `sync` | mea 0.6 |\nRust 1.84\n"), 2);
    }
}
