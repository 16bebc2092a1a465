//! docs/seeds.md: every row has its id once, and names at least one test, model, benchmark or chapter, all of which exist. What it says was measured is in the results.

use super::first_page::median;
use super::rust::REQUIREMENTS;
use super::{Breach, Page, text};
use crate::source::words;

const SEEDS: &str = "docs/seeds.md";

/// Rows that promise a time, and where it was measured: workload, number, runtime, subject.
const FIGURES: [(&str, [&str; 4]); 9] = [
    ("S2-22", ["mutex/uncontended", "1", "none", "tasuki-fifo"]),
    ("S2-23", ["mutex/hand-off", "64", "minimal", "tasuki-fifo"]),
    ("S2-32", ["semaphore/uncontended", "1", "none", "tasuki-fifo"]),
    ("S2-33", ["semaphore/held", "64", "minimal", "tasuki-fifo"]),
    ("S2-42", ["event/wait-set", "1", "none", "tasuki"]),
    ("S2-43", ["event/ping-pong", "2", "minimal", "tasuki"]),
    ("S2-53", ["wait-group/add-done", "1", "none", "tasuki"]),
    ("S2-63", ["token/check", "1", "none", "tasuki"]),
    ("S2-75", ["barrier/arrive", "64", "minimal", "tasuki"]),
];

pub(crate) fn rows(pages: &[Page]) -> Vec<Breach> {
    let Some(page) = pages.iter().find(|page| page.path == SEEDS) else {
        return vec![Breach::whole(SEEDS, "is missing")];
    };
    let mut breaches = Vec::new();
    let mut expected = REQUIREMENTS
        .iter()
        .enumerate()
        .flat_map(|(seed, rows)| (1..=*rows).map(move |row| format!("S{seed}-{row:02}")));
    for (number, line) in page.text.lines().enumerate().filter(|(_, line)| line.starts_with("| S")) {
        let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        let next = expected.next().unwrap_or_default();
        if cells.len() != 3 || cells[0] != next {
            let found = cells[0];
            breaches.push(Breach::at(SEEDS, number, format!("expected row {next}, found {found}")));
            return breaches;
        }
        let named: Vec<&str> = cells[2].split(", ").map(|name| name.trim_matches('`')).collect();
        let missing = named.into_iter().filter(|name| !exists(pages, name));
        breaches.extend(missing.map(|name| Breach::at(SEEDS, number, format!("{name:?} does not exist"))));
    }
    if let Some(next) = expected.next() {
        breaches.push(Breach::whole(SEEDS, format!("row {next} is missing")));
    }
    breaches
}

/// A row that promises a time says what was measured: the least and the greatest median of the committed results.
pub(crate) fn figures(pages: &[Page]) -> Vec<Breach> {
    let results = || pages.iter().filter(|page| page.path.starts_with("docs/results/"));
    let shown = |median: f64| if median < 1.0 { format!("{median:.1}") } else { format!("{median:.0}") };
    let rows = text(pages, SEEDS).lines().enumerate().filter(|(_, row)| row.contains(": promised "));
    rows.filter_map(|(line, row)| {
        let id = row.trim_start_matches("| ").split(' ').next()?;
        let Some((_, cell)) = FIGURES.iter().find(|(figure, _)| *figure == id) else {
            return Some(Breach::at(SEEDS, line, format!("{id} promises a time: say where it is measured")));
        };
        let mut medians: Vec<f64> = results().filter_map(|page| median(&page.text, *cell)).collect();
        medians.sort_by(f64::total_cmp);
        let [least, .., most] = medians[..] else {
            return Some(Breach::at(SEEDS, line, format!("no results have {}", cell.join(" "))));
        };
        let told = format!(", measured {} to {} ns", shown(least), shown(most));
        let what = format!("{id} does not say \"{told}\", as the results have it: {}", cell.join(" "));
        (!row.contains(&told)).then(|| Breach::at(SEEDS, line, what))
    })
    .collect()
}

