//! `cargo xtask model`: the loom models, each in a process of its own, timed and capped.
//!
//! A model that reaches its cap has proved nothing: that is a failure. So is one that is complete after fewer than [`LEAST`]
//! executions (nothing in it races, or loom does not see that it does), and so is a run without models.

use crate::args::Args;
use crate::report::{Outcome, Report};
use crate::shell::{self, Capped, capped, output, program, tail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many times a model may switch away from a thread that could go on.
pub(crate) const PREEMPTIONS: usize = 2;

/// The executions of a model that tries anything: two threads with one step each that matters have more.
const LEAST: usize = 5;

/// Limits inside loom that end a model early and silently.
const SILENT_CAPS: [&str; 2] = ["LOOM_MAX_DURATION", "LOOM_MAX_PERMUTATIONS"];

/// The models of one library, and the start of their names.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Suite {
    pub(crate) prefix: &'static str,
    /// What cargo is to build.
    program: &'static str,
    /// The library.
    pub(crate) library: &'static str,
    /// The file that names those of the library's files that its models include, if they do not have them all.
    pub(crate) includes: Option<&'static str>,
}

/// All of them.
pub(crate) const SUITES: [Suite; 2] = [
    Suite { prefix: "", program: "-p tasuki-model --test model", library: "crates/tasuki", includes: None },
    Suite {
        prefix: "rt::",
        program: "-p tasuki-rt-model --lib",
        library: "crates/tasuki-rt",
        includes: Some("crates/tasuki-rt/model/parts.rs"),
    },
];

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let preemptions = args.value("--preemptions", PREEMPTIONS)?;
    let cap = Duration::from_secs(args.value("--cap", 300)?);
    let jobs = args.value("--jobs", 2)?;
    let filter = args.word().unwrap_or_default();
    args.end()?;

    let mut report = Report::new("model");
    println!("=== model: build");
    let models = Models::build(&SUITES, &shell::root(), &shell::target().join("loom"), "")?;
    let names: Vec<&String> = models.names.iter().filter(|name| name.contains(&filter)).collect();
    if names.is_empty() {
        return Err(format!("no model has {filter:?} in its name ({} models in all)", models.names.len()));
    }
    println!("=== model: {} models, {preemptions} preemptions, cap {} s", names.len(), cap.as_secs());

    let ends = Mutex::new(Vec::new());
    pool(jobs, names.len(), |at, worker| {
        let end = models.run(names[at], preemptions, cap, worker);
        match &end {
            Ok(end) => {
                println!("  {:>7.1} s  {}  {}", end.time.as_secs_f64(), end.word(), end.title(names[at]));
                if end.how == Capped::Failed {
                    println!("{}", tail(&end.log, 60));
                }
            }
            Err(why) => println!("{why}"),
        }
        ends.lock().expect("no worker panics").push((at, end));
    });

    let mut ends = ends.into_inner().expect("no worker panics");
    ends.sort_by_key(|(at, _)| *at);
    for (at, end) in ends {
        let end = end?;
        report.row(&end.title(names[at]), end.outcome(cap), end.time);
    }
    Ok(report)
}

/// How one model ended.
pub(crate) struct End {
    pub(crate) how: Capped,
    pub(crate) time: Duration,
    /// Everything it printed.
    pub(crate) log: String,
}

impl End {
    fn word(&self) -> &'static str {
        match self.how {
            Capped::Passed if self.ran_too_little() => "TOO FEW",
            Capped::Passed => "ok    ",
            Capped::Failed => "FAILED",
            Capped::TimedOut => "CAPPED",
        }
    }

    /// It was complete after so few executions that nothing was tried in two orders.
    pub(crate) fn ran_too_little(&self) -> bool {
        executions(&self.log).is_some_and(|count| count < LEAST)
    }

    /// Its name and how many executions it explored.
    fn title(&self, name: &str) -> String {
        match executions(&self.log) {
            Some(count) => format!("{name}: {count} executions, complete"),
            None if self.how == Capped::Failed => format!("{name}: panics"),
            None if panicked(&self.log) => format!("{name}: panics as it should"),
            None => format!("{name}: not complete"),
        }
    }

    fn outcome(&self, cap: Duration) -> Outcome {
        match self.how {
            Capped::Passed if self.ran_too_little() => {
                Outcome::Failed(format!("fewer than {LEAST} executions: nothing was tried in two orders"))
            }
            Capped::Passed => Outcome::Passed,
            Capped::Failed => Outcome::Failed("its output is above".to_owned()),
            Capped::TimedOut => Outcome::Failed(format!("not complete after {} s", cap.as_secs())),
        }
    }
}

/// The built models of one copy of the libraries.
pub(crate) struct Models {
    programs: Vec<(Suite, PathBuf)>,
    pub(crate) names: Vec<String>,
    target: PathBuf,
}

