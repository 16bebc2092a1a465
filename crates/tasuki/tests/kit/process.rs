//! Tests that need a process for themselves.

use std::process::Command;

/// Set in the process that [`alone`] starts.
const ALONE: &str = "TASUKI_ALONE";

/// Runs the test alone in a process of its own: this program is started again with the name of the test, which is that of the function
/// that the closure is written in. Under Miri, which starts no programs and runs one test after the other, it is called here.
pub(crate) fn alone<F: FnOnce()>(test: F) {
    alone_with(&[], test);
}

/// As [`alone`], with settings of the environment.
pub(crate) fn alone_with<F: FnOnce()>(settings: &[(&str, &str)], test: F) {
    if cfg!(miri) || is_alone() {
        return test();
    }
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .env("RUST_BACKTRACE", "0")
        .envs(settings.iter().copied());
    let output = command.output().expect("a program that runs can be started");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}, alone: {}\n{said}\n{complained}", output.status);
    assert!(said.contains("1 passed"), "no test has the name {name}: {said}");
    print!("{said}");
}

/// Is this the process that [`alone`] started?
pub(crate) fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}
