//! The stream traits of tokio: the only file that knows them.

use crate::net::{OwnedReadHalf, OwnedWriteHalf, PollStream, ReadHalf, Stream, TcpStream, WriteHalf};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

macro_rules! reads {
    ($([$($generics:tt)*] $of:ty;)*) => {$(
        impl<$($generics)*> AsyncRead for $of {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: the stream writes nothing uninitialised there.
                let count = ready!(self.poll_read_into(cx, unsafe { into.unfilled_mut() }))?;
                // SAFETY: so many bytes were read.
                unsafe { into.assume_init(count) };
                into.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    )*};
}

macro_rules! writes {
    ($([$($generics:tt)*] $of:ty;)*) => {$(
        impl<$($generics)*> AsyncWrite for $of {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.poll_write_from(cx, bytes)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_slices(cx, slices)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.shutdown_write())
            }
        }
    )*};
}

reads! {
    [] TcpStream;
    ['a, S: Stream] ReadHalf<'a, S>;
    [S: Stream] OwnedReadHalf<S>;
}
writes! {
    [] TcpStream;
    ['a, S: Stream] WriteHalf<'a, S>;
    [S: Stream] OwnedWriteHalf<S>;
}

#[cfg(unix)]
mod unix {
    use super::{AsyncRead, AsyncWrite, Context, IoSlice, Pin, Poll, PollStream, ReadBuf, io, ready};
    use crate::net::UnixStream;

    reads! { [] UnixStream; }
    writes! { [] UnixStream; }
}
