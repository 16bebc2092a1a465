//! `Runtime`, the handle by which a program starts workers, spawns tasks on them and shuts them down.
//!
//! What the workers share is [`Shared`], which a [`Handle`] holds as well; only the `Runtime` shuts them down.

use crate::builder::Builder;
use crate::context::{self, Context, SpawnSite, ThreadRole};
use crate::error::ShutdownError;
use crate::event_loop::WorkerId;
use crate::handle::{EnterGuard, Handle};
use crate::metrics::Metrics;
use crate::scheduler::Shared;
use crate::task::dump::Dump;
use crate::task::join::JoinHandle;
use crate::task::{self, Spawned};
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tasuki::Parker;
use tasuki::runtime::without_limits;
use tasuki::task::TaskId;

/// A runtime: worker threads that run tasks.
///
/// A task made by [`spawn`](Self::spawn) may run on any worker; a pinned one ([`spawn_on`](Self::spawn_on), [`spawn_local`](Self::spawn_local)) stays on the worker it was given to, and need not be `Send`. Every worker
/// is an event loop with its own timers. The workers sleep when there is nothing to do.
///
/// # Examples
///
/// ```
/// use tasuki_rt::Runtime;
///
/// let runtime = Runtime::builder().workers(2).build().unwrap();
/// let sum = runtime.block_on(async {
///     let tasks: Vec<_> = (0..10).map(|n| tasuki_rt::spawn(async move { n * n })).collect();
///     let mut sum = 0;
///     for task in tasks {
///         sum += task.await.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 285);
/// ```
///
/// # Start
///
/// The worker threads start with the first [`block_on`](Self::block_on) or [`drain`](Self::drain), or with [`start`](Self::start); tasks that were spawned before run from then on. A program that never calls
/// `block_on`, and only spawns from outside, has to call [`start`](Self::start). (tokio starts its threads when the runtime is built.)
///
/// # Order
///
/// A worker runs the tasks of each of its queues first come, first served. A task that was given a lock or a message goes first (see
/// [`Resume`](crate::Resume)), at most 32 times or for 200 µs in a row. Nothing is promised between workers.
///
/// A task that finds everything ready, free locks included, yields after 128 operations or half a millisecond, without losing its place in any queue. The clock is first read after the 16th operation of a poll, and the half
/// millisecond begins there: a task that works for 1 ms between two operations yields after 17 of them. For 50 ms after such a poll the time of every poll on that worker begins with the poll, so it yields after two from then on.
///
/// # Cancel
///
/// [`JoinHandle::abort`] ends a task at its next turn; dropping its handle does not. Shutting down, by
/// [`shutdown_timeout`](Self::shutdown_timeout) or by dropping the runtime, drops every task that has not ended, pinned tasks on their
/// own threads; [`drain`](Self::drain) lets them end first.
///
/// # Panic
///
/// A panic in a task ends that task; its handle reports it. A panic in the future of `block_on` comes out of
/// `block_on`.
///
/// # Memory ordering
///
/// A spawn happens before the first poll, the end of a task before what follows the await of its handle.
///
/// # Re-entrancy
///
/// Tasks may spawn, abort and await. A worker must not be blocked: inside a task `block_on` and `.block()` panic, and shutting down
/// is an error.
///
/// # Limits
///
/// 65,535 workers; as many tasks as there is memory for.
///
/// # Futurelock
///
/// The runtime polls tasks, not futures: what a task holds and does not poll is as stuck here as elsewhere. See
/// [`tasuki::Mutex`].
///
/// # Fork
///
/// A runtime that was started, or used for a socket, stays in the parent: its threads are not in the child of a fork. There `start`, `block_on` and the shutdown are errors at once, and the drop does nothing: its tasks
/// live in the parent. Use nothing else of it in the child; a socket may be dropped, or taken out (`into_std`), of which the parent notices nothing. A runtime that was neither started nor used for a socket works in the
/// child, and so does one that is made there.
///
/// # When to use something else
///
/// * Everything on one thread, or tasks that are not `Send`: a [`LocalRuntime`](crate::LocalRuntime). Here the thread in `block_on` is no worker, and its future is woken from another thread.
/// * A single future that only waits for locks and channels: `.block()` of the wait needs no runtime.
/// * Tests: [`testing`](crate::testing).
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
}

impl Runtime {
    /// Creates a runtime with one worker for each processor that is available to the program.
    ///
    /// # Errors
    ///
    /// Whatever [`Builder::build`] says.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.block_on(async { 7 }), 7);
    /// ```
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Returns a builder, to configure a runtime before it is created.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().workers(1).build().unwrap();
    /// # drop(runtime);
    /// ```
    #[doc(alias = "new_multi_thread")]
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn made_of(builder: &Builder) -> Self {
        let (shared, unstarted) = Shared::new(builder);
        shared.threads.keep(unstarted);
        Self { shared }
    }

