//! What is noted of a task for a dump ([`dump`](super::dump)): where it was spawned, its name, its state, how often it was polled. Zero-sized unless debug assertions or
//! the feature `inspect` are on; this is the only file of the runtime that asks.
//!
//! Not in every build, though a place is one pointer: a small task fills 120 bytes, and with 8 more it would not fit any more into what common allocators serve from their fastest
//! lists (`a_small_task_is_small`). So release builds pay nothing, and a dump there says how many tasks there are.
//!
//! A task is in the list of noted tasks from its spawn, if that is not refused, until its future is dropped: also before its first poll, and while a thread for blocking work runs it. That list is a second
//! [`Registry`](super::registry::Registry), for the first one has only tasks that wait. A look at it locks one shard at a time, and asks no worker.
//!
//! # States of a task
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | none | spawned | scheduled | [`TaskNotes::new`] |
//! | scheduled | a poll begins | running | [`TaskNotes::begin_poll`] |
//! | running | the poll returns `Pending` | waiting | [`TaskNotes::end_poll`] |
//! | waiting | woken, also by a wake that came during the poll | scheduled | [`TaskNotes::scheduled`] |
//! | any | the future is dropped | not listed | [`NotedTasks::remove`] |
//!
//! # Orderings
//! Relaxed: numbers to look at. Each is written by the thread that polls or schedules the task, one after the other by the protocol of the task's cell.

#[cfg(any(debug_assertions, feature = "inspect"))]
pub(crate) use noted::{NotedTasks, TaskNotes};
#[cfg(not(any(debug_assertions, feature = "inspect")))]
pub(crate) use unnoted::{NotedTasks, TaskNotes};

#[cfg(any(debug_assertions, feature = "inspect"))]
mod noted {
    use crate::context::SpawnSite;
    use crate::event_loop::WorkerId;
    use crate::task::dump::{TaskDump, TaskState};
    use crate::task::registry::{Entry, RegisteredCell, Registry};
    use crate::task::{Meta, Runnable, TaskCell};
    use std::panic::Location;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
    use std::task::Waker;
    use tasuki::inspect::{PollState, TaskLabel, label_tasks};
    use tasuki::runtime::{SignalSlot, SignalWait};
    use tasuki::task::TaskId;

    const SCHEDULED: u32 = 0;
    const WAITING: u32 = 1;
    /// On no worker: by a thread for blocking work.
    const ELSEWHERE: u32 = 2;
    /// And the number of the worker.
    const RUNNING: u32 = 3;

    /// How many shards there are: as many threads spawn and end tasks without meeting. An interpreter has few threads.
    const SHARDS: usize = if cfg!(miri) { 2 } else { 32 };

    /// Lives in the cell of the task.
    pub(crate) struct TaskNotes {
        entry: Entry,
        site: &'static Location<'static>,
        name: Option<Arc<str>>,
        kind: &'static str,
        polls: AtomicU32,
        state: AtomicU32,
        /// The wait of its handle.
        joiner: SignalSlot,
    }

    impl TaskNotes {
        pub(crate) fn new(site: SpawnSite<'_>, kind: &'static str) -> Self {
            Self {
                entry: Entry::new(None),
                site: site.at,
                name: site.name.cloned(),
                kind,
                polls: AtomicU32::new(0),
                state: AtomicU32::new(SCHEDULED),
                joiner: SignalSlot::new(),
            }
        }

        /// Where the task was spawned, and what it is called.
        pub(crate) fn site(&self) -> Option<SpawnSite<'_>> {
            Some(SpawnSite { at: self.site, name: self.name.as_ref() })
        }

        /// The handle has been polled, and waits.
        pub(crate) fn joined_by(&self, wait: &SignalWait) {
            self.joiner.set(wait);
        }

        /// By this worker, if it is one.
        pub(crate) fn begin_poll(&self, worker: Option<usize>) {
            // Relaxed, and no read-modify-write: no other thread polls the task.
            self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            let state = worker.map_or(ELSEWHERE, |worker| RUNNING.saturating_add(worker as u32));
            // Relaxed: as above.
            self.state.store(state, Ordering::Relaxed);
        }

        pub(crate) fn end_poll(&self) {
            // Relaxed: as above.
            self.state.store(WAITING, Ordering::Relaxed);
        }

        pub(crate) fn scheduled(&self) {
            // Relaxed: as above.
            self.state.store(SCHEDULED, Ordering::Relaxed);
        }

