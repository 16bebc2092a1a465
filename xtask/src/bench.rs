//! `cargo xtask bench`: every benchmark to its end with `--quick`: on the machine as it is, beside a load, and on one processor. No figure is
//! judged; every cell must be in the file, and no subject of ours may panic, hang or crash. `--here`, for CI, leaves the other conditions out.

use crate::args::Args;
use crate::conditions::Condition;
use crate::report::{Outcome, Report};
use crate::shell::{self, cargo, program, target};
use std::fs::{self, File};
use std::process::Command;

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let here = args.flag("--here");
    args.end()?;
    shell::run(&mut cargo("build --release -p lab"))?;
    let mut report = Report::new("bench");
    let conditions = [Condition::Quiet, Condition::Busy, Condition::Pinned];
    for condition in &conditions[..if here { 1 } else { conditions.len() }] {
        report.step(condition.name(), || match condition.prefix() {
            Ok(prefix) => measure(*condition, &prefix).into(),
            Err(why) => Outcome::Skipped(why),
        });
    }
    Ok(report)
}

/// One run, and whether it has everything.
fn measure(condition: Condition, prefix: &[String]) -> Result<(), String> {
    let (file, tables) = (target().join("bench-quick.json"), target().join("bench-quick.txt"));
    // What an earlier run left must not be taken for this one's.
    fs::remove_file(&file).ok();
    println!("tables: {}", tables.display());
    let tables = File::create(&tables).map_err(|error| error.to_string())?;
    let load = condition.load();
    let mut bench = lab(prefix);
    shell::run(bench.args(["bench", "all", "--quick", "--json"]).arg(&file).stdout(tables))?;
    drop(load);
    shell::run(lab(&[]).arg("verify").arg(&file))
}

/// The lab, behind the words of a condition.
pub(crate) fn lab(prefix: &[String]) -> Command {
    let lab = target().join("release").join("lab");
    match prefix.split_first() {
        Some((tool, rest)) => {
            let mut command = program(tool, "");
            command.args(rest).arg(lab);
            command
        }
        None => program(&lab.to_string_lossy(), ""),
    }
}
