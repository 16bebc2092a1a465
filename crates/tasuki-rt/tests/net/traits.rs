//! The stream traits of others, over the streams and their halves.

use super::tcp::pair;
use crate::kit::{MS, runtime, watchdog};
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tasuki_rt::net::{TcpListener, TcpStream, UdpSocket};
use tasuki_rt::spawn;

/// Sends by one half, receives by the other, through the traits of futures-io.
#[test]
fn traits_of_futures_io() {
    use futures_io::{AsyncRead, AsyncWrite};

    async fn send(mut write: impl AsyncWrite + Unpin) {
        let slices = [IoSlice::new(b"one "), IoSlice::new(b"two ")];
        assert_eq!(poll_fn(|cx| Pin::new(&mut write).poll_write_vectored(cx, &slices)).await.unwrap(), 8);
        assert_eq!(poll_fn(|cx| Pin::new(&mut write).poll_write(cx, b"three")).await.unwrap(), 5);
        poll_fn(|cx| Pin::new(&mut write).poll_flush(cx)).await.unwrap();
        poll_fn(|cx| Pin::new(&mut write).poll_close(cx)).await.unwrap();
    }

    async fn receive(mut read: impl AsyncRead + Unpin) -> Vec<u8> {
        let (mut all, mut bytes) = (Vec::new(), [0; 3]);
        while let count @ 1.. = poll_fn(|cx| Pin::new(&mut read).poll_read(cx, &mut bytes)).await.unwrap() {
            all.extend_from_slice(&bytes[..count]);
        }
        all
    }

    let _dog = watchdog(60);
    runtime(2).block_on(async {
        let (client, server) = pair().await.unwrap();
        let sender = spawn(send(client));
        assert_eq!(receive(server).await, b"one two three");
        sender.await.unwrap();
        let (client, server) = pair().await.unwrap();
        let ((_keep, write), (read, _write)) = (client.into_split(), server.into_split());
        let sender = spawn(send(write));
        assert_eq!(receive(read).await, b"one two three");
        sender.await.unwrap();
    });
}

/// More slices than the system takes in one call: what was written is less than all, and the socket is still writable.
#[test]
fn a_write_of_very_many_slices_does_not_stop_the_socket() {
    use futures_io::AsyncWrite;

    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let (mut client, mut server) = pair().await.unwrap();
        let slices = vec![IoSlice::new(b"x"); 5_000];
        for _ in 0..3 {
            let written = poll_fn(|cx| Pin::new(&mut client).poll_write_vectored(cx, &slices)).await.unwrap();
            let mut bytes = vec![0; written];
            server.read_exact(&mut bytes).await.unwrap();
        }
    });
}

/// The same through the traits of tokio, with its extensions and its buffers.
#[cfg(feature = "tokio-io")]
#[test]
fn traits_of_tokio() {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy};

    let _dog = watchdog(60);
    runtime(2).block_on(async {
        let (client, server) = pair().await.unwrap();
        let echo = spawn(async move {
            let (mut read, mut write) = server.into_split();
            let copied = copy(&mut read, &mut write).await.unwrap();
            AsyncWriteExt::shutdown(&mut write).await.unwrap();
            copied
        });
        let (read, mut write) = client.into_split();
        let lines = spawn(async move {
            let mut lines = BufReader::new(read).lines();
            let mut all = Vec::new();
            while let Some(line) = lines.next_line().await.unwrap() {
                all.push(line);
            }
            all
        });
        for n in 0..100 {
            AsyncWriteExt::write_all(&mut write, format!("line {n}\n").as_bytes()).await.unwrap();
        }
        AsyncWriteExt::shutdown(&mut write).await.unwrap();
        let lines = lines.await.unwrap();
        assert!(lines.into_iter().eq((0..100).map(|n| format!("line {n}"))));
        assert_eq!(echo.await.unwrap(), 790);

        let (mut client, mut server): (TcpStream, TcpStream) = pair().await.unwrap();
        server.write_u32(7).await.unwrap();
        assert_eq!(client.read_u32().await.unwrap(), 7);
        let mut rest = Vec::with_capacity(64);
        AsyncWriteExt::write_all(&mut server, b"to the end").await.unwrap();
        drop(server);
        assert_eq!(client.read_to_end(&mut rest).await.unwrap(), 10);
    });
}

