//! What the feature `inspect` costs: the same operations in two builds of one small program, `lab/inspect-cost`, which are asked in turns.
//!
//! The feature decides at compile time what a lock is, so one program cannot have both. They are built here by cargo, into folders of their own, which `cargo xtask inspect-cost` has too. Without cargo, or if a build fails,
//! every cell fails with that reason: what was built from older sources is not measured.

use crate::measure::{Bench, Contender, Group, Reading, Sample};
use crate::peer::Kind;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The name of the family.
pub(crate) const NAME: &str = "inspect";

/// The two builds: with notes, and without. The second does less, so it is a floor.
const BUILDS: [(&str, Kind); 2] = [(WITH, Kind::Ours), ("inspect-off", Kind::Floor)];
const WITH: &str = "inspect-on";

/// Measures pairs, waits and memory.
pub(crate) fn run(bench: &mut Bench) {
    let timed = |kind: &'static str| {
        BUILDS.map(|(subject, of)| {
            let mut asked = Asked::of(subject, kind);
            Contender { subject, kind: of, run: Box::new(move |ops| asked.sample(ops)) }
        })
    };
    for kind in ["uncontended", "semaphore", "rwlock-read"] {
        let contenders = timed(kind).into();
        bench.group(Group::on_one_thread(format!("inspect/{kind}"), 1, "tasuki-rt", 1_000, contenders));
    }
    let contenders = timed("wait-grant").into();
    bench.group(Group::on_one_thread("inspect/wait-grant", 2, "none", 1_000, contenders));
    let group = Group::on_two_threads("inspect/contended", 16, "tasuki-rt", timed("contended").into());
    bench.group(Group { probe_ops: 1_600, least_ops: 1_600, patient: true, ..group });
    for kind in ["lock-bytes", "waiter-bytes"] {
        let contenders = BUILDS.map(|(subject, of)| {
            let mut asked = Asked::of(subject, kind);
            Contender { subject, kind: of, run: Box::new(move |_| Sample::exact(asked.ask(1).1)) }
        });
        bench.group(Group::exact(format!("inspect/{kind}"), "bytes", contenders.into()));
    }
}

/// Builds both programs, before the cells are timed. What goes wrong is told again by every cell.
pub(crate) fn build() {
    for (build, _) in BUILDS {
        eprintln!("building {build}");
        if let Err(why) = built(build) {
            eprintln!("error: {why}");
        }
    }
}

/// Where the program of a build is, after it was built from the sources as they are.
fn built(build: &str) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the lab is a member of the workspace");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    let folder = target.join(build);
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "--package", "inspect-cost"]);
    if build == WITH {
        cargo.args(["--features", "inspect"]);
    }
    let cargo = cargo.current_dir(root).env("CARGO_TARGET_DIR", &folder).stdin(Stdio::null());
    let output =
        cargo.output().map_err(|error| format!("cargo cannot be run, {build} is not built: {error}"))?;
    if output.status.success() {
        return Ok(folder.join("release").join("inspect-cost").with_extension(env::consts::EXE_EXTENSION));
    }
    Err(format!("{build} cannot be built: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// A build that is asked for one kind of operation. Its process starts with the first question, and ends with this.
struct Asked {
    build: &'static str,
    kind: &'static str,
    process: Option<Process>,
}

struct Process {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Asked {
    fn of(build: &'static str, kind: &'static str) -> Asked {
        Asked { build, kind, process: None }
    }

    /// So many operations.
    fn sample(&mut self, ops: u64) -> Sample {
        let (ops, ns, allocations) = self.ask(ops);
        Sample::alone(ops, Reading { ns, allocations })
    }

    /// How many operations there were, their nanoseconds (or the bytes that are asked for), and their allocations.
    fn ask(&mut self, ops: u64) -> (u64, f64, u64) {
        let process = self.process.get_or_insert_with(|| {
            built(self.build)
                .and_then(|program| Process::start(&program))
                .unwrap_or_else(|why| panic!("{why}"))
        });
        process.ask(self.kind, ops).unwrap_or_else(|why| panic!("{} {}: {why}", self.build, self.kind))
    }
}

impl Process {
    fn start(program: &Path) -> Result<Process, String> {
        let mut command = Command::new(program);
        let started = command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Process { child, questions, answers })
    }

    fn ask(&mut self, kind: &str, ops: u64) -> Result<(u64, f64, u64), String> {
        let questions = self.questions.as_mut().expect("it is piped, and open until the end");
        writeln!(questions, "{kind} {ops}").map_err(|error| error.to_string())?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| error.to_string())?;
        let answer = parse(&line);
        answer.ok_or_else(|| format!("answered {line:?}; {:?}", self.child.try_wait()))
    }
}

fn parse(line: &str) -> Option<(u64, f64, u64)> {
    let mut words = line.split_whitespace();
    let answer = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(answer)
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends when there are no more questions.
        drop(self.questions.take());
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        assert_eq!(parse("16 2.5 3\n"), Some((16, 2.5, 3)));
        for line in ["", "\n", "16 2.5\n", "16 2.5 3 4\n", "x 1 1\n"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }
}
