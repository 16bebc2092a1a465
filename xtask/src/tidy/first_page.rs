//! README.md: its figures are those of the committed results, its peers those that the lab pins, its compiler that of the manifests.

use super::{Breach, Page};

const PAGE: &str = "README.md";
const RESULTS: &str = "docs/results/amd-epyc.json";
const PEERS: &str = "lab/Cargo.toml";

/// A figure of the page: the words around it, and where it was measured: workload, number, runtime, subject.
type Figure = (&'static str, &'static str, [&'static str; 4]);

const FIGURES: [Figure; 7] = [
    ("", " ns an operation;", ["mutex/hand-off", "64", "minimal", "tasuki-fifo"]),
    ("the fastest fair peer takes ", ",", ["mutex/hand-off", "64", "minimal", "futures-intrusive-fair"]),
    ("tokio ", ".", ["mutex/hand-off", "64", "minimal", "tokio"]),
    ("With `Bypass` ", " ns;", ["mutex/hand-off", "64", "minimal", "tasuki-bypass"]),
    ("the fastest unfair peer takes ", ",", ["mutex/hand-off", "64", "minimal", "futures"]),
    ("", " ns each,", ["mutex/cancel/random", "10000", "none", "tasuki-fifo"]),
    ("the fastest peer takes ", ".", ["mutex/cancel/random", "10000", "none", "futures"]),
];

pub(crate) fn figures(pages: &[Page]) -> Vec<Breach> {
    let text = |path: &str| pages.iter().find(|page| page.path == path).map_or("", |page| page.text.as_str());
    let (page, results) = (text(PAGE), text(RESULTS));
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
fn value<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    let rest = line.split_once(&format!("\"{key}\": "))?.1;
    match rest.strip_prefix('"') {
        Some(rest) => rest.split('"').next(),
        None => rest.split([',', '}']).next(),
    }
}

fn median(results: &str, cell: [&str; 4]) -> Option<f64> {
    let keys = ["workload", "n", "runtime", "subject"];
    let is = |line: &&str| keys.iter().zip(cell).all(|(key, wanted)| value(line, key) == Some(wanted));
    value(results.lines().find(is)?, "median")?.parse().ok()
}

/// "| | tasuki | tokio 1.54 `sync` |": the lab pins that version; and the page names the compiler of the manifests.
pub(crate) fn versions(pages: &[Page]) -> Vec<Breach> {
    let text = |path: &str| pages.iter().find(|page| page.path == path).map_or("", |page| page.text.as_str());
    let (page, peers) = (text(PAGE), text(PEERS));
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
            if !text(path).contains(&format!("Rust {version}")) {
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
        for (at, (before, after, [workload, n, runtime, subject])) in FIGURES.into_iter().enumerate() {
            facts += &format!("| {before}{}{after} |\n", at + 30);
            results += &format!(
                "{{\"workload\": \"{workload}\", \"n\": {n}, \"runtime\": \"{runtime}\", \"subject\": \"{subject}\", \"median\": {at}.2}},\n"
            );
        }
        let results = (0..FIGURES.len()).fold(results, |text, at| {
            text.replace(&format!("\"median\": {at}.2"), &format!("\"median\": {}.2", at + 30))
        });
        let checked = |facts: &str, results: &str| {
            figures(&[Page::new(PAGE, facts), Page::new(RESULTS, results)]).len()
        };
        assert_eq!(checked(&facts, &results), 0);
        assert_eq!(checked(&facts, &results.replace("\"median\": 30.2", "\"median\": 31.7")), 1);
        assert_eq!(checked(&facts, &results.replace("a33e8a3", "b33e8a3")), 1);
        assert_eq!(checked(&facts, &results.replace("mutex/cancel", "mutex/other")), 2);
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
