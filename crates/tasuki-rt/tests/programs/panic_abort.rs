//! In a program that is built with `panic = "abort"`, where each unwinding is its end, nothing of the runtime's own unwinds.

use crate::kit::watchdog;
use std::path::Path;
use std::process::Command;

/// Blocking work for which there is no thread is an error of its handle.
#[test]
#[cfg(unix)]
#[cfg_attr(miri, ignore = "starts programs")]
fn a_refused_thread_is_an_error() {
    let _dog = watchdog(300);
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--package", "tasuki-rt", "--example", "refused_thread"]);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    // The last crate says how a panic ends, also those of the libraries.
    cargo.args(["--", "-C", "panic=abort"]).env("CARGO_TARGET_DIR", profile.parent().unwrap());
    assert!(cargo.status().unwrap().success());
    let output = Command::new(profile.join("examples/refused_thread")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("the system refuses another"), "{output:?}");
}
