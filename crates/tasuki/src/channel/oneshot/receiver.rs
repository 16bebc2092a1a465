//! The [`Receiver`] of a oneshot, and the futures that receive its one message.

use super::super::error::TryRecvError;
use super::core::sealed::Sealed;
use super::core::{CLOSED, Core, SENDER_GONE, Storage};
use crate::error::Closed;
use crate::queue::waiter::{WaiterState, drop_waker};
use crate::queue::{Pinned, QueueGuard as _, Removed};
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::future::IntoFuture;
use core::task::{Context, Poll};

/// The side of a oneshot that receives, once: `receiver.await` or [`recv`](Self::recv), or [`recv_mut`](Self::recv_mut) by reference.
///
/// # Examples
///
/// ```
/// let (sender, mut receiver) = tasuki::channel::oneshot();
/// assert!(receiver.try_recv().is_err());
/// sender.send(1).unwrap();
/// assert_eq!(receiver.try_recv(), Ok(1));
/// ```
pub struct Receiver<P: Storage> {
    place: P,
}

/// The future of [`Receiver::recv`], [`Receiver::recv_mut`] and `receiver.await`.
pub type OneshotRecv<R> = Wait<Single<OneshotRecvOp<R>>>;

impl<P: Storage> Receiver<P> {
    pub(super) fn new(place: P) -> Self {
        Self { place }
    }

    /// Waits for the message, with the receiver inside the future.
    ///
    /// # Errors
    ///
    /// [`Closed`], if the sender was dropped without sending, or the message has been received.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the receiver, and a message that it had not returned; so does a limit that ends it. Use [`recv_mut`](Self::recv_mut) to wait again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::oneshot();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv().await, Ok(1));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn recv(self) -> OneshotRecv<Self> {
        Wait::new(OneshotRecvOp { receiver: self })
    }

    /// Waits for the message.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: the message is not moved before a poll returns it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let (sender, mut receiver) = tasuki::channel::oneshot();
    /// assert!(receiver.recv_mut().timeout(Duration::ZERO).await.is_err());
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv_mut().await, Ok(1));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn recv_mut(&mut self) -> OneshotRecv<&mut Self> {
        Wait::new(OneshotRecvOp { receiver: self })
    }

    /// Returns the message, if it is there, without waiting.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Closed`] if none can come.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, mut receiver) = tasuki::channel::oneshot();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert_eq!(receiver.try_recv(), Err(tasuki::channel::TryRecvError::Closed));
    /// ```
    #[inline]
    pub fn try_recv(&mut self) -> Result<P::Message, TryRecvError> {
        self.place.core().try_recv()
    }

    /// Closes the oneshot: the sender cannot send any more, and is notified; a message that it has sent can still be received. Returns false if the sender could not send any more: it has
    /// sent, was dropped, or the oneshot was closed before.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, mut receiver) = tasuki::channel::oneshot();
    /// assert!(receiver.close());
    /// assert_eq!(sender.send(1), Err(1));
    /// assert_eq!(receiver.recv().await, Err(tasuki::Closed));
    /// # }
    /// ```
    pub fn close(&mut self) -> bool {
        self.place.core().close()
    }
}

impl<P: Storage> IntoFuture for Receiver<P> {
    type Output = Result<P::Message, Closed>;
    type IntoFuture = OneshotRecv<Self>;

    #[inline]
    #[track_caller]
    fn into_future(self) -> OneshotRecv<Self> {
        self.recv()
    }
}

impl<P: Storage> Drop for Receiver<P> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.place.core().has_finished() {
            // SAFETY: the sender has gone, and the receiver is.
            unsafe { self.place.free() };
        } else {
            end_first(&self.place);
        }
    }
}

/// The receiver is dropped before the sender, which is notified.
#[inline(never)]
fn end_first<P: Storage>(place: &P) {
    /// The exchange that is the last touch comes after the close, also if a waker panics.
    struct Finish<'p, P: Storage>(&'p P);
    impl<P: Storage> Drop for Finish<'_, P> {
        fn drop(&mut self) {
            if Core::<P::Message>::finish_receiver(&self.0.core().queue) {
                // SAFETY: the sender has gone meanwhile, and the receiver is.
                unsafe { self.0.free() };
            }
        }
    }
    let _finish = Finish(place);
    place.core().close();
}

impl<P: Storage> fmt::Debug for Receiver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

/// A receiver, owned or borrowed. Only the crate implements it.
pub trait ReceiverRef: Sealed {
    /// What is received.
    type Message;

    #[doc(hidden)]
    fn core(&self) -> &Core<Self::Message>;
}

impl<P: Storage> Sealed for Receiver<P> {}
impl<P: Storage> Sealed for &mut Receiver<P> {}

impl<P: Storage> ReceiverRef for Receiver<P> {
    type Message = P::Message;

    #[inline(always)]
    fn core(&self) -> &Core<P::Message> {
        self.place.core()
    }
}

impl<P: Storage> ReceiverRef for &mut Receiver<P> {
    type Message = P::Message;

    #[inline(always)]
    fn core(&self) -> &Core<P::Message> {
        self.place.core()
    }
}

/// What [`OneshotRecv`] waits for.
pub struct OneshotRecvOp<R> {
    receiver: R,
}

impl<R: ReceiverRef> Op for OneshotRecvOp<R> {
    type Output = Result<R::Message, Closed>;
    type Unfinished<L> = L;
    const NAME: &'static str = "tasuki::channel::oneshot::OneshotRecv";

    #[inline(always)]
    fn try_now(&mut self) -> Option<Self::Output> {
        match self.receiver.core().try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Closed) => Some(Err(Closed)),
            Err(TryRecvError::Empty) => None,
        }
    }

    fn is_ready(&self) -> bool {
        let word = self.receiver.core().queue.load_settled();
        word.has(SENDER_GONE) || word == CLOSED
    }

    /// A sender that is dropped ends the wait as one that sends does.
    fn shown_notified(&self, _mark: u32) -> &'static str {
        if self.receiver.core().has_message() { "Granted" } else { "Refused" }
    }

    #[inline]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.receiver.core().enqueue(slot, cx)
    }

    #[inline]
    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let core = self.receiver.core();
        // SAFETY: enqueued in this queue, the only one it can be in.
        unsafe { core.queue.poll_queued(waiter, cx) }.map(|()| core.take().ok_or(Closed))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.cancel_wait(waiter).then(|| self.receiver.core().take().ok_or(Closed))
    }

    fn unfinished<L>(&mut self, limit: L) -> L {
        limit
    }

    fn discard(&mut self, output: Self::Output) {
        if let Ok(message) = output {
            self.receiver.core().put(message);
        }
    }

    fn cancel_dropped(&mut self, waiter: Pinned<'_>) {
        // What was granted has not moved.
        self.cancel_wait(waiter);
    }
}

impl<R: ReceiverRef> OneshotRecvOp<R> {
    /// Takes the waiter out of the queue; true if the sender had ended.
    fn cancel_wait(&self, waiter: Pinned<'_>) -> bool {
        if waiter.get().state() == WaiterState::Notified {
            return true;
        }
        let mut locked = self.receiver.core().queue.lock();
        // SAFETY: enqueued in this queue, the only one it can be in.
        let Removed::Waker(waker) = (unsafe { locked.remove(waiter) }) else { return true };
        drop_waker(locked.unlock_with(waker));
        false
    }
}

impl<R> fmt::Debug for OneshotRecvOp<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotRecv").finish_non_exhaustive()
    }
}
