//! What a simulation says when it has failed: which task was spawned where, what it did last, and what it waits for.

use super::failure::SourcePlaces;
use crate::context::SpawnSite;
use crate::task::{join, set};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::Arc;
use tasuki::inspect::{self, WaitSnapshot};
use tasuki::runtime::TaskId;

/// How many of the last steps are shown.
const SHOWN: usize = 40;

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollEnd {
    /// It waits, until something else happens.
    Waits,
    /// It switched before an operation.
    Switched,
    /// It yielded.
    Yielded,
    /// It was woken during its own poll, as by a grant to another of its futures.
    WokeItself,
    Ended,
}

/// A poll, or a posted closure.
#[derive(Clone, Copy, Debug)]
struct TaskStep {
    task: usize,
    worker: usize,
    end: PollEnd,
}

/// A task of the simulation.
#[derive(Debug, Default)]
struct Task {
    spawned_at: Option<&'static Location<'static>>,
    name: Option<Arc<str>>,
    ended: bool,
}

/// Tells a `JoinSet` from the others that exist.
pub(crate) type SetAddress = usize;

/// All tasks that there have been, by number. The first numbers stand for the closures posted to the workers.
#[derive(Debug)]
pub(super) struct Tasks {
    workers: usize,
    numbers: BTreeMap<TaskId, usize>,
    list: Vec<Task>,
    /// Which task waits for the end of this one: the last that has polled its handle, however long ago. A set of futures polls a handle again only when that is woken.
    joined: BTreeMap<TaskId, usize>,
    /// Which task waits for this `JoinSet`, and the members of that.
    joined_sets: BTreeMap<SetAddress, (usize, Vec<TaskId>)>,
    steps: VecDeque<TaskStep>,
}

impl Tasks {
    pub(super) fn new(workers: usize) -> Self {
        let list = (0..workers).map(|_| Task::default()).collect();
        let (joined, joined_sets) = (BTreeMap::new(), BTreeMap::new());
        Self { workers, numbers: BTreeMap::new(), list, joined, joined_sets, steps: VecDeque::new() }
    }

    /// The number of a task, new if it has none; then its site is asked for. Identities are given to the whole process, so they differ from run to run; numbers do not.
    pub(super) fn number<'a>(&mut self, id: TaskId, site: impl FnOnce() -> Option<SpawnSite<'a>>) -> usize {
        let next = self.list.len();
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.list.push(Task::default());
            if let Some(site) = site() {
                self.spawned(id, site);
            }
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
        self.steps.push_back(TaskStep { task, worker, end: PollEnd::Waits });
    }

    /// Notes how the poll that is running will end.
    pub(super) fn poll_ends_as(&mut self, end: PollEnd) {
        if let Some(step) = self.steps.back_mut() {
            step.end = end;
        }
    }

    /// The task waits for this one to end.
    pub(super) fn joins(&mut self, task: usize, id: TaskId) {
        self.joined.insert(id, task);
    }

    /// The handle of this task has given its result, or is dropped.
    pub(super) fn joins_no_more(&mut self, id: TaskId) {
        self.joined.remove(&id);
    }

    /// The task waits for the first of these, the members of a set, to end.
    pub(super) fn joins_set(&mut self, task: usize, set: SetAddress, members: impl Iterator<Item = TaskId>) {
        self.joined_sets.insert(set, (task, members.collect()));
    }

    /// The set is waited for no more.
    pub(super) fn leaves_set(&mut self, set: SetAddress) {
        self.joined_sets.remove(&set);
    }

    pub(super) fn ended(&mut self, id: TaskId) {
        self.joined.remove(&id);
        let Some(&number) = self.numbers.get(&id) else { return };
        self.list[number].ended = true;
        if let Some(step) = self.steps.back_mut().filter(|step| step.task == number) {
            step.end = PollEnd::Ended;
        }
    }

    /// The tasks that wait, each with everything that it waits for; then the cycles among them, in the words of [`inspect`]. Also where the tasks of the cycles wait.
    pub(super) fn deadlock(&self, waiting: usize) -> (String, SourcePlaces) {
        let waiting = if waiting == 1 { "1 task waits".into() } else { format!("{waiting} tasks wait") };
        let mut text = format!("deadlock: {waiting}, nothing can run and no sleep is due");
        let snapshot = inspect::snapshot();
        let name = |id: TaskId| self.name(id);
        let ids: BTreeMap<usize, TaskId> = self.numbers.iter().map(|(id, number)| (*number, *id)).collect();
        for number in (self.workers..self.list.len()).filter(|number| !self.list[*number].ended) {
            let is_own = |wait: &&WaitSnapshot| ids.get(&number) == Some(&wait.task);
            // Which task it waits for is said below.
            let joins =
                |wait: &&WaitSnapshot| wait.future == join::WAIT || wait.at.is_some_and(set::waits_at);
            let own = snapshot.waits.iter().filter(|wait| is_own(wait) && !joins(wait));
            let mut own: Vec<_> = own.map(|wait| (wait.at, wait.describe(name))).collect();
            // By place, and not by age: the same run has the same report, whatever the clock says.
            own.sort_unstable();
            let mut lines: Vec<String> = own.into_iter().map(|(_, line)| line).collect();
            let subject = self.subject(number);
            let joins = self.joined_by(number).into_iter();
            lines.extend(joins.map(|joined| format!("{subject} waits for {} to end", self.short(joined))));
            if lines.is_empty() {
                lines.push(format!("{subject} waits for something unknown"));
            }
            lines.iter().for_each(|line| text.push_str(&format!("\n  {line}")));
        }
        let mine = |deadlock: &&inspect::Deadlock| {
            deadlock.hops.iter().all(|hop| self.numbers.contains_key(&hop.task))
        };
        let mut cycles = SourcePlaces::new();
        for deadlock in snapshot.deadlocks.iter().filter(mine) {
            let _ = write!(text, "\n{}", deadlock.describe(name));
            cycles.extend(deadlock.hops.iter().filter_map(|hop| hop.waits_at).map(Location::to_string));
        }
        (text, cycles)
    }

    /// For whose end a task waits, in the order of their numbers: identities differ from run to run.
    fn joined_by(&self, task: usize) -> Vec<TaskId> {
        let handles = self.joined.iter().filter(|(_, by)| **by == task).map(|(id, _)| *id);
        let sets = self.joined_sets.values().filter(|(by, _)| *by == task);
        let mut joined: Vec<_> =
            handles.chain(sets.flat_map(|(_, members)| members.iter().copied())).collect();
        joined.sort_by_key(|id| self.numbers.get(id).copied().unwrap_or(usize::MAX));
        joined
    }

    /// A task, by its number and the place where it was spawned; also one that has ended, as it may have left a guard behind.
    fn name(&self, id: TaskId) -> String {
        match self.numbers.get(&id) {
            Some(&number) if self.list[number].ended => format!("{}, now ended,", self.subject(number)),
            Some(&number) => self.subject(number),
            None => self.short(id),
        }
    }

    fn short(&self, id: TaskId) -> String {
        match self.numbers.get(&id) {
            Some(number) => self.called(*number),
            None => "a task that no virtual worker runs".into(),
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
            let end = match step.end {
                _ if step.task < self.workers => "runs",
                PollEnd::Waits => "waits",
                PollEnd::Switched => "switches before an operation",
                PollEnd::Yielded => "yields",
                PollEnd::WokeItself => "wakes itself",
                PollEnd::Ended => "ends",
            };
            writeln!(f, "  worker {}: {} {end}", step.worker, self.subject(step.task))?;
        }
        Ok(())
    }
}