impl Models {
    /// Builds models of the workspace at `root` into `target`.
    pub(crate) fn build(
        suites: &[Suite],
        root: &Path,
        target: &Path,
        more_flags: &str,
    ) -> Result<Self, String> {
        let mut models = Self { programs: Vec::new(), names: Vec::new(), target: target.to_owned() };
        for suite in suites {
            let mut command = program("cargo", &format!("test --release {} --no-run", suite.program));
            command
                .arg("--message-format=json-render-diagnostics")
                .current_dir(root)
                .env("CARGO_TARGET_DIR", target)
                .env("RUSTFLAGS", format!("--cfg tasuki_loom -Cdebug-assertions {more_flags}"))
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
                .env("CARGO_INCREMENTAL", "1");
            let messages = output(&mut command)?;
            let program =
                messages.lines().rev().find_map(executable).ok_or("cargo names no model program")?;
            let listed = output(Command::new(&program).args(["--list", "--format", "terse"]))?;
            let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
            let before = models.names.len();
            models.names.extend(names.map(|name| format!("{}{name}", suite.prefix)));
            if models.names.len() == before {
                return Err(format!("there are no models in {:?} under `--cfg tasuki_loom`", suite.program));
            }
            models.programs.push((*suite, program));
        }
        Ok(models)
    }

    /// Runs one model; `worker` tells concurrent runs apart.
    pub(crate) fn run(
        &self,
        name: &str,
        preemptions: usize,
        cap: Duration,
        worker: usize,
    ) -> Result<End, String> {
        let path = self.target.join(format!("model-{worker}.log"));
        // The last that fits: the first suite has no prefix.
        let fits = |(suite, program): &'_ (Suite, PathBuf)| {
            name.strip_prefix(suite.prefix).map(|inside| (program.clone(), inside))
        };
        let (program, inside) =
            self.programs.iter().rev().find_map(fits).ok_or_else(|| format!("{name} was not built"))?;
        let mut command = Command::new(program);
        command
            .args(["--exact", inside, "--test-threads=1", "--nocapture"])
            .env("LOOM_LOG", "loom::model=info")
            .env("LOOM_MAX_PREEMPTIONS", preemptions.to_string())
            .env("LOOM_MAX_BRANCHES", "10000");
        for name in SILENT_CAPS {
            command.env_remove(name);
        }
        let (mut how, time) = capped(&mut command, cap, &path)?;
        let log = std::fs::read(&path).map_err(|error| error.to_string())?;
        let log = String::from_utf8_lossy(&log).into_owned();
        // An ignored model "succeeds" without running, one that a limit of loom ends without completing.
        let ran = log.contains("test result: ok. 1 passed;");
        if how == Capped::Passed && !(ran && (executions(&log).is_some() || panicked(&log))) {
            how = Capped::Failed;
        }
        Ok(End { how, time, log })
    }
}

/// Calls `work(item, worker)` for every item below `count`, on `jobs` threads.
pub(crate) fn pool(jobs: usize, count: usize, work: impl Fn(usize, usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..jobs.clamp(1, count.max(1)) {
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                loop {
                    // Relaxed: only the number is shared.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    work(at, worker);
                }
            });
        }
    });
}

/// How many executions loom explored until none was left, if it says that it came to that end. A test with several
/// scenarios is worth what the poorest is: if one of them ran once, so did the test.
fn executions(log: &str) -> Option<usize> {
    let count = |line: &str| line.split_once("Completed in ")?.1.split_once(" iterations")?.0.parse().ok();
    let counts: Vec<usize> = log.lines().filter_map(count).collect();
    if counts.contains(&1) { Some(1) } else { (!counts.is_empty()).then(|| counts.iter().sum()) }
}

/// True of a passed model that shows a mistake by failing, whether it is marked so or catches the panic itself.
fn panicked(log: &str) -> bool {
    log.lines().any(|line| line.starts_with("thread '") && line.contains(" panicked at "))
}

/// The program a message of cargo names, if it names one.
fn executable(message: &str) -> Option<PathBuf> {
    let (_, rest) = message.split_once("\"executable\":\"")?;
    Some(PathBuf::from(rest.split_once('"')?.0.replace("\\\\", "\\")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_the_messages() {
        let message =
            r#"{"reason":"compiler-artifact","executable":"target/release/deps/model-1","fresh":true}"#;
        assert_eq!(executable(message), Some(PathBuf::from("target/release/deps/model-1")));
        assert_eq!(executable(r#"{"executable":null}"#), None);
    }

    #[test]
    fn executions_are_summed() {
        let log =
            "INFO loom::model: Completed in 9 iterations\nx\nINFO loom::model: Completed in 30 iterations\n";
        assert_eq!(executions(log), Some(39));
        assert_eq!(executions(&format!("{log}INFO loom::model: Completed in 1 iterations\n")), Some(1));
        assert_eq!(executions("test result: ok. 1 passed;"), None);
        assert!(
            panicked("running 1 test\n\nthread 'a' (1) panicked at model/a.rs:1:2:\nok\n") && !panicked(log)
        );
    }

    #[test]
    fn the_pool_does_every_item_once() {
        let seen = Mutex::new(Vec::new());
        pool(3, 100, |at, _| seen.lock().unwrap().push(at));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }
}
