//! `.timeout`, `.deadline` and `.or_cancelled`: a wait that is cancelled when a second wait, its limit, is ready first.
//!
//! All three are this one future, over two waits: the one that is limited, and its limit, which is a wait for a
//! deadline ([`SleepOp`]) or for a cancel ([`OnCancelOp`]). The poll that finds the limit reached cancels the limited wait, exactly as a drop
//! would; what had been granted meanwhile comes back as the output and is returned.
//!
//! | event | outcome |
//! |---|---|
//! | first poll, the token is cancelled already | `Err`, the primitive is not touched |
//! | first poll, the wait is pending, something has yielded in it, and the limit is reached | nothing, the task is woken: a yield is no wait, so the next poll judges the limit |
//! | any poll, the wait is pending, the limit is reached and was not polled before, and the budget is exhausted | nothing, the task is woken: the limit is a wait too, and the next poll judges it |
//! | any poll, the wait is ready | `Ok`, and the limit is cancelled |
//! | any poll, the wait is pending and the limit reached | the wait is cancelled: `Ok` if it had been granted meanwhile, else `Err`, with what the operation gives back |
//! | a limit around both is reached | both are cancelled: the output if it had been granted meanwhile |
//! | drop | both are dropped |

use crate::budget::{wake_again, yields};
use crate::cancellation::{CancellationToken, OnCancelOp};
use crate::error::Cancelled;
#[cfg(feature = "std")]
use crate::error::Elapsed;
use crate::probe::{WaitNote, limited};
use crate::queue::batch::{UnwindDrop, while_unwinding};
#[cfg(feature = "std")]
use crate::timer::{self, SleepOp};
use crate::wait::{Awaitable, Cancel, Op, Single, Wait};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
#[cfg(feature = "std")]
use core::time::Duration;
#[cfg(feature = "std")]
use std::time::Instant;

/// An operation whose end is the end of another wait.
pub trait LimitOp: Op<Output = ()> {
    /// What the limited wait says then.
    type Error;

    /// Is the limit looked at before the wait is first polled?
    #[doc(hidden)]
    const LOOKS_FIRST: bool;

    /// Can it be reached? It is asked only where waits are noted.
    #[doc(hidden)]
    fn ends(&self) -> bool {
        true
    }

    /// The error of this limit.
    #[doc(hidden)]
    fn error(&self) -> Self::Error;
}

#[cfg(feature = "std")]
impl LimitOp for SleepOp {
    type Error = Elapsed;
    // A time that is over still gets what can be had without waiting.
    const LOOKS_FIRST: bool = false;

    fn ends(&self) -> bool {
        !self.is_never()
    }

    fn error(&self) -> Elapsed {
        Elapsed
    }
}

impl LimitOp for OnCancelOp<&CancellationToken> {
    type Error = Cancelled;
    const LOOKS_FIRST: bool = true;

    fn ends(&self) -> bool {
        !self.is_never()
    }

    fn error(&self) -> Cancelled {
        Cancelled
    }
}

/// A wait that ends when its limit is reached: the future of
/// [`timeout`](Wait::timeout), [`deadline`](Wait::deadline) and [`or_cancelled`](Wait::or_cancelled).
///
/// The wait itself is looked at first: what has been granted is returned, never thrown away. The poll that
/// returns the error has cancelled the wait already.
#[must_use = "a wait does nothing unless it is awaited, polled or blocked on"]
pub struct Limited<W, L: LimitOp> {
    /// Dropped first: what was armed last is disarmed first, which is measurably quicker.
    limit: Single<L>,
    wait: UnwindDrop<W>,
    polled: bool,
}

/// A wait with a deadline.
#[cfg(feature = "std")]
pub type Timeout<W> = Wait<Limited<W, SleepOp>>;

/// A wait that a token can end.
pub type OrCancelled<'t, W> = Wait<Limited<W, OnCancelOp<&'t CancellationToken>>>;

impl<W: Awaitable, L: LimitOp> Limited<W, L> {
    fn wait(wait: W, limit: Wait<Single<L>>) -> Wait<Self> {
        Wait::of(Self { wait: UnwindDrop::new(wait), limit: limit.into_single(), polled: false })
    }

