//! A node of the tree of sources and tokens, and [`NodeRef`], the counted reference by which sources, tokens and a running cancel hold it. Links between nodes are not counted: `tree.rs` says when a node goes.
//!
//! # Who may touch what
//!
//! | field     | written                                            | read                                   |
//! |-----------|----------------------------------------------------|----------------------------------------|
//! | `waiters` | by the rules of the queue; `CANCELLED` is set once, under the lock of the tree | by any thread |
//! | `handles` | by any thread that has a handle, or [`Node::try_handle`] | never                            |
//! | `reason`  | once, under the lock of the tree, before `CANCELLED` | by any thread that has seen `CANCELLED` |
//! | `tree`    | before publication                                 | by any thread                          |
//! | `lock`    | by the thread that locks the tree (of the first node only) | by the same                    |
//! | `links`   | under the lock of the tree                         | under the lock of the tree             |
//! | `next_wake` | by the cancel that set `CANCELLED`               | by the same                            |
//!
//! # Orderings
//! * `CANCELLED`: Release in the drop of [`LockedQueue`](crate::queue::LockedQueue) in `tree.rs` pairs with
//!   Acquire of [`Node::is_cancelled`]: the reason, and what was done before the cancel, is visible to a thread that
//!   sees the flag.
//! * `handles`: Release and Acquire of [`NodeRef::drop`] pair with each other: what was done through a handle
//!   happens before the end of the node.

use super::reason::Reason;
use super::tree;
use crate::queue::broadcast::Broadcast;
use crate::queue::queue_lock::QueueLock;
use crate::queue::word::{FLAG_A, Word};
use crate::shim::{AtomicUsize, Ordering, Tracked, UnsafeCell};
use alloc::boxed::Box;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

/// The flag in the word of the waiters: it is cancelled.
pub(super) const CANCELLED: usize = FLAG_A;

/// More handles than this cannot be had without forgetting some.
const MAX_HANDLES: usize = isize::MAX as usize;

/// Another node of the same tree.
pub(super) type NodeLink = Option<NonNull<Node>>;

/// One source with its tokens.
#[derive(Debug)]
pub(super) struct Node {
    /// The note says whether there is no source, and never was: then no cancel comes.
    pub(super) waiters: Broadcast<bool>,
    handles: AtomicUsize,
    pub(super) reason: UnsafeCell<Reason>,
    /// The first node of the tree: its `lock` is the tree's.
    pub(super) tree: NonNull<Node>,
    pub(super) lock: QueueLock<TreeState>,
    pub(super) links: UnsafeCell<TreeLinks>,
    next_wake: UnsafeCell<NodeLink>,
    /// Counts the node in the models, so that a leak fails them.
    _tracked: Tracked,
}

/// Where a node stands in its tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeLinks {
    pub(super) parent: NodeLink,
    /// The neighbours among the children of the parent; `next` also chains nodes that are not linked.
    pub(super) prev: NodeLink,
    pub(super) next: NodeLink,
    /// The youngest child.
    pub(super) child: NodeLink,
    pub(super) state: NodeState,
    /// All handles are gone, and the drop of the last saw that the node is still needed.
    pub(super) orphaned: bool,
}

/// See the table of `tree.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// In the tree; not cancelled.
    Linked,
    /// Cancelled, on its way to cancel its children.
    Spreading,
    /// Cancelled; in no list, without children.
    Detached,
}

/// What belongs to the whole tree; used in its first node.
#[derive(Debug)]
pub(super) struct TreeState {
    /// The nodes that are [`NodeState::Spreading`], newest first.
    pub(super) spreading: NodeLink,
    /// How many nodes point here with `tree`.
    pub(super) members: usize,
}

impl Node {
    /// A node that is the first and only one of a tree; `tree` is set by [`NodeRef::publish`].
    fn new(word: Word, is_never: bool, reason: Reason, state: NodeState) -> Self {
        let links = TreeLinks { parent: None, prev: None, next: None, child: None, state, orphaned: false };
        Self {
            waiters: Broadcast::with_note(word, is_never),
            handles: AtomicUsize::new(1),
            reason: UnsafeCell::new(reason),
            tree: NonNull::dangling(),
            lock: QueueLock::new(TreeState { spreading: None, members: 1 }),
            links: UnsafeCell::new(links),
            next_wake: UnsafeCell::new(None),
            _tracked: Tracked::new(),
        }
    }

    /// The root of a new tree.
    pub(super) fn root() -> Self {
        Self::new(Word::flags(0), false, Reason::Unsaid, NodeState::Linked)
    }

    /// The same, without a source.
    pub(super) fn never_cancelled() -> Self {
        Self::new(Word::flags(0), true, Reason::Unsaid, NodeState::Linked)
    }

    /// The child of a cancelled node: it needs no parent.
    pub(super) fn new_cancelled(reason: Reason) -> Self {
        Self::new(Word::flags(CANCELLED), false, reason, NodeState::Detached)
    }

    /// Is it the node of tokens without a source? Nothing cancels it.
    pub(super) fn is_never(&self) -> bool {
        self.waiters.note
    }

    /// The one load of `stop_requested`.
    #[inline(always)]
    pub(super) fn is_cancelled(&self) -> bool {
        // Acquire: pairs with Release in the drop of `LockedQueue`, by which `LockedTree::cancel_one` publishes the flag.
        self.waiters.queue.load_with(Ordering::Acquire).has(CANCELLED)
    }

