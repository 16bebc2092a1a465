//! The rows of sockets in the table of awaitables (`budget_table.rs`).

use super::budget_table::{ATTEMPTS, ENOUGH, FORGETS, Other, Outcome, Row, is_ready_at_once, is_send, row};
use std::io::Write;
use std::net::SocketAddr;
use tasuki_rt::net::{TcpListener, TcpStream, UdpSocket, lookup_host};
use tasuki_rt::yield_now;

/// More than the budget of a poll: so many bytes, datagrams or connections wait to be taken.
pub(super) const WAITING: usize = 200;
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// A stream with bytes to read and room to write; its peer, which must live as long.
pub(super) async fn stream() -> (TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.write_all(&[7; 10 * WAITING]).unwrap();
    let stream = listener.accept().unwrap().0;
    // All have arrived.
    stream.peek(&mut [0; 10 * WAITING]).unwrap();
    (TcpStream::from_std(stream).unwrap(), peer)
}

/// A socket with datagrams to take; its peer, which reads none.
async fn datagrams() -> (UdpSocket, std::net::UdpSocket) {
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..WAITING {
        peer.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    }
    socket.connect(peer.local_addr().unwrap()).unwrap();
    (UdpSocket::from_std(socket).unwrap(), peer)
}

/// A row for each operation, by the name of its function: what they need, made anew for each, and the operations. One by one: of two in a row one that is charged would hide
/// one that is not.
macro_rules! each {
    ($setup:tt, $($name:literal => $operation:expr),* $(,)?) => {
        vec![$(row!($name, [$name], $setup, $operation)),*]
    };
}
pub(super) use each;

