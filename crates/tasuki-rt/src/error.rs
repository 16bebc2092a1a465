//! The error types of the crate. Each message says what to do.

use crate::task::Panic;
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::PoisonError;
use tasuki::task::TaskId;

/// Why a task gave no result.
///
/// # Examples
///
/// ```
/// tasuki_rt::run(async {
///     let task = tasuki_rt::spawn(async { panic!("out of luck") });
///     let error = task.await.unwrap_err();
///     assert!(error.is_panic());
///     assert!(error.to_string().contains("out of luck"));
/// });
/// ```
pub struct JoinError {
    id: TaskId,
    why: Why,
}

enum Why {
    Panicked(Box<Panic>),
    Aborted,
    ShutDown,
    Refused(io::Error),
}

impl JoinError {
    pub(crate) fn panicked(id: TaskId, panic: Box<Panic>) -> Self {
        Self { id, why: Why::Panicked(panic) }
    }

    pub(crate) fn aborted(id: TaskId) -> Self {
        Self { id, why: Why::Aborted }
    }

    pub(crate) fn shut_down(id: TaskId) -> Self {
        Self { id, why: Why::ShutDown }
    }

    pub(crate) fn refused(id: TaskId, error: io::Error) -> Self {
        Self { id, why: Why::Refused(error) }
    }

    /// Returns the identity of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(async { panic!() });
    ///     let id = task.id();
    ///     assert_eq!(task.await.unwrap_err().id(), id);
    /// });
    /// ```
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Returns true if the task panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     assert!(tasuki_rt::spawn(async { panic!() }).await.unwrap_err().is_panic());
    /// });
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(self.why, Why::Panicked(_))
    }

    /// Returns true if the task was aborted through its handle.
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
    #[doc(alias = "is_cancelled")]
    pub fn is_aborted(&self) -> bool {
        matches!(self.why, Why::Aborted)
    }

    /// Returns true if its runtime dropped the task in its shutdown, or refused it because it [drains](crate::Runtime::drain) or has shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// runtime.shutdown_timeout(Duration::MAX).unwrap();
    /// let late = runtime.spawn(async {});
    /// let other = tasuki_rt::Runtime::new().unwrap();
    /// assert!(other.block_on(late).unwrap_err().is_shut_down());
    /// ```
    pub fn is_shut_down(&self) -> bool {
        matches!(self.why, Why::ShutDown)
    }

    /// Returns true if the runtime could not run this blocking work: the system gave no thread for it and there was no other, or it was spawned in the child of a fork, while the threads of the
    /// runtime are in the parent.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     match tasuki_rt::spawn_blocking(|| 4).await {
    ///         Ok(four) => assert_eq!(four, 4),
    ///         Err(error) => assert!(error.is_refused(), "too many threads on this machine"),
    ///     }
    /// });
    /// ```
    pub fn is_refused(&self) -> bool {
        matches!(self.why, Why::Refused(_))
    }

    /// Returns what the task panicked with, to be thrown on by `std::panic::resume_unwind`.
    ///
    /// # Errors
    ///
    /// The error itself, if the task did not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let error = tasuki_rt::spawn(async { panic!("why") }).await.unwrap_err();
    ///     assert_eq!(*error.into_panic().unwrap().downcast::<&str>().unwrap(), "why");
    /// });
    /// ```
    #[doc(alias = "try_into_panic")]
    pub fn into_panic(self) -> Result<Box<dyn Any + Send + 'static>, Self> {
        self.into_panic_of_task().map(|panic| panic.into_payload())
    }

    /// A caller is given the error: a panic in it is no failure of a simulation.
    pub(crate) fn give_out(&self) {
        if let Why::Panicked(panic) = &self.why {
            panic.give_out();
        }
    }

    pub(crate) fn into_panic_of_task(self) -> Result<Box<Panic>, Self> {
        match self.why {
            Why::Panicked(panic) => Ok(panic),
            why => Err(Self { id: self.id, why }),
        }
    }
}

