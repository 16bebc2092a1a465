//! tokio's runtimes: work stealing, and one thread.

use crate::peer::TaskRuntime;
use crate::workload::stage::Stage;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinHandle};

/// One subject per flavour.
macro_rules! subject {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $runtime:expr) => {
        $(#[$doc])*
        pub(crate) struct $subject;

        impl TaskRuntime for $subject {
            const NAME: &'static str = $name;
            type Joined<T: Send + 'static> = Result<T, JoinError>;
            type Task<T: Send + 'static> = JoinHandle<T>;

            fn block_on<F: Future>(future: F) -> F::Output {
                $runtime.block_on(future)
            }

            #[inline]
            fn spawn<F>(future: F) -> JoinHandle<F::Output>
            where
                F: Future<Output: Send + 'static> + Send + 'static,
            {
                tokio::spawn(future)
            }

            #[inline]
            fn output<T: Send + 'static>(joined: Result<T, JoinError>) -> T {
                joined.expect("the task ended well")
            }

            #[inline]
            fn detach<T: Send + 'static>(task: JoinHandle<T>) {
                drop(task);
            }

            #[inline]
            fn yield_now() -> impl Future + Send {
                tokio::task::yield_now()
            }

            #[inline]
            fn sleep(time: Duration) -> impl Future + Send {
                tokio::time::sleep(time)
            }
        }
    };
}

subject!(
    /// `multi_thread` with two workers.
    TokioTwo, "tokio-2", Stage::tokio()
);
subject!(
    /// `current_thread`: the thread of `block_on` runs all tasks.
    TokioCurrent, "tokio-current", current_thread()
);

fn current_thread() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_current_thread().enable_time().build().expect("a runtime without threads of its own")
    })
}
