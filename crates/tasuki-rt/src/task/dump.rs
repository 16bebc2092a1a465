//! Task dumps: every task of a runtime, as a value that prints. Made by the thread that asks, from the list of [`notes`](super::notes): no worker takes part, so a dump is made
//! while all of them are stuck in polls.

use super::notes::NotedTasks;
use crate::event_loop::WorkerId;
use crate::scheduler::Shared;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use tasuki::inspect::{TaskLabel, WaitSnapshot, snapshot};
use tasuki::task::TaskId;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// It is in a queue: it was spawned or woken, and waits for its poll.
    Scheduled,
    /// It is being polled, by this worker; or by a thread for blocking work.
    Running(Option<WorkerId>),
    /// It was polled, and has not been woken since.
    Waiting,
}

/// One task of a [`Dump`].
///
/// # Examples
///
/// ```
/// let runtime = tasuki_rt::Runtime::new().unwrap();
/// for task in runtime.dump().tasks {
///     println!("{task}");
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskDump {
    /// Which task.
    pub id: TaskId,
    /// What it is called ([`TaskBuilder`](crate::TaskBuilder)).
    pub name: Option<Arc<str>>,
    /// `task`, `local` if it is pinned to a worker, or `blocking`.
    pub kind: &'static str,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
    /// What it does.
    pub state: TaskState,
    /// The worker that it is pinned to.
    pub pinned_to: Option<WorkerId>,
    /// How many polls of it have begun; wraps around.
    pub polls: u32,
    /// What it waits for, as far as it is a wait of `tasuki` or for the end of another task. A read or a write of a stream is not known, nor is a foreign future.
    pub waits: Vec<WaitSnapshot>,
}

/// The tasks of a [`Dump`] that were spawned at one place.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SpawnPlace {
    /// The place.
    pub at: &'static Location<'static>,
    /// How many tasks are being polled.
    pub running: usize,
    /// How many are in a queue.
    pub scheduled: usize,
    /// How many wait.
    pub waiting: usize,
}

impl SpawnPlace {
    /// Returns how many tasks were spawned there and have not ended.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let dump = runtime.dump();
    /// assert_eq!(dump.places.iter().map(tasuki_rt::SpawnPlace::count).sum::<usize>(), dump.tasks.len());
    /// ```
    pub fn count(&self) -> usize {
        self.running + self.scheduled + self.waiting
    }
}

/// Every task of a runtime: [`Runtime::dump`](crate::Runtime::dump), [`Handle::dump`](crate::Handle::dump).
///
/// Its `Display` is a line for each task, and one for each of its waits:
///
/// ```text
/// 3 tasks: 1 running, 0 scheduled, 2 waiting
///   task 3, spawned at src/main.rs:12:5, runs on worker 0, 1 poll
///   task 4 `transfer`, spawned at src/main.rs:20:5, waits, 2 polls
///     task 4 waits at src/main.rs:23:29 for 3.1s for the mutex `accounts`, which task 5 took at src/main.rs:30:33
///   task 5, spawned at src/main.rs:28:5, waits, 1 poll
/// ```
///
/// It is made by the thread that asks, without the workers: also while all of them are stuck. Gathered while the program runs on: not of one moment. Tasks are listed in debug
/// builds and with the feature `inspect`; elsewhere a dump says how many there are.
///
/// ```
/// let runtime = tasuki_rt::Runtime::new().unwrap();
/// drop(runtime.spawn(std::future::pending::<()>()));
/// let dump = runtime.dump();
/// assert_eq!(dump.total, 1);
/// assert!(dump.tasks.iter().all(|task| task.spawned_at.file() == file!()));
/// println!("{dump}");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dump {
    /// The tasks that are listed, by their numbers.
    pub tasks: Vec<TaskDump>,
    /// All noted tasks by the place of their spawn, the most numerous first.
    pub places: Vec<SpawnPlace>,
    /// How many tasks there are, listed or not.
    pub total: usize,
    /// Whether tasks are noted in this build.
    pub is_noted: bool,
}

