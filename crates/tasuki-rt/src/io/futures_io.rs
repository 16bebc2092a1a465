//! The stream traits of `futures-io`: the only file that knows them.

use crate::net::{OwnedReadHalf, OwnedWriteHalf, PollStream, ReadHalf, Stream, TcpStream, WriteHalf};
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The layout is the same, and the streams write nothing uninitialised.
fn room(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: as said above; the slice is given to `poll_read_into` only.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

macro_rules! reads {
    ($([$($generics:tt)*] $of:ty;)*) => {$(
        impl<$($generics)*> AsyncRead for $of {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_read_into(cx, room(bytes))
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

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
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
    use super::{AsyncRead, AsyncWrite, Context, IoSlice, Pin, Poll, PollStream, io, room};
    use crate::io::Async;
    use crate::net::UnixStream;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    reads! { [] UnixStream; }
    writes! { [] UnixStream; }

    impl<T: AsFd + Unpin> AsyncRead for Async<T>
    where
        for<'a> &'a T: Read,
    {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_read_bytes(cx, bytes)
        }
    }

    impl<T: AsFd + Unpin> AsyncWrite for Async<T>
    where
        for<'a> &'a T: Write,
    {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.poll_write_bytes(cx, bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush_bytes(cx)
        }

        /// Flushes: what a close is to a descriptor of any kind is not known here. The drop closes it.
        fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(cx)
        }
    }
}
