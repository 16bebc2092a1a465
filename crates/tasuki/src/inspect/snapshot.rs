//! Snapshots as values: every lock with its holders and figures, and every wait that has not ended.

use super::durations::Durations;
use super::labels::{ShownName, TaskLabel};
use super::report::{Deadlock, Hold, LockKind, WaitLine};
use crate::task::TaskId;
use core::fmt;
use core::panic::Location;
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

/// What is known of all locks and waits. Gathered while the program runs on: not of one moment.
///
/// Its `Display` is a list of the waits, the longest first, and of the deadlocks.
///
/// A task is *known* by its identity, or else by its waker ([`TaskId::is_guessed`]).
///
/// # Examples
///
/// ```
/// println!("{}", tasuki::inspect::snapshot());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Every lock that a known task has taken or waited for, and every semaphore of which a permit was taken, until it is dropped. Of [`snapshot_limited`](super::snapshot_limited) those with most waiters, then
    /// those with most contentions.
    pub locks: Vec<LockSnapshot>,
    /// How many locks there are.
    pub total_locks: usize,
    /// Every wait of a known task, the longest first.
    pub waits: Vec<WaitSnapshot>,
    /// How many waits there are.
    pub total_waits: usize,
    /// All waits by what they wait for and where they were asked for, the most numerous first.
    pub sites: Vec<WaitSite>,
    /// The cycles among them, the certain ones first.
    pub deadlocks: Vec<Deadlock>,
    /// How many cycles there are.
    pub total_deadlocks: usize,
    /// The names of the tasks of the waits that are listed, and of those that they are behind, as far as a runtime gives them.
    pub tasks: Vec<TaskLabel>,
}

/// A lock of a [`Snapshot`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockSnapshot {
    /// A number that no other lock has at this time.
    pub id: u64,
    /// Its name.
    pub label: LockLabel,
    /// Which tasks have it, as far as they are known.
    pub holders: Vec<HolderSnapshot>,
    /// How many more have it, as far as they were counted: they are not known, or there was no memory for them.
    pub unknown_holders: usize,
    /// How many of the waits are for it.
    pub waiters: usize,
    /// How many waits of known tasks for it have ended; wraps around at 2^32.
    pub contentions: u64,
    /// The most that have waited at a time.
    pub longest_queue: usize,
    /// How long the ended waits of known tasks took. The first wait is timed, then one in 64, and every wait that was older than 0.1 s when the watcher looked.
    pub waited: Durations,
    /// How long it was held. The first hold is timed, then about one in 64: to read the clock twice for each would cost too much.
    pub held: Durations,
}

/// The name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockLabel {
    /// The kind of lock.
    pub kind: LockKind,
    /// The name, if it was given one.
    pub name: Option<&'static str>,
    /// Where it was made.
    pub made_at: Option<&'static Location<'static>>,
}

/// A task that has a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HolderSnapshot {
    /// The task.
    pub task: TaskId,
    /// How it came to it.
    pub hold: Hold,
    /// Where it asked for it.
    pub at: Option<&'static Location<'static>>,
}

/// A wait of a [`Snapshot`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitSnapshot {
    /// The task that waits.
    pub task: TaskId,
    /// The name of the future.
    pub future: &'static str,
    /// Where it was asked for. If that was in an `async fn` of `tasuki-rt`, such as `timeout`, `Interval::tick` or `TcpListener::accept`, the line in there.
    pub at: Option<&'static Location<'static>>,
    /// For how long it has waited.
    pub waited: Duration,
    /// A limit of ours ends it.
    pub is_limited: bool,
    /// It has been granted, or what it waited for has come, and its future has not been polled since.
    pub is_granted: bool,
    /// The lock that it waits for, and its number; none for a signal or a time.
    pub lock: Option<(u64, LockLabel)>,
    /// The tasks that it waits for: holders, and queued writers before it; as far as they are known, and at most 64.
    pub behind: Vec<HolderSnapshot>,
}

/// The waits of a [`Snapshot`] that are for the same lock, or by the same kind of future, and were asked for at the same place.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WaitSite {
    /// The name of the future.
    pub future: &'static str,
    /// Where it was asked for.
    pub at: Option<&'static Location<'static>>,
    /// The lock, and its number; none for a signal or a time.
    pub lock: Option<(u64, LockLabel)>,
    /// How many waits there are.
    pub count: usize,
    /// For how long the first of them has waited.
    pub longest: Duration,
}

impl WaitSnapshot {
    /// Returns what `Display` writes, without the time, and with these names of tasks: for reports that must not differ from run to run.
    ///
    /// # Examples
    ///
    /// ```
    /// for wait in tasuki::inspect::snapshot().waits {
    ///     println!("{}", wait.describe(|task| format!("number {}", task.get())));
    /// }
    /// ```
    pub fn describe(&self, name: impl Fn(TaskId) -> String) -> String {
        let line = WaitLine { waited: None, ..self.line() };
        std::format!("{}", line.with_names(&name))
    }

    pub(super) fn line(&self) -> WaitLine<'_> {
        WaitLine {
            task: self.task,
            at: self.at,
            waited: Some(self.waited),
            future: self.future,
            is_limited: self.is_limited,
            is_granted: self.is_granted,
            lock: self.lock.map(|(_, label)| label),
            behind: &self.behind,
        }
    }
}

impl fmt::Display for WaitSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line().fmt(f)
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |count: usize| if count == 1 { "" } else { "s" };
        let (waits, locks) = (self.total_waits, self.total_locks);
        write!(f, "{waits} wait{}, {locks} lock{} in use", s(waits), s(locks))?;
        self.waits.iter().try_for_each(|wait| write!(f, "\n  {}", wait.line().labelled(&self.tasks)))?;
        if self.total_waits > self.waits.len() {
            write!(f, "\n  and {} more", self.total_waits - self.waits.len())?;
        }
        self.deadlocks.iter().try_for_each(|deadlock| write!(f, "\n{deadlock}"))?;
        match self.total_deadlocks.saturating_sub(self.deadlocks.len()) {
            0 => Ok(()),
            1 => f.write_str("\nand 1 more deadlock"),
            more => write!(f, "\nand {more} more deadlocks"),
        }
    }
}

/// On one line: control characters of the name are escaped.
impl fmt::Display for LockLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.made_at) {
            (Some(name), _) => write!(f, "{} `{}`", self.kind, ShownName(name)),
            (None, Some(at)) => write!(f, "{} made at {at}", self.kind),
            (None, None) => write!(f, "{}", self.kind),
        }
    }
}
