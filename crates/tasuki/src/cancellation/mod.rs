//! Asking tasks to stop: sources that cancel, tokens that are asked, a tree of both.
//!
//! A source and its tokens are handles of one node; `child` makes a node below it. This file is the surface.
//! [`tree`] has the states and the transitions, [`node`] says which thread may touch what and which orderings pair,
//! [`after_unlock`] what is done after it has released the lock, [`on_cancel`] waits, [`run_until_cancelled`] gives a future up.

mod after_unlock;
mod node;
mod on_cancel;
mod reason;
mod run_until_cancelled;
mod tree;

pub use on_cancel::OnCancelOp;
pub use run_until_cancelled::{RunUntilCancelled, UntilCancelled};

use crate::wait::{Single, Wait};
use alloc::borrow::Cow;
use core::fmt;
use core::future::Future;
use node::NodeRef;
use reason::Reason;

/// The right to cancel: everything that holds one of its tokens, or descends from it, is asked to stop.
///
/// Cancelling is cooperative: it sets a flag and wakes its waiters. What a task does then is its own affair.
/// A source is a handle: cloning it counts, and all clones are the same source. Dropping sources cancels nothing (see
/// [`drop_guard`](Self::drop_guard) for that), and tokens outlive their source.
///
/// Sources form a tree: a [`child`](Self::child) is cancelled with its parent, and can be cancelled alone. It does not matter
/// whether those between an ancestor and a descendant still have any handle.
///
/// # Examples
///
/// ```
/// use tasuki::CancellationSource;
///
/// let server = CancellationSource::new();
/// let request = server.child();
/// let token = request.token();
///
/// let task = std::thread::spawn(move || {
///     token.on_cancel().block();
///     token.reason().map(str::to_owned)
/// });
/// drop(request);
/// server.cancel_with("shutting down");
/// assert_eq!(task.join().unwrap().as_deref(), Some("shutting down"));
/// ```
///
/// # Order
///
/// [`request_cancel`](Self::request_cancel) first sets all flags, then runs all wakers. When it returns, every descendant
/// that existed when it was called is cancelled, also if another call was first and is still at it; and the wakers of all
/// waiters whose flag this call has set have been run. The flags are set one by one, so a task that asks two tokens of
/// a tree meanwhile may find one cancelled and the other not yet. No waker runs before the last flag is set: a task
/// that was woken finds all of it cancelled. One call wakes the waiters of a node in the order in which they came, those of a
/// parent before those of its children; nothing is said about siblings, nor about two calls at once, which share the work.
///
/// A child made while its parent is being cancelled is cancelled: either the cancel still reaches it, or it is born so.
///
/// # Reasons
///
/// The first cancel of a node decides its reason, and a first cancel without a reason decides that there is none.
/// Descendants that this cancel reaches get the same; one that was cancelled before keeps its own.
///
/// # Cancel
///
/// Dropping an [`on_cancel`](CancellationToken::on_cancel) future leaves the queue, in constant time, in every state. It was
/// waiting for a fact that all can see, so nothing is lost and nothing is passed on.
///
/// # Panic
///
/// Never by itself, short of `isize::MAX` handles. A waker that panics does so in the call that cancels, after all other waiters of all
/// descendants have been woken; without `std` they are woken while the panic unwinds.
///
/// # Memory ordering
///
/// What was done before the call that cancelled a node happens before what follows an
/// [`on_cancel`](CancellationToken::on_cancel) that is ready, or a
/// [`stop_requested`](CancellationToken::stop_requested) that is true, of that node.
/// A call that finds it cancelled already publishes nothing.
///
/// # Re-entrancy
///
/// Wakers may do anything with any node of the tree: cancel, make children, drop handles and futures.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// None on waiters, children and depth. Every operation on a node is a constant number of steps, a cancel as many as there
/// are descendants and waiters; nothing recurses. One allocation a node and one for a reason made at run time, none
/// otherwise. A node without handles is kept while two children or more need it: at most half of a tree, and the first.
/// Creating and dropping nodes of one tree takes turns, by a lock that is held for some dozens of instructions.
///
/// # Futurelock
///
/// None: a waiter is given nothing that another one could lack.
///
/// # When to use something else
///
/// To be told again and again, an [`Event`](crate::Event). To end only one wait, drop its future, or give it the token by
/// [`or_cancelled`](crate::future::Wait::or_cancelled).
#[derive(Clone)]
#[doc(alias = "CancellationTokenSource")]
#[doc(alias = "AbortController")]
#[doc(alias = "stop_source")]
pub struct CancellationSource {
    node: NodeRef,
}

impl CancellationSource {
    /// A source without a parent.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// assert!(!source.token().stop_requested());
    /// ```
    pub fn new() -> Self {
        Self { node: tree::new_root() }
    }

    /// A token of this source, to be given to the tasks that are to stop.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// let token = source.token();
    /// source.request_cancel();
    /// assert!(token.stop_requested());
    /// ```
    pub fn token(&self) -> CancellationToken {
        CancellationToken { node: self.node.clone() }
    }

    /// Asks all to stop: the tokens of this source and of its descendants are cancelled, and their waiters are
    /// woken. Does nothing to what is cancelled already.
    ///
    /// What holds when it returns, and in which order it happens, is said under [Order](Self#order).
    ///
    /// # Panics
    ///
    /// Only if a waker does, after all others have been woken.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// let child = source.child().token();
    /// source.request_cancel();
    /// assert!(child.stop_requested());
    /// assert_eq!(child.reason(), None);
    /// ```
    #[doc(alias = "cancel")]
    pub fn request_cancel(&self) {
        tree::cancel(&self.node, Reason::Unsaid);
    }

