//! The message of a send, inside the future of that send: a [`Parcel`] is the message and the handle to the channel that it goes to.
//!
//! A send that waits is queued with a pointer to its message, so its future is pinned. One of two takes the message: the future itself, while it is not queued; or, with the queue locked, the thread that ends the wait and moves
//! the message into a slot or to its receiver. So a send that was granted has sent, and a send that is cancelled before still has its message.

use crate::queue::batch::while_unwinding;
use crate::shim::UnsafeCell;
use core::fmt;
use core::marker::PhantomPinned;
use core::mem::MaybeUninit;

/// Memory of a message that another thread may take while its send is queued.
#[derive(Debug)]
pub(super) struct Content<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: what is shared gives the message to one side only, which may be another thread: that needs `T: Send`.
unsafe impl<T: Send> Sync for Content<T> {}

impl<T> Content<T> {
    #[inline(always)]
    pub(super) fn new(message: T) -> Self {
        Self(UnsafeCell::new(MaybeUninit::new(message)))
    }

    /// The message.
    ///
    /// SAFETY: it is there and is not taken again; the caller is its future and not queued, or holds the queue lock and the send is queued.
    #[inline(always)]
    pub(super) unsafe fn take(&self) -> T {
        // SAFETY: the caller's contract.
        self.0.with(|message| unsafe { (*message).assume_init_read() })
    }
}

/// A message and where it is to go. The address is there exactly while the message is, as far as the future knows: a granter takes the message and leaves the address,
/// which the future removes when it sees the grant.
pub(super) struct Parcel<A, T> {
    to: Option<A>,
    content: Content<T>,
    /// The queue has a pointer to the content.
    _pin: PhantomPinned,
}

impl<A, T> Parcel<A, T> {
    #[inline(always)]
    pub(super) fn new(to: A, message: T) -> Self {
        Self { to: Some(to), content: Content::new(message), _pin: PhantomPinned }
    }

    /// Where the message goes, and the message; `None` if it has gone.
    #[inline(always)]
    pub(super) fn open(&self) -> Option<(&A, &Content<T>)> {
        self.to.as_ref().map(|to| (to, &self.content))
    }

    /// The message has been taken out of its content.
    #[inline(always)]
    pub(super) fn is_gone(&mut self) {
        self.to = None;
    }

    /// The message, if it has not gone. Not while the send is queued.
    #[inline]
    pub(super) fn take(&mut self) -> Option<T> {
        self.to.take()?;
        // SAFETY: it is there, and from now on it has gone; the future asks, and is not queued.
        Some(unsafe { self.content.take() })
    }
}

impl<A, T> Drop for Parcel<A, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.to.is_some() {
            crate::probe::foreign_code();
            while_unwinding(|| drop(self.take()));
        }
    }
}

impl<A, T> fmt::Debug for Parcel<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel").field("full", &self.to.is_some()).finish_non_exhaustive()
    }
}
