//! Messages without a sender: what `try_send` has handed to a receiver that waited, and what a panic made a receive give back.
//!
//! Such a message is in a box of its own, which was allocated without the lock: it is granted to a receiver by a pointer, and put back by linking it, so a receive that is dropped
//! neither moves a message nor allocates. Receives are dropped in any order, and messages that were put back keep theirs: they are in a heap by ticket (`channel/ticket_heap.rs`), linked
//! through the boxes.
//!
//! # Invariants
//! 1. A box in the heap is the heap's own, from its insertion until it is popped: a link of the heap leads to a box that is alive.

use crate::channel::ticket_heap::{Messages, TicketHeap};
use crate::queue::batch::call_each;
use alloc::boxed::Box;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr;

/// A message in its box.
#[derive(Debug)]
pub(super) struct BoxedMessage<T> {
    /// A message that was granted earlier has a smaller one.
    pub(super) ticket: i64,
    left: Cell<*mut BoxedMessage<T>>,
    right: Cell<*mut BoxedMessage<T>>,
    pub(super) message: T,
}

impl<T> BoxedMessage<T> {
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
    Boxed(Box<BoxedMessage<T>>),
}

impl<T> Message<T> {
    pub(super) fn ticket(&self) -> i64 {
        match self {
            Self::Moved(_, ticket) => *ticket,
            Self::Boxed(message) => message.ticket,
        }
    }

    pub(super) fn open(self) -> T {
        match self {
            Self::Moved(message, _) => message,
            Self::Boxed(message) => message.message,
        }
    }

    pub(super) fn into_box(self) -> Box<BoxedMessage<T>> {
        match self {
            Self::Moved(message, ticket) => BoxedMessage::new(message, ticket),
            Self::Boxed(message) => message,
        }
    }
}

/// Messages that were granted to a receiver and put back, or given back by a panic: in the order of their tickets.
#[derive(Debug)]
pub(super) struct PutBack<T>(TicketHeap<*mut BoxedMessage<T>>);

/// Links of a heap lead to boxes.
struct Boxes<T>(PhantomData<T>);

impl<T> Messages for Boxes<T> {
    type Link = *mut BoxedMessage<T>;
    const NONE: Self::Link = ptr::null_mut();

    fn ticket(&self, message: Self::Link) -> i64 {
        // SAFETY: invariant 1 - asked for boxes of the heap, or for one that is inserted.
        unsafe { (*message).ticket }
    }

    fn below(&self, message: Self::Link) -> [&Cell<Self::Link>; 2] {
        // SAFETY: invariant 1 - as above.
        let message = unsafe { &*message };
        [&message.left, &message.right]
    }
}

impl<T> PutBack<T> {
    pub(super) const fn new() -> Self {
        Self(TicketHeap::new(ptr::null_mut()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Puts a message in its place.
    pub(super) fn insert(&mut self, message: Box<BoxedMessage<T>>) {
        self.0.insert(Box::into_raw(message), &Boxes(PhantomData));
    }

    /// Takes the message with the smallest ticket out.
    pub(super) fn pop(&mut self) -> Option<Box<BoxedMessage<T>>> {
        let message = self.0.pop(&Boxes(PhantomData))?;
        // SAFETY: invariant 1 - made by `Box::into_raw` in `insert`, and the heap's no longer.
        Some(unsafe { Box::from_raw(message) })
    }
}

impl<T> Drop for PutBack<T> {
    /// One by one, whatever panics. Not under a lock.
    fn drop(&mut self) {
        call_each(|| {
            let Some(message) = self.pop() else { return false };
            crate::probe::foreign_code();
            drop(message);
            true
        });
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Put back in any order, taken in the order of the tickets, also where both alternate; what is left is dropped.
    #[test]
    fn in_the_order_of_the_tickets() {
        let count = if cfg!(miri) { 64 } else { 4096 };
        for stride in [1, 3, 1_025, count - 1] {
            let mut put_back = PutBack::new();
            let mut inside = Vec::new();
            for n in 0..count {
                let ticket = n * stride % count;
                put_back.insert(BoxedMessage::new(Box::new(ticket), ticket));
                inside.push(ticket);
                if n % 3 == 2 {
                    let (at, least) = inside.iter().copied().enumerate().min_by_key(|at| at.1).unwrap();
                    inside.swap_remove(at);
                    assert_eq!(put_back.pop().map(|message| *message.message), Some(least));
                }
            }
            inside.sort_unstable();
            let half = inside.len() / 2;
            for ticket in &inside[..half] {
                assert_eq!(put_back.pop().map(|message| message.ticket), Some(*ticket));
            }
            assert!(!put_back.is_empty());
        }
    }
}
