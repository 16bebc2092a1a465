//! The error types of channels; those of sends give the message back.

use crate::error::Closed;
use core::error::Error;
use core::fmt;

/// The channel is closed; here is the message.
///
/// # Examples
///
/// ```
/// use tasuki::channel::{SendError, bounded};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// let (sender, receiver) = bounded(1);
/// drop(receiver);
/// assert_eq!(sender.send(7).await, Err(SendError(7)));
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendError<T>(pub T);

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the channel is closed: stop sending to it")
    }
}

impl<T> Error for SendError<T> {}

/// Why a message could not be sent without waiting; here it is.
///
/// # Examples
///
/// ```
/// use tasuki::channel::{TrySendError, bounded};
///
/// let (sender, receiver) = bounded(1);
/// sender.try_send(1).unwrap();
/// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
/// receiver.close();
/// assert_eq!(sender.try_send(3).unwrap_err().into_inner(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrySendError<T> {
    /// There is no room now, or a sender waits for it already.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// Returns the message.
    pub fn into_inner(self) -> T {
        let (Self::Full(message) | Self::Closed(message)) = self;
        message
    }

    /// Returns true for [`Full`](Self::Full).
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Returns true for [`Closed`](Self::Closed).
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() { "Full(..)" } else { "Closed(..)" })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the channel is full now: try again later, or wait with `send`",
            Self::Closed(_) => "the channel is closed: stop sending to it",
        })
    }
}

impl<T> Error for TrySendError<T> {}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(error: SendError<T>) -> Self {
        Self::Closed(error.0)
    }
}

/// Why no message could be received without waiting.
///
/// # Examples
///
/// ```
/// use tasuki::channel::{TryRecvError, bounded};
///
/// let (sender, receiver) = bounded::<u32>(1);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// drop(sender);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TryRecvError {
    /// There is no message now, or a receiver waits for it already.
    Empty,
    /// The channel is closed, and every message has been received.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the channel is empty now: try again later, or wait with `recv`",
            Self::Closed => "the channel is closed and empty: stop receiving from it",
        })
    }
}

impl Error for TryRecvError {}

impl From<Closed> for TryRecvError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// Why no room could be reserved without waiting.
///
/// # Examples
///
/// ```
/// use tasuki::channel::{TryReserveError, bounded};
///
/// let (sender, receiver) = bounded::<u8>(1);
/// let permit = sender.try_reserve().unwrap();
/// assert_eq!(sender.try_reserve().unwrap_err(), TryReserveError::Full);
/// drop(permit);
/// receiver.close();
/// assert_eq!(sender.try_reserve().unwrap_err(), TryReserveError::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TryReserveError {
    /// There is not enough room now, or a sender waits for it already.
    Full,
    /// The channel is closed.
    Closed,
}

impl fmt::Display for TryReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => {
                "there is not enough room in the channel now: try again later, or wait with `reserve`"
            }
            Self::Closed => "the channel is closed: stop sending to it",
        })
    }
}

impl Error for TryReserveError {}

impl From<Closed> for TryReserveError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}
