//! [`Sender`]: the side of a channel that sends.

use super::error::{TryReserveError, TrySendError};
use super::handle::{ChannelHandle, HeapCore, ReleaseOnDrop, WeakHandle};
use super::permit::{OwnedPermit, Permit, Permits, ReserveMany, ReserveOne, ReserveOwned};
use super::receive::ChannelSide;
use super::send::{Reserve as _, ReserveOp, SendOp};
use super::store::Heap;
use crate::event::WaitEvent;
use crate::wait::{Single, Wait};
use core::fmt;

/// The future of [`Sender::send`].
pub type SendMessage<'a, T> = Wait<Single<SendOp<&'a HeapCore<T>>>>;
/// The future of [`Sender::reserve`].
pub type Reservation<'a, T> = Wait<Single<ReserveOp<ReserveOne<'a, T>>>>;
/// The future of [`Sender::reserve_many`].
pub type ReservationMany<'a, T> = Wait<Single<ReserveOp<ReserveMany<'a, T>>>>;
/// The future of [`Sender::reserve_owned`].
pub type ReservationOwned<T> = Wait<Single<ReserveOp<ReserveOwned<T>>>>;

/// The side of a channel that sends. Clones send to the same channel; when the last one is dropped, the channel is closed.
///
/// # Examples
///
/// ```
/// let (sender, receiver) = tasuki::channel::bounded(8);
/// let other = sender.clone();
/// sender.try_send(1).unwrap();
/// other.try_send(2).unwrap();
/// assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct Sender<T> {
    pub(super) handle: ChannelHandle<T>,
}

impl<T> ChannelSide for Sender<T> {
    type Message = T;
    type Store = Heap<T>;

    #[inline(always)]
    fn core(&self) -> &HeapCore<T> {
        &self.handle.shared().core
    }
}

