//! What a report of a deadlock says: values that print as one line a task.

use super::labels::{TaskLabel, long, short};
use super::snapshot::{HolderSnapshot, LockLabel};
use crate::task::TaskId;
use core::fmt;
use core::panic::Location;
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

/// Tasks that wait for each other in a cycle, or one that waits for itself.
///
/// Its `Display` is the report: a headline, and a line for each task, with the names of the tasks or where they were spawned, if that is known.
///
/// # Examples
///
/// ```
/// for deadlock in tasuki::inspect::deadlocks() {
///     eprintln!("{deadlock}");
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// How sure it is.
    pub certainty: Certainty,
    /// The tasks: each waits for the next, and the last for the first.
    pub hops: Vec<Hop>,
    /// The names of the tasks, as far as a runtime gives them.
    pub tasks: Vec<TaskLabel>,
}

/// How sure a [`Deadlock`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Certainty {
    /// Every lock of the cycle is released only by the task that took it, or by one that it has sent the guard to and that has not used it yet.
    Deadlock,
    /// A lock of the cycle was granted to a future that is not polled: its task polls another one, which waits for it.
    Futurelock,
    /// A semaphore is in the cycle: a task that holds no permit may release some. Or a poll of a task of it runs, and may go on. Or a task of it is known by its waker only ([`TaskId::is_guessed`]). Or, with the feature `critical-section`, a task of it has had a wait for which no memory was left: it may go on by that.
    Suspected,
}

/// Which kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockKind {
    /// A [`Mutex`](crate::Mutex).
    Mutex,
    /// A [`RwLock`](crate::RwLock).
    RwLock,
    /// A [`ReentrantMutex`](crate::ReentrantMutex).
    ReentrantMutex,
    /// A lock of a runtime whose owner has a key: `tasuki_rt::LoopMutex`.
    LoopMutex,
    /// A [`Semaphore`](crate::Semaphore).
    Semaphore,
}

/// One task of a [`Deadlock`], and what it waits for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hop {
    /// The task that waits.
    pub task: TaskId,
    /// Where it asked for what it waits for.
    pub waits_at: Option<&'static Location<'static>>,
    /// For how long it has waited.
    pub waited: Duration,
    /// The name of the future by which it waits.
    pub future: &'static str,
    /// The lock.
    pub lock: LockLabel,
    /// The task that is waited for: it took the lock, or is queued for it as a writer.
    pub holder: HolderSnapshot,
}

/// How a task came to what another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hold {
    /// It took the lock.
    Taken,
    /// It was granted the lock, and has not polled the future that asked for it.
    Unclaimed,
    /// It is queued for writing, and readers do not pass it.
    Queued,
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::ReentrantMutex => "reentrant mutex",
            Self::LoopMutex => "loop mutex",
            Self::Semaphore => "semaphore",
        })
    }
}

/// A place in the sources, or that it is not known.
fn site(at: Option<&Location<'_>>) -> String {
    at.map_or_else(|| "an unknown place".into(), |at| std::format!("{at}"))
}

/// One wait, as a report or a snapshot prints it: one line.
#[derive(Clone, Copy)]
pub(super) struct WaitLine<'a> {
    pub(super) task: TaskId,
    pub(super) at: Option<&'static Location<'static>>,
    pub(super) waited: Option<Duration>,
    pub(super) future: &'static str,
    pub(super) is_limited: bool,
    pub(super) is_granted: bool,
    pub(super) lock: Option<LockLabel>,
    pub(super) behind: &'a [HolderSnapshot],
}

/// A line with other names of tasks: of the one that waits, and of others.
pub(super) struct Renamed<'a>(WaitLine<'a>, &'a dyn Fn(TaskId) -> String, &'a dyn Fn(TaskId) -> String);

impl<'a> WaitLine<'a> {
    pub(super) fn with_names(self, name: &'a dyn Fn(TaskId) -> String) -> Renamed<'a> {
        Renamed(self, name, name)
    }

    /// The line, with the names that are known.
    pub(super) fn labelled(self, labels: &[TaskLabel]) -> String {
        std::format!("{}", Renamed(self, &|task| long(labels, task), &|task| short(labels, task)))
    }
}

impl fmt::Display for WaitLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_names(&|task| std::format!("{task}")).fmt(f)
    }
}

impl fmt::Display for Renamed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(line, subject, name) = self;
        write!(f, "{} waits", subject(line.task))?;
        // A runtime's own future has none.
        if line.at.is_some() || line.lock.is_some() {
            write!(f, " at {}", site(line.at))?;
        }
        if let Some(waited) = line.waited {
            write!(f, " for {waited:.1?}")?;
        }
        match line.lock {
            Some(lock) => write!(f, " for the {lock}")?,
            None => write!(f, " in `{}`", line.future)?,
        }
        if line.is_limited {
            f.write_str(", until its limit")?;
        }
        if line.is_granted {
            let what = if line.lock.is_some() { "which it was granted" } else { "whose end has come" };
            return write!(f, ", {what}, and has not polled the future since");
        }
        for (number, holder) in line.behind.iter().enumerate() {
            let task = if holder.task == line.task { "this task".into() } else { name(holder.task) };
            f.write_str(if number == 0 { ", which " } else { ", and " })?;
            let at = site(holder.at);
            match holder.hold {
                Hold::Taken => write!(f, "{task} took at {at}")?,
                Hold::Unclaimed => {
                    write!(
                        f,
                        "was granted to a future of {task}, made at {at}, that has not been polled since"
                    )?;
                }
                Hold::Queued => write!(f, "{task} waits for before it at {at}, as a writer")?,
            }
        }
        Ok(())
    }
}

impl Hop {
    fn line(&self) -> WaitLine<'_> {
        WaitLine {
            task: self.task,
            at: self.waits_at,
            waited: Some(self.waited),
            future: self.future,
            is_limited: false,
            is_granted: false,
            lock: Some(self.lock),
            behind: core::slice::from_ref(&self.holder),
        }
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line().fmt(f)
    }
}

impl Deadlock {
    /// Returns what `Display` writes, without the times, and with these names of tasks: for reports that must not differ from run to run.
    ///
    /// # Examples
    ///
    /// ```
    /// for deadlock in tasuki::inspect::deadlocks() {
    ///     println!("{}", deadlock.describe(|task| format!("number {}", task.get())));
    /// }
    /// ```
    pub fn describe(&self, name: impl Fn(TaskId) -> String) -> String {
        let mut text = self.headline();
        for hop in &self.hops {
            let line = WaitLine { waited: None, ..hop.line() };
            text.push_str(&std::format!("\n  {}", line.with_names(&name)));
        }
        text
    }

    fn headline(&self) -> String {
        let what = match self.certainty {
            Certainty::Deadlock => "deadlock",
            Certainty::Futurelock => "futurelock",
            Certainty::Suspected => "suspected deadlock",
        };
        match self.hops.len() {
            1 => std::format!("{what}: a task waits for itself"),
            count => std::format!("{what}: {count} tasks wait for each other"),
        }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        self.hops.iter().try_for_each(|hop| write!(f, "\n  {}", hop.line().labelled(&self.tasks)))
    }
}
