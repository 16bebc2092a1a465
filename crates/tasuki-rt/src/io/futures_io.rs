//! Implements `AsyncRead` and `AsyncWrite` of futures-io for the streams of `net` (feature `net`), and on Unix for `Async`. No other file uses futures-io.

use super::stream_traits::{for_readers, writes};
use crate::net::{PollStream, room};
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

macro_rules! reads {
    ([$($generics:tt)*] $of:ty) => {
        impl<$($generics)*> AsyncRead for $of {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_read_into(cx, room(bytes))
            }
        }
    };
}

for_readers! { reads }
writes! { AsyncWrite, poll_close, }

#[cfg(unix)]
mod unix {
    use super::{AsyncRead, AsyncWrite, Context, Pin, Poll, io};
    use crate::io::Async;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

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
