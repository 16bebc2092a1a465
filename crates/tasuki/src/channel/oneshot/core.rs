//! The oneshot without its sides: a word, room for the message.
//!
//! # States of the word
//!
//! | word                | meaning                                                            |
//! |---------------------|--------------------------------------------------------------------|
//! | `0`                 | both are there, and there is no message                            |
//! | `head`              | the receiver waits                                                 |
//! | `count` 1           | the receiver has closed, and is there                              |
//! | `SENDER_GONE`       | the sender has sent (the message is there until it is received) or was dropped; the receiver owns the memory |
//! | `count` 1 and `SENDER_GONE` | as `SENDER_GONE`, without a message: the receiver had closed, and the sender took its message back |
//! | `count` 1 and `RECEIVER_GONE` | the receiver was dropped; the sender owns the memory     |
//!
//! # Transitions
//!
//! | from             | event                     | to                    | duty                          | function |
//! |------------------|---------------------------|-----------------------|-------------------------------|----------|
//! | `0`              | send, drop of the sender  | `SENDER_GONE`         | none                          | [`Core::finish`] |
//! | `head`           | send, drop of the sender  | `SENDER_GONE`, receiver granted | wake it             | [`Core::finish`] |
//! | `count` 1        | send, drop of the sender  | `count` 1 and `SENDER_GONE` | give the message back   | [`Core::finish`], then [`Core::finish_refused`] |
//! | `count` 1 and `RECEIVER_GONE` | send, drop of the sender | –         | give the message back, free   | [`Core::finish`] |
//! | `0`              | recv                      | `head`                | `Pending`                     | [`Core::enqueue`] |
//! | `SENDER_GONE`    | recv                      | the same              | take the message, or `Closed` | [`Core::take`] |
//! | `head`           | drop of a receive         | `0`                   | none: the message is not moved before it is claimed | `cancel` |
//! | `head`, of a receive that was forgotten | recv, close | `0`            | none: its waker is forgotten with it | `Core::remove_forgotten` |
//! | `0`              | close, drop of the receiver | `count` 1           | tell the sender               | [`Core::close`] |
//! | `count` 1        | drop of the receiver, after its close | `count` 1 and `RECEIVER_GONE` | none      | [`Core::finish_receiver`] |
//! | with `SENDER_GONE` | drop of the receiver    | –                     | free                          | [`Core::has_finished`], [`Core::finish_receiver`] |
//!
//! # Invariants
//! 1. One side sets its flag, the other finds it and frees: never both, never neither. The exchange that sets it is the last touch of its side.
//! 2. The message belongs to the sender before `SENDER_GONE`, and to the receiver after.
//! 3. A granter unlocks the queue after the receiver knows of the grant; so the receiver looks at a settled word before it frees.
//! 4. What makes the last touch of a side, and what wakes after it, has a reference to the queue only: the other side may free the memory at once, on its own thread or inside the wake, and a reference of a running
//!    function has to stay valid until it returns, unless all that it refers to is an `UnsafeCell`. The queue is one atomic.
//!
//! # Orderings
//! Release of the exchange that sets a flag pairs with the Acquire of the other side that finds it: the message, and everything before the memory is freed.

use super::super::error::TryRecvError;
use crate::error::Closed;
use crate::event::{Event, Reset};
use crate::queue::batch::while_unwinding;
use crate::queue::waiter::{Payload, clone_waker, drop_waker, wake_owner};
use crate::queue::word::{EDIT, FLAG_A, FLAG_B as RECEIVER_GONE, WAITERS, Word};
use crate::queue::{Backoff, LockedQueue, QueueGuard as _, QueueWaker, WaitQueue};
use crate::shim::{AtomicPtr, Ordering, UnsafeCell, const_fn};
use crate::wait::WaiterSlot;
use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::task::{Context, Poll};

