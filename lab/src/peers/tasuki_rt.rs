//! tasuki-rt: the runtime that knows its locks.

use crate::peer::{Kind, TaskRuntime};
use crate::workload::stage::{self, Stage};
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;
use tasuki_rt::{JoinError, JoinHandle, Resume, Runtime};

/// One subject per number of workers.
macro_rules! subject {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $runtime:expr) => {
        $(#[$doc])*
        pub(crate) struct $subject;

        impl TaskRuntime for $subject {
            const NAME: &'static str = $name;
            const KIND: Kind = Kind::Ours;
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
                tasuki_rt::spawn(future)
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
                tasuki_rt::yield_now()
            }

            #[inline]
            fn sleep(time: Duration) -> impl Future + Send {
                tasuki_rt::sleep(time)
            }
        }
    };
}

subject!(
    /// Two workers.
    TasukiTwo, "tasuki-rt-2", Stage::tasuki(Resume::Next)
);
subject!(
    /// One worker.
    TasukiOne, "tasuki-rt-1", one_worker()
);

fn one_worker() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| stage::start_tasuki(1, Resume::Next))
}