/// The message of a panic, if it is a string.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Panicked(panic) => {
                // A copy: what it is written to is foreign, and not called under the lock.
                let payload = panic.payload.lock().unwrap_or_else(PoisonError::into_inner);
                let message = panic_message(&**payload).unwrap_or("no message").to_owned();
                drop(payload);
                match &panic.name {
                    Some(name) => write!(f, "{} `{name}` panicked: {message}", self.id),
                    None => write!(f, "{} panicked: {message}", self.id),
                }
            }
            Why::Aborted => write!(f, "{} was aborted", self.id),
            // The child of a fork: not for want of threads.
            Why::Refused(error) if error.kind() == io::ErrorKind::Unsupported => {
                write!(f, "{} was not run: {error}", self.id)
            }
            Why::Refused(error) => write!(
                f,
                "{} was not run: there is no thread for blocking work, and the system refuses another ({error}); use fewer threads",
                self.id
            ),
            Why::ShutDown => {
                write!(
                    f,
                    "{} was dropped: its runtime drains or has shut down; keep the runtime running until the task is done",
                    self.id
                )
            }
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl Error for JoinError {}

/// For functions that return `io::Result`, as blocking work often does: the kind is `Other`, the source is the error itself.
impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        Self::other(error)
    }
}

/// Why a runtime has not, or not yet, shut down.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tasuki_rt::{Runtime, ShutdownError};
///
/// let runtime = Arc::new(Runtime::new().unwrap());
/// let inner = runtime.clone();
/// let task = runtime.spawn(async move { inner.shutdown_timeout(Duration::MAX) });
/// assert_eq!(runtime.block_on(task).unwrap(), Err(ShutdownError::InsideTask));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShutdownError {
    /// Called inside a task of any runtime, or on a thread of this one (in blocking work or a hook): the shutdown waits for these, so they would wait for themselves.
    InsideTask,
    /// The time was over while a task, blocking work or a hook had not returned, or another caller waited for the destructors of thread-local variables. The shutdown goes on, and a thread ends when what it runs has returned.
    TimedOut,
    /// The time was over before all tasks had ended. They are still running.
    TasksLeft,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InsideTask => {
                "a task cannot wait for its own end: shut down from the thread that made the runtime"
            }
            Self::TimedOut => "a task did not return from its poll in time: make it await, or use spawn_blocking",
            Self::TasksLeft => {
                "not all tasks ended in time: ask them to stop by a token, wait longer, or drop them with shutdown_timeout"
            }
        })
    }
}

impl Error for ShutdownError {}

/// There is no runtime on this thread.
///
/// # Examples
///
/// ```
/// use tasuki_rt::{Handle, NoRuntime};
///
/// assert_eq!(Handle::try_current().err(), Some(NoRuntime));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoRuntime;

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no runtime on this thread: call it inside a task or `block_on`, or keep the guard of `Handle::enter`",
        )
    }
}

impl Error for NoRuntime {}

/// A task-local was asked for where it has no value.
///
/// # Examples
///
/// ```
/// use tasuki_rt::{NotInScope, TaskLocal};
///
/// static NAME: TaskLocal<String> = TaskLocal::new();
/// assert_eq!(NAME.try_get(), Err(NotInScope));
/// ```
#[doc(alias = "AccessError")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotInScope;

impl fmt::Display for NotInScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task-local has no value here: run the future inside its `scope`; a spawned task needs one of its own")
    }
}

impl Error for NotInScope {}

/// The event loop has ended with its runtime, and runs nothing any more.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tasuki_rt::{EventLoop, Runtime};
/// let runtime = Runtime::new().unwrap();
/// let here = runtime.block_on(runtime.spawn(async { EventLoop::current().unwrap() })).unwrap();
/// runtime.shutdown_timeout(Duration::MAX).unwrap();
/// assert_eq!(here.post(|| ()), Err(tasuki_rt::LoopEnded));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoopEnded;

impl fmt::Display for LoopEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the event loop has ended with its runtime: post before the shutdown")
    }
}

impl Error for LoopEnded {}

/// A wait that needs an event loop was polled where there is none.
///
/// # Examples
///
/// ```
/// use tasuki_rt::{LoopMutex, NotOnEventLoop};
///
/// let mutex = LoopMutex::new(1);
/// // The thread in `block_on` is not an event loop.
/// assert_eq!(tasuki_rt::run(async { mutex.lock().await.err() }), Some(NotOnEventLoop));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotOnEventLoop;

impl fmt::Display for NotOnEventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "there is no event loop on this thread to come back to: wait in a task made by spawn_on or spawn_local",
        )
    }
}

impl Error for NotOnEventLoop {}
