//! The intrusive list: links and nothing else.
//!
//! A list is its head pointer. `head.prev` is the tail, so a list needs no second word; the tail is known by that,
//! and its `next` is never read. A *snapshot* is the other form: a ring through a sentinel on the stack of a releaser, in
//! which every node has two neighbours. [`remove`] works on both without being told which.
//!
//! All functions are `unsafe` for one reason: the caller holds the `EDIT` bit of the queue that the
//! nodes belong to, and every node passed in is alive and, where it says so, in the list.

use super::waiter::Waiter;
use crate::shim::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;

/// A node's two neighbours; read and written only under `EDIT`.
#[derive(Debug)]
pub(crate) struct Links {
    next: LinkCell,
    prev: LinkCell,
}

type LinkCell = UnsafeCell<MaybeUninit<*mut Waiter>>;

impl Links {
    /// Of a node in no list: what is read later is written when it is put into one.
    pub(crate) fn new() -> Self {
        Self { next: UnsafeCell::new(MaybeUninit::uninit()), prev: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Of a sentinel that has never been used.
    pub(crate) fn null() -> Self {
        let null = MaybeUninit::new(ptr::null_mut());
        Self { next: UnsafeCell::new(null), prev: UnsafeCell::new(null) }
    }
}

/// SAFETY: `node` is alive and the caller holds the lock of its queue; it is in a ring, or in a list and not its tail.
#[inline(always)]
pub(crate) unsafe fn next(node: *mut Waiter) -> *mut Waiter {
    // SAFETY: alive, by the contract.
    let links = unsafe { &(*node).links };
    // SAFETY: only the holder of `EDIT` touches links; written when another node came behind this one, or for a sentinel.
    links.next.with(|next| unsafe { (*next).assume_init() })
}

/// SAFETY: `node` is alive and in a list or a ring, and the caller holds the lock of its queue.
#[inline(always)]
pub(crate) unsafe fn prev(node: *mut Waiter) -> *mut Waiter {
    // SAFETY: alive, by the contract.
    let links = unsafe { &(*node).links };
    // SAFETY: only the holder of `EDIT` touches links; everything that is in a list has a `prev`.
    links.prev.with(|prev| unsafe { (*prev).assume_init() })
}

/// SAFETY: `node` is alive and the caller holds the lock of its queue.
#[inline(always)]
unsafe fn set_next(node: *mut Waiter, to: *mut Waiter) {
    // SAFETY: alive, by the contract.
    let links = unsafe { &(*node).links };
    // SAFETY: only the holder of `EDIT` touches links.
    links.next.with_mut(|next| unsafe { (*next).write(to) });
}

/// SAFETY: as [`set_next`].
#[inline(always)]
unsafe fn set_prev(node: *mut Waiter, to: *mut Waiter) {
    // SAFETY: alive, by the contract.
    let links = unsafe { &(*node).links };
    // SAFETY: only the holder of `EDIT` touches links.
    links.prev.with_mut(|prev| unsafe { (*prev).write(to) });
}

/// A list of `node` alone, which is then the head.
///
/// SAFETY: module contract; `node` is in no list.
#[inline(always)]
pub(crate) unsafe fn begin(node: *mut Waiter) {
    // SAFETY: module contract.
    unsafe { set_prev(node, node) };
}

/// Appends `node` to a list that is not empty.
///
/// SAFETY: module contract; `node` is in no list.
#[inline(always)]
pub(crate) unsafe fn append(head: *mut Waiter, node: *mut Waiter) {
    // SAFETY: module contract; the head is in the list.
    let tail = unsafe { prev(head) };
    // SAFETY: module contract; the tail is in the list.
    unsafe { join(tail, node) };
    // SAFETY: module contract.
    unsafe { set_prev(head, node) };
}

/// Puts `node` before all others; returns the head, which is `node`.
///
/// SAFETY: module contract; `node` is in no list.
#[inline(always)]
pub(crate) unsafe fn push_front(head: *mut Waiter, node: *mut Waiter) -> *mut Waiter {
    if head.is_null() {
        // SAFETY: module contract.
        unsafe { begin(node) };
        return node;
    }
    // SAFETY: module contract.
    unsafe { set_next(node, head) };
    // SAFETY: module contract; the head is in the list.
    let tail = unsafe { prev(head) };
    // SAFETY: module contract.
    unsafe { set_prev(node, tail) };
    // SAFETY: module contract.
    unsafe { set_prev(head, node) };
    node
}

/// Puts `node` before `at`; returns the head.
///
/// SAFETY: module contract; `at` is in the list of `head`, `node` in none.
pub(crate) unsafe fn insert_before(head: *mut Waiter, at: *mut Waiter, node: *mut Waiter) -> *mut Waiter {
    if at == head {
        // SAFETY: module contract.
        return unsafe { push_front(head, node) };
    }
    // SAFETY: module contract; `at` is not the head.
    let before = unsafe { prev(at) };
    // SAFETY: module contract.
    unsafe { join(before, node) };
    // SAFETY: module contract.
    unsafe { join(node, at) };
    head
}

/// Swaps two runs of nodes: from `a` to the node before `b`, and from `b` to `b_last`. Returns the head.
///
/// SAFETY: module contract; all are in the list of `head`, in this order, `a` before `b`.
pub(crate) unsafe fn swap_runs(
    head: *mut Waiter,
    a: *mut Waiter,
    b: *mut Waiter,
    b_last: *mut Waiter,
) -> *mut Waiter {
    // SAFETY: module contract; `b` is not the head.
    let a_last = unsafe { prev(b) };
    // SAFETY: module contract. If `a` is the head, this is the tail, as it must be for the new head.
    let before = unsafe { prev(a) };
    // SAFETY: module contract.
    let behind = unsafe { after(head, b_last) };
    let head = if a == head { b } else { head };
    // SAFETY: module contract.
    unsafe { join(b_last, a) };
    if head == b {
        // SAFETY: module contract.
        unsafe { set_prev(b, before) };
    } else {
        // SAFETY: module contract.
        unsafe { join(before, b) };
    }
    if behind.is_null() {
        // The first run ends the list now.
        // SAFETY: module contract.
        unsafe { set_prev(head, a_last) };
    } else {
        // SAFETY: module contract.
        unsafe { join(a_last, behind) };
    }
    head
}

/// The node behind `node`, null if it is the last.
///
/// SAFETY: module contract; `node` is in the list of `head`.
#[inline(always)]
pub(crate) unsafe fn after(head: *mut Waiter, node: *mut Waiter) -> *mut Waiter {
    // SAFETY: module contract; the head is in the list.
    if unsafe { prev(head) } == node {
        return ptr::null_mut();
    }
    // SAFETY: module contract; not the tail.
    unsafe { next(node) }
}

/// Takes the head out; returns the new head.
///
/// SAFETY: module contract; `head` is not null and the head of a list that is not a snapshot.
#[inline(always)]
pub(crate) unsafe fn pop_front(head: *mut Waiter) -> *mut Waiter {
    // SAFETY: module contract.
    let tail = unsafe { prev(head) };
    if tail == head {
        return ptr::null_mut();
    }
    // SAFETY: module contract; not the tail.
    let second = unsafe { next(head) };
    // SAFETY: module contract; `second` is in the list.
    unsafe { set_prev(second, tail) };
    second
}

/// Takes `node` out, wherever it is; returns the head.
///
/// SAFETY: module contract; `node` is in the list of `head`, or in a snapshot of the same queue.
#[inline]
pub(crate) unsafe fn remove(head: *mut Waiter, node: *mut Waiter) -> *mut Waiter {
    if node == head {
        // SAFETY: module contract.
        return unsafe { pop_front(head) };
    }
    // SAFETY: module contract.
    unsafe { unlink(head, node) };
    head
}

/// Takes `node` out, which is not the head.
///
/// SAFETY: module contract; `node` is in the list of `head` and not its first, or in a snapshot of the same queue.
#[inline(always)]
pub(crate) unsafe fn unlink(head: *mut Waiter, node: *mut Waiter) {
    // SAFETY: module contract.
    let before = unsafe { prev(node) };
    // SAFETY: module contract; a head is in its list.
    if !head.is_null() && unsafe { prev(head) } == node {
        // It was the tail of the list (a ring has no tail), so the head records the new one.
        // SAFETY: module contract.
        unsafe { set_prev(head, before) };
        return;
    }
    // SAFETY: module contract; not the tail.
    let after = unsafe { next(node) };
    // SAFETY: a node that is not the head has a neighbour before it.
    unsafe { join(before, after) };
}

/// Makes the list end with null behind its last node, for a walk without its head.
///
/// SAFETY: module contract; `last` is the tail of a list that is not used as a list again.
pub(crate) unsafe fn seal(last: *mut Waiter) {
    // SAFETY: module contract.
    unsafe { set_next(last, ptr::null_mut()) };
}

/// Makes a snapshot: a ring of `sentinel` and the list from `first` to `last`, which are then in no other.
///
/// SAFETY: module contract; `sentinel` is in no list and stays where it is until the ring is empty again.
pub(crate) unsafe fn close_ring(sentinel: *mut Waiter, first: *mut Waiter, last: *mut Waiter) {
    // SAFETY: module contract.
    unsafe { join(sentinel, first) };
    // SAFETY: module contract.
    unsafe { join(last, sentinel) };
}

/// Makes two nodes neighbours; the nodes between them are out.
///
/// SAFETY: module contract.
#[inline(always)]
pub(crate) unsafe fn join(before: *mut Waiter, after: *mut Waiter) {
    // SAFETY: module contract.
    unsafe { set_next(before, after) };
    // SAFETY: module contract.
    unsafe { set_prev(after, before) };
}

/// Takes the first node out of a ring.
///
/// SAFETY: module contract; `sentinel` belongs to a ring that is not empty.
#[cfg(feature = "std")]
pub(crate) unsafe fn pop_ring(sentinel: *mut Waiter) -> *mut Waiter {
    // SAFETY: module contract.
    let first = unsafe { next(sentinel) };
    // SAFETY: module contract; not the sentinel, and a ring has no head.
    unsafe { unlink(ptr::null_mut(), first) };
    first
}

/// Appends `node` to a ring; a sentinel that has never been used is an empty ring.
///
/// SAFETY: module contract; `node` is in no list; `sentinel` stays where it is until the ring is empty again.
#[cfg(feature = "std")]
pub(crate) unsafe fn push_ring(sentinel: *mut Waiter, node: *mut Waiter) {
    // SAFETY: module contract.
    let mut tail = unsafe { prev(sentinel) };
    if tail.is_null() {
        tail = sentinel;
    }
    // SAFETY: module contract; the tail is in the ring.
    unsafe { join(tail, node) };
    // SAFETY: module contract.
    unsafe { join(node, sentinel) };
}
