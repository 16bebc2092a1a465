//! How tasks are called: what their runtime says, asked when something is reported.

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
}

impl TaskLabel {
    /// For runtimes.
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
        Self { task, name, spawned_at }
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
