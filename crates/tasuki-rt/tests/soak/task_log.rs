//! The log of the tasks: every task that was spawned, what it does, how it ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// What a task does that has not been polled.
const NOT_BEGUN: u8 = u8::MAX;

/// What is carried by the panics that are meant. They are thrown past the panic hook, so that whatever the hook sees is a failure.
pub(crate) struct Chaos;

/// A task that has not ended.
#[derive(Debug)]
struct Entry {
    /// The number of its step, for the report of those that are stuck.
    doing: AtomicU8,
    kind: &'static str,
}

/// The accounts of one epoch.
#[derive(Debug, Default)]
pub(crate) struct TaskLog {
    pub(crate) opened: AtomicU64,
    pub(crate) finished: AtomicU64,
    /// Dropped before their end: aborted, panicked, or with their runtime.
    pub(crate) cut: AtomicU64,
    pub(crate) steps: AtomicU64,
    live: Mutex<HashMap<u64, Arc<Entry>>>,
}

impl TaskLog {
    /// For a task that is about to be spawned.
    pub(crate) fn open(self: &Arc<Self>, kind: &'static str, pinned: bool) -> Ticket {
        let number = self.opened.fetch_add(1, SeqCst);
        let entry = Arc::new(Entry { doing: AtomicU8::new(NOT_BEGUN), kind });
        self.live().insert(number, entry.clone());
        Ticket { log: self.clone(), entry, number, pinned, home: None, finished: false }
    }

    fn live(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Entry>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many tasks have not ended, their futures not been dropped.
    pub(crate) fn live_tasks(&self) -> usize {
        self.live().len()
    }

    /// Changes whenever anything happens.
    pub(crate) fn pulse(&self) -> u64 {
        [&self.opened, &self.finished, &self.cut, &self.steps].iter().map(|count| count.load(SeqCst)).sum()
    }

    /// How those that have not ended are spread over what they do.
    pub(crate) fn report(&self, names: &[&str]) -> String {
        let mut spread: HashMap<String, usize> = HashMap::new();
        for entry in self.live().values() {
            let doing = names.get(usize::from(entry.doing.load(SeqCst))).unwrap_or(&"not begun");
            *spread.entry(format!("{} in {doing}", entry.kind)).or_default() += 1;
        }
        let mut lines: Vec<String> =
            spread.into_iter().map(|(what, count)| format!("  {count:6} {what}")).collect();
        lines.sort();
        lines.join("\n")
    }

    /// Everything has ended: the sums agree.
    pub(crate) fn check(&self) {
        let sum = self.finished.load(SeqCst) + self.cut.load(SeqCst);
        assert_eq!((self.live_tasks(), self.opened.load(SeqCst)), (0, sum), "a task is not accounted for");
    }
}

/// Lives in the future of a task, and closes its account when that is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    log: Arc<TaskLog>,
    entry: Arc<Entry>,
    number: u64,
    pinned: bool,
    /// Where a pinned task must be polled and dropped, once it has been polled.
    home: Option<ThreadId>,
    finished: bool,
}

impl Ticket {
    /// The first poll.
    pub(crate) fn begin(&mut self) {
        self.home = self.pinned.then(|| thread::current().id());
    }

    pub(crate) fn step(&self, doing: usize) {
        self.entry.doing.store(doing as u8, SeqCst);
        self.log.steps.fetch_add(1, SeqCst);
        self.check_home();
    }

    pub(crate) fn finish(mut self) -> u64 {
        self.finished = true;
        self.number
    }

    fn check_home(&self) {
        if let Some(home) = self.home {
            assert_eq!(home, thread::current().id(), "a pinned task away from home");
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.check_home();
        let count = if self.finished { &self.log.finished } else { &self.log.cut };
        count.fetch_add(1, SeqCst);
        assert!(self.log.live().remove(&self.number).is_some(), "a task ended twice");
    }
}
