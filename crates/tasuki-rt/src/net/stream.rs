//! `Stream`, the sealed trait of `TcpStream` and `UnixStream`: what both can do, so that their halves (`half.rs`) and the foreign stream traits (`io/stream_traits.rs`) are written once.

use crate::context::charge;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::task::{Context, Poll};

/// A connected stream of bytes: [`TcpStream`](super::TcpStream), and `UnixStream` on Unix. Sealed.
pub trait Stream: PollStream {}

impl<S: PollStream> Stream for S {}

/// One task polls each direction.
#[expect(unnameable_types, reason = "it seals `Stream`")]
pub trait PollStream: Sized {
    /// Reads into the room, of which the first so many bytes are then initialised. Without room it is ready at once, with 0.
    fn poll_read_into(&self, cx: &Context<'_>, room: &mut [MaybeUninit<u8>]) -> Poll<io::Result<usize>>;

    /// A write of nothing is ready at once, with 0; one of slices, too.
    fn poll_write_from(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    fn poll_write_slices(&self, cx: &Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// A read that may have stored its waker is dropped.
    fn cancel_read(&self);

    fn cancel_write(&self);

    /// Charges an operation that writes and never waits: a flush, for which there is nothing to do, or a shutdown.
    fn poll_charge_write(&self, cx: &Context<'_>) -> Poll<()>;

    /// What a write of nothing gives, of which the system is not asked: an error after the runtime has shut down.
    fn write_nothing(&self) -> io::Result<()>;

    /// The peer reads to the end of what was written.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Is this process a fork of the one that made it?
    fn is_elsewhere(&self) -> bool;
}

/// Bytes that are initialised, as the room of a read.
pub(crate) fn room(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the layout is the same, and the slice is given to `poll_read_into` only, which writes nothing uninitialised.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

/// The stream of a read, in its future: a drop of that leaves no waker behind, which would wake the task for what it no longer waits for.
struct CancelsRead<'a, S: PollStream>(&'a S);

impl<S: PollStream> CancelsRead<'_, S> {
    fn stream(&self) -> &S {
        self.0
    }
}

impl<S: PollStream> Drop for CancelsRead<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.0.cancel_read();
    }
}

/// The same of a write.
struct CancelsWrite<'a, S: PollStream>(&'a S);

impl<S: PollStream> CancelsWrite<'_, S> {
    fn stream(&self) -> &S {
        self.0
    }
}

impl<S: PollStream> Drop for CancelsWrite<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.0.cancel_write();
    }
}

/// Neither this nor `write` is an `async fn`: its future would hold the arguments a second time, in every task that waits for a stream.
///
/// Its callers are, and borrow their direction exclusively. So a future that exists is being polled or has been, and until it is dropped the waker in the slot is its own.
#[inline]
pub(super) fn read<'a>(
    stream: &'a impl PollStream,
    into: &'a mut [u8],
) -> impl Future<Output = io::Result<usize>> + 'a {
    let stream = CancelsRead(stream);
    poll_fn(move |cx| stream.stream().poll_read_into(cx, room(into)))
}

pub(super) async fn read_exact(stream: &impl PollStream, into: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    loop {
        match read(stream, &mut into[filled..]).await? {
            0 if filled < into.len() => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
        if filled == into.len() {
            return Ok(());
        }
    }
}

#[inline]
pub(super) fn write<'a>(
    stream: &'a impl PollStream,
    bytes: &'a [u8],
) -> impl Future<Output = io::Result<usize>> + 'a {
    let stream = CancelsWrite(stream);
    poll_fn(move |cx| stream.stream().poll_write_from(cx, bytes))
}

pub(super) async fn write_all(stream: &impl PollStream, mut bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        // Asks nothing of the system, and is ready.
        charge().await;
        return stream.write_nothing();
    }
    while !bytes.is_empty() {
        match write(stream, bytes).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
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
                if room.is_empty() {
                    return self.io.poll_move_nothing(cx, Direction::Read);
                }
                let length = if $short_read_drains { room.len() } else { 0 };
                self.io
                    .poll_bytes(cx, Direction::Read, length, |io| io.try_io(|| SockRef::from(io).recv(room)))
            }

            #[inline]
            fn poll_write_from(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                if bytes.is_empty() {
                    return self.io.poll_move_nothing(cx, Direction::Write);
                }
                self.io.poll_bytes(cx, Direction::Write, bytes.len(), |mut io| io.write(bytes))
            }

            fn poll_write_slices(&self, cx: &Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
                if slices.iter().all(|slice| slice.is_empty()) {
                    return self.io.poll_move_nothing(cx, Direction::Write);
                }
                // A short count is inconclusive: the system takes only so many slices at a time.
                self.io.poll_io(cx, Direction::Write, |mut io| io.write_vectored(slices))
            }

            #[inline]
            fn cancel_read(&self) {
                self.io.cancel(Direction::Read);
            }

            #[inline]
            fn cancel_write(&self) {
                self.io.cancel(Direction::Write);
            }

            fn poll_charge_write(&self, cx: &Context<'_>) -> Poll<()> {
                self.io.poll_charge(cx, Direction::Write)
            }

            fn write_nothing(&self) -> io::Result<()> {
                self.io.check_open()
            }

            fn shutdown_write(&self) -> io::Result<()> {
                shut_down(self.io.io().shutdown(Shutdown::Write))
            }

            fn is_elsewhere(&self) -> bool {
                self.io.is_elsewhere()
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

/// The descriptor of a type with a field `io`, which is also made of one of the standard library.
macro_rules! descriptor {
    ($of:ty, $std:ty) => {
        /// As `from_std`.
        impl TryFrom<$std> for $of {
            type Error = io::Error;

            fn try_from(socket: $std) -> io::Result<Self> {
                Self::from_std(socket)
            }
        }

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