    /// As [`request_cancel`](Self::request_cancel), and says why. The first reason stays.
    ///
    /// # Panics
    ///
    /// Only if a waker does, after all others have been woken; or the conversion, before anything is done.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// source.cancel_with("too slow");
    /// source.cancel_with(format!("{} errors", 3));
    /// assert_eq!(source.token().reason(), Some("too slow"));
    /// ```
    pub fn cancel_with(&self, reason: impl Into<Cow<'static, str>>) {
        tree::cancel(&self.node, reason.into().into());
    }

    /// A source that is cancelled with this one, and can be cancelled without it. The child of a cancelled source is born
    /// cancelled, with the same reason.
    ///
    /// # Examples
    ///
    /// ```
    /// let parent = tasuki::CancellationSource::new();
    /// let child = parent.child();
    /// child.request_cancel();
    /// assert!(child.token().stop_requested());
    /// assert!(!parent.token().stop_requested());
    /// ```
    #[doc(alias = "child_token")]
    pub fn child(&self) -> Self {
        Self { node: tree::child(&self.node) }
    }

    /// A guard that cancels when it is dropped: on every way out of a scope, a panic included.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// let token = source.token();
    /// {
    ///     let _guard = source.drop_guard();
    ///     assert!(!token.stop_requested());
    /// }
    /// assert!(token.stop_requested());
    /// ```
    pub fn drop_guard(self) -> DropGuard {
        DropGuard { source: Some(self) }
    }
}

impl Default for CancellationSource {
    /// As [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancellationSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "CancellationSource", &self.node)
    }
}

/// The duty to stop when asked: a token can see that it was cancelled, and wait for it, and cannot cancel.
///
/// Tokens are passed by value, and any number of tasks share one: a token is a handle, and cloning it counts. Ask with
/// [`stop_requested`](Self::stop_requested) in a loop that computes; wait with [`on_cancel`](Self::on_cancel) beside
/// something else; wrap a whole future with [`run_until_cancelled`](Self::run_until_cancelled).
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
#[derive(Clone)]
#[doc(alias = "AbortSignal")]
#[doc(alias = "stop_token")]
pub struct CancellationToken {
    node: NodeRef,
}

/// The future of [`CancellationToken::on_cancel`].
pub type OnCancel<'a> = Wait<Single<OnCancelOp<&'a CancellationToken>>>;

/// The future of [`CancellationToken::on_cancel_owned`].
pub type OnCancelOwned = Wait<Single<OnCancelOp<CancellationToken>>>;

impl CancellationToken {
    /// Was it cancelled? One atomic load; once true, it stays true.
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

    /// Waits until it is cancelled. Ready at the first poll, with one atomic load, if it is already.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// let token = source.token();
    /// let task = std::thread::spawn(move || token.on_cancel().block());
    /// source.request_cancel();
    /// task.join().unwrap();
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
    /// let source = tasuki::CancellationSource::new();
    /// let cancelled = source.token().on_cancel_owned();
    /// source.request_cancel();
    /// cancelled.block();
    /// ```
    #[inline]
    #[doc(alias = "cancelled_owned")]
    #[track_caller]
    pub fn on_cancel_owned(self) -> OnCancelOwned {
        Wait::new(OnCancelOp::new(self))
    }

    /// Why it was cancelled; `None` if it was not, or if no reason was given.
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

    /// A source that is cancelled with this token. It cannot cancel this token: a part of the work can be stopped without
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
    /// Each poll looks at the token first. A future whose token is cancelled before the first poll is never polled,
    /// without exception. One that gets ready in the very poll in which the token is cancelled gives its output: nothing that
    /// was done is thrown away. Whatever the end, the future has been dropped when it is reached.
    ///
    /// # Cancel safety
    ///
    /// As that of the future itself.
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
    pub fn run_until_cancelled<F: Future>(&self, future: F) -> RunUntilCancelled<'_, F> {
        UntilCancelled::new(self, future)
    }
}

impl Default for CancellationToken {
    /// A token that is never cancelled: it has no source.
    fn default() -> Self {
        CancellationSource::new().token()
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "CancellationToken", &self.node)
    }
}

fn describe(f: &mut fmt::Formatter<'_>, name: &str, node: &NodeRef) -> fmt::Result {
    let reason = node.reason();
    let text = reason.and_then(Reason::text);
    f.debug_struct(name).field("stop_requested", &reason.is_some()).field("reason", &text).finish()
}

/// Cancels its source when it is dropped; made by [`CancellationSource::drop_guard`].
///
/// If the drop happens because of a panic and a waker panics too, the process is aborted, as with every panic in a drop.
#[must_use = "the source is cancelled at once if the guard is not kept"]
#[derive(Debug)]
#[clippy::has_significant_drop]
pub struct DropGuard {
    /// Gone once disarmed.
    source: Option<CancellationSource>,
}

impl DropGuard {
    /// Gives the source back, uncancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// let guard = tasuki::CancellationSource::new().drop_guard();
    /// let source = guard.disarm();
    /// assert!(!source.token().stop_requested());
    /// ```
    pub fn disarm(mut self) -> CancellationSource {
        self.source.take().expect("only `disarm` takes it, and consumes the guard")
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(source) = &self.source {
            source.request_cancel();
        }
    }
}
