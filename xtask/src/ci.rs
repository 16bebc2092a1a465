//! `cargo xtask ci`: what `.ci/run` runs, each step under a header and timed. Ends with the summary lines
//! of the test run and their sum.

use crate::args::Args;
use crate::report::{Outcome, Report};
use crate::shell::{self, Tests, cargo};
use crate::{bench, check, counts, miri, model, package, surface, targets, tidy, tour};
use std::time::Instant;

/// Minutes that all steps may take on two busy cores. Only told: a slow machine is no defect.
const BUDGET: u32 = 30;

pub(crate) fn run(args: Args) -> Result<Report, String> {
    args.end()?;
    let started = Instant::now();
    let mut report = Report::new("ci");
    report.step("tidy", || whole(tidy::run(Args::of(&[]))));
    report.step("check", || whole(check::run(Args::of(&[]))));
    report.step("surface", || whole(surface::run(Args::of(&[]))));
    report.step("package", || whole(package::run(Args::of(&[]))));

    let mut counted = Tests::default();
    report.step("cargo test --workspace", || {
        match shell::tests(&mut cargo("test --workspace --no-fail-fast")) {
            Ok(tests) => counted = tests,
            Err(why) => return Outcome::Failed(why),
        }
        counted.verdict().into()
    });

    // Without what debug assertions allocate.
    report.step("allocation", || {
        shell::run(&mut cargo("test --release -p tasuki-rt --test process allocation::")).into()
    });
    report.step("counts", || whole(counts::run(Args::of(&[]))));
    report.step("model", || whole(model::run(Args::of(&["--preemptions", "2"]))));
    // The integration tests under Miri take too long for every push: `cargo xtask miri` has them.
    report.step("miri", || whole(miri::run(Args::of(&["--small", "--seeds", "2", "--by-turns"]))));
    report.step("targets", || whole(targets::run(Args::of(&["--quick"]))));
    report.step("tour", || whole(tour::run(Args::of(&["--quick", "--runs", "2"]))));
    report.step("bench", || whole(bench::run(Args::of(&["--here"]))));

    for line in &counted.lines {
        report.note(line.clone());
    }
    report.note(format!(
        "{:.0} minutes of the {BUDGET} that CI may take",
        started.elapsed().as_secs_f64() / 60.0
    ));
    report.note(format!("{} passed, {} failed", counted.passed, counted.failed));
    Ok(report)
}

/// A check as one row: its own table is printed, then its outcome counted.
fn whole(result: Result<Report, String>) -> Outcome {
    match result {
        Ok(report) => {
            let outcome = report.outcome();
            report.finish();
            outcome
        }
        Err(why) => Outcome::Failed(why),
    }
}
