//! `Handle`: a runtime as other threads reach it, without owning it.

use crate::context::{self, Entered, SpawnSite};
use crate::error::NoRuntime;
use crate::event_loop::WorkerId;
use crate::metrics::Metrics;
use crate::runtime::{block_on_in, spawn_blocking_in, spawn_in, spawn_local_in, spawn_on_in};
use crate::scheduler::Shared;
use crate::task::dump::Dump;
use crate::task::join::JoinHandle;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use tasuki::task::TaskId;

/// A handle to a runtime, for any thread. It is cheap to clone, and does not keep the runtime running.
///
/// ```
/// use tasuki_rt::Handle;
///
/// tasuki_rt::run(async {
///     let handle = Handle::current();
///     // Blocking work, and threads of your own, reach the runtime by it.
///     let thread = std::thread::spawn(move || {
///         let task = handle.spawn(async { 6 * 7 });
///         handle.block_on(task).unwrap()
///     });
///     let answer = tasuki_rt::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
///     assert_eq!(answer, 42);
/// });
/// ```
///
/// # After the runtime
///
/// When the [`Runtime`](crate::Runtime) has been dropped, or has shut down, every spawn is refused: the future is dropped at once, on the thread that
/// spawns, and its [`JoinHandle`] gives an error ([`JoinError::is_shut_down`](crate::JoinError::is_shut_down)). [`block_on`](Self::block_on) still runs its future.
///
/// # In a simulation
///
/// [`Handle::current`] is a handle to the simulated runtime. What another thread does by it is run, in an order that no seed repeats
/// (see [`testing`](crate::testing)); after the simulation spawns are refused.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// Returns a handle to the runtime of this thread: of a task, of the thread in `block_on`, of blocking work, or of an [`EnterGuard`].
    ///
    /// # Panics
    ///
    /// Where there is no runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let handle = tasuki_rt::Handle::current();
    ///     assert!(handle.workers() > 0);
    /// });
    /// ```
    #[track_caller]
    pub fn current() -> Self {
        match Self::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("`Handle::current`: {error}"),
        }
    }

    /// Returns a handle to the runtime of this thread, if there is one.
    ///
    /// # Errors
    ///
    /// [`NoRuntime`] where there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::{Handle, NoRuntime};
    ///
    /// assert_eq!(Handle::try_current().unwrap_err(), NoRuntime);
    /// tasuki_rt::run(async { assert!(Handle::try_current().is_ok()) });
    /// ```
    pub fn try_current() -> Result<Self, NoRuntime> {
        context::current().map(|shared| Self { shared }).ok_or(NoRuntime)
    }

    /// Returns how many workers the runtime has.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().workers(2).build().unwrap();
    /// assert_eq!(runtime.handle().workers(), 2);
    /// ```
    pub fn workers(&self) -> usize {
        self.shared.workers()
    }

    /// Returns how many tasks have been spawned and have not ended.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().tasks(), 0);
    /// ```
    pub fn tasks(&self) -> usize {
        self.shared.task_counts.len()
    }

    /// Returns the metrics of the runtime: what it has done, and what is queued.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().metrics().tasks(), 0);
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics()
    }

    /// Lists every task of the runtime: where it was spawned, what it does and what it waits for. Asks no worker: it works while all of them are stuck.
    ///
    /// In a release build without the feature `inspect` the tasks are only counted ([`Dump::is_noted`]).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.handle().dump().total, 0);
    /// ```
    pub fn dump(&self) -> Dump {
        self.shared.dump()
    }

    /// Lists the given tasks and at most `limit` others: running tasks before those that wait for a poll, and these before the rest. It leaves out what the tasks wait for, and is for tools that look at many tasks often and have a
    /// [snapshot](tasuki::inspect::snapshot_limited) beside it. The totals are of all tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let task = runtime.spawn(async {});
    /// let dump = runtime.handle().dump_limited(0, &[task.id()]);
    /// assert!(dump.total == 1 && dump.tasks.iter().all(|listed| listed.id == task.id()));
    /// ```
    pub fn dump_limited(&self, limit: usize, tasks: &[TaskId]) -> Dump {
        self.shared.dump_limited(limit, tasks)
    }

    /// Returns true if the runtime has been dropped or shut down. It then refuses every spawn.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let handle = runtime.handle();
    /// assert!(!handle.is_shut_down());
    /// drop(runtime);
    /// assert!(handle.is_shut_down());
    /// ```
    pub fn is_shut_down(&self) -> bool {
        self.shared.is_closing()
    }

    /// Spawns a task that any worker may run; see [`Runtime::spawn`](crate::Runtime::spawn).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let handle = runtime.handle();
    /// assert_eq!(runtime.block_on(handle.spawn(async { 1 })).unwrap(), 1);
    /// drop(runtime);
    /// let late = handle.spawn(async { 2 });
    /// assert!(handle.block_on(late).unwrap_err().is_shut_down());
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let site = SpawnSite::here();
        spawn_in(&self.shared, future, site).handle()
    }

    /// Spawns a task on one worker; see [`Runtime::spawn_on`](crate::Runtime::spawn_on).
    ///
    /// # Panics
    ///
    /// If there is no such worker, or it is one of another runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::WorkerId;
    ///
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let task = runtime.handle().spawn_on(WorkerId::new(0), || async { *std::rc::Rc::new(3) });
    /// assert_eq!(runtime.block_on(task).unwrap(), 3);
    /// ```
    #[track_caller]
    pub fn spawn_on<C, F>(&self, worker: WorkerId, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        let site = SpawnSite::here();
        spawn_on_in(&self.shared, worker, make, site)
    }

    /// Spawns a task on the worker that calls it; see [`Runtime::spawn_local`](crate::Runtime::spawn_local).
    ///
    /// # Panics
    ///
    /// On a thread that is not a worker of this runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use tasuki_rt::{Handle, WorkerId};
    ///
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async {
    ///         *Handle::current().spawn_local(async { Rc::new(4) }).await.unwrap()
    ///     });
    ///     assert_eq!(task.await.unwrap(), 4);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let site = SpawnSite::here();
        spawn_local_in(&self.shared, future, site)
    }

    /// Runs a closure that may block, on a thread made for that; see [`Runtime::spawn_blocking`](crate::Runtime::spawn_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let work = runtime.handle().spawn_blocking(|| 4);
    /// assert_eq!(runtime.block_on(work).unwrap(), 4);
    /// ```
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let site = SpawnSite::here();
        spawn_blocking_in(&self.shared, work, site)
    }

    /// Runs a future on this thread, as [`Runtime::block_on`](crate::Runtime::block_on) does it, also in blocking work. When the runtime has shut down it runs
    /// the future all the same; what that spawns is refused.
    ///
    /// # Panics
    ///
    /// Inside a task, also one of another runtime: it would stop its worker. If the threads cannot be started. If the future panics.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let handle = tasuki_rt::Handle::current();
    ///     let work = tasuki_rt::spawn_blocking(move || handle.block_on(async { 8 }));
    ///     assert_eq!(work.await.unwrap(), 8);
    /// });
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on_in(&self.shared, future)
    }

    /// Makes this the runtime of the calling thread until the guard is dropped: `tasuki_rt::spawn` and the like find it.
    ///
    /// Nothing else changes: the thread does not become an event loop, a task keeps its worker and its runtime, and the deadlines of the primitives are kept where
    /// they were before. On a worker of the same runtime, also on the thread in [`LocalRuntime::block_on`](crate::LocalRuntime::block_on), it changes nothing at all, unless a guard of another runtime is held there.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let handle = runtime.handle();
    /// let task = {
    ///     let _guard = handle.enter();
    ///     tasuki_rt::spawn(async { 5 })
    /// };
    /// assert_eq!(handle.block_on(task).unwrap(), 5);
    /// ```
    pub fn enter(&self) -> EnterGuard {
        EnterGuard::new(&self.shared)
    }

    /// Calls `f` with each worker, on this thread; see [`Runtime::for_each_worker`](crate::Runtime::for_each_worker).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().workers(2).build().unwrap();
    /// let mut workers = Vec::new();
    /// runtime.handle().for_each_worker(|worker| workers.push(worker.index()));
    /// assert_eq!(workers, [0, 1]);
    /// ```
    pub fn for_each_worker(&self, f: impl FnMut(WorkerId)) {
        (0..self.workers()).map(|index| WorkerId::of(self.shared.id, index)).for_each(f);
    }
}

