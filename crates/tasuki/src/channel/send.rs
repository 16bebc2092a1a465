//! Sending: a message for which there is room goes at once; a send that waits keeps its message in its future, and a granter moves it into a slot.
//!
//! So a granted send has sent, whether it is polled again or dropped, and one that is cancelled before still has its message.
//! A reservation waits in the same queue; it is granted room, and its message comes later.

use super::core::ChannelCore;
use super::error::{SendError, TryReserveError, TrySendError};
use super::locked::Locked;
use super::parcel::{Content, Parcel};
use super::receive::ChannelSide;
use super::store::Store;
use crate::error::{Closed, GivenBack};
#[cfg(feature = "alloc")]
use crate::queue::batch::UnwindDrop;
use crate::queue::waiter::{Payload, Verdict, WaiterState, clone_waker, drop_spare, drop_waker, wake_owner};
use crate::queue::{Pinned, QueueGuard as _, QueueWaker};
use crate::wait::{Cancel, Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::pin::Pin;
use core::ptr;
use core::task::{Context, Poll};

/// What became of a message.
pub(super) enum Sent {
    /// It was sent; this receiver is to be woken.
    Yes(Option<QueueWaker>),
    Full,
    Closed,
}

impl<T, S: Store<T>> ChannelCore<T, S> {
    /// Sends a message to a channel that is open, in which none waits, and that has room: the fast path. False: nothing has changed.
    ///
    /// SAFETY: the message is there, and its future asks, which is not queued. If it is sent it has been taken.
    #[inline(always)]
    unsafe fn send_idle(&self, content: &Content<T>) -> bool {
        let Some(mut locked) = self.try_lock_idle() else { return false };
        if !locked.covers(1) {
            return false;
        }
        // SAFETY: the caller's contract.
        let sent = unsafe { locked.send_fast(content) };
        // SAFETY: the caller's contract; it has not been sent.
        sent || unsafe { Self::send_out_of_line(locked, content) }
    }

    /// The same where that needs calls. Out of line, so that the fast path saves no register for it: spilled registers would delay the compare-exchange.
    ///
    /// SAFETY: as [`send_idle`](Self::send_idle); there is room, and none waits.
    #[inline(never)]
    unsafe fn send_out_of_line(mut locked: Locked<'_, T, S>, content: &Content<T>) -> bool {
        // SAFETY: the caller's contract. No receiver waits, so there is no waker.
        unsafe { locked.send(content) }.is_some()
    }

    /// Sends a message if there is room.
    ///
    /// SAFETY: the message is there, and its future asks, which is not queued. After [`Sent::Yes`] it has been taken.
    #[inline(always)]
    unsafe fn send_now(&self, content: &Content<T>) -> Sent {
        loop {
            let locked = self.lock();
            let allocated = locked.state().allocated;
            // SAFETY: the caller's contract; it has not been sent.
            if let Some(sent) = unsafe { Self::send_locked(locked, content) } {
                return sent;
            }
            self.grow_for_room(allocated);
        }
    }

    /// `None`: there is room, and no slot.
    ///
    /// SAFETY: as [`send_now`](Self::send_now).
    #[inline(always)]
    unsafe fn send_locked(mut locked: Locked<'_, T, S>, content: &Content<T>) -> Option<Sent> {
        if locked.is_closed() {
            return Some(Sent::Closed);
        }
        if !locked.has_room(1) {
            return Some(Sent::Full);
        }
        // SAFETY: the caller's contract.
        let waker = unsafe { locked.send(content) }?;
        Some(Sent::Yes(locked.unlock_with(waker)))
    }

    #[inline(always)]
    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let content = Content::new(message);
        let Some(mut locked) = self.try_lock_idle() else { return self.try_send_slow(content) };
        // SAFETY: the message is there, and the caller's.
        if locked.covers(1) && unsafe { locked.send_fast(&content) } {
            return Ok(());
        }
        Self::try_send_out_of_line(locked, content)
    }

    /// As [`send_out_of_line`](Self::send_out_of_line), with the message: a message whose address is taken has to be stored.
    #[inline(never)]
    fn try_send_out_of_line(locked: Locked<'_, T, S>, content: Content<T>) -> Result<(), TrySendError<T>> {
        let (core, allocated) = (locked.core, locked.state().allocated);
        // SAFETY: the message is there, and the caller's.
        match unsafe { Self::send_locked(locked, &content) } {
            Some(sent) => Self::sent_or_back(sent, content),
            None => {
                core.grow_for_room(allocated);
                core.try_send_slow(content)
            }
        }
    }

    #[inline(never)]
    fn try_send_slow(&self, content: Content<T>) -> Result<(), TrySendError<T>> {
        // SAFETY: the message is there, and the caller's.
        Self::sent_or_back(unsafe { self.send_now(&content) }, content)
    }

    /// What a try says, of this message.
    #[inline(always)]
    fn sent_or_back(sent: Sent, content: Content<T>) -> Result<(), TrySendError<T>> {
        match sent {
            Sent::Yes(waker) => {
                wake_owner(waker);
                Ok(())
            }
            // SAFETY: not sent, so it is still here.
            Sent::Full => Err(TrySendError::Full(unsafe { content.take() })),
            // SAFETY: as above.
            Sent::Closed => Err(TrySendError::Closed(unsafe { content.take() })),
        }
    }

    /// Would a send of, or a reservation for, so many end without waiting?
    fn may_send(&self, slots: u32) -> bool {
        let locked = self.lock();
        locked.is_closed() || locked.has_room(slots)
    }

    /// Reserves room for so many messages without waiting.
    pub(super) fn try_reserve(&self, slots: u32) -> Result<(), TryReserveError> {
        let mut locked = self.lock();
        if locked.is_closed() {
            return Err(TryReserveError::Closed);
        }
        // A reservation of no slots succeeds at once, also behind a queue.
        if slots > 0 && !locked.has_room(slots) {
            return Err(TryReserveError::Full);
        }
        locked.reserve(slots);
        Ok(())
    }

    /// A permit is not used: its room is for the next.
    pub(super) fn unreserve(&self, slots: u32) {
        let mut locked = self.lock();
        locked.unreserve(slots);
        locked.finish();
    }

    /// A permit is used: gives the message back if there is no receiver any more.
    #[cfg(feature = "alloc")]
    pub(super) fn send_reserved(&self, message: T) -> Result<(), SendError<T>> {
        let content = Content::new(message);
        loop {
            let mut locked = self.lock();
            locked.unreserve(1);
            if locked.state().has_no_receivers {
                // SAFETY: not sent, so it is still here. Dropped if a waker panics: that of a receive that was forgotten, or of a sender that the close has not reached yet.
                let message = UnwindDrop::new(unsafe { content.take() });
                locked.finish();
                return Err(SendError(message.into_inner()));
            }
            // SAFETY: the message is there, and the caller's.
            if let Some(waker) = unsafe { locked.send(&content) } {
                wake_owner(locked.unlock_with(waker));
                return Ok(());
            }
            // The room stays reserved while the store grows.
            locked.reserve(1);
            let allocated = locked.state().allocated;
            drop(locked);
            self.grow_for_room(allocated);
        }
    }

    /// Cancels a queued send or reservation: how its wait had ended, if it had; else it is out of the queue.
    #[inline(always)]
    fn cancel_send(&self, waiter: Pinned<'_>) -> Option<Verdict> {
        if waiter.get().state() != WaiterState::Notified {
            let mut locked = self.lock();
            if waiter.get().state() != WaiterState::Notified {
                // SAFETY: `Waiting`, asked under the lock, so it is in the list of senders (invariant 3 of the queue).
                let (waker, was_first) = unsafe { locked.remove_sender(waiter) };
                drop_waker(Some(if was_first {
                    locked.finish_with(waker)
                } else {
                    locked.unlock_with(waker)
                }));
                return None;
            }
        }
        Some(waiter.get().verdict())
    }
}

