//! Tests that need a process for themselves, and what the system knows of the threads of this one.

use std::process::Command;

/// Set in the process that [`alone`] starts.
const ALONE: &str = "TASUKI_ALONE";

/// Runs the test alone in a process of its own: this program is started again with the name of the test, which is that of the function
/// that the closure is written in. A test of very many waiters is run so as well: debug builds note each of them, and whatever another test asks of
/// these notes would look at all. Under Miri, which starts no programs and runs one test after the other, it is called here.
pub(crate) fn alone<F: FnOnce()>(test: F) {
    let _ = alone_with(&[], test);
}

/// As [`alone`], with settings of the environment. What the process wrote to its standard error, unless this is that process.
pub(crate) fn alone_with<F: FnOnce()>(settings: &[(&str, &str)], test: F) -> Option<String> {
    if cfg!(miri) || is_alone() {
        test();
        return None;
    }
    let path = std::any::type_name::<F>().strip_suffix("::{{closure}}").expect("a closure, not a function");
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    let mut command = this_program();
    command
        .args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .env("RUST_BACKTRACE", "0")
        .envs(settings.iter().copied());
    let output = command.output().expect("a program that runs can be started");
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}, alone: {}\n{said}\n{complained}", output.status);
    assert!(said.contains("1 passed"), "no test has the name {name}: {said}");
    print!("{said}");
    Some(complained.into_owned())
}

/// This program, to be started again: by `TASUKI_RUNNER` if the system does not run it itself.
fn this_program() -> Command {
    let program = std::env::current_exe().expect("a test has a path");
    let Some(runner) = std::env::var_os("TASUKI_RUNNER") else { return Command::new(program) };
    let mut command = Command::new(runner);
    command.arg(program);
    command
}

/// Is this the process that [`alone`] started?
pub(crate) fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Waits until every thread of these does nothing at all: it sleeps, and the system has not run it for a while. One that spins, or
/// looks again from time to time, never gets there, and the watchdog says so. Where the system does not tell: until it has had time to.
pub(crate) fn until_asleep(threads: impl Fn() -> Vec<u32>) {
    /// Whether it sleeps, and how often it has been taken from its processor: any run ends in that.
    fn state(thread: u32) -> Option<(bool, Vec<String>)> {
        let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
        let lines =
            |name: &str| status.lines().filter(|line| line.contains(name)).map(str::to_owned).collect();
        let state: Vec<String> = lines("State:");
        Some((state.first()?.contains("S (sleeping)"), lines("voluntary_ctxt_switches")))
    }
    if cfg!(any(miri, not(target_os = "linux"))) {
        return std::thread::sleep(std::time::Duration::from_millis(300));
    }
    loop {
        let look = || threads().into_iter().map(|thread| (thread, state(thread))).collect::<Vec<_>>();
        let before = look();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let asleep = before.iter().all(|(_, state)| state.as_ref().is_some_and(|(sleeps, _)| *sleeps));
        if asleep && look() == before {
            return;
        }
    }
}

/// All threads of this process but the caller's.
pub(crate) fn other_threads() -> Vec<u32> {
    let here = this_thread();
    let threads = std::fs::read_dir("/proc/self/task").expect("a process has threads").flatten();
    let ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    ids.filter(|thread| *thread != here).collect()
}

/// The number by which the system knows the calling thread; 0 where it does not tell.
pub(crate) fn this_thread() -> u32 {
    if cfg!(any(miri, not(target_os = "linux"))) {
        return 0;
    }
    let link = std::fs::read_link("/proc/thread-self").expect("a thread has a place there");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number")
}
