//! `cargo xtask tour`: the tour again and again, under every condition alone, and with few and many workers. A run that fails
//! once is a defect: the tour checks properties, and no time decides.

use crate::args::Args;
use crate::bench::lab;
use crate::conditions::Condition;
use crate::report::{Outcome, Report};
use crate::shell::{self, Capped, capped, cargo, tail, target};
use std::time::Duration;

/// Longer than any run takes: a run that is not over by then hangs.
const CAP: Duration = Duration::from_secs(1800);
/// Numbers of workers that are tried, each alone.
const WORKERS: [usize; 4] = [1, 2, 3, 64];

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let runs = args.value("--runs", 3)?;
    let quick = if args.flag("--quick") { " --quick" } else { "" };
    let only = args.optional::<String>("--only")?;
    args.end()?;
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name.contains(only));
    shell::run(&mut cargo("build --release -p lab"))?;
    let mut report = Report::new("tour");
    for condition in Condition::TOUR.into_iter().filter(|condition| wanted(condition.name())) {
        report.step(condition.name(), || repeat(condition, runs, &format!("tour{quick}")));
    }
    for (workers, name) in WORKERS.map(|workers| (workers, format!("{workers} workers"))) {
        let words = format!("tour{quick} --workers {workers}");
        if wanted(&name) {
            report.step(&name, || repeat(Condition::Quiet, runs, &words));
        }
    }
    Ok(report)
}

/// So many runs under one condition.
fn repeat(condition: Condition, runs: usize, words: &str) -> Outcome {
    let prefix = match condition.prefix() {
        Ok(prefix) => prefix,
        Err(why) => return Outcome::Skipped(why),
    };
    let _load = condition.load();
    let log = target().join("tour.log");
    let mut failed = 0;
    for run in 1..=runs {
        let mut command = lab(&prefix);
        command.args(words.split_whitespace());
        match capped(&mut command, CAP, &log) {
            Ok((Capped::Passed, _)) => {}
            Ok((end, time)) => {
                failed += 1;
                let text = std::fs::read(&log).unwrap_or_default();
                println!("run {run} of {runs}: {end:?} after {time:.0?}");
                println!("{}", tail(&String::from_utf8_lossy(&text), 12));
            }
            Err(why) => return Outcome::Failed(why),
        }
    }
    match (failed, runs) {
        (_, 0) => Outcome::Failed("no run was asked for".to_owned()),
        (0, _) => Outcome::Passed,
        _ => Outcome::Failed(format!("{failed} of {runs} runs failed")),
    }
}
