//! The checks of this workspace, one command each, the same at home and in CI.

mod args;
mod bench;
mod check;
mod ci;
mod conditions;
mod console;
mod counts;
mod fresh;
mod hold_up;
mod inspect_cost;
mod miri;
mod model;
mod mutants;
mod package;
mod page;
mod repeat;
mod repeat_each;
mod report;
mod sanitize;
mod shell;
mod soak;
mod source;
mod surface;
mod targets;
mod tidy;
mod toolchain;
mod tour;

use args::Args;
use report::Report;
use std::process::ExitCode;

/// The name of each check, what it takes, what it does, and the function that runs it.
type Task = (&'static str, &'static str, &'static str, fn(Args) -> Result<Report, String>);

const TASKS: [Task; 19] = [
    ("check", "", "rustfmt, clippy, docs, feature sets, bare metal, oldest compiler", check::run),
    (
        "counts",
        "[--write]",
        "locked operations and loads of every operation, against their table",
        counts::run,
    ),
    ("fresh", "", "the tour and the tests in a new clone, with nothing fetched or built before", fresh::run),
    ("model", "[--preemptions N] [--cap SECONDS] [--jobs N] [FILTER]", "the loom models", model::run),
    (
        "miri",
        "[--small] [--seeds N] [--jobs N] [--stacked] [--by-turns] [--lib] [--program NAME] [FILTER]",
        "unit and integration tests under Miri",
        miri::run,
    ),
    ("sanitize", "[address] [thread]", "the tests under ASan and under TSan", sanitize::run),
    (
        "mutants",
        "[--filter FILE] [--jobs N] [--preemptions N] [--timeout SECONDS] [--fresh] [--list]",
        "weakens each ordering in turn: some model must fail",
        mutants::run,
    ),
    (
        "soak",
        "[--minutes N] [--workers N] [--seed S]",
        "the runtime and every primitive under a random load",
        soak::run,
    ),
    (
        "targets",
        "[--quick]",
        "other processors and operating systems: tests or compiler checks",
        targets::run,
    ),
    (
        "tour",
        "[--runs N] [--quick] [--only CONDITION]",
        "the tour: quiet, busy, one processor, real-time, little memory, held up, 1 to 64 workers",
        tour::run,
    ),
    (
        "bench",
        "[--here]",
        "every benchmark, quickly: as the machine is, busy, on one processor; every cell must be there",
        bench::run,
    ),
    (
        "package",
        "",
        "what would be published: files, licences, size, the lock file of a firmware",
        package::run,
    ),
    (
        "page",
        "[--write]",
        "the page of tasuki-inspect in headless chromium: a planted deadlock, 100,000 tasks, pictures",
        page::run,
    ),
    ("console", "", "what a real tokio-console sees of our tasks, locks and waits", console::run),
    (
        "inspect-cost",
        "",
        "what the feature `inspect` costs: instructions, and times in turns",
        inspect_cost::run,
    ),
    ("surface", "[--write]", "what users can name, against docs/surface/", surface::run),
    (
        "repeat",
        "[--runs N] [--package NAME] [--only CONDITION] [--each N] [FILTER]",
        "the tests under the conditions of `tour`",
        repeat::run,
    ),
    ("tidy", "", "house rules that can be checked in the text of files", tidy::run),
    (
        "ci",
        "",
        "all that .ci/run wants: check, tidy, surface, package, tests, counts, models, Miri, targets, tour, benchmarks",
        ci::run,
    ),
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let Some((_, _, _, task)) = TASKS.iter().find(|task| task.0 == name) else {
        eprintln!("usage: cargo xtask <check> [options]\n");
        for (name, options, what, _) in TASKS {
            eprintln!("  {name:12} {what}");
            if !options.is_empty() {
                eprintln!("               {options}");
            }
        }
        return ExitCode::from(2);
    };
    match task(Args::new(words.collect())).map(Report::finish) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("xtask {name}: {why}");
            ExitCode::FAILURE
        }
    }
}