    /// Returns a handle to the runtime, for other threads and for blocking work.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let handle = runtime.handle();
    /// let task = std::thread::spawn(move || handle.spawn(async { 5 })).join().unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 5);
    /// ```
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }

    /// Makes this the runtime of the calling thread until the guard is dropped; see [`Handle::enter`].
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let guard = runtime.enter();
    /// let task = tasuki_rt::spawn(async { 5 });
    /// drop(guard);
    /// assert_eq!(runtime.block_on(task).unwrap(), 5);
    /// ```
    pub fn enter(&self) -> EnterGuard {
        EnterGuard::new(&self.shared)
    }

    /// Returns how many workers the runtime has.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().workers(2).build().unwrap();
    /// assert_eq!(runtime.workers(), 2);
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
    /// drop(runtime.spawn(std::future::pending::<()>()));
    /// assert_eq!(runtime.tasks(), 1);
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
    /// assert_eq!(runtime.metrics().tasks(), 0);
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
    /// assert_eq!(runtime.dump().total, 0);
    /// ```
    #[doc(alias = "taskdump")]
    pub fn dump(&self) -> Dump {
        self.shared.dump()
    }

    /// Starts the threads, if they have not been started. Tasks may have been spawned before.
    ///
    /// # Errors
    ///
    /// Whatever the system says when it has no thread to give; those that did start end again, and the runtime has shut down. An error too if it had shut down before.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let task = runtime.spawn(async { 1 });
    /// runtime.start().unwrap();
    /// # while !task.is_finished() { std::thread::yield_now() }
    /// ```
    pub fn start(&self) -> io::Result<()> {
        if self.shared.is_closing() {
            return Err(io::Error::other(
                "the runtime has shut down, also by a start that failed: make another",
            ));
        }
        self.shared.start()
    }

    /// Runs a future on this thread, while the workers run what it spawns.
    ///
    /// The future is polled and dropped by this thread, which is not an event loop: it can spawn, not `spawn_local`. After a shutdown it runs the future all the
    /// same; what that spawns is refused.
    ///
    /// # Panics
    ///
    /// Inside a task: it would stop the worker. If the threads cannot be started. If the future panics.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let answer = runtime.block_on(async { tasuki_rt::spawn(async { 42 }).await.unwrap() });
    /// assert_eq!(answer, 42);
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on_in(&self.shared, future)
    }

    /// Spawns a task that any worker may run, once the runtime [has started](Self#start).
    ///
    /// It runs by itself: drop the handle to let it, keep the handle to await or abort it. On a runtime that has shut down
    /// the future is dropped at once, and the handle says so.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let task = runtime.spawn(async { "done" });
    /// assert_eq!(runtime.block_on(task).unwrap(), "done");
    /// ```
    #[doc(alias = "co_spawn")]
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let site = SpawnSite::here();
        spawn_in(&self.shared, future, site).handle()
    }

    /// Spawns a task on one worker, where its future is made, polled and dropped. The future need not be `Send`.
    ///
    /// # Panics
    ///
    /// If there is no such worker, or it is one of another runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use tasuki_rt::{EventLoop, Runtime, WorkerId};
    ///
    /// let runtime = Runtime::builder().workers(2).build().unwrap();
    /// let task = runtime.spawn_on(WorkerId::new(1), || async {
    ///     let here = Rc::new(EventLoop::current().unwrap().id());
    ///     tasuki_rt::yield_now().await;
    ///     *here
    /// });
    /// assert_eq!(runtime.block_on(task).unwrap(), WorkerId::new(1));
    /// ```
    #[doc(alias = "co_spawn_static")]
    #[track_caller]
    pub fn spawn_on<C, F>(&self, worker: WorkerId, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        let site = SpawnSite::here();
        spawn_on_in(&self.shared, worker, make, site)
    }

    /// Spawns a task on the worker that calls it; neither the future nor its output need be `Send`.
    ///
    /// # Panics
    ///
    /// On a thread that is not a worker of this runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use std::sync::Arc;
    /// use tasuki_rt::{Runtime, WorkerId};
    ///
    /// let runtime = Arc::new(Runtime::new().unwrap());
    /// let inner = runtime.clone();
    /// let task = runtime.spawn_on(WorkerId::new(0), || async move {
    ///     *inner.spawn_local(async { Rc::new(5) }).await.unwrap()
    /// });
    /// assert_eq!(runtime.block_on(task).unwrap(), 5);
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let site = SpawnSite::here();
        spawn_local_in(&self.shared, future, site)
    }

    /// Runs a closure that may block, on a thread made for that.
    ///
    /// It begins at once, also before [`start`](Self::start) and while all workers are busy, unless [`max_blocking_threads`](Builder::max_blocking_threads) threads are busy: then it waits for one of them. Closures begin in the
    /// order they were spawned in. It may use the runtime: `spawn`, `spawn_blocking`, `block_on`.
    ///
    /// An [`abort`](JoinHandle::abort) before it begins drops the closure, when a thread would have begun it. A closure that is running is not interrupted and keeps its result. A shutdown waits for it
    /// ([`shutdown_timeout`](Self::shutdown_timeout) with a limit), and so does the drop of the runtime; what has not begun by then is dropped.
    ///
    /// When the system refuses a thread, the closure waits for one of those that there are; when there is none, the handle gives an error ([`JoinError::is_refused`](crate::JoinError::is_refused)).
    ///
    /// A closure should not wait for another one: where no thread is left for the other, both wait for ever.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let read = runtime.spawn_blocking(|| std::fs::metadata("Cargo.toml").is_ok());
    /// assert!(runtime.block_on(read).is_ok());
    /// ```
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let site = SpawnSite::here();
        spawn_blocking_in(&self.shared, work, site)
    }

    /// Calls `f` with each worker, on this thread, before or after the start.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().workers(3).build().unwrap();
    /// let mut tasks = Vec::new();
    /// runtime.for_each_worker(|id| tasks.push(runtime.spawn_on(id, move || async move { id.index() })));
    /// # runtime.block_on(async { for (n, task) in tasks.into_iter().enumerate() { assert_eq!(task.await.unwrap(), n) } });
    /// ```
    #[doc(alias = "for_each_thread")]
    pub fn for_each_worker(&self, f: impl FnMut(WorkerId)) {
        (0..self.workers()).map(|index| WorkerId::of(self.shared.id, index)).for_each(f);
    }

    /// Waits until all tasks have ended, for at most `timeout`, and then ends the threads.
    ///
    /// While it waits, tasks and blocking work may spawn what they need to end, on any worker. A spawn from another thread, as in `block_on`, is refused ([`JoinError::is_shut_down`](crate::JoinError::is_shut_down)). Closures that were posted to an event loop are not waited
    /// for. A runtime that was not started is started for its tasks.
    ///
    /// It may be called again, and from several threads.
    ///
    /// # Errors
    ///
    /// * [`ShutdownError::TasksLeft`] when the time is over: the tasks go on, and spawns from outside are still refused. Wait again, or drop what is left: by
    ///   [`shutdown_timeout`](Self::shutdown_timeout), or with the runtime.
    /// * [`ShutdownError::InsideTask`], with nothing done, inside a task of any runtime, and on every thread of this one, also in a closure of `spawn_blocking`, a hook or the destructor of a thread-local variable: the
    ///   end of the runtime waits for them.
    ///
    /// # Panics
    ///
    /// If there are tasks and the threads cannot be started.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tasuki_rt::{Runtime, ShutdownError, sleep};
    ///
    /// let runtime = Runtime::new().unwrap();
    /// drop(runtime.spawn(std::future::pending::<()>()));
    /// let order = runtime.spawn(sleep(Duration::from_millis(5)));
    /// // One of the tasks never ends: it is dropped when the other has ended.
    /// while runtime.drain(Duration::from_millis(100)) == Err(ShutdownError::TasksLeft) {
    ///     if order.is_finished() {
    ///         runtime.shutdown_timeout(Duration::from_secs(5)).unwrap();
    ///     }
    /// }
    /// assert!(order.is_finished() && runtime.tasks() == 0);
    /// ```
    #[track_caller]
    pub fn drain(&self, timeout: Duration) -> Result<(), ShutdownError> {
        if context::is_waited_for(&self.shared) {
            return Err(ShutdownError::InsideTask);
        }
        if self.shared.is_elsewhere() {
            return Err(ShutdownError::TasksLeft);
        }
        let deadline = Instant::now().checked_add(timeout);
        self.shared.task_counts.begin_drain();
        if self.tasks() > 0 {
            // Not an error if a shutdown has begun meanwhile, which ends the tasks.
            self.shared.start().expect("the threads of the runtime must start");
        }
        if !self.shared.task_counts.drain(deadline) {
            return Err(ShutdownError::TasksLeft);
        }
        // All tasks have ended; a thread that is still in a posted closure ends after it, waited for or not.
        let left =
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let _ = self.shutdown_timeout(left);
        Ok(())
    }

    /// Drops all tasks, pinned ones on their own workers, ends the threads, and waits for that for at most `timeout`.
    ///
    /// To let the tasks end first, call [`drain`](Self::drain). Dropping the runtime is the same as this function without a limit; where this function is an error, the drop ends the runtime all the same, and does not
    /// wait.
    ///
    /// A task that is being polled is dropped when its poll returns. If another worker is free, that poll holds up no other tasks but those that are pinned to its own worker. Blocking work that is running is waited for, and so are the hooks of [`on_thread_stop`](Builder::on_thread_stop). `timeout` does not limit
    /// destructors of thread-local variables: when the rest is over in time they are waited for, however long they take, unless another caller waits for them already. Calling it again waits again.
    ///
    /// # Errors
    ///
    /// * [`ShutdownError::TimedOut`] if a task, blocking work or a hook did not return in time, or another caller still waits for the destructors: the shutdown goes on in the background.
    /// * [`ShutdownError::InsideTask`], with nothing done, inside a task of any runtime, and on every thread of this one ([`drain`](Self::drain) names them).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// drop(runtime.spawn(std::future::pending::<()>()));
    /// runtime.shutdown_timeout(Duration::from_secs(5)).unwrap();
    /// assert_eq!(runtime.tasks(), 0);
    /// ```
    #[doc(alias = "shutdown_background")]
    pub fn shutdown_timeout(&self, timeout: Duration) -> Result<(), ShutdownError> {
        if context::is_waited_for(&self.shared) {
            return Err(ShutdownError::InsideTask);
        }
        if self.shared.is_elsewhere() {
            return Err(ShutdownError::TimedOut);
        }
        self.shared.close_all();
        if self.shared.wait_for_threads(timeout) { Ok(()) } else { Err(ShutdownError::TimedOut) }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A worker cannot wait for itself: the workers end by themselves.
        if self.shutdown_timeout(Duration::MAX).is_err() && !self.shared.is_elsewhere() {
            self.shared.close_all();
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("workers", &self.workers())
            .field("tasks", &self.tasks())
            .finish_non_exhaustive()
    }
}

