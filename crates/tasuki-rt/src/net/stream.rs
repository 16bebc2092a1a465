//! What the streams have in common, so that the halves and the foreign traits are written once.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::task::{Context, Poll};

/// A connected stream of bytes: [`TcpStream`](super::TcpStream), and `UnixStream` on Unix. Sealed.
pub trait Stream: PollStream {}

impl<S: PollStream> Stream for S {}

/// One task polls each direction.
#[expect(unnameable_types, reason = "it seals `Stream`")]
pub trait PollStream: Sized {
    /// Reads into the room, of which the first so many bytes are then initialised.
    fn poll_read_into(&self, cx: &Context<'_>, room: &mut [MaybeUninit<u8>]) -> Poll<io::Result<usize>>;

    fn poll_write_from(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    fn poll_write_slices(&self, cx: &Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// The peer reads to the end of what was written.
    fn shutdown_write(&self) -> io::Result<()>;
}

/// Reads into bytes that are initialised.
pub(crate) fn poll_read_bytes(
    stream: &impl PollStream,
    cx: &Context<'_>,
    bytes: &mut [u8],
) -> Poll<io::Result<usize>> {
    // SAFETY: the layout is the same, and `poll_read_into` writes nothing uninitialised.
    let room = unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) };
    stream.poll_read_into(cx, room)
}

/// A shutdown of a stream whose peer has gone is no error: there is nothing left to shut down.
pub(super) fn shut_down(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        result => result,
    }
}

/// `PollStream` for a type with a field `io`, and whether a read that gives less than there was room for shows that no more is there.
macro_rules! poll_stream {
    ($of:ty, $short_read_drains:literal) => {
        impl PollStream for $of {
            #[inline]
            fn poll_read_into(
                &self,
                cx: &Context<'_>,
                room: &mut [MaybeUninit<u8>],
            ) -> Poll<io::Result<usize>> {
                let length = if $short_read_drains { room.len() } else { 0 };
                self.io
                    .poll_bytes(cx, Direction::Read, length, |io| io.try_io(|| SockRef::from(io).recv(room)))
            }

            #[inline]
            fn poll_write_from(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.io.poll_bytes(cx, Direction::Write, bytes.len(), |mut io| io.write(bytes))
            }

            fn poll_write_slices(&self, cx: &Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
                // A short count says nothing: the system takes only so many slices at a time.
                self.io.poll_io(cx, Direction::Write, |mut io| io.write_vectored(slices))
            }

            fn shutdown_write(&self) -> io::Result<()> {
                shut_down(self.io.io().shutdown(Shutdown::Write))
            }
        }

        impl fmt::Debug for $of {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.io.fmt(f)
            }
        }
    };
}
pub(super) use poll_stream;

/// The descriptor of a type with a field `io`.
macro_rules! descriptor {
    ($of:ty) => {
        #[cfg(unix)]
        impl std::os::fd::AsFd for $of {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.io.io().as_fd()
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsRawFd for $of {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.io.io().as_raw_fd()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsSocket for $of {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                self.io.io().as_socket()
            }
        }
    };
}
pub(super) use descriptor;