    /// The two waits, pinned. The only projection.
    fn project(self: Pin<&mut Self>) -> (Pin<&mut W>, Pin<&mut Single<L>>, &mut bool) {
        // SAFETY: nothing is moved out; both waits are only ever reached pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: a field of the pinned whole.
        let wait = unsafe { Pin::new_unchecked(&mut *this.wait) };
        // SAFETY: a field of the pinned whole.
        let limit = unsafe { Pin::new_unchecked(&mut this.limit) };
        (wait, limit, &mut this.polled)
    }
}

impl<A: Awaitable> Wait<A> {
    /// Limits the wait to `time`; then it ends with `Err(`[`Elapsed`]`)`. An operation that need not wait succeeds, also with `Duration::ZERO`. `Duration::MAX` never ends.
    ///
    /// The time begins with the first poll. Where that poll runs code of the caller (an initialiser, a condition, the future of `run_until_cancelled`), it begins when this code has returned.
    ///
    /// Limits can be combined: one that was set before stays in force. An `upgrade` and a `send` give back in the error what they consumed: see [`GivenBack`](crate::GivenBack).
    /// [`Elapsed`] says which thread keeps the deadline.
    ///
    /// # Panics
    ///
    /// In the poll that begins to wait, if no runtime keeps the deadlines, and the system refuses the thread that would keep them or has no clock (wasm32-unknown-unknown).
    ///
    /// With the feature `tokio`, on a thread of a tokio runtime: also if that runtime was built without `enable_time`, and in a poll that has to go on waiting after that runtime was dropped.
    ///
    /// # Cancel safety
    ///
    /// As the wait inside, which is dropped with the limit: what had been granted to it is passed on. A limit that is *reached* drops no grant: the poll that sees it
    /// returns what had been granted by then, and an error only if nothing was. It does drop the caller's own future: an initialiser that is running, whose turn then goes to the next (so does a turn
    /// that no initialiser has begun), and the future of `run_until_cancelled`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let mutex = tasuki::Mutex::new(1);
    /// let guard = mutex.lock().timeout(Duration::ZERO).await.unwrap();
    /// assert!(mutex.lock().timeout(Duration::from_millis(1)).await.is_err());
    /// # drop(guard);
    ///
    /// let (event, source) = (tasuki::Event::auto(), tasuki::CancellationSource::new());
    /// let token = source.token();
    /// let waited = event.wait().or_cancelled(&token).timeout(Duration::from_millis(1)).await;
    /// assert_eq!(waited, Err(tasuki::Elapsed));
    /// # }
    /// ```
    #[doc(alias = "wait_timeout")]
    #[doc(alias = "recv_timeout")]
    #[doc(alias = "send_timeout")]
    #[cfg(feature = "std")]
    #[track_caller]
    pub fn timeout(self, time: Duration) -> Timeout<Self> {
        Limited::wait(self, timer::sleep(time))
    }

    /// Limits the wait to `deadline`; then it ends with `Err(`[`Elapsed`]`)`. Otherwise as [`timeout`](Self::timeout).
    ///
    /// # Cancel safety
    ///
    /// As [`timeout`](Self::timeout): as the wait inside, and a grant that came before the deadline was seen is returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let event = tasuki::Event::auto();
    /// assert!(event.wait().deadline(Instant::now()).await.is_err());
    ///
    /// let (mutex, condvar) = (tasuki::Mutex::new(0), tasuki::Condvar::new());
    /// let wait = condvar.wait_while(mutex.try_lock().unwrap(), |n| *n == 0);
    /// assert!(wait.deadline(Instant::now()).await.is_err());
    /// # }
    /// ```
    #[doc(alias = "try_lock_until")]
    #[doc(alias = "timeout_at")]
    #[cfg(feature = "std")]
    #[track_caller]
    pub fn deadline(self, deadline: Instant) -> Timeout<Self> {
        Limited::wait(self, timer::sleep_until(deadline))
    }

    /// Ends the wait when the token is cancelled: `Err(`[`Cancelled`]`)`. If the token was cancelled before the first poll, that poll is the error, also where the operation need not wait: a free lock
    /// is not taken. ([`timeout`](Self::timeout) with no time takes it.) A limit that was set before stays in force.
    ///
    /// # Cancel safety
    ///
    /// As [`timeout`](Self::timeout): as the wait inside, which is dropped with the limit. If the token is cancelled, what had been granted by then is returned, and an error only if nothing was.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let source = tasuki::CancellationSource::new();
    /// source.request_cancel();
    /// let token = source.token();
    /// let (mutex, event) = (tasuki::Mutex::new(1), tasuki::Event::auto());
    /// assert!(mutex.lock().or_cancelled(&token).await.is_err());
    /// let waited = event.wait().timeout(Duration::MAX).or_cancelled(&token).await;
    /// assert_eq!(waited, Err(tasuki::Cancelled));
    /// # }
    /// ```
    #[track_caller]
    pub fn or_cancelled(self, token: &CancellationToken) -> OrCancelled<'_, Self> {
        Limited::wait(self, token.on_cancel())
    }
}

