//! A helper of unit tests: what the child of a fork does. The child has one thread, and finds every lock as the threads of its parent left it. So a test that forks runs in a process of its own,
//! in which no other test has one of the locks that the records of `inspect/` or another part of the crate take.

use std::any::type_name;
use std::process::Command;
use std::string::String;

/// Set in the process that [`alone`] starts.
const ALONE: &str = "TASUKI_ALONE";

/// Runs the test in a process of its own: this program is started again with the name of the test, which is that of the function that the closure is written in.
pub(crate) fn alone<F: FnOnce()>(test: F) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let path = type_name::<F>().strip_suffix("::{{closure}}").expect("a closure, not a function");
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    let output = this_program()
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("a program that runs can be started");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}, alone: {}\n{said}\n{complained}", output.status);
    assert!(said.contains("1 passed"), "no test has the name {name}: {said}");
}

/// This program, to be started again: by `TASUKI_RUNNER` if the system does not run it itself.
fn this_program() -> Command {
    let program = std::env::current_exe().expect("a test has a path");
    let Some(runner) = std::env::var_os("TASUKI_RUNNER") else { return Command::new(program) };
    let mut command = Command::new(runner);
    command.arg(program);
    command
}

/// Runs `child` in the child of a fork; true if it said so.
pub(crate) fn in_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does nothing but what is asked of it, and ends without returning.
    let id = unsafe { libc::fork() };
    if id == 0 {
        // SAFETY: no precondition. The signal ends a child that hangs.
        unsafe { libc::alarm(60) };
        let is_so = child();
        // SAFETY: no precondition. The child ends without running anything else.
        unsafe { libc::_exit(i32::from(!is_so)) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    id > 0 && unsafe { libc::waitpid(id, &raw mut status, 0) } == id && status == 0
}
