//! `cargo xtask repeat`: the tests again and again, under every condition alone. A test that fails once is a defect, of the test or
//! of what it tests. With `--each N` every test by itself (`repeat_each.rs`).

use crate::args::Args;
use crate::conditions::Condition;
use crate::repeat_each;
use crate::report::{Outcome, Report};
use crate::shell::{self, cargo, output, program, tests};

/// Ends a test program after so many seconds. At real-time priority one that spins for ever leaves no processor to anything else.
const CAP: [&str; 3] = ["timeout", "--kill-after=10", "1800"];

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let runs = args.value("--runs", 3)?;
    let package = args.optional::<String>("--package")?;
    let only = args.optional::<String>("--only")?;
    let each = args.optional("--each")?;
    let filter = args.word().unwrap_or_default();
    args.end()?;
    let packages = package.map_or_else(|| "--workspace".to_owned(), |name| format!("--package {name}"));
    output(&mut program(CAP[0], "1 true")).map_err(|why| format!("no run could be ended: {why}"))?;
    shell::run(&mut cargo(&format!("test {packages} --no-run --tests")))?;
    let runner = runner()?;
    let mut report = Report::new("repeat");
    if let Some(runs) = each {
        repeat_each::run(&packages, &filter, runs, &mut report)?;
        return Ok(report);
    }
    let wanted = |condition: &Condition| only.as_ref().is_none_or(|only| condition.name().contains(only));
    for condition in Condition::TESTS.into_iter().filter(wanted) {
        for run in 1..=runs {
            let name = format!("{}, run {run} of {runs}", condition.name());
            report.step(&name, || once(condition, &runner, &format!("{packages} --tests -- {filter}")));
        }
    }
    Ok(report)
}

/// The name of the setting by which cargo runs a test program through another one: the compiler stays outside.
fn runner() -> Result<String, String> {
    let version = output(&mut program("rustc", "-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    Ok(format!("CARGO_TARGET_{}_RUNNER", host.replace('-', "_").to_uppercase()))
}

fn once(condition: Condition, runner: &str, words: &str) -> Outcome {
    let prefix = match condition.prefix() {
        Ok(prefix) => prefix,
        Err(why) => return Outcome::Skipped(why),
    };
    let _load = condition.load();
    let mut command = cargo(&format!("test --no-fail-fast {words}"));
    // Watchdogs are there for what never ends.
    command.env("TASUKI_PATIENCE", "10");
    command.env(runner, CAP.map(str::to_owned).into_iter().chain(prefix).collect::<Vec<_>>().join(" "));
    tests(&mut command).and_then(|tests| tests.verdict()).into()
}
