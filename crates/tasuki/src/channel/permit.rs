//! Permits of a channel: room that is reserved before there is a message to send.

use super::Sender;
use super::error::SendError;
use super::handle::HeapCore;
use super::receive::ChannelSide as _;
use super::send::Reserve;
use core::fmt;
use core::iter::FusedIterator;
use core::mem;

/// Room for one message in a channel, which can be sent without waiting. If the permit is dropped, the room goes to the next sender.
///
/// A permit that is forgotten keeps its room for ever. A closed channel is not drained before its permits are used or dropped.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::bounded(1);
/// let permit = sender.reserve().await.unwrap();
/// permit.send("made when there was room").unwrap();
/// assert_eq!(receiver.try_recv(), Ok("made when there was room"));
/// # }
/// ```
#[must_use = "a permit that is dropped reserves nothing"]
pub struct Permit<'a, T> {
    core: &'a HeapCore<T>,
}

impl<T> Permit<'_, T> {
    /// Sends without waiting, also if the channel has been closed since.
    ///
    /// # Errors
    ///
    /// [`SendError`] with the message, if every receiver was dropped.
    pub fn send(self, message: T) -> Result<(), SendError<T>> {
        let core = self.core;
        mem::forget(self);
        core.send_reserved(message)
    }
}

impl<T> Drop for Permit<'_, T> {
    fn drop(&mut self) {
        self.core.unreserve(1);
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// Room for several messages, as an iterator of [`Permit`]s. The room that is left when it is dropped goes to the next senders.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::bounded(3);
/// let permits = sender.reserve_many(2).await.unwrap();
/// for (permit, message) in permits.zip(["a", "b"]) {
///     permit.send(message).unwrap();
/// }
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["a", "b"]);
/// # }
/// ```
#[must_use = "permits that are dropped reserve nothing"]
pub struct Permits<'a, T> {
    core: &'a HeapCore<T>,
    left: u32,
}

impl<'a, T> Permits<'a, T> {
    pub(super) fn new(core: &'a HeapCore<T>, left: u32) -> Self {
        Self { core, left }
    }
}

impl<'a, T> Iterator for Permits<'a, T> {
    type Item = Permit<'a, T>;

    fn next(&mut self) -> Option<Permit<'a, T>> {
        self.left = self.left.checked_sub(1)?;
        Some(Permit { core: self.core })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl<T> ExactSizeIterator for Permits<'_, T> {}
impl<T> FusedIterator for Permits<'_, T> {}

impl<T> Drop for Permits<'_, T> {
    fn drop(&mut self) {
        if self.left > 0 {
            self.core.unreserve(self.left);
        }
    }
}

impl<T> fmt::Debug for Permits<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Room for one message, with the sender that reserved it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::bounded(1);
/// let permit = sender.reserve_owned().await.unwrap();
/// let sender = permit.send(1).unwrap();
/// assert_eq!((receiver.try_recv(), sender.is_empty()), (Ok(1), true));
/// # }
/// ```
#[must_use = "a permit that is dropped reserves nothing"]
pub struct OwnedPermit<T> {
    sender: Option<Sender<T>>,
}

impl<T> OwnedPermit<T> {
    /// Sends without waiting, also if the channel has been closed since; gives the sender back.
    ///
    /// # Errors
    ///
    /// [`SendError`] with the message, if every receiver was dropped.
    #[allow(clippy::missing_panics_doc, reason = "the sender is there until the permit is used")]
    pub fn send(mut self, message: T) -> Result<Sender<T>, SendError<T>> {
        let sender = self.sender.take().expect("a permit has its sender until it is used");
        sender.core().send_reserved(message)?;
        Ok(sender)
    }

    /// Gives up the room, and returns the sender.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::bounded::<u8>(1);
    /// let sender = sender.reserve_owned().await.unwrap().release();
    /// assert!(sender.try_send(1).is_ok());
    /// # drop(receiver);
    /// # }
    /// ```
    #[allow(clippy::missing_panics_doc, reason = "the sender is there until the permit is used")]
    pub fn release(mut self) -> Sender<T> {
        let sender = self.sender.take().expect("a permit has its sender until it is used");
        sender.core().unreserve(1);
        sender
    }
}

#[cfg(feature = "futures-sink")]
impl<T> OwnedPermit<T> {
    /// The sender, with the room that it reserved.
    pub(super) fn into_sender(mut self) -> Sender<T> {
        self.sender.take().expect("a permit has its sender until it is used")
    }
}

impl<T> Drop for OwnedPermit<T> {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            sender.core().unreserve(1);
        }
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPermit").finish_non_exhaustive()
    }
}

/// Reserves for a [`Permit`].
#[derive(Debug)]
pub struct ReserveOne<'a, T>(pub(super) &'a HeapCore<T>);

impl<'a, T> Reserve for ReserveOne<'a, T> {
    type Side = &'a HeapCore<T>;
    type Permit = Permit<'a, T>;

    fn side(&self) -> &Self::Side {
        &self.0
    }

    fn slots(&self) -> u32 {
        1
    }

    fn permit(&mut self) -> Permit<'a, T> {
        Permit { core: self.0 }
    }
}

/// Reserves for [`Permits`].
#[derive(Debug)]
pub struct ReserveMany<'a, T>(pub(super) &'a HeapCore<T>, pub(super) u32);

impl<'a, T> Reserve for ReserveMany<'a, T> {
    type Side = &'a HeapCore<T>;
    type Permit = Permits<'a, T>;

    fn side(&self) -> &Self::Side {
        &self.0
    }

    fn slots(&self) -> u32 {
        self.1
    }

    fn permit(&mut self) -> Permits<'a, T> {
        Permits::new(self.0, self.1)
    }
}

/// Reserves for an [`OwnedPermit`].
#[derive(Debug)]
pub struct ReserveOwned<T>(pub(super) Option<Sender<T>>);

impl<T> Reserve for ReserveOwned<T> {
    type Side = Sender<T>;
    type Permit = OwnedPermit<T>;

    fn side(&self) -> &Sender<T> {
        self.0.as_ref().expect("a reservation has its sender until it is granted")
    }

    fn slots(&self) -> u32 {
        1
    }

    fn permit(&mut self) -> OwnedPermit<T> {
        OwnedPermit { sender: self.0.take() }
    }
}
