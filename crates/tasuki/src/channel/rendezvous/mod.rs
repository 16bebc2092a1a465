//! A hand-over without room: a send ends when a receive takes its message.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (sender, receiver) = tasuki::channel::rendezvous();
//! let task = tokio::spawn(async move { sender.send("from hand to hand").await }); // ends when it was received
//! assert_eq!(receiver.recv().await, Ok("from hand to hand"));
//! assert_eq!(task.await.unwrap(), Ok(()));
//! # }
//! ```
//!
//! # Cancel
//!
//! The message stays with its sender until a receive takes it. So a send that a limit ends before that gives the message back, and a cancelled receive has nothing to lose. A send that is dropped drops its message.
//!
//! # Order
//!
//! Both sides are first in, first out. A receive keeps the place of its first poll, also if it was woken for a send that is then cancelled.
//!
//! # Sending without waiting
//!
//! [`try_send`](Sender::try_send) succeeds if a receiver waits: the message belongs to that receive. If the receive is dropped before it is polled, the message goes to the next receiver, also to one that comes later, and also
//! after a close. Several such messages keep their order, and precede those of the sends that wait.
//!
//! # Futurelock
//!
//! A receive that was woken for a message and is then neither polled nor dropped keeps others from taking that message.

mod boxed_message;
mod core;
mod senders;

use self::core::RendezvousCore;
use super::error::{SendError, TryRecvError, TrySendError};
use super::handle::HandleCount;
use super::parcel::Parcel;
use crate::error::{Closed, GivenBack};
use crate::event::WaitEvent;
use crate::queue::Pinned;
use crate::queue::waiter::{Verdict, clone_waker, drop_waker};
use crate::wait::{Cancel, Op, Single, Wait, WaiterSlot};
use ::core::fmt;
use ::core::pin::Pin;
use ::core::task::{Context, Poll};
use alloc::sync::Arc;

/// What the handles share.
#[derive(Debug)]
struct SharedRendezvous<T> {
    core: RendezvousCore<T>,
    senders: HandleCount,
    receivers: HandleCount,
    /// Of both sides. They keep the allocation, as those of other channels do, and are counted as those are: too many of them panic, where an `Arc` would end the process.
    weak: HandleCount,
}

/// Creates a channel without room: each send waits until a receive has taken its message.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::rendezvous();
/// let thread = std::thread::spawn(move || sender.send("from hand to hand").block());
/// assert_eq!(receiver.recv().await, Ok("from hand to hand"));
/// assert_eq!(thread.join().unwrap(), Ok(()));
/// # }
/// ```
pub fn rendezvous<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(SharedRendezvous {
        core: RendezvousCore::new(),
        senders: HandleCount::new(1),
        receivers: HandleCount::new(1),
        weak: HandleCount::new(0),
    });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// The side that sends. When the last clone is dropped, the rendezvous is closed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::rendezvous();
/// let other = sender.clone();
/// let thread = std::thread::spawn(move || other.send(1).block());
/// assert_eq!(receiver.recv().await, Ok(1));
/// thread.join().unwrap().unwrap();
/// drop(sender);
/// assert!(receiver.recv().await.is_err(), "closed");
/// # }
/// ```
pub struct Sender<T> {
    shared: Arc<SharedRendezvous<T>>,
}

/// The side that receives. When the last clone is dropped, the rendezvous is closed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::rendezvous();
/// drop(receiver);
/// assert!(sender.send(1).await.is_err(), "closed");
/// # }
/// ```
pub struct Receiver<T> {
    shared: Arc<SharedRendezvous<T>>,
}

/// The future of [`Sender::send`].
pub type HandOver<'a, T> = Wait<Single<HandOverOp<'a, T>>>;
/// The future of [`Receiver::recv`].
pub type TakeOver<'a, T> = Wait<Single<TakeOverOp<'a, T>>>;

