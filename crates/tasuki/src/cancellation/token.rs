//! `CancellationToken`: observes a cancel, and waits for it.

use super::node::NodeRef;
use super::reason::Reason;
use super::{CancellationSource, OnCancelOp, RunUntilCancelled, UntilCancelled, describe, tree};
use crate::wait::{Single, Wait};
use core::fmt;
use core::future::Future;

/// Observes the cancel of its source: it can be checked and waited for, and it cannot cancel.
///
/// A token is a counted handle, as an `Arc`: clone it for every task. Check it with
/// [`stop_requested`](Self::stop_requested) in a loop that computes; wait with [`on_cancel`](Self::on_cancel) beside
/// something else; wrap a whole future with [`run_until_cancelled`](Self::run_until_cancelled); end a single wait with [`or_cancelled`](crate::future::Wait::or_cancelled).
///
/// The headings that apply to tokens and sources alike are on the page of [`CancellationSource`].
///
/// # Examples
///
/// ```
/// use tasuki::{CancellationSource, CancellationToken};
///
/// fn search(token: &CancellationToken) -> Option<u64> {
///     (0..).take_while(|_| !token.stop_requested()).find(|n| n * n > 1_000)
/// }
///
/// let source = CancellationSource::new();
/// assert_eq!(search(&source.token()), Some(32));
/// source.request_cancel();
/// assert_eq!(search(&source.token()), None);
/// ```
///
/// # Order
///
/// All waiters are released by the flag, at once. They are woken in the order in which they came.
///
/// # Cancel
///
/// Dropping a future of a token leaves the queue and changes nothing for others.
///
/// # Panic
///
/// Polling a future again after it was ready panics.
///
/// # Memory ordering
///
/// What was done before the cancel happens before what follows a wait that it ended, or a `stop_requested` that is true.
///
/// # Re-entrancy
///
/// Wakers may do anything with any token.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// `isize::MAX` handles of one node.
///
/// # Futurelock
///
/// None: a wait that is not polled keeps nothing from others.
///
/// # When to use something else
///
/// A token says "stop" once. For a signal that comes again, [`Event`](crate::Event).
#[doc(alias = "AbortSignal")]
#[doc(alias = "stop_token")]
pub struct CancellationToken {
    pub(super) node: NodeRef,
}

/// The future of [`CancellationToken::on_cancel`].
pub type OnCancel<'a> = Wait<Single<OnCancelOp<&'a CancellationToken>>>;

/// The future of [`CancellationToken::on_cancel_owned`].
pub type OnCancelOwned = Wait<Single<OnCancelOp<CancellationToken>>>;

impl CancellationToken {
    /// Returns true if the token was cancelled. One atomic load; once true, it stays true.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// let token = source.token();
    /// assert!(!token.stop_requested());
    /// source.request_cancel();
    /// assert!(token.stop_requested());
    /// ```
    #[inline]
    #[doc(alias = "is_cancelled")]
    pub fn stop_requested(&self) -> bool {
        self.node.is_cancelled()
    }

    /// Waits until it is cancelled. If it is already, the first poll is ready, with one atomic load, unless the [budget](crate#the-budget) of the task is used up.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let source = tasuki::CancellationSource::new();
    /// let token = source.token();
    /// let task = tokio::spawn(async move { token.on_cancel().await });
    /// source.request_cancel();
    /// task.await.unwrap();
    /// # }
    /// ```
    #[inline]
    #[doc(alias = "cancelled")]
    #[track_caller]
    pub fn on_cancel(&self) -> OnCancel<'_> {
        Wait::new(OnCancelOp::new(self))
    }

    /// As [`on_cancel`](Self::on_cancel), with a future that borrows nothing. Clone the token to keep one.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let source = tasuki::CancellationSource::new();
    /// let cancelled = source.token().on_cancel_owned();
    /// source.request_cancel();
    /// cancelled.await;
    /// # }
    /// ```
    #[inline]
    #[doc(alias = "cancelled_owned")]
    #[track_caller]
    pub fn on_cancel_owned(self) -> OnCancelOwned {
        Wait::new(OnCancelOp::new(self))
    }

    /// Returns why the token was cancelled; `None` if it was not, or if no reason was given.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// let token = source.child().token();
    /// assert_eq!(token.reason(), None);
    /// source.cancel_with("deadline");
    /// assert_eq!(token.reason(), Some("deadline"));
    /// ```
    pub fn reason(&self) -> Option<&str> {
        self.node.reason().and_then(Reason::text)
    }

    /// Creates a source that is cancelled with this token. It cannot cancel this token: a part of the work can be stopped without
    /// stopping the whole.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// let part = source.token().child();
    /// source.request_cancel();
    /// assert!(part.token().stop_requested());
    /// ```
    pub fn child(&self) -> CancellationSource {
        CancellationSource { node: tree::child(&self.node) }
    }

    /// Runs a future until it is ready, or until the token is cancelled: then it is dropped, and the result is `None`.
    ///
    /// Each poll checks the token first. If the token was cancelled before the first poll, the future is never polled. A future that becomes ready in the very poll in which the token is cancelled
    /// gives its output. In either case the future has been dropped when the result is returned.
    ///
    /// # Cancel safety
    ///
    /// As that of the future itself. An output is returned also if the drop of the task's waker panics, which only the panic hook reports then; without the feature `std` the output is
    /// dropped with that panic.
    ///
    /// # Panics
    ///
    /// If it is polled after it was ready.
    ///
    /// # Examples
    ///
    /// ```
    /// # let mut test = std::pin::pin!(async {
    /// let source = tasuki::CancellationSource::new();
    /// let token = source.token();
    /// assert_eq!(token.run_until_cancelled(async { 1 }).await, Some(1));
    /// source.request_cancel();
    /// assert_eq!(token.run_until_cancelled(async { 1 }).await, None);
    /// # });
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(std::future::Future::poll(test.as_mut(), &mut cx).is_ready());
    /// ```
    #[track_caller]
    pub fn run_until_cancelled<F: Future>(&self, future: F) -> RunUntilCancelled<'_, F> {
        UntilCancelled::new(self, future)
    }
}

impl Clone for CancellationToken {
    #[inline]
    #[track_caller]
    fn clone(&self) -> Self {
        Self { node: self.node.clone() }
    }
}

impl Default for CancellationToken {
    /// A token that is never cancelled: it has no source.
    fn default() -> Self {
        Self { node: tree::new_never() }
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "CancellationToken", &self.node)
    }
}
