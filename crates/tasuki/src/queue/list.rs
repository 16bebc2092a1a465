//! The intrusive list: links and nothing else.
//!
//! A list is its head pointer. `head.prev` is the tail, so a list needs no second word; the tail's
//! `next` is null. A *snapshot* is the other form: a ring through a sentinel on somebody's stack, in
//! which every node has two neighbours. [`remove`] works on both without being told which.
//!
//! All functions are `unsafe` for one reason: the caller holds the `EDIT` bit of the queue that the
//! nodes belong to, and every node passed in is alive and, where it says so, in the list.

use super::waiter::Waiter;
use crate::shim::UnsafeCell;
use core::ptr;

/// A node's two neighbours; read and written only under `EDIT`.
#[derive(Debug)]
pub(crate) struct Links {
    next: UnsafeCell<*mut Waiter>,
    prev: UnsafeCell<*mut Waiter>,
}

impl Links {
    pub(crate) fn new() -> Self {
        Self { next: UnsafeCell::new(ptr::null_mut()), prev: UnsafeCell::new(ptr::null_mut()) }
    }
}

/// SAFETY: `node` is alive and its queue is being edited by the caller.
#[inline(always)]
pub(crate) unsafe fn next(node: *mut Waiter) -> *mut Waiter {
    // SAFETY: alive, by the contract.
    let links = unsafe { &(*node).links };
    // SAFETY: only the editor touches links.
    links.next.with(|next| unsafe { *next })
}

/// SAFETY: as [`next`].
#[inline(always)]
unsafe fn prev(node: *mut Waiter) -> *mut Waiter {
    // SAFETY: alive, by the contract.
    let links = unsafe { &(*node).links };
    // SAFETY: only the editor touches links.
    links.prev.with(|prev| unsafe { *prev })
}

/// SAFETY: as [`next`].
#[inline(always)]
unsafe fn set_next(node: *mut Waiter, to: *mut Waiter) {
    // SAFETY: alive, by the contract.
    let links = unsafe { &(*node).links };
    // SAFETY: only the editor touches links.
    links.next.with_mut(|next| unsafe { *next = to });
}

/// SAFETY: as [`next`].
#[inline(always)]
unsafe fn set_prev(node: *mut Waiter, to: *mut Waiter) {
    // SAFETY: alive, by the contract.
    let links = unsafe { &(*node).links };
    // SAFETY: only the editor touches links.
    links.prev.with_mut(|prev| unsafe { *prev = to });
}

/// A list of `node` alone, which is then the head.
///
/// SAFETY: module contract; `node` is in no list.
#[inline(always)]
pub(crate) unsafe fn begin(node: *mut Waiter) {
    // SAFETY: module contract.
    unsafe { set_next(node, ptr::null_mut()) };
    // SAFETY: module contract.
    unsafe { set_prev(node, node) };
}

/// Appends `node` to a list that is not empty.
///
/// SAFETY: module contract; `node` is in no list.
#[inline(always)]
pub(crate) unsafe fn append(head: *mut Waiter, node: *mut Waiter) {
    // SAFETY: module contract.
    unsafe { set_next(node, ptr::null_mut()) };
    // SAFETY: module contract; the head is in the list.
    let tail = unsafe { prev(head) };
    // SAFETY: module contract; the tail is in the list.
    unsafe { set_next(tail, node) };
    // SAFETY: module contract.
    unsafe { set_prev(node, tail) };
    // SAFETY: module contract.
    unsafe { set_prev(head, node) };
}

/// Puts `node` before all others; returns the head, which is `node`.
///
/// SAFETY: module contract; `node` is in no list.
#[inline(always)]
pub(crate) unsafe fn push_front(head: *mut Waiter, node: *mut Waiter) -> *mut Waiter {
    // SAFETY: module contract.
    unsafe { set_next(node, head) };
    if head.is_null() {
        // SAFETY: module contract.
        unsafe { set_prev(node, node) };
        return node;
    }
    // SAFETY: module contract; the head is in the list.
    let tail = unsafe { prev(head) };
    // SAFETY: module contract.
    unsafe { set_prev(node, tail) };
    // SAFETY: module contract.
    unsafe { set_prev(head, node) };
    node
}

/// Takes the head out; returns the new head.
///
/// SAFETY: module contract; `head` is not null and the head of a list that is not a snapshot.
#[inline(always)]
pub(crate) unsafe fn pop_front(head: *mut Waiter) -> *mut Waiter {
    // SAFETY: module contract.
    let second = unsafe { next(head) };
    if !second.is_null() {
        // SAFETY: module contract.
        let tail = unsafe { prev(head) };
        // SAFETY: module contract; `second` is in the list.
        unsafe { set_prev(second, tail) };
    }
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
    // SAFETY: module contract.
    let after = unsafe { next(node) };
    // SAFETY: a node that is not the head has a neighbour before it.
    unsafe { set_next(before, after) };
    // Nobody after it: it was the tail of the list (a ring has no tail), so the head records the new one.
    let holder = if after.is_null() { head } else { after };
    // SAFETY: module contract.
    unsafe { set_prev(holder, before) };
}

/// Makes a snapshot: a ring of `sentinel` and the whole list, which is then empty.
///
/// SAFETY: module contract; `head` is not null; `sentinel` is in no list and stays where it is until the
/// ring is empty again.
pub(crate) unsafe fn close_ring(sentinel: *mut Waiter, head: *mut Waiter) {
    // SAFETY: module contract; the head is in the list.
    let tail = unsafe { prev(head) };
    // SAFETY: module contract.
    unsafe { set_next(sentinel, head) };
    // SAFETY: module contract.
    unsafe { set_prev(head, sentinel) };
    // SAFETY: module contract.
    unsafe { set_next(tail, sentinel) };
    // SAFETY: module contract.
    unsafe { set_prev(sentinel, tail) };
}

/// Takes the first node out of a snapshot; null when the ring is empty.
///
/// SAFETY: module contract; `sentinel` belongs to a ring made by [`close_ring`].
pub(crate) unsafe fn pop_ring(sentinel: *mut Waiter) -> *mut Waiter {
    // SAFETY: module contract.
    let first = unsafe { next(sentinel) };
    if first == sentinel {
        return ptr::null_mut();
    }
    // SAFETY: module contract; in a ring the first node is never the head of a list.
    unsafe { remove(ptr::null_mut(), first) };
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
    unsafe { set_next(tail, node) };
    // SAFETY: module contract.
    unsafe { set_prev(node, tail) };
    // SAFETY: module contract.
    unsafe { set_next(node, sentinel) };
    // SAFETY: module contract.
    unsafe { set_prev(sentinel, node) };
}