impl<T> Sender<T> {
    /// Hands a message over; waits until a receive has taken it.
    ///
    /// # Errors
    ///
    /// [`SendError`] with the message, if it is closed, or is closed during the wait.
    ///
    /// # Cancel safety
    ///
    /// A send that is dropped before a receive has taken its message drops it; [`cancel`](HandOver::cancel) and limits give it back.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let (sender, receiver) = tasuki::channel::rendezvous();
    /// let ended = sender.send(1).timeout(Duration::ZERO).await.unwrap_err();
    /// assert_eq!(ended.value, 1);
    /// drop(receiver);
    /// assert!(sender.send(2).await.is_err());
    /// # }
    /// ```
    #[track_caller]
    pub fn send(&self, message: T) -> HandOver<'_, T> {
        Wait::new(HandOverOp { parcel: Parcel::new(&self.shared.core, message) })
    }

    /// Hands a message over without waiting: succeeds if a receiver waits that has not been woken for another send's message. The message is put in a box: this allocates.
    ///
    /// # Errors
    ///
    /// [`TrySendError`] with the message.
    ///
    /// # Cancel safety
    ///
    /// After `Ok` the message is never lost: a receive that is dropped with it passes it on to the next, before the messages of all sends that wait, and `Closed` means that none is left.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let (sender, receiver) = tasuki::channel::rendezvous();
    /// assert!(sender.try_send(1).unwrap_err().is_full());
    /// let (mut receive, mut cx) = (pin!(receiver.recv()), Context::from_waker(Waker::noop()));
    /// assert!(receive.as_mut().poll(&mut cx).is_pending());
    /// assert!(sender.try_send(2).is_ok() && sender.try_send(3).is_err());
    /// assert_eq!(receive.as_mut().poll(&mut cx), Poll::Ready(Ok(2)));
    /// ```
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.shared.core.try_send(message)
    }

    /// Waits until it is closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing: what was closed stays closed.
    #[track_caller]
    pub fn closed(&self) -> WaitEvent<'_> {
        self.shared.core.closed.wait()
    }

    /// Closes: sends give their message back, those that wait too; receives end, when no message of a [`try_send`](Sender::try_send) is left. False if it was closed.
    pub fn close(&self) -> bool {
        self.shared.core.close()
    }

    /// Returns true if the rendezvous is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.core.is_closed()
    }

    /// Returns true if both are handles to the same rendezvous.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns a handle that does not keep the rendezvous open.
    #[track_caller]
    pub fn downgrade(&self) -> WeakSender<T> {
        self.shared.weak.add();
        WeakSender { shared: self.shared.clone() }
    }
}

impl<T> Receiver<T> {
    /// Takes the message of the first sender; waits for one.
    ///
    /// # Errors
    ///
    /// [`Closed`], if it is closed, or is closed during the wait, and no message of a [`try_send`](Sender::try_send) is left. While such a message is another receive's, it waits.
    ///
    /// # Cancel safety
    ///
    /// A receive that is dropped loses its place in the queue, never a message: that is with its sender until a poll returns it. One of a [`try_send`](Sender::try_send) goes to the next receiver.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::rendezvous::<u8>();
    /// drop(sender);
    /// assert_eq!(receiver.recv().await, Err(tasuki::Closed));
    /// # }
    /// ```
    #[track_caller]
    pub fn recv(&self) -> TakeOver<'_, T> {
        Wait::new(TakeOverOp { core: &self.shared.core })
    }

    /// Takes the first message, if no receiver was woken for it.
    ///
    /// # Errors
    ///
    /// [`TryRecvError`].
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.shared.core.try_recv()
    }

    /// Closes: sends give their message back, those that wait too; receives end, when no message of a [`try_send`](Sender::try_send) is left. False if it was closed.
    pub fn close(&self) -> bool {
        self.shared.core.close()
    }

    /// Returns true if the rendezvous is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.core.is_closed()
    }

    /// Returns true if both are handles to the same rendezvous.
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns a handle that does not keep the rendezvous open.
    #[track_caller]
    pub fn downgrade(&self) -> WeakReceiver<T> {
        self.shared.weak.add();
        WeakReceiver { shared: self.shared.clone() }
    }
}

impl<T> Clone for Sender<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.shared.senders.add();
        Self { shared: self.shared.clone() }
    }
}

impl<T> Clone for Receiver<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.shared.receivers.add();
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.remove() {
            self.shared.core.close();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.shared.receivers.remove() {
            self.shared.core.close_without_receivers();
        }
    }
}

/// A handle to a rendezvous that does not keep it open: made by [`Sender::downgrade`].
///
/// # Examples
///
/// ```
/// let (sender, receiver) = tasuki::channel::rendezvous::<u8>();
/// let weak = sender.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(sender);
/// assert!(weak.upgrade().is_none() && receiver.is_closed());
/// ```
pub struct WeakSender<T> {
    shared: Arc<SharedRendezvous<T>>,
}

/// A handle to a rendezvous that does not keep it open: made by [`Receiver::downgrade`].
///
/// # Examples
///
/// ```
/// let (sender, receiver) = tasuki::channel::rendezvous::<u8>();
/// let weak = receiver.downgrade();
/// assert!(weak.upgrade().is_some());
/// drop(receiver);
/// assert!(weak.upgrade().is_none() && sender.is_closed());
/// ```
pub struct WeakReceiver<T> {
    shared: Arc<SharedRendezvous<T>>,
}

impl<T> WeakSender<T> {
    /// Returns a sender, which keeps the rendezvous open; `None` if all senders were dropped.
    #[track_caller]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        // Made only if it is counted: its drop gives a count back.
        if self.shared.senders.add_unless_zero() {
            Some(Sender { shared: self.shared.clone() })
        } else {
            None
        }
    }
}

