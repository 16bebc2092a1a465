//! `TcpStream`: a TCP connection.

use super::half::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::lookup::{ToSocketAddrs, first_of};
use super::stream::{PollStream, descriptor, poll_stream, read, read_exact, shut_down, write, write_all};
use crate::context::charge;
use crate::io::readiness::Direction;
use crate::io::registered::Registered;
use socket2::{SockRef, TcpKeepalive};
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

/// A TCP connection, to read from and to write to.
///
/// # Examples
///
/// ```
/// use tasuki_rt::net::{TcpListener, TcpStream};
///
/// # fn main() -> std::io::Result<()> {
/// tasuki_rt::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let address = listener.local_addr()?;
///     let server = tasuki_rt::spawn(async move { listener.accept().await?.0.write_all(b"hello").await });
///     let mut stream = TcpStream::connect(address).await?;
///     let mut bytes = [0; 5];
///     stream.read_exact(&mut bytes).await?;
///     assert_eq!(&bytes, b"hello");
///     server.await.unwrap()
/// })
/// # }
/// ```
///
/// # Cancel
///
/// A read or a write that is dropped has done nothing. Dropping the stream closes it, and what was written is still sent. There are two exceptions, in which the system resets the connection and what had not arrived is lost:
/// bytes of the peer that were not read, and a [linger](Self::set_linger) of zero.
///
/// # Order
///
/// One task reads and one writes. [`readable`](Self::readable), [`writable`](Self::writable) and [`peek`](Self::peek) may be awaited by several.
///
/// # When to use something else
///
/// For several requests on one connection at the same time put it behind a task of its own and a channel.
pub struct TcpStream {
    io: Registered<mio::net::TcpStream>,
}

poll_stream!(TcpStream, true);
descriptor!(TcpStream, std::net::TcpStream);

impl TcpStream {
    /// Connects to the first address that answers.
    ///
    /// # Cancel safety
    ///
    /// The connection that is being made is closed.
    ///
    /// # Errors
    ///
    /// Those of the lookup and of the system; those of [`from_std`](Self::from_std).
    ///
    /// # Panics
    ///
    /// Outside a runtime, if there is a name to look up.
    pub async fn connect(host: impl ToSocketAddrs) -> io::Result<Self> {
        first_of(host, Self::connect_to).await
    }

    async fn connect_to(address: SocketAddr) -> io::Result<Self> {
        let io = Registered::not_ready(mio::net::TcpStream::connect(address)?)?;
        io.async_io(Direction::Write, |io| match io.take_error()? {
            Some(error) => Err(error),
            None => match io.peer_addr() {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                result => result.map(drop),
            },
        })
        .await?;
        Ok(Self { io })
    }

    pub(super) fn of(io: Registered<mio::net::TcpStream>) -> Self {
        Self { io }
    }

