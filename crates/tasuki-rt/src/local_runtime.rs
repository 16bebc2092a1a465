//! `LocalRuntime`: a runtime with one worker, which is the thread in its `block_on`.
//!
//! The worker is the same as that of every other runtime, with its queues, its wheel and its inbox; between two polls of the future of `block_on` it takes
//! one step, or several, one at a time, until the future is woken. It exists from the beginning to the drop of the runtime, and only its thread can reach it: the type is not `Send`. So tasks
//! that are pinned to it need not be `Send` either.

use crate::builder::Builder;
use crate::context::{self, Context, SpawnSite, ThreadRole};
use crate::event_loop::WorkerId;
use crate::handle::Handle;
use crate::runtime::{spawn_blocking_in, spawn_in, spawn_on_in};
use crate::scheduler::worker::Local;
use crate::scheduler::{Shared, shutdown};
use crate::task;
use crate::task::join::JoinHandle;
use crate::task_local::outside_of_scopes;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use tasuki::runtime::without_limits;
use tasuki::task::TaskId;

/// A runtime on the calling thread alone: its tasks run while it is in [`block_on`](Self::block_on), and need not be `Send`.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use tasuki_rt::LocalRuntime;
///
/// let runtime = LocalRuntime::new().unwrap();
/// let count = Rc::new(Cell::new(0));
/// runtime.block_on(async {
///     for _ in 0..3 {
///         let count = count.clone();
///         tasuki_rt::spawn_local(async move { count.set(count.get() + 1) }).await.unwrap();
///     }
/// });
/// assert_eq!(count.get(), 3);
/// ```
///
/// The thread in `block_on` is an event loop: [`spawn_local`](crate::spawn_local()), [`EventLoop`](crate::EventLoop) and [`LoopMutex`](crate::LoopMutex) work in its future
/// too. Everything else is as in a [`Runtime`](crate::Runtime) with one worker.
///
/// The only threads that it starts are those for blocking work. After its drop, sleeps that outlive it are kept by a thread that ends with the last of them; if the system refuses that thread, by the one that keeps the
/// deadlines of the process (if that is refused too, the drop panics).
///
/// # Between two calls of `block_on`
///
/// Tasks stay where they are, and nothing runs: no task, no posted closure, no deadline. Other threads may spawn, wake and post meanwhile ([`handle`](Self::handle)).
///
/// # Cancel
///
/// Dropping it drops all tasks, on this thread, and waits for blocking work that is running. In the child of a fork, the drop of a runtime that had threads for blocking work, or sockets, does nothing: they are the parent's.
///
/// # Fork
///
/// In the child of a fork it can be used, unless it had sockets. If it had threads for blocking work, they are in the parent: work that is spawned in the child is refused
/// ([`JoinError::is_refused`](crate::JoinError::is_refused)), work from before the fork ends in the parent only, and [`Handle::block_on`] panics.
///
/// # Panic
///
/// A panic in a task ends that task. A panic in the future of `block_on` comes out of `block_on`; the runtime can be used again.
///
/// # When to use something else
///
/// With more than one processor to use, a [`Runtime`](crate::Runtime); to test under many schedules, [`testing`](crate::testing).
#[doc(alias = "LocalSet")]
#[doc(alias = "current_thread")]
#[doc(alias = "LocalPool")]
pub struct LocalRuntime {
    /// `None` while it is dropped. Holds pointers to what only this thread may touch, so it is not `Send`.
    context: Option<Box<Context>>,
    shared: Arc<Shared>,
}

// Panics of tasks end in the tasks; that of the future of `block_on` leaves the runtime whole, to be used again.
impl UnwindSafe for LocalRuntime {}
impl RefUnwindSafe for LocalRuntime {}

impl LocalRuntime {
    /// Creates a runtime on this thread.
    ///
    /// # Errors
    ///
    /// Whatever [`Builder::build_local`] says.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::LocalRuntime::new().unwrap().block_on(async { 7 }), 7);
    /// ```
    pub fn new() -> io::Result<Self> {
        Builder::new().build_local()
    }

    pub(crate) fn made_of(builder: &Builder) -> Self {
        let (shared, mut unstarted) = Shared::new(builder);
        let worker = unstarted.pop().expect("one worker was asked for");
        let mut local = Box::new(Local::new(&shared, worker));
        local.one_step = true;
        let context = Context::new(shared.clone(), ThreadRole::Worker(local));
        Self { context: Some(Box::new(context)), shared }
    }

