//! Messages without a sender: what `try_send` has handed to a receiver that waited, and what a panic made a receive give back.
//!
//! Such a message is in a box of its own, which was allocated without the lock: it is granted to a receiver by a pointer, and put back by linking it, so a receive that is dropped
//! neither moves a message nor allocates. Receives are dropped in any order, and messages that were put back keep theirs: they are a heap by ticket, of the shape and at the price of `channel/returned.rs`, linked
//! through the boxes.
//!
//! # Invariants
//! 1. A box in the heap is the heap's own, and is in it once; `left` and `right` are the trees below it, whose tickets are greater. Outside of a heap both are null.
//!
//! Plain memory: only the holder of the queue lock touches a heap, or the only user of one that was taken out.

use alloc::boxed::Box;
use core::cell::Cell;
use core::{mem, ptr};

/// A message in its box.
#[derive(Debug)]
pub(super) struct Handed<T> {
    /// A message that was granted earlier has a smaller one.
    pub(super) ticket: i64,
    left: Cell<*mut Handed<T>>,
    right: Cell<*mut Handed<T>>,
    pub(super) message: T,
}

impl<T> Handed<T> {
    pub(super) fn new(message: T, ticket: i64) -> Box<Self> {
        let [left, right] = [const { Cell::new(ptr::null_mut()) }; 2];
        Box::new(Self { ticket, left, right, message })
    }

    /// As what a waiter can carry.
    pub(super) fn into_pointer(self: Box<Self>) -> *mut () {
        Box::into_raw(self).cast()
    }

    /// SAFETY: made by [`into_pointer`](Self::into_pointer) of the same type, and used once.
    pub(super) unsafe fn from_pointer(pointer: *mut ()) -> Box<Self> {
        // SAFETY: the caller's contract.
        unsafe { Box::from_raw(pointer.cast()) }
    }
}

/// A message that has left the rendezvous. Opened without the lock: a box is freed then.
#[derive(Debug)]
pub(super) enum Message<T> {
    /// Out of the future of its sender, with a ticket, should it have to come back.
    Moved(T, i64),
    Handed(Box<Handed<T>>),
}

impl<T> Message<T> {
    pub(super) fn open(self) -> T {
        match self {
            Self::Moved(message, _) => message,
            Self::Handed(handed) => handed.message,
        }
    }

    pub(super) fn into_box(self) -> Box<Handed<T>> {
        match self {
            Self::Moved(message, ticket) => Handed::new(message, ticket),
            Self::Handed(handed) => handed,
        }
    }
}

/// Messages that were granted to a receiver and put back, or given back by a panic: in the order of their tickets.
#[derive(Debug)]
pub(super) struct Kept<T> {
    /// The message with the smallest ticket.
    root: Cell<*mut Handed<T>>,
    /// The paths are random, as in `channel/returned.rs`.
    coins: Cell<u32>,
}

impl<T> Kept<T> {
    pub(super) const fn new() -> Self {
        Self { root: Cell::new(ptr::null_mut()), coins: Cell::new(1) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root.get().is_null()
    }

    /// Puts a message in its place.
    pub(super) fn insert(&mut self, handed: Box<Handed<T>>) {
        let mut link = &self.root;
        // SAFETY: invariant 1.
        while let Some(above) = unsafe { link.get().as_ref() }.filter(|above| above.ticket < handed.ticket) {
            link = self.one_below(above);
        }
        handed.left.set(link.get());
        link.set(Box::into_raw(handed));
    }

    /// Takes the message with the smallest ticket out.
    pub(super) fn pop(&mut self) -> Option<Box<Handed<T>>> {
        let first = self.root.get();
        // SAFETY: invariant 1.
        let node = unsafe { first.as_ref() }?;
        let (mut a, mut b) = (node.left.replace(ptr::null_mut()), node.right.replace(ptr::null_mut()));
        let mut link = &self.root;
        // SAFETY: invariant 1.
        while let (Some(left), Some(right)) = unsafe { (a.as_ref(), b.as_ref()) } {
            let older = if right.ticket < left.ticket {
                mem::swap(&mut a, &mut b);
                right
            } else {
                left
            };
            link.set(a);
            link = self.one_below(older);
            a = link.get();
        }
        link.set(if a.is_null() { b } else { a });
        // SAFETY: made by `Box::into_raw` in `insert`, and taken out of the heap; `node` is not used again.
        Some(unsafe { Box::from_raw(first) })
    }

    /// One of the two trees below a message, by chance.
    fn one_below<'h>(&self, handed: &'h Handed<T>) -> &'h Cell<*mut Handed<T>> {
        let coins = self.coins.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.coins.set(coins);
        if coins >> 31 == 0 { &handed.left } else { &handed.right }
    }
}

impl<T> Drop for Kept<T> {
    /// One by one, whatever panics. Not under a lock.
    fn drop(&mut self) {
        let mut panics = crate::queue::batch::Panics::default();
        while let Some(handed) = self.pop() {
            crate::probe::foreign_code();
            panics.catch(|| drop(handed));
        }
        panics.resume();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Put back in any order, taken in the order of the tickets, also where both alternate; what is left is dropped.
    #[test]
    fn in_the_order_of_the_tickets() {
        let count = if cfg!(miri) { 64 } else { 4096 };
        for stride in [1, 3, 1_025, count - 1] {
            let mut kept = Kept::new();
            let mut inside = Vec::new();
            for n in 0..count {
                let ticket = n * stride % count;
                kept.insert(Handed::new(Box::new(ticket), ticket));
                inside.push(ticket);
                if n % 3 == 2 {
                    let (at, least) = inside.iter().copied().enumerate().min_by_key(|at| at.1).unwrap();
                    inside.swap_remove(at);
                    assert_eq!(kept.pop().map(|handed| *handed.message), Some(least));
                }
            }
            inside.sort_unstable();
            let half = inside.len() / 2;
            for ticket in &inside[..half] {
                assert_eq!(kept.pop().map(|handed| handed.ticket), Some(*ticket));
            }
            assert!(!kept.is_empty());
        }
    }
}
