//! Iterators over the messages of a channel: `iter` blocks its thread, `try_iter` ends where no message is pending.

use super::Receiver;
use core::fmt;
use core::iter::FusedIterator;

/// Receives until the channel is closed and empty; blocks the thread while there is no message. Made by [`Receiver::iter`].
pub struct Iter<'a, T>(&'a Receiver<T>);

/// Receives without waiting, until no message is pending. Made by [`Receiver::try_iter`].
pub struct TryIter<'a, T>(&'a Receiver<T>);

/// As [`Iter`], with the receiver inside. Made by `into_iter`.
pub struct IntoIter<T>(Receiver<T>);

/// `Debug` as for the receiver: messages need not implement it.
macro_rules! debug {
    ($($iterator:ty: $name:literal),*) => {$(
        impl<T> fmt::Debug for $iterator {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple($name).field(&self.0).finish()
            }
        }
    )*};
}

debug!(Iter<'_, T>: "Iter", TryIter<'_, T>: "TryIter", IntoIter<T>: "IntoIter");

impl<T> Receiver<T> {
    /// Returns an iterator over the messages, until the channel is closed and empty. For a thread: it waits for each message with [`block`](crate::future::Wait::block).
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded(2);
    /// let thread = std::thread::spawn(move || receiver.iter().collect::<Vec<_>>());
    /// (0..5).for_each(|n| sender.send(n).block().unwrap());
    /// drop(sender);
    /// assert_eq!(thread.join().unwrap(), [0, 1, 2, 3, 4]);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// Returns an iterator that receives without waiting, and ends where no message is pending. Messages that are sent while it runs are received, too: a loop that sends one for each that it receives does not
    /// end. [`recv_many`](Self::recv_many) takes no more than are there at its first look.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = tasuki::channel::bounded(2);
    /// sender.try_send(1).unwrap();
    /// assert_eq!(receiver.try_iter().count(), 1);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter(self)
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.0.recv().block().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.0.recv().block().ok()
    }
}

impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}
