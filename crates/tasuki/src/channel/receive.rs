//! Receiving: a message that is pending is taken at once; a receive that waits is granted one, and claims it when it is polled.
//!
//! A granted message stays in its slot, so a receive that is dropped has nothing to move: the slot is put back ([`Locked::put_back`]), or granted to the next.
//! A message needs a slot again only if it was taken and a waker then panics: that of a waiter whose wait this ends (a sender that gets the room, a receiver that is refused), that of the receive itself, or that of the limit around it ([`Undo`]).

use super::core::ChannelCore;
use super::error::TryRecvError;
use super::locked::{Locked, Popped};
use super::store::{NONE, Store, pack, unpack};
use crate::error::Closed;
use crate::queue::batch::while_unwinding;
use crate::queue::grant_loop::grant_loop;
use crate::queue::waiter::{Payload, Verdict, WaiterState, clone_waker, drop_waker};
use crate::queue::{Pinned, QueueGuard as _, QueueWaker};
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::mem::ManuallyDrop;
use core::task::{Context, Poll};

impl<T, S: Store<T>> ChannelCore<T, S> {
    /// Takes the oldest pending message.
    #[inline(always)]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.try_lock_idle() {
            Some(mut locked) => match locked.recv_fast() {
                Some(message) => Ok(message),
                None => self.recv_locked(locked),
            },
            None => self.try_recv_slow(),
        }
    }

    #[inline(never)]
    fn try_recv_slow(&self) -> Result<T, TryRecvError> {
        self.recv_locked(self.lock())
    }

    /// Out of line, so that the fast path saves no register for it: spilled registers would delay the compare-exchange.
    #[inline(never)]
    fn recv_locked<'c>(&'c self, mut locked: Locked<'c, T, S>) -> Result<T, TryRecvError> {
        match locked.pop_available() {
            Some(popped) => Ok(self.take(locked, popped, None)),
            None if locked.is_drained() => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Would a receive end without waiting?
    pub(super) fn may_recv(&self) -> bool {
        let locked = self.lock();
        locked.available() > 0 || locked.is_drained()
    }

    /// Takes the message of a slot that was popped, frees the slot, makes the steps, and drops a waker that is not needed.
    #[inline(always)]
    fn take<'c>(
        &'c self,
        mut locked: Locked<'c, T, S>,
        popped: Popped<'c, T>,
        spare: Option<QueueWaker>,
    ) -> T {
        // SAFETY: it was pending, and has just been popped.
        let message = unsafe { locked.read(popped.at) };
        if !locked.owes_a_step() && spare.is_none() {
            locked.free_and_unlock(popped.at);
            return message;
        }
        let ticket = locked.ticket(&popped);
        let undo = Undo { core: self, message: ManuallyDrop::new(message), ticket, waiter: None };
        locked.finish_freeing(popped.at);
        drop_waker(spare);
        undo.disarm()
    }

    /// `granted => free`: takes the message that was granted to this waiter. `None` if the waiter has claimed it before. Should foreign code panic, the message is
    /// the waiter's again, if its wait goes on, and else pending: a wait that was cancelled is not asked for it again.
    pub(super) fn claim(&self, waiter: Pinned<'_>, wait: AfterPanic) -> Option<T> {
        let number = unpack(waiter.get().pointer());
        if number == NONE {
            return None;
        }
        // SAFETY: a granted slot has been made.
        let slot = unsafe { &*self.store.slot(number) };
        // SAFETY: granted to this waiter, whose future asks: the slot is its own.
        let message = unsafe { slot.read() };
        // SAFETY: its own future, which has seen `Notified`.
        unsafe { waiter.get().set_pointer(pack(NONE)) };
        // SAFETY: as above.
        unsafe { waiter.get().set_ticket(slot.ticket.get()) };
        if let Some(mut locked) = self.try_lock_idle() {
            let at = locked.numbered(number);
            locked.release(1);
            // None waits, and it is open: there is no step to make.
            locked.free_and_unlock(at);
            return Some(message);
        }
        Some(self.claim_slow(number, message, wait.waiter(waiter)))
    }

    /// The message has been taken out of a granted slot, which becomes free.
    #[inline(never)]
    fn claim_slow(&self, number: u32, message: T, waiter: Option<Pinned<'_>>) -> T {
        let mut locked = self.lock();
        let at = locked.numbered(number);
        locked.release(1);
        if !locked.owes_a_step() {
            locked.free_and_unlock(at);
            return message;
        }
        // SAFETY: its message has been taken, under the lock.
        let ticket = unsafe { at.slot() }.ticket.get();
        let undo = Undo { core: self, message: ManuallyDrop::new(message), ticket, waiter };
        locked.finish_freeing(at);
        undo.disarm()
    }

    /// `granted => pending`, or to the next receiver: the receive is dropped.
    #[inline(never)]
    fn put_back(&self, waiter: Pinned<'_>) {
        let number = unpack(waiter.get().pointer());
        if number == NONE {
            return;
        }
        let mut locked = self.lock();
        locked.put_back(number);
        locked.finish();
    }

    /// Enqueues a receive, unless a message is pending or the channel drained: the number of its slot then, with the lock.
    #[inline(always)]
    fn enqueue(&self, slot: WaiterSlot<'_>, waker: QueueWaker) -> Enqueued<'_, T, S> {
        let mut locked = self.lock();
        if let Some(popped) = locked.pop_available() {
            slot.claimed(locked.ticket(&popped));
            return Enqueued::Message(locked, popped, waker);
        }
        if locked.is_drained() {
            drop(locked);
            return Enqueued::Drained(waker);
        }
        locked.queue.push_back(slot.init(waker, Payload::carrying(0, pack(NONE))));
        Enqueued::Waits
    }

    /// A queued receive or send is polled: how its wait ended.
    #[inline(always)]
    pub(super) fn poll_wait(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Verdict> {
        // SAFETY: a receiver is in this queue, a sender in the one that is locked under it.
        unsafe { self.queue.poll_queued(waiter, cx) }.map(|()| waiter.get().verdict())
    }

    /// Cancels a queued receive: how its wait had ended, if it had; else it is out of the queue.
    #[inline(always)]
    pub(super) fn cancel_receive(&self, waiter: Pinned<'_>) -> Option<Verdict> {
        if waiter.get().state() != WaiterState::Notified {
            let mut locked = self.lock();
            if waiter.get().state() != WaiterState::Notified {
                // SAFETY: `Waiting`, asked under the lock, so it is in this list (invariant 3 of the queue).
                let waker = unsafe { locked.queue.remove_sleeping(waiter) };
                drop_waker(Some(locked.unlock_with(waker)));
                return None;
            }
        }
        Some(waiter.get().verdict())
    }

    /// A queued receive is dropped.
    #[inline(always)]
    pub(super) fn cancel_dropped(&self, waiter: Pinned<'_>) {
        if self.cancel_receive(waiter) == Some(Verdict::Granted) {
            self.put_back(waiter);
        }
    }

    /// A message that was received is not wanted after all: it has its place among those that come back.
    #[cold]
    fn return_message(&self, message: T, ticket: i64) {
        drop(Undo { core: self, message: ManuallyDrop::new(message), ticket, waiter: None });
    }
}

/// What becomes of a wait whose claim panics.
#[derive(Clone, Copy, Debug)]
pub(super) enum AfterPanic {
    /// It is polled: it can be polled again, or dropped.
    GoesOn,
    /// It is cancelled.
    IsOver,
}

impl AfterPanic {
    /// The waiter that gets the message again; `None`: the channel does.
    pub(super) fn waiter(self, waiter: Pinned<'_>) -> Option<Pinned<'_>> {
        matches!(self, Self::GoesOn).then_some(waiter)
    }
}

enum Enqueued<'c, T, S: Store<T>> {
    Waits,
    Drained(QueueWaker),
    Message(Locked<'c, T, S>, Popped<'c, T>, QueueWaker),
}

/// A message on its way out. If it does not get there, because foreign code panics, it gets a slot again: granted to the waiter that it was granted to, or
/// pending in front. A channel without an allocation has one spare slot; without one the message is lost with the panic, and the wait is over.
struct Undo<'a, T, S: Store<T>> {
    core: &'a ChannelCore<T, S>,
    message: ManuallyDrop<T>,
    ticket: i64,
    waiter: Option<Pinned<'a>>,
}

