//! A sender as a `Sink`, with the feature `futures-sink`.
//!
//! `poll_ready` waits for room and reserves it, `start_send` uses the permit. The reservation waits inside the sink, which is therefore pinned, and is begun again after each message; the sender goes
//! from it into the permit and back.
//!
//! | state      | `wait`                        | `permit` | next |
//! |------------|-------------------------------|----------|------|
//! | idle, or waiting | there, with the sender  | none     | `poll_ready` reserves |
//! | reserved   | there, without the sender     | there    | `start_send` sends |
//! | closed     | none                          | none     | everything is refused |

use super::error::SendError;
use super::permit::{OwnedPermit, ReserveOwned};
use super::receive::ChannelSide as _;
use super::restart::RestartOnPanic;
use super::sender::ReservationOwned;
use super::{Sender, send::ReserveOp};
use crate::budget::Charge;
use core::fmt;
use core::future::Future as _;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use futures_sink::Sink;

/// The sender of a channel as a `Sink`: made by [`Sender::into_sink`].
///
/// A message is in the channel when `start_send` returns, so there is nothing to flush. Closing the sink drops its sender; the channel is closed when that was the last one.
///
/// # Errors
///
/// [`SendError`] when the channel is closed, with the message if it was `start_send` that could not send it.
///
/// # Panics
///
/// `start_send` without a `poll_ready` that was ready.
///
/// # Cancel safety
///
/// Every message that the sink was given has been sent. Dropping the sink gives its place in the queue, or its room, to the next sender. From a `poll_ready` that was `Pending` on, the sink stays queued until it has room, also
/// while it is not polled; and it keeps the room until it is used or dropped.
pub struct MessageSink<T> {
    wait: Option<ReservationOwned<T>>,
    permit: Option<OwnedPermit<T>>,
    /// Of a poll that is no wait: it is ready at once.
    charge: Charge,
}

impl<T> Sender<T> {
    /// Turns the sender into a `Sink`, with the feature `futures-sink`. Pin it: its place in the queue is inside.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_sink::Sink;
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    ///
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// let mut sink = pin!(sender.into_sink());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(sink.as_mut().poll_ready(&mut cx).is_ready());
    /// sink.as_mut().start_send(1).unwrap();
    /// assert!(sink.as_mut().poll_ready(&mut cx).is_pending()); // it is full
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert!(sink.as_mut().poll_ready(&mut cx).is_ready());
    /// ```
    #[track_caller]
    pub fn into_sink(self) -> MessageSink<T> {
        MessageSink {
            wait: Some(ReserveOp::wait(ReserveOwned(Some(self)))),
            permit: None,
            charge: Charge::default(),
        }
    }
}

/// The parts of a pinned sink; the wait stays pinned.
type SinkParts<'s, T> =
    (Pin<&'s mut Option<ReservationOwned<T>>>, &'s mut Option<OwnedPermit<T>>, &'s mut Charge);

impl<T> MessageSink<T> {
    fn project(self: Pin<&mut Self>) -> SinkParts<'_, T> {
        // SAFETY: the wait is not moved while it is pinned; the others are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        (unsafe { Pin::new_unchecked(&mut this.wait) }, &mut this.permit, &mut this.charge)
    }

    /// Gives room, place in the queue and sender up.
    fn close(self: Pin<&mut Self>) {
        let (mut wait, permit, _) = self.project();
        // Both, also if the first panics: a waker may.
        let permit = permit.take();
        wait.set(None);
        drop(permit);
    }
}

impl<T> Sink<T> for MessageSink<T> {
    type Error = SendError<Option<T>>;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let (wait, permit, charge) = self.project();
        if permit.is_some() {
            ready!(charge.poll_each(cx));
            return Poll::Ready(Ok(()));
        }
        let Some(mut wait) = wait.as_pin_mut() else {
            ready!(charge.poll_each(cx));
            return Poll::Ready(Err(SendError(None)));
        };
        let mut begun = RestartOnPanic::new(wait.as_mut());
        let polled = begun.wait().poll(cx);
        begun.disarm();
        polled.map(|reserved| {
            wait.restart();
            // A send is charged once: the flush that ends it is not.
            charge.waive();
            *permit = Some(reserved.map_err(|_closed| SendError(None))?);
            Ok(())
        })
    }

    #[track_caller]
    fn start_send(self: Pin<&mut Self>, message: T) -> Result<(), Self::Error> {
        let (wait, permit, _) = self.project();
        let Some(wait) = wait.as_pin_mut() else { return Err(SendError(Some(message))) };
        let permit = permit.take().expect("`start_send` comes after a `poll_ready` that was ready");
        // Back in its place first: a waker may panic in the send.
        let sender = wait.op_mut().reserve_mut().0.insert(permit.into_sender());
        sender.core().send_reserved(message).map_err(|SendError(message)| SendError(Some(message)))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let (_, _, charge) = self.project();
        charge.poll_each(cx).map(Ok)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let (_, _, charge) = self.as_mut().project();
        ready!(charge.poll_each(cx));
        self.close();
        Poll::Ready(Ok(()))
    }
}

impl<T> fmt::Debug for MessageSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = (self.wait.is_some(), self.permit.is_some());
        f.debug_struct("MessageSink").field("open, reserved", &state).finish_non_exhaustive()
    }
}
