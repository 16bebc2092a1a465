//! `CancellationSource`, which cancels, and `DropGuard`, which cancels when it is dropped.

use super::node::NodeRef;
use super::reason::Reason;
use super::{CancellationToken, describe, tree};
use alloc::borrow::Cow;
use core::fmt;

/// Cancels tasks: asks every task that holds one of its tokens, or a token of a descendant, to stop.
///
/// Cancelling is cooperative: it sets a flag and wakes its waiters. What a task does then is up to the task.
/// A source is a counted handle, as an `Arc`: all clones are the same source. Dropping sources cancels nothing (see
/// [`drop_guard`](Self::drop_guard) for that), and tokens outlive their source.
///
/// Sources form a tree: a [`child`](Self::child) is cancelled with its parent, and can be cancelled alone. That holds for grandchildren, too, also
/// when the sources in between have been dropped.
///
/// # Examples
///
/// ```
/// use tasuki::CancellationSource;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = CancellationSource::new();
/// let request = server.child();
/// let token = request.token();
///
/// let task = tokio::spawn(async move {
///     token.on_cancel().await;
///     token.reason().map(str::to_owned)
/// });
/// drop(request);
/// server.cancel_with("shutting down");
/// assert_eq!(task.await.unwrap().as_deref(), Some("shutting down"));
/// # }
/// ```
///
/// # Order
///
/// [`request_cancel`](Self::request_cancel) first sets all flags, then calls all wakers. When it returns:
///
/// * every descendant that existed when it was called is cancelled, also if another call was first and has not returned;
/// * the wakers of all waiters whose flag this call has set have been called (deep inside of other wakes they are called later: [Wakers](crate#wakers)).
///
/// The flags are set one by one, so a task that checks two tokens of a tree meanwhile may find one cancelled and the other not yet. No waker is called before the last flag is set: a task
/// that was woken finds the whole tree cancelled. One call wakes the waiters of a source in the order in which they were enqueued, those of a
/// parent before those of its children. The order of siblings is not specified, nor that of two calls at once, which share the work.
///
/// A child made while its parent is being cancelled is cancelled: either the cancel still reaches it, or it is created cancelled.
///
/// # Reasons
///
/// The first cancel of a source decides its reason, and a first cancel without a reason decides that there is none.
/// Descendants that this cancel reaches get the same reason; one that was cancelled before keeps its own.
///
/// # Cancel
///
/// Dropping an [`on_cancel`](CancellationToken::on_cancel) future leaves the queue, in constant time, in every state. It was
/// waiting for a fact that all can see, so nothing is lost and nothing is passed on.
///
/// # Panic
///
/// Never by itself, short of `isize::MAX` handles. A waker that panics does so in the call that cancels, after all other waiters of all
/// descendants have been woken ([Wakers](crate#wakers)); without `std` they are woken while the panic unwinds.
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
/// None on waiters, children and depth. A cancel takes as many steps as there are descendants and waiters, every other operation a constant number; nothing recurses.
///
/// A source or child is one allocation, a *node*; a reason made at run time is another. A node without handles stays while it has two children or more, so at most half of a tree's nodes have none; the first node's memory stays as long as its tree.
/// Creating and dropping nodes of one tree takes turns, by a lock that is held for some dozens of instructions.
///
/// # Futurelock
///
/// None: a wait that is not polled keeps nothing from others.
///
/// # When to use something else
///
/// To be told again and again, an [`Event`](crate::Event). To end only one wait, drop its future, or give it the token by
/// [`or_cancelled`](crate::future::Wait::or_cancelled).
#[doc(alias = "CancellationTokenSource")]
#[doc(alias = "AbortController")]
#[doc(alias = "stop_source")]
pub struct CancellationSource {
    pub(super) node: NodeRef,
}

impl CancellationSource {
    /// Creates a source without a parent.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// assert!(!source.token().stop_requested());
    /// ```
    ///
    /// It allocates, so it is not `const`. A source of the whole program is made when it is first used:
    ///
    /// ```
    /// use std::sync::LazyLock;
    /// use tasuki::CancellationSource;
    ///
    /// static STOP: LazyLock<CancellationSource> = LazyLock::new(CancellationSource::new);
    ///
    /// let token = STOP.token();
    /// STOP.request_cancel();
    /// assert!(token.stop_requested());
    /// ```
    pub fn new() -> Self {
        Self { node: tree::new_root() }
    }

    /// Returns a token of this source, to be given to the tasks that are to stop.
    ///
    /// # Examples
    ///
    /// ```
    /// let source = tasuki::CancellationSource::new();
    /// let token = source.token();
    /// source.request_cancel();
    /// assert!(token.stop_requested());
    /// ```
    #[track_caller]
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

    /// Creates a source that is cancelled with this one, and can be cancelled without it. The child of a cancelled source is
    /// created cancelled, with the same reason.
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

    /// Returns a guard that cancels the source when it is dropped: on every way out of a scope, a panic included.
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

impl Clone for CancellationSource {
    #[inline]
    #[track_caller]
    fn clone(&self) -> Self {
        Self { node: self.node.clone() }
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

/// Cancels its source when it is dropped; made by [`CancellationSource::drop_guard`].
///
/// If the drop happens because of a panic and a waker panics too, the second panic is dropped.
///
/// # Examples
///
/// ```
/// let source = tasuki::CancellationSource::new();
/// let token = source.token();
/// drop(source.drop_guard());
/// assert!(token.stop_requested());
/// ```
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
    #[allow(clippy::missing_panics_doc, reason = "the source is there until the guard is gone")]
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
