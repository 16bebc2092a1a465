//! What is told of a deadlock: values that print as one line a task.

use crate::task::TaskId;
use core::fmt;
use core::panic::Location;
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

/// Tasks that wait for each other in a cycle, or one that waits for itself.
///
/// Its `Display` is the report: a headline, and a line for each task.
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
}

/// How sure a [`Deadlock`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Certainty {
    /// Every lock of the cycle is released only by the task that took it, or by one that it has sent the guard to and that has not used it yet.
    Deadlock,
    /// A lock of the cycle was granted to a future that is not polled: its task polls another one, which waits for it.
    Futurelock,
    /// A semaphore is in the cycle: a task that holds no permit may release some.
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
    /// The kind of lock.
    pub kind: LockKind,
    /// The lock's name, if it was given one.
    pub name: Option<&'static str>,
    /// Where the lock was made.
    pub made_at: Option<&'static Location<'static>>,
    /// The task that is waited for: it took the lock, or is queued for it as a writer.
    pub holder: TaskId,
    /// How that task came to it.
    pub hold: Hold,
    /// Where that task asked for it.
    pub held_at: Option<&'static Location<'static>>,
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
fn place(at: Option<&Location<'_>>) -> String {
    at.map_or_else(|| "an unknown place".into(), |at| std::format!("{at}"))
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, kind, holder, .. } = self;
        write!(f, "{task} waits at {} for {:.1?} for the {kind} ", place(self.waits_at), self.waited)?;
        match self.name {
            Some(name) => write!(f, "`{name}`")?,
            None => write!(f, "made at {}", place(self.made_at))?,
        }
        let holder = if holder == task { "this task".into() } else { std::format!("{holder}") };
        let held_at = place(self.held_at);
        match self.hold {
            Hold::Taken => write!(f, ", which {holder} took at {held_at}"),
            Hold::Unclaimed => {
                write!(
                    f,
                    ", which was granted to a future of {holder}, made at {held_at}, that has not been polled since"
                )
            }
            Hold::Queued => write!(f, ", behind the writer {holder}, which waits at {held_at}"),
        }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.certainty {
            Certainty::Deadlock => "deadlock",
            Certainty::Futurelock => "futurelock",
            Certainty::Suspected => "suspected deadlock",
        })?;
        match self.hops.len() {
            1 => f.write_str(": a task waits for itself")?,
            count => write!(f, ": {count} tasks wait for each other")?,
        }
        self.hops.iter().try_for_each(|hop| write!(f, "\n  {hop}"))
    }
}
