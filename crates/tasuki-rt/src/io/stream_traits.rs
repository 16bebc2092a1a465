//! The list of types that implement foreign stream traits, and how they write: the same for futures-io, tokio and hyper.

/// A macro of the caller for each type that reads.
macro_rules! for_readers {
    ($implement:ident) => {
        $implement! { [] crate::net::TcpStream }
        $implement! { ['a, S: crate::net::Stream] crate::net::ReadHalf<'a, S> }
        $implement! { [S: crate::net::Stream] crate::net::OwnedReadHalf<S> }
        #[cfg(unix)]
        $implement! { [] crate::net::UnixStream }
    };
}
pub(super) use for_readers;

/// A trait that writes, for each type that does: its name, that of its function which ends the stream, and what else it has.
macro_rules! writes {
    ($of:ident, $close:ident, $($more:tt)*) => {
        writes! { @ [] crate::net::TcpStream, $of, $close, $($more)* }
        writes! { @ ['a, S: crate::net::Stream] crate::net::WriteHalf<'a, S>, $of, $close, $($more)* }
        writes! { @ [S: crate::net::Stream] crate::net::OwnedWriteHalf<S>, $of, $close, $($more)* }
        #[cfg(unix)]
        writes! { @ [] crate::net::UnixStream, $of, $close, $($more)* }
    };
    (@ [$($generics:tt)*] $stream:ty, $of:ident, $close:ident, $($more:tt)*) => {
        impl<$($generics)*> $of for $stream {
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

            /// Nothing is buffered: ready, and charged as every operation that is.
            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_charge_write(cx).map(Ok)
            }

            fn $close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_charge_write(cx).map(|()| self.shutdown_write())
            }

            $($more)*
        }
    };
}
pub(super) use writes;
