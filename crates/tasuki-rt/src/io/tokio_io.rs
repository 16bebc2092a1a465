//! Implements tokio's `AsyncRead` and `AsyncWrite` for the streams of `net` (feature `tokio-io`). No other file uses tokio.

use super::stream_traits::{for_readers, writes};
use crate::net::PollStream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

macro_rules! reads {
    ([$($generics:tt)*] $of:ty) => {
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
    };
}

for_readers! { reads }
writes! { AsyncWrite, poll_shutdown,
    fn is_write_vectored(&self) -> bool {
        true
    }
}
