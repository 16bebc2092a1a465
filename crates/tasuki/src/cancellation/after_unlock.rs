//! What is done after the lock of a tree has been released: nodes are freed, waiters are woken.
//!
//! A change of the tree collects both while it has the lock (`tree.rs`), because a destructor and a waker are foreign code. Each collection is a chain through the nodes, so
//! nothing is allocated.

use super::node::{Node, NodeLink, NodeRef};
use crate::queue::batch::Panics;
use core::mem;
use core::ptr::NonNull;

/// Nodes taken out of a tree. Chained by `next`.
#[derive(Debug)]
#[must_use = "these nodes must be freed, after the lock has been released"]
pub(super) struct NodesToFree {
    first: NodeLink,
}

impl NodesToFree {
    pub(super) fn new() -> Self {
        Self { first: None }
    }

    /// SAFETY: only the caller knows the node, and it is not touched again but by [`free`](Self::free).
    pub(super) unsafe fn push(&mut self, node: NonNull<Node>) {
        // SAFETY: only the caller knows the node.
        unsafe { node.as_ref() }.links.with_mut(|links| unsafe { (*links).next = self.first });
        self.first = Some(node);
    }

    pub(super) fn free(mut self) {
        while let Some(node) = self.first {
            // SAFETY: the contract of `push`.
            self.first = unsafe { node.as_ref() }.links.with(|links| unsafe { (*links).next });
            // SAFETY: the contract of `push`; it has just left the chain.
            unsafe { Node::free(node) };
        }
    }
}

/// Nodes whose waiters a cancel must release, in the order in which it reached them: its target, which the caller's handle keeps, and descendants, chained by
/// `next_wake`, each of which stands for a handle.
#[derive(Debug)]
#[must_use = "these waiters must be released, after the lock has been released"]
pub(super) struct NodesToWake<'c> {
    target: &'c Node,
    pub(super) target_waited_for: bool,
    first: NodeLink,
    last: NodeLink,
}

impl<'c> NodesToWake<'c> {
    pub(super) fn new(target: &'c Node) -> Self {
        Self { target, target_waited_for: false, first: None, last: None }
    }

    /// Adds a descendant that this cancel has just flagged.
    pub(super) fn push(&mut self, handle: NodeRef) {
        let node = handle.into_counted();
        match self.last.replace(node) {
            // SAFETY: alive, by the handle it stands for.
            Some(last) => unsafe { last.as_ref() }.set_next_wake(node),
            None => self.first = Some(node),
        }
    }

    fn next(&mut self) -> Option<NodeRef> {
        // SAFETY: the handle was given up in `push`.
        let handle = unsafe { NodeRef::from_counted(self.first?) };
        self.first = handle.next_wake();
        Some(handle)
    }

    /// Releases all; the first panic of a waker goes on at the end.
    pub(super) fn run(mut self) {
        let mut panics = Panics::default();
        if mem::take(&mut self.target_waited_for) {
            panics.catch(|| release_waiters(self.target));
        }
        while let Some(node) = self.next() {
            panics.catch(|| release_waiters(&node));
        }
        panics.resume();
    }
}

impl Drop for NodesToWake<'_> {
    /// Only a panic that could not be caught leaves something; it is done all the same.
    fn drop(&mut self) {
        if mem::take(&mut self.target_waited_for) {
            release_waiters(self.target);
        }
        while let Some(node) = self.next() {
            release_waiters(&node);
        }
    }
}

fn release_waiters(node: &Node) {
    node.waiters.release_all(node.waiters.queue.lock());
}
