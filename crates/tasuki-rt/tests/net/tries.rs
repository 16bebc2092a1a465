//! What `try_*` functions find: what the system has, not what was reported of it.

use crate::kit::{runtime, watchdog};
use std::collections::BTreeSet;
use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tasuki_rt::io::Async;
use tasuki_rt::net::{TcpStream, UdpSocket, UnixDatagram, UnixStream};
use tasuki_rt::yield_now;

fn path(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tasuki-rt-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn is_refused<R>(result: &io::Result<R>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// The output of the first poll.
fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A full receiver refuses what is sent to it, and to no other: neither a try nor a send that waits says anything of the sender. In one poll of the only worker, so that no report comes between.
#[test]
fn a_full_receiver_keeps_nothing_from_the_others() {
    let _dog = watchdog(60);
    let (full, free) = (path("tries-full"), path("tries-free"));
    let runtime = runtime(1);
    let (to_full, to_free) = (full.clone(), free.clone());
    let sends = async move {
        let _full = net::UnixDatagram::bind(&to_full).unwrap();
        let receiver = net::UnixDatagram::bind(&to_free).unwrap();
        // Filled by another socket, whose datagrams leave the buffer of our sender empty.
        let other = net::UnixDatagram::unbound().unwrap();
        other.set_nonblocking(true).unwrap();
        while other.send_to(b"filler", &to_full).is_ok() {}
        let sender = UnixDatagram::unbound().unwrap();
        let arrives = |sent: io::Result<usize>| {
            assert_eq!(sent.unwrap(), 4);
            assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 4);
        };
        for is_connected in [false, true] {
            if is_connected {
                sender.connect(&to_full).unwrap();
                // The chosen peer is waited for, by a report: the sender is not writable.
                assert!(at_once(sender.send(b"peer")).is_none());
                assert!(at_once(sender.writable()).is_none());
            }
            for _ in 0..5 {
                assert!(is_refused(&sender.try_send_to(b"full", &to_full)));
                arrives(sender.try_send_to(b"free", &to_free));
                assert!(at_once(sender.send_to(b"full", &to_full)).is_none());
                arrives(at_once(sender.send_to(b"free", &to_free)).expect("there is room"));
            }
        }
    };
    runtime.block_on(runtime.spawn(sends)).unwrap();
    [full, free].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

/// A function, by its name in the sources, and a check of it. All of them in one poll of the only worker: nothing is reported between an attempt and the next.
type Row = (&'static str, fn());

/// Waits until the system says that a descriptor is ready.
fn wait_for(socket: &impl AsFd, events: libc::c_short, limit: libc::c_int) -> bool {
    let mut polled = libc::pollfd { fd: socket.as_fd().as_raw_fd(), events, revents: 0 };
    // SAFETY: one entry, alive for the call.
    unsafe { libc::poll(&mut polled, 1, limit) == 1 }
}

/// A function that takes finds what is there, and is refused when there is nothing.
fn takes<R>(socket: &impl AsFd, mut attempt: impl FnMut() -> io::Result<R>, mut put: impl FnMut()) {
    for _ in 0..3 {
        assert!(is_refused(&attempt()), "there is nothing");
        assert!(is_refused(&attempt()), "there is nothing");
        put();
        assert!(wait_for(socket, libc::POLLIN, 60_000));
        assert!(attempt().is_ok(), "something is there");
    }
}

/// A function that gives is refused when there is no room, and succeeds when there is.
fn gives<R>(socket: &impl AsFd, mut attempt: impl FnMut() -> io::Result<R>, mut drain: impl FnMut()) {
    for _ in 0..3 {
        // Not one more attempt: bytes of TCP are on their way for a while, and there may be room for it.
        let refused = std::iter::repeat_with(&mut attempt).find(Result::is_err).expect("it ends with one");
        assert!(is_refused(&refused), "there is no room");
        drain();
        while !wait_for(socket, libc::POLLOUT, 10) {
            drain();
        }
        assert!(attempt().is_ok(), "there is room");
    }
}

/// Reads until nothing is left.
fn drain(mut from: impl Read) {
    while from.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) {}
}

fn drain_datagrams(from: &net::UnixDatagram) {
    while from.recv(&mut [0; 8]).is_ok() {}
}

fn streams() -> Vec<Row> {
    fn tcp() -> (TcpStream, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nonblocking(true).unwrap();
        (TcpStream::from_std(listener.accept().unwrap().0).unwrap(), peer)
    }
    fn unix() -> (net::UnixStream, net::UnixStream) {
        let (one, peer) = net::UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        peer.set_nonblocking(true).unwrap();
        (one, peer)
    }
    vec![
        ("TcpStream::try_read", || {
            let (stream, mut peer) = tcp();
            takes(&stream, || stream.try_read(&mut [0; 8]), || peer.write_all(b"x").unwrap());
        }),
        ("TcpStream::try_write", || {
            let (stream, peer) = tcp();
            gives(&stream, || stream.try_write(&[0; 65_536]), || drain(&peer));
        }),
        ("UnixStream::try_read", || {
            let (stream, mut peer) = unix();
            let stream = UnixStream::from_std(stream).unwrap();
            takes(&stream, || stream.try_read(&mut [0; 8]), || peer.write_all(b"x").unwrap());
        }),
        ("UnixStream::try_write", || {
            let (stream, peer) = unix();
            let stream = UnixStream::from_std(stream).unwrap();
            gives(&stream, || stream.try_write(&[0; 65_536]), || drain(&peer));
        }),
        ("Async::try_read_with", || {
            let (stream, mut peer) = unix();
            let stream = Async::new(stream).unwrap();
            let attempt = || stream.try_read_with(|mut io| io.read(&mut [0; 8]));
            takes(&stream, attempt, || peer.write_all(b"x").unwrap());
        }),
        ("Async::try_write_with", || {
            let (stream, peer) = unix();
            let stream = Async::new(stream).unwrap();
            gives(&stream, || stream.try_write_with(|mut io| io.write(&[0; 65_536])), || drain(&peer));
        }),
    ]
}

fn datagrams() -> Vec<Row> {
    /// Connected to each other.
    fn udp() -> (UdpSocket, std::net::UdpSocket) {
        let bind = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (socket, peer) = (bind(), bind());
        socket.connect(peer.local_addr().unwrap()).unwrap();
        peer.connect(socket.local_addr().unwrap()).unwrap();
        (UdpSocket::from_std(socket).unwrap(), peer)
    }
    fn unix() -> (UnixDatagram, net::UnixDatagram) {
        let (socket, peer) = net::UnixDatagram::pair().unwrap();
        peer.set_nonblocking(true).unwrap();
        (UnixDatagram::from_std(socket).unwrap(), peer)
    }
    /// The system drops what there is no room for: a send of UDP is not refused on this machine.
    fn arrives(sent: io::Result<usize>, peer: &std::net::UdpSocket) {
        assert_eq!(sent.unwrap(), 1);
        assert_eq!(peer.recv(&mut [0; 8]).unwrap(), 1);
    }
    vec![
        ("UdpSocket::try_recv", || {
            let (socket, peer) = udp();
            takes(&socket, || socket.try_recv(&mut [0; 8]), || assert_eq!(peer.send(b"x").unwrap(), 1));
        }),
        ("UdpSocket::try_recv_from", || {
            let (socket, peer) = udp();
            takes(&socket, || socket.try_recv_from(&mut [0; 8]), || assert_eq!(peer.send(b"x").unwrap(), 1));
        }),
        ("UdpSocket::try_peek_from", || {
            let (socket, peer) = udp();
            let attempt = || {
                let found = socket.try_peek_from(&mut [0; 8])?;
                // Not by an operation of ours, which would change what is known.
                socket2::SockRef::from(&socket).recv(&mut [std::mem::MaybeUninit::uninit()]).unwrap();
                Ok(found)
            };
            takes(&socket, attempt, || assert_eq!(peer.send(b"x").unwrap(), 1));
        }),
        ("UdpSocket::try_send", || {
            let (socket, peer) = udp();
            (0..3).for_each(|_| arrives(socket.try_send(b"x"), &peer));
        }),
        ("UdpSocket::try_send_to", || {
            let (socket, peer) = udp();
            let to = peer.local_addr().unwrap();
            (0..3).for_each(|_| arrives(socket.try_send_to(b"x", to), &peer));
        }),
        ("UnixDatagram::try_recv", || {
            let (socket, peer) = unix();
            takes(&socket, || socket.try_recv(&mut [0; 8]), || assert_eq!(peer.send(b"x").unwrap(), 1));
        }),
        ("UnixDatagram::try_recv_from", || {
            let (socket, peer) = unix();
            takes(&socket, || socket.try_recv_from(&mut [0; 8]), || assert_eq!(peer.send(b"x").unwrap(), 1));
        }),
        ("UnixDatagram::try_send", || {
            let (socket, peer) = unix();
            gives(&socket, || socket.try_send(b"x"), || drain_datagrams(&peer));
        }),
        ("UnixDatagram::try_send_to", || {
            let path = path("tries-named");
            let peer = net::UnixDatagram::bind(&path).unwrap();
            peer.set_nonblocking(true).unwrap();
            let socket = UnixDatagram::unbound().unwrap();
            gives(&socket, || socket.try_send_to(b"x", &path), || drain_datagrams(&peer));
            std::fs::remove_file(&path).unwrap();
        }),
    ]
}

#[test]
fn tries_find_what_is_there() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    for (name, check) in [streams(), datagrams()].into_iter().flatten() {
        let result = runtime.block_on(runtime.spawn(async move { check() }));
        assert!(result.is_ok(), "{name}: {result:?}");
    }
}

/// Every function `try_*` of the sockets and of `Async` has a row.
#[test]
fn every_try_has_a_row() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut public = BTreeSet::new();
    for folder in ["net", "io"].map(|folder| source.join(folder)) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let mut of = String::new();
            let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            for line in text.lines() {
                let line = line.replace("impl<T: AsFd> ", "impl ");
                if let Some(rest) = line.strip_prefix("impl ") {
                    of = name(rest);
                } else if let Some(rest) = line.strip_prefix("    pub fn try_") {
                    let function: String = name(rest);
                    public.insert(format!("{of}::try_{function}"));
                }
            }
        }
    }
    let rows = [streams(), datagrams()].into_iter().flatten().map(|(name, _)| name.to_owned());
    assert_eq!(rows.collect::<BTreeSet<_>>(), public);
}

