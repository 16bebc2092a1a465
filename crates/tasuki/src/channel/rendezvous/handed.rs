//! Messages without a sender: what `try_send` has handed to a receiver that waited, and what a panic made a receive give back.
//!
//! Such a message is in a box of its own, which was allocated without the lock: it is granted to a receiver by a pointer, and put back by linking it, so a receive that is dropped
//! neither moves a message nor allocates.

use alloc::boxed::Box;
use core::ptr;

/// A message in its box.
#[derive(Debug)]
pub(super) struct Handed<T> {
    next: *mut Handed<T>,
    pub(super) message: T,
}

impl<T> Handed<T> {
    pub(super) fn new(message: T) -> Box<Self> {
        Box::new(Self { next: ptr::null_mut(), message })
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
    /// Out of the future of its sender.
    Moved(T),
    Handed(Box<Handed<T>>),
}

impl<T> Message<T> {
    pub(super) fn open(self) -> T {
        match self {
            Self::Moved(message) => message,
            Self::Handed(handed) => handed.message,
        }
    }

    pub(super) fn into_box(self) -> Box<Handed<T>> {
        match self {
            Self::Moved(message) => Handed::new(message),
            Self::Handed(handed) => handed,
        }
    }
}

/// Messages that were granted to a receiver and put back, or given back by a panic: first in, first out.
#[derive(Debug)]
pub(super) struct Kept<T> {
    first: *mut Handed<T>,
    last: *mut Handed<T>,
}

impl<T> Kept<T> {
    pub(super) fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    pub(super) fn push_back(&mut self, handed: Box<Handed<T>>) {
        let handed = Box::into_raw(handed);
        if self.is_empty() {
            self.first = handed;
        } else {
            // SAFETY: a message in the list is the list's own.
            unsafe { (*self.last).next = handed };
        }
        self.last = handed;
    }

    pub(super) fn push_front(&mut self, mut handed: Box<Handed<T>>) {
        handed.next = self.first;
        let handed = Box::into_raw(handed);
        if self.is_empty() {
            self.last = handed;
        }
        self.first = handed;
    }

    pub(super) fn pop(&mut self) -> Option<Box<Handed<T>>> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: made by `Box::into_raw` in a push, and taken out of the list.
        let mut first = unsafe { Box::from_raw(self.first) };
        self.first = core::mem::replace(&mut first.next, ptr::null_mut());
        Some(first)
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