/// What [`SendMessage`](crate::future::SendMessage) waits for.
pub struct SendOp<H: ChannelSide> {
    parcel: Parcel<H, H::Message>,
}

impl<H: ChannelSide> SendOp<H> {
    #[inline(always)]
    #[track_caller]
    pub(super) fn wait(side: H, message: H::Message) -> Wait<Single<Self>> {
        Wait::new(Self { parcel: Parcel::new(side, message) })
    }

    /// The message, which has not been sent. Not while it is queued.
    fn take(&mut self) -> H::Message {
        self.parcel.take().expect("the message has been given back already")
    }

    fn ended(&mut self, verdict: Verdict) -> Result<(), SendError<H::Message>> {
        match verdict {
            Verdict::Granted => {
                self.parcel.is_gone();
                Ok(())
            }
            Verdict::Refused => Err(SendError(self.take())),
        }
    }

    #[inline(never)]
    fn try_slow(&mut self) -> Option<Result<(), SendError<H::Message>>> {
        let (side, content) = self.parcel.open()?;
        // SAFETY: the message is there; not queued.
        match unsafe { side.core().send_now(content) } {
            Sent::Yes(waker) => {
                self.parcel.is_gone();
                wake_owner(waker);
                Some(Ok(()))
            }
            Sent::Closed => Some(Err(SendError(self.take()))),
            Sent::Full => None,
        }
    }

