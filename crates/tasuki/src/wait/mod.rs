//! The one future: every wait of the crate is a [`Wait`].
//!
//! What is waited for is an [`Awaitable`]: a [`Single`] operation in one queue, or something over such waits: a wait with a
//! limit (`limited.rs`), a wait for a condition (`condvar/wait_while.rs`), a turn to make a value (`once_cell/init.rs`),
//! a future that a token can end (`cancellation/run_until_cancelled.rs`). What an awaitable
//! adds to a future is a way to cancel it that says what had been granted. On that stand `block`, `timeout`, `deadline` and `or_cancelled`, which are
//! written once, for all of them.
//!
//! A limit ends a wait in two steps: [`Awaitable::cancel`], which returns the output if it had been granted meanwhile, and else
//! [`Awaitable::unfinished`], which makes the error. The error of most waits is the limit itself; an operation that was given something gives it back in the
//! error ([`GivenBack`](crate::GivenBack)), as far as it has it without another wait (`docs/decisions/0010`).

mod single;

pub(crate) use single::WaiterSlot;
pub use single::{Op, Single};

use crate::probe::{Polling, Site, WaitNote};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// Something of this crate that can be awaited, and cancelled without being dropped. Only the crate implements it.
pub trait Awaitable: Future {
    /// What a limit `E` that ended the wait says: `E` itself, or [`GivenBack`](crate::GivenBack) with what the operation was given.
    type Unfinished<E>;

    /// Ends the wait: the output, if it had been granted already. A later poll panics.
    #[doc(hidden)]
    fn cancel(self: Pin<&mut Self>, right: Cancel) -> Option<Self::Output>;

    /// The error of a limit, after a cancel without an output.
    #[doc(hidden)]
    fn unfinished<E>(self: Pin<&mut Self>, limit: E, right: Cancel) -> Self::Unfinished<E>;

    /// The output that a poll or a cancel has just given is not returned: passes on what it stands for.
    #[doc(hidden)]
    fn discard(self: Pin<&mut Self>, output: Self::Output, _right: Cancel) {
        drop(output);
    }

    /// Would another poll panic?
    #[doc(hidden)]
    fn has_ended(&self) -> bool;

    /// What `inspect/` knows of the wait, if it is in a queue, and if there is one that a limit ends.
    #[doc(hidden)]
    #[inline(always)]
    fn note(&self) -> WaitNote {
        WaitNote::NONE
    }
}

/// The right to cancel a wait, which only the crate can give.
#[derive(Clone, Copy, Debug)]
pub struct Cancel(pub(crate) ());

/// The future of everything that may have to wait.
///
/// Every such operation of the crate returns one, under a name of its own such as
/// [`Lock`](crate::future::Lock). Poll it with any executor, or wait with the thread itself through
/// [`block`](Self::block).
///
/// * A place in the queue is taken at the first poll, not at the call.
/// * Dropping it at any time, on any thread, cancels the wait. If the grant was faster, it is passed on.
/// * Polling it again after `Ready` panics.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tasuki::{Mutex, future::Lock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mutex = Mutex::new(1);
/// let wait: Lock<'_, i32> = mutex.lock();
/// let guard = wait.await; // as a thread, outside of tasks: `wait.block()`
/// assert!(mutex.lock().timeout(Duration::from_millis(1)).await.is_err());
/// # drop(guard);
/// # }
/// ```
#[must_use = "a wait does nothing unless it is awaited, polled or blocked on"]
pub struct Wait<A> {
    inner: A,
}

impl<O: Op> Wait<Single<O>> {
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new(op: O) -> Self {
        Self { inner: Single::new(op) }
    }

    /// A wait that was asked for there.
    pub(crate) fn new_at(op: O, site: Site) -> Self {
        Self { inner: Single::new_at(op, site) }
    }

    /// The operation, to ask it something.
    pub(crate) fn op(&self) -> &O {
        self.inner.op()
    }

    /// A wait that has ended can be polled again, and begins anew.
    #[cfg(all(feature = "alloc", any(feature = "futures-core", feature = "futures-sink")))]
    pub(crate) fn restart(self: Pin<&mut Self>) {
        self.project().restart();
    }

    /// The operation, of a wait that is not queued.
    pub(crate) fn op_mut(self: Pin<&mut Self>) -> &mut O {
        self.project().op_mut()
    }

    /// The wait alone, not polled yet.
    #[cfg(feature = "alloc")]
    pub(crate) fn into_single(self) -> Single<O> {
        self.inner
    }
}

impl<A: Awaitable> Wait<A> {
    pub(crate) const fn of(inner: A) -> Self {
        Self { inner }
    }

    #[inline(always)]
    fn project(self: Pin<&mut Self>) -> Pin<&mut A> {
        // SAFETY: a projection to the only field, which is never moved out of a pinned whole.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }
    }

    /// Waits with the calling thread, in the same queue and the same order as tasks do.
    ///
    /// Do not call it from a task: the thread that it blocks may be the one that the holder needs. A limit ([`timeout`](Self::timeout) and the others) ends it, by the clock of the system.
    ///
    /// The first call on a thread allocates what the thread sleeps on, also if there is nothing to wait for; so does a call inside of another, as in an initialiser that blocks.
    ///
    /// # Panics
    ///
    /// On a thread that runs tasks of `tasuki-rt` (a worker, `LocalRuntime::block_on`, a simulation) or of another runtime that forbids it, also when there would be nothing to wait for. And in a waker that the thread of the
    /// process's deadlines calls.
    ///
    /// # Examples
    ///
    /// ```
    /// let counter = tasuki::Mutex::new(0);
    /// *counter.lock().block() += 1;
    /// assert_eq!(counter.into_inner(), 1);
    /// ```
    #[doc(alias = "blocking_lock")]
    #[doc(alias = "blocking_read")]
    #[doc(alias = "blocking_write")]
    #[doc(alias = "blocking_recv")]
    #[doc(alias = "blocking_send")]
    #[doc(alias = "lock_blocking")]
    #[doc(alias = "read_blocking")]
    #[doc(alias = "write_blocking")]
    #[doc(alias = "acquire_blocking")]
    #[doc(alias = "wait_blocking")]
    #[cfg(feature = "std")]
    #[track_caller]
    pub fn block(self) -> A::Output {
        crate::parker::block_on(self)
    }
}

impl<A: Awaitable> Future for Wait<A> {
    type Output = A::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<A::Output> {
        let _polling = Polling::begin(cx.waker());
        self.project().poll(cx)
    }
}

impl<A: Awaitable> Awaitable for Wait<A> {
    type Unfinished<E> = A::Unfinished<E>;

    fn cancel(self: Pin<&mut Self>, right: Cancel) -> Option<A::Output> {
        self.project().cancel(right)
    }

    fn unfinished<E>(self: Pin<&mut Self>, limit: E, right: Cancel) -> Self::Unfinished<E> {
        self.project().unfinished(limit, right)
    }

    fn discard(self: Pin<&mut Self>, output: A::Output, right: Cancel) {
        self.project().discard(output, right);
    }

    fn has_ended(&self) -> bool {
        self.inner.has_ended()
    }

    #[inline(always)]
    fn note(&self) -> WaitNote {
        self.inner.note()
    }
}

impl<A: fmt::Debug> fmt::Debug for Wait<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
