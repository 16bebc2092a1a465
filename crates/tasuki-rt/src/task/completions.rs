//! The members of a [`JoinSet`](super::set::JoinSet) that have ended, in the order they did: an intrusive queue to which their wakers push.
//!
//! Every member has one [`Completion`], made when it joins the set. The waker that its handle was polled with pushes the completion; the owner
//! of the set pops it, and looks at the handle. Nothing is allocated after the member has joined: the link is in the completion, and
//! a wake of one that is queued does nothing.
//!
//! # States of a completion
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | idle | wake | queued | set the event of the set | [`Completion::announce`] |
//! | queued | wake | queued | none: the owner will look | [`Completion::announce`] |
//! | queued | the owner pops it | idle | look at the handle | [`Completions::next`] |
//! | idle | wake, the set is gone | queued for ever, in no queue | none | [`Completion::announce`] |
//! | queued | the set is dropped | queued for ever, in no queue | none | [`Completions::close`] |
//!
//! # Invariants
//! 1. A completion is in the queue only while `queued` is set: so its link has one user.
//! 2. The queue owns a reference to each completion in it, and a completion one to the queue. [`Completions::close`] ends the circle.
//!
//! # Orderings
//! Release in `next` pairs with Acquire in `announce`: the link is no longer used. Release in `announce` pairs with Acquire in `next`: a wake that
//! found the completion queued, and did nothing, happened before the look at the handle.

use crate::scheduler::chain::{Link, Linked};
use crate::scheduler::shared_queue::SharedQueue;
use crate::shim::{AtomicBool, Ordering};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// The queue, and what tells its owner: an event, of which a model needs none.
#[derive(Debug)]
pub(crate) struct Completions<E: 'static> {
    queue: SharedQueue<Arc<Completion<E>>>,
    pub(crate) event: E,
}

/// The part of one member.
pub(crate) struct Completion<E: 'static> {
    /// Which member.
    pub(crate) index: usize,
    /// Where it is announced.
    pub(crate) set: Arc<Completions<E>>,
    queued: AtomicBool,
    link: Link,
}

impl<E: 'static> Completion<E> {
    pub(crate) fn new(index: usize, set: Arc<Completions<E>>) -> Arc<Self> {
        Arc::new(Self { index, set, queued: AtomicBool::new(false), link: Link::new() })
    }

    /// idle => queued. False if it was queued, or the set is gone.
    #[must_use]
    pub(crate) fn announce(self: &Arc<Self>) -> bool {
        // Acquire: pairs with Release in `next`. Release: pairs with Acquire in `next`.
        let queued = self.queued.swap(true, Ordering::AcqRel);
        !queued && self.set.queue.push(self.clone()).is_ok()
    }
}

impl<E: 'static> Completions<E> {
    pub(crate) fn new(event: E) -> Self {
        Self { queue: SharedQueue::new(), event }
    }

    /// queued => idle, for the first one.
    pub(crate) fn next(&self) -> Option<Arc<Completion<E>>> {
        let first = self.queue.take(1, 0, |_| ())?;
        // Release: pairs with Acquire in `announce`. Acquire: pairs with Release in `announce`.
        first.queued.swap(false, Ordering::AcqRel);
        Some(first)
    }

    /// Is none queued? A hint.
    #[cfg(test)]
    pub(crate) fn looks_empty(&self) -> bool {
        self.queue.looks_empty()
    }

    /// The set is gone: lets go of what is queued, and takes nothing more.
    pub(crate) fn close(&self) {
        self.queue.close();
        drop(self.queue.take_all());
    }
}

impl<E: 'static> fmt::Debug for Completion<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("index", &self.index).finish_non_exhaustive()
    }
}

// SAFETY: the `Arc` that is given away keeps the completion, and its link is used by one queue (invariant 1).
unsafe impl<E: 'static> Linked for Arc<Completion<E>> {
    fn into_raw(self) -> NonNull<()> {
        NonNull::new(Self::into_raw(self).cast_mut().cast()).expect("an `Arc` points somewhere")
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self::from_raw(raw.cast().as_ptr()) }
    }

    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: promised by the caller.
        unsafe { &raw.cast::<Completion<E>>().as_ref().link }
    }
}
