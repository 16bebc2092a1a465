//! `cargo xtask soak`: the runtime and every primitive under a random load, for minutes. What is done and what is checked is in
//! `crates/tasuki-rt/tests/soak/`; it prints its seed.

use crate::args::Args;
use crate::report::{Outcome, Report};
use crate::shell::{cargo, target, tests};

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let minutes: f64 = args.value("--minutes", 10.0)?;
    let workers: u64 = args.value("--workers", 4)?;
    let seed: Option<u64> = args.optional("--seed")?;
    args.end()?;
    if !(minutes > 0.0 && minutes.is_finite()) {
        return Err("--minutes: more than none".to_owned());
    }
    if workers == 0 {
        return Err("--workers: at least one".to_owned());
    }
    let mut report = Report::new("soak");
    report.step(&format!("{minutes} minutes, {workers} workers"), || soak(minutes, workers, seed));
    Ok(report)
}

/// Optimised, and with the assertions that the library has for debug builds.
fn soak(minutes: f64, workers: u64, seed: Option<u64>) -> Outcome {
    let mut command = cargo("test --release -p tasuki-rt --test soak -- --nocapture --include-ignored");
    command
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_TARGET_DIR", target().join("soak"))
        .env("TASUKI_SOAK_SECONDS", format!("{:.0}", (minutes * 60.0).ceil()))
        .env("TASUKI_SOAK_WORKERS", workers.to_string());
    if let Some(seed) = seed {
        command.env("TASUKI_SEED", seed.to_string());
    }
    tests(&mut command).and_then(|tests| tests.verdict()).into()
}