    /// The channel of a send that waits.
    #[inline(always)]
    fn core(&self) -> &ChannelCore<H::Message, H::Store> {
        self.parcel.open().expect("a send that waits has its message").0.core()
    }
}

impl<H: ChannelSide> Op for SendOp<H> {
    type Output = Result<(), SendError<H::Message>>;
    type Unfinished<E> = GivenBack<E, H::Message>;
    const NAME: &'static str = "tasuki::future::SendMessage";

    #[inline(always)]
    fn try_now(&mut self) -> Option<Self::Output> {
        // It has gone if an earlier poll sent it, and a waker panicked then.
        let Some((side, content)) = self.parcel.open() else { return Some(Ok(())) };
        let core = side.core();
        if core.held.says(|held| held.saturating_add(core.pending.get()) >= core.capacity) {
            return None;
        }
        // SAFETY: the message is there; not queued.
        if unsafe { core.send_idle(content) } {
            self.parcel.is_gone();
            return Some(Ok(()));
        }
        self.try_slow()
    }

    fn is_ready(&self) -> bool {
        self.parcel.open().is_none_or(|(side, _)| side.core().may_send(1))
    }

    #[inline]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (side, content) = self.parcel.open().expect("a send that is not over has its message");
        let core = side.core();
        let waker = clone_waker(cx.waker());
        let sent = loop {
            let mut locked = core.lock();
            if !locked.is_closed() && !locked.has_room(1) {
                let payload = ptr::from_ref(content).cast_mut().cast::<()>();
                locked.push_sender(slot.init(waker, Payload::carrying(0, payload)));
                return Poll::Pending;
            }
            let allocated = locked.state().allocated;
            // SAFETY: the message is there; not queued.
            if let Some(sent) = unsafe { ChannelCore::send_locked(locked, content) } {
                break sent;
            }
            core.grow_for_room(allocated);
        };
        if let Sent::Yes(receiver) = sent {
            self.parcel.is_gone();
            wake_owner(receiver);
            drop_waker(Some(waker));
            return Poll::Ready(Ok(()));
        }
        // First: if that panics, the message is still here.
        drop_waker(Some(waker));
        Poll::Ready(Err(SendError(self.take())))
    }

    #[inline]
    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.core().poll_wait(waiter, cx).map(|verdict| self.ended(verdict))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.core().cancel_send(waiter).map(|verdict| self.ended(verdict))
    }

    fn cancel_idle(&mut self) -> Option<Self::Output> {
        self.parcel.open().is_none().then_some(Ok(()))
    }

    #[inline(always)]
    fn cancel_dropped(&mut self, waiter: Pinned<'_>) {
        if let Some(Verdict::Granted) = self.core().cancel_send(waiter) {
            self.parcel.is_gone();
        }
    }

    fn unfinished<E>(&mut self, limit: E) -> Self::Unfinished<E> {
        GivenBack { limit, value: self.take() }
    }
}