impl PartialEq for Handle {
    /// Are both handles to the same runtime?
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Handle {}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("workers", &self.workers())
            .field("tasks", &self.tasks())
            .field("shut_down", &self.is_shut_down())
            .finish_non_exhaustive()
    }
}

/// The guard of [`Handle::enter`]: for as long as it exists, its runtime is that of the thread.
///
/// Inside it `tasuki_rt::spawn` and the sockets find the runtime. It does not keep the runtime running, and is not `Send`. Do not hold it across an await: the thread polls other tasks meanwhile. Do not hold it past the end of a
/// `block_on` that it was made in: from then on it has no effect.
///
/// # Examples
///
/// ```
/// let runtime = tasuki_rt::Runtime::new().unwrap();
/// let guard: tasuki_rt::EnterGuard = runtime.enter();
/// assert!(tasuki_rt::Handle::try_current().is_ok());
/// drop(guard);
/// assert!(tasuki_rt::Handle::try_current().is_err());
/// ```
///
/// # Panic
///
/// Drop the guards of one thread in the reverse order of their making. The drop of one while a later one exists panics, and leaves its runtime entered: when the later guards are gone, it is the runtime of the thread.
///
/// The drop of one that was made inside of `block_on` panics after that `block_on` has ended. (Not that of a [`LocalRuntime`](crate::LocalRuntime) in its own `block_on`.)
#[must_use = "the runtime is entered for as long as the guard exists"]
pub struct EnterGuard {
    _entered: Entered,
    _not_send: PhantomData<*const ()>,
}

impl EnterGuard {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { _entered: Entered::new(shared), _not_send: PhantomData }
    }
}

impl fmt::Debug for EnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}
