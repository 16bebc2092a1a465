//! The runtimes of two threads, each thread on a processor of its own; started when first needed.

use crate::placement::pin_nth;
use async_executor::Executor;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Builder, EnterGuard, Runtime};

/// Threads of each runtime.
pub(crate) const WORKERS: usize = 2;

/// A runtime of two threads.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    /// tokio's work-stealing scheduler.
    Tokio,
    /// async-executor, run by two threads.
    AsyncExecutor,
}

impl Stage {
    /// Both of them.
    pub(crate) const ALL: [Stage; 2] = [Stage::Tokio, Stage::AsyncExecutor];

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::Tokio => "tokio-2",
            Stage::AsyncExecutor => "async-executor-2",
        }
    }

    /// Makes this thread one of tokio's, for what asks for its runtime.
    pub(crate) fn enter_tokio() -> EnterGuard<'static> {
        tokio_runtime().enter()
    }

    /// Starts a task.
    pub(crate) fn spawn(self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Stage::Tokio => drop(tokio_runtime().spawn(task)),
            Stage::AsyncExecutor => executor().spawn(task).detach(),
        }
    }
}

/// tokio, one worker per processor.
fn tokio_runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let started = AtomicUsize::new(0);
        Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_time()
            .on_thread_start(move || pin_nth(started.fetch_add(1, Ordering::Relaxed)))
            .build()
            .expect("threads can be started")
    })
}

/// async-executor, one thread per processor.
fn executor() -> &'static Executor<'static> {
    static EXECUTOR: OnceLock<&'static Executor<'static>> = OnceLock::new();
    EXECUTOR.get_or_init(|| {
        let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
        for worker in 0..WORKERS {
            std::thread::spawn(move || {
                pin_nth(worker);
                futures_lite::future::block_on(executor.run(std::future::pending::<()>()));
            });
        }
        executor
    })
}
