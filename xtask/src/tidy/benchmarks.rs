//! docs/benchmarks.md describes what is measured: every workload of the committed results has a row in its table, its first lines name every
//! family of workloads that the lab has, its summary names every workload in which ours is slower on all processors, and the ranges of the summary are those of the results.

use super::first_page::{FASTEST, median, value};
use super::{Breach, Page};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/benchmarks.md";
const FAMILIES: &str = "lab/src/workload/mod.rs";

/// A range of the summary: the words before it, its decimals, its cells (workload, number, runtime), whose time is meant, and beside whose.
type Range = (&'static str, usize, &'static [[&'static str; 3]], &'static str, &'static str);

const RANGES: [Range; 15] = [
    (
        "of a wait group (",
        2,
        &[
            ["event/wake-all/call", "1000", "none"],
            ["token/cancel/call", "1000", "none"],
            ["wait-group/release/call", "1000", "none"],
        ],
        "tasuki",
        FASTEST,
    ),
    (
        "beside kanal (",
        2,
        &[["channel/hand-off", "2", "minimal"], ["channel/hand-off", "2", "tokio-2"]],
        "tasuki",
        "kanal",
    ),
    ("another processor (", 2, &[["runtime/ping-pong", "2", "own"]], "tasuki-rt-2", FASTEST),
    (
        "of async-executor (",
        2,
        &[["runtime/spawn-join", "100000", "own"]],
        "tasuki-rt-2",
        "async-executor-static-2",
    ),
    ("beside crossfire and kanal (", 2, &[["channel/try", "1", "none"]], "tasuki", FASTEST),
    ("by another task ", 2, &[["runtime/spawn-inside", "100000", "own"]], "tasuki-rt-2", FASTEST),
    ("is unfair (", 2, &[["semaphore/permits", "48", "minimal"]], "tasuki-fifo", "async-lock"),
    ("alone beside smol (", 2, &[["net/kv-calls", "1", "own"]], "tasuki-rt-1", "smol-1"),
    ("(64 tasks: ", 2, &[["mutex/hand-off", "64", "minimal"]], "tasuki-fifo", FASTEST),
    ("on async-executor ", 2, &[["mutex/hand-off", "64", "async-executor-1"]], "tasuki-fifo", FASTEST),
    ("(16 tasks, tokio: ", 1, &[["mutex/contended/section-0", "16", "tokio-2"]], "tasuki-fifo", FASTEST),
    (
        "; async-executor: ",
        1,
        &[["mutex/contended/section-0", "16", "async-executor-2"]],
        "tasuki-fifo",
        FASTEST,
    ),
    (
        "`Bypass` takes ",
        2,
        &[
            ["mutex/hand-off", "64", "minimal"],
            ["mutex/hand-off", "64", "async-executor-1"],
            ["mutex/contended/section-0", "16", "tokio-2"],
            ["mutex/contended/section-0", "16", "async-executor-2"],
        ],
        "tasuki-bypass",
        FASTEST,
    ),
    (
        "writes of 16 tasks (",
        1,
        &[["rwlock/mix-90-10", "16", "tokio-2"], ["rwlock/mix-50-50", "16", "tokio-2"]],
        "tasuki",
        FASTEST,
    ),
    (
        "a oneshot (",
        2,
        &[["channel/oneshot", "1", "none"], ["channel/oneshot-waiting", "1", "none"]],
        "tasuki",
        FASTEST,
    ),
];

/// Workloads in which ours is slower or bigger than the fastest peer on every processor, and the words of the summary that say so.
const SLOWER: [(&str, &str); 16] = [
    ("barrier/size", "a barrier 32"),
    ("channel/cancel-", "postage"),
    ("channel/hand-off", "a channel with room for one"),
    ("channel/try", "`try_send`"),
    ("event/wake-all/call", "the one call that releases a thousand waiters of an event"),
    ("mutex/contended/", "`Fifo` on one thread"),
    ("mutex/hand-off", "`Fifo` on one thread"),
    ("net/kv-calls", "system calls of a server"),
    ("net/memory", "An idle connection"),
    ("runtime/memory", "128 bytes a task"),
    ("runtime/ping-pong", "from a thread to a task"),
    ("runtime/spawn-", "spawned by another task"),
    ("rwlock/mix-", "reads and writes of 16 tasks"),
    ("semaphore/permits", "48 permits"),
    ("token/cancel/call", "of a token"),
    ("wait-group/", "of a wait group"),
];
/// Sizes of the other locks, and of waits.
const BIGGER: &str = "a mutex, semaphore, event or reader-writer lock";
/// More than this is slower: ratios of one thread repeat to a few percent.
const NOISE: f64 = 1.05;

/// Every workload in which ours is slower than the fastest peer in the same cell of all results is told by the summary: a list of what is slower leaves nothing out.
pub(crate) fn slower(pages: &[Page]) -> Vec<Breach> {
    let text = super::text(pages, PAGE);
    let summary = text.split("\n## ").next().unwrap_or_default();
    let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    let results = pages.iter().filter(|page| page.path.starts_with("docs/results/"));
    let found = results.map(|page| slower_cells(&page.text)).reduce(|all, one| &all & &one);
    let workloads: BTreeSet<&str> = found.iter().flatten().map(|[workload, ..]| *workload).collect();
    let words = |workload: &str| {
        let row = SLOWER.iter().find(|(prefix, _)| workload.starts_with(prefix));
        row.map(|row| row.1).or_else(|| workload.contains("/size").then_some(BIGGER))
    };
    let untold = workloads
        .into_iter()
        .filter(|workload| !words(workload).is_some_and(|words| summary.contains(words)));
    untold
        .map(|workload| {
            Breach::whole(PAGE, format!("the summary does not say that ours is slower in {workload:?}"))
        })
        .collect()
}

/// The cells (workload, number, runtime) of a file of results in which ours, as it is by default, takes longer than the fastest peer.
fn slower_cells(results: &str) -> BTreeSet<[&str; 3]> {
    let mut cells: BTreeMap<[&str; 3], [Option<f64>; 2]> = BTreeMap::new();
    for line in results.lines() {
        let key = |key| value(line, key);
        let (Some(workload), Some(n), Some(runtime)) = (key("workload"), key("n"), key("runtime")) else {
            continue;
        };
        let Some(median) = key("median").and_then(|median| median.parse::<f64>().ok()) else { continue };
        let ours = [
            "tasuki",
            "tasuki-fifo",
            if workload.starts_with("net/") { "tasuki-rt-1" } else { "tasuki-rt-2" },
        ];
        let is_ours = key("subject").is_some_and(|subject| ours.contains(&subject));
        if is_ours || key("kind") == Some("peer") {
            let least = &mut cells.entry([workload, n, runtime]).or_default()[usize::from(is_ours)];
            *least = Some(least.map_or(median, |least| least.min(median)));
        }
    }
    let is_slower = |medians: &[Option<f64>; 2]| matches!(medians, [Some(peer), Some(ours)] if *peer > 0.0 && ours / peer > NOISE);
    cells.into_iter().filter(|(_, medians)| is_slower(medians)).map(|(cell, _)| cell).collect()
}

/// "(1.13 to 1.75 times": the least and the most of all files of results.
pub(crate) fn ranges(pages: &[Page]) -> Vec<Breach> {
    let text = super::text(pages, PAGE);
    let summary = text.split("\n## ").next().unwrap_or_default();
    let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    let results: Vec<&Page> = pages.iter().filter(|page| page.path.starts_with("docs/results/")).collect();
    let mut breaches = Vec::new();
    for (before, decimals, cells, ours, peer) in RANGES {
        let ratio = |page: &Page, [workload, n, runtime]: [&str; 3]| {
            let time = |subject| median(&page.text, [workload, n, runtime, subject]);
            Some(time(ours)? / time(peer)?)
        };
        let ratios = results.iter().flat_map(|page| cells.iter().filter_map(|&cell| ratio(page, cell)));
        let (least, most) =
            ratios.fold((f64::MAX, 0.0), |(least, most), ratio| (ratio.min(least), ratio.max(most)));
        let range = format!("{before}{least:.decimals$} to {most:.decimals$} times");
        if !summary.contains(&range) {
            breaches.push(Breach::whole(PAGE, format!("does not say \"{range}\", as the results have it")));
        }
    }
    breaches
}

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
    fn ranges_are_those_of_the_results() {
        let (mut summary, mut results) = ("In short:\n".to_owned(), [String::new(), String::new()]);
        for (before, decimals, cells, ours, peer) in RANGES {
            summary += &format!("- {before}{:.decimals$} to {:.decimals$}\n  times\n", 1.5, 2.5);
            for (results, ours_takes) in results.iter_mut().zip([15, 25]) {
                for [workload, n, runtime] in cells {
                    for (kind, subject, median) in [("ours", ours, ours_takes), ("peer", peer, 10)] {
                        *results += &format!(
                            "{{\"kind\": \"{kind}\", \"workload\": \"{workload}\", \"runtime\": \"{runtime}\", \"subject\": \"{subject}\", \
                             \"median\": {median}, \"fairness\": 1, \"n\": {n}}},\n"
                        );
                    }
                }
            }
        }
        let checked = |summary: &str, least: &str, most: &str| {
            let files = [(PAGE, summary), ("docs/results/a.json", least), ("docs/results/b.json", most)];
            ranges(&files.map(|(path, text)| Page::new(path, text))).len()
        };
        let [least, most] = &results;
        assert_eq!(checked(&summary, least, most), 0);
        assert_eq!(checked(&summary, least, least), RANGES.len());
        assert_eq!(checked(&summary.replace("a oneshot (1.50", "a oneshot (1.40"), least, most), 1);
    }

    #[test]
    fn what_is_slower_is_told() {
        let row = |workload: &str, ours: u32, peer: u32| {
            let line = |kind: &str, subject: &str, median: u32| {
                format!(
                    "{{\"kind\": \"{kind}\", \"workload\": \"{workload}\", \"runtime\": \"none\", \"subject\": \"{subject}\", \
                     \"median\": {median}, \"n\": 1}},\n"
                )
            };
            [line("ours", "tasuki", ours), line("ours", "tasuki-lifo", 9), line("peer", "another", peer)]
                .concat()
        };
        let checked = |summary: &str, first: &str, second: &str| {
            let files = [(PAGE, summary), ("docs/results/a.json", first), ("docs/results/b.json", second)];
            slower(&files.map(|(path, text)| Page::new(path, text))).len()
        };
        let (slow, fast) = (row("channel/try", 20, 10), row("channel/try", 10, 10));
        assert_eq!(checked("In short:\n", &slow, &slow), 1);
        assert_eq!(checked("In short: `try_send`\n\n## More\n", &slow, &slow), 0);
        assert_eq!(checked("In short:\n\n## More\n`try_send`\n", &slow, &slow), 1, "not in the summary");
        assert_eq!(checked("In short:\n", &slow, &fast), 0, "on one processor");
        let unknown = row("mutex/other", 20, 10);
        assert_eq!(checked("In short: `try_send`\n", &unknown, &unknown), 1, "no words are known for it");
    }

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
