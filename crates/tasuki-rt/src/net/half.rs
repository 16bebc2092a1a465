//! The read and the write half of a stream, borrowed or owned.

use super::stream::{Stream, read, read_exact, write, write_all};
use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The half of a stream that reads, borrowed: made by `split` of a stream ([`TcpStream::split`](super::TcpStream::split)).
#[derive(Debug)]
pub struct ReadHalf<'a, S>(&'a S);

/// The half of a stream that writes, borrowed: made by `split` of a stream ([`TcpStream::split`](super::TcpStream::split)).
#[derive(Debug)]
pub struct WriteHalf<'a, S>(&'a S);

/// The half of a stream that reads, for a task of its own: made by `into_split` of a stream ([`TcpStream::into_split`](super::TcpStream::into_split)).
#[derive(Debug)]
pub struct OwnedReadHalf<S>(Arc<S>);

/// The half of a stream that writes, for a task of its own: made by `into_split` of a stream ([`TcpStream::into_split`](super::TcpStream::into_split)). Its drop ends this direction: the peer reads to the end. (Not in the
/// child of a fork, where the connection is the parent's.)
#[derive(Debug)]
pub struct OwnedWriteHalf<S: Stream> {
    stream: Arc<S>,
    ends: bool,
}

pub(super) fn split<S>(stream: &mut S) -> (ReadHalf<'_, S>, WriteHalf<'_, S>) {
    (ReadHalf(stream), WriteHalf(stream))
}

pub(super) fn into_split<S: Stream>(stream: S) -> (OwnedReadHalf<S>, OwnedWriteHalf<S>) {
    let stream = Arc::new(stream);
    (OwnedReadHalf(stream.clone()), OwnedWriteHalf { stream, ends: true })
}

/// The error of [`OwnedReadHalf::reunite`]: the halves are not of the same stream. It gives both back.
pub struct ReuniteError<S: Stream>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: Stream> OwnedReadHalf<S> {
    /// Joins the two halves to the stream again.
    ///
    /// # Errors
    ///
    /// If the halves are not of the same stream.
    #[allow(clippy::missing_panics_doc, reason = "both halves are here, and there are no more")]
    pub fn reunite(self, write: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        if !Arc::ptr_eq(&self.0, &write.stream) {
            return Err(ReuniteError(self, write));
        }
        write.forget();
        Ok(Arc::into_inner(self.0).expect("there were two halves"))
    }
}

impl<S: Stream> OwnedWriteHalf<S> {
    /// Drops the half without ending its direction.
    pub fn forget(mut self) {
        self.ends = false;
    }
}

macro_rules! stream_of {
    ($($of:ty),*) => {$(
        /// The stream.
        impl<S: Stream> AsRef<S> for $of {
            fn as_ref(&self) -> &S {
                self.stream()
            }
        }
    )*};
}
stream_of!(ReadHalf<'_, S>, WriteHalf<'_, S>, OwnedReadHalf<S>, OwnedWriteHalf<S>);

impl<S: Stream> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        // The connection is the parent's as well, which the child of a fork does not end by a drop.
        if self.ends && !self.stream.is_elsewhere() {
            // A stream that was reset has nothing to end.
            let _ = self.stream.shutdown_write();
        }
    }
}

impl<S: Stream> ReadHalf<'_, S> {
    /// Returns the stream that this is a half of.
    pub fn stream(&self) -> &S {
        self.0
    }

    /// Reads some bytes, at most as many as there is room for; 0 at the end of the stream, and at once if there is no room.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has read nothing.
    ///
    /// # Errors
    ///
    /// Those of the system, such as a reset by the peer; after its runtime has shut down.
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read(self.stream(), into).await
    }

    /// Reads until the room is full.
    ///
    /// # Cancel safety
    ///
    /// Not safe: what was read before the future was dropped is in the buffer, and how much is not known.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` if the stream ends before; those of [`read`](Self::read).
    pub async fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        read_exact(self.stream(), into).await
    }

    #[cfg_attr(
        not(any(feature = "tokio-io", feature = "hyper")),
        allow(dead_code, reason = "for their traits")
    )]
    pub(crate) fn poll_read_into(
        &self,
        cx: &Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_read_into(cx, room)
    }
}

impl<S: Stream> OwnedReadHalf<S> {
    /// Returns the stream that this is a half of.
    pub fn stream(&self) -> &S {
        &self.0
    }

    /// Reads some bytes, at most as many as there is room for; 0 at the end of the stream, and at once if there is no room.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has read nothing.
    ///
    /// # Errors
    ///
    /// Those of the system, such as a reset by the peer; after its runtime has shut down.
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read(self.stream(), into).await
    }

    /// Reads until the room is full.
    ///
    /// # Cancel safety
    ///
    /// Not safe: what was read before the future was dropped is in the buffer, and how much is not known.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` if the stream ends before; those of [`read`](Self::read).
    pub async fn read_exact(&mut self, into: &mut [u8]) -> io::Result<()> {
        read_exact(self.stream(), into).await
    }

    #[cfg_attr(
        not(any(feature = "tokio-io", feature = "hyper")),
        allow(dead_code, reason = "for their traits")
    )]
    pub(crate) fn poll_read_into(
        &self,
        cx: &Context<'_>,
        room: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_read_into(cx, room)
    }
}

impl<S: Stream> WriteHalf<'_, S> {
    /// Returns the stream that this is a half of.
    pub fn stream(&self) -> &S {
        self.0
    }

    /// Writes some bytes, and says how many; 0 at once if there are none to write.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has written nothing.
    ///
    /// # Errors
    ///
    /// Those of the system, such as a reset by the peer; after its runtime has shut down.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(self.stream(), bytes).await
    }

    /// Writes all bytes.
    ///
    /// # Cancel safety
    ///
    /// Not safe: some of the bytes may have been written before the future was dropped, and how many is not known.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all(self.stream(), bytes).await
    }

    pub(crate) fn poll_write_from(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write_from(cx, bytes)
    }

    pub(crate) fn poll_write_slices(
        &self,
        cx: &Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_slices(cx, slices)
    }

    pub(crate) fn poll_charge_write(&self, cx: &Context<'_>) -> Poll<()> {
        self.stream().poll_charge_write(cx)
    }

    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        self.stream().shutdown_write()
    }
}

impl<S: Stream> OwnedWriteHalf<S> {
    /// Returns the stream that this is a half of.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Writes some bytes, and says how many; 0 at once if there are none to write.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has written nothing.
    ///
    /// # Errors
    ///
    /// Those of the system, such as a reset by the peer; after its runtime has shut down.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(self.stream(), bytes).await
    }

    /// Writes all bytes.
    ///
    /// # Cancel safety
    ///
    /// Not safe: some of the bytes may have been written before the future was dropped, and how many is not known.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all(self.stream(), bytes).await
    }

    pub(crate) fn poll_write_from(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write_from(cx, bytes)
    }

    pub(crate) fn poll_write_slices(
        &self,
        cx: &Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_slices(cx, slices)
    }

    pub(crate) fn poll_charge_write(&self, cx: &Context<'_>) -> Poll<()> {
        self.stream().poll_charge_write(cx)
    }

    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        self.stream().shutdown_write()
    }
}

impl<S: Stream> fmt::Debug for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReuniteError").finish_non_exhaustive()
    }
}

impl<S: Stream> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are of two streams: reunite those that one `into_split` gave")
    }
}

impl<S: Stream> Error for ReuniteError<S> {}