/// The limit is reached: the output, if it had been granted already, else the error.
fn end<W: Awaitable, L: LimitOp>(
    mut wait: Pin<&mut W>,
    limit: &Single<L>,
) -> Result<W::Output, W::Unfinished<L::Error>> {
    match wait.as_mut().cancel(Cancel(())) {
        Some(output) => Ok(output),
        None => Err(wait.unfinished(limit.op().error(), Cancel(()))),
    }
}

impl<W: Awaitable, L: LimitOp> Future for Limited<W, L> {
    type Output = Result<W::Output, W::Unfinished<L::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (mut wait, mut limit, polled) = self.project();
        if L::LOOKS_FIRST && !*polled && limit.is_over() {
            // Charged as a wait for the limit. If it yields, the next poll begins here again.
            ready!(limit.as_mut().poll(cx));
            *polled = true;
            return Poll::Ready(end(wait, &limit));
        }
        let yields_before = if *polled { None } else { Some(yields()) };
        *polled = true;
        if let Poll::Ready(output) = limited(|| limit.op().ends(), || wait.as_mut().poll(cx)) {
            // To cancel the limit drops its waker: if that panics, what was granted must not be lost.
            let mut undelivered = UndeliveredOutput { wait, output: Some(output) };
            let _ = limit.cancel(Cancel(()));
            return Poll::Ready(Ok(undelivered.output.take().expect("it was put there")));
        }
        // The next poll judges. Woken here, whatever has yielded: the count is of the thread, and an executor inside of this poll, or a waker that polls, may have polled another task.
        if yields_before.is_some_and(|before| before != yields()) && limit.is_over() {
            wake_again(cx);
            return Poll::Pending;
        }
        if limit.as_mut().poll(cx).is_pending() {
            wait.note().limited_by(limit.note());
            return Poll::Pending;
        }
        Poll::Ready(end(wait, &limit))
    }
}

impl<W: Awaitable, L: LimitOp> Awaitable for Limited<W, L> {
    type Unfinished<E> = W::Unfinished<E>;

    fn cancel(self: Pin<&mut Self>, right: Cancel) -> Option<Self::Output> {
        let (mut wait, limit, _) = self.project();
        let output = wait.as_mut().cancel(right);
        // As in `poll`: the limit must not wake a task that has gone on, and may panic.
        let mut undelivered = UndeliveredOutput { wait, output };
        let _ = limit.cancel(right);
        undelivered.output.take().map(Ok)
    }

    fn unfinished<E>(self: Pin<&mut Self>, limit: E, right: Cancel) -> Self::Unfinished<E> {
        let (wait, _, _) = self.project();
        wait.unfinished(limit, right)
    }

    fn discard(self: Pin<&mut Self>, output: Self::Output, right: Cancel) {
        let (wait, _, _) = self.project();
        if let Ok(output) = output {
            wait.discard(output, right);
        }
    }

    fn has_ended(&self) -> bool {
        self.wait.has_ended()
    }

    /// Of the limit, which is that of the wait inside: a limit around both is noted as one of this limit.
    #[inline(always)]
    fn note(&self) -> WaitNote {
        self.limit.note()
    }
}

/// An output on its way out; if it does not get there, the wait passes on what it stands for.
struct UndeliveredOutput<'p, W: Awaitable> {
    wait: Pin<&'p mut W>,
    output: Option<W::Output>,
}

impl<W: Awaitable> Drop for UndeliveredOutput<'_, W> {
    fn drop(&mut self) {
        if let Some(output) = self.output.take() {
            while_unwinding(|| self.wait.as_mut().discard(output, Cancel(())));
        }
    }
}

impl<W: fmt::Debug, L: LimitOp> fmt::Debug for Limited<W, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited").field("wait", &*self.wait).field("limit", &self.limit).finish()
    }
}
