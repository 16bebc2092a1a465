//! Runs each cell in a process of its own; if that panics, hangs or crashes, measures the cell again without the subject that did it.
//!
//! The subjects of a cell are sampled in turns inside one process. Here that process is started and watched: the
//! subject that panics in it, hangs in it or brings it down is reported with the reason, and the cell is measured
//! again without that subject, in a new process, until one ends well or no subject is left.

use crate::cli::CellArgs;
use crate::measure::{Bench, Cell, Journal, Line, Plan};
use crate::report::{Failure, Outcome, Record};
use crate::workload;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// How cells are measured.
pub(crate) struct Supervisor {
    /// Smaller numbers.
    pub(crate) quick: bool,
    /// A process that writes nothing for so long hangs.
    pub(crate) patience: Duration,
}

/// What a cell came to: every subject of it is in one of the two.
#[derive(Default)]
pub(crate) struct Measured {
    /// Those with a number.
    pub(crate) records: Vec<Record>,
    /// Those without.
    pub(crate) failures: Vec<Failure>,
}

/// How the process of a cell ended.
enum End {
    /// By itself; what the system says of it.
    Exited(ExitStatus),
    /// It had to be ended.
    Hung,
}

impl Supervisor {
    /// Measures a cell of a family, whatever its subjects do.
    pub(crate) fn measure(&self, what: &str, cell: &Cell) -> Measured {
        let mut left: Vec<String> = cell.subjects.iter().map(|(subject, _)| subject.clone()).collect();
        let mut measured = Measured::default();
        while !left.is_empty() {
            let (subject, outcome, why) = match self.attempt(what, &cell.key(), &left) {
                Ok((end, lines)) => match self.blame(&end, &lines, &left) {
                    Some(blamed) => blamed,
                    None => {
                        keep(cell, lines, &mut measured);
                        break;
                    }
                },
                Err(error) => {
                    (left[0].clone(), Outcome::Crashed, format!("no process to measure it in: {error}"))
                }
            };
            left.retain(|one| *one != subject);
            measured.failures.push(failure(cell, subject, outcome, why));
        }
        measured
    }

    /// Runs one process to its end, or ends it; what it wrote.
    fn attempt(&self, what: &str, key: &str, subjects: &[String]) -> io::Result<(End, Vec<Line>)> {
        let journal = Scratch::new();
        let mut command = Command::new(env::current_exe()?);
        command.args(["cell", what, key, "--subjects", &subjects.join(",")]);
        command.arg("--journal").arg(&journal.0).stdin(Stdio::null()).stdout(Stdio::null());
        if self.quick {
            command.arg("--quick");
        }
        let mut child = command.spawn()?;
        let (mut size, mut since) = (0, Instant::now());
        let end = loop {
            if let Some(status) = child.try_wait()? {
                break End::Exited(status);
            }
            let now = fs::metadata(&journal.0).map_or(0, |about| about.len());
            if now != size {
                (size, since) = (now, Instant::now());
            } else if since.elapsed() > self.patience {
                child.kill().and_then(|()| child.wait())?;
                break End::Hung;
            }
            thread::sleep(LOOK);
        };
        let text = fs::read(&journal.0).unwrap_or_default();
        Ok((end, Journal::read(&String::from_utf8_lossy(&text))))
    }

    /// Which subject is to blame that a process did not do all it was asked, and why; `None` if it did.
    fn blame(&self, end: &End, lines: &[Line], left: &[String]) -> Option<(String, Outcome, String)> {
        let last = lines.iter().rev().find_map(|line| match line {
            Line::At(subject) => left.iter().find(|one| *one == subject),
            _ => None,
        });
        let blamed = last.unwrap_or(&left[0]).clone();
        let panic = lines.iter().find_map(|line| match line {
            Line::Panic(message) => Some(message.clone()),
            _ => None,
        });
        match (end, panic) {
            (_, Some(message)) => Some((blamed, Outcome::Panicked, message)),
            (End::Hung, None) => {
                let why = format!("did not end within {} s", self.patience.as_secs_f64());
                Some((blamed, Outcome::Hung, why))
            }
            (End::Exited(status), None) if !status.success() => {
                Some((blamed, Outcome::Crashed, format!("ended the process: {status}")))
            }
            (End::Exited(_), None) => {
                let told = |subject: &String| {
                    lines.iter().any(|line| match line {
                        Line::Result(record) => record.subject == *subject,
                        Line::Unmeasured(of, _) => of == subject,
                        Line::At(_) | Line::Panic(_) => false,
                    })
                };
                let all = left.iter().all(told);
                (!all).then(|| (blamed, Outcome::Crashed, "ended the process before its end".into()))
            }
        }
    }
}

/// Keeps what a process that ended well has written.
fn keep(cell: &Cell, lines: Vec<Line>, measured: &mut Measured) {
    for line in lines {
        match line {
            Line::Result(record) => measured.records.push(*record),
            Line::Unmeasured(subject, why) => {
                measured.failures.push(failure(cell, subject, Outcome::Unmeasured, why));
            }
            Line::At(_) | Line::Panic(_) => {}
        }
    }
}

fn failure(cell: &Cell, subject: String, outcome: Outcome, why: String) -> Failure {
    let Cell { workload, n, runtime, subjects } = cell.clone();
    let kind =
        subjects.iter().find(|(name, _)| *name == subject).map_or(crate::peer::Kind::Peer, |one| one.1);
    Failure { workload, n, runtime, subject, kind, outcome, why }
}

/// A file of this process that is removed with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: a number that no other thread gets.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Scratch(env::temp_dir().join(format!("lab-cell-{}-{number}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// The process of one cell: measures it, and writes the journal.
pub(crate) fn child(args: CellArgs) -> ExitCode {
    end_with_parent();
    match measure_here(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("error: {} has no cell {:?}", args.what, args.key);
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: cannot write {}: {error}", args.journal.display());
            ExitCode::FAILURE
        }
    }
}

fn measure_here(args: &CellArgs) -> io::Result<bool> {
    let path: &Path = &args.journal;
    Journal::note_panics(path)?;
    let plan = Plan::of(args.quick);
    let journal = Journal::append(path)?;
    let describe = |bench: &mut Bench| workload::run(&args.what, bench);
    Ok(Bench::measure(plan, &args.key, args.subjects.clone(), journal, describe))
}

/// A subject that hangs must not outlive a supervisor that was killed.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: takes two integers, and changes nothing but which signal this process gets when its parent ends.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}
