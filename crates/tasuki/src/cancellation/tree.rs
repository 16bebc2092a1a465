//! The tree of sources and tokens: which nodes a cancel reaches, and what is left when handles go.
//!
//! A cancel reaches every descendant, so a node must stay between its parent and its children when all its
//! handles are gone. It stays only while it has two children or more: a node with one child is
//! replaced by that child, one without children is taken out. So at most half of a tree are nodes that
//! have no handle, each change is a constant number of steps, and a chain whose links are dropped as it grows does not grow.
//!
//! # One lock for a tree
//!
//! The lock is the [`QueueLock`](crate::queue::queue_lock::QueueLock) of the first node of the tree; the thread that has it has a [`LockedTree`].
//! Taking a node out touches three generations; with a lock in every node that means locking upwards through
//! links that change meanwhile, with retries. With one lock it is straight code, and no order of locks is
//! needed but one: *the lock of the tree before `EDIT` of the waiters of one of its nodes*, which only
//! [`LockedTree::cancel_one`] does. What it costs: creating and dropping nodes of one tree is done one at a time, for some
//! dozens of instructions each. Asking (`stop_requested`), waiting (`on_cancel`) and copying handles never take it.
//! A cancel lets go of it after every [`STEPS`] steps. The first node's memory stays until the last node
//! of the tree is gone.
//!
//! # States of a node
//!
//! | state       | cancelled | children | in                                          |
//! |-------------|-----------|----------|---------------------------------------------|
//! | `Linked`    | no        | any      | the list of its parent, if it has one       |
//! | `Spreading` | yes       | any, not cancelled yet | the list of the tree, `TreeState::spreading` |
//! | `Detached`  | yes       | none     | nothing                                     |
//!
//! | from        | event                            | to                                   | fn |
//! |-------------|----------------------------------|--------------------------------------|----|
//! | (new)       | `new`, or `child` of one not cancelled | `Linked`                       | [`new_root`], [`LockedTree::link_child`] |
//! | (new)       | `child` of a cancelled one       | `Detached`                           | [`child`] |
//! | `Linked`    | it is cancelled, or its parent is `Spreading` | `Spreading`             | [`LockedTree::cancel_one`] |
//! | `Spreading` | it has no children left          | `Detached`; gone if orphaned         | [`LockedTree::end_spreading`] |
//! | `Linked`    | last handle gone, no children    | gone                                 | [`LockedTree::retire_linked`] |
//! | `Linked`    | last handle gone, one child      | gone, the child takes its place      | [`LockedTree::retire_linked`] |
//! | `Linked`    | last handle gone, more children  | `Linked`, orphaned                   | [`LockedTree::retire_linked`] |
//! | `Linked`, orphaned | its last child but one goes | gone, the child takes its place    | [`LockedTree::collapse`] |
//! | `Spreading` | last handle gone                 | `Spreading`, orphaned                | [`LockedTree::retire`] |
//! | `Detached`  | last handle gone                 | gone                                 | [`LockedTree::retire`] |
//!
//! # A cancel, step by step
//!
//! 1. Under the lock: the node gets reason and flag, and is put among the `Spreading`.
//! 2. Under the lock, [`STEPS`] at a time, until no node is `Spreading`: a child of the newest gets the same. A cancel
//!    that comes meanwhile helps, whether its own node is cancelled already or not. So when any cancel goes on to 3, all
//!    descendants that its node had at the call are cancelled.
//! 3. Without any lock: the waiters of the nodes that *this* cancel has flagged are released. The state was complete
//!    before the first waker. A panic is kept until all are woken.
//!
//! # Invariants
//! 1. What a link leads to, and what `tree` leads to, is not freed while the lock of the tree is held: a node is freed
//!    by the thread that took it out under the lock, after it has released that.
//! 2. A node with a handle is a member of its tree. Memory of the first node outlives all members.
//! 3. `CANCELLED` changes only under the lock of the tree, from unset to set, with the state.
//! 4. An orphaned `Linked` node has at least two children.
//! 5. The parent of a `Linked` node is `Linked` or `Spreading`, never `Detached`.
//! 6. No waiter is enqueued at a cancelled node, so step 3 finds every waiter that was not cancelled.
//!
//! # Orderings
//! The lock: Acquire of [`WaitQueue::try_lock`](crate::queue::WaitQueue::try_lock) pairs with Release in the drop of [`LockedQueue`](crate::queue::LockedQueue); all
//! links travel with it. The pairs of the flag and of the handles are in `node.rs`.

use super::after_unlock::{NodesToFree, NodesToWake};
use super::node::{CANCELLED, Node, NodeLink, NodeRef, NodeState, TreeLinks, TreeState};
use super::reason::Reason;
use crate::queue::queue_lock::QueueLockGuard;
use crate::shim::MODEL;
use alloc::boxed::Box;
use core::ptr::NonNull;

/// How many steps of a cancel are made in one hold of the lock: about a microsecond. The model needs only to see
/// the border crossed.
const STEPS: usize = if MODEL { 1 } else { 64 };

