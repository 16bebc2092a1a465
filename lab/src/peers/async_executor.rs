//! async-executor, with the timers of async-io, as smol has them.

use crate::peer::TaskRuntime;
use crate::workload::two_thread_runtime::{self, TwoThreadRuntime};
use async_executor::{Executor, StaticExecutor, Task};
use futures_lite::future;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

/// One subject per flavour.
macro_rules! subject {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $executor:expr, $run:expr) => {
        $(#[$doc])*
        pub(crate) struct $subject;

        impl TaskRuntime for $subject {
            const NAME: &'static str = $name;
            type Joined<T: Send + 'static> = T;
            type Task<T: Send + 'static> = Task<T>;

            fn block_on<F: Future>(future: F) -> F::Output {
                $run(future)
            }

            #[inline]
            fn spawn<F>(future: F) -> Task<F::Output>
            where
                F: Future<Output: Send + 'static> + Send + 'static,
            {
                $executor.spawn(future)
            }

            #[inline]
            fn output<T: Send + 'static>(joined: T) -> T {
                joined
            }

            #[inline]
            fn detach<T: Send + 'static>(task: Task<T>) {
                task.detach();
            }

            #[inline]
            fn yield_now() -> impl Future + Send {
                future::yield_now()
            }

            #[inline]
            fn sleep(time: Duration) -> impl Future + Send {
                async_io::Timer::after(time)
            }
        }
    };
}

subject!(
    /// `Executor`, run by two threads.
    ExecutorTwo, "async-executor-2", TwoThreadRuntime::async_executor(), started
);
subject!(
    /// `StaticExecutor`, which keeps no list of its tasks, run by two threads.
    StaticTwo, "async-executor-static-2", static_executor(), started_static
);
subject!(
    /// `Executor`, run by the thread of `block_on` alone.
    ExecutorOne, "async-executor-1", ALONE, alone
);

/// The one of a single thread.
static ALONE: Executor<'static> = Executor::new();

fn alone<F: Future>(future: F) -> F::Output {
    future::block_on(ALONE.run(future))
}

fn started<F: Future>(future: F) -> F::Output {
    TwoThreadRuntime::async_executor();
    future::block_on(future)
}

fn started_static<F: Future>(future: F) -> F::Output {
    static_executor();
    future::block_on(future)
}

fn static_executor() -> &'static StaticExecutor {
    static EXECUTOR: OnceLock<&'static StaticExecutor> = OnceLock::new();
    EXECUTOR.get_or_init(|| {
        let executor: &'static StaticExecutor = Executor::new().leak();
        two_thread_runtime::start_threads(|| executor.run(std::future::pending::<()>()));
        executor
    })
}
