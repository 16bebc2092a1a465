//! `cargo xtask fresh`: `cargo run --release` and `cargo test --workspace` in a new clone of what is committed, with nothing fetched or built before.
//!
//! A test once asked cargo for its packages without the network, and passed wherever another check had fetched those of other platforms before; on a new machine it failed.

use crate::args::Args;
use crate::report::Report;
use crate::shell::{self, run as run_loud, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of cargo's folder that say where packages come from. All else in it is what commands left behind.
const SETTINGS: [&str; 2] = ["config.toml", "config"];

/// The folder in which cargo keeps what it fetched.
fn cargo_home() -> Option<PathBuf> {
    let home = || std::env::home_dir().map(|home| home.join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}

/// A clone of the head in `folder`, and beside it an empty folder for cargo, with the settings of this machine.
fn prepare(folder: &Path) -> Result<(), String> {
    let explain = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(explain)?;
    }
    fs::create_dir_all(folder.join("cargo")).map_err(explain)?;
    let settings = cargo_home().into_iter().flat_map(|home| SETTINGS.map(|file| (home.join(file), file)));
    for (path, file) in settings.filter(|(path, _)| path.exists()) {
        fs::copy(path, folder.join("cargo").join(file)).map_err(explain)?;
    }
    run_loud(Command::new("git").args(["clone", "--quiet"]).args([shell::root(), folder.join("clone")]))
}

fn cargo(folder: &Path, words: &str) -> Command {
    let mut command = shell::cargo(words);
    command.current_dir(folder.join("clone")).env("CARGO_HOME", folder.join("cargo"));
    command.env_remove("CARGO_TARGET_DIR");
    command
}

pub(crate) fn run(args: Args) -> Result<Report, String> {
    args.end()?;
    let folder = target().join("fresh");
    let mut report = Report::new("fresh");
    prepare(&folder)?;
    report.step("cargo run --release", || run_loud(&mut cargo(&folder, "run --release")).into());
    report.step("cargo test --workspace", || {
        let tests = shell::tests(&mut cargo(&folder, "test --workspace --no-fail-fast"));
        tests.and_then(|tests| tests.verdict()).into()
    });
    Ok(report)
}
