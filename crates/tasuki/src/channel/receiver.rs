//! [`Receiver`]: the side of a channel that receives.

use super::error::TryRecvError;
use super::handle::{ChannelHandle, HeapCore, ReleaseOnDrop, WeakHandle};
use super::receive::{ChannelSide, RecvOp};
use super::receive_many::RecvManyOp;
use super::store::Heap;
use crate::wait::{Single, Wait};
use alloc::vec::Vec;
use core::fmt;

/// The future of [`Receiver::recv`].
pub type Recv<'a, T> = Wait<Single<RecvOp<&'a HeapCore<T>>>>;
/// The future of [`Receiver::recv_owned`].
pub type RecvOwned<T> = Wait<Single<RecvOp<Receiver<T>>>>;
/// The future of [`Receiver::recv_many`].
pub type RecvMany<'a, T> = Wait<Single<RecvManyOp<'a, &'a HeapCore<T>>>>;

/// The side of a channel that receives. Clones receive from the same channel, each message once; when the last one is dropped, the channel is
/// closed and its messages are dropped.
///
/// # Examples
///
/// ```
/// let (sender, receiver) = tasuki::channel::bounded(8);
/// let other = receiver.clone();
/// sender.try_send(1).unwrap();
/// sender.try_send(2).unwrap();
/// assert_eq!((receiver.try_recv(), other.try_recv()), (Ok(1), Ok(2)));
/// ```
pub struct Receiver<T> {
    pub(super) handle: ChannelHandle<T>,
}

impl<T> ChannelSide for Receiver<T> {
    type Message = T;
    type Store = Heap<T>;

    #[inline(always)]
    fn core(&self) -> &HeapCore<T> {
        &self.handle.shared().core
    }
}

impl<T> Receiver<T> {
    /// Receives the next message; waits while there is none.
    ///
    /// # Order
    ///
    /// Receivers that wait are granted messages in the order in which they were first polled, and no newcomer overtakes them.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Closed), if the channel is closed and every message has been received. While a message is granted to another receiver, or a permit may
    /// still bring one, it waits.
    ///
    /// # Cancel safety
    ///
    /// A receive that is dropped loses its place in the queue, never a message: what it was granted goes to the next receiver, or is the next message again. Another
    /// receiver may have claimed a later message meanwhile. A limit returns a message that was granted before it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// sender.try_send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.recv().await, Ok(1));
    /// assert_eq!(receiver.recv().await, Err(tasuki::Closed));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn recv(&self) -> Recv<'_, T> {
        RecvOp::wait(self.core())
    }

    /// As [`recv`](Self::recv), in a future that has the receiver inside.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    ///
    /// As [`recv`](Self::recv): a receive that is dropped loses its place in the queue, never a message. The receiver is dropped with it: the last one closes the channel and drops its messages.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// let received = tokio::spawn(receiver.clone().recv_owned());
    /// sender.try_send(1).unwrap();
    /// assert_eq!(received.await.unwrap(), Ok(1));
    /// # }
    /// ```
    #[track_caller]
    pub fn recv_owned(self) -> RecvOwned<T> {
        RecvOp::wait(self)
    }

    /// Receives the next message, if there is one and no receiver waits for it.
    ///
    /// # Errors
    ///
    /// [`TryRecvError`].
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded(1);
    /// sender.try_send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// assert!(receiver.try_recv().is_err());
    /// ```
    #[inline(always)]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.core().try_recv()
    }

    /// Waits for a message, and appends it and the other messages that are there to the buffer, at most `limit`. Returns how many; 0 at once if `limit` is zero.
    ///
    /// Messages that are sent while it takes those that are there are left for the next call, so one poll ends however fast the senders are; the lock is held for 32 messages at a time.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Closed), as in [`recv`](Self::recv).
    ///
    /// # Cancel safety
    ///
    /// As [`recv`](Self::recv): a message is in the buffer or in the channel.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded(4);
    /// (0..4).for_each(|n| sender.try_send(n).unwrap());
    /// let mut buffer = Vec::new();
    /// assert_eq!(receiver.recv_many(&mut buffer, 3).await, Ok(3));
    /// assert_eq!(buffer, [0, 1, 2]);
    /// # }
    /// ```
    #[track_caller]
    pub fn recv_many<'a>(&'a self, buffer: &'a mut Vec<T>, limit: usize) -> RecvMany<'a, T> {
        RecvManyOp::wait(self.core(), buffer, limit)
    }

    /// Returns a handle that does not keep the channel open.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
    /// let weak = receiver.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(receiver);
    /// assert!(weak.upgrade().is_none() && sender.is_closed());
    /// ```
    #[track_caller]
    pub fn downgrade(&self) -> WeakReceiver<T> {
        WeakReceiver { handle: WeakHandle::new(&self.handle) }
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

impl<T> Clone for Receiver<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.handle.shared().receivers.add();
        Self { handle: self.handle.copy() }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.handle.shared().receivers.remove() {
            // Also if a waker or the drop of a message panics.
            let _release = ReleaseOnDrop(&self.handle);
            self.core().close_without_receivers();
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("channel", self.core()).finish()
    }
}

/// A handle to a channel that does not keep it open: made by [`Receiver::downgrade`].
///
/// # Examples
///
/// ```
/// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
/// let weak = receiver.downgrade();
/// assert!(weak.upgrade().is_some_and(|handle| handle.same_channel(&receiver)));
/// # drop((sender, receiver));
/// ```
pub struct WeakReceiver<T> {
    handle: WeakHandle<T>,
}

impl<T> WeakReceiver<T> {
    /// Returns a handle that keeps the channel open; `None` if all such handles were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
    /// let weak = receiver.downgrade();
    /// drop(receiver);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[track_caller]
    pub fn upgrade(&self) -> Option<Receiver<T>> {
        let handle = self.handle.get();
        handle.shared().receivers.add_unless_zero().then(|| Receiver { handle: handle.copy() })
    }
}

impl<T> Clone for WeakReceiver<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<T> fmt::Debug for WeakReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakReceiver").finish_non_exhaustive()
    }
}
