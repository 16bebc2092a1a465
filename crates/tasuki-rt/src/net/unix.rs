//! The sockets of Unix: streams and datagrams between processes of one machine.

use super::half::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::stream::{PollStream, descriptor, poll_stream, read, read_exact, shut_down, write, write_all};
use super::tcp_listener::accept;
use crate::context::charge;
use crate::io::readiness::Direction;
use crate::io::registered::{Registered, would_block};
use crate::time::sleep;
use crate::yield_now;
use socket2::SockRef;
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// The pauses between two attempts to reach a peer that is full, of which the system does not report when it has room again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// A yield, then longer and longer pauses.
#[derive(Default)]
struct Pauses(Duration);

impl Pauses {
    async fn pause(&mut self) {
        let pause = self.0;
        self.0 = (2 * pause).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        if pause.is_zero() {
            yield_now().await;
        } else {
            sleep(pause).await;
        }
    }
}

/// Accepts connections of Unix sockets. See [`TcpListener`](super::TcpListener) for order, cancelling, and what happens without descriptors.
///
/// The drop closes it and leaves its name in the file system.
///
/// # Examples
///
/// ```
/// use tasuki_rt::net::{UnixListener, UnixStream};
///
/// # fn main() -> std::io::Result<()> {
/// let path = std::env::temp_dir().join(format!("tasuki-{}", std::process::id()));
/// # let _ = std::fs::remove_file(&path);
/// tasuki_rt::run(async {
///     let listener = UnixListener::bind(&path)?;
///     let mut client = UnixStream::connect(&path).await?;
///     let (mut server, _) = listener.accept().await?;
///     client.write_all(b"hello").await?;
///     let mut bytes = [0; 5];
///     server.read_exact(&mut bytes).await?;
///     assert_eq!(&bytes, b"hello");
///     std::fs::remove_file(&path)
/// })
/// # }
/// ```
pub struct UnixListener {
    io: Registered<mio::net::UnixListener>,
}

descriptor!(UnixListener, net::UnixListener);

impl UnixListener {
    /// Listens under this name.
    ///
    /// # Errors
    ///
    /// Those of the system; those of [`from_std`](Self::from_std).
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { io: Registered::new(mio::net::UnixListener::bind(path)?)? })
    }

    /// Takes a listener of the standard library, and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Without a runtime on this thread, in a simulation, after the runtime has shut down, or if its poller does not start.
    pub fn from_std(listener: net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(mio::net::UnixListener::from_std(listener))? })
    }

    /// Gives the listener back, which is still non-blocking.
    pub fn into_std(self) -> net::UnixListener {
        self.io.into_inner().into()
    }

    /// Accepts the next connection; see [`TcpListener::accept`](super::TcpListener::accept).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: the connection waits for the next accept.
    ///
    /// # Errors
    ///
    /// Those of the system; after its runtime has shut down.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, address) = accept(&self.io, |io| io.accept()).await?;
        Ok((UnixStream { io: self.io.register_beside(stream)? }, address))
    }

    /// Returns the name it listens under.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().local_addr()
    }

    /// Takes the error that is pending on the socket, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the system, if the option cannot be read.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.io().take_error()
    }
}

/// A connection of Unix sockets. See [`TcpStream`](super::TcpStream) for order and cancelling.
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// tasuki_rt::run(async {
///     let (mut here, mut there) = tasuki_rt::net::UnixStream::pair()?;
///     here.write_all(b"hello").await?;
///     drop(here);
///     let mut bytes = [0; 8];
///     assert_eq!(there.read(&mut bytes).await?, 5);
///     assert_eq!(there.read(&mut bytes).await?, 0);
///     Ok(())
/// })
/// # }
/// ```
pub struct UnixStream {
    io: Registered<mio::net::UnixStream>,
}

// A read ends behind a message that carries descriptors.
poll_stream!(UnixStream, false);
descriptor!(UnixStream, net::UnixStream);

