//! The scheduler: what the workers of a runtime share, and what a wake of a task does.
//!
//! ```text
//!   another thread wakes, spawns          a task of this worker wakes, spawns
//!        |              |                     |              |
//!   global queue     inbox (pinned)        next slot     local queue <--- other workers steal half
//!        \              \                    |              /
//!         +---- taken in batches by ---->  worker.rs: pick, run, sleep
//! ```
//!
//! [`schedule`] is called inside every wake that makes a task runnable, by any thread; it must not allocate, nor call foreign code before the task is in its place. (After that a thread of another runtime may have the last reference to this one, and drops it.) It is also the one place where what is
//! known of a primitive crosses a `Waker`: [`wake_kind`] says, while a primitive of `tasuki` calls a waker, whether the task was granted a lock or a message by it, or is next to take a free lock (a
//! *baton*). Nothing else of the scheduler knows of primitives. The design and its proofs are in docs/scheduler.md.

mod balance;
pub(crate) mod chain;
mod deadlines;
pub(crate) mod idle;
mod item;
mod next_slot;
mod posted_job;
mod queue_turns;
pub(crate) mod shared_queue;
pub(crate) mod shutdown;
mod sockets;
mod steal;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_picks;
#[cfg(all(test, feature = "net"))]
mod tests_of_sleep;
pub(crate) mod worker;

use crate::blocking::BlockingPool;
use crate::builder::{Builder, Resume};
use crate::context::{self, Context, ThreadRole};
use crate::metrics::Counters;
use crate::task::notes::NotedTasks;
use crate::task::registry::Registry;
use crate::task::task_counts::TaskCounts;
use crate::task::{Runnable, TaskCell};
use crate::threads::Threads;
use async_task::ScheduleInfo;
use deadlines::Alarm;
use idle::Idle;
pub(crate) use item::Item;
use next_slot::NextSlot;
pub(crate) use posted_job::Job;
use shared_queue::SharedQueue;
use shutdown::progress::ShutdownProgress;
use sockets::Sockets;
use st3::fifo::{Stealer, Worker as Queue};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Waker;
use std::time::Instant;
use tasuki::runtime::{Timers, WakeKind, wake_kind};
use tasuki::{Parker, Unparker};

/// How many tasks a local queue holds; more overflow into the global one.
const LOCAL_CAPACITY: usize = 1024;

/// What the others see of a worker. On cache lines of its own.
#[repr(align(128))]
pub(crate) struct Remote {
    pub(crate) inbox: SharedQueue<Item>,
    stealer: Stealer<Runnable>,
    unparker: Unparker,
    next: NextSlot,
    /// What the worker counts; the same number of polls twice is the same poll.
    pub(crate) counters: Counters,
    /// The deadlines of its tasks.
    pub(crate) timers: Arc<Timers>,
    alarm: Arc<Alarm>,
    /// It wakes for its own deadlines.
    asleep: AtomicBool,
}

/// A worker whose thread has not started: what only that thread will touch.
pub(crate) struct UnstartedWorker {
    pub(crate) index: usize,
    queue: Queue<Runnable>,
    parker: Parker,
}

/// A runtime, as its workers and tasks see it.
pub(crate) struct Shared {
    /// Which runtime, in this process.
    pub(crate) id: u32,
    pub(crate) resume: Resume,
    pub(crate) remotes: Box<[Remote]>,
    pub(crate) global: SharedQueue<Runnable>,
    pub(crate) registry: Registry<TaskCell>,
    /// Every task, for dumps.
    pub(crate) noted: NotedTasks,
    pub(crate) task_counts: TaskCounts,
    pub(crate) shutdown: ShutdownProgress,
    /// The threads of the workers.
    pub(crate) threads: Threads,
    /// The threads for blocking work.
    pub(crate) blocking: BlockingPool,
    pub(crate) sockets: Sockets,
    idle: Idle,
    /// A worker that is awake has deadlines: all look at the clock.
    armed: AtomicBool,
    /// The zero of deadlines that are numbers.
    epoch: Instant,
}

// Panics of tasks, hooks and wakers end where they are called: what the threads share is whole.
impl UnwindSafe for Shared {}
impl RefUnwindSafe for Shared {}