/// A tree of one node, for tokens without a source.
pub(super) fn new_never() -> NodeRef {
    NodeRef::publish(Box::new(Node::never_cancelled()), None)
}

/// A tree of one node.
pub(super) fn new_root() -> NodeRef {
    NodeRef::publish(Box::new(Node::root()), None)
}

/// `(new) => Linked` below `parent`, or `(new) => Detached` if that is cancelled.
pub(super) fn child(parent: &NodeRef) -> NodeRef {
    if !parent.is_cancelled() {
        // Before the lock is taken, and dropped after: the allocator may be slow.
        let node = Box::new(Node::root());
        let mut locked = LockedTree::new(parent);
        if !parent.is_cancelled() {
            let child = NodeRef::publish(node, Some(parent.tree));
            locked.link_child(parent.node(), child.node());
            return child;
        }
        drop(locked);
    }
    let reason = parent.reason().cloned().unwrap_or(Reason::Unsaid);
    NodeRef::publish(Box::new(Node::new_cancelled(reason)), None)
}

/// Cancels a node and all its descendants; see "step by step".
pub(super) fn cancel(target: &NodeRef, reason: Reason) {
    let mut wakes = NodesToWake::new(target);
    let mut locked = LockedTree::new(target);
    let mut garbage = NodesToFree::new();
    if !target.is_cancelled() {
        locked.unlink_from_parent(target.node(), &mut garbage);
        wakes.target_waited_for = locked.cancel_one(target.node(), reason);
    }
    loop {
        let more = locked.spread(&mut wakes, &mut garbage);
        drop(locked);
        garbage.free();
        if !more {
            break;
        }
        (locked, garbage) = (LockedTree::new(target), NodesToFree::new());
    }
    wakes.run();
}

/// What the drop of the last handle does.
///
/// SAFETY: the node has no handle, had one until now, and this is called once.
#[inline(never)]
pub(super) unsafe fn last_handle_gone(node: NonNull<Node>) {
    let mut garbage = NodesToFree::new();
    // SAFETY: a node without handles lives until it is retired, below.
    let mut locked = LockedTree::new(unsafe { node.as_ref() });
    locked.retire(node, &mut garbage);
    drop(locked);
    garbage.free();
}

/// The evidence of holding the lock of a tree. The functions take nodes of that tree only.
#[derive(Debug)]
#[must_use = "the tree is unlocked when this is dropped, and may be gone then"]
struct LockedTree<'t> {
    tree: NonNull<Node>,
    guard: QueueLockGuard<'t, TreeState>,
}

impl<'t> LockedTree<'t> {
    /// Takes the lock of the tree that this member belongs to.
    fn new(member: &Node) -> Self {
        let tree = member.tree;
        // SAFETY: invariant 2.
        let lock = unsafe { &(*tree.as_ptr()).lock };
        Self { tree, guard: lock.lock() }
    }

    fn at(&self, node: NonNull<Node>) -> &Node {
        // SAFETY: invariant 1.
        let node = unsafe { node.as_ref() };
        debug_assert_eq!(node.tree, self.tree, "a node of another tree");
        node
    }

    fn links(&self, node: NonNull<Node>) -> TreeLinks {
        // SAFETY: links are written under the lock, which we hold.
        self.at(node).links.with(|links| unsafe { *links })
    }

    fn change(&self, node: NonNull<Node>, change: impl FnOnce(&mut TreeLinks)) {
        // SAFETY: links are touched under the lock only, which we hold; the changes touch nothing else.
        self.at(node).links.with_mut(|links| change(unsafe { &mut *links }));
    }

    /// What belongs to the whole tree.
    fn state(&mut self) -> &mut TreeState {
        self.guard.value()
    }

    /// `(new) => Linked`, as the youngest child.
    fn link_child(&mut self, parent: NonNull<Node>, child: NonNull<Node>) {
        debug_assert_eq!(self.links(parent).state, NodeState::Linked);
        self.state().members += 1;
        let next = self.links(parent).child;
        self.change(child, |links| (links.parent, links.next) = (Some(parent), next));
        self.point(None, Some(parent), Some(child));
        self.point_back(next, Some(child));
    }

    /// What comes after `prev`, or, if there is none, is the youngest child of `parent`, is now `to`.
    fn point(&self, prev: NodeLink, parent: NodeLink, to: NodeLink) {
        match (prev, parent) {
            (Some(prev), _) => self.change(prev, |links| links.next = to),
            (None, Some(parent)) => self.change(parent, |links| links.child = to),
            (None, None) => {}
        }
    }

    /// What comes before `next` is now `to`.
    fn point_back(&self, next: NodeLink, to: NodeLink) {
        if let Some(next) = next {
            self.change(next, |links| links.prev = to);
        }
    }

    /// Takes a `Linked` node out of the list of its parent, if it is in one.
    fn unlink(&self, node: NonNull<Node>) {
        let TreeLinks { parent, prev, next, state, .. } = self.links(node);
        debug_assert_eq!(state, NodeState::Linked);
        self.point(prev, parent, next);
        self.point_back(next, prev);
        self.change(node, |links| (links.parent, links.prev, links.next) = (None, None, None));
    }

