//! The functions of the crate root: `spawn`, `yield_now` and others, for the runtime of the thread that calls them.

use crate::context::{self, SpawnSite};
use crate::event_loop::WorkerId;
use crate::runtime::{Runtime, spawn_blocking_in, spawn_in, spawn_local_in, spawn_on_in};
use crate::task::join::JoinHandle;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

/// Creates a runtime, runs a future on it ([`Runtime::block_on`]), and shuts it down when the future ends.
///
/// Tasks that have not ended by then are dropped, and blocking work that is running is waited for, as with the drop of a [`Runtime`]. Await the tasks in the future, or use a `Runtime` of your own and [`drain`](Runtime::drain) it.
///
/// # Panics
///
/// If the threads cannot be started, inside a task, and if the future panics.
///
/// # Examples
///
/// ```
/// assert_eq!(tasuki_rt::run(async { 1 + 1 }), 2);
/// ```
#[track_caller]
pub fn run<F: Future>(future: F) -> F::Output {
    Runtime::new().expect("a default runtime can be made").block_on(future)
}

/// Spawns a task on the runtime of this thread; see [`Runtime::spawn`].
///
/// # Panics
///
/// Where there is no runtime.
///
/// # Examples
///
/// ```
/// tasuki_rt::run(async {
///     assert_eq!(tasuki_rt::spawn(async { 3 }).await.unwrap(), 3);
/// });
/// ```
#[doc(alias = "co_spawn")]
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let site = SpawnSite::here();
    // A refused future is dropped afterwards: no foreign code runs while the context is looked at. With spans a subscriber is asked, which is foreign.
    #[cfg(not(feature = "tracing"))]
    let spawned = context::shared("spawn", |shared| spawn_in(shared, future, site));
    #[cfg(feature = "tracing")]
    let spawned = spawn_in(&context::shared("spawn", std::sync::Arc::clone), future, site);
    spawned.handle()
}

/// Spawns a task on a worker of the runtime of this thread; see [`Runtime::spawn_on`].
///
/// # Panics
///
/// Where there is no runtime, and if it has no such worker.
///
/// # Examples
///
/// ```
/// use tasuki_rt::WorkerId;
///
/// tasuki_rt::run(async {
///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async { *std::rc::Rc::new(9) });
///     assert_eq!(task.await.unwrap(), 9);
/// });
/// ```
#[doc(alias = "co_spawn_static")]
#[track_caller]
pub fn spawn_on<C, F>(worker: WorkerId, make: C) -> JoinHandle<F::Output>
where
    C: FnOnce() -> F + Send + 'static,
    F: Future<Output: Send + 'static> + 'static,
{
    let (site, shared) = (SpawnSite::here(), context::shared("spawn_on", Arc::clone));
    spawn_on_in(&shared, worker, make, site)
}

/// Spawns a task on the worker that calls it; see [`Runtime::spawn_local`].
///
/// # Panics
///
/// On a thread that is no worker, the one in [`Runtime::block_on`](crate::Runtime::block_on) included; in [`LocalRuntime::block_on`](crate::LocalRuntime::block_on) it is one.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
///
/// tasuki_rt::run(async {
///     let outer = tasuki_rt::spawn_on(tasuki_rt::WorkerId::new(0), || async {
///         *tasuki_rt::spawn_local(async { Rc::new(8) }).await.unwrap()
///     });
///     assert_eq!(outer.await.unwrap(), 8);
/// });
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: 'static> + 'static,
{
    let (site, shared) = (SpawnSite::here(), context::shared("spawn_local", Arc::clone));
    spawn_local_in(&shared, future, site)
}

/// Runs a closure that may block, on a thread made for that; see [`Runtime::spawn_blocking`].
///
/// # Panics
///
/// Where there is no runtime.
///
/// # Examples
///
/// ```
/// tasuki_rt::run(async {
///     assert_eq!(tasuki_rt::spawn_blocking(|| 4).await.unwrap(), 4);
/// });
/// ```
#[track_caller]
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let (site, shared) = (SpawnSite::here(), context::shared("spawn_blocking", Arc::clone));
    spawn_blocking_in(&shared, work, site)
}

/// Calls `f` with each worker of the runtime of this thread; see [`Runtime::for_each_worker`].
///
/// # Panics
///
/// Where there is no runtime.
///
/// # Examples
///
/// ```
/// tasuki_rt::run(async {
///     tasuki_rt::for_each_worker(|worker| println!("{worker}"));
/// });
/// ```
#[track_caller]
pub fn for_each_worker(f: impl FnMut(WorkerId)) {
    let (id, workers) = context::shared("for_each_worker", |shared| (shared.id, shared.workers()));
    (0..workers).map(|index| WorkerId::of(id, index)).for_each(f);
}

/// Yields: the task goes to the end of its queue, behind the other tasks that are ready there.
///
/// The queue is that of its worker, or of the pinned tasks of its worker. A worker takes tasks from several queues in turns, so not every ready task of the runtime runs first. The
/// future of a `block_on` is in no queue: it is polled again at once; that of a `LocalRuntime` when its thread has looked for other work.
///
/// # Cancel safety
///
/// Dropping it changes nothing: the task has been woken, and runs again.
///
/// # Examples
///
/// ```
/// tasuki_rt::run(async { tasuki_rt::yield_now().await });
/// ```
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        // In a simulation, which cannot know it by the waker where a combinator gives its parts wakers of their own.
        context::simulation(|sim| sim.yields());
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Yields if this poll has used up its [budget](crate#the-budget-a-task-that-never-waits), and takes one operation from it otherwise.
///
/// Await it in loops that compute. Operations of `tasuki` and of this crate are counted by themselves.
///
/// # Cancel safety
///
/// Dropping it changes nothing.
///
/// # Examples
///
/// ```
/// tasuki_rt::run(async {
///     let mut sum = 0_u64;
///     for n in 0..1000 {
///         sum += n;
///         tasuki_rt::checkpoint().await;
///     }
///     assert_eq!(sum, 499_500);
/// });
/// ```
#[doc(alias = "consume_budget")]
pub async fn checkpoint() {
    context::charge().await;
}