// Invariant 4: the queue is an atomic, and nothing else.
const _: () = assert!(size_of::<WaitQueue>() == size_of::<AtomicPtr<()>>());

/// The sender has sent, or was dropped.
pub(super) const SENDER_GONE: usize = FLAG_A;
const BOTH: Word = Word::flags(0);
const FINISHED: Word = Word::flags(SENDER_GONE);
pub(super) const CLOSED: Word = Word::counted(1);

/// What a [`Slot`](super::Slot) lends to the two sides of its oneshot: room for the message, and the waiter for it.
// In this order: what is zero at first is initialised by fewer stores, which the sender's exchange has to wait for.
#[repr(C)]
pub struct Core<T> {
    pub(super) queue: WaitQueue,
    /// The receiver has closed, or was dropped.
    pub(super) closed: Event,
    /// There is a message (invariant 2).
    full: Cell<bool>,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the message is moved from the sender's thread to the receiver's; nothing is shared.
unsafe impl<T: Send> Sync for Core<T> {}
// As every other channel, and as those of std: a panic leaves a message that is there, or is not.
impl<T> UnwindSafe for Core<T> {}
impl<T> RefUnwindSafe for Core<T> {}

impl<T> Core<T> {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                queue: WaitQueue::new(BOTH),
                value: UnsafeCell::new(MaybeUninit::uninit()),
                full: Cell::new(false),
                closed: Event::new(Reset::Manual, false),
            }
        }
    }

    #[inline(always)]
    pub(super) fn put(&self, message: T) {
        // SAFETY: invariant 2: the caller is the sender, and has not finished.
        self.value.with_mut(|value| unsafe { (*value).write(message) });
        self.full.set(true);
    }

    /// Is the message there? Asked by the receiver, after the sender has finished.
    pub(super) fn has_message(&self) -> bool {
        self.full.get()
    }

    /// The message, if there is one. Called by its owner (invariant 2).
    #[inline(always)]
    pub(super) fn take(&self) -> Option<T> {
        // SAFETY: full, and the caller's.
        self.full.replace(false).then(|| self.value.with(|value| unsafe { (*value).assume_init_read() }))
    }

    /// Drops the message, if there is one. Called by its owner (invariant 2). Its destructor may panic, as those of other channels' messages.
    #[inline(always)]
    fn drop_message(&self) {
        if let Some(message) = self.take() {
            while_unwinding(|| drop(message));
        }
    }

    /// The sender ends, with or without a message. [`Finished`] says whose the message and the memory are then. Takes the queue alone (invariant 4).
    #[inline(always)]
    pub(super) fn finish(queue: &WaitQueue) -> Finished {
        // Release: pairs with Acquire in `load_settled` of the receiver.
        if queue.load() == BOTH && queue.replace(BOTH, FINISHED, Ordering::Release).is_ok() {
            return Finished::Received;
        }
        Self::finish_slow(queue)
    }

    /// In most cases the receiver waits. Kept without a stack frame: stores of saved registers would delay the compare-exchange.
    #[inline(never)]
    fn finish_slow(queue: &WaitQueue) -> Finished {
        let word = queue.load();
        match word.has(WAITERS).then(|| queue.try_lock(word)).flatten() {
            Some(locked) => Self::grant(locked),
            None => Self::finish_rare(queue),
        }
    }

    /// `head => SENDER_GONE`: the receiver that waits has the message, or the end.
    #[inline(always)]
    fn grant(mut locked: LockedQueue<'_>) -> Finished {
        locked.set(SENDER_GONE);
        // SAFETY: there is a waiter; it is never woken without a grant.
        let waker = unsafe { locked.grant_sleeping_front() }.some();
        wake_owner(locked.unlock_with(waker));
        Finished::Received
    }

    /// The queue is locked, or the receiver has closed or was dropped.
    #[cold]
    #[inline(never)]
    fn finish_rare(queue: &WaitQueue) -> Finished {
        let mut backoff = Backoff::new();
        let mut word = queue.load();
        loop {
            if word.has(EDIT) {
                backoff.wait();
                word = queue.load();
            } else if word.has(RECEIVER_GONE) {
                // Acquire: pairs with Release in `finish_receiver`; the receiver has made its last touch.
                let _ = queue.load_with(Ordering::Acquire);
                return Finished::Alone;
            } else if word.has(WAITERS) {
                match queue.try_lock(word) {
                    Some(locked) => return Self::grant(locked),
                    None => word = queue.load(),
                }
            } else if word == CLOSED {
                return Finished::Refused;
            } else {
                // Release: pairs with Acquire in `load_settled` of the receiver.
                match queue.replace(word, word.with(SENDER_GONE), Ordering::Release) {
                    Ok(()) => return Finished::Received,
                    Err(now) => word = now,
                }
            }
        }
    }

    /// `count` 1 `=>` `count` 1 and `SENDER_GONE`: the sender ends after the receiver has closed; true if the receiver was dropped meanwhile, so that the sender owns the memory. Takes the queue alone (invariant 4).
    pub(super) fn finish_refused(queue: &WaitQueue) -> bool {
        // Release: as in `finish_rare`. Acquire on the other way: as in `finish_rare`.
        match queue.replace(CLOSED, CLOSED.with(SENDER_GONE), Ordering::Release) {
            Ok(()) => false,
            Err(now) => {
                debug_assert!(now.has(RECEIVER_GONE), "{now:?} after a close");
                // Acquire: pairs with Release in `finish_receiver`.
                let _ = queue.load_with(Ordering::Acquire);
                true
            }
        }
    }

    /// Has the sender ended? The message and the memory are the receiver's then.
    #[inline(always)]
    pub(super) fn has_finished(&self) -> bool {
        self.queue.load_settled().has(SENDER_GONE)
    }

    /// The receiver ends, after it has closed; true if it owns the memory. Takes the queue alone (invariant 4).
    #[inline(never)]
    pub(super) fn finish_receiver(queue: &WaitQueue) -> bool {
        loop {
            let word = queue.load_settled();
            if word.has(SENDER_GONE) {
                return true;
            }
            debug_assert!(word == CLOSED, "the receiver has closed before, and this is {word:?}");
            // Release: pairs with Acquire in `finish_rare` and `finish_refused`.
            if queue.replace(word, word.with(RECEIVER_GONE), Ordering::Release).is_ok() {
                return false;
            }
        }
    }

    /// What the receiver has now.
    #[inline(always)]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let word = self.queue.load_settled();
        if word.has(SENDER_GONE) {
            return self.take().ok_or(TryRecvError::Closed);
        }
        Err(if word == CLOSED { TryRecvError::Closed } else { TryRecvError::Empty })
    }

    /// No message may be sent any more. True if one could have been sent until now.
    pub(super) fn close(&self) -> bool {
        // Before the sender is told, so that it cannot send after it has heard.
        // Relaxed: it publishes nothing; a sender that was faster is seen by the next look, with Acquire.
        let was_open = loop {
            if self.queue.replace(BOTH, CLOSED, Ordering::Relaxed).is_ok() {
                break true;
            }
            if !self.remove_forgotten() {
                break false;
            }
        };
        self.closed.set();
        was_open
    }

    /// `head => 0`, before the receiver does something else: its last receive was forgotten, for one that exists borrows the receiver. False if there is none.
    #[cold]
    fn remove_forgotten(&self) -> bool {
        let word = self.queue.load_settled();
        if !word.has(WAITERS) {
            return false;
        }
        if let Some(mut locked) = self.queue.try_lock(word) {
            // SAFETY: there is a waiter; it is never woken without a grant.
            let waker = unsafe { locked.grant_sleeping_front() };
            // Not dropped: nothing foreign runs here, so nothing panics.
            core::mem::forget(locked.unlock_with(waker));
        }
        true
    }

    /// Enqueues the receiver, or says what it has.
    #[inline(always)]
    pub(super) fn enqueue(&self, slot: WaiterSlot<'_>, cx: &Context<'_>) -> Poll<Result<T, Closed>> {
        let waker = clone_waker(cx.waker());
        match self.queue.try_lock_idle() {
            Some(mut locked) => {
                locked.push_back(slot.init(waker, Payload::NONE));
                Poll::Pending
            }
            None => self.enqueue_slow(slot, waker),
        }
    }

    /// The sender has ended meanwhile, it is closed, or a receive was forgotten.
    #[cold]
    fn enqueue_slow(&self, slot: WaiterSlot<'_>, waker: QueueWaker) -> Poll<Result<T, Closed>> {
        loop {
            let word = self.queue.load_settled();
            if word.has(SENDER_GONE) || word == CLOSED {
                // Dropped first: if that panics, the message is still there.
                drop_waker(Some(waker));
                return Poll::Ready(self.try_recv().map_err(|_| Closed));
            }
            if let Some(mut locked) = self.queue.try_lock_idle() {
                locked.push_back(slot.init(waker, Payload::NONE));
                return Poll::Pending;
            }
            self.remove_forgotten();
        }
    }
}