/// The traits of the standard library that tokio's sockets have too.
#[test]
fn traits_of_std() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let listener = TcpListener::try_from(std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut stream = TcpStream::try_from(stream).unwrap();
        let address = stream.local_addr().unwrap();
        let (read, write) = stream.split();
        let halves: [&TcpStream; 2] = [read.as_ref(), write.as_ref()];
        assert!(halves.iter().all(|half| half.local_addr().unwrap() == address));
        let (read, write) = stream.into_split();
        let halves: [&TcpStream; 2] = [read.as_ref(), write.as_ref()];
        assert!(halves.iter().all(|half| half.local_addr().unwrap() == address));
        UdpSocket::try_from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        #[cfg(unix)]
        {
            use std::os::fd::AsRawFd;
            use std::os::unix::net;
            use tasuki_rt::net::{UnixDatagram, UnixListener, UnixStream};

            let (one, other) = net::UnixStream::pair().unwrap();
            UnixStream::try_from(one).unwrap();
            other.set_nonblocking(true).unwrap();
            let number = other.as_raw_fd();
            assert_eq!(tasuki_rt::io::Async::new(other).unwrap().as_raw_fd(), number);
            UnixDatagram::try_from(net::UnixDatagram::unbound().unwrap()).unwrap();
            let path = std::env::temp_dir().join(format!("tasuki-rt-traits-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            UnixListener::try_from(net::UnixListener::bind(&path).unwrap()).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    });
}

/// Writes of nothing, to a stream that takes nothing more: each is ready at its first poll, with 0.
#[test]
fn writes_of_nothing_are_ready() {
    /// By the traits of futures-io, tokio and hyper, in one piece and in slices.
    fn by_traits<W: futures_io::AsyncWrite + tokio::io::AsyncWrite + hyper::rt::Write + Unpin>(mut write: W) {
        let mut cx = Context::from_waker(Waker::noop());
        let none = [IoSlice::new(&[]), IoSlice::new(&[])];
        for slices in [&none[..], &[]] {
            let futures = futures_io::AsyncWrite::poll_write_vectored(Pin::new(&mut write), &mut cx, slices);
            assert!(matches!(futures, Poll::Ready(Ok(0))), "futures-io: {futures:?}");
            let tokio = tokio::io::AsyncWrite::poll_write_vectored(Pin::new(&mut write), &mut cx, slices);
            assert!(matches!(tokio, Poll::Ready(Ok(0))), "tokio: {tokio:?}");
            let hyper = hyper::rt::Write::poll_write_vectored(Pin::new(&mut write), &mut cx, slices);
            assert!(matches!(hyper, Poll::Ready(Ok(0))), "hyper: {hyper:?}");
        }
        let futures = futures_io::AsyncWrite::poll_write(Pin::new(&mut write), &mut cx, &[]);
        assert!(matches!(futures, Poll::Ready(Ok(0))), "futures-io: {futures:?}");
        let tokio = tokio::io::AsyncWrite::poll_write(Pin::new(&mut write), &mut cx, &[]);
        assert!(matches!(tokio, Poll::Ready(Ok(0))), "tokio: {tokio:?}");
        let hyper = hyper::rt::Write::poll_write(Pin::new(&mut write), &mut cx, &[]);
        assert!(matches!(hyper, Poll::Ready(Ok(0))), "hyper: {hyper:?}");
    }

    fn at_once<T: std::fmt::Debug>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits"),
        }
    }

    /// Of a stream that is full, and of its halves.
    macro_rules! check {
        ($stream:ident) => {{
            loop {
                while $stream.try_write(&[0; 65536]).is_ok() {}
                let full = tasuki_rt::timeout(20 * MS, $stream.writable()).await;
                if full.is_err() {
                    break;
                }
            }
            assert_eq!(at_once($stream.write(&[])).unwrap(), 0);
            at_once($stream.write_all(&[])).unwrap();
            assert_eq!($stream.try_write(&[]).unwrap(), 0);
            by_traits(&mut $stream);
            let (_read, mut write) = $stream.split();
            assert_eq!(at_once(write.write(&[])).unwrap(), 0);
            by_traits(write);
            assert_eq!($stream.try_write(&[0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            let (read, mut write) = $stream.into_split();
            assert_eq!(at_once(write.write(&[])).unwrap(), 0);
            by_traits(&mut write);
            read.reunite(write).unwrap()
        }};
    }

    let _dog = watchdog(60);
    let (mut stream, _peer) = runtime(1).block_on(async {
        let (mut stream, peer) = pair().await.unwrap();
        #[cfg(unix)]
        {
            let (mut stream, _peer) = tasuki_rt::net::UnixStream::pair().unwrap();
            drop(check!(stream));
        }
        (check!(stream), peer)
    });
    // As every other operation, once the runtime has shut down.
    assert!(at_once(stream.write(&[])).is_err());
    assert!(at_once(stream.write_all(&[])).is_err());
    assert!(stream.try_write(&[]).is_err());
}

/// Reads without room, of a stream that has nothing to read: each is ready at its first poll, with 0, and takes nothing.
#[test]
fn reads_without_room_are_ready() {
    /// By the traits of futures-io, tokio and hyper.
    fn by_traits<R: futures_io::AsyncRead + tokio::io::AsyncRead + hyper::rt::Read + Unpin>(mut read: R) {
        let mut cx = Context::from_waker(Waker::noop());
        let futures = futures_io::AsyncRead::poll_read(Pin::new(&mut read), &mut cx, &mut []);
        assert!(matches!(futures, Poll::Ready(Ok(0))), "futures-io: {futures:?}");
        let mut room = tokio::io::ReadBuf::new(&mut []);
        let tokio = tokio::io::AsyncRead::poll_read(Pin::new(&mut read), &mut cx, &mut room);
        assert!(matches!(tokio, Poll::Ready(Ok(()))), "tokio: {tokio:?}");
        let mut room = hyper::rt::ReadBuf::new(&mut []);
        let hyper = hyper::rt::Read::poll_read(Pin::new(&mut read), &mut cx, room.unfilled());
        assert!(matches!(hyper, Poll::Ready(Ok(()))), "hyper: {hyper:?}");
    }

    fn at_once<T: std::fmt::Debug>(future: impl Future<Output = io::Result<T>>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output.unwrap(),
            Poll::Pending => panic!("it waits"),
        }
    }

    /// Of a stream, by every way, and of its halves. Twice: before and after an operation that found nothing.
    macro_rules! check {
        ($stream:ident, $peer:ident) => {
            for _ in 0..2 {
                assert_eq!(at_once($stream.read(&mut [])), 0);
                at_once($stream.read_exact(&mut []));
                assert_eq!($stream.try_read(&mut []).unwrap(), 0);
                by_traits(&mut $stream);
                let (mut read, _write) = $stream.split();
                assert_eq!(at_once(read.read(&mut [])), 0);
                at_once(read.read_exact(&mut []));
                by_traits(read);
                assert_eq!($stream.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            }
            let (mut read, _write) = $stream.into_split();
            assert_eq!(at_once(read.read(&mut [])), 0);
            at_once(read.read_exact(&mut []));
            by_traits(&mut read);
            $peer.write_all(b"x").await.unwrap();
            let mut byte = [0];
            assert_eq!((read.read(&mut byte).await.unwrap(), byte), (1, *b"x"));
        };
    }

    let _dog = watchdog(60);
    let (mut stream, _peer) = runtime(1).block_on(async {
        let (mut stream, mut peer) = pair().await.unwrap();
        assert_eq!(at_once(stream.peek(&mut [])), 0);
        check!(stream, peer);
        #[cfg(unix)]
        {
            let (mut stream, mut peer) = tasuki_rt::net::UnixStream::pair().unwrap();
            check!(stream, peer);
            let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
            one.set_nonblocking(true).unwrap();
            let mut one = tasuki_rt::io::Async::new(one).unwrap();
            let read =
                |cx: &mut Context<'_>| futures_io::AsyncRead::poll_read(Pin::new(&mut one), cx, &mut []);
            assert_eq!(at_once(poll_fn(read)), 0);
        }
        pair().await.unwrap()
    });
    // As every other operation, once the runtime has shut down.
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(pin!(stream.read(&mut [])).poll(&mut cx), Poll::Ready(Err(_))));
    assert!(matches!(pin!(stream.read_exact(&mut [])).poll(&mut cx), Poll::Ready(Err(_))));
    assert!(stream.try_read(&mut []).is_err());
}
