//! The trait that every measured runtime implements.

use super::Kind;
use std::future::Future;
use std::time::Duration;

/// A runtime of this process, started when first needed and never ended.
pub(crate) trait TaskRuntime: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// What the handle of a task gives; a peer's `Result` around the output is left as it is.
    type Joined<T: Send + 'static>: Send;
    /// The handle of a task.
    type Task<T: Send + 'static>: Future<Output = Self::Joined<T>> + Send + 'static;
    /// Runs a future on this thread, which may spawn.
    fn block_on<F: Future>(future: F) -> F::Output;
    /// Spawns a task, inside `block_on` or inside another task.
    fn spawn<F>(future: F) -> Self::Task<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static;
    /// The output of a task that ended well.
    fn output<T: Send + 'static>(joined: Self::Joined<T>) -> T;
    /// Lets a task run without its handle.
    fn detach<T: Send + 'static>(task: Self::Task<T>);
    /// The runtime's own yield.
    fn yield_now() -> impl Future + Send;
    /// The runtime's own sleep, or that of the crate it is used with; does nothing before its first poll.
    fn sleep(time: Duration) -> impl Future + Send;
}

/// A runtime whose handle gives a `Result`. The file that names it brings `spawn`, `yield_now`, `sleep`, `JoinError` and `JoinHandle`.
macro_rules! joined_runtime {
    ($(#[$doc:meta])* $subject:ident, $kind:expr, $name:literal, $runtime:expr) => {
        $(#[$doc])*
        pub(crate) struct $subject;

        impl $crate::peer::TaskRuntime for $subject {
            const NAME: &'static str = $name;
            const KIND: $crate::peer::Kind = $kind;
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
                spawn(future)
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
                yield_now()
            }

            #[inline]
            fn sleep(time: std::time::Duration) -> impl Future + Send {
                sleep(time)
            }
        }
    };
}
pub(crate) use joined_runtime;