impl<T, S: Store<T>> Undo<'_, T, S> {
    #[inline(always)]
    fn disarm(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: the drop does not run.
        unsafe { ManuallyDrop::take(&mut this.message) }
    }
}

impl<T, S: Store<T>> Drop for Undo<'_, T, S> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: not disarmed, so it is there; not used again.
        let mut message = unsafe { ManuallyDrop::take(&mut self.message) };
        loop {
            let mut locked = self.core.lock();
            match locked.restore(message, self.ticket) {
                Ok(number) => {
                    if let Some(waiter) = self.waiter {
                        // SAFETY: its own future, which has seen `Notified`.
                        return unsafe { waiter.get().set_pointer(pack(number)) };
                    }
                    locked.put_back(number);
                    return grant_loop(locked, || self.core.lock_with_slots());
                }
                Err(back) => message = back,
            }
            let allocated = locked.state().allocated;
            drop(locked);
            if !self.core.grow(allocated) {
                if let Some(waiter) = self.waiter {
                    waiter.get().ends_without_output();
                }
                return while_unwinding(|| drop(message));
            }
        }
    }
}

/// One side of a channel, borrowed or owned. Only the crate implements it.
pub trait ChannelSide {
    /// What is sent.
    type Message;
    /// Where it is kept.
    type Store: Store<Self::Message>;

