//! Sending: a message for which there is room goes at once; a send that waits keeps its message in its future, and a granter moves it into a slot.
//!
//! So a granted send has sent, whether it is polled again or dropped, and one that is cancelled before still has its message.
//! A reservation waits in the same queue; it is granted room instead of being relieved of a message.

use super::core::Core;
use super::error::{SendError, TryReserveError, TrySendError};
use super::locked::Locked;
use super::parcel::Parcel;
use super::receive::Side;
use super::store::Store;
use crate::error::{Closed, GivenBack};
use crate::queue::waiter::{
    Payload, Verdict, WaiterState as State, clone_waker, drop_spare, drop_waker, wake_owner,
};
use crate::queue::{Pinned, QueueGuard as _};
use crate::wait::{Cancel, Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::pin::Pin;
use core::ptr;
use core::task::{Context, Poll};

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    Full,
    Closed,
}

impl<T, S: Store<T>> Core<T, S> {
    /// Sends a message if there is room; unless it is sent it stays in the parcel. If a waker panics, it has been sent.
    #[inline]
    pub(super) fn send_now(&self, parcel: &Parcel<T>) -> Sent {
        loop {
            let mut locked = self.lock();
            if locked.is_closed() {
                return Sent::Closed;
            }
            if !locked.has_room(1) {
                return Sent::Full;
            }
            // SAFETY: the parcel is full, and the caller's.
            if let Some(waker) = unsafe { locked.send(parcel) } {
                wake_owner(locked.unlock_with(waker));
                return Sent::Yes;
            }
            self.grow_unlocked(locked);
        }
    }

    /// There is room, and no slot: the store grows.
    #[cold]
    fn grow_unlocked(&self, locked: Locked<'_, T, S>) {
        let allocated = locked.state().allocated;
        drop(locked);
        let grown = self.grow(allocated);
        assert!(grown, "a channel has slots for its capacity");
    }

    #[inline]
    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let parcel = Parcel::new(message);
        match self.send_now(&parcel) {
            Sent::Yes => Ok(()),
            // SAFETY: not sent, so it is still here.
            Sent::Full => Err(TrySendError::Full(unsafe { parcel.take() })),
            // SAFETY: as above.
            Sent::Closed => Err(TrySendError::Closed(unsafe { parcel.take() })),
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
        // Nothing is had at once, also behind a queue.
        if slots > 0 && !locked.has_room(slots) {
            return Err(TryReserveError::Full);
        }
        locked.reserve(slots);
        Ok(())
    }

    /// A permit is not used: its room serves the next.
    pub(super) fn unreserve(&self, slots: u32) {
        let mut locked = self.lock();
        locked.unreserve(slots);
        locked.finish();
    }

    /// A permit is used: gives the message back if there is no receiver any more.
    #[cfg(feature = "alloc")]
    pub(super) fn send_reserved(&self, message: T) -> Result<(), SendError<T>> {
        let parcel = Parcel::new(message);
        loop {
            let mut locked = self.lock();
            locked.unreserve(1);
            if locked.state().deserted {
                locked.finish();
                break;
            }
            // SAFETY: the parcel is full, and the caller's.
            if let Some(waker) = unsafe { locked.send(&parcel) } {
                wake_owner(locked.unlock_with(waker));
                return Ok(());
            }
            // The room stays reserved while the store grows.
            locked.reserve(1);
            self.grow_unlocked(locked);
        }
        // SAFETY: not sent, so it is still here.
        Err(SendError(unsafe { parcel.take() }))
    }

    /// A queued sender ends: how its wait had ended, if it had; else it has left the queue, and what was too little for it may be enough for the next.
    fn leave_senders(&self, waiter: Pinned<'_>) -> Option<Verdict> {
        if waiter.get().state() != State::Notified {
            let mut locked = self.lock();
            if waiter.get().state() != State::Notified {
                // SAFETY: `Waiting`, asked under the lock, so it is in the list of senders (invariant 3 of the queue).
                let waker = unsafe { locked.remove_sender(waiter) };
                drop_waker(Some(locked.finish_with(waker)));
                return None;
            }
        }
        Some(waiter.get().verdict())
    }
}

