//! `TcpListener`: a socket that accepts TCP connections.

use super::lookup::{ToSocketAddrs, first_of};
use super::stream::descriptor;
use super::tcp_stream::TcpStream;
use crate::io::readiness::Direction;
use crate::io::registered::Registered;
use crate::time::sleep;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// How many connections wait to be accepted, if the system agrees: a burst of clients is answered, not left to try again after a second.
const BACKLOG: i32 = 1024;

/// How long an accept waits, once, when the process or the system has no descriptor to give.
pub(super) const EXHAUSTED: Duration = Duration::from_millis(50);

/// Accepts TCP connections.
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
///     let client = tasuki_rt::spawn(async move { TcpStream::connect(address).await?.write_all(b"hello").await });
///     let (mut stream, _) = listener.accept().await?;
///     let mut bytes = [0; 5];
///     stream.read_exact(&mut bytes).await?;
///     assert_eq!(&bytes, b"hello");
///     client.await.unwrap()
/// })
/// # }
/// ```
///
/// # Order
///
/// Several tasks may accept at the same time; each connection goes to one of them.
///
/// # Cancel
///
/// An accept that is dropped has taken no connection. Dropping the listener closes it; connections that were not accepted are reset.
///
/// # When to use something else
///
/// For a listener on each worker make sockets with `SO_REUSEPORT` by `socket2`, and give them to [`from_std`](Self::from_std) in tasks that are pinned there.
pub struct TcpListener {
    io: Registered<mio::net::TcpListener>,
}

descriptor!(TcpListener, std::net::TcpListener);

impl TcpListener {
    /// Listens on the first of the addresses that is free, with room for 1,024 connections that were not accepted yet. On Unix `SO_REUSEADDR` is set: an address whose old connections are in `TIME_WAIT` is free.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// Those of the lookup and of the system; those of [`from_std`](Self::from_std).
    ///
    /// # Panics
    ///
    /// Outside a runtime, if there is a name to look up.
    pub async fn bind(host: impl ToSocketAddrs) -> io::Result<Self> {
        first_of(host, async |address| Self::bind_to(address)).await
    }

    fn bind_to(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // On Windows it would take an address away from another listener.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Self::from_std(socket.into())
    }

    /// Takes a listener of the standard library, and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Without a runtime on this thread, in a simulation, after the runtime has shut down, or if its poller does not start.
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(mio::net::TcpListener::from_std(listener))? })
    }

    /// Gives the listener back, which is still non-blocking.
    pub fn into_std(self) -> std::net::TcpListener {
        self.io.into_inner().into()
    }

    /// Accepts the next connection; returns it and the address of its peer.
    ///
    /// If the process or the system is out of file descriptors, the accept tries again after 50 ms, and then returns the error. So a loop that ignores errors accepts again as soon as a descriptor is free, and does not spin.
    ///
    /// A connection that its peer has closed meanwhile is accepted on Linux, and its reads say so. Where the system reports `ConnectionAborted` instead, that connection is skipped.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: the connection waits for the next accept.
    ///
    /// # Errors
    ///
    /// Those of the system; after its runtime has shut down.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = accept(&self.io, |io| io.accept()).await?;
        Ok((TcpStream::of(self.io.register_beside(stream)?), address))
    }

    /// Returns the address it listens on.
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

    /// Sets how many routers a packet of IPv4 passes at most, also of connections that are accepted from then on. Those of IPv6 have a limit of their own, which this leaves alone.
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

/// An accept that skips connections of which the system says that they were aborted, and waits once for a descriptor.
pub(super) async fn accept<S: mio::event::Source, T>(
    io: &Registered<S>,
    mut accept: impl FnMut(&S) -> io::Result<T>,
) -> io::Result<T> {
    let mut has_waited = false;
    loop {
        match io.async_io(Direction::Read, &mut accept).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if !has_waited && is_exhausted(&error) => {
                has_waited = true;
                sleep(EXHAUSTED).await;
            }
            result => return result,
        }
    }
}

/// Has the process or the system too many descriptors, or too little memory?
fn is_exhausted(error: &io::Error) -> bool {
    #[cfg(unix)]
    let codes = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    // WSAEMFILE and WSAENOBUFS.
    #[cfg(not(unix))]
    let codes = [10024, 10055];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}
