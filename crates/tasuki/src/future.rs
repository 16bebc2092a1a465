//! The futures of the crate, by name; those of a oneshot and of a rendezvous are in the [modules](crate::channel) of these channels.
//!
//! Most programs need none of these names: await the future, call [`Wait::block`], or give it a limit ([`Wait::timeout`], [`Wait::deadline`], [`Wait::or_cancelled`]). The names are for a
//! type that stores a future:
//!
//! ```
//! use std::pin::Pin;
//! use tasuki::{Event, future::WaitEvent};
//!
//! struct Connection<'a> {
//!     shutdown: Pin<Box<WaitEvent<'a>>>,
//! }
//!
//! let stop = Event::manual();
//! let connection = Connection { shutdown: Box::pin(stop.wait()) };
//! stop.set();
//! # let mut connection = connection;
//! # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
//! # assert!(std::future::Future::poll(connection.shutdown.as_mut(), &mut cx).is_ready());
//! ```
//!
//! [`Mutex::lock`](crate::Mutex::lock) returns [`Lock`], which is a [`Wait`] for the operation [`LockOp`]; the other operations likewise.
//!
//! | name | what it is |
//! |---|---|
//! | [`Wait`] | the one future, over an [`Awaitable`] |
//! | [`Single`] | the wait of one operation ([`Op`]), in one queue |
//! | `Limited`, `Timeout`, `OrCancelled` | a wait with a limit |
//! | all others | the operations of each primitive, and the futures that wait for them |

pub use crate::barrier::{Arrive, ArriveOp};
#[cfg(feature = "alloc")]
pub use crate::cancellation::{OnCancel, OnCancelOp, OnCancelOwned, RunUntilCancelled, UntilCancelled};
pub use crate::channel::inline::{InlineRecv, InlineSend};
#[cfg(feature = "alloc")]
pub use crate::channel::permit::{ReserveMany, ReserveOne, ReserveOwned};
pub use crate::channel::receive::{ChannelSide, RecvOp};
#[cfg(feature = "alloc")]
pub use crate::channel::receive_many::RecvManyOp;
#[cfg(feature = "alloc")]
pub use crate::channel::receiver::{Recv, RecvMany, RecvOwned};
pub use crate::channel::send::{Reserve, ReserveOp, SendOp};
#[cfg(feature = "alloc")]
pub use crate::channel::sender::{Reservation, ReservationMany, ReservationOwned, SendMessage};
pub use crate::condvar::{Conditional, CondvarOp, WaitNotified, WaitWhile};
pub use crate::event::{WaitEvent, WaitEventOp};
pub use crate::guard::HandOff;
pub use crate::latch::{WaitLatch, WaitLatchOp};
#[cfg(feature = "std")]
pub use crate::limited::Timeout;
#[cfg(feature = "alloc")]
pub use crate::limited::{LimitOp, Limited, OrCancelled};
pub use crate::mutex::{Lock, LockOp};
#[cfg(feature = "alloc")]
pub use crate::mutex::{LockOwned, LockOwnedOp};
pub use crate::once_cell::{GetOrInit, GetOrTryInit, InfallibleInit, Init, ValueOp, WaitValue};
#[cfg(feature = "std")]
pub use crate::reentrant::{LockReentrant, LockReentrantOp, LockReentrantOwned};
pub use crate::rwlock::{AccessOp, Read, UpgradableRead, Upgrade, UpgradeOp, Write};
#[cfg(feature = "alloc")]
pub use crate::rwlock::{ReadOwned, UpgradableReadOwned, WriteOwned};
pub use crate::semaphore::{Acquire, AcquireOp};
#[cfg(feature = "alloc")]
pub use crate::semaphore::{AcquireOwned, AcquireOwnedOp};
#[cfg(feature = "std")]
pub use crate::timer::{Sleep, SleepOp};
pub use crate::wait::{Awaitable, Op, Single, Wait};
pub use crate::wait_group::{WaitMembers, WaitMembersOp};
