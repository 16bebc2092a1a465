//! The traits that every measured channel and oneshot implements.

use super::Kind;
use std::future::Future;

/// What a send says, in the words of each subject.
pub(crate) trait Sent: Send {
    /// Was it sent?
    fn is_sent(&self) -> bool;
}

impl Sent for bool {
    #[inline]
    fn is_sent(&self) -> bool {
        *self
    }
}

impl<E: Send> Sent for Result<(), E> {
    #[inline]
    fn is_sent(&self) -> bool {
        self.is_ok()
    }
}

/// What a receive says, in the words of each subject.
pub(crate) trait Received: Send {
    /// The message; none when it is closed.
    fn message(self) -> Option<u64>;
}

impl Received for Option<u64> {
    #[inline]
    fn message(self) -> Option<u64> {
        self
    }
}

impl<E: Send> Received for Result<u64, E> {
    #[inline]
    fn message(self) -> Option<u64> {
        self.ok()
    }
}

/// A channel of numbers, for tasks of any executor.
pub(crate) trait AsyncChannel: Send + Sync + 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Does each sender have room of its own, beside that of the channel? Then a new one need not wait.
    const ROOM_OF_EACH_SENDER: bool = false;
    /// The side that sends.
    type Sender: Clone + Send + 'static;
    /// The side that receives.
    type Receiver: Send + 'static;
    /// A channel with room for so many messages, or for any number.
    fn new(capacity: usize) -> (Self::Sender, Self::Receiver);
    /// Another receiver of the same channel, if it can have more than one.
    fn second(receiver: &Self::Receiver) -> Option<Self::Receiver>;
    /// The subject's own future.
    fn send(sender: &mut Self::Sender, message: u64) -> impl Future<Output: Sent> + Send;
    /// The subject's own future.
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output: Received> + Send;
    /// Sends if there is room; true if it did.
    fn try_send(sender: &mut Self::Sender, message: u64) -> bool;
    /// Receives if there is a message.
    fn try_recv(receiver: &mut Self::Receiver) -> Option<u64>;
}

/// A channel for one number.
pub(crate) trait Oneshot: Send + Sync + 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// The side that sends.
    type Sender: Send + 'static;
    /// The subject's own future.
    type Receiver: Future + Send + 'static;
    /// Both sides.
    fn new() -> (Self::Sender, Self::Receiver);
    /// Sends.
    fn send(sender: Self::Sender, message: u64);
    /// What was received.
    fn message(output: <Self::Receiver as Future>::Output) -> u64;
}