impl<T> WeakReceiver<T> {
    /// Returns a receiver, which keeps the rendezvous open; `None` if all receivers were dropped.
    #[track_caller]
    pub fn upgrade(&self) -> Option<Receiver<T>> {
        // Made only if it is counted: its drop gives a count back.
        if self.shared.receivers.add_unless_zero() {
            Some(Receiver { shared: self.shared.clone() })
        } else {
            None
        }
    }
}

impl<T> Clone for WeakSender<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.shared.weak.add();
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for WeakSender<T> {
    fn drop(&mut self) {
        self.shared.weak.remove();
    }
}

impl<T> Clone for WeakReceiver<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.shared.weak.add();
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for WeakReceiver<T> {
    fn drop(&mut self) {
        self.shared.weak.remove();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("channel", &self.shared.core).finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("channel", &self.shared.core).finish()
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for WeakReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakReceiver").finish_non_exhaustive()
    }
}

/// What [`HandOver`] waits for.
pub struct HandOverOp<'a, T> {
    parcel: Parcel<&'a RendezvousCore<T>, T>,
}

impl<'a, T> HandOverOp<'a, T> {
    fn refused(&mut self) -> SendError<T> {
        SendError(self.parcel.take().expect("the message has been given back already"))
    }

    fn ended(&mut self, verdict: Verdict) -> Result<(), SendError<T>> {
        match verdict {
            Verdict::Granted => {
                self.parcel.is_gone();
                Ok(())
            }
            Verdict::Refused => Err(self.refused()),
        }
    }

    /// The rendezvous of a send that is not over.
    fn core(&self) -> &'a RendezvousCore<T> {
        self.parcel.open().expect("a send that is not over has its message").0
    }
}

impl<T> Op for HandOverOp<'_, T> {
    type Output = Result<(), SendError<T>>;
    type Unfinished<E> = GivenBack<E, T>;
    const NAME: &'static str = "tasuki::channel::rendezvous::HandOver";

    fn try_now(&mut self) -> Option<Self::Output> {
        self.core().is_closed().then(|| Err(self.refused()))
    }

    fn is_ready(&self) -> bool {
        self.core().is_closed()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = clone_waker(cx.waker());
        let (core, content) = self.parcel.open().expect("a send that is not over has its message");
        let Some(waker) = core.enqueue_sender(slot, waker, content) else { return Poll::Pending };
        drop_waker(Some(waker));
        Poll::Ready(Err(self.refused()))
    }

    /// Only now: the wake may panic, and the future would leave the queue then.
    fn enqueued(&mut self, _waiter: Pinned<'_>, _cx: &Context<'_>) {
        self.core().settle();
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.core().poll_sender(waiter, cx).map(|verdict| self.ended(verdict))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.core().cancel_send(waiter).map(|verdict| self.ended(verdict))
    }

    fn cancel_dropped(&mut self, waiter: Pinned<'_>) {
        // What was not taken stays in its parcel, whose drop contains a second panic.
        if let Some(Verdict::Granted) = self.core().cancel_send(waiter) {
            self.parcel.is_gone();
        }
    }

    fn unfinished<E>(&mut self, limit: E) -> Self::Unfinished<E> {
        let SendError(value) = self.refused();
        GivenBack { limit, value }
    }
}

impl<T> fmt::Debug for HandOverOp<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOverOp").finish_non_exhaustive()
    }
}

impl<T> Wait<Single<HandOverOp<'_, T>>> {
    /// Ends the send: the message, if it has not been taken. `None` says that it was received (or given back before). A later poll panics.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::rendezvous();
    /// let mut send = Box::pin(sender.send(1));
    /// assert_eq!(send.as_mut().cancel(), Some(1));
    /// # drop(receiver);
    /// ```
    pub fn cancel(mut self: Pin<&mut Self>) -> Option<T> {
        match crate::wait::Awaitable::cancel(self.as_mut(), Cancel(())) {
            Some(Ok(())) => None,
            Some(Err(SendError(message))) => Some(message),
            None => self.op_mut().parcel.take(),
        }
    }
}

/// What [`TakeOver`] waits for.
pub struct TakeOverOp<'a, T> {
    core: &'a RendezvousCore<T>,
}