    /// The reason of a node that [is cancelled](Self::is_cancelled); `None` of any other.
    pub(super) fn reason(&self) -> Option<&Reason> {
        if !self.is_cancelled() {
            return None;
        }
        // SAFETY: written for the last time before `CANCELLED`, which has been seen (table of the module).
        Some(self.reason.with(|reason| unsafe { &*reason }))
    }

    /// The node whose waiters are released after those of this one; by the cancel that flagged both.
    pub(super) fn next_wake(&self) -> NodeLink {
        // SAFETY: touched by one cancel only (table of the module).
        self.next_wake.with(|next| unsafe { *next })
    }

    pub(super) fn set_next_wake(&self, node: NonNull<Node>) {
        // SAFETY: as in `next_wake`.
        self.next_wake.with_mut(|next| unsafe { *next = Some(node) });
    }

    /// Another handle. `None` when no handle is left: there is no waiter to wake.
    ///
    /// SAFETY: `node` is alive, by a handle or by the lock of its tree.
    pub(super) unsafe fn try_handle(node: NonNull<Node>) -> Option<NodeRef> {
        // SAFETY: the caller's contract.
        let handles = unsafe { &node.as_ref().handles };
        let more = |count| (count != 0).then_some(count + 1);
        // Relaxed twice: the node is alive and visible to the caller, and nothing is published by counting.
        handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(NodeRef { node })
    }

    /// Ends the life of a node.
    ///
    /// SAFETY: it came from [`NodeRef::publish`], only the caller knows it any more, and it is not freed again.
    pub(super) unsafe fn free(node: NonNull<Node>) {
        // SAFETY: the caller's contract; `publish` made it from a box.
        let node = unsafe { Box::from_raw(node.as_ptr()) };
        // A write, so that the model sees a reader that is too late.
        // SAFETY: only the caller knows the node.
        node.reason.with_mut(|reason| unsafe { *reason = Reason::Unsaid });
    }
}

/// A counted reference to a node: what sources, tokens and cancels hold.
#[derive(Debug)]
pub(super) struct NodeRef {
    node: NonNull<Node>,
}

// SAFETY: a node is shared by the rules of the table; the wakers in its queue are `Send` and `Sync`.
unsafe impl Send for NodeRef {}
// SAFETY: as above.
unsafe impl Sync for NodeRef {}

// What a panic can interrupt is complete before any foreign code runs.
impl UnwindSafe for NodeRef {}
impl RefUnwindSafe for NodeRef {}

impl NodeRef {
    /// The first handle of a node that is not published yet. Without a tree it becomes the first of its own.
    pub(super) fn publish(node: Box<Node>, tree: Option<NonNull<Node>>) -> Self {
        let node = NonNull::from(Box::leak(node));
        // SAFETY: only the caller knows the node.
        unsafe { (*node.as_ptr()).tree = tree.unwrap_or(node) };
        Self { node }
    }

    pub(super) fn node(&self) -> NonNull<Node> {
        self.node
    }

    /// Gives the handle up, and keeps its count.
    pub(super) fn into_counted(self) -> NonNull<Node> {
        ManuallyDrop::new(self).node
    }

    /// SAFETY: from [`into_counted`](Self::into_counted), once.
    pub(super) unsafe fn from_counted(node: NonNull<Node>) -> Self {
        Self { node }
    }
}

impl Deref for NodeRef {
    type Target = Node;

    #[inline(always)]
    fn deref(&self) -> &Node {
        // SAFETY: a node lives at least as long as its handles.
        unsafe { self.node.as_ref() }
    }
}

impl Clone for NodeRef {
    #[inline]
    #[track_caller]
    fn clone(&self) -> Self {
        // Relaxed: our own handle keeps the node alive, and nothing is published by counting.
        if self.handles.fetch_add(1, Ordering::Relaxed) > MAX_HANDLES {
            too_many_handles(self);
        }
        Self { node: self.node }
    }
}

/// The count is far from its end, so that it can be taken back however many threads come here.
#[cold]
#[inline(never)]
#[track_caller]
fn too_many_handles(handle: &NodeRef) -> ! {
    // Relaxed: as in `clone`.
    handle.handles.fetch_sub(1, Ordering::Relaxed);
    panic!("more than {MAX_HANDLES} handles of one cancellation source");
}

impl Drop for NodeRef {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with Acquire of the last drop, here: it ends what others have used.
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: this was the last handle, and no other can be made of none.
            unsafe { tree::last_handle_gone(self.node) };
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::CancellationSource;
    use crate::panic_place::line_of_panic;

    /// One handle too many: the panic names the line of the caller, and the count stays what it was.
    #[test]
    fn one_handle_too_many_names_its_caller() {
        let source = CancellationSource::new();
        let token = source.token();
        let before = source.node.handles.swap(MAX_HANDLES + 1, Ordering::Relaxed);
        let first = line!() + 2;
        let lines = [
            line_of_panic(|| drop(source.clone())),
            line_of_panic(|| drop(token.clone())),
            line_of_panic(|| drop(source.token())),
        ];
        assert_eq!(lines, core::array::from_fn(|at| first + at as u32));
        assert_eq!(source.node.handles.swap(before, Ordering::Relaxed), MAX_HANDLES + 1);
    }
}