    #[doc(hidden)]
    fn core(&self) -> &ChannelCore<Self::Message, Self::Store>;
}

impl<T, S: Store<T>> ChannelSide for &ChannelCore<T, S> {
    type Message = T;
    type Store = S;

    #[inline(always)]
    fn core(&self) -> &ChannelCore<T, S> {
        self
    }
}

/// What [`Recv`](crate::future::Recv) waits for.
pub struct RecvOp<H: ChannelSide> {
    side: H,
}

impl<H: ChannelSide> RecvOp<H> {
    #[inline(always)]
    #[track_caller]
    pub(super) fn wait(side: H) -> Wait<Single<Self>> {
        Wait::new(Self { side })
    }

    #[cfg(all(feature = "futures-core", feature = "alloc"))]
    pub(super) fn side(&self) -> &H {
        &self.side
    }
}

impl<H: ChannelSide> Op for RecvOp<H> {
    type Output = Result<H::Message, Closed>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::Recv";
    // A limit may wait by then, and panic when it is cancelled: the ticket of the message is kept only if it has been enqueued.
    const TRIES_AFTER_YIELD: bool = false;

    #[inline(always)]
    fn try_now(&mut self) -> Option<Self::Output> {
        let core = self.side.core();
        if core.pending.says(|pending| pending == 0) {
            return None;
        }
        match core.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Closed) => Some(Err(Closed)),
            Err(TryRecvError::Empty) => None,
        }
    }

    fn is_ready(&self) -> bool {
        self.side.core().may_recv()
    }

    #[inline]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let core = self.side.core();
        match core.enqueue(slot, clone_waker(cx.waker())) {
            Enqueued::Waits => Poll::Pending,
            Enqueued::Drained(waker) => {
                drop_waker(Some(waker));
                Poll::Ready(Err(Closed))
            }
            Enqueued::Message(locked, popped, waker) => {
                Poll::Ready(Ok(core.take(locked, popped, Some(waker))))
            }
        }
    }

    #[inline]
    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let core = self.side.core();
        core.poll_wait(waiter, cx).map(|verdict| match verdict {
            Verdict::Granted => Ok(core.claim(waiter, AfterPanic::GoesOn).expect("a grant is claimed once")),
            Verdict::Refused => Err(Closed),
        })
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        let core = self.side.core();
        core.cancel_receive(waiter).map(|verdict| match verdict {
            Verdict::Granted => Ok(core.claim(waiter, AfterPanic::IsOver).expect("a grant is claimed once")),
            Verdict::Refused => Err(Closed),
        })
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }

    fn discard(&mut self, output: Self::Output) {
        if let Ok(message) = output {
            let core = self.side.core();
            let ticket = core.lock().ticket_of_a_received_message();
            core.return_message(message, ticket);
        }
    }

    fn discard_claimed(&mut self, output: Self::Output, waiter: Pinned<'_>) {
        if let Ok(message) = output {
            // SAFETY: its own future, which has claimed a message: `ChannelCore::claim` or `ChannelCore::enqueue` has kept the ticket.
            let ticket = unsafe { waiter.get().ticket() };
            self.side.core().return_message(message, ticket);
        }
    }

    #[inline]
    fn cancel_dropped(&mut self, waiter: Pinned<'_>) {
        self.side.core().cancel_dropped(waiter);
    }
}

impl<H: ChannelSide> fmt::Debug for RecvOp<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvOp").finish_non_exhaustive()
    }
}
