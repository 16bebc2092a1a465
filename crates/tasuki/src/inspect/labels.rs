//! The names of tasks in reports: the runtime of a task is asked for its label when a report is made, and not before.

use crate::task::TaskId;
use alloc::sync::Arc;
use core::fmt;
use core::panic::Location;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::string::String;
use std::vec::Vec;

/// How a task is called.
///
/// # Examples
///
/// ```
/// for deadlock in tasuki::inspect::deadlocks() {
///     for task in &deadlock.tasks {
///         println!("{task} {:?}", task.spawned_at);
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskLabel {
    /// Which task.
    pub task: TaskId,
    /// The name that it was given.
    pub name: Option<Arc<str>>,
    /// Where it was spawned.
    pub spawned_at: Option<&'static Location<'static>>,
    /// How many polls of it have begun.
    pub polls: Option<u32>,
    /// Whether a poll of it runs, or is due.
    pub state: Option<PollState>,
}

/// Whether a task is being polled, as its runtime says.
///
/// # Examples
///
/// ```
/// use tasuki::inspect::{PollState, TaskLabel};
/// use tasuki::task::TaskId;
///
/// let label = TaskLabel::new(TaskId::fresh(), None, None).with_polls(3, PollState::Waiting);
/// assert_eq!((label.polls, label.state), (Some(3), Some(PollState::Waiting)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PollState {
    /// It waits to be woken.
    Waiting,
    /// It was woken, and is in a queue of its runtime.
    Scheduled,
    /// A poll of it runs.
    Running,
}

impl TaskLabel {
    /// Creates the label of a task. For runtimes.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::inspect::TaskLabel;
    /// use tasuki::task::TaskId;
    ///
    /// let label = TaskLabel::new(TaskId::fresh(), Some("transfer".into()), None);
    /// assert!(label.to_string().ends_with(" `transfer`"));
    /// ```
    pub fn new(task: TaskId, name: Option<Arc<str>>, spawned_at: Option<&'static Location<'static>>) -> Self {
        Self { task, name, spawned_at, polls: None, state: None }
    }

    /// Adds how many polls of the task have begun, and whether one runs or is due. For runtimes. A task that is polled meanwhile goes on, and no cycle of it is reported. Not for one that may wait in the middle of a poll
    /// ([`block`](crate::future::Wait::block)).
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::inspect::{PollState, TaskLabel};
    /// use tasuki::task::TaskId;
    ///
    /// let label = TaskLabel::new(TaskId::fresh(), None, None).with_polls(1, PollState::Running);
    /// assert_eq!(label.polls, Some(1));
    /// ```
    pub fn with_polls(mut self, polls: u32, state: PollState) -> Self {
        (self.polls, self.state) = (Some(polls), Some(state));
        self
    }
}

impl fmt::Display for TaskLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} `{name}`", self.task),
            None => self.task.fmt(f),
        }
    }
}

/// What says how tasks are called; null if there is nothing.
pub(super) static LABELS: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Which of these tasks it knows. They are sorted.
pub type LabelTasks = fn(&[TaskId]) -> Vec<TaskLabel>;

/// For runtimes: `labels` says how tasks are called, in reports and snapshots. It is asked by the thread that makes them, also while the program is stuck, and may be asked for tasks that it does not
/// know. One for the process: the last one counts.
///
/// # Examples
///
/// ```
/// tasuki::inspect::label_tasks(|_| Vec::new());
/// ```
pub fn label_tasks(labels: LabelTasks) {
    // Relaxed: a function is there from the beginning, nothing is published with it.
    LABELS.store(labels as *mut (), Ordering::Relaxed);
}

fn find(labels: &[TaskLabel], task: TaskId) -> Option<&TaskLabel> {
    labels.iter().find(|label| label.task == task)
}

/// A task by its number and its name.
pub(super) fn short(labels: &[TaskLabel], task: TaskId) -> String {
    find(labels, task).map_or_else(|| std::format!("{task}"), |label| std::format!("{label}"))
}

/// The same, and where it was spawned if it has no name: it may be one of many of its kind.
pub(super) fn long(labels: &[TaskLabel], task: TaskId) -> String {
    match find(labels, task) {
        Some(TaskLabel { name: None, spawned_at: Some(at), .. }) => std::format!("{task} (spawned at {at})"),
        _ => short(labels, task),
    }
}
