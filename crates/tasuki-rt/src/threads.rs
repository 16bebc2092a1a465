//! The threads of a runtime: what they are like (name, stack, processors, hooks), how those of the workers are started, and how the end of all is waited for.
//!
//! `Runtime` starts its workers and waits for their end through this file; `blocking.rs` starts threads by the same [`ThreadSettings`]. Hooks are code of the user: they are called under no lock, and their panics go no further
//! than the panic hook. The child of a fork has none of the threads, and what needs them is an error there ([`elsewhere`]).

use crate::context;
use crate::platform::{self, AllowedProcessors};
use crate::scheduler::shutdown::{self, abandoned_wheel::AbandonedWheel};
use crate::scheduler::{Shared, UnstartedWorker, worker};
use crate::shim::wait_until;
use crate::task::contain_panic;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A function of the user that the threads call.
#[derive(Clone, Default)]
pub(crate) struct Hook(Option<Arc<dyn Fn() + Send + Sync>>);

/// What a hook has captured is foreign.
impl Drop for Hook {
    fn drop(&mut self) {
        let hook = self.0.take();
        contain_panic(|| drop(hook));
    }
}

impl Hook {
    pub(crate) fn new(hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// A panic of it goes no further than the panic hook.
    #[inline]
    pub(crate) fn call(&self) {
        if let Some(hook) = &self.0 {
            contain_panic(|| hook());
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a function" } else { "none" })
    }
}

/// What the threads of a runtime are like.
#[derive(Clone, Debug)]
pub(crate) struct ThreadSettings {
    pub(crate) name: String,
    pub(crate) stack_size: Option<usize>,
    /// Where the workers are pinned to, by turns; anywhere if it is empty.
    pub(crate) processors: Vec<usize>,
    /// Where the other threads may run, if workers are pinned.
    pub(crate) allowed: Option<Arc<AllowedProcessors>>,
    pub(crate) on_start: Hook,
    pub(crate) on_stop: Hook,
    pub(crate) on_park: Hook,
    pub(crate) on_unpark: Hook,
}

impl Default for ThreadSettings {
    fn default() -> Self {
        Self {
            name: "tasuki-rt".to_owned(),
            stack_size: None,
            processors: Vec::new(),
            allowed: None,
            on_start: Hook::default(),
            on_stop: Hook::default(),
            on_park: Hook::default(),
            on_unpark: Hook::default(),
        }
    }
}

impl ThreadSettings {
    /// Can workers be pinned where they should be? Also notes where the other threads may run.
    pub(crate) fn check_processors(&mut self) -> io::Result<()> {
        if !self.processors.is_empty() {
            self.allowed = Some(Arc::new(platform::check_processors(&self.processors)?));
        }
        Ok(())
    }

    /// Starts a thread of this kind, of the runtime with this number. What the body is given comes back if the system refuses the thread. What it returns is dropped when the hook
    /// of its stop has returned, and says that the thread has ended.
    pub(crate) fn spawn<V: Send + 'static, E>(
        &self,
        id: u32,
        suffix: &str,
        given: V,
        body: impl FnOnce(V) -> E + Send + 'static,
    ) -> Result<thread::JoinHandle<()>, (io::Error, V)> {
        let (start, stop, allowed) = (self.on_start.clone(), self.on_stop.clone(), self.allowed.clone());
        let mut builder = thread::Builder::new().name(format!("{}-{suffix}", self.name));
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes);
        }
        start_with(builder, given, move |given| {
            // From its first hook to its last destructor: a shutdown waits for the thread, which must not wait for the shutdown.
            context::becomes_thread_of(id);
            if let Some(allowed) = allowed {
                // A pinned worker may have started it. Before the hook, which may want it elsewhere; a worker is pinned later.
                allowed.free_thread();
            }
            start.call();
            let ended = body(given);
            stop.call();
            // What the hooks have captured, if this is the last thread.
            drop((start, stop));
            drop(ended);
        })
    }
}

/// The number of this process, which tells a child of a fork from its parent; never 0.
pub(crate) fn process() -> u32 {
    tasuki::runtime::process_number()
}