impl Shared {
    /// Everything that is known.
    pub(crate) fn dump(&self) -> Dump {
        let mut dump = self.dump_all();
        let mut waits: HashMap<TaskId, Vec<WaitSnapshot>> = HashMap::new();
        if NotedTasks::ARE_NOTED {
            snapshot().waits.into_iter().for_each(|wait| waits.entry(wait.task).or_default().push(wait));
        }
        for task in &mut dump.tasks {
            task.waits = waits.remove(&task.id).unwrap_or_default();
        }
        dump
    }

    /// The given tasks, and so many others; without what they wait for.
    pub(crate) fn dump_limited(&self, limit: usize, wanted: &[TaskId]) -> Dump {
        let mut dump = self.dump_all();
        let wanted: HashSet<TaskId> = wanted.iter().copied().collect();
        // Those that run first, then those that wait to.
        let order = |task: &TaskDump| match task.state {
            _ if wanted.contains(&task.id) => 0,
            TaskState::Running(_) => 1,
            TaskState::Scheduled => 2,
            TaskState::Waiting => 3,
        };
        dump.tasks.sort_by_key(order);
        let named = dump.tasks.partition_point(|task| order(task) == 0);
        dump.tasks.truncate(named.saturating_add(limit));
        dump.tasks.shrink_to_fit();
        dump.tasks.sort_unstable_by_key(|task| task.id);
        dump
    }

    fn dump_all(&self) -> Dump {
        let tasks = self.noted.look(self.task_counts.len());
        // As they were counted, or as they were found a moment later.
        let total = if NotedTasks::ARE_NOTED { tasks.len() } else { self.task_counts.len() };
        Dump { places: places(&tasks), tasks, total, is_noted: NotedTasks::ARE_NOTED }
    }
}

fn places(tasks: &[TaskDump]) -> Vec<SpawnPlace> {
    let mut places: HashMap<&Location<'_>, SpawnPlace> = HashMap::new();
    for task in tasks {
        let at = task.spawned_at;
        let place = places.entry(at).or_insert(SpawnPlace { at, running: 0, scheduled: 0, waiting: 0 });
        *match task.state {
            TaskState::Running(_) => &mut place.running,
            TaskState::Scheduled => &mut place.scheduled,
            TaskState::Waiting => &mut place.waiting,
        } += 1;
    }
    let mut places: Vec<SpawnPlace> = places.into_values().collect();
    places.sort_unstable_by_key(|place| (Reverse(place.count()), place.at));
    places
}

impl fmt::Display for TaskDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, spawned at {}", TaskLabel::new(self.id, self.name.clone(), None), self.spawned_at)?;
        if let Some(worker) = self.pinned_to {
            write!(f, ", pinned to worker {}", worker.index())?;
        }
        match self.state {
            TaskState::Scheduled => f.write_str(", is in a queue")?,
            TaskState::Waiting => f.write_str(", waits")?,
            TaskState::Running(Some(worker)) => write!(f, ", runs on worker {}", worker.index())?,
            TaskState::Running(None) => f.write_str(", runs on a thread for blocking work")?,
        }
        write!(f, ", {} {}", self.polls, if self.polls == 1 { "poll" } else { "polls" })
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.total, if self.total == 1 { "task" } else { "tasks" })?;
        if !self.is_noted {
            return f.write_str("; they are listed in debug builds, and with the feature `inspect`");
        }
        let sum = |of: fn(&SpawnPlace) -> usize| self.places.iter().map(of).sum::<usize>();
        let (running, scheduled) = (sum(|place| place.running), sum(|place| place.scheduled));
        write!(f, ": {running} running, {scheduled} scheduled, {} waiting", sum(|place| place.waiting))?;
        for task in &self.tasks {
            write!(f, "\n  {task}")?;
            task.waits.iter().try_for_each(|wait| write!(f, "\n    {wait}"))?;
        }
        match self.total.saturating_sub(self.tasks.len()) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
