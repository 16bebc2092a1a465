//! docs/benchmarks.md describes what is measured: every workload of the committed results has a row in its table, and its first lines name every
//! family of workloads that the lab has.

use super::{Breach, Page};
use std::collections::BTreeSet;

const PAGE: &str = "docs/benchmarks.md";
const FAMILIES: &str = "lab/src/workload/mod.rs";

pub(crate) fn workloads(pages: &[Page]) -> Vec<Breach> {
    let find = |path: &str| pages.iter().find(|page| page.path == path);
    let (Some(page), Some(families)) = (find(PAGE), find(FAMILIES)) else {
        return vec![Breach::whole(PAGE, format!("{PAGE} and {FAMILIES} belong together"))];
    };
    let mut breaches = Vec::new();
    let commands = page.text.split("```").nth(1).unwrap_or_default();
    let named: BTreeSet<&str> = commands.split([' ', ',', '\n', ':']).collect();
    for family in families.text.lines().filter_map(family).filter(|family| !named.contains(family)) {
        breaches.push(Breach::whole(PAGE, format!("the commands do not name the family {family:?}")));
    }
    let patterns = patterns(&page.text);
    let results = pages.iter().filter(|page| page.path.starts_with("docs/results/"));
    let measured: BTreeSet<&str> = results.flat_map(|page| workloads_of(&page.text)).collect();
    for workload in measured {
        if !patterns.iter().any(|pattern| matches(pattern, workload)) {
            breaches.push(Breach::whole(PAGE, format!("the table of workloads has no row for {workload:?}")));
        }
    }
    breaches
}

/// `("mutex", mutex),` in the list of families.
fn family(line: &str) -> Option<&str> {
    line.trim().strip_prefix("(\"")?.split_once("\",").map(|(name, _)| name)
}

/// The values of `"workload"` in a file of results.
fn workloads_of(text: &str) -> impl Iterator<Item = &str> {
    let values = text.split("\"workload\":").skip(1);
    values.filter_map(|rest| rest.split('"').nth(1))
}

/// What the first column of the table of workloads names, with every `{a,b}` written out.
fn patterns(text: &str) -> Vec<String> {
    let table = text.split("\n## Workloads\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = table.unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|line| line.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).flat_map(written_out).collect()
}

fn written_out(pattern: &str) -> Vec<String> {
    match pattern.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (choices, after))) => {
            choices.split(',').flat_map(|choice| written_out(&format!("{before}{choice}{after}"))).collect()
        }
        None => vec![pattern.to_owned()],
    }
}

/// `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_row() {
        let text = "```sh\nbench mutex  # also event\n```\n\n## Workloads\n\n| workload | what |\n|---|---|\n\
            | `mutex/{lock,cancel/*}` | a |\n| `*/size*` | b |\n\n## Results\n\n| `mutex/other` | c |\n";
        let families = "    (\"mutex\", mutex),\n    (\"event\", event::run),\n    (\"net\", net::run),\n";
        let results =
            ["mutex/lock", "mutex/cancel/fifo", "event/size/future", "mutex/other", "mutex/lockless"];
        let results: String =
            results.iter().map(|name| format!("{{\"workload\": \"{name}\", \"n\": 1}}\n")).collect();
        let pages = [
            Page::new(PAGE, text),
            Page::new(FAMILIES, families),
            Page::new("docs/results/a.json", &results),
        ];
        let found: Vec<String> = workloads(&pages).into_iter().map(|breach| breach.what).collect();
        let wanted = [
            "the commands do not name the family \"net\"",
            "the table of workloads has no row for \"mutex/lockless\"",
            "the table of workloads has no row for \"mutex/other\"",
        ];
        assert_eq!(found, wanted);
    }
}