/// What [`Send`](super::Send) waits for.
pub struct SendOp<H: Side> {
    side: H,
    parcel: Parcel<H::Message>,
}

impl<H: Side> SendOp<H> {
    #[inline(always)]
    pub(super) fn wait(side: H, message: H::Message) -> Wait<Single<Self>> {
        Wait::new(Self { side, parcel: Parcel::new(message) })
    }

    /// The message, which has not been sent. Not while it is queued.
    fn take(&self) -> H::Message {
        assert!(self.parcel.is_full(), "the message has been given back already");
        // SAFETY: full; the future asks, and is not queued.
        unsafe { self.parcel.take() }
    }

    fn try_send(&self) -> Option<Result<(), SendError<H::Message>>> {
        // It has gone if an earlier poll sent it, and a waker panicked then.
        if !self.parcel.is_full() {
            return Some(Ok(()));
        }
        match self.side.core().send_now(&self.parcel) {
            Sent::Yes => Some(Ok(())),
            Sent::Closed => Some(Err(SendError(self.take()))),
            Sent::Full => None,
        }
    }

    fn ended(&self, verdict: Verdict) -> Result<(), SendError<H::Message>> {
        match verdict {
            Verdict::Granted => Ok(()),
            Verdict::Refused => Err(SendError(self.take())),
        }
    }
}

impl<H: Side> Op for SendOp<H> {
    type Output = Result<(), SendError<H::Message>>;
    type Unfinished<E> = GivenBack<E, H::Message>;
    const NAME: &'static str = "Send";

    #[inline(always)]
    fn try_now(&mut self) -> Option<Self::Output> {
        if self.side.core().full.says_look() && self.parcel.is_full() {
            return None;
        }
        self.try_send()
    }

    fn is_ready(&self) -> bool {
        !self.parcel.is_full() || self.side.core().may_send(1)
    }

    #[inline]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let core = self.side.core();
        let waker = clone_waker(cx.waker());
        loop {
            let mut locked = core.lock();
            if locked.is_closed() {
                drop(locked);
                drop_waker(Some(waker));
                return Poll::Ready(Err(SendError(self.take())));
            }
            if !locked.has_room(1) {
                let payload = ptr::from_ref(&self.parcel).cast_mut().cast::<()>();
                locked.push_sender(slot.init(waker, Payload::carrying(0, payload)));
                return Poll::Pending;
            }
            // SAFETY: the parcel is full: it was when this poll began, and the channel has not been told of it.
            if let Some(receiver) = unsafe { locked.send(&self.parcel) } {
                wake_owner(locked.unlock_with(receiver));
                drop_waker(Some(waker));
                return Poll::Ready(Ok(()));
            }
            core.grow_unlocked(locked);
        }
    }

    #[inline]
    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.side.core().poll_wait(waiter, cx).map(|verdict| self.ended(verdict))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.side.core().leave_senders(waiter).map(|verdict| self.ended(verdict))
    }

    fn unfinished<E>(&mut self, limit: E) -> Self::Unfinished<E> {
        GivenBack { limit, value: self.take() }
    }
}

impl<H: Side> fmt::Debug for SendOp<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(Self::NAME).finish_non_exhaustive()
    }
}

impl<H: Side> Wait<Single<SendOp<H>>> {
    /// Ends the send: the message, if it has not been sent. `None` says that it was sent (or given back before).
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
            None => self.op().parcel.is_full().then(|| self.op().take()),
        }
    }
}

/// How a reservation is handed out. Only the crate implements it.
pub trait Reserve {
    /// The side that sends.
    type Side: Side;
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

/// What [`Reservation`](super::Reservation) and its kin wait for.
pub struct ReserveOp<R: Reserve> {
    reserve: R,
}

impl<R: Reserve> ReserveOp<R> {
    #[cfg(feature = "alloc")]
    pub(super) fn wait(reserve: R) -> Wait<Single<Self>> {
        Wait::new(Self { reserve })
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
    const NAME: &'static str = "Reservation";

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
        let verdict = self.reserve.side().core().leave_senders(waiter);
        verdict.map(|verdict| self.ended(verdict))
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

impl<R: Reserve> fmt::Debug for ReserveOp<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(Self::NAME).finish_non_exhaustive()
    }
}
