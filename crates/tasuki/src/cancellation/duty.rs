//! What is left to do when the lock of a tree has been let go: nodes to free, waiters to release.

use super::node::{Handle, Link, Node};
use crate::queue::batch::Panics;
use core::ptr::NonNull;

/// Nodes taken out of a tree. Chained by `next`.
#[derive(Debug)]
#[must_use = "these nodes must be freed, after the lock has been let go"]
pub(super) struct Garbage {
    first: Link,
}

impl Garbage {
    pub(super) fn new() -> Self {
        Self { first: None }
    }

    /// SAFETY: nobody but the caller knows the node, and nobody else will touch it but by [`free`](Self::free).
    pub(super) unsafe fn push(&mut self, node: NonNull<Node>) {
        // SAFETY: nobody else knows the node.
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

/// Nodes whose waiters a cancel must release, in the order in which it reached them. Chained by `next_wake`; each
/// stands for a handle.
#[derive(Debug)]
#[must_use = "these waiters must be released, after the lock has been let go"]
pub(super) struct Wakes {
    first: Link,
    last: Link,
}

impl Wakes {
    pub(super) fn new() -> Self {
        Self { first: None, last: None }
    }

    /// Adds a node that this cancel has just flagged.
    pub(super) fn push(&mut self, handle: Handle) {
        let node = handle.into_counted();
        match self.last.replace(node) {
            // SAFETY: alive, by the handle it stands for.
            Some(last) => unsafe { last.as_ref() }.set_next_wake(node),
            None => self.first = Some(node),
        }
    }

    fn next(&mut self) -> Option<Handle> {
        // SAFETY: the handle was given up in `push`.
        let handle = unsafe { Handle::from_counted(self.first?) };
        self.first = handle.next_wake();
        Some(handle)
    }

    /// Releases all; the first panic of a waker goes on at the end.
    pub(super) fn run(mut self) {
        let mut panics = Panics::default();
        while let Some(node) = self.next() {
            panics.catch(|| release_waiters(&node));
        }
        panics.resume();
    }
}

impl Drop for Wakes {
    /// Only a panic that could not be caught leaves something; it is done all the same.
    fn drop(&mut self) {
        while let Some(node) = self.next() {
            release_waiters(&node);
        }
    }
}

fn release_waiters(node: &Node) {
    node.waiters.release_all(node.waiters.queue.lock());
}