impl UnixStream {
    /// Connects to the listener of this name.
    ///
    /// # A listener that is full
    ///
    /// A listener has room for a number of connections that it has not accepted yet. The system does not report when there is room again, so a connect that finds none is tried again, after the pauses of
    /// [`UnixDatagram::send_to`]. To wait only so long, use a [`timeout`](crate::timeout()).
    ///
    /// # Cancel safety
    ///
    /// The connection that is being made is closed.
    ///
    /// # Errors
    ///
    /// Those of the system; those of [`from_std`](Self::from_std).
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        // Here, for it may fail without a wait.
        charge().await;
        let (path, mut pauses) = (path.as_ref(), Pauses::default());
        let stream = loop {
            match mio::net::UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => pauses.pause().await,
                result => break result?,
            }
        };
        let io = Registered::not_ready(stream)?;
        io.ready(Direction::Write).await?;
        match io.io().take_error()? {
            Some(error) => Err(error),
            None => Ok(Self { io }),
        }
    }

    /// Creates two streams that are connected to each other.
    ///
    /// # Errors
    ///
    /// Those of the system; those of [`from_std`](Self::from_std).
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = mio::net::UnixStream::pair()?;
        Ok((Self { io: Registered::new(one)? }, Self { io: Registered::new(other)? }))
    }

    /// Takes a connection of the standard library, and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Without a runtime on this thread, in a simulation, after the runtime has shut down, or if its poller does not start.
    pub fn from_std(stream: net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(mio::net::UnixStream::from_std(stream))? })
    }

    /// Gives the connection back, which is still non-blocking.
    pub fn into_std(self) -> net::UnixStream {
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
    /// use tasuki_rt::net::UnixStream;
    ///
    /// async fn last_words(stream: UnixStream) -> std::io::Result<()> {
    ///     let (_read, mut write) = stream.into_split();
    ///     write.write_all(b"goodbye").await
    /// }
    /// ```
    pub fn into_split(self) -> (OwnedReadHalf<Self>, OwnedWriteHalf<Self>) {
        half::into_split(self)
    }

    /// Returns the name of this side.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().local_addr()
    }

    /// Returns the name of the peer.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().peer_addr()
    }
}

/// A Unix socket for datagrams. See [`UdpSocket`](super::UdpSocket) for order and cancelling.
///
/// # Examples
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// tasuki_rt::run(async {
///     let (here, there) = tasuki_rt::net::UnixDatagram::pair()?;
///     here.send(b"ping").await?;
///     let mut bytes = [0; 8];
///     assert_eq!(there.recv(&mut bytes).await?, 4);
///     Ok(())
/// })
/// # }
/// ```
pub struct UnixDatagram {
    io: Registered<mio::net::UnixDatagram>,
    /// [`shutdown`](Self::shutdown) has ended what is received.
    read_ended: AtomicBool,
}

descriptor!(UnixDatagram, net::UnixDatagram);