    /// Takes a connection of the standard library, and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Without a runtime on this thread, in a simulation, after the runtime has shut down, or if its poller does not start.
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(mio::net::TcpStream::from_std(stream))? })
    }

    /// Gives the connection back, which is still non-blocking.
    pub fn into_std(self) -> std::net::TcpStream {
        self.io.into_inner().into()
    }

    /// Waits until a read may succeed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// After its runtime has shut down.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Direction::Read).await
    }

    /// Waits until a write may succeed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// After its runtime has shut down.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Direction::Write).await
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
        read(self, into).await
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
        read_exact(self, into).await
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
        write(self, bytes).await
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
        write_all(self, bytes).await
    }

    /// Reads some bytes without waiting; 0 as with [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there are none; otherwise those of [`read`](Self::read).
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return self.io.move_nothing();
        }
        self.io.try_io(Direction::Read, |mut io| io.read(into))
    }

    /// Writes some bytes without waiting; 0 if there are none to write.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room; otherwise those of [`write`](Self::write).
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return self.io.move_nothing();
        }
        self.io.try_io(Direction::Write, |mut io| io.write(bytes))
    }

    /// Ends one direction of the stream, or both.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.io().shutdown(how)
    }

    /// Takes the error that is pending on the socket, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the system, if the option cannot be read.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.io().take_error()
    }

    /// Splits the stream into a half that reads and one that writes, for one task that does both at the same time.
    pub fn split(&mut self) -> (ReadHalf<'_, Self>, WriteHalf<'_, Self>) {
        half::split(self)
    }

    /// Splits the stream into a half that reads and one that writes, for two tasks. The stream is closed with the second of them, and the drop of the half that writes ends its
    /// direction.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::net::TcpStream;
    ///
    /// async fn relay(from: TcpStream, to: TcpStream) -> std::io::Result<()> {
    ///     let (mut from, _back) = from.into_split(); // `_` would drop this half: the peer would read the end
    ///     let (_, mut to) = to.into_split();
    ///     let mut bytes = [0; 1024];
    ///     while let count @ 1.. = from.read(&mut bytes).await? {
    ///         to.write_all(&bytes[..count]).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf<Self>, OwnedWriteHalf<Self>) {
        half::into_split(self)
    }

    /// Reads some bytes and leaves them in the stream; 0 as with [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            charge().await;
            return self.io.move_nothing();
        }
        self.io.async_io(Direction::Read, |io| io.peek(into)).await
    }

    /// Returns the address of this side.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().local_addr()
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().peer_addr()
    }

    /// Returns true if small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.io().nodelay()
    }

    /// Sends small writes at once, instead of collecting them while an answer is awaited (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.io().set_nodelay(nodelay)
    }

    /// Asks a silent peer for a sign of life after this time, in whole seconds, rounded up; `None` never does.
    ///
    /// # Errors
    ///
    /// Those of the system, also for zero and for more than it can count (on Linux 32,767 s): nothing has changed then.
    pub fn set_keepalive(&self, after: Option<Duration>) -> io::Result<()> {
        let socket = SockRef::from(self.io.io());
        let Some(after) = after else { return socket.set_keepalive(false) };
        let before = socket.keepalive()?;
        let set = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(whole_seconds(after)));
        if set.is_err() {
            // It is switched on before its time is set.
            let _ = socket.set_keepalive(before);
        }
        set
    }

    /// Returns true if a silent peer is asked for a sign of life.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn keepalive(&self) -> io::Result<bool> {
        SockRef::from(self.io.io()).keepalive()
    }

    /// Sets how long what was written may stay unacknowledged, or the peer take nothing more, before the connection ends with `TimedOut` (`TCP_USER_TIMEOUT`; Linux and Android). `None` leaves it to the system,
    /// which tries for a quarter of an hour. In milliseconds, rounded up. A peer that vanishes is noticed by this while something is written to it, and by [`set_keepalive`](Self::set_keepalive) while nothing is.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for zero, by which the system would mean `None`; those of the system.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn set_user_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        if after.is_some_and(|after| after.is_zero()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a timeout of zero: pass `None` to leave it to the system",
            ));
        }
        let round_up = |after: Duration| after.saturating_add(Duration::from_nanos(999_999));
        SockRef::from(self.io.io()).set_tcp_user_timeout(after.map(round_up))
    }

    /// Returns how long what was written may stay unacknowledged; `None` if the system decides.
    ///
    /// # Errors
    ///
    /// Those of the system.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn user_timeout(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self.io.io()).tcp_user_timeout()
    }

    /// Sets how long the close of the connection waits until the peer has what was written (`SO_LINGER`), in whole seconds, rounded up; with zero the close does not wait, and resets the connection. `None`, the
    /// default, lets it go on in the background.
    ///
    /// The close is part of the drop of the stream. On Linux it blocks the thread for that time, a worker with all its tasks, although the socket is non-blocking.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        SockRef::from(self.io.io()).set_linger(linger.map(whole_seconds))
    }

    /// Returns how long the close of the connection waits, and blocks its thread; `None` if it goes on in the background.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self.io.io()).linger()
    }

    /// Sets how many routers a packet of IPv4 passes at most. Those of IPv6 have a limit of their own, which this leaves alone.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.io().set_ttl(ttl)
    }

    /// Returns how many routers a packet of IPv4 passes at most; see [`set_ttl`](Self::set_ttl).
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.io().ttl()
    }
}

/// Rounded up: half a second must not become the zero that means something else, nor must more seconds than the system can count.
fn whole_seconds(time: Duration) -> Duration {
    // On Windows it counts to that, elsewhere further.
    const MOST: u64 = if cfg!(windows) { u16::MAX as u64 } else { i32::MAX as u64 };
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    Duration::from_secs(seconds.min(MOST))
}
