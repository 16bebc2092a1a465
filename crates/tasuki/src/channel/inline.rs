//! [`Channel`]: a channel without an allocation.

use super::core::ChannelCore;
use super::error::{TryRecvError, TrySendError};
use super::receive::RecvOp;
use super::send::SendOp;
use super::store::{Inline, MAX_SLOTS};
use crate::event::WaitEvent;
use crate::shim::const_fn;
use crate::wait::{Single, Wait};
use core::fmt;

/// The future of [`Channel::send`].
pub type InlineSend<'a, T, const N: usize> = Wait<Single<SendOp<&'a ChannelCore<T, Inline<T, N>>>>>;
/// The future of [`Channel::recv`].
pub type InlineRecv<'a, T, const N: usize> = Wait<Single<RecvOp<&'a ChannelCore<T, Inline<T, N>>>>>;

/// A channel with room for `N` messages inside itself: no allocation, no handles, `const`. For a `static`, for bare metal.
///
/// Order, cancel safety, closing and panics are those of [`bounded`](super::bounded), with two differences. It is closed by [`close`](Self::close) only. And
/// if the waker of a waiting sender panics in a receive, the message of that receive is put back beyond the capacity; there is room for one such message, and a
/// second one before the first has been received is dropped with its panic, which ends its receive.
///
/// # Examples
///
/// ```
/// use tasuki::channel::Channel;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// static KEYS: Channel<u8, 16> = Channel::new();
///
/// fn on_key(key: u8) {
///     let _ = KEYS.try_send(key); // a full buffer drops the key
/// }
///
/// on_key(b'a');
/// assert_eq!(KEYS.recv().await, Ok(b'a'));
/// # }
/// ```
///
/// # Interrupts
///
/// An interrupt handler may call [`try_send`](Self::try_send) and [`try_recv`](Self::try_recv), but only with the feature `critical-section`: without it the
/// handler may find the queue locked by the code that it interrupted, and wait for ever.
pub struct Channel<T, const N: usize> {
    core: ChannelCore<T, Inline<T, N>>,
}

impl<T, const N: usize> Channel<T, N> {
    const_fn! {
        /// Creates an empty channel. `N` is at least 1 and at most 2^32 - 3; anything else does not compile.
        ///
        /// ```compile_fail
        /// let channel = tasuki::channel::Channel::<u8, 0>::new();
        /// ```
        ///
        /// # Examples
        ///
        /// ```
        /// static CHANNEL: tasuki::channel::Channel<u8, 1> = tasuki::channel::Channel::new();
        /// assert!(CHANNEL.is_empty());
        /// ```
        pub const fn new() -> Self {
            const { assert!(N > 0 && (N as u64) < MAX_SLOTS as u64, "a channel has room for 1 to 2^32 - 3 messages") };
            let slots = N as u32;
            // With the spare one.
            Self { core: ChannelCore::new(Inline::new(), slots + 1, slots, slots + 1) }
        }
    }

    /// Sends a message; waits while the channel is full.
    ///
    /// # Errors
    ///
    /// [`SendError`](super::SendError) with the message, if the channel is closed, or is closed during the wait.
    ///
    /// # Cancel safety
    ///
    /// As [`Sender::send`](super::Sender::send).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let channel = tasuki::channel::Channel::<u8, 1>::new();
    /// channel.send(1).await.unwrap();
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn send(&self, message: T) -> InlineSend<'_, T, N> {
        SendOp::wait(&self.core, message)
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
    /// let channel = tasuki::channel::Channel::<u8, 1>::new();
    /// assert!(channel.try_send(1).is_ok() && channel.try_send(2).is_err());
    /// ```
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.core.try_send(message)
    }

    /// Receives the next message; waits while there is none.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Closed), if the channel is closed and every message has been received.
    ///
    /// # Cancel safety
    ///
    /// As [`Receiver::recv`](super::Receiver::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let channel = tasuki::channel::Channel::<u8, 1>::new();
    /// channel.try_send(1).unwrap();
    /// assert_eq!(channel.recv().await, Ok(1));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn recv(&self) -> InlineRecv<'_, T, N> {
        RecvOp::wait(&self.core)
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
    /// let channel = tasuki::channel::Channel::<u8, 1>::new();
    /// assert!(channel.try_recv().is_err());
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.core.try_recv()
    }

    /// Closes the channel: sends end with an error, those that wait too; what was sent can still be received. False if it was closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let channel = tasuki::channel::Channel::<u8, 1>::new();
    /// assert!(channel.close() && channel.is_closed());
    /// ```
    pub fn close(&self) -> bool {
        self.core.close()
    }

    /// Returns true if the channel is closed. What was sent before may still be there.
    ///
    /// # Examples
    ///
    /// ```
    /// let channel = tasuki::channel::Channel::<u8, 1>::new();
    /// assert!(!channel.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    /// Waits until the channel is closed.
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
    /// let channel = tasuki::channel::Channel::<u8, 1>::new();
    /// channel.close();
    /// channel.closed().await;
    /// # }
    /// ```
    #[track_caller]
    pub fn closed(&self) -> WaitEvent<'_> {
        self.core.closed.wait()
    }

    /// Returns the number of messages in the channel, including those that are granted and not yet claimed.
    ///
    /// # Examples
    ///
    /// ```
    /// let channel = tasuki::channel::Channel::<u8, 2>::new();
    /// channel.try_send(1).unwrap();
    /// assert_eq!(channel.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Returns true if the channel has no message.
    ///
    /// # Examples
    ///
    /// ```
    /// let channel = tasuki::channel::Channel::<u8, 2>::new();
    /// assert!(channel.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many messages the channel can hold, also when some are in it: `N`.
    ///
    /// # Examples
    ///
    /// ```
    /// let channel = tasuki::channel::Channel::<u8, 2>::new();
    /// assert_eq!(channel.capacity(), 2);
    /// ```
    #[doc(alias = "max_capacity")]
    pub fn capacity(&self) -> usize {
        N
    }
}

impl<T, const N: usize> Default for Channel<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> fmt::Debug for Channel<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}
