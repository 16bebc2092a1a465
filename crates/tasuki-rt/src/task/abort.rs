//! `AbortHandle`: the right to abort a task, without its result.

use super::{TaskCell, registry};
use std::fmt;
use std::ptr::NonNull;
use std::task::Waker;
use tasuki::task::TaskId;

/// Aborts a task, from any thread. It can be cloned, and does not give access to the result.
///
/// ```
/// use std::future::pending;
///
/// tasuki_rt::run(async {
///     let task = tasuki_rt::spawn(pending::<()>());
///     let stop = task.abort_handle();
///     std::thread::spawn(move || stop.abort());
///     assert!(task.await.unwrap_err().is_aborted());
/// });
/// ```
///
/// Dropping it does nothing to the task. It keeps the allocation of the task, but neither what the task owned nor the runtime.
///
/// # Memory ordering
///
/// Everything the task did happens before what follows an [`is_finished`](Self::is_finished) that says so.
#[derive(Clone)]
pub struct AbortHandle {
    /// A reference to the cell of the task, whose pointer is its data.
    cell: Waker,
}

impl AbortHandle {
    pub(super) fn new(cell: Waker) -> Self {
        Self { cell }
    }

    fn cell(&self) -> NonNull<()> {
        NonNull::new(self.cell.data().cast_mut()).expect("a cell has an address")
    }

    /// Asks the task to end, as [`JoinHandle::abort`](crate::JoinHandle::abort) does. Nothing if it has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(std::future::pending::<()>());
    ///     task.abort_handle().abort();
    ///     assert!(task.await.unwrap_err().is_aborted());
    /// });
    /// ```
    #[doc(alias = "cancel")]
    pub fn abort(&self) {
        // SAFETY: the waker keeps the cell.
        unsafe { registry::abort::<TaskCell>(self.cell()) };
    }

    /// Returns true if the task has ended, by itself or by an abort. Its future is gone then; its [`JoinHandle`](crate::JoinHandle) may need another moment to have the result.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(async {});
    ///     let handle = task.abort_handle();
    ///     task.await.unwrap();
    ///     assert!(handle.is_finished());
    /// });
    /// ```
    pub fn is_finished(&self) -> bool {
        // SAFETY: the waker keeps the cell.
        unsafe { registry::is_ended::<TaskCell>(self.cell()) }
    }

    /// Returns the identity of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(async {});
    ///     assert_eq!(task.abort_handle().id(), task.id());
    /// });
    /// ```
    pub fn id(&self) -> TaskId {
        // SAFETY: the waker keeps the cell.
        unsafe { TaskCell::id(self.cell()) }
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("id", &self.id()).field("finished", &self.is_finished()).finish()
    }
}
