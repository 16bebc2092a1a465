//! The senders that wait, while the channel is locked: they are in a queue of their own, which is changed only here, under the lock of the receivers' queue.

use super::core::SENDERS;
use super::locked::Locked;
use super::parcel::Content;
use super::store::{NONE, Numbered, Store};
use crate::queue::{Deferred, NewWaiter, Pinned, QueueWaker};

impl<'c, T, S: Store<T>> Locked<'c, T, S> {
    /// Enqueues a sender.
    pub(super) fn push_sender(&mut self, waiter: NewWaiter<'_>) {
        // SAFETY: the senders' queue is changed only here and below, under this lock.
        let mut senders = unsafe { self.core.senders.lock_under(&self.queue) };
        senders.push_back(waiter);
        drop(senders);
        self.queue.set(SENDERS);
    }

    /// Takes a sender out that is `Waiting`; by its own future. Its waker, and whether it was the first: what was too little for it may be enough for the next.
    ///
    /// SAFETY: it is in the senders' queue of this channel, and `Waiting`.
    #[inline(always)]
    pub(super) unsafe fn remove_sender(&mut self, waiter: Pinned<'_>) -> (Deferred<QueueWaker>, bool) {
        // SAFETY: as in `push_sender`.
        let mut senders = unsafe { self.core.senders.lock_under(&self.queue) };
        let was_first = senders.is_front(waiter);
        // SAFETY: the caller's contract.
        let waker = unsafe { senders.remove_sleeping(waiter) };
        if was_first {
            self.senders_wait(senders.has_waiters());
        }
        (waker, was_first)
    }

    #[inline(always)]
    fn senders_wait(&mut self, waits: bool) {
        if !waits {
            self.queue.clear(SENDERS);
        }
    }

    /// Ends the wait of the first sender if that can be done: refuses it if the channel is closed, makes its message pending, or reserves for it. Its message goes into the slot that the
    /// caller has emptied, if there is one; else that slot becomes free.
    #[inline(always)]
    pub(super) fn end_first_send(
        &mut self,
        emptied: Option<Numbered<'c, T>>,
    ) -> Option<Deferred<Option<QueueWaker>>> {
        if !self.queue.word().has(SENDERS) {
            self.free_emptied(emptied);
            return None;
        }
        // SAFETY: as in `push_sender`. It does not borrow this value: the lock is held all the time.
        let mut senders = unsafe { self.core.senders.lock_under(&self.queue) };
        let front = senders.front().expect("a sender waits");
        let waker = if self.is_closed() {
            self.free_emptied(emptied);
            // SAFETY: there is a waiter.
            unsafe { senders.refuse_front() }
        } else {
            let (slots, payload) = (front.mark(), front.pointer());
            if !self.covers(slots.max(1)) {
                self.free_emptied(emptied);
                return None;
            }
            if slots == 0 {
                // SAFETY: a sender without a number of slots carries its message, which is pinned in its future while that is queued.
                let content = unsafe { &*payload.cast::<Content<T>>() };
                let filled = match emptied {
                    Some(at) => {
                        // SAFETY: its message has been taken in this hold of the lock, in which no memory was given back.
                        let slot = unsafe { at.slot() };
                        // SAFETY: the lock is held; the message of a sender in the queue is there, and the sender leaves the queue below; the slot is empty.
                        unsafe { slot.fill(content) };
                        at
                    }
                    // SAFETY: as above.
                    None => unsafe { self.fill_slot(content) }?,
                };
                self.append(filled.number);
            } else {
                self.free_emptied(emptied);
                self.reserve(slots);
            }
            // SAFETY: there is a waiter; senders are never woken without a grant.
            unsafe { senders.grant_sleeping_front() }.some()
        };
        let waits = senders.has_waiters();
        drop(senders);
        self.senders_wait(waits);
        Some(waker)
    }

    #[inline(always)]
    fn free_emptied(&mut self, emptied: Option<Numbered<'c, T>>) {
        if let Some(at) = emptied {
            self.free_slot(at);
        }
    }

    /// Is there room for the message of the first sender, and no memory? Then the store has to grow, which needs the lock to be free: a step is owed.
    #[inline(always)]
    pub(super) fn lacks_a_slot(&self) -> bool {
        let state = self.state();
        // The first is false wherever the store never grows for its senders.
        self.core.capacity > state.allocated
            && state.free == NONE
            && state.fresh == state.allocated
            && self.queue.word().has(SENDERS)
            && !self.is_closed()
            && self.covers(1)
            && self.first_sender_has_a_message()
    }

    #[inline(always)]
    fn first_sender_has_a_message(&self) -> bool {
        // SAFETY: as in `push_sender`.
        let senders = unsafe { self.core.senders.lock_under(&self.queue) };
        senders.front().is_some_and(|front| front.mark() == 0)
    }
}
