//! Channels, and oneshots.

use super::Kind;
use std::future::Future;

/// A channel of numbers, for coroutines of any executor.
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
    /// What the future of a send says.
    type Sent: Send;
    /// What the future of a receive says.
    type Received: Send;
    /// The subject's own future.
    fn send(sender: &mut Self::Sender, message: u64) -> impl Future<Output = Self::Sent> + Send;
    /// Was it sent?
    fn is_sent(sent: &Self::Sent) -> bool;
    /// The subject's own future.
    fn recv(receiver: &mut Self::Receiver) -> impl Future<Output = Self::Received> + Send;
    /// The message; none when it is closed.
    fn message(received: Self::Received) -> Option<u64>;
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
