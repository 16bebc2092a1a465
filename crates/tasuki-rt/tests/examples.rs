//! The examples run, and print what they say. `cargo test` builds them beside the tests; when only this test was asked for, it
//! has them built.

mod kit;

use kit::watchdog;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

fn lines(example: &str) -> Vec<String> {
    let mut program: PathBuf = std::env::current_exe().expect("a test has a path");
    program.pop();
    program.pop();
    let profile = if program.ends_with("release") { "--release" } else { "--quiet" };
    let target = program.parent().expect("target/profile").to_owned();
    program.extend(["examples", example]);
    if !program.exists() {
        let build = ["build", "--package", "tasuki-rt", "--example", example, profile];
        let mut cargo = Command::new(env!("CARGO"));
        assert!(cargo.args(build).env("CARGO_TARGET_DIR", target).status().expect("cargo runs").success());
    }
    let output =
        Command::new(&program).output().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn mutex_workers_take_turns() {
    let _dog = watchdog(60);
    let lines = lines("mutex_workers");
    assert_eq!(lines.len(), 6);
    for turn in lines.chunks(2) {
        let id =
            turn[0].strip_prefix("Worker ").and_then(|line| line.strip_suffix(" acquired lock")).unwrap();
        assert_eq!(turn[1], format!("Worker {id} released lock"));
    }
}

#[test]
fn the_semaphore_lets_two_in() {
    let _dog = watchdog(60);
    let lines = lines("semaphore");
    assert_eq!(lines.len(), 10);
    let mut inside = 0_usize;
    for line in &lines {
        inside = if line.ends_with(" in") { inside + 1 } else { inside - 1 };
        assert!(inside <= 2, "{lines:?}");
    }
}

#[test]
fn the_event_releases_all() {
    let _dog = watchdog(60);
    let lines = lines("event");
    let set = lines.iter().position(|line| line == "set").unwrap();
    assert_eq!((set, lines.len()), (3, 7));
    assert!(lines[..set].iter().all(|line| line.ends_with(" waiting")));
    assert!(lines[set + 1..].iter().all(|line| line.ends_with(" woke")));
}

#[test]
fn the_wait_group_waits_for_all() {
    let _dog = watchdog(60);
    let lines = lines("wait_group");
    assert_eq!((lines.len(), lines[3].as_str()), (4, "all done"));
}

#[test]
fn the_cancelled_task_stops() {
    let _dog = watchdog(60);
    let lines = lines("cancellation");
    let rounds =
        lines[0].strip_prefix("stopped after ").and_then(|line| line.strip_suffix(" rounds")).unwrap();
    // 1500 ms in steps of 200 ms, on a machine that may be slow.
    assert!((1..=8).contains(&rounds.parse::<usize>().unwrap()), "{rounds}");
}

#[test]
fn nobody_passes_the_startup_barrier_early() {
    let _dog = watchdog(60);
    let lines = lines("startup_barrier");
    let mut seen: HashMap<&str, usize> = HashMap::new();
    lines.iter().for_each(|line| *seen.entry(line).or_default() += 1);
    assert_eq!(lines.len(), 8);
    assert!(seen.values().all(|count| *count == 1));
    assert!(lines[..4].iter().all(|line| line.ends_with("phase0")), "{lines:?}");
    assert!(lines[4..].iter().all(|line| line.ends_with("phase1")), "{lines:?}");
}

#[test]
fn no_increment_is_lost() {
    let _dog = watchdog(60);
    assert_eq!(lines("increment"), ["10000"]);
}

#[test]
fn the_loop_mutex_stays_at_home() {
    let _dog = watchdog(60);
    let lines = lines("loop_mutex");
    assert_eq!(lines.len(), 10);
    for line in &lines[..9] {
        let home = line.strip_prefix("loop ").and_then(|line| line.split(' ').next()).unwrap();
        assert_eq!(*line, format!("loop {home} holds the lock on loop {home}"));
    }
    assert!(lines[9].contains("no event loop on this thread"));
}
