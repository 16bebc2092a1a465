//! The runtimes with two threads on which workloads run, each thread on a processor of its own; started when first needed.

use crate::placement::pin_nth;
use async_executor::Executor;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tasuki_rt::Resume;
use tokio::runtime::{Builder, EnterGuard, Runtime};

/// Threads of each runtime.
pub(crate) const WORKERS: usize = 2;

/// A runtime of two threads.
#[derive(Clone, Copy)]
pub(crate) enum TwoThreadRuntime {
    /// tokio's work-stealing scheduler.
    Tokio,
    /// async-executor, run by two threads.
    AsyncExecutor,
    /// tasuki-rt, with a place for the new owner of a lock.
    Tasuki(Resume),
}

impl TwoThreadRuntime {
    /// Those of the peers.
    pub(crate) const ALL: [TwoThreadRuntime; 2] = [TwoThreadRuntime::Tokio, TwoThreadRuntime::AsyncExecutor];

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TwoThreadRuntime::Tokio => "tokio-2",
            TwoThreadRuntime::AsyncExecutor => "async-executor-2",
            TwoThreadRuntime::Tasuki(Resume::Next) => "tasuki-rt-next",
            TwoThreadRuntime::Tasuki(Resume::Local) => "tasuki-rt-local",
            TwoThreadRuntime::Tasuki(Resume::Global) => "tasuki-rt-global",
        }
    }

    /// Makes this thread one of tokio's, for what asks for its runtime.
    pub(crate) fn enter_tokio() -> EnterGuard<'static> {
        Self::tokio().enter()
    }

    /// Starts a task.
    pub(crate) fn spawn(self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            TwoThreadRuntime::Tokio => drop(Self::tokio().spawn(task)),
            TwoThreadRuntime::AsyncExecutor => Self::async_executor().spawn(task).detach(),
            TwoThreadRuntime::Tasuki(resume) => drop(Self::tasuki(resume).spawn(task)),
        }
    }

    /// tokio, one worker per processor.
    pub(crate) fn tokio() -> &'static Runtime {
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
    pub(crate) fn async_executor() -> &'static Executor<'static> {
        static EXECUTOR: OnceLock<&'static Executor<'static>> = OnceLock::new();
        EXECUTOR.get_or_init(|| {
            let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
            start_threads(|| executor.run(std::future::pending::<()>()));
            executor
        })
    }

    /// tasuki-rt, one worker per processor.
    pub(crate) fn tasuki(resume: Resume) -> &'static tasuki_rt::Runtime {
        static RUNTIMES: [OnceLock<tasuki_rt::Runtime>; 3] = [const { OnceLock::new() }; 3];
        RUNTIMES[resume as usize].get_or_init(|| start_tasuki(WORKERS, resume))
    }
}

/// Starts a runtime of ours, its workers pinned.
pub(crate) fn start_tasuki(workers: usize, resume: Resume) -> tasuki_rt::Runtime {
    let runtime =
        tasuki_rt::Runtime::builder().workers(workers).resume(resume).build().expect("a valid description");
    let mut pinned = Vec::new();
    runtime
        .for_each_worker(|id| pinned.push(runtime.spawn_on(id, move || async move { pin_nth(id.index()) })));
    runtime.block_on(async {
        for task in pinned {
            task.await.expect("pinning does not panic");
        }
    });
    runtime
}

/// Starts two pinned threads that run the future of an executor.
pub(crate) fn start_threads<F: Future>(run: impl Fn() -> F + Copy + Send + 'static) {
    for worker in 0..WORKERS {
        std::thread::spawn(move || {
            pin_nth(worker);
            futures_lite::future::block_on(run());
        });
    }
}
