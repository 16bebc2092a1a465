//! Channels: messages from many senders to many receivers, first in, first out on both sides.
//!
//! ```
//! use tasuki::channel;
//!
//! let (sender, receiver) = channel::bounded(2);
//! let producer = async move {
//!     for n in 1..=4 {
//!         sender.send(n).await.unwrap(); // waits while the channel is full; an error: no receiver is left
//!     }
//! }; // the last sender is dropped: the channel is closed
//! let consumer = async move {
//!     let mut sum = 0;
//!     while let Ok(n) = receiver.recv().await { // an error: closed, and every message was received
//!         sum += n;
//!     }
//!     sum
//! };
//! # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
//! # let (mut producer, mut consumer, mut cx) = (Box::pin(producer), pin!(consumer), Context::from_waker(Waker::noop()));
//! # assert!(producer.as_mut().poll(&mut cx).is_pending() && consumer.as_mut().poll(&mut cx).is_pending());
//! # assert!(producer.as_mut().poll(&mut cx).is_ready());
//! # drop(producer);
//! # assert_eq!(consumer.as_mut().poll(&mut cx), Poll::Ready(10));
//! ```
//!
//! | I want | use |
//! |---|---|
//! | a queue of work or of events, and senders that are slowed down when it is full | [`bounded`] |
//! | never to wait when sending, and memory that grows instead | [`unbounded`] |
//! | a send that ends when its message was received | [`rendezvous`](rendezvous()) |
//! | one message: a reply | [`oneshot`](oneshot()) |
//! | no allocation: a `static`, bare metal | [`Channel`], [`oneshot::Slot`] |
//!
//! # Cancel
//!
//! Every wait may be dropped at any time. No message that was sent is lost by that, and no room, unless the future owns the last receiver ([`recv_owned`](Receiver::recv_owned), `recv` of a oneshot): that is dropped
//! with its messages.
//!
//! * A receive that is dropped before it is granted a message loses its place. One that was granted a message and not polled since passes it on to the next
//!   receiver, or it is the next message again: it precedes every message that has not been granted. A message counts against the capacity until it is claimed by
//!   a poll.
//! * A send that is dropped has either sent its message, or drops it with its future. To keep the message, call [`cancel`](crate::future::SendMessage::cancel) on the future, which returns it unless it was sent, or set a
//!   limit such as `.timeout(..)`, which returns it in its error.
//!
//! # Order
//!
//! Messages are received in the order of the sends that put them into the channel; a waiting sender puts its message there when room is granted to it. Waiting senders
//! and waiting receivers are served in the order of their first polls, and newcomers queue behind them. Several receivers are granted messages in order, but may claim them in
//! another: a message that was put back comes after a later one that another receiver has claimed meanwhile.
//!
//! # Closing
//!
//! A channel is closed by hand, by the drop of its last sender, or of its last receiver. Sends then give their message back, also those that wait. Receives get what is
//! there, and then [`Closed`](crate::Closed): when no message is left, none is granted and unclaimed, and no permit can bring one. When the last receiver goes the messages are
//! dropped, one by one, without a lock.
//!
//! # Panic
//!
//! A waker that panics does so in the call that woke it ([Wakers](crate#wakers)), when the channel is in order: a send has sent, a receive has given its message back, and what [`recv_many`](Receiver::recv_many) has taken from
//! the pending messages is in its buffer. A message whose destructor panics does not keep the others from being dropped.
//!
//! # Memory ordering
//!
//! What was done before a send happens before what is done after the message was received, and the receive that made room before the send that got it.
//!
//! # Re-entrancy
//!
//! Wakers and destructors of messages may call anything on the channel: none runs while its queue is locked.
//!
//! # Interrupts
//!
//! An interrupt or signal handler may use a [`Channel`], but only with the feature `critical-section`. It must not use the other channels.
//!
//! # Limits
//!
//! At most 2^32 - 2 messages, 2^31 in an unbounded channel; no limit on the number of waiters. A message is moved under the queue lock, by the send and by a receive that need not wait: box
//! messages of more than some hundred bytes. A future that was granted a message and is then neither polled nor dropped keeps the message, and its room.
//!
//! # When to use something else
//!
//! * One permit at a time rather than a message: a [`Semaphore`](crate::Semaphore).
//! * A signal without a value: an [`Event`](crate::Event).

mod core;
mod error;
mod fast_path;
#[cfg(feature = "alloc")]
mod handle;
pub(crate) mod inline;
#[cfg(feature = "std")]
mod iter;
mod locked;
pub mod oneshot;
mod parcel;
#[cfg(feature = "alloc")]
pub(crate) mod permit;
pub(crate) mod receive;
#[cfg(feature = "alloc")]
pub(crate) mod receive_many;
#[cfg(feature = "alloc")]
pub(crate) mod receiver;
#[cfg(feature = "alloc")]
pub mod rendezvous;
#[cfg(all(feature = "alloc", any(feature = "futures-core", feature = "futures-sink")))]
mod restart;
pub(crate) mod send;
#[cfg(feature = "alloc")]
pub(crate) mod sender;
mod senders;
#[cfg(feature = "futures-sink")]
mod sink;
mod store;
#[cfg(all(feature = "alloc", feature = "futures-core"))]
mod stream;
mod ticket_heap;

pub use error::{SendError, TryRecvError, TryReserveError, TrySendError};
#[cfg(feature = "alloc")]
pub use handle::{bounded, unbounded};
pub use inline::Channel;
#[cfg(feature = "std")]
pub use iter::{IntoIter, Iter, TryIter};
#[cfg(feature = "alloc")]
pub use oneshot::{OneshotReceiver, OneshotSender, oneshot};
#[cfg(feature = "alloc")]
pub use permit::{OwnedPermit, Permit, Permits};
#[cfg(feature = "alloc")]
pub use receiver::{Receiver, WeakReceiver};
#[cfg(feature = "alloc")]
pub use rendezvous::rendezvous;
#[cfg(feature = "alloc")]
pub use sender::{Sender, WeakSender};
#[cfg(feature = "futures-sink")]
pub use sink::MessageSink;
#[cfg(all(feature = "alloc", feature = "futures-core"))]
pub use stream::MessageStream;
