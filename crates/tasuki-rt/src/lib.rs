//! A runtime for async Rust: many tasks on a few worker threads, which steal work from each other.
//!
//! ```
//! use std::sync::Arc;
//! use tasuki::Mutex;
//!
//! tasuki_rt::run(async {
//!     let total = Arc::new(Mutex::new(0));
//!     let mut tasks = tasuki_rt::JoinSet::new();
//!     for n in 1..=4 {
//!         let total = total.clone();
//!         tasks.spawn(async move { *total.lock().await += n });
//!     }
//!     while let Some(done) = tasks.join_next().await {
//!         done.unwrap();
//!     }
//!     assert_eq!(*total.lock().await, 10);
//! });
//! ```
//!
//! It cooperates with the primitives of [`tasuki`]: a task that is given a lock or a message by another runs next on the same worker, and the workers keep
//! the deadlines of every `.timeout()` in a task. (The future in [`Runtime::block_on`] is polled by no worker: one thread of the process, which starts with the first such deadline, keeps its deadlines: [`tasuki::Elapsed`].) Every worker is also an event loop: tasks that are not `Send` can be pinned to it, and run on its thread only.
//! The workers themselves wait for sockets ([`net`], [`io`]). [`testing`] runs a test under many schedules, with a virtual clock.
//!
//! | I want | use |
//! |---|---|
//! | to run a future, with workers behind it | [`run`], [`Runtime::block_on`], `#[tasuki_rt::main]` |
//! | all on one thread, tasks that are not `Send` | [`LocalRuntime`] |
//! | a task; a task with a name | [`spawn`]; [`TaskBuilder`] |
//! | to reach the runtime from other threads and blocking work | [`Handle`] |
//! | a task on a given worker | [`spawn_on`], [`spawn_local`] |
//! | to call something that blocks | [`spawn_blocking`] |
//! | many tasks, one result at a time | [`JoinSet`] |
//! | to wait for tasks that come and go | [`WaitGroupExt`] |
//! | to abort a task from elsewhere | [`AbortHandle`] |
//! | to wait for a time | [`sleep`], [`timeout`], [`interval`] |
//! | a value for everything that a task calls | [`task_local!`] |
//! | sockets, descriptors, signals | [`net`], [`io`], [`signal`] |
//! | to see every task, also when all workers are stuck | [`Runtime::dump`] (release builds need the feature `inspect`) |
//! | to run a closure on the thread of a worker; a mutex whose owner stays on its worker | [`EventLoop`]; [`LoopMutex`] |
//! | to test under many schedules | [`testing`], `#[tasuki_rt::test(simulate)]` |
//!
//! # The budget: a task that never waits
//!
//! A task that never waits keeps its worker from running other tasks. Therefore operations that are ready at once (locks that are free, signals that are set, the
//! functions of this crate) are counted. After 128 of them in one poll, or fewer once they have taken half a millisecond, the next operation yields
//! once, before it does anything: it does not hold its lock during the yield. (The half millisecond begins after the 16th operation: [`Runtime`](Runtime#order).) A loop that awaits no such operation should await a [`checkpoint`] now and then.
//!
//! # Features
//!
//! * `net`, on by default: [`net`], [`io`] and [`signal`]. Switch it off on wasm32, which has no sockets (and where making a runtime is an error).
//! * `tokio-io`: the streams of [`net`] have tokio's `AsyncRead` and `AsyncWrite`.
//! * `hyper`: the streams of [`net`] have hyper's `rt::Read` and `rt::Write`; also `io::HyperTimer` and `io::HyperExecutor`.
//! * `macros`: the attributes `#[tasuki_rt::main]` and `#[tasuki_rt::test]`. With it `use tasuki_rt::*` makes `#[test]` ambiguous: import by name.
//! * `tracing`: a span for each task, `runtime.spawn` at the level `TRACE`, entered while the task is polled; its fields are `kind` (`task`, `local`, `blocking`), `task.name` ([`TaskBuilder`]),
//!   `task.id` and where it was spawned. Also `tasuki/tracing`: each report of a deadlock is an event.
//! * `console`: tasks, locks and waits are spans that tokio-console understands, without `tokio_unstable`; implies `tracing` and `tasuki/inspect`, not the feature `inspect` of this crate.
//! * `inspect`: release builds note locks, waits and tasks, as debug builds always do, and print deadlocks while the program hangs (`tasuki::inspect`); [`Runtime::dump`] lists
//!   the tasks.

mod blocking;
mod budget;
mod builder;
mod context;
mod error;
mod event_loop;
mod functions;
mod handle;
#[cfg(feature = "net")]
pub mod io;
mod local_runtime;
mod loop_mutex;
#[cfg(feature = "macros")]
mod macros;
mod metrics;
#[cfg(feature = "net")]
pub mod net;
mod platform;
mod runtime;
mod scheduler;
mod shim;
#[cfg(feature = "net")]
pub mod signal;
mod task;
mod task_local;
pub mod testing;
mod threads;
mod time;
mod wait_group_ext;

pub use builder::{Builder, Resume};
pub use error::{JoinError, LoopEnded, NoRuntime, NotInScope, NotOnEventLoop, ShutdownError};
pub use event_loop::{EventLoop, WorkerId};
pub use functions::{
    checkpoint, for_each_worker, run, spawn, spawn_blocking, spawn_local, spawn_on, yield_now,
};
pub use handle::{EnterGuard, Handle};
pub use local_runtime::LocalRuntime;
#[doc(hidden)]
pub use loop_mutex::EventLoops;
pub use loop_mutex::{
    LoopLock, LoopLockOwned, LoopMutex, LoopMutexGuard, MappedLoopMutexGuard, OwnedLoopMutexGuard,
    OwnedMappedLoopMutexGuard,
};
#[cfg(feature = "macros")]
pub use macros::{main, test};
pub use metrics::{Metrics, PollTimes, WorkerMetrics};
pub use runtime::Runtime;
pub use task::abort::AbortHandle;
pub use task::builder::TaskBuilder;
pub use task::dump::{Dump, SpawnPlace, TaskDump, TaskState};
pub use task::join::JoinHandle;
pub use task::set::JoinSet;
pub use task_local::{Scoped, TaskLocal};
pub use tasuki::Elapsed;
pub use tasuki::runtime::{Sleep, TaskId};
pub use time::{Interval, MissedTickBehavior, interval, interval_at, now, sleep, sleep_until, timeout};
pub use wait_group_ext::WaitGroupExt;

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail.md")]
mod refused {}

#[cfg(all(doctest, feature = "macros"))]
#[doc = include_str!("../tests/compile_fail_attributes.md")]
mod refused_attributes {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