impl Shared {
    pub(crate) fn new(builder: &Builder) -> (Arc<Self>, Vec<UnstartedWorker>) {
        let workers = builder.workers;
        TaskCell::check();
        static NEXT_ID: AtomicU32 = AtomicU32::new(1);
        // Relaxed: each number is given once, and nothing else is said by it.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let epoch = Instant::now();
        let worker =
            |index| UnstartedWorker { index, queue: Queue::new(LOCAL_CAPACITY), parker: Parker::new() };
        let unstarted: Vec<UnstartedWorker> = (0..workers).map(worker).collect();
        let times = || builder.time_polls.then(Arc::default);
        let remote = |worker: &UnstartedWorker| {
            let alarm = Arc::new(Alarm::new(id, worker.index, worker.parker.unparker()));
            let timers = Arc::new(Timers::starting_at(epoch, Waker::from(alarm.clone())));
            // Says that nothing is due: from now on the first sleep rings.
            timers.advance(epoch);
            Remote {
                inbox: SharedQueue::new(),
                stealer: worker.queue.stealer(),
                unparker: worker.parker.unparker(),
                next: NextSlot::new(),
                counters: Counters { poll_times: times(), ..Counters::default() },
                timers,
                alarm,
                asleep: AtomicBool::new(false),
            }
        };
        let shared = Self {
            id,
            resume: builder.resume,
            remotes: unstarted.iter().map(remote).collect(),
            global: SharedQueue::new(),
            registry: Registry::new(workers),
            noted: NotedTasks::new(),
            task_counts: TaskCounts::new(workers),
            shutdown: ShutdownProgress::new(workers),
            threads: Threads::new(builder.threads.clone()),
            blocking: BlockingPool::new(builder.blocking_threads, builder.keep_alive),
            sockets: Sockets::default(),
            idle: Idle::new(workers),
            armed: AtomicBool::new(false),
            epoch,
        };
        (Arc::new(shared), unstarted)
    }

    pub(crate) fn workers(&self) -> usize {
        self.remotes.len()
    }

    /// Wakes a worker for a task that was just pushed where all can take it, if that is needed.
    fn notify(&self) {
        if let Some(worker) = self.idle.notify() {
            self.remotes[worker].unparker.unpark();
        }
    }

    fn push_global(&self, runnable: Runnable) {
        self.global.push(runnable).expect("the global queue does not close");
        self.notify();
    }

    /// Gives a worker something to do; gives it back if the worker has ended.
    pub(crate) fn send(&self, worker: usize, item: Item) -> Result<(), Item> {
        let remote = &self.remotes[worker];
        remote.inbox.push(item)?;
        remote.unparker.unpark();
        Ok(())
    }

    /// Ends the sleep of a worker, or its next one.
    pub(crate) fn unpark(&self, worker: usize) {
        self.remotes[worker].unparker.unpark();
    }

    fn send_task(&self, home: usize, runnable: Runnable) {
        if let Err(item) = self.send(home, Item::Task(runnable)) {
            // The inbox closes when no pinned task is left. Better lost than dropped on a foreign thread.
            debug_assert!(false, "a task outlived its event loop");
            std::mem::forget(item);
        }
    }

    /// From a thread that is not one of the workers.
    fn push_from_outside(&self, runnable: Runnable) {
        match runnable.metadata().home() {
            Some(home) => self.send_task(home, runnable),
            None => self.push_global(runnable),
        }
    }

    /// True once shutdown has begun.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.shutdown.is_closing()
    }

    /// Refuses new tasks, and asks the workers to leave.
    pub(crate) fn close(&self) {
        self.task_counts.close();
        self.shutdown.close();
        self.remotes.iter().for_each(|remote| remote.unparker.unpark());
    }
}

impl Remote {
    /// How many tasks other workers could take; a look.
    pub(crate) fn queued(&self) -> usize {
        let (nowhere, mut seen) = (Queue::new(1), 0);
        let look = |len: usize| {
            seen = len;
            0
        };
        // Nothing is taken. Busy: a thief is at it, and what it leaves is not known yet.
        let _ = self.stealer.steal(&nowhere, look);
        seen + usize::from(!self.next.is_empty())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("id", &self.id)
            .field("workers", &self.workers())
            .field("tasks", &self.task_counts.len())
            .finish_non_exhaustive()
    }
}

/// A task has become runnable: puts it where it will be run. Called inside wakes, by every kind of thread.
///
/// After the push nothing of the task is touched: it may have run and be gone. So the runtime is reached
/// through the thread's context, or through a clone made before.
pub(crate) fn schedule(runnable: Runnable, info: ScheduleInfo) {
    runnable.metadata().notes.scheduled();
    let baton = !info.woken_while_running && wake_kind() == WakeKind::Baton;
    // Dropped afterwards: it may be the last, and hooks are foreign.
    let _held =
        context::with(|context| match context.filter(|context| runnable.metadata().is_of(&context.shared)) {
            Some(context) => {
                match &context.role {
                    ThreadRole::Worker(local) => local.put(&context.shared, runnable, baton),
                    _ => put(Some(context), &context.shared, runnable),
                }
                None
            }
            None => {
                // SAFETY: the runnable holds the future.
                let shared = unsafe { runnable.metadata().clone_shared() };
                put(None, &shared, runnable);
                Some(shared)
            }
        });
}

/// Puts a task that is new, or was woken without a baton, where it will be run. `context` is that of the thread, if it belongs to
/// this runtime.
#[inline]
pub(crate) fn put(context: Option<&Context>, shared: &Shared, runnable: Runnable) {
    match context.map(|context| &context.role) {
        Some(ThreadRole::Worker(local)) => local.put(shared, runnable, false),
        Some(ThreadRole::Sim(sim)) => sim.put(runnable.metadata().home(), Item::Task(runnable)),
        Some(ThreadRole::Outside) | None => shared.push_from_outside(runnable),
    }
}