        fn state(&self) -> TaskState {
            // Relaxed: as above.
            match self.state.load(Ordering::Relaxed) {
                SCHEDULED => TaskState::Scheduled,
                WAITING => TaskState::Waiting,
                ELSEWHERE => TaskState::Running(None),
                running => TaskState::Running(Some(WorkerId::new((running - RUNNING) as usize))),
            }
        }
    }

    /// The cell of a task, in the list of noted ones.
    enum NotedCell {}

    // SAFETY: as for `TaskCell`: the entry is in the metadata, which is in the cell.
    unsafe impl RegisteredCell for NotedCell {
        unsafe fn entry<'a>(cell: NonNull<()>) -> &'a Entry {
            // SAFETY: promised by the caller.
            let entry = unsafe { TaskCell::look(cell, |task| NonNull::from(&task.metadata().notes.entry)) };
            // SAFETY: it is in the cell, which outlives its use.
            unsafe { entry.as_ref() }
        }

        unsafe fn waker(cell: NonNull<()>) -> Waker {
            // SAFETY: promised by the caller.
            unsafe { TaskCell::look(cell, Runnable::waker) }
        }
    }

    /// Every task of a runtime.
    #[derive(Debug)]
    pub(crate) struct NotedTasks(Arc<Registry<NotedCell>>);

    /// The lists of all runtimes, for reports that name tasks.
    static LISTS: Mutex<Vec<Weak<Registry<NotedCell>>>> = Mutex::new(Vec::new());

    fn lists() -> MutexGuard<'static, Vec<Weak<Registry<NotedCell>>>> {
        LISTS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How these tasks, which are sorted, are called, as far as they are of this crate.
    fn labels(tasks: &[TaskId]) -> Vec<TaskLabel> {
        // Not walked under the lock: a runtime may be dropped with the last reference to its list.
        let lists: Vec<Arc<Registry<NotedCell>>> = lists().iter().filter_map(Weak::upgrade).collect();
        // Room for all, so that a shard is not locked for long.
        let mut labels = Vec::with_capacity(tasks.len());
        for list in lists {
            list.each(|cell| {
                // SAFETY: the cell is in the list, whose lock is held: the list has a reference to it.
                let label = unsafe { TaskCell::look(cell, |task| label(task.metadata(), tasks)) };
                labels.extend(label);
            });
        }
        labels
    }

    fn label(task: &Meta, wanted: &[TaskId]) -> Option<TaskLabel> {
        let is_wanted = wanted.binary_search(&task.id).is_ok();
        let notes = &task.notes;
        let label = || TaskLabel::new(task.id, notes.name.clone(), Some(notes.site));
        let state = match notes.state() {
            TaskState::Scheduled => PollState::Scheduled,
            TaskState::Waiting => PollState::Waiting,
            TaskState::Running(Some(_)) => PollState::Running,
            // Blocking work waits in the middle of its one poll.
            TaskState::Running(None) => return is_wanted.then(label),
        };
        // Relaxed: a number to look at.
        is_wanted.then(|| label().with_polls(notes.polls.load(Ordering::Relaxed), state))
    }

    impl NotedTasks {
        pub(crate) const ARE_NOTED: bool = true;

        pub(crate) fn new() -> Self {
            let list = Arc::new(Registry::new(SHARDS));
            let mut lists = lists();
            lists.retain(|list| list.strong_count() > 0);
            lists.push(Arc::downgrade(&list));
            drop(lists);
            label_tasks(labels);
            Self(list)
        }

        /// A task has been made. Once.
        pub(crate) fn insert(&self, task: &Runnable) {
            // A thread spawns with numbers of one block of 256, and so mostly in a shard of its own.
            let shard = (task.metadata().id.get() >> 8) as usize % SHARDS;
            // SAFETY: a waker of the cell that the entry is in; inserted by its spawn alone; removed when the future is dropped.
            let was_aborted = unsafe { self.0.insert(shard, &task.metadata().notes.entry, task.waker()) };
            debug_assert!(!was_aborted, "aborts go by the other entry");
        }

        /// Its future is dropped: what its handle waits for has come, and the cell is about to wake the handle's task.
        pub(crate) fn remove(&self, notes: &TaskNotes) {
            self.0.remove(&notes.entry);
            notes.joiner.came();
        }

        /// What is known of every task, by their numbers. Not of one moment. `expected` says how many there may be.
        pub(crate) fn look(&self, expected: usize) -> Vec<TaskDump> {
            // Room for all, so that a shard is not locked for long.
            let mut tasks = Vec::with_capacity(expected.saturating_add(64));
            self.0.each(|cell| {
                // SAFETY: the cell is in the list, whose lock is held: the list has a reference to it.
                tasks.push(unsafe { TaskCell::look(cell, |task| shown(task.metadata())) });
            });
            tasks.sort_unstable_by_key(|task| task.id);
            tasks
        }
    }

    fn shown(task: &Meta) -> TaskDump {
        let notes = &task.notes;
        TaskDump {
            id: task.id,
            name: notes.name.clone(),
            kind: notes.kind,
            spawned_at: notes.site,
            state: notes.state(),
            pinned_to: task.home().map(WorkerId::new),
            // Relaxed: a number to look at.
            polls: notes.polls.load(Ordering::Relaxed),
            waits: Vec::new(),
        }
    }
}

#[cfg(not(any(debug_assertions, feature = "inspect")))]
mod unnoted {
    use crate::context::SpawnSite;
    use crate::task::Runnable;
    use crate::task::dump::TaskDump;
    use tasuki::runtime::SignalWait;

    pub(crate) struct TaskNotes;

    impl TaskNotes {
        #[inline(always)]
        pub(crate) fn new(_: SpawnSite<'_>, _: &'static str) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn site(&self) -> Option<SpawnSite<'_>> {
            None
        }

        #[inline(always)]
        pub(crate) fn begin_poll(&self, _: Option<usize>) {}

        #[inline(always)]
        pub(crate) fn end_poll(&self) {}

        #[inline(always)]
        pub(crate) fn scheduled(&self) {}

        #[inline(always)]
        pub(crate) fn joined_by(&self, _: &SignalWait) {}
    }

    #[derive(Debug)]
    pub(crate) struct NotedTasks;

    impl NotedTasks {
        pub(crate) const ARE_NOTED: bool = false;

        pub(crate) fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn insert(&self, _: &Runnable) {}

        #[inline(always)]
        pub(crate) fn remove(&self, _: &TaskNotes) {}

        pub(crate) fn look(&self, _: usize) -> Vec<TaskDump> {
            Vec::new()
        }
    }
}
