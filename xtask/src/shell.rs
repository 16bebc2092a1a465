//! Running other programs: echoed, checked, counted, capped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a member of the workspace").to_owned()
}

/// Where builds go: each kind of build has a folder of its own below it.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// A `cargo` command at the root of the workspace.
pub(crate) fn cargo(words: &str) -> Command {
    program("cargo", words)
}

/// Any command at the root of the workspace; `words` are split at spaces.
pub(crate) fn program(name: &str, words: &str) -> Command {
    let mut command = Command::new(name);
    command.args(words.split_whitespace()).current_dir(root());
    command
}

/// Runs with inherited output; an error unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    echo(command);
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{status}")) }
}

/// Runs quietly and returns standard output; an error unless it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}

/// What a test run said of itself.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tests {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// The summary lines, as printed.
    pub(crate) lines: Vec<String>,
    /// True if the command itself succeeded.
    pub(crate) success: bool,
}

impl Tests {
    /// Success means: the command succeeded, nothing failed, and something ran.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        match self {
            Tests { failed: 1.., .. } => Err(format!("{} tests failed", self.failed)),
            Tests { success: false, .. } => Err("the test command failed".to_owned()),
            Tests { passed: 0, .. } => Err("no test ran".to_owned()),
            _ => Ok(()),
        }
    }

    /// Counts the summary lines of a log.
    pub(crate) fn of(log: &str, success: bool) -> Self {
        let mut tests = Self { success, ..Self::default() };
        log.lines().for_each(|line| tests.read(line));
        tests
    }

    fn read(&mut self, line: &str) {
        let Some((_, counts)) = line.split_once("test result: ") else { return };
        let number = |label: &str| -> usize {
            let mut words = counts.split([' ', ';', '.']).filter(|word| !word.is_empty()).rev();
            words.find(|word| *word == label).and_then(|_| words.next()?.parse().ok()).unwrap_or(0)
        };
        self.passed += number("passed");
        // "FAILED." opens the line in capitals: only the count is in small letters.
        self.failed += number("failed");
        self.lines.push(line.trim().to_owned());
    }
}

/// Runs a test command, lets its output through, and counts its summary lines.
pub(crate) fn tests(command: &mut Command) -> Result<Tests, String> {
    echo(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let mut tests = Tests::default();
    let mut reader = BufReader::new(child.stdout.take().expect("standard output is piped"));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(|error| error.to_string())? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        tests.read(&text);
        line.clear();
    }
    tests.success = child.wait().map_err(|error| error.to_string())?.success();
    Ok(tests)
}

/// How a capped run ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Capped {
    Passed,
    Failed,
    TimedOut,
}

/// Runs with all output into `log`, at most for `cap`; returns how it ended and how long it took.
pub(crate) fn capped(command: &mut Command, cap: Duration, log: &Path) -> Result<(Capped, Duration), String> {
    let explain = |error: std::io::Error| format!("{command:?}: {error}", command = log.display());
    let file = File::create(log).map_err(explain)?;
    let copy = file.try_clone().map_err(explain)?;
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn().map_err(explain)?;
    loop {
        if let Some(status) = child.try_wait().map_err(explain)? {
            let end = if status.success() { Capped::Passed } else { Capped::Failed };
            return Ok((end, started.elapsed()));
        }
        if started.elapsed() > cap {
            child.kill().map_err(explain)?;
            child.wait().map_err(explain)?;
            return Ok((Capped::TimedOut, started.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &str, lines: usize) -> String {
    let all: Vec<&str> = log.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Prints the command as one could type it.
fn echo(command: &Command) {
    let mut line = String::from("$");
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            line += &format!(" {}={:?}", name.to_string_lossy(), value.to_string_lossy());
        }
    }
    line += &format!(" {}", command.get_program().to_string_lossy());
    for word in command.get_args() {
        line += &format!(" {}", word.to_string_lossy());
    }
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lines_are_counted() {
        let mut tests = Tests { success: true, ..Tests::default() };
        assert_eq!(tests.verdict(), Err("no test ran".to_owned()));
        tests.read("test queue::passed ... ok\n");
        tests.read("test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out\n");
        tests.read("test result: ok. 30 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n");
        assert_eq!((tests.passed, tests.failed, tests.lines.len()), (42, 0, 2));
        assert_eq!(tests.verdict(), Ok(()));
        tests.read("test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n");
        assert_eq!((tests.passed, tests.failed), (47, 2));
        assert!(tests.verdict().is_err());
    }

    #[test]
    fn the_tail_is_the_end() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }

    #[test]
    fn a_capped_run_is_ended() {
        let log = std::env::temp_dir().join(format!("xtask-capped-{}", std::process::id()));
        let cap = Duration::from_millis(50);
        // It would sleep for an hour: that this test ends shows that it was ended.
        assert_eq!(capped(&mut program("sleep", "3600"), cap, &log).unwrap().0, Capped::TimedOut);
        let long = Duration::from_secs(3600);
        assert_eq!(capped(&mut program("true", ""), long, &log).unwrap().0, Capped::Passed);
        assert_eq!(capped(&mut program("false", ""), long, &log).unwrap().0, Capped::Failed);
        std::fs::remove_file(&log).unwrap();
    }
}
