//! `UdpSocket`: a UDP socket.

use super::lookup::{ToSocketAddrs, first, first_of, lookup_host, no_address};
use super::stream::descriptor;
use crate::io::readiness::Direction;
use crate::io::registered::Registered;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A UDP socket: datagrams, to and from any peer or a chosen one.
///
/// # Examples
///
/// ```
/// use tasuki_rt::net::UdpSocket;
///
/// # fn main() -> std::io::Result<()> {
/// tasuki_rt::run(async {
///     let (here, there) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
///     here.send_to(b"ping", there.local_addr()?).await?;
///     let mut bytes = [0; 16];
///     let (count, from) = there.recv_from(&mut bytes).await?;
///     assert_eq!((&bytes[..count], from), (&b"ping"[..], here.local_addr()?));
///     Ok(())
/// })
/// # }
/// ```
///
/// # Order
///
/// Several tasks may send and receive at the same time; each datagram goes to one of them.
///
/// # Cancel
///
/// A receive that is dropped has taken no datagram, a send that is dropped has sent none.
pub struct UdpSocket {
    io: Registered<mio::net::UdpSocket>,
}

descriptor!(UdpSocket, std::net::UdpSocket);

impl UdpSocket {
    /// Creates a socket with the first of the addresses that is free.
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
        let bind = async |address| Ok(Self { io: Registered::new(mio::net::UdpSocket::bind(address)?)? });
        first_of(host, bind).await
    }

    /// Takes a socket of the standard library, and makes it non-blocking.
    ///
    /// # Errors
    ///
    /// Without a runtime on this thread, in a simulation, after the runtime has shut down, or if its poller does not start.
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(mio::net::UdpSocket::from_std(socket))? })
    }

    /// Gives the socket back, which is still non-blocking.
    pub fn into_std(self) -> std::net::UdpSocket {
        self.io.into_inner().into()
    }

    /// Chooses the peer of [`send`](Self::send) and [`recv`](Self::recv).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// Those of the lookup and of the system.
    ///
    /// # Panics
    ///
    /// Outside a runtime, if there is a name to look up.
    pub async fn connect(&self, host: impl ToSocketAddrs) -> io::Result<()> {
        // Not by `first_of`: a closure that borrows the socket would make a future that is not `Send`.
        let mut last = no_address();
        for address in lookup_host(host).await? {
            match self.io.io().connect(address) {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Sends a datagram to the first address of a host.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has sent nothing.
    ///
    /// # Errors
    ///
    /// Those of the lookup and of the system; after its runtime has shut down.
    ///
    /// # Panics
    ///
    /// Outside a runtime, if there is a name to look up.
    pub async fn send_to(&self, bytes: &[u8], host: impl ToSocketAddrs) -> io::Result<usize> {
        let address = first(host).await?;
        self.io.async_io(Direction::Write, |io| io.send_to(bytes, address)).await
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
        self.io.async_io(Direction::Read, |io| io.recv_from(into)).await
    }

    /// As [`recv_from`](Self::recv_from), and leaves the datagram there.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](Self::recv_from).
    pub async fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.async_io(Direction::Read, |io| io.peek_from(into)).await
    }

    /// Sends a datagram to the chosen peer.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has sent nothing.
    ///
    /// # Errors
    ///
    /// Those of the system, also if no peer was chosen or the peer refused an earlier one; after its runtime has shut down.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io.async_io(Direction::Write, |io| io.send(bytes)).await
    }

    /// Receives a datagram of the chosen peer. What there is no room for is lost.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a future that was dropped has taken none.
    ///
    /// # Errors
    ///
    /// Those of the system; after its runtime has shut down.
    pub async fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.io.async_io(Direction::Read, |io| io.recv(into)).await
    }

    /// Sends a datagram to the chosen peer without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room; otherwise those of [`send`](Self::send).
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io.try_io(Direction::Write, |io| io.send(bytes))
    }

    /// Receives a datagram of the chosen peer without waiting. What there is no room for is lost.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is none; otherwise those of [`recv`](Self::recv).
    pub fn try_recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.io.try_io(Direction::Read, |io| io.recv(into))
    }

    /// Sends a datagram to an address without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room; otherwise those of [`send_to`](Self::send_to).
    pub fn try_send_to(&self, bytes: &[u8], address: SocketAddr) -> io::Result<usize> {
        self.io.try_io(Direction::Write, |io| io.send_to(bytes, address))
    }

    /// Receives a datagram without waiting, and says from where. What there is no room for is lost.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is none; otherwise those of [`recv_from`](Self::recv_from).
    pub fn try_recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.try_io(Direction::Read, |io| io.recv_from(into))
    }

    /// As [`try_recv_from`](Self::try_recv_from), and leaves the datagram there.
    ///
    /// # Errors
    ///
    /// As [`try_recv_from`](Self::try_recv_from).
    pub fn try_peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.try_io(Direction::Read, |io| io.peek_from(into))
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

    /// Waits until a send may succeed.
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

    /// Returns the address of this socket.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().local_addr()
    }

    /// Returns the address of the chosen peer.
    ///
    /// # Errors
    ///
    /// Those of the system, also if none was chosen.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.io().peer_addr()
    }

    /// Allows it to send to broadcast addresses, or forbids it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.io.io().set_broadcast(broadcast)
    }

    /// Returns true if the socket may send to broadcast addresses.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn broadcast(&self) -> io::Result<bool> {
        self.io.io().broadcast()
    }

    /// Sets how many routers a datagram of IPv4 passes at most. Those of IPv6 have a limit of their own, which this leaves alone.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.io().set_ttl(ttl)
    }

    /// Returns how many routers a datagram of IPv4 passes at most; see [`set_ttl`](Self::set_ttl).
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.io().ttl()
    }

    /// Takes the error that is pending on the socket, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the system, if the option cannot be read.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.io().take_error()
    }

    /// Receives what is sent to a group, on one interface.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.io.io().join_multicast_v4(group, interface)
    }

    /// Receives what is sent to a group, on one interface.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.io().join_multicast_v6(group, interface)
    }

    /// Receives no more what is sent to a group, on one interface.
    ///
    /// # Errors
    ///
    /// Those of the system, also if it had not joined.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.io.io().leave_multicast_v4(group, interface)
    }

    /// Receives no more what is sent to a group, on one interface.
    ///
    /// # Errors
    ///
    /// Those of the system, also if it had not joined.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.io().leave_multicast_v6(group, interface)
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}
