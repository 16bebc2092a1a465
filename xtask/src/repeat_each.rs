//! `cargo xtask repeat --each N`: every test by itself, N times, in a dozen processes at once. A test that depends on the pace of the machine may fail once in a hundred runs: it passes most runs of
//! all tests together, of which there are never as many.

use crate::report::{Outcome, Report};
use crate::shell::{Capped, capped, cargo, output, tail, target};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How many processes there are at once: several for each processor, so that each of them is held up now and then.
const AT_ONCE: usize = 12;
/// A test that takes longer is run once.
const SHORT: Duration = Duration::from_millis(700);
/// A run that takes longer hangs.
const CAP: Duration = Duration::from_secs(300);

/// A program of tests, and the folder of its package.
struct TestProgram {
    path: PathBuf,
    folder: PathBuf,
}

pub(crate) fn run(packages: &str, filter: &str, runs: usize, report: &mut Report) -> Result<(), String> {
    for program in programs(packages)? {
        let list = output(program.command().args(["--list", "--format", "terse"]).arg(filter))?;
        let names: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        if !names.is_empty() {
            let row = format!("{}, {} tests, each {runs} times", program.path.display(), names.len());
            report.step(&row, || program.repeat_each(&names, runs));
        }
    }
    Ok(())
}

/// The programs of tests that cargo has built.
fn programs(packages: &str) -> Result<Vec<TestProgram>, String> {
    let messages = output(&mut cargo(&format!("test {packages} --no-run --tests --message-format json")))?;
    Ok(messages.lines().filter_map(program_of).collect())
}

/// What a message of cargo names, if it is a program of tests.
fn program_of(message: &str) -> Option<TestProgram> {
    let text = |key: &str| {
        let (_, rest) = message.split_once(&format!("\"{key}\":\""))?;
        rest.split_once('"').map(|(text, _)| PathBuf::from(text))
    };
    let (_, profile) = message.split_once("\"profile\":{")?;
    let is_test = profile.split('}').next()?.contains("\"test\":true");
    let folder = text("manifest_path")?.parent()?.to_owned();
    is_test.then_some(TestProgram { path: text("executable")?, folder })
}

impl TestProgram {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        // Watchdogs are there for what never ends.
        command.current_dir(&self.folder).env("TASUKI_PATIENCE", "10");
        command
    }

    fn repeat_each(&self, names: &[&str], runs: usize) -> Outcome {
        let (mut long, mut failures) = (0, Vec::new());
        for name in names {
            let failure = match self.attempt(name, 0) {
                Ok(time) if time > SHORT => {
                    long += 1;
                    None
                }
                Ok(_) => self.repeat(name, runs),
                Err(why) => Some(format!("{name}: {why}")),
            };
            // At once: a run of all may be ended before its end.
            failure.iter().for_each(|why| println!("{why}"));
            failures.extend(failure);
        }
        println!("{long} of {} tests take longer than {SHORT:?}, and were run once", names.len());
        if failures.is_empty() { Outcome::Passed } else { Outcome::Failed(failures.join("\n")) }
    }

    /// How often a test has failed, and the end of what it said.
    fn repeat(&self, name: &str, runs: usize) -> Option<String> {
        let begun = AtomicUsize::new(0);
        let failures = thread::scope(|scope| {
            let one_after_the_other = |process| {
                // Relaxed: each number is given once, and nothing else is said by it.
                let numbers = || begun.fetch_add(1, Ordering::Relaxed);
                let attempts = std::iter::repeat_with(numbers).take_while(|number| *number < runs);
                attempts.filter_map(|_| self.attempt(name, process).err()).collect::<Vec<_>>()
            };
            let begin = |process| scope.spawn(move || one_after_the_other(process));
            let processes: Vec<_> = (0..AT_ONCE).map(begin).collect();
            processes.into_iter().flat_map(|process| process.join().expect("no panic")).collect::<Vec<_>>()
        });
        failures.first().map(|why| format!("{name}: {} of {runs} runs failed: {why}", failures.len()))
    }

    /// One run of a test; how long it took.
    fn attempt(&self, name: &str, process: usize) -> Result<Duration, String> {
        let folder = target().join("repeat-each");
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let log = folder.join(format!("{}.{process}", name.replace(':', "-")));
        let (end, time) = capped(self.command().args(["--exact", name]), CAP, &log)?;
        let said = fs::read(&log).unwrap_or_default();
        let _ = fs::remove_file(&log);
        match end {
            Capped::Passed => Ok(time),
            Capped::Failed => Err(tail(&String::from_utf8_lossy(&said), 12)),
            Capped::TimedOut => Err(format!("did not end within {CAP:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_tests_is_known_by_its_message() {
        let message = |profile: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/Cargo.toml","target":{{"test":true}},"profile":{{"opt_level":"0","test":{profile}}},"executable":{executable}}}"#
            )
        };
        let found = program_of(&message("true", r#""/target/main""#)).expect("a program");
        assert_eq!((found.path, found.folder), (PathBuf::from("/target/main"), PathBuf::from("/a")));
        assert!(program_of(&message("false", r#""/target/main""#)).is_none(), "no program of tests");
        assert!(program_of(&message("true", "null")).is_none(), "no program");
        assert!(program_of(r#"{"reason":"build-finished","success":true}"#).is_none());
    }
}
