//! The senders of a rendezvous: those that wait with their message, and those that hand it to a receiver at once. States and transitions: `core.rs`.

use super::super::error::TrySendError;
use super::super::parcel::Content;
use super::boxed_message::BoxedMessage;
use super::core::{RendezvousCore, WAITS};
use crate::queue::waiter::{Payload, Verdict, WaiterState, drop_waker, wake_owner};
use crate::queue::word::WAITERS;
use crate::queue::{Deferred, Pinned, QueueGuard as _, QueueWaker};
use crate::wait::WaiterSlot;
use core::ptr;
use core::task::{Context, Poll};

impl<T> RendezvousCore<T> {
    /// Enqueues a sender; the waker if it is closed. A step is owed.
    pub(super) fn enqueue_sender(
        &self,
        slot: WaiterSlot<'_>,
        waker: QueueWaker,
        content: &Content<T>,
    ) -> Option<QueueWaker> {
        let mut locked = self.lock();
        if locked.is_closed() {
            return Some(waker);
        }
        let payload = ptr::from_ref(content).cast_mut().cast::<()>();
        locked.senders().push_back(slot.init(waker, Payload::carrying(WAITS, payload)));
        locked.counts().senders += 1;
        None
    }

    /// Makes the steps that are owed.
    pub(super) fn settle(&self) {
        self.lock().finish_with(Deferred::nothing());
    }

    /// A queued sender is polled.
    pub(super) fn poll_sender(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Verdict> {
        // SAFETY: a sender is in a queue that is locked under this one (invariant 2).
        unsafe { self.queue.poll_queued(waiter, cx) }.map(|()| waiter.get().verdict())
    }

    /// Cancels a queued send: how its wait had ended, if it had; else it is out of the queue, with its message.
    pub(super) fn cancel_send(&self, waiter: Pinned<'_>) -> Option<Verdict> {
        let mut locked = self.lock();
        if waiter.get().state() == WaiterState::Notified {
            return Some(waiter.get().verdict());
        }
        // SAFETY: `Waiting`, asked under the lock, so it is in the list of senders.
        let waker = unsafe { locked.senders().remove_sleeping(waiter) };
        locked.sender_gone();
        // The receiver that has lost its message is given one that was put back, if there is one.
        drop_waker(Some(locked.finish_with(waker)));
        None
    }

    /// Hands a message to the first receiver for which none is reserved.
    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        // A hint: without a receiver nothing is allocated.
        if !self.queue.load().has(WAITERS) {
            let closed = self.is_closed();
            return Err(if closed { TrySendError::Closed(message) } else { TrySendError::Full(message) });
        }
        // Its ticket comes with the grant.
        let mut handed = BoxedMessage::new(message, 0);
        let mut locked = self.lock();
        if locked.is_closed() {
            drop(locked);
            return Err(TrySendError::Closed(handed.message));
        }
        // While steps are owed a receiver may wait beside a message: that comes first.
        if !locked.queue.has_waiters() || locked.has_message() {
            drop(locked);
            return Err(TrySendError::Full(handed.message));
        }
        locked.counts().handed += 1;
        handed.ticket = locked.counts().issue_ticket();
        let receiver = locked.hand(handed);
        wake_owner(locked.unlock_with(receiver));
        Ok(())
    }
}