impl<T> Sender<T> {
    /// Sends a message; waits while the channel is full.
    ///
    /// # Order
    ///
    /// Messages are received in the order in which they were sent; senders that wait send in the order in which they were first polled, and no newcomer
    /// overtakes them.
    ///
    /// # Errors
    ///
    /// [`SendError`](super::SendError) with the message, if the channel is closed, or is closed during the wait.
    ///
    /// # Cancel safety
    ///
    /// A send that is dropped has either sent its message or drops it. To keep the message, call [`cancel`](SendMessage::cancel), which returns it unless it was sent, or set a limit, which
    /// returns it in its error ([`GivenBack`](crate::GivenBack)). A message that was sent before the drop stays sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// sender.send("first").await.unwrap();
    /// let ended = sender.send("second").timeout(Duration::from_millis(1)).await.unwrap_err();
    /// assert_eq!(ended.value, "second");
    /// # drop(receiver);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn send(&self, message: T) -> SendMessage<'_, T> {
        SendOp::wait(self.core(), message)
    }

    /// Sends a message if there is room and no sender waits for it.
    ///
    /// # Errors
    ///
    /// [`TrySendError`] with the message.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// assert!(sender.try_send(1).is_ok());
    /// assert!(sender.try_send(2).unwrap_err().is_full());
    /// # drop(receiver);
    /// ```
    #[inline(always)]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.core().try_send(message)
    }

    /// Reserves room for one message; waits in the same queue as sends.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Closed), if the channel is closed, or is closed during the wait.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never room.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// let permit = sender.reserve().await.unwrap();
    /// permit.send(1).unwrap();
    /// # drop(receiver);
    /// # }
    /// ```
    #[track_caller]
    pub fn reserve(&self) -> Reservation<'_, T> {
        ReserveOp::wait(ReserveOne(self.core()))
    }

    /// Reserves room for `messages` messages in one step; waits until there is enough. Room for zero messages is granted at once, unless the channel is closed.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Closed), as in [`reserve`](Self::reserve).
    ///
    /// # Panics
    ///
    /// At the call, if `messages` is more than the capacity: the wait could never end.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never room.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(4);
    /// let permits = sender.reserve_many(3).await.unwrap();
    /// assert_eq!((permits.len(), sender.capacity()), (3, Some(4)));
    /// # drop(permits);
    /// # drop(receiver);
    /// # }
    /// ```
    #[track_caller]
    pub fn reserve_many(&self, messages: usize) -> ReservationMany<'_, T> {
        ReserveOp::wait(ReserveMany(self.core(), self.checked(messages)))
    }

    /// As [`reserve`](Self::reserve), with a permit that has the sender inside and can be stored anywhere.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Closed), as in [`reserve`](Self::reserve); the sender is dropped.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never room. The sender is dropped with it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// let permit = sender.clone().reserve_owned().await.unwrap();
    /// std::thread::spawn(move || permit.send(1).unwrap()).join().unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// # }
    /// ```
    #[track_caller]
    pub fn reserve_owned(self) -> ReservationOwned<T> {
        ReserveOp::wait(ReserveOwned(Some(self)))
    }

    /// Tries to reserve room for one message, without waiting: succeeds if there is room and no sender waits.
    ///
    /// # Errors
    ///
    /// [`TryReserveError`].
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// let permit = sender.try_reserve().unwrap();
    /// assert!(sender.try_send(2).unwrap_err().is_full());
    /// permit.send(1).unwrap();
    /// # drop(receiver);
    /// ```
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TryReserveError> {
        self.core().try_reserve(1)?;
        Ok(ReserveOne(self.core()).permit())
    }

    /// Reserves room for `messages` messages without waiting: succeeds if there is enough and no sender waits.
    ///
    /// # Errors
    ///
    /// [`TryReserveError`].
    ///
    /// # Panics
    ///
    /// As [`reserve_many`](Self::reserve_many).
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(4);
    /// assert_eq!(sender.try_reserve_many(4).unwrap().len(), 4);
    /// # drop(receiver);
    /// ```
    #[track_caller]
    pub fn try_reserve_many(&self, messages: usize) -> Result<Permits<'_, T>, TryReserveError> {
        let slots = self.checked(messages);
        self.core().try_reserve(slots)?;
        Ok(Permits::new(self.core(), slots))
    }

    /// As [`try_reserve`](Self::try_reserve), with a permit that has the sender inside.
    ///
    /// # Errors
    ///
    /// The sender, and why.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// let sender = sender.try_reserve_owned().unwrap().send(1).unwrap();
    /// let (sender, error) = sender.try_reserve_owned().unwrap_err();
    /// assert_eq!(error, tasuki::channel::TryReserveError::Full);
    /// # drop((sender, receiver));
    /// ```
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, (Self, TryReserveError)> {
        match self.core().try_reserve(1) {
            Ok(()) => Ok(ReserveOwned(Some(self)).permit()),
            Err(error) => Err((self, error)),
        }
    }

    #[track_caller]
    fn checked(&self, messages: usize) -> u32 {
        let capacity = self.core().capacity();
        assert!(
            messages <= capacity,
            "the channel has room for {capacity} messages: more can never be reserved"
        );
        messages as u32
    }

    /// Waits until the channel is closed: by [`close`](Self::close), or because every receiver was dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing: a channel that was closed stays closed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
    /// drop(receiver);
    /// sender.closed().await;
    /// # }
    /// ```
    #[track_caller]
    pub fn closed(&self) -> WaitEvent<'_> {
        self.core().closed.wait()
    }

    /// Returns a handle that does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
    /// let weak = sender.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(sender);
    /// assert!(weak.upgrade().is_none() && receiver.is_closed());
    /// ```
    #[track_caller]
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { handle: WeakHandle::new(&self.handle) }
    }

    /// Closes the channel: sends end with an error, those that wait too; what was sent can still be received. False if it was closed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// sender.try_send(1).unwrap();
    /// assert!(sender.close() && !receiver.close());
    /// assert_eq!((receiver.recv().await, receiver.recv().await), (Ok(1), Err(tasuki::Closed)));
    /// # }
    /// ```
    pub fn close(&self) -> bool {
        self.core().close()
    }

    /// Returns true if the channel is closed. What was sent before may still be there.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
    /// drop(sender);
    /// assert!(receiver.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.core().is_closed()
    }

    /// Returns the number of messages in the channel, including those that are granted and not yet claimed.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded(2);
    /// sender.try_send(1).unwrap();
    /// assert_eq!((sender.len(), receiver.len()), (1, 1));
    /// ```
    pub fn len(&self) -> usize {
        self.core().len()
    }

    /// Returns true if the channel has no message.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(2);
    /// assert!(sender.is_empty() && receiver.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many messages the channel can hold, also when some are in it; `None` if it is unbounded.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(2);
    /// assert_eq!((sender.capacity(), receiver.capacity()), (Some(2), Some(2)));
    /// ```
    #[doc(alias = "max_capacity")]
    pub fn capacity(&self) -> Option<usize> {
        self.core().bound()
    }

    /// Returns true if both are handles to the same channel.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(2);
    /// assert!(sender.same_channel(&sender.clone()) && receiver.same_channel(&receiver.clone()));
    /// ```
    pub fn same_channel(&self, other: &Self) -> bool {
        self.handle.0 == other.handle.0
    }
}

impl<T> Clone for Sender<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.handle.shared().senders.add();
        Self { handle: self.handle.copy() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.handle.shared().senders.remove() {
            // Also if a waker or the drop of a message panics.
            let _release = ReleaseOnDrop(&self.handle);
            self.core().close();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("channel", self.core()).finish()
    }
}

/// A handle to a channel that does not keep it open: made by [`Sender::downgrade`].
///
/// # Examples
///
/// ```
/// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
/// let weak = sender.downgrade();
/// assert!(weak.upgrade().is_some_and(|handle| handle.same_channel(&sender)));
/// # drop((sender, receiver));
/// ```
pub struct WeakSender<T> {
    handle: WeakHandle<T>,
}

impl<T> WeakSender<T> {
    /// Returns a handle that keeps the channel open; `None` if all such handles were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
    /// let weak = sender.downgrade();
    /// drop(sender);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[track_caller]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let handle = self.handle.get();
        handle.shared().senders.add_unless_zero().then(|| Sender { handle: handle.copy() })
    }
}

impl<T> Clone for WeakSender<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").finish_non_exhaustive()
    }
}
