//! One message, from one sender to one receiver: a reply.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (reply, answer) = tasuki::channel::oneshot();
//! tokio::spawn(async move { reply.send(42) });
//! assert_eq!(answer.await, Ok(42));
//! # }
//! ```
//!
//! [`oneshot`](super::oneshot()) allocates once; [`Slot`] is the same without an allocation, to be used again and again. The sender is consumed by sending. If it is dropped without sending, the receiver gets
//! an error; if the receiver is dropped, the sender can be told ([`closed`](Sender::closed)).

mod core;
mod receiver;
mod sender;

#[cfg(feature = "alloc")]
pub use self::core::Boxed;
pub use self::core::{Core, Storage};
pub use receiver::{OneshotRecv, OneshotRecvOp, Receiver, ReceiverRef};
pub use sender::Sender;

use crate::shim::const_fn;

/// The side of a [`oneshot`](super::oneshot()) that sends, to be named in a struct: a reply to a request.
///
/// # Examples
///
/// ```
/// use tasuki::channel::{OneshotSender, bounded, oneshot};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// struct Request {
///     number: u32,
///     reply: OneshotSender<u32>,
/// }
///
/// let (requests, inbox) = bounded(1);
/// let (reply, answer) = oneshot();
/// requests.try_send(Request { number: 2, reply }).ok().unwrap();
/// let Request { number, reply } = inbox.try_recv().unwrap();
/// reply.send(number * 2).unwrap();
/// assert_eq!(answer.recv().await, Ok(4));
/// # }
/// ```
#[cfg(feature = "alloc")]
pub type OneshotSender<T> = Sender<Boxed<T>>;
/// The side of a [`oneshot`](super::oneshot()) that receives.
#[cfg(feature = "alloc")]
pub type OneshotReceiver<T> = Receiver<Boxed<T>>;

/// Creates a channel for one message, in one allocation. [`Slot`] needs none.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::oneshot();
/// std::thread::spawn(move || sender.send("done").unwrap());
/// assert_eq!(receiver.recv().await, Ok("done"));
/// # }
/// ```
#[cfg(feature = "alloc")]
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let (sender, receiver) = Boxed::pair();
    (Sender::new(sender), Receiver::new(receiver))
}

/// Room for one message at a time, without an allocation: used again when both sides have gone.
///
/// # Examples
///
/// ```
/// let mut slot = tasuki::channel::oneshot::Slot::new();
/// for n in 0..3 {
///     let (sender, mut receiver) = slot.split();
///     sender.send(n).unwrap();
///     assert_eq!(receiver.try_recv(), Ok(n));
/// }
/// ```
#[derive(Debug)]
pub struct Slot<T> {
    core: Core<T>,
}

impl<T> Slot<T> {
    const_fn! {
        /// Creates an empty slot.
        ///
        /// # Examples
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() {
        /// let mut slot = tasuki::channel::oneshot::Slot::<u8>::new();
        /// let (sender, receiver) = slot.split();
        /// drop(sender);
        /// assert_eq!(receiver.recv().await, Err(tasuki::Closed));
        /// # }
        /// ```
        pub const fn new() -> Self {
            Self { core: Core::new() }
        }
    }

    /// Returns the two sides of a new oneshot in this slot. A message that was left in it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut slot = tasuki::channel::oneshot::Slot::new();
    /// let (sender, receiver) = slot.split();
    /// sender.send(1).unwrap();
    /// assert_eq!(receiver.recv().await, Ok(1));
    /// # }
    /// ```
    pub fn split(&mut self) -> (Sender<&Core<T>>, Receiver<&Core<T>>) {
        self.core = Core::new();
        (Sender::new(&self.core), Receiver::new(&self.core))
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self::new()
    }
}
