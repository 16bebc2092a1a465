//! The names of tasks in reports: the runtime of a task is asked for its label when a report or a snapshot is made, or when the watcher has found a cycle of that task (`watch.rs`), and not before.

use crate::task::TaskId;
use alloc::sync::Arc;
use core::fmt;
use core::panic::Location;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::string::String;
use std::vec::Vec;

/// The name of a task in reports and snapshots.
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

/// A name in a line of text. Names may come from outside of the program: characters that would end the line, or that a terminal obeys, are escaped.
pub(super) struct ShownName<'a>(pub(super) &'a str);

impl fmt::Display for ShownName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Beside the control characters: ends of lines and of paragraphs, and what turns the direction of text.
        let is_escaped = |letter: char| {
            letter.is_control()
                || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        };
        for part in self.0.split_inclusive(is_escaped) {
            let last = part.chars().next_back().filter(|letter| is_escaped(*letter));
            f.write_str(&part[..part.len() - last.map_or(0, char::len_utf8)])?;
            last.into_iter()
                .flat_map(char::escape_debug)
                .try_for_each(|letter| fmt::Write::write_char(f, letter))?;
        }
        Ok(())
    }
}

/// The number of the task and its name, on one line: control characters of the name are escaped.
impl fmt::Display for TaskLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} `{}`", self.task, ShownName(name)),
            None => self.task.fmt(f),
        }
    }
}

/// What gives tasks their names; null if there is nothing.
pub(super) static LABELS: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Which of these tasks it knows. They are sorted.
pub type LabelTasks = fn(&[TaskId]) -> Vec<TaskLabel>;

/// Sets the function that gives the names of tasks in reports and snapshots: for runtimes. The thread that makes a report calls it, also while the program is stuck, and perhaps with tasks that it does not
/// know. There is one for the process: the last one counts.
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

/// The label of a task, among labels in the order of their tasks.
pub(super) fn find(labels: &[TaskLabel], task: TaskId) -> Option<&TaskLabel> {
    let found = labels.binary_search_by(|label| {
        #[cfg(all(test, not(miri), any(debug_assertions, feature = "inspect")))]
        super::tests::count_work(1);
        label.task.cmp(&task)
    });
    found.ok().map(|at| &labels[at])
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