    /// Takes a `Linked` node out; an orphaned parent may now be needed no more.
    fn unlink_from_parent(&mut self, node: NonNull<Node>, garbage: &mut NodesToFree) {
        let parent = self.links(node).parent;
        self.unlink(node);
        if let Some(parent) = parent {
            self.collapse(parent, garbage);
        }
    }

    /// The child of a node that has exactly one.
    fn only_child(&self, node: NonNull<Node>) -> NodeLink {
        let child = self.links(node).child?;
        self.links(child).next.is_none().then_some(child)
    }

    /// Puts the only child of a `Linked` node into its place.
    fn replace(&self, node: NonNull<Node>, child: NonNull<Node>) {
        let TreeLinks { parent, prev, next, .. } = self.links(node);
        self.change(child, |links| (links.parent, links.prev, links.next) = (parent, prev, next));
        self.point(prev, parent, Some(child));
        self.point_back(next, Some(child));
    }

    /// The last handle is gone, whatever the state.
    fn retire(&mut self, node: NonNull<Node>, garbage: &mut NodesToFree) {
        match self.links(node).state {
            NodeState::Linked => self.retire_linked(node, garbage),
            NodeState::Spreading => self.change(node, |links| links.orphaned = true),
            NodeState::Detached => self.discard(node, garbage),
        }
    }

    /// `Linked => gone`, or orphaned while two children or more need it.
    fn retire_linked(&mut self, node: NonNull<Node>, garbage: &mut NodesToFree) {
        if self.links(node).child.is_none() {
            self.unlink_from_parent(node, garbage);
            self.discard(node, garbage);
        } else if let Some(child) = self.only_child(node) {
            self.replace(node, child);
            self.discard(node, garbage);
        } else {
            self.change(node, |links| links.orphaned = true);
        }
    }

    /// `Linked, orphaned => gone` if one child is left. A `Spreading` one is left to the cancel.
    fn collapse(&mut self, node: NonNull<Node>, garbage: &mut NodesToFree) {
        let TreeLinks { state, orphaned, .. } = self.links(node);
        if state != NodeState::Linked || !orphaned {
            return;
        }
        if let Some(child) = self.only_child(node) {
            self.replace(node, child);
            self.discard(node, garbage);
        }
    }

    /// A node that is in no list, and has no handle, leaves the tree. The first node's memory stays for the others.
    fn discard(&mut self, node: NonNull<Node>, garbage: &mut NodesToFree) {
        self.state().members -= 1;
        if node != self.tree {
            // SAFETY: it is in no list and has no handle; the members of the tree know nothing else of it.
            unsafe { garbage.push(node) };
        }
        if self.state().members == 0 {
            // SAFETY: invariant 2: there are no members, and this is the last reference to the lock.
            unsafe { garbage.push(self.tree) };
        }
    }

    /// `Linked => Spreading`, of a node that is in no list. True if it has waiters, which the caller must release after the lock.
    #[must_use]
    fn cancel_one(&mut self, node: NonNull<Node>, reason: Reason) -> bool {
        debug_assert!(!self.at(node).is_cancelled());
        // SAFETY: not cancelled, so it is not read; written under the lock only, which we hold.
        self.at(node).reason.with_mut(|slot| unsafe { *slot = reason });
        let mut locked = self.at(node).waiters.queue.lock();
        locked.set(CANCELLED);
        let waited_for = locked.has_waiters();
        // The Release in it publishes the reason; pairs with Acquire in `Node::is_cancelled`.
        drop(locked);
        let next = self.state().spreading;
        self.change(node, |links| (links.state, links.next) = (NodeState::Spreading, next));
        self.state().spreading = Some(node);
        waited_for
    }

    /// Some steps of what the `Spreading` have to do, whichever call cancelled them; false when there is nothing left.
    fn spread(&mut self, wakes: &mut NodesToWake<'_>, garbage: &mut NodesToFree) -> bool {
        for _ in 0..STEPS {
            let Some(node) = self.state().spreading else { return false };
            let Some(child) = self.links(node).child else {
                self.end_spreading(node, garbage);
                continue;
            };
            let reason = self.at(node).reason().cloned().unwrap_or(Reason::Unsaid);
            self.unlink(child);
            if self.cancel_one(child, reason) {
                // SAFETY: alive, by the lock. A waiter has a handle: if there is none, the future was forgotten.
                unsafe { Node::try_handle(child) }.into_iter().for_each(|handle| wakes.push(handle));
            }
        }
        self.state().spreading.is_some()
    }

    /// `Spreading => Detached`, of the newest; orphaned: `=> gone`.
    fn end_spreading(&mut self, node: NonNull<Node>, garbage: &mut NodesToFree) {
        let TreeLinks { next, orphaned, .. } = self.links(node);
        self.state().spreading = next;
        self.change(node, |links| (links.state, links.next) = (NodeState::Detached, None));
        if orphaned {
            self.discard(node, garbage);
        }
    }
}