/// A try that takes a part, or all, before it was reported loses no report: a read that follows finds the rest, and a wait what comes next.
#[test]
fn a_try_before_the_report_loses_nothing() {
    let _dog = watchdog(60);
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let work = async move {
            let (stream, mut peer) = net::UnixStream::pair().unwrap();
            let mut stream = UnixStream::from_std(stream).unwrap();
            let mut bytes = [0; 3];
            for round in 0..300 {
                assert!(is_refused(&stream.try_read(&mut bytes)));
                peer.write_all(b"abc").unwrap();
                let taken = 1 + round % 3;
                assert_eq!(stream.try_read(&mut bytes[..taken]).unwrap(), taken);
                stream.read_exact(&mut bytes[taken..]).await.unwrap();
                assert_eq!(&bytes, b"abc");
                let next = async {
                    loop {
                        stream.readable().await.unwrap();
                        match stream.try_read(&mut bytes) {
                            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                            result => return result.unwrap(),
                        }
                    }
                };
                let comes = async {
                    (0..round % 4).for_each(|_| std::thread::yield_now());
                    yield_now().await;
                    peer.write_all(b"x").unwrap();
                };
                assert_eq!(futures_util::join!(next, comes).0, 1);
            }
        };
        runtime.block_on(runtime.spawn(work)).unwrap();
    }
}
