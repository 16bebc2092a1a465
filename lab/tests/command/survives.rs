//! Subjects that panic, hang or end the process: the lab names each, goes on, and keeps what it has.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A folder of this test alone.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("lab-survives-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn lab(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.args(words.split_whitespace());
    command
}

/// Runs the misbehaving subjects, and returns whether the run succeeded, what it printed and what it wrote.
fn hostile(name: &str, only: &str) -> (bool, String, String) {
    let folder = folder(name);
    let json = folder.join("results.json");
    let mut command = lab("bench hostile --quick --patience 5");
    command.args(["--only", only]).arg("--json").arg(&json);
    let output = command.output().unwrap();
    let written = fs::read_to_string(&json).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned(), written)
}

/// The line of the JSON that is about a subject of a cell.
fn line<'a>(json: &'a str, workload: &str, subject: &str) -> &'a str {
    let (workload, subject) = (format!("\"{workload}\""), format!("\"subject\": \"{subject}\""));
    let mut lines = json.lines().filter(|line| line.contains(&workload) && line.contains(&subject));
    let found = lines.next().unwrap_or_else(|| panic!("{workload} {subject} in {json}"));
    assert!(lines.next().is_none(), "{workload} {subject} twice in {json}");
    found
}

#[test]
fn whatever_a_peer_does_is_reported_and_the_run_goes_on() {
    let (success, printed, json) = hostile("peers", "r");
    let (peers, after) = ("hostile/peers", "hostile/after");
    for (subject, outcome, why) in [
        ("panics", "panicked", "on purpose"),
        ("panics-on-another-thread", "panicked", "elsewhere, on purpose"),
        ("hangs-asleep", "hung", "did not end within 5 s"),
        ("hangs-spinning", "hung", "did not end within 5 s"),
        ("aborts", "crashed", "ended the process"),
        ("exits", "crashed", "ended the process before its end"),
        ("cannot-be-measured", "unmeasured", "on purpose"),
    ] {
        let told = line(&json, peers, subject);
        assert!(told.contains(&format!("\"outcome\": \"{outcome}\"")) && told.contains(why), "{told}");
        assert!(printed.contains(&format!("{subject} {outcome}: ")), "{subject} in {printed}");
    }
    assert!(line(&json, peers, "ours-behaves").contains("\"median\": "), "measured beside them");
    assert!(line(&json, after, "ours-behaves").contains("\"median\": "), "measured after them");
    assert!(json.contains("\"complete\": true"), "{json}");
    // `--only r` lets the cell of ours pass by its subject's name as well: it fails there, and that counts.
    assert!(line(&json, "hostile/own", "ours-panics").contains("ours, on purpose") && !success);
}

#[test]
fn only_ours_failing_is_an_error() {
    let (success, _, json) = hostile("theirs", "aborts");
    assert!(success && json.contains("\"crashed\""), "{json}");
    let (success, _, json) = hostile("own", "ours-panics");
    assert!(!success && json.contains("ours, on purpose"), "{json}");
}

#[test]
fn a_run_that_is_killed_keeps_what_it_measured() {
    let folder = folder("killed");
    let json = folder.join("results.json");
    let mut command = lab("bench token hostile --quick --only a");
    let mut child =
        command.arg("--json").arg(&json).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The first cells are measured quickly; then a subject of the last family hangs for a minute.
    while !fs::read_to_string(&json).is_ok_and(|text| text.contains("token/cancel/complete")) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let text = fs::read_to_string(&json).unwrap();
    assert!(text.contains("\"complete\": false"), "{text}");
    assert!(line(&text, "token/check", "tasuki").contains("\"median\": "), "{text}");
    assert!(text.trim_end().ends_with("]}"), "whole: {text}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_without_every_cell_is_refused() {
    let folder = folder("verify");
    let json = folder.join("results.json");
    assert!(lab("bench token --quick --json").arg(&json).output().unwrap().status.success());
    let output = lab("verify").arg(&json).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("missing: mutex/uncontended n=1 none tokio"), "{told}");
    assert!(!told.contains("missing: token/"), "{told}");
    fs::remove_dir_all(&folder).unwrap();
}
