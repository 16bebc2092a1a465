//! Compilers, components and targets that a check may need, fetched if they are missing.

use crate::report::Outcome;
use crate::shell::{output, program, run};

/// The oldest compiler the libraries promise to build with.
pub(crate) const OLDEST: &str = "1.85.0";

/// The toolchain of Miri and of the sanitizers.
pub(crate) const NIGHTLY: &str = "nightly";

/// Skips the rest of a step, loudly, when something cannot be had.
pub(crate) fn or_skip(had: Result<(), String>, work: impl FnOnce() -> Outcome) -> Outcome {
    match had {
        Ok(()) => work(),
        Err(why) => Outcome::Skipped(why),
    }
}

/// Makes sure of a toolchain.
pub(crate) fn toolchain(name: &str) -> Result<(), String> {
    if output(&mut program("rustc", &format!("+{name} --version"))).is_ok() {
        return Ok(());
    }
    run(&mut program("rustup", &format!("toolchain install {name} --profile minimal")))
        .map_err(|why| format!("toolchain {name} cannot be had ({why})"))
}

/// Makes sure of components of a toolchain.
pub(crate) fn components(toolchain_name: &str, names: &[&str]) -> Result<(), String> {
    toolchain(toolchain_name)?;
    let listed = output(&mut program("rustup", &format!("component list --toolchain {toolchain_name}")))?;
    for name in names {
        let there = |line: &str| line.starts_with(name) && line.ends_with("(installed)");
        if !listed.lines().any(there) {
            run(&mut program("rustup", &format!("component add {name} --toolchain {toolchain_name}")))
                .map_err(|why| format!("component {name} of {toolchain_name} cannot be had ({why})"))?;
        }
    }
    Ok(())
}

/// Makes sure of the standard library of a target, for the default toolchain.
pub(crate) fn target(name: &str) -> Result<(), String> {
    let listed = output(&mut program("rustup", "target list --installed"))?;
    if listed.lines().any(|line| line == name) {
        return Ok(());
    }
    run(&mut program("rustup", &format!("target add {name}")))
        .map_err(|why| format!("target {name} cannot be had ({why})"))
}

/// The machine this runs on, as a target name.
pub(crate) fn host() -> Result<String, String> {
    let version = output(&mut program("rustc", "-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}