impl<T> Op for TakeOverOp<'_, T> {
    type Output = Result<T, Closed>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::channel::rendezvous::TakeOver";
    // As in `channel/receive.rs`: what comes after a yield keeps its ticket.
    const TRIES_AFTER_YIELD: bool = false;

    fn try_now(&mut self) -> Option<Self::Output> {
        match self.core.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Closed) => Some(Err(Closed)),
            Err(TryRecvError::Empty) => None,
        }
    }

    fn is_ready(&self) -> bool {
        self.core.may_recv()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.core.receive(slot, cx)
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.core.poll_receiver(waiter, cx)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.core.cancel(waiter)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }

    fn discard(&mut self, output: Self::Output) {
        if let Ok(message) = output {
            self.core.put_back(message, self.core.ticket_of_a_received_message());
        }
    }

    fn discard_claimed(&mut self, output: Self::Output, waiter: Pinned<'_>) {
        if let Ok(message) = output {
            // SAFETY: its own future, which has claimed a message: `RendezvousCore::claim`, `claim_handed` or `receive` has kept the ticket.
            self.core.put_back(message, unsafe { waiter.get().ticket() });
        }
    }

    fn cancel_dropped(&mut self, waiter: Pinned<'_>) {
        self.core.cancel_dropped(waiter);
    }
}

impl<T> fmt::Debug for TakeOverOp<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeOverOp").finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Wake, Waker};

    /// A send that is enqueued and owes its step, as another thread can find it.
    struct Unsettled<'a>(HandOverOp<'a, u32>);

    impl Op for Unsettled<'_> {
        type Output = Result<(), SendError<u32>>;
        type Unfinished<E> = GivenBack<E, u32>;
        const NAME: &'static str = "tasuki::channel::rendezvous::HandOver";

        fn try_now(&mut self) -> Option<Self::Output> {
            self.0.try_now()
        }

        fn is_ready(&self) -> bool {
            self.0.is_ready()
        }

        fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            self.0.enqueue(slot, cx)
        }

        fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            self.0.poll_queued(waiter, cx)
        }

        fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
            self.0.cancel(waiter)
        }

        fn unfinished<E>(&mut self, limit: E) -> Self::Unfinished<E> {
            self.0.unfinished(limit)
        }
    }

    /// Counts its wakes, or panics in the first.
    struct Woken(AtomicU32, bool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert!(!self.1, "a hostile waker");
        }
    }

    /// A receive takes the message of a sender, and has to wake another receiver for the next one, whose waker panics: the sender is woken all the same, and its message is
    /// not lost. A newcomer does not take the message that the other receiver has not been woken for yet.
    #[test]
    fn a_sender_whose_message_was_taken_is_woken() {
        let core = RendezvousCore::new();
        let woken = |panics| Arc::new(Woken(AtomicU32::new(0), panics));
        let (hostile, of_sender) = (Waker::from(woken(true)), woken(false));
        let (waker, mut cx) = (Waker::from(of_sender.clone()), Context::from_waker(Waker::noop()));
        let send = |message| Wait::new(Unsettled(HandOverOp { parcel: Parcel::new(&core, message) }));
        let mut receives = [(); 2].map(|()| Box::pin(Wait::new(TakeOverOp { core: &core })));
        assert!(receives[0].as_mut().poll(&mut cx).is_pending());
        assert!(receives[1].as_mut().poll(&mut Context::from_waker(&hostile)).is_pending());
        let mut sends = [1, 2].map(|message| Box::pin(send(message)));
        assert!(sends[0].as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        core.settle();
        assert!(sends[1].as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(core.try_recv(), Err(TryRecvError::Empty));
        assert!(catch_unwind(AssertUnwindSafe(|| receives[0].as_mut().poll(&mut cx))).is_err());
        assert_eq!(of_sender.0.load(Ordering::Relaxed), 1, "one message was taken");
        assert_eq!(sends[0].as_mut().poll(&mut cx), Poll::Ready(Ok(())));
        assert_eq!(receives[0].as_mut().poll(&mut cx), Poll::Ready(Ok(1)));
        assert_eq!(receives[1].as_mut().poll(&mut cx), Poll::Ready(Ok(2)));
        assert_eq!(sends[1].as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    }

    /// One handle too many: the panic names the line of the caller.
    #[test]
    fn one_handle_too_many_names_its_caller() {
        let (sender, receiver) = rendezvous::<u8>();
        let (weak_sender, weak_receiver) = (sender.downgrade(), receiver.downgrade());
        let SharedRendezvous { senders, receivers, weak, .. } = &*sender.shared;
        let first = line!() + 2;
        let lines = [
            senders.line_of_one_too_many(|| drop(sender.clone())),
            receivers.line_of_one_too_many(|| drop(receiver.clone())),
            weak.line_of_one_too_many(|| drop(sender.downgrade())),
            weak.line_of_one_too_many(|| drop(receiver.downgrade())),
            weak.line_of_one_too_many(|| drop(weak_sender.clone())),
            weak.line_of_one_too_many(|| drop(weak_receiver.clone())),
            senders.line_of_one_too_many(|| drop(weak_sender.upgrade())),
            receivers.line_of_one_too_many(|| drop(weak_receiver.upgrade())),
        ];
        assert_eq!(lines, ::core::array::from_fn(|at| first + at as u32));
    }
}