impl<H: ChannelSide> fmt::Debug for SendOp<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendOp").finish_non_exhaustive()
    }
}

impl<H: ChannelSide> Wait<Single<SendOp<H>>> {
    /// Cancels the send, and returns the message if it has not been sent; `None` if it has been sent, or was returned before.
    ///
    /// A later poll panics. Dropping the future does the same, and drops a message that was not sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    ///
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// sender.try_send(1).unwrap();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let (mut second, mut third) = (pin!(sender.send(2)), pin!(sender.send(3)));
    /// assert!(second.as_mut().poll(&mut cx).is_pending() && third.as_mut().poll(&mut cx).is_pending());
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert_eq!((second.cancel(), third.cancel()), (None, Some(3)));
    /// assert_eq!(receiver.try_recv(), Ok(2));
    /// ```
    pub fn cancel(mut self: Pin<&mut Self>) -> Option<H::Message> {
        match crate::wait::Awaitable::cancel(self.as_mut(), Cancel(())) {
            Some(Ok(())) => None,
            Some(Err(SendError(message))) => Some(message),
            None => self.op_mut().parcel.take(),
        }
    }
}

/// How a reservation is handed out. Only the crate implements it.
pub trait Reserve {
    /// The side that sends.
    type Side: ChannelSide;
    /// What is handed out.
    type Permit;

    #[doc(hidden)]
    fn side(&self) -> &Self::Side;

    #[doc(hidden)]
    fn slots(&self) -> u32;

    /// The room has been reserved.
    #[doc(hidden)]
    fn permit(&mut self) -> Self::Permit;
}

/// What [`Reservation`](crate::future::Reservation) and the other reservations wait for.
pub struct ReserveOp<R: Reserve> {
    reserve: R,
}

impl<R: Reserve> ReserveOp<R> {
    #[cfg(feature = "alloc")]
    #[track_caller]
    pub(super) fn wait(reserve: R) -> Wait<Single<Self>> {
        Wait::new(Self { reserve })
    }

    #[cfg(feature = "futures-sink")]
    pub(super) fn reserve_mut(&mut self) -> &mut R {
        &mut self.reserve
    }

    fn ended(&mut self, verdict: Verdict) -> Result<R::Permit, Closed> {
        match verdict {
            Verdict::Granted => Ok(self.reserve.permit()),
            Verdict::Refused => Err(Closed),
        }
    }
}

impl<R: Reserve> Op for ReserveOp<R> {
    type Output = Result<R::Permit, Closed>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::Reservation";

    fn try_now(&mut self) -> Option<Self::Output> {
        match self.reserve.side().core().try_reserve(self.reserve.slots()) {
            Ok(()) => Some(Ok(self.reserve.permit())),
            Err(TryReserveError::Closed) => Some(Err(Closed)),
            Err(TryReserveError::Full) => None,
        }
    }

    fn is_ready(&self) -> bool {
        self.reserve.slots() == 0 || self.reserve.side().core().may_send(self.reserve.slots())
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let slots = self.reserve.slots();
        let waker = clone_waker(cx.waker());
        let mut locked = self.reserve.side().core().lock();
        if locked.is_closed() {
            drop(locked);
            drop_waker(Some(waker));
            return Poll::Ready(Err(Closed));
        }
        if slots > 0 && !locked.has_room(slots) {
            locked.push_sender(slot.init(waker, Payload::carrying(slots, ptr::null_mut())));
            return Poll::Pending;
        }
        locked.reserve(slots);
        drop(locked);
        drop_spare(waker, || self.reserve.side().core().unreserve(slots));
        Poll::Ready(Ok(self.reserve.permit()))
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let verdict = self.reserve.side().core().poll_wait(waiter, cx);
        verdict.map(|verdict| self.ended(verdict))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        let verdict = self.reserve.side().core().cancel_send(waiter);
        verdict.map(|verdict| self.ended(verdict))
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

impl<R: Reserve> fmt::Debug for ReserveOp<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReserveOp").finish_non_exhaustive()
    }
}