impl UnixDatagram {
    /// Creates a socket under this name.
    ///
    /// # Errors
    ///
    /// Those of the system; those of [`from_std`](Self::from_std).
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::of(mio::net::UnixDatagram::bind(path)?)
    }

    /// Creates a socket without a name.
    ///
    /// # Errors
    ///
    /// Those of the system; those of [`from_std`](Self::from_std).
    pub fn unbound() -> io::Result<Self> {
        Self::of(mio::net::UnixDatagram::unbound()?)
    }

    /// Creates two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// Those of the system; those of [`from_std`](Self::from_std).
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = mio::net::UnixDatagram::pair()?;
        Ok((Self::of(one)?, Self::of(other)?))
    }

    /// Takes a socket of the standard library, and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Without a runtime on this thread, in a simulation, after the runtime has shut down, or if its poller does not start.
    pub fn from_std(socket: net::UnixDatagram) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Self::of(mio::net::UnixDatagram::from_std(socket))
    }

    fn of(socket: mio::net::UnixDatagram) -> io::Result<Self> {
        Ok(Self { io: Registered::new(socket)?, read_ended: AtomicBool::new(false) })
    }

    /// Gives the socket back, which is still non-blocking.
    pub fn into_std(self) -> net::UnixDatagram {
        self.io.into_inner().into()
    }

    /// Chooses the peer of [`send`](Self::send) and [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.io.io().connect(path)
    }

    /// Sends a datagram to the chosen peer.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has sent nothing.
    ///
    /// # Errors
    ///
    /// Those of the system; after its runtime has shut down.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io.async_io(Direction::Write, |io| io.send(bytes)).await
    }

    /// Receives a datagram. What there is no room for is lost.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has taken none.
    ///
    /// # Errors
    ///
    /// Those of the system; after its runtime has shut down.
    pub async fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.io.async_io(Direction::Read, |io| self.received(io.recv(into), || Ok(0))).await
    }

    /// Sends a datagram to the socket of this name.
    ///
    /// # A receiver that is full
    ///
    /// The system does not report when a socket that this one is not [connected](Self::connect) to has room again. So the send is tried again: after a yield, then after pauses of 1, 2, 4, 8 ms, and
    /// 16 ms from then on; also if it is this socket that has no room. To be woken as soon as there is room, connect to the receiver and [`send`](Self::send). A full receiver does not delay sends to others.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has sent nothing.
    ///
    /// # Errors
    ///
    /// Those of the system; after its runtime has shut down.
    pub async fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        // Here, for readiness is not asked: it says nothing of this receiver.
        charge().await;
        let (path, mut pauses) = (path.as_ref(), Pauses::default());
        loop {
            let sent = self.io.try_apart(|io| io.send_to(bytes, path));
            if !would_block(&sent) {
                return sent;
            }
            pauses.pause().await;
        }
    }

    /// Receives a datagram, and says from where. What there is no room for is lost.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has taken none.
    ///
    /// # Errors
    ///
    /// Those of the system; after its runtime has shut down.
    pub async fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .async_io(Direction::Read, |io| {
                self.received(io.recv_from(into), || SocketAddr::from_pathname("").map(|from| (0, from)))
            })
            .await
    }

    /// Sends a datagram to the chosen peer without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room; otherwise those of [`send`](Self::send).
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io.try_io(Direction::Write, |io| io.send(bytes))
    }

    /// Receives a datagram without waiting. What there is no room for is lost.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is none; otherwise those of [`recv`](Self::recv).
    pub fn try_recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.io.try_io(Direction::Read, |io| self.received(io.recv(into), || Ok(0)))
    }

    /// Sends a datagram to the socket of this name without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if that socket, or this one, has no room; otherwise those of [`send_to`](Self::send_to).
    pub fn try_send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.io.try_apart(|io| io.send_to(bytes, &path))
    }

    /// Receives a datagram without waiting, and says from where. What there is no room for is lost.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is none; otherwise those of [`recv_from`](Self::recv_from).
    pub fn try_recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.try_io(Direction::Read, |io| {
            self.received(io.recv_from(into), || SocketAddr::from_pathname("").map(|from| (0, from)))
        })
    }

    /// Waits until a receive may succeed.
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

    /// Waits until a [`send`](Self::send) may succeed. Says nothing of [`send_to`](Self::send_to): the system does not report when a socket that this one was
    /// not connected to has room.
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

    /// Ends one direction of the socket, or both. Where what is received ends, a task that waits for it has 0 bytes; so has each later receive that finds no datagram.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let ends_reads = how != Shutdown::Write;
        // Release: pairs with Acquire in `received`, by way of the system. Before the call: the report of the end wakes the tasks, which look.
        let before = ends_reads && self.read_ended.swap(true, Ordering::Release);
        let result = self.io.io().shutdown(how);
        if ends_reads && result.is_err() {
            // Release: as above.
            self.read_ended.store(before, Ordering::Release);
        }
        result
    }

    /// What was received; `nothing` behind the end. There a receive of a socket that blocks returns, and one of ours is told for ever that it would block.
    fn received<R>(&self, result: io::Result<R>, nothing: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        // Acquire: pairs with Release in `shutdown`, by way of the system, which reports the end after it was told of it.
        if would_block(&result) && self.read_ended.load(Ordering::Acquire) { nothing() } else { result }
    }

    /// Returns the name of this socket.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().local_addr()
    }

    /// Returns the name of the chosen peer.
    ///
    /// # Errors
    ///
    /// Those of the system, also if none was chosen.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().peer_addr()
    }

    /// Takes the error that is pending on the socket, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the system, if the option cannot be read.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.io().take_error()
    }
}

macro_rules! debug {
    ($($of:ty),*) => {$(
        impl fmt::Debug for $of {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.io.fmt(f)
            }
        }
    )*};
}
debug!(UnixListener, UnixDatagram);
