//! Receiving many messages at once, into a buffer.

use super::receive::{AfterPanic, ChannelSide};
use super::store::{NONE, pack};
use crate::error::Closed;
use crate::queue::Pinned;
use crate::queue::waiter::{Payload, Verdict, clone_waker, drop_waker};
use crate::wait::{Op, Single, Wait, WaiterSlot};
use alloc::vec::Vec;
use core::fmt;
use core::task::{Context, Poll};

/// How many messages are taken in one hold of the lock.
const BATCH: u32 = 32;

/// What [`RecvMany`](crate::future::RecvMany) waits for.
pub struct RecvManyOp<'b, H: ChannelSide> {
    side: H,
    buffer: &'b mut Vec<H::Message>,
    /// At most so many; a channel has fewer than 2^32.
    limit: u32,
    /// So many were received: a poll that panicked keeps what it took.
    received: u32,
}

impl<'b, H: ChannelSide> RecvManyOp<'b, H> {
    #[track_caller]
    pub(super) fn wait(side: H, buffer: &'b mut Vec<H::Message>, limit: usize) -> Wait<Single<Self>> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        Wait::new(Self { side, buffer, limit, received: 0 })
    }

    /// Takes what is pending, up to the limit, and no more than is pending at the first look: senders do not keep one poll going. Says whether the channel is drained.
    fn fill(&mut self) -> bool {
        let core = self.side.core();
        let mut left = None;
        loop {
            let mut locked = core.lock();
            let available = locked.available();
            let left = left.get_or_insert(available.min(self.limit - self.received));
            let wanted = available.min(*left).min(BATCH);
            if wanted == 0 {
                return locked.is_drained();
            }
            if self.buffer.capacity() - self.buffer.len() < wanted as usize {
                drop(locked);
                self.buffer.reserve(wanted as usize);
                continue;
            }
            for _ in 0..wanted {
                let popped = locked.pop_available().expect("so many are pending");
                // SAFETY: it was pending, and has just been popped.
                let message = unsafe { locked.read(popped.at) };
                locked.free_slot(popped.at);
                // There is room: nothing is allocated under the lock.
                self.buffer.push(message);
            }
            self.received += wanted;
            *left -= wanted;
            if locked.owes_a_step() {
                // Should a waker panic, the messages are in the buffer.
                locked.finish_freed();
            } else {
                locked.unlock_idle();
            }
        }
    }

    /// The message that was granted, and what else is pending.
    fn claim(&mut self, waiter: Pinned<'_>, wait: AfterPanic) -> usize {
        self.buffer.reserve(1);
        if let Some(message) = self.side.core().claim(waiter, wait) {
            self.buffer.push(message);
            self.received += 1;
        }
        self.fill();
        self.received as usize
    }
}

impl<H: ChannelSide> Op for RecvManyOp<'_, H> {
    type Output = Result<usize, Closed>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::RecvMany";

    fn try_now(&mut self) -> Option<Self::Output> {
        if self.limit == 0 {
            return Some(Ok(0));
        }
        let drained = self.fill();
        match self.received {
            0 if drained => Some(Err(Closed)),
            0 => None,
            received => Some(Ok(received as usize)),
        }
    }

    fn is_ready(&self) -> bool {
        self.limit == 0 || self.side.core().may_recv()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = clone_waker(cx.waker());
        loop {
            let mut locked = self.side.core().lock();
            if locked.available() == 0 && !locked.is_drained() {
                locked.queue.push_back(slot.init(waker, Payload::carrying(0, pack(NONE))));
                return Poll::Pending;
            }
            drop(locked);
            // Another receiver may be faster; then it looks again.
            if let Some(output) = self.try_now() {
                drop_waker(Some(waker));
                return Poll::Ready(output);
            }
        }
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let verdict = self.side.core().poll_wait(waiter, cx);
        verdict.map(|verdict| match verdict {
            Verdict::Granted => Ok(self.claim(waiter, AfterPanic::GoesOn)),
            Verdict::Refused => Err(Closed),
        })
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        let verdict = self.side.core().cancel_receive(waiter);
        verdict.map(|verdict| match verdict {
            Verdict::Granted => Ok(self.claim(waiter, AfterPanic::IsOver)),
            Verdict::Refused => Err(Closed),
        })
    }

    fn cancel_idle(&mut self) -> Option<Self::Output> {
        (self.received > 0).then_some(Ok(self.received as usize))
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }

    fn cancel_dropped(&mut self, waiter: Pinned<'_>) {
        self.side.core().cancel_dropped(waiter);
    }
}

impl<H: ChannelSide> fmt::Debug for RecvManyOp<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvManyOp").finish_non_exhaustive()
    }
}
