//! An M:N runtime that knows its locks.
//!
//! Worker threads run tasks, steal from each other, and sleep on [`tasuki::Parker`]. Every worker is also an event loop:
//! pinned tasks, which need not be `Send`, live and die on its thread. A lock passed from task to task by a primitive of
//! `tasuki` makes the new owner run next on the same worker. Timers are kept by the workers themselves, and serve
//! the `.timeout()` of every primitive.
//!
//! | I want | use |
//! |---|---|
//! | to run a future, with workers behind it | [`run`], [`Runtime::block_on`], `#[tasuki_rt::main]` |
//! | a task | [`spawn`] |
//! | a task on a given worker | [`spawn_on`], [`spawn_local`] |
//! | to call something that blocks | [`spawn_blocking`] |
//! | many tasks, one result at a time | [`JoinSet`] |
//! | to wait for a time | [`sleep`], [`timeout`], [`interval`] |
//! | to return to a thread | [`EventLoop`], [`LoopMutex`] |
//! | to test under many schedules | [`testing`], `#[tasuki_rt::test(simulate)]` |
//!
//! # What a loop without waiting does
//!
//! A task that never waits keeps its worker. So whatever is ready at once is counted, locks that are free, signals that are set and what this
//! crate offers, and after 128 of them in one poll, or fewer once they have taken half a millisecond, the next one yields, once. It does nothing before: no
//! lock is held during the yield. A loop that awaits nothing of the kind should await a [`checkpoint`] now and then.
//!
//! # Features
//!
//! * `macros` (default): the attributes `main` and `test`.
//!
//! # Examples
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

mod blocking;
mod budget;
mod builder;
mod context;
mod error;
mod event_loop;
mod functions;
mod loop_mutex;
#[cfg(feature = "macros")]
mod macros;
mod runtime;
mod scheduler;
mod shim;
mod task;
pub mod testing;
mod time;

pub use builder::{Builder, Resume};
pub use error::{JoinError, LoopEnded, NotOnEventLoop, ShutdownError};
pub use event_loop::{EventLoop, WorkerId};
pub use functions::{
    checkpoint, for_each_worker, run, spawn, spawn_blocking, spawn_local, spawn_on, yield_now,
};
#[doc(hidden)]
pub use loop_mutex::EventLoops;
pub use loop_mutex::{
    LoopLock, LoopLockOwned, LoopMutex, LoopMutexGuard, MappedLoopMutexGuard, OwnedLoopMutexGuard,
    OwnedMappedLoopMutexGuard,
};
#[cfg(feature = "macros")]
pub use macros::{main, test};
pub use runtime::Runtime;
pub use task::join::JoinHandle;
pub use task::set::JoinSet;
pub use tasuki::Elapsed;
pub use tasuki::runtime::{Sleep, TaskId};
pub use time::{Interval, interval, now, sleep, sleep_until, timeout};

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail.md")]
mod refused {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