    /// Runs a future on this thread, and the tasks beside it, until the future ends.
    ///
    /// # Panics
    ///
    /// Inside a task, also one of another runtime. In the child of a fork, if the runtime had sockets before it. If the future panics.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::LocalRuntime::new().unwrap();
    /// let answer = runtime.block_on(async { *tasuki_rt::spawn_local(async { std::rc::Rc::new(42) }).await.unwrap() });
    /// assert_eq!(answer, 42);
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(
            !context::is_worker(),
            "`block_on` inside a task would stop its worker: `.await` the future, or use `spawn_blocking`"
        );
        assert!(
            !self.shared.sockets.are_elsewhere(),
            "the sockets of this runtime are in the process that forked: make a runtime in this one"
        );
        let context = self.context.as_deref().expect("there until the drop");
        let ThreadRole::Worker(local) = &context.role else { unreachable!("made as a worker") };
        let main = Arc::new(MainWaker { woken: AtomicBool::new(true), shared: self.shared.clone() });
        let waker = Waker::from(main.clone());
        let id = TaskId::fresh();
        let _end = EndsPoll(context);
        let run = || {
            let _task_end = task::EndsTask(id);
            // Also dropped in its context.
            let mut future = pin!(Some(future));
            loop {
                if main.take() {
                    let mut cx = std::task::Context::from_waker(&waker);
                    self.shared.remotes[0].counters.polls.count();
                    let poll = context.poll(id, || {
                        context::polled_with(&waker);
                        let poll =
                            future.as_mut().as_pin_mut().expect("dropped after the last poll").poll(&mut cx);
                        if poll.is_ready() {
                            future.set(None);
                        }
                        poll
                    });
                    if let Poll::Ready(output) = poll {
                        local.found(&context.shared);
                        return output;
                    }
                    task::poll_ended(id, &waker);
                }
                // One step. A wake that came before leaves a token: a sleep ends at once.
                outside_of_scopes(|| local.work(context));
            }
        };
        without_limits(|| context.enter(run))
    }

    /// Spawns a task on this thread; see [`spawn_local`](crate::spawn_local()). It runs when this thread is in [`block_on`](Self::block_on).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::LocalRuntime::new().unwrap();
    /// let task = runtime.spawn_local(async { std::rc::Rc::new(1) });
    /// assert_eq!(*runtime.block_on(task).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let site = SpawnSite::here();
        // SAFETY: pinned to the only worker, whose thread this is: the runtime is not `Send`.
        let spawned = unsafe { task::spawn(&self.shared, Some(0), future, site) };
        spawned.handle()
    }

    /// Spawns a task that is `Send`; see [`spawn`](crate::spawn()).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::LocalRuntime::new().unwrap();
    /// let task = runtime.spawn(async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let site = SpawnSite::here();
        spawn_in(&self.shared, future, site).handle()
    }

    /// Spawns a task by a closure that makes its future, on the only worker, which has the number 0; see [`spawn_on`](crate::spawn_on()).
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::LocalRuntime::new().unwrap();
    /// let task = runtime.spawn_on(tasuki_rt::WorkerId::new(0), || async { 1 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 1);
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

    /// Runs a closure that may block, on a thread made for that, which begins at once; see [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::LocalRuntime::new().unwrap();
    /// let work = runtime.spawn_blocking(|| 1);
    /// assert_eq!(runtime.block_on(work).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let site = SpawnSite::here();
        spawn_blocking_in(&self.shared, work, site)
    }

    /// Returns a handle to the runtime, for other threads and for blocking work. Its [`block_on`](Handle::block_on) runs a future on the thread that calls it; the tasks of this runtime
    /// run in [`LocalRuntime::block_on`] only.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::LocalRuntime::new().unwrap();
    /// let handle = runtime.handle();
    /// let task = std::thread::spawn(move || handle.spawn(async { 5 })).join().unwrap();
    /// assert_eq!(runtime.block_on(task).unwrap(), 5);
    /// ```
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }

    /// Returns how many tasks have been spawned and have not ended.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::LocalRuntime::new().unwrap().tasks(), 0);
    /// ```
    pub fn tasks(&self) -> usize {
        self.shared.task_counts.len()
    }
}

impl Drop for LocalRuntime {
    fn drop(&mut self) {
        let Some(context) = self.context.take() else { return };
        if self.shared.is_elsewhere() {
            // The child of a fork: blocking work that is waited for would not end, and the sockets are the parent's.
            return std::mem::forget(context);
        }
        self.shared.close();
        shutdown::leave_here(*context);
        self.shared.blocking.join();
    }
}

impl fmt::Debug for LocalRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRuntime").field("tasks", &self.tasks()).finish_non_exhaustive()
    }
}

/// What wakes the future of `block_on`.
struct MainWaker {
    woken: AtomicBool,
    shared: Arc<Shared>,
}

impl MainWaker {
    /// Is there a wake that was not answered by a poll?
    fn take(&self) -> bool {
        // Acquire: pairs with Release in `wake_by_ref`: what was done before the wake.
        self.woken.swap(false, Ordering::Acquire)
    }
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with Acquire in `take`.
        if !self.woken.swap(true, Ordering::Release) {
            self.shared.unpark(0);
        }
    }
}

/// Also when the future panics: the context, which is used again, polls nothing.
struct EndsPoll<'a>(&'a Context);

impl Drop for EndsPoll<'_> {
    fn drop(&mut self) {
        self.0.end_poll();
    }
}
