//! What a simulation says when it has failed: which task was spawned where, what it did last, and what it waits for.

use crate::context::SpawnSite;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::Arc;
use tasuki::runtime::TaskId;

/// What is said of a wait that is not ours; without debug assertions, of all but those for tasks.
const UNKNOWN: &str = "for something unknown";

/// How many of the last steps are shown.
const SHOWN: usize = 40;

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It waits, until something else happens.
    Waits,
    /// It switched at an operation that was ready.
    Switched,
    /// It woke itself.
    Yielded,
    Ended,
}

/// A poll, or a posted closure.
#[derive(Clone, Copy, Debug)]
struct Step {
    task: usize,
    worker: usize,
    fate: Fate,
}

/// A task of the simulation.
#[derive(Debug, Default)]
struct Task {
    spawned_at: Option<&'static Location<'static>>,
    name: Option<Arc<str>>,
    ended: bool,
    /// What it waits for: what its last poll that began to wait was told.
    waits: Vec<Reason>,
    /// It has been polled since.
    polled: bool,
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Something of this name.
    Wait(&'static str),
    /// A lock, by its address, asked for here.
    Lock(usize, &'static Location<'static>),
    /// The end of a task.
    Task(TaskId),
}

/// All tasks that there have been, by number. The first numbers stand for the closures posted to the workers.
#[derive(Debug)]
pub(super) struct Tasks {
    workers: usize,
    numbers: BTreeMap<TaskId, usize>,
    list: Vec<Task>,
    /// The last task that took each lock which is held, and where.
    holders: BTreeMap<usize, (TaskId, &'static Location<'static>)>,
    steps: VecDeque<Step>,
}

impl Tasks {
    pub(super) fn new(workers: usize) -> Self {
        let list = (0..workers).map(|_| Task::default()).collect();
        Self { workers, numbers: BTreeMap::new(), list, holders: BTreeMap::new(), steps: VecDeque::new() }
    }

    /// The number of a task, new if it has none. Identities are given to the whole process, so they differ from run to run; numbers do not.
    pub(super) fn number(&mut self, id: TaskId) -> usize {
        let next = self.list.len();
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.list.push(Task::default());
        }
        number
    }

    pub(super) fn spawned(&mut self, id: TaskId, site: SpawnSite<'_>) {
        if let Some(number) = self.numbers.get(&id) {
            let task = &mut self.list[*number];
            (task.spawned_at, task.name) = (Some(site.at), site.name.cloned());
        }
    }

    pub(super) fn runs(&mut self, task: usize, worker: usize) {
        if self.steps.len() == SHOWN {
            self.steps.pop_front();
        }
        self.steps.push_back(Step { task, worker, fate: Fate::Waits });
        self.list[task].polled = true;
    }

    /// What the poll that goes on will have been.
    pub(super) fn has_fared(&mut self, fate: Fate) {
        if let Some(step) = self.steps.back_mut() {
            step.fate = fate;
        }
    }

    pub(super) fn waits(&mut self, task: usize, reason: Reason) {
        let task = &mut self.list[task];
        if std::mem::take(&mut task.polled) {
            task.waits.clear();
        }
        let named = matches!((task.waits.last(), reason), (Some(Reason::Lock(..)), Reason::Wait(_)));
        // A lock is told twice: as a lock, and as the wait for it.
        if !named && !task.waits.contains(&reason) {
            task.waits.push(reason);
        }
    }

    pub(super) fn acquired(&mut self, lock: usize, task: TaskId, at: &'static Location<'static>) {
        self.holders.insert(lock, (task, at));
        if let Some(number) = self.numbers.get(&task) {
            self.list[*number].waits.retain(|reason| !matches!(reason, Reason::Lock(of, _) if *of == lock));
        }
    }

    pub(super) fn released(&mut self, lock: usize) {
        self.holders.remove(&lock);
    }

    pub(super) fn ended(&mut self, id: TaskId) {
        let Some(number) = self.numbers.remove(&id) else { return };
        self.list[number].ended = true;
        if let Some(step) = self.steps.back_mut().filter(|step| step.task == number) {
            step.fate = Fate::Ended;
        }
    }

    /// The tasks that wait, each with its place, the lock and its holder as far as they are known.
    pub(super) fn deadlock(&self, waiting: usize) -> String {
        let waiting = if waiting == 1 { "1 task waits".into() } else { format!("{waiting} tasks wait") };
        let mut text = format!("deadlock: {waiting}, nothing can run and no sleep is due");
        for number in self.workers..self.list.len() {
            if !self.list[number].ended {
                let reasons: Vec<String> =
                    self.list[number].waits.iter().map(|reason| self.reason(*reason)).collect();
                let reasons = if reasons.is_empty() { UNKNOWN.into() } else { reasons.join(", and ") };
                let _ = write!(text, "\n  {} waits {reasons}", self.subject(number));
            }
        }
        text
    }

    fn reason(&self, reason: Reason) -> String {
        match reason {
            Reason::Wait(name) => format!("in `{name}`"),
            Reason::Task(id) => format!("for {} to end", self.short(id)),
            Reason::Lock(lock, at) => match self.holders.get(&lock) {
                Some((holder, held_at)) => {
                    format!("at {at} for a lock that {} has taken at {held_at}", self.short(*holder))
                }
                None => format!("at {at} for a lock whose holder is not known"),
            },
        }
    }

    fn short(&self, id: TaskId) -> String {
        match self.numbers.get(&id) {
            Some(number) => self.called(*number),
            None => "a task that has ended".into(),
        }
    }

    /// By its number, and its name if it has one.
    fn called(&self, number: usize) -> String {
        let task = number - self.workers;
        match &self.list[number].name {
            Some(name) => format!("task {task} `{name}`"),
            None => format!("task {task}"),
        }
    }

    fn subject(&self, number: usize) -> String {
        match number.checked_sub(self.workers) {
            None => "a posted closure".into(),
            Some(0) => "task 0 (the test)".into(),
            Some(_) => match self.list[number].spawned_at {
                Some(at) => format!("{} (spawned at {at})", self.called(number)),
                None => self.called(number),
            },
        }
    }
}

/// The last steps.
impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let fate = match step.fate {
                _ if step.task < self.workers => "runs",
                Fate::Waits => "waits",
                Fate::Switched => "switches before an operation that was ready",
                Fate::Yielded => "yields",
                Fate::Ended => "ends",
            };
            writeln!(f, "  worker {}: {} {fate}", step.worker, self.subject(step.task))?;
        }
        Ok(())
    }
}
