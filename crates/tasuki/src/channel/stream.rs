//! The messages of a channel as a `Stream`, with the feature `futures-core`.
//!
//! A stream is a receive that is begun again after each message, in the same place: its waiter is inside the stream, which is therefore pinned.

use super::Receiver;
use super::receive::RecvOp;
use super::receiver::RecvOwned;
use super::restart::RestartOnPanic;
use crate::budget::Charge;
use crate::wait::Awaitable;
use core::fmt;
use core::future::Future as _;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use futures_core::stream::{FusedStream, Stream};

/// The messages of a channel as a `Stream`: made by [`Receiver::into_stream`].
///
/// It ends when the channel is closed and every message has been received. It is a `FusedStream`: a later poll gives `None` again.
///
/// # Cancel safety
///
/// Dropping the stream drops its receiver: the last one closes the channel and drops its messages. Otherwise none is lost: one that the stream was granted goes to the next receiver, or is the next message again.
/// Dropping a `next()` loses nothing, not even the place in the queue: from a poll that was `Pending` on, the stream stays queued until it has a message, also while it is not polled. So a stream that is neither polled nor dropped keeps the message that it was granted.
pub struct MessageStream<T> {
    wait: RecvOwned<T>,
    /// Of a poll after the end, which is no wait.
    charge: Charge,
}

impl<T> Receiver<T> {
    /// Turns the receiver into a `Stream` of its messages, with the feature `futures-core`. Pin it: its place in the queue is inside.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_core::Stream;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// let mut stream = pin!(receiver.into_stream());
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(stream.as_mut().poll_next(&mut cx).is_pending());
    /// sender.try_send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(stream.as_mut().poll_next(&mut cx), Poll::Ready(Some(1)));
    /// assert_eq!(stream.as_mut().poll_next(&mut cx), Poll::Ready(None));
    /// ```
    #[track_caller]
    pub fn into_stream(self) -> MessageStream<T> {
        MessageStream { wait: RecvOp::wait(self), charge: Charge::default() }
    }
}

impl<T> MessageStream<T> {
    /// Returns the receiver: to ask about the channel, to close it, or to clone it.
    pub fn receiver(&self) -> &Receiver<T> {
        self.wait.op().side()
    }

    fn project(self: Pin<&mut Self>) -> (Pin<&mut RecvOwned<T>>, &mut Charge) {
        // SAFETY: the wait is never moved out of a pinned whole; the charge is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        (unsafe { Pin::new_unchecked(&mut this.wait) }, &mut this.charge)
    }
}

impl<T> Stream for MessageStream<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let (mut wait, charge) = self.project();
        if Awaitable::has_ended(&*wait) {
            ready!(charge.poll_each(cx));
            return Poll::Ready(None);
        }
        let mut begun = RestartOnPanic::new(wait.as_mut());
        let polled = begun.wait().poll(cx);
        begun.disarm();
        polled.map(|received| {
            // After the last one it stays as it is.
            received.ok().inspect(|_| wait.restart())
        })
    }
}

impl<T> FusedStream for MessageStream<T> {
    fn is_terminated(&self) -> bool {
        Awaitable::has_ended(&self.wait)
    }
}

impl<T> fmt::Debug for MessageStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageStream").field("receiver", self.receiver()).finish()
    }
}