/// What a child of a fork is told that needs the threads or sockets of its parent.
#[cold]
pub(crate) fn elsewhere() -> io::Error {
    let why =
        "the threads or sockets of this runtime are in the process that forked: make a runtime in this one";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// The threads of a runtime, before and after their start.
pub(crate) struct Threads {
    pub(crate) settings: ThreadSettings,
    state: Mutex<ThreadsState>,
    /// The process that started the first of them; 0 before.
    process: AtomicU32,
    /// `joins` is `Joins::Done`.
    joined: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    unstarted: Vec<UnstartedWorker>,
    handles: Vec<thread::JoinHandle<()>>,
    joins: Joins,
}

/// How far the joins of the threads have come. One caller joins them all; others wait for that.
#[derive(Default, PartialEq)]
enum Joins {
    #[default]
    NotBegun,
    Running,
    Done,
}

impl Threads {
    pub(crate) fn new(settings: ThreadSettings) -> Self {
        Self { settings, state: Mutex::default(), process: AtomicU32::new(0), joined: Condvar::new() }
    }

    /// One is about to be started.
    pub(crate) fn start_here(&self) {
        // Relaxed: a child of a fork sees what its parent wrote, and nothing else is said by it.
        self.process.store(process(), Ordering::Relaxed);
    }

    /// Were they started by the process of which this one is a fork? Then they are not here, and perhaps hold locks for ever.
    pub(crate) fn are_elsewhere(&self) -> bool {
        // Relaxed: as above.
        let process = self.process.load(Ordering::Relaxed);
        process != 0 && process != self::process()
    }

    fn state(&self) -> MutexGuard<'_, ThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread, a worker's, is not joined.
    fn detach_this(&self) {
        let this = thread::current().id();
        self.state().handles.retain(|handle| handle.thread().id() != this);
    }

    /// When all workers have ended: joins their threads, and calls `join_others`, or waits until another caller has. False when the time is over first, which only a caller that waits looks at.
    fn join(&self, deadline: Option<Instant>, join_others: impl FnOnce()) -> bool {
        let mut state = self.state();
        while state.joins == Joins::Running {
            let Some(again) = wait_until(&self.joined, state, deadline) else { return false };
            state = again;
        }
        if state.joins == Joins::NotBegun {
            state.joins = Joins::Running;
            let handles = std::mem::take(&mut state.handles);
            drop(state);
            let _done = JoinsAreDone(self);
            // What a thread returned, or panicked with, may panic when it is dropped.
            handles.into_iter().for_each(|handle| contain_panic(|| drop(handle.join())));
            join_others();
        }
        true
    }

    /// The workers whose threads `start` is to start.
    pub(crate) fn keep(&self, unstarted: Vec<UnstartedWorker>) {
        self.state().unstarted = unstarted;
    }
}

/// The joins are over when it is dropped, also by a panic: other callers wait for that.
struct JoinsAreDone<'a>(&'a Threads);

impl Drop for JoinsAreDone<'_> {
    fn drop(&mut self) {
        self.0.state().joins = Joins::Done;
        self.0.joined.notify_all();
    }
}

/// Starts a thread with a value, which is returned if the system refuses the thread.
pub(crate) fn start_with<V: Send + 'static>(
    builder: thread::Builder,
    value: V,
    body: impl FnOnce(V) + Send + 'static,
) -> Result<thread::JoinHandle<()>, (io::Error, V)> {
    let slot = Arc::new(Mutex::new(Some(value)));
    let given = slot.clone();
    let take = |slot: &Mutex<Option<V>>| {
        slot.lock().unwrap_or_else(PoisonError::into_inner).take().expect("taken by the thread, or else here")
    };
    builder.spawn(move || body(take(&given))).map_err(|error| (error, take(&slot)))
}

/// Dropped when a worker has ended, and its hook has returned; also when it unwinds: a shutdown waits for it no longer.
struct WorkerEnds(Option<(Arc<Shared>, Option<AbandonedWheel>)>);

impl Drop for WorkerEnds {
    fn drop(&mut self) {
        let Some((shared, wheel)) = self.0.take() else { return };
        let refused = wheel.and_then(|wheel| wheel.start_thread().err());
        if refused.is_some() {
            shared.threads.detach_this();
        }
        shared.shutdown.has_ended();
        drop(shared);
        if let Some(wheel) = refused {
            wheel.turn_until_empty();
        }
    }
}

impl Shared {
    /// Is this process a fork of the one that started the threads, or that waits for the sockets?
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.threads.are_elsewhere() || self.sockets.are_elsewhere()
    }

    /// Starts the threads that have not been started. If the system refuses one, the runtime closes.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        if self.is_elsewhere() {
            return Err(elsewhere());
        }
        let mut state = self.threads.state();
        let mut unstarted = std::mem::take(&mut state.unstarted).into_iter();
        while let Some(first) = unstarted.next() {
            match self.start_worker(first) {
                Ok(handle) => state.handles.push(handle),
                Err((error, failed)) => {
                    // What a task does when it is dropped may ask for the threads.
                    drop(state);
                    self.close();
                    shutdown::leave_unstarted(self, [failed].into_iter().chain(unstarted).collect());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn start_worker(
        self: &Arc<Self>,
        first: UnstartedWorker,
    ) -> Result<thread::JoinHandle<()>, (io::Error, UnstartedWorker)> {
        let settings = &self.threads.settings;
        let (shared, index) = (self.clone(), first.index);
        let processor = settings.processors.get(index % settings.processors.len().max(1)).copied();
        self.threads.start_here();
        let body = move |first| {
            if let Some(processor) = processor {
                // Checked when the runtime was built. One that was taken from the process since then is done without.
                let _ = platform::pin_thread(processor);
            }
            let mut ends = WorkerEnds(Some((shared.clone(), None)));
            let wheel = worker::main(shared.clone(), first);
            ends.0 = Some((shared, wheel));
            ends
        };
        settings.spawn(self.id, &index.to_string(), first, body)
    }

    /// Refuses new tasks and asks the workers to leave; those that were not started leave here.
    pub(crate) fn close_all(self: &Arc<Self>) {
        self.close();
        let unstarted = std::mem::take(&mut self.threads.state().unstarted);
        shutdown::leave_unstarted(self, unstarted);
    }

    /// After [`close_all`](Self::close_all): waits for the threads and their hooks; false when the time is over first. Then nothing is left of the threads but their
    /// thread-local variables, whose destructors are waited for too, by every caller.
    pub(crate) fn wait_for_threads(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        self.shutdown.wait(timeout) && self.threads.join(deadline, || self.blocking.join())
    }
}