/// How a sender ended.
pub(super) enum Finished {
    /// The receiver has the message.
    Received,
    /// The receiver has closed, and is there.
    Refused,
    /// The receiver was dropped.
    Alone,
}

impl<T> Drop for Core<T> {
    fn drop(&mut self) {
        self.drop_message();
    }
}

impl<T> fmt::Debug for Core<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oneshot").finish_non_exhaustive()
    }
}

pub(super) mod sealed {
    /// Implemented for what stores a oneshot, and for its receivers.
    pub trait Sealed {}
}

/// Where a oneshot is stored: on the heap, or in a [`Slot`](super::Slot). Only the crate implements it.
pub trait Storage: sealed::Sealed {
    /// What is sent.
    type Message;

    #[doc(hidden)]
    fn core(&self) -> &Core<Self::Message>;

    /// The last side ends.
    ///
    /// SAFETY: the other side was dropped, and this one does not use the place again.
    #[doc(hidden)]
    unsafe fn free(&self);
}

#[cfg(feature = "alloc")]
mod boxed {
    use super::{Core, Storage};
    use alloc::boxed::Box;
    use core::ptr::NonNull;

    /// The storage of a oneshot on the heap: of [`oneshot`](super::super::oneshot).
    #[derive(Debug)]
    pub struct Boxed<T>(NonNull<Core<T>>);

    impl<T> Boxed<T> {
        pub(in super::super) fn pair() -> (Self, Self) {
            let place = NonNull::from(Box::leak(Box::new(Core::new())));
            (Self(place), Self(place))
        }
    }

    // SAFETY: it gives access to the core, which is `Sync` if messages may be sent to other threads.
    unsafe impl<T: Send> Send for Boxed<T> {}
    // SAFETY: as above.
    unsafe impl<T: Send> Sync for Boxed<T> {}

    impl<T> super::sealed::Sealed for Boxed<T> {}

    impl<T> Storage for Boxed<T> {
        type Message = T;

        #[inline(always)]
        fn core(&self) -> &Core<T> {
            // SAFETY: invariant 1: freed by the side that ends last.
            unsafe { self.0.as_ref() }
        }

        #[inline]
        unsafe fn free(&self) {
            // SAFETY: made by `Box::new`; the caller's contract.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

#[cfg(feature = "alloc")]
pub use boxed::Boxed;

impl<T> sealed::Sealed for &Core<T> {}

impl<T> Storage for &Core<T> {
    type Message = T;

    #[inline(always)]
    fn core(&self) -> &Core<T> {
        self
    }

    unsafe fn free(&self) {
        self.drop_message();
    }
}
