//! The examples of a package, as programs. `cargo test` builds them beside the tests; when only one test was asked for, it has
//! them built.

use std::path::PathBuf;
use std::process::Command;

/// Where the example is.
pub(crate) fn path(package: &str, example: &str) -> PathBuf {
    let mut program: PathBuf = std::env::current_exe().expect("a test has a path");
    program.pop();
    program.pop();
    let profile = if program.ends_with("release") { "--release" } else { "--quiet" };
    let target = program.parent().expect("target/profile").to_owned();
    program.extend(["examples", example]);
    if !program.exists() {
        let build = ["build", "--package", package, "--example", example, profile];
        let mut cargo = Command::new(env!("CARGO"));
        assert!(cargo.args(build).env("CARGO_TARGET_DIR", target).status().expect("cargo runs").success());
    }
    program
}

/// What the example prints.
pub(crate) fn lines(package: &str, example: &str) -> Vec<String> {
    let program = path(package, example);
    let output =
        Command::new(&program).output().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}
