//! Sockets: TCP, UDP, and those of Unix.
//!
//! ```
//! use tasuki_rt::net::{TcpListener, TcpStream};
//!
//! # fn main() -> std::io::Result<()> {
//! tasuki_rt::run(async {
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let address = listener.local_addr()?;
//!     let echo = tasuki_rt::spawn(async move {
//!         let (mut stream, _) = listener.accept().await?;
//!         let mut bytes = [0; 64];
//!         while let count @ 1.. = stream.read(&mut bytes).await? {
//!             stream.write_all(&bytes[..count]).await?;
//!         }
//!         std::io::Result::Ok(())
//!     });
//!     let mut stream = TcpStream::connect(address).await?;
//!     stream.write_all(b"hello").await?;
//!     let mut bytes = [0; 5];
//!     stream.read_exact(&mut bytes).await?;
//!     assert_eq!(&bytes, b"hello");
//!     drop(stream);
//!     echo.await.unwrap()
//! })
//! # }
//! ```
//!
//! Sockets are made inside a runtime, and belong to it; what that means, cancel safety, the functions `try_*` and the budget are on the page of [`io`](crate::io). The streams have the traits of
//! `futures-io`, with the feature `tokio-io` those of tokio, and with the feature `hyper` those of hyper. A task that is pinned to a worker reads and writes there; which
//! worker waits for the socket does not matter to it.
//!
//! # What can go wrong
//!
//! | what | then |
//! |---|---|
//! | the peer resets | what waits in either direction ends with an error (`ConnectionReset`, `BrokenPipe`), or a read with 0 bytes if another operation took the error |
//! | the peer ends one direction (half-open) | a read gives 0 bytes, again and again; the other direction goes on |
//! | the peer vanishes without a word | nothing is reported: a read waits until [`TcpStream::set_keepalive`] or a [`timeout`](crate::timeout()) ends it; what is written is given up after a quarter of an hour, or on Linux after `TcpStream::set_user_timeout` |
//! | the peer is there and takes nothing more | a write waits, as above; `set_user_timeout` ends it with `TimedOut` |
//! | urgent data (TCP) | is skipped, and the rest is read; the urgent byte can be read through the descriptor |
//! | no descriptor is left | [`TcpListener::accept`] tries again after 50 ms, then is an error; it accepts again as soon as one is free |
//! | the poller does not start | making a socket is an error that says so; the next socket tries anew |
//! | a signal interrupts a wait or an operation | nothing: both are repeated |
//! | the runtime shuts down | its tasks are dropped with their sockets, which closes them; operations elsewhere on its other sockets are errors, also those that wait |
//! | a socket is used by another runtime or thread | it works, and is woken by a worker of its own runtime; `into_std` and `from_std`, which every socket has, move it for good |
//! | the runtime of a socket does not run: it was not started, or is a [`LocalRuntime`](crate::LocalRuntime) outside of its `block_on` | what has to wait waits, without an error, until it runs or shuts down; see [`io`](crate::io) |
//! | the receiver of an unconnected `UnixDatagram` is full, or the listener of a `UnixStream` has too many connections to accept | `send_to` and `connect` try again after pauses of up to 16 ms |
//!
//! Tested on Linux. On macOS and Windows it is compiled in CI, and not run.

mod half;
mod lookup;
mod stream;
mod tcp_listener;
mod tcp_stream;
mod udp;
#[cfg(unix)]
mod unix;

pub use half::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use lookup::{ToSocketAddrs, lookup_host};
pub use stream::Stream;
pub(crate) use stream::{PollStream, room};
pub use tcp_listener::TcpListener;
pub use tcp_stream::TcpStream;
pub use udp::UdpSocket;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixStream};