#[track_caller]
pub(crate) fn spawn_in<F>(shared: &Arc<Shared>, future: F, site: SpawnSite<'_>) -> Spawned<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    // SAFETY: the future and its output are `Send`.
    unsafe { task::spawn(shared, None, future, site) }
}

#[track_caller]
pub(crate) fn spawn_on_in<C, F>(
    shared: &Arc<Shared>,
    worker: WorkerId,
    make: C,
    site: SpawnSite<'_>,
) -> JoinHandle<F::Output>
where
    C: FnOnce() -> F + Send + 'static,
    F: Future<Output: Send + 'static> + 'static,
{
    let (index, workers) = (worker.index(), shared.workers());
    assert!(worker.may_be_of(shared.id), "{worker} is one of another runtime: ask this one for its workers");
    assert!(index < workers, "there is no worker {index}: the runtime has {workers}, counted from 0");
    // SAFETY: pinned; before the first poll there is only the closure, which is `Send`. The output is `Send`.
    unsafe { task::spawn(shared, Some(index), async move { make().await }, site) }.handle()
}

#[track_caller]
pub(crate) fn spawn_local_in<F>(shared: &Arc<Shared>, future: F, site: SpawnSite<'_>) -> JoinHandle<F::Output>
where
    F: Future<Output: 'static> + 'static,
{
    let here = context::with_own(shared, |context| context.and_then(Context::event_loop));
    let here = here.expect(
        "`spawn_local` needs an event loop to stay on: call it in a task of this runtime, or use `spawn_on`",
    );
    // SAFETY: pinned to the worker whose thread this is. A handle of an output that is not `Send` stays here too.
    unsafe { task::spawn(shared, Some(here), future, site) }.handle()
}

#[track_caller]
pub(crate) fn spawn_blocking_in<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce() -> T + Send + 'static,
    site: SpawnSite<'_>,
) -> JoinHandle<T> {
    if context::simulates(shared) {
        // One thread only, in an order that can be repeated.
        return spawn_in(shared, async move { work() }, site).handle();
    }
    task::spawn_blocking(shared, work, site)
}

#[track_caller]
pub(crate) fn block_on_in<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    assert!(
        !context::is_worker(),
        "`block_on` inside a task would stop its worker: `.await` the future, or use `spawn_blocking`"
    );
    shared.start().expect("the threads of the runtime must start");
    let context = Context::new(shared.clone(), ThreadRole::Outside);
    let parker = Parker::new();
    let waker = Waker::from(parker.unparker());
    let id = TaskId::fresh();
    let run = || {
        let _end = task::EndsTask(id);
        // Also dropped in its context.
        let mut future = pin!(Some(future));
        loop {
            let mut cx = std::task::Context::from_waker(&waker);
            let poll = context.poll(id, || {
                context::polled_with(&waker);
                future.as_mut().as_pin_mut().expect("dropped after the last poll").poll(&mut cx)
            });
            if let Poll::Ready(output) = poll {
                context.poll(id, || future.set(None));
                return output;
            }
            task::poll_ended(id, &waker);
            parker.park();
        }
    };
    without_limits(|| context.enter(run))
}
