//! `cargo xtask miri`: the tests under Miri, several schedules, strict provenance; `--tree` adds a pass
//! with Tree Borrows. The models are not among them: their target is empty without `--cfg loom`.
//!
//! Each test program and each seed is a run of its own, so that two cores are used and every run is timed.

use crate::args::Args;
use crate::model::pool;
use crate::report::{Outcome, Report};
use crate::shell::{self, Capped, Tests, capped, cargo, root, tail, target};
use crate::toolchain::{self, NIGHTLY};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// What every run is given. Timeouts need the clock of the host.
const FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-disable-isolation";

/// A run that takes longer than this hangs.
const CAP: Duration = Duration::from_secs(3600);

/// One run: what it is called, and its share of the command.
struct Run {
    name: String,
    flags: String,
    program: String,
}

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let seeds: usize = args.value("--seeds", 4)?;
    let jobs = args.value("--jobs", 2)?;
    let tree = args.flag("--tree");
    let lib = args.flag("--lib");
    let filter = args.word().unwrap_or_default();
    args.end()?;

    let mut report = Report::new("miri");
    if let Err(why) = toolchain::components(NIGHTLY, &["miri", "rust-src"]) {
        report.row("all", Outcome::Skipped(why), Duration::ZERO);
        return Ok(report);
    }
    let programs = programs(if lib { None } else { Some(root().join("crates/tasuki/tests")) }.as_deref());
    println!("=== miri: build");
    shell::run(&mut cargo(&format!("+{NIGHTLY} miri test -p tasuki --no-run {}", programs.join(" "))))?;

    let runs = runs(&programs, seeds, tree);
    let passed = Mutex::new(0);
    let report = Mutex::new(report);
    pool(jobs, runs.len(), |at, worker| {
        let log = target().join(format!("miri-{worker}.log"));
        let mut command = cargo(&format!("+{NIGHTLY} miri test -p tasuki {} {filter}", runs[at].program));
        command.env("MIRIFLAGS", format!("{FLAGS} {}", runs[at].flags));
        let (outcome, tests, time) = counted(capped(&mut command, CAP, &log), &log);
        *passed.lock().expect("no worker panics") += tests;
        println!("  {:>7.1} s  {} ({tests} tests)", time.as_secs_f64(), runs[at].name);
        report.lock().expect("no worker panics").row(&runs[at].name, outcome, time);
    });

    let mut report = report.into_inner().expect("no worker panics");
    match passed.into_inner().expect("no worker panics") {
        0 => report.row("tests", Outcome::Failed("no test ran".to_owned()), Duration::ZERO),
        passed => report.note(format!("miri: {passed} test runs passed")),
    }
    Ok(report)
}

/// The unit tests, and each file of a folder of tests.
fn programs(folder: Option<&Path>) -> Vec<String> {
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok());
    let names = entries.into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut programs: Vec<String> =
        names.filter_map(|name| Some(format!("--test {}", name.strip_suffix(".rs")?))).collect();
    programs.sort();
    programs.insert(0, "--lib".to_owned());
    programs
}

fn runs(programs: &[String], seeds: usize, tree: bool) -> Vec<Run> {
    let passes: &[(&str, &str)] = &[("stacked borrows", ""), ("tree borrows", "-Zmiri-tree-borrows")];
    let mut runs = Vec::new();
    for (pass, flags) in &passes[..1 + usize::from(tree)] {
        for seed in 0..seeds {
            runs.extend(programs.iter().map(|program| Run {
                name: format!("{pass}, seed {seed}, {program}"),
                flags: format!("-Zmiri-seed={seed} {flags}"),
                program: program.clone(),
            }));
        }
    }
    runs
}

/// How a run ended, and how many tests passed in it.
fn counted(end: Result<(Capped, Duration), String>, log: &Path) -> (Outcome, usize, Duration) {
    let (how, time) = match end {
        Ok(end) => end,
        Err(why) => return (Outcome::Failed(why), 0, Duration::ZERO),
    };
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let tests = Tests::of(&text, how == Capped::Passed);
    let outcome = match how {
        Capped::Passed if tests.failed == 0 => Outcome::Passed,
        Capped::TimedOut => Outcome::Failed(format!("not complete after {} s", CAP.as_secs())),
        _ => Outcome::Failed(format!("\n{}", tail(&text, 80))),
    };
    (outcome, tests.passed, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_meets_every_seed_in_every_pass() {
        let programs = ["--lib".to_owned(), "--test mutex".to_owned()];
        assert_eq!(runs(&programs, 3, false).len(), 6);
        assert_eq!(runs(&programs, 3, true).len(), 12);
        assert_eq!(super::programs(None), ["--lib"]);
    }
}
