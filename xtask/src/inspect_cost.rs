//! `cargo xtask inspect-cost`: what the feature `inspect` costs. One program (`lab/inspect-cost`) is built with it and without; the instructions of both are counted, and both are
//! run in turns.
//!
//! Without the feature nothing of the records may be in the program. With it, the limits are those of `docs/inspect.md`. Instructions need valgrind; times say little on a busy machine, so the median of the
//! rounds' ratios counts. `lab bench inspect` has the same two programs: there more is timed, and memory is told.

use crate::args::Args;
use crate::report::{Outcome, Report};
use crate::shell::{cargo, output, program, run as run_loud, target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A workload, its turns for a count of instructions and for a time, and how many times as long it may take with the feature.
const WORKLOADS: [(&str, u64, u64, f64); 4] = [
    ("uncontended", 10_000, 2_000_000, 1.5),
    ("semaphore", 10_000, 2_000_000, 1.5),
    ("rwlock-read", 10_000, 2_000_000, 1.5),
    ("contended", 16_000, 160_000, 1.1),
];
const ROUNDS: usize = 9;

/// What only a program with records has in it.
const RECORDS: [&str; 3] = ["inspect5locks", "inspect5waits", "inspect5watch"];

fn build(with: bool) -> Result<PathBuf, String> {
    let features = if with { "--features inspect" } else { "" };
    let folder = target().join(if with { "inspect-on" } else { "inspect-off" });
    run_loud(cargo(&format!("build --release -p inspect-cost {features}")).env("CARGO_TARGET_DIR", &folder))?;
    Ok(folder.join("release/inspect-cost"))
}

/// Nothing of the records is in the program that is built without.
fn is_absent(with: &Path, without: &Path) -> Result<(), String> {
    let has = |path: &Path| -> Result<Vec<&str>, String> {
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        let has = |name: &&str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
        Ok(RECORDS.into_iter().filter(has).collect())
    };
    let (on, off) = (has(with)?, has(without)?);
    if on.len() != RECORDS.len() {
        return Err(format!(
            "only {on:?} are in the program with the feature: the check looks for the wrong names"
        ));
    }
    if off.is_empty() { Ok(()) } else { Err(format!("{off:?} are in the program without the feature")) }
}

/// Instructions for each turn, the start of the program not counted.
fn instructions(path: &Path, kind: &str, turns: u64) -> Result<f64, String> {
    let count = |turns: u64| -> Result<u64, String> {
        let log = target().join("inspect-cost.callgrind");
        let words = format!("--tool=callgrind --callgrind-out-file={} {}", log.display(), path.display());
        output(program("valgrind", &words).args([kind, &turns.to_string()]))?;
        let text = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
        let total =
            text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        total
            .and_then(|total| total.trim().parse().ok())
            .ok_or_else(|| "callgrind counted nothing".to_owned())
    };
    Ok((count(2 * turns)? as f64 - count(turns)? as f64) / turns as f64)
}

fn nanoseconds(path: &Path, kind: &str, turns: u64) -> Result<f64, String> {
    let text = output(Command::new(path).args([kind, &turns.to_string()]))?;
    text.trim().parse().map_err(|_| format!("`{text}` is no time"))
}

/// The median of the ratios of rounds in which both run, one after the other.
fn ratio(with: &Path, without: &Path, kind: &str, turns: u64) -> Result<f64, String> {
    let round = |_| Ok(nanoseconds(with, kind, turns)? / nanoseconds(without, kind, turns)?);
    let mut ratios = (0..ROUNDS).map(round).collect::<Result<Vec<f64>, String>>()?;
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[ROUNDS / 2])
}

pub(crate) fn run(args: Args) -> Result<Report, String> {
    args.end()?;
    let (with, without) = (build(true)?, build(false)?);
    let mut report = Report::new("inspect-cost");
    report.step("off: nothing of it is in the program", || is_absent(&with, &without).into());
    for (kind, counted, timed, limit) in WORKLOADS {
        report.step(&format!("{kind}: instructions"), || {
            if output(&mut program("valgrind", "--version")).is_err() {
                return Outcome::Skipped("valgrind is not installed".to_owned());
            }
            let count = |path| instructions(path, kind, counted);
            let both = count(&without).and_then(|off| Ok((off, count(&with)?)));
            both.map(|(off, on)| println!("{kind}: {off:.0} instructions without, {on:.0} with")).into()
        });
        report.step(&format!("{kind}: at most {limit} times as long"), || {
            let ratio =
                ratio(&with, &without, kind, timed).inspect(|ratio| println!("{kind}: {ratio:.2} times"));
            let judge = |ratio: f64| if ratio <= limit { Ok(()) } else { Err(format!("{ratio:.2} times")) };
            ratio.and_then(judge).into()
        });
    }
    Ok(report)
}
