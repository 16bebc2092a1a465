//! `JoinHandle`: awaits the result of a task, and aborts it.

use super::abort::AbortHandle;
use super::registry::RegisteredCell;
use super::{Meta, TaskCell, TaskOutput, contained_waker, registry};
use crate::context;
use crate::error::JoinError;
use async_task::{FallibleTask, Task};
use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker, ready};
use tasuki::runtime::{Charge, SignalWait};
use tasuki::task::TaskId;

/// Awaits the result of a task, and can abort it.
///
/// Awaiting it gives the task's output, or a [`JoinError`] if the task panicked, was aborted, or was dropped or refused by its runtime.
///
/// Dropping it detaches the task, which runs on; its output is dropped, and a panic in it is reported by the panic hook only. To keep the right to abort a detached task, take an
/// [`abort_handle`](Self::abort_handle) first.
///
/// # Examples
///
/// ```
/// tasuki_rt::run(async {
///     let task = tasuki_rt::spawn(async { 6 * 7 });
///     assert_eq!(task.await.unwrap(), 42);
/// });
/// ```
///
/// # Cancel
///
/// A dropped handle loses the result, and nothing else; it lets go of the waker that it was polled with.
///
/// # Panic
///
/// A panic in the task stays in the task; the handle reports it. A panic in the destructor of an output that was not
/// taken is printed by the panic hook and goes no further. Polling the handle again after it was ready panics.
///
/// # Memory ordering
///
/// Everything the task did happens before what follows the await.
pub struct JoinHandle<T> {
    result: Awaited<T>,
    charge: Charge,
    /// A poll has left a waker in the cell.
    waits: bool,
    /// The task that polls it waits for this one, too.
    wait: SignalWait,
}

/// How the wait is called where waits are listed.
pub(crate) const WAIT: &str = "tasuki_rt::JoinHandle";

/// The result of a task, as its handle sees it.
enum Awaited<T> {
    Coming {
        task: FallibleTask<TaskOutput<T>, Meta>,
        /// The cell that `task` keeps.
        cell: NonNull<()>,
    },
    Given(TaskId),
}

// SAFETY: of the cell only what is `Sync` is used; the task itself is `Send` for outputs that are.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: as above; a shared handle gives no access to the output.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
// The panic of a task is an error here, and its result is given out whole.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    pub(crate) fn new(task: Task<TaskOutput<T>, Meta>, cell: NonNull<()>) -> Self {
        let result = Awaited::Coming { task: task.fallible(), cell };
        Self { result, charge: Charge::default(), waits: false, wait: SignalWait::new() }
    }

    /// Returns the identity of the task, the same that [`tasuki::task::current`] gives inside it.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(async { tasuki::task::current() });
    ///     let id = task.id();
    ///     assert_eq!(task.await.unwrap(), Some(id));
    /// });
    /// ```
    pub fn id(&self) -> TaskId {
        match &self.result {
            // SAFETY: the task keeps the cell.
            Awaited::Coming { cell, .. } => unsafe { TaskCell::id(*cell) },
            Awaited::Given(id) => *id,
        }
    }

    /// Returns true if the task has ended: by itself, by an abort or with its runtime. Its future is gone then.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(std::future::pending::<()>());
    ///     assert!(!task.is_finished());
    ///     task.abort();
    /// });
    /// ```
    pub fn is_finished(&self) -> bool {
        match &self.result {
            Awaited::Coming { task, cell } => {
                // Both: a shutdown closes the cell first, and then drops the future.
                // SAFETY: the task keeps the cell.
                task.is_finished() && unsafe { registry::is_ended::<TaskCell>(*cell) }
            }
            Awaited::Given(_) => true,
        }
    }

    /// Need it not wait for the task, but perhaps for the drop of its future?
    #[inline]
    fn is_closed(&self) -> bool {
        match &self.result {
            Awaited::Coming { task, .. } => task.is_finished(),
            Awaited::Given(_) => true,
        }
    }

    /// Asks the task to end. Its future is dropped at its next turn, on its own thread if it is pinned; a task that
    /// finishes first keeps its result. Blocking work that is running is not interrupted, and keeps its result too.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(std::future::pending::<()>());
    ///     task.abort();
    ///     assert!(task.await.unwrap_err().is_aborted());
    /// });
    /// ```
    #[doc(alias = "cancel")]
    pub fn abort(&self) {
        if let Awaited::Coming { task, cell } = &self.result {
            if !task.is_finished() {
                // SAFETY: the task keeps the cell.
                unsafe { registry::abort::<TaskCell>(*cell) };
            }
        }
    }

    /// Returns a handle that can abort the task and ask whether it has ended, and has no part in the result.
    ///
    /// # Panics
    ///
    /// If the handle has given its result.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(std::future::pending::<()>());
    ///     let stop = task.abort_handle();
    ///     drop(task);
    ///     stop.abort();
    /// });
    /// ```
    #[track_caller]
    pub fn abort_handle(&self) -> AbortHandle {
        let Awaited::Coming { cell, .. } = &self.result else {
            panic!("`JoinHandle::abort_handle` after the result was given: make it before")
        };
        // SAFETY: the task keeps the cell.
        AbortHandle::new(unsafe { TaskCell::waker(*cell) })
    }

    /// A poll by a waker that is known not to panic: the cell would end the process.
    pub(crate) fn poll_trusted(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let waited = self.waits;
        let poll = self.register(cx);
        if poll.is_pending() {
            context::simulation(|sim| sim.joins(self.id()));
            self.wait.waits(&WAIT);
            if let Awaited::Coming { cell, .. } = &self.result {
                // SAFETY: the task keeps the cell.
                unsafe { TaskCell::look(*cell, |task| task.metadata().notes.joined_by(&self.wait)) };
            }
        } else {
            if waited {
                context::simulation(|sim| sim.joins_no_more(self.id()));
            }
            self.wait.ends();
        }
        if let Poll::Ready(Err(error)) = &poll {
            error.give_out();
        }
        poll
    }

    /// The same for a caller that goes on: it does not wait for the task yet, and has not asked for its panic.
    #[track_caller]
    pub(crate) fn register(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let Awaited::Coming { task, .. } = &mut self.result else {
            panic!("`tasuki_rt::JoinHandle` polled after it was finished")
        };
        // Before the poll: a pending one leaves its waker in the cell.
        self.waits = true;
        let ended = ready!(Pin::new(task).poll(cx));
        let id = self.id();
        self.result = Awaited::Given(id);
        match ended {
            Some(ended) => Poll::Ready(ended.take().map_err(|cause| cause.of(id))),
            None => Poll::Ready(Err(JoinError::shut_down(id))),
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_closed() {
            ready!(self.charge.poll(cx));
        } else {
            self.charge.waive();
        }
        if context::is_ours(cx.waker()) {
            return self.poll_trusted(cx);
        }
        contained_waker::with(cx.waker(), |cx| self.poll_trusted(cx))
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let id = self.id();
        let given = Awaited::Given(id);
        let Awaited::Coming { mut task, .. } = std::mem::replace(&mut self.result, given) else { return };
        if self.waits {
            context::simulation(|sim| sim.joins_no_more(id));
        }
        // The cell would keep the waker until the task ends, and then wake it: this one takes its place.
        let mut cx = Context::from_waker(Waker::noop());
        if !self.waits || Pin::new(&mut task).poll(&mut cx).is_pending() {
            task.detach();
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("id", &self.id()).field("finished", &self.is_finished()).finish()
    }
}
