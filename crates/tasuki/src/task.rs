//! Who runs: the identity of a task, under any executor.
//!
//! A runtime that knows its tasks says so through its [`Driver`](crate::runtime::Driver). Under any other executor,
//! wrap the task's future in [`identify`].

use crate::runtime;
use core::cell::Cell;
use core::fmt;
use core::future::Future;
use core::num::NonZeroU64;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll};
use std::thread_local;

/// The identity of a task: equal exactly for the same task, never used twice in a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(NonZeroU64);

impl TaskId {
    /// An identity that nobody has had before. For runtimes; tasks get theirs by [`identify`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::task::TaskId;
    ///
    /// assert_ne!(TaskId::fresh(), TaskId::fresh());
    /// ```
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: each number is given once, and nothing else is said by it.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(NonZeroU64::new(number).expect("2^64 tasks are not reached"))
    }

    /// The number, for logs.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_ne!(tasuki::task::TaskId::fresh().get(), 0);
    /// ```
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0)
    }
}

thread_local! {
    static IDENTIFIED: Cell<Option<TaskId>> = const { Cell::new(None) };
}

/// The task that runs on this thread: the innermost [`identify`], or else what the runtime says.
///
/// # Examples
///
/// ```
/// use tasuki::task;
///
/// assert_eq!(task::current(), None);
/// ```
pub fn current() -> Option<TaskId> {
    IDENTIFIED.try_with(Cell::get).ok().flatten().or_else(runtime::task)
}

/// Gives a future an identity of its own, for as long as it is being polled.
///
/// Wrap the outermost future of a task: what it awaits, and the branches of its `join!`s, are the same task.
///
/// # Examples
///
/// ```
/// use tasuki::task;
///
/// let mut task = std::pin::pin!(task::identify(async { task::current() }));
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// let std::task::Poll::Ready(id) = std::future::Future::poll(task.as_mut(), &mut cx) else { panic!() };
/// assert!(id.is_some());
/// ```
pub fn identify<F: Future>(future: F) -> Identified<F> {
    Identified { id: TaskId::fresh(), future }
}

/// The future of [`identify`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Identified<F> {
    id: TaskId,
    future: F,
}

impl<F> Identified<F> {
    /// The identity that the future runs under.
    ///
    /// # Examples
    ///
    /// ```
    /// let task = tasuki::task::identify(async {});
    /// println!("spawning {}", task.id());
    /// ```
    pub fn id(&self) -> TaskId {
        self.id
    }
}

impl<F: Future> Future for Identified<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        struct Restore(Option<TaskId>);
        impl Drop for Restore {
            fn drop(&mut self) {
                IDENTIFIED.set(self.0);
            }
        }
        let _restore = Restore(IDENTIFIED.replace(Some(self.id)));
        // SAFETY: a projection: the future is never moved out of the pinned whole.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        future.poll(cx)
    }
}
