//! The [`Sender`] of a oneshot: consumed by sending; it can wait until the receiver is dropped.

use super::core::{Core, Finished, Storage};
use crate::event::WaitEvent;
use core::fmt;
use core::mem::ManuallyDrop;

/// The side of a oneshot that sends, once. If it is dropped without sending, the receiver gets [`Closed`](crate::Closed).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::oneshot::<u8>();
/// drop(sender);
/// assert_eq!(receiver.recv().await, Err(tasuki::Closed));
/// # }
/// ```
pub struct Sender<P: Storage> {
    place: P,
}

impl<P: Storage> Sender<P> {
    pub(super) fn new(place: P) -> Self {
        Self { place }
    }

    /// Sends the message, without waiting. `Ok` means that it can be received; the receiver may still be dropped without receiving it.
    ///
    /// # Errors
    ///
    /// The message, if the receiver was dropped or has closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::oneshot();
    /// drop(receiver);
    /// assert_eq!(sender.send(1), Err(1));
    /// ```
    #[inline(always)]
    pub fn send(self, message: P::Message) -> Result<(), P::Message> {
        // It ends here, also if a waker panics, and not once more by its drop.
        let this = ManuallyDrop::new(self);
        this.place.core().put(message);
        end(&this.place).map_or(Ok(()), Err)
    }

    /// Waits until the receiver is dropped or has closed: the message is not wanted any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing, and the sender may still send.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (sender, receiver) = tasuki::channel::oneshot::<u8>();
    /// drop(receiver);
    /// sender.closed().await;
    /// # }
    /// ```
    #[track_caller]
    pub fn closed(&self) -> WaitEvent<'_> {
        self.place.core().closed.wait()
    }

    /// Returns true if the receiver was dropped or has closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, mut receiver) = tasuki::channel::oneshot::<u8>();
    /// receiver.close();
    /// assert!(sender.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.place.core().closed.is_set()
    }
}

/// The sender ends: the message, if it was not received.
#[inline(always)]
fn end<P: Storage>(place: &P) -> Option<P::Message> {
    match Core::<P::Message>::finish(&place.core().queue) {
        Finished::Received => None,
        unreceived => take_back(place, unreceived),
    }
}

/// The receiver has closed, or was dropped.
#[cold]
fn take_back<P: Storage>(place: &P, unreceived: Finished) -> Option<P::Message> {
    let message = place.core().take();
    if matches!(unreceived, Finished::Alone) || Core::<P::Message>::finish_refused(&place.core().queue) {
        // SAFETY: the receiver has gone, and the sender has ended.
        unsafe { place.free() };
    }
    message
}

impl<P: Storage> Drop for Sender<P> {
    #[inline(always)]
    fn drop(&mut self) {
        end(&self.place);
    }
}

impl<P: Storage> fmt::Debug for Sender<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish()
    }
}