/// Does a reference of the last column lead to something?
fn exists(pages: &[Page], name: &str) -> bool {
    let Some((kind, what)) = name.split_once(' ') else { return false };
    let function = |file: fn(&str, &str) -> bool| {
        let Some((module, function)) = what.rsplit_once("::") else { return false };
        let module = module.replace("::", "/");
        let mut files = pages.iter().filter(|page| file(&page.path, &module));
        files.any(|page| is_run(&page.text, function))
    };
    match kind {
        "tasuki" => function(|path, module| is_file(path, "tasuki", module)),
        "tasuki-rt" => function(|path, module| is_file(path, "tasuki-rt", module)),
        "model" => function(|path, module| path.contains("/model/") && path.contains(&format!("/{module}"))),
        "bench" => {
            let quoted = format!("\"{what}\"");
            pages.iter().any(|page| page.path.starts_with("lab/src/workload/") && page.text.contains(&quoted))
        }
        "guide" => pages.iter().any(|page| page.path == format!("docs/guide/{what}.md")),
        _ => false,
    }
}

/// Is there a test of this name, or a function that the tests of the file call?
fn is_run(text: &str, function: &str) -> bool {
    let ends = |rest: &str| rest.starts_with(['(', '<']);
    let definitions = format!("fn {function}");
    let Some((at, _)) =
        text.match_indices(&definitions).find(|(at, _)| ends(&text[at + definitions.len()..]))
    else {
        return false;
    };
    let above = text[..at].lines().rev().skip(usize::from(!text[..at].ends_with('\n')));
    let mut attributes =
        above.map(str::trim).take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    attributes.any(|line| line == "#[test]") || words(text).filter(|(_, word)| *word == function).count() > 1
}

/// A file of tests, or one of the library with tests inside.
fn is_file(path: &str, library: &str, module: &str) -> bool {
    let inside = path.strip_prefix("crates/").and_then(|path| path.strip_prefix(library));
    let names = [format!("/tests/{module}.rs"), format!("/src/{module}.rs"), format!("/src/{module}/mod.rs")];
    inside.is_some_and(|file| names.iter().any(|name| name == file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_looked_up() {
        let pages = [
            Page::new("crates/tasuki/tests/mutex/api.rs", "#[test]\nfn in_order() {}\n"),
            Page::new(
                "crates/tasuki/model/tests/mutex.rs",
                "each!(raced);\nfn raced() {}\nfn forgotten() {}\n",
            ),
            Page::new("lab/src/workload/mutex.rs", "\"mutex/size\""),
            Page::new("docs/guide/why.md", ""),
        ];
        for name in ["tasuki mutex::api::in_order", "model mutex::raced", "bench mutex/size", "guide why"] {
            assert!(exists(&pages, name), "{name}");
        }
        for name in [
            "tasuki mutex::api::in",
            "tasuki event::api::in_order",
            "model mutex::forgotten",
            "tasuki-rt mutex::api::in_order",
            "guide",
            "",
        ] {
            assert!(!exists(&pages, name), "{name}");
        }
    }

    #[test]
    fn a_figure_that_is_not_that_of_the_results_is_seen() {
        let result = |median: &str| {
            let line = format!(
                "{{\"workload\": \"token/check\", \"runtime\": \"none\", \"subject\": \"tasuki\", \"median\": {median}, \"n\": 1}}\n"
            );
            Page::new("docs/results/a.json", &line)
        };
        let found = |row: &str| figures(&[Page::new(SEEDS, row), result("0.42"), result("12.6")]).len();
        assert_eq!(
            found("| S2-63 | A look: promised 5 to 10 ns, measured 0.4 to 13 ns | `bench token/check` |\n"),
            0
        );
        assert_eq!(
            found("| S2-63 | A look: promised 5 to 10 ns, measured 0.4 to 12 ns | `bench token/check` |\n"),
            1
        );
        assert_eq!(found("| S2-63 | A look: promised 5 to 10 ns | `bench token/check` |\n"), 1);
        assert_eq!(found("| S2-64 | A cancel: promised 5 to 10 ns | `bench token/check` |\n"), 1);
    }

    #[test]
    fn a_missing_row_and_a_row_without_a_test_are_seen() {
        let page = |text: &str| [Page::new(SEEDS, text)];
        assert_eq!(rows(&page("| S0-01 | a promise | `tasuki mutex::gone` |\n")).len(), 2);
        assert_eq!(rows(&page("| S0-02 | a promise | `tasuki mutex::gone` |\n")).len(), 1);
        assert_eq!(rows(&[]).len(), 1);
    }
}