#[allow(
    unused_mut,
    unused_variables,
    reason = "not every operation needs all that is made for those of a type"
)]
pub(super) fn rows() -> Vec<Row> {
    let streams = each!(
        {
            let (mut stream, _peer) = stream().await;
        },
        "TcpStream::readable" => stream.readable().await.unwrap(),
        "TcpStream::writable" => stream.writable().await.unwrap(),
        "TcpStream::read" => stream.read(&mut [0]).await.unwrap(),
        "TcpStream::read_exact" => stream.read_exact(&mut [0]).await.unwrap(),
        "TcpStream::write" => stream.write(&[0]).await.unwrap(),
        "TcpStream::write_all" => stream.write_all(&[0]).await.unwrap(),
        "TcpStream::peek" => stream.peek(&mut [0]).await.unwrap(),
    );
    // Nothing to read or to write, a stream whose runtime has shut down, an address that is parsed: ready, and charged all the same.
    let at_once = vec![
        row!(
            "read_exact of nothing",
            [],
            {
                let (mut stream, _peer) = stream().await;
            },
            stream.read_exact(&mut []).await.unwrap()
        ),
        row!(
            "read without room",
            [],
            {
                let (mut stream, _peer) = stream().await;
            },
            stream.read(&mut []).await.unwrap()
        ),
        row!(
            "peek without room",
            [],
            {
                let (stream, _peer) = stream().await;
            },
            stream.peek(&mut []).await.unwrap()
        ),
        row!(
            "write of nothing",
            [],
            {
                let (mut stream, _peer) = stream().await;
            },
            stream.write(&[]).await.unwrap()
        ),
        row!(
            "write_all of nothing",
            [],
            {
                let (mut stream, _peer) = stream().await;
            },
            stream.write_all(&[]).await.unwrap()
        ),
        row!(
            "read without a runtime",
            [],
            {
                let made = || crate::kit::runtime(1).block_on(stream());
                let (mut stream, _peer) = std::thread::spawn(made).join().unwrap();
            },
            stream.read(&mut [0]).await.unwrap_err()
        ),
        row!(
            "send datagrams, in words",
            [],
            {
                let (socket, _peer) = datagrams().await;
            },
            _ = socket.send_to(b"x", "127.0.0.1:9").await
        ),
    ];
    let halves = each!(
        {
            let (mut stream, _peer) = stream().await;
            let (mut read, mut write) = stream.split();
        },
        "ReadHalf::read" => read.read(&mut [0]).await.unwrap(),
        "ReadHalf::read_exact" => read.read_exact(&mut [0]).await.unwrap(),
        "WriteHalf::write" => write.write(&[0]).await.unwrap(),
        "WriteHalf::write_all" => write.write_all(&[0]).await.unwrap(),
    );
    let owned_halves = each!(
        {
            let (stream, _peer) = stream().await;
            let (mut read, mut write) = stream.into_split();
        },
        "OwnedReadHalf::read" => read.read(&mut [0]).await.unwrap(),
        "OwnedReadHalf::read_exact" => read.read_exact(&mut [0]).await.unwrap(),
        "OwnedWriteHalf::write" => write.write(&[0]).await.unwrap(),
        "OwnedWriteHalf::write_all" => write.write_all(&[0]).await.unwrap(),
    );
    let datagrams = each!(
        {
            let (socket, peer) = datagrams().await;
            let address = peer.local_addr().unwrap();
        },
        "UdpSocket::connect" => socket.connect(address).await.unwrap(),
        "UdpSocket::readable" => socket.readable().await.unwrap(),
        "UdpSocket::writable" => socket.writable().await.unwrap(),
        "UdpSocket::recv" => socket.recv(&mut [0]).await.unwrap(),
        "UdpSocket::recv_from" => socket.recv_from(&mut [0]).await.unwrap(),
        "UdpSocket::peek_from" => socket.peek_from(&mut [0]).await.unwrap(),
        "UdpSocket::send" => socket.send(b"x").await.unwrap(),
        "UdpSocket::send_to" => _ = socket.send_to(b"x", address).await,
    );
    let others = vec![
        row!(
            "listener",
            ["TcpListener::accept"],
            {
                let listener = TcpListener::bind(LOOPBACK).await.unwrap();
                let address = listener.local_addr().unwrap();
                let connect = |_| std::net::TcpStream::connect(address).unwrap();
                let _peers: Vec<_> = (0..WAITING).map(connect).collect();
            },
            drop(listener.accept().await.unwrap())
        ),
        row!("names", ["lookup_host"], {}, lookup_host(LOOPBACK).await.unwrap()),
        row!("an address in words", [], {}, lookup_host("127.0.0.1:0").await.unwrap()),
        row!("bind, in words", [], {}, drop(TcpListener::bind("127.0.0.1:0").await.unwrap())),
        row!("bind datagrams, in words", [], {}, drop(UdpSocket::bind("127.0.0.1:0").await.unwrap())),
        row!(
            "connect datagrams, in words",
            [],
            {
                let socket = UdpSocket::bind(LOOPBACK).await.unwrap();
            },
            socket.connect("127.0.0.1:9").await.unwrap()
        ),
        row!("connect, in words", [], {}, drop(TcpStream::connect("255.255.255.255:9").await.unwrap_err())),
        row!("bind", ["TcpListener::bind"], {}, drop(TcpListener::bind(LOOPBACK).await.unwrap())),
        row!("bind, datagrams", ["UdpSocket::bind"], {}, drop(UdpSocket::bind(LOOPBACK).await.unwrap())),
        // A connect that must wait does so; one that fails at once is charged.
        row!(
            "connect to no address",
            ["TcpStream::connect"],
            {
                let nowhere: &[SocketAddr] = &[];
            },
            drop(TcpStream::connect(nowhere).await.unwrap_err())
        ),
    ];
    let mut all = vec![streams, at_once, halves, owned_halves, datagrams, others];
    #[cfg(unix)]
    all.extend(unix::rows());
    #[cfg(target_os = "linux")]
    all.push(vec![unix::signals()]);
    all.into_iter().flatten().collect()
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::io::Read;
    use tasuki_rt::io::Async;
    use tasuki_rt::net::{UnixDatagram, UnixListener, UnixStream};

    fn stream() -> (UnixStream, std::os::unix::net::UnixStream) {
        let (stream, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
        peer.write_all(&[7; 10 * WAITING]).unwrap();
        (UnixStream::from_std(stream).unwrap(), peer)
    }

    /// As many datagrams as the system lets wait: few. So the loops send to themselves.
    fn datagrams() -> (UnixDatagram, std::path::PathBuf) {
        let name = format!("tasuki-rt-budget-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.connect(&path).unwrap();
        (socket, path)
    }

    #[allow(unused_mut, unused_variables, reason = "as above")]
    pub(super) fn rows() -> Vec<Vec<Row>> {
        let streams = each!(
            {
                let (mut stream, _peer) = stream();
            },
            "UnixStream::readable" => stream.readable().await.unwrap(),
            "UnixStream::writable" => stream.writable().await.unwrap(),
            "UnixStream::read" => stream.read(&mut [0]).await.unwrap(),
            "UnixStream::read_exact" => stream.read_exact(&mut [0]).await.unwrap(),
            "UnixStream::write" => stream.write(&[0]).await.unwrap(),
            "UnixStream::write_all" => stream.write_all(&[0]).await.unwrap(),
            "UnixStream::connect" => drop(UnixStream::connect("/no/such/socket").await.unwrap_err()),
        );
        let datagrams = each!(
            {
                let (socket, path) = datagrams();
                std::fs::remove_file(&path).unwrap();
            },
            "UnixDatagram::readable" => socket.readable().await.unwrap(),
            "UnixDatagram::writable" => socket.writable().await.unwrap(),
            "UnixDatagram::send" => {
                socket.send(b"x").await.unwrap();
                take(&socket);
            },
            "UnixDatagram::send_to" => _ = socket.send_to(b"x", &path).await.unwrap_err(),
            "UnixDatagram::recv" => {
                put(&socket);
                socket.recv(&mut [0]).await.unwrap();
            },
            "UnixDatagram::recv_from" => {
                put(&socket);
                socket.recv_from(&mut [0]).await.unwrap();
            },
        );
        let descriptors = each!(
            {
                let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
                one.set_nonblocking(true).unwrap();
                other.write_all(&[7; 10 * WAITING]).unwrap();
                let one = Async::new(one).unwrap();
            },
            "Async::readable" => one.readable().await.unwrap(),
            "Async::writable" => one.writable().await.unwrap(),
            "Async::read_with" => one.read_with(|mut io| io.read(&mut [0])).await.unwrap(),
            "Async::write_with" => one.write_with(|mut io| io.write(&[0])).await.unwrap(),
        );
        let listener = row!(
            "listener of Unix sockets",
            ["UnixListener::accept"],
            {
                let name = format!("tasuki-rt-accept-{}", std::process::id());
                let path = std::env::temp_dir().join(name);
                let _ = std::fs::remove_file(&path);
                let socket =
                    socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
                socket.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
                socket.listen(1024).unwrap();
                let listener = UnixListener::from_std(socket.into()).unwrap();
                let connect = |_| std::os::unix::net::UnixStream::connect(&path).unwrap();
                let _peers: Vec<_> = (0..WAITING).map(connect).collect();
                std::fs::remove_file(&path).unwrap();
            },
            drop(listener.accept().await.unwrap())
        );
        vec![streams, datagrams, descriptors, vec![listener]]
    }

    /// One datagram for the socket, which is connected to itself; not by an operation that is charged.
    fn put(socket: &UnixDatagram) {
        socket2::SockRef::from(socket).send(b"x").unwrap();
    }

    /// Takes it again, likewise.
    fn take(socket: &UnixDatagram) {
        socket2::SockRef::from(socket).recv(&mut [std::mem::MaybeUninit::uninit()]).unwrap();
    }

    /// A signal that has come is noticed by each that has waited since before.
    #[cfg(target_os = "linux")]
    pub(super) fn signals() -> Row {
        use tasuki_rt::signal::unix::{SignalKind, signal};
        row!(
            "signals",
            ["Signal::recv"],
            {
                // Without an effect where it is not awaited.
                let kind = SignalKind::window_change();
                let mut signals: Vec<_> = (0..=WAITING).map(|_| signal(kind).unwrap()).collect();
                // SAFETY: it is handled.
                assert_eq!(unsafe { libc::raise(kind.as_raw()) }, 0);
                signals.pop().unwrap().recv().await;
            },
            signals.pop().unwrap().recv().await
        )
    }
}
