//! `Async<T>`: readiness of anything that has a file descriptor.

use super::readiness::Direction;
use super::registered::{Registered, would_block};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll, ready};

/// A descriptor that `mio` can register.
#[derive(Debug)]
pub(super) struct Descriptor<T>(T);

impl<T: AsFd> Descriptor<T> {
    fn fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl<T: AsFd> mio::event::Source for Descriptor<T> {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.fd()).register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.fd()).deregister(registry)
    }
}

/// Waits until a file descriptor is ready: a pipe, a timer, an inotify, a socket of another library. On Unix.
///
/// The descriptor must be one that the system can poll, which regular files are not, and non-blocking. [`readable`](Self::readable) says that an
/// operation may succeed; [`read_with`](Self::read_with) also tries it, and waits again if it would block.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use tasuki_rt::io::Async;
///
/// # fn main() -> std::io::Result<()> {
/// let (mut here, there) = UnixStream::pair()?;
/// there.set_nonblocking(true)?;
/// tasuki_rt::run(async {
///     let there = Async::new(there)?;
///     here.write_all(b"hello")?;
///     let mut bytes = [0; 8];
///     let count = there.read_with(|mut there| there.read(&mut bytes)).await?;
///     assert_eq!(&bytes[..count], b"hello");
///     Ok(())
/// })
/// # }
/// ```
///
/// # Order
///
/// Several tasks may wait for the same direction: all are woken, and the first to try gets it. The functions that poll keep one task for each direction, the last that asked.
///
/// # Cancel
///
/// A wait that is dropped has taken nothing. Dropping the `Async` takes the descriptor back from the poller, then drops it.
///
/// # Panic
///
/// If an operation panics, the panic goes to the caller, and readiness is as before.
///
/// # Memory ordering
///
/// None beside that of the system calls.
///
/// # Re-entrancy
///
/// An operation must not wait.
///
/// # Limits
///
/// Those of the system: as many descriptors as a process may open.
///
/// # Futurelock
///
/// It holds nothing while it waits.
///
/// # When to use something else
///
/// [`net`](crate::net) has the sockets of the standard library; for files use [`spawn_blocking`](crate::spawn_blocking).
#[doc(alias = "AsyncFd")]
pub struct Async<T: AsFd> {
    registered: Registered<Descriptor<T>>,
}

impl<T: AsFd> Async<T> {
    /// Registers a descriptor, which must be non-blocking, with the runtime of this thread.
    ///
    /// # Errors
    ///
    /// Without a runtime on this thread, in a simulation, after the runtime has shut down, if its poller does not start, or if the system cannot poll the descriptor, as with
    /// a regular file.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(tasuki_rt::io::Async::new(std::io::stdin()).is_err(), "there is no runtime on this thread");
    /// ```
    pub fn new(io: T) -> io::Result<Self> {
        Ok(Self { registered: Registered::new(Descriptor(io))? })
    }

    /// Returns what is waited for.
    pub fn get_ref(&self) -> &T {
        &self.registered.io().0
    }

    /// Returns what is waited for. Its descriptor must stay the same.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.registered.io_mut().0
    }

    /// Takes it back from the poller.
    pub fn into_inner(self) -> T {
        self.registered.into_inner().0
    }

    /// Waits until a read may succeed.
    ///
    /// Readiness is kept until an operation that reads by this type, such as that of [`try_read_with`](Self::try_read_with), would block. So this may return at once although there is nothing to read; after such a try it waits.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// After the runtime has shut down.
    pub async fn readable(&self) -> io::Result<()> {
        self.registered.ready(Direction::Read).await
    }

    /// Waits until a write may succeed; see [`readable`](Self::readable).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// After the runtime has shut down.
    pub async fn writable(&self) -> io::Result<()> {
        self.registered.ready(Direction::Write).await
    }

    /// As [`readable`](Self::readable), for a task that polls.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered.poll_ready(cx, Direction::Read)
    }

    /// As [`writable`](Self::writable), for a task that polls.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered.poll_ready(cx, Direction::Write)
    }

    /// Tries an operation that reads, without waiting. It is called in any case, whatever was reported; again only if a signal interrupted it.
    ///
    /// # Errors
    ///
    /// Those of the operation; after the runtime has shut down, and then it is not called.
    pub fn try_read_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.registered.try_io(Direction::Read, |io| operation(&io.0))
    }

    /// Tries an operation that writes, without waiting; see [`try_read_with`](Self::try_read_with).
    ///
    /// # Errors
    ///
    /// As [`try_read_with`](Self::try_read_with).
    pub fn try_write_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.registered.try_io(Direction::Write, |io| operation(&io.0))
    }

    /// Calls an operation that reads, until it does not say `WouldBlock`, each time that it may succeed.
    ///
    /// # Cancel safety
    ///
    /// As that of the operation: it is not interrupted. A future that is dropped while it waits has called it, if at all, without success.
    ///
    /// # Errors
    ///
    /// Those of the operation; after the runtime has shut down.
    pub async fn read_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.registered.async_io(Direction::Read, |io| operation(&io.0)).await
    }

    /// Calls an operation that writes; see [`read_with`](Self::read_with).
    ///
    /// # Cancel safety
    ///
    /// As [`read_with`](Self::read_with).
    ///
    /// # Errors
    ///
    /// As [`read_with`](Self::read_with).
    pub async fn write_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.registered.async_io(Direction::Write, |io| operation(&io.0)).await
    }

    /// As [`read_with`](Self::read_with), for a task that polls.
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.registered.poll_io(cx, Direction::Read, |io| operation(&io.0))
    }

    /// As [`write_with`](Self::write_with), for a task that polls.
    pub fn poll_write_with<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.registered.poll_io(cx, Direction::Write, |io| operation(&io.0))
    }

    /// For the stream traits.
    pub(super) fn poll_read_bytes(&self, cx: &Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>
    where
        for<'a> &'a T: Read,
    {
        if into.is_empty() {
            return self.registered.poll_move_nothing(cx, Direction::Read);
        }
        self.registered.poll_io(cx, Direction::Read, |io| (&io.0).read(into))
    }

    pub(super) fn poll_write_bytes(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>
    where
        for<'a> &'a T: Write,
    {
        self.registered.poll_io(cx, Direction::Write, |io| (&io.0).write(bytes))
    }

    pub(super) fn poll_flush_bytes(&self, cx: &Context<'_>) -> Poll<io::Result<()>>
    where
        for<'a> &'a T: Write,
    {
        // Asked before it is waited for: most descriptors buffer nothing, and a peer that takes nothing more would be waited for in vain.
        ready!(self.registered.poll_charge(cx, Direction::Write));
        let flushed = self.registered.try_io(Direction::Write, |io| (&io.0).flush());
        if would_block(&flushed) {
            return self.registered.poll_io(cx, Direction::Write, |io| (&io.0).flush());
        }
        Poll::Ready(flushed)
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<T: AsFd> AsRawFd for Async<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for Async<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Async").field(self.get_ref()).finish()
    }
}
