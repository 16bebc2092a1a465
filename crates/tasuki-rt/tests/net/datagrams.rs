//! UDP, Unix sockets, and descriptors of other kinds.

use super::tcp::LOOPBACK;
use crate::kit::{MS, runtime, watchdog};
use std::future::Future as _;
use std::io::ErrorKind;
use std::sync::Arc;
use tasuki_rt::net::{UdpSocket, lookup_host};
use tasuki_rt::{JoinSet, spawn};

#[test]
fn datagrams_arrive_whole_and_say_from_where() {
    let _dog = watchdog(60);
    runtime(2).block_on(async {
        let (here, there) =
            (UdpSocket::bind(LOOPBACK).await.unwrap(), UdpSocket::bind(LOOPBACK).await.unwrap());
        let mut bytes = [0; 64];
        assert_eq!(there.try_recv_from(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        for length in [0, 1, 63] {
            here.send_to(&vec![7; length], there.local_addr().unwrap()).await.unwrap();
            assert_eq!(there.peek_from(&mut bytes).await.unwrap().0, length);
            let (count, from) = there.recv_from(&mut bytes).await.unwrap();
            assert_eq!((count, from), (length, here.local_addr().unwrap()));
        }
        here.connect(there.local_addr().unwrap()).await.unwrap();
        there.connect(here.local_addr().unwrap()).await.unwrap();
        assert_eq!(here.peer_addr().unwrap(), there.local_addr().unwrap());
        here.send(b"to the peer").await.unwrap();
        there.readable().await.unwrap();
        assert_eq!(there.recv(&mut bytes).await.unwrap(), 11);
        there.writable().await.unwrap();
        assert_eq!(there.try_recv(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(here.try_send(b"tried").unwrap(), 5);
        there.readable().await.unwrap();
        assert_eq!(there.try_peek_from(&mut bytes).unwrap(), (5, here.local_addr().unwrap()));
        assert_eq!(there.try_recv(&mut bytes).unwrap(), 5);
        there.set_ttl(3).unwrap();
        there.set_broadcast(true).unwrap();
        assert_eq!(there.try_send_to(b"x", here.local_addr().unwrap()).unwrap(), 1);
    });
}

/// Several tasks receive from one socket: each datagram goes to one of them.
#[test]
fn tasks_share_a_socket() {
    let _dog = watchdog(60);
    runtime(2).block_on(async {
        const EACH: usize = 50;
        let receiver = Arc::new(UdpSocket::bind(LOOPBACK).await.unwrap());
        let address = receiver.local_addr().unwrap();
        let sender = UdpSocket::bind(LOOPBACK).await.unwrap();
        let mut receivers = JoinSet::new();
        for _ in 0..4 {
            let (receiver, address) = (receiver.clone(), sender.local_addr().unwrap());
            receivers.spawn(async move {
                for _ in 0..EACH {
                    let mut bytes = [0; 8];
                    receiver.recv_from(&mut bytes).await.unwrap();
                    // Loopback drops nothing for which there is room: one datagram at a time.
                    receiver.send_to(b"next", address).await.unwrap();
                }
            });
        }
        for _ in 0..4 * EACH {
            sender.send_to(b"datagram", address).await.unwrap();
            sender.recv_from(&mut [0; 8]).await.unwrap();
        }
        while let Some(ended) = receivers.join_next().await {
            ended.unwrap();
        }
    });
}

/// What was joined can be left, once.
#[test]
fn a_group_is_joined_and_left() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let (group, interface) = ([224, 0, 0, 200].into(), [127, 0, 0, 1].into());
        assert!(socket.leave_multicast_v4(&group, &interface).is_err());
        socket.join_multicast_v4(&group, &interface).unwrap();
        socket.leave_multicast_v4(&group, &interface).unwrap();
        assert!(socket.leave_multicast_v4(&group, &interface).is_err());
    });
}

#[test]
fn names_are_looked_up_on_a_thread_for_it() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let address = "127.0.0.1:80".parse().unwrap();
        assert_eq!(lookup_host("127.0.0.1:80").await.unwrap(), [address]);
        assert_eq!(lookup_host(("127.0.0.1", 80)).await.unwrap(), [address]);
        assert_eq!(lookup_host(("127.0.0.1".to_owned(), 80)).await.unwrap(), [address]);
        assert_eq!(lookup_host(([127, 0, 0, 1], 80)).await.unwrap(), [address]);
        assert_eq!(lookup_host(&[address, address][..]).await.unwrap(), [address, address]);
        assert!(lookup_host(("localhost", 80)).await.unwrap().iter().all(|found| found.ip().is_loopback()));
        assert!(lookup_host("no port").await.is_err());
        let bound = UdpSocket::bind("localhost:0").await.unwrap();
        assert!(bound.local_addr().unwrap().ip().is_loopback());
        let none: &[std::net::SocketAddr] = &[];
        assert_eq!(UdpSocket::bind(none).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[cfg(unix)]
mod unix {
    use super::*;
    use futures_io::{AsyncRead, AsyncWrite};
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::pin::Pin;
    use tasuki_rt::io::Async;
    use tasuki_rt::net::{UnixDatagram, UnixListener, UnixStream};
    use tasuki_rt::sleep;

    fn path(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("tasuki-rt-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    /// The listener has as many connections waiting as it allows. The system refuses the next one for the moment, and does not report when there is room: it is tried again after pauses.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_connect_to_a_full_listener_is_tried_again() {
        let _dog = watchdog(60);
        let path = path("full-listener");
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        socket.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(1).unwrap();
        runtime(1).block_on(async {
            let listener = UnixListener::from_std(socket.into()).unwrap();
            let clients: Vec<_> = (0..8_u8)
                .map(|n| {
                    let path = path.clone();
                    spawn(async move {
                        let mut client = UnixStream::connect(&path).await.unwrap();
                        client.write_all(&[n]).await.unwrap();
                    })
                })
                .collect();
            // More than fit begin before the first is accepted, and one of them is given up.
            tasuki_rt::yield_now().await;
            let limit = std::time::Duration::from_millis(2);
            let given_up = tasuki_rt::timeout(limit, UnixStream::connect(&path)).await;
            assert!(matches!(given_up, Err(_) | Ok(Ok(_))), "{given_up:?}");
            drop(given_up);
            let mut seen = Vec::new();
            while seen.len() < 8 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut byte = [0];
                if stream.read(&mut byte).await.unwrap() == 1 {
                    seen.push(byte[0]);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7]);
            for client in clients {
                client.await.unwrap();
            }
        });
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn streams_connect_and_split() {
        let _dog = watchdog(60);
        let path = path("stream");
        runtime(2).block_on(async {
            assert!(UnixStream::connect(&path).await.is_err(), "no listener");
            let listener = UnixListener::bind(&path).unwrap();
            assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(path.as_path()));
            assert!(listener.take_error().unwrap().is_none());
            let server = spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 64];
                while let count @ 1.. = stream.read(&mut bytes).await.unwrap() {
                    stream.write_all(&bytes[..count]).await.unwrap();
                }
            });
            let client = UnixStream::connect(&path).await.unwrap();
            assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(path.as_path()));
            let (mut read, mut write) = client.into_split();
            for n in 0..50 {
                write.write_all(&[n; 32]).await.unwrap();
                let mut bytes = [0; 32];
                let mut filled = 0;
                while filled < 32 {
                    filled += read.read(&mut bytes[filled..]).await.unwrap();
                }
                assert_eq!(bytes, [n; 32]);
            }
            drop(write);
            assert_eq!(read.read(&mut [0]).await.unwrap(), 0);
            server.await.unwrap();
        });
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn listeners_and_datagrams_move_to_another_runtime() {
        let _dog = watchdog(60);
        let path = path("moved");
        let (own, other) = (runtime(1), runtime(1));
        let listener = own.block_on(async { UnixListener::bind(&path).unwrap().into_std() });
        let (one, two) = own.block_on(async { UnixDatagram::pair().unwrap() });
        let (one, two) = (one.into_std(), two.into_std());
        drop(own);
        other.block_on(async {
            let listener = UnixListener::from_std(listener).unwrap();
            let _client = UnixStream::connect(&path).await.unwrap();
            listener.accept().await.unwrap();
            let (one, two) = (UnixDatagram::from_std(one).unwrap(), UnixDatagram::from_std(two).unwrap());
            one.send(b"moved").await.unwrap();
            assert_eq!(two.recv(&mut [0; 8]).await.unwrap(), 5);
        });
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn datagrams() {
        let _dog = watchdog(60);
        let path = path("datagram");
        runtime(1).block_on(async {
            let (here, there) = UnixDatagram::pair().unwrap();
            let mut bytes = [0; 16];
            here.send(b"one").await.unwrap();
            assert_eq!(there.recv(&mut bytes).await.unwrap(), 3);
            let named = UnixDatagram::bind(&path).unwrap();
            let unnamed = UnixDatagram::unbound().unwrap();
            unnamed.send_to(b"two!", &path).await.unwrap();
            assert_eq!(named.recv_from(&mut bytes).await.unwrap().0, 4);
            assert!(unnamed.peer_addr().is_err(), "none was chosen");
            unnamed.connect(&path).unwrap();
            assert_eq!(unnamed.peer_addr().unwrap().as_pathname(), Some(path.as_path()));
            assert!(unnamed.take_error().unwrap().is_none());
            unnamed.send(b"three").await.unwrap();
            assert_eq!(named.recv(&mut bytes).await.unwrap(), 5);
            assert_eq!(named.try_recv(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(unnamed.try_send(b"tried").unwrap(), 5);
            named.readable().await.unwrap();
            assert_eq!(named.try_recv(&mut bytes).unwrap(), 5);
            let mut sent = 0;
            while unnamed.try_send_to(b"fill", &path).is_ok() {
                sent += 1;
            }
            assert!(sent > 0);
            for _ in 0..sent {
                named.readable().await.unwrap();
                assert_eq!(named.try_recv_from(&mut bytes).unwrap().0, 4);
            }
            // There is room again.
            unnamed.writable().await.unwrap();
            // More than there is room for: the sender waits for the receiver.
            let sender = spawn(async move {
                for n in 0..2_000_u32 {
                    unnamed.send(&n.to_ne_bytes()).await.unwrap();
                }
            });
            for n in 0..2_000_u32 {
                assert_eq!(named.recv(&mut bytes).await.unwrap(), 4);
                assert_eq!(bytes[..4], n.to_ne_bytes());
            }
            sender.await.unwrap();
        });
        std::fs::remove_file(&path).unwrap();
    }

    /// A task that waits for a datagram when that direction is ended has none, as with a socket that blocks. What had come before is received.
    #[test]
    fn an_end_of_what_is_received_ends_the_waits() {
        let _dog = watchdog(60);
        for how in [Shutdown::Read, Shutdown::Both] {
            runtime(2).block_on(async {
                let (here, there) = UnixDatagram::pair().unwrap();
                let here = Arc::new(here);
                let mut waits = JoinSet::new();
                for n in 0..4 {
                    let here = here.clone();
                    waits.spawn(async move {
                        let mut bytes = [0; 8];
                        if n % 2 == 0 {
                            return here.recv(&mut bytes).await.unwrap();
                        }
                        let (count, from) = here.recv_from(&mut bytes).await.unwrap();
                        assert!(count > 0 || from.is_unnamed());
                        count
                    });
                }
                sleep(10 * MS).await;
                here.shutdown(how).unwrap();
                assert_eq!(waits.join_all().await, [0; 4], "{how:?}");
                assert_eq!(here.recv(&mut [0; 8]).await.unwrap(), 0);
                assert_eq!(here.try_recv(&mut [0; 8]).unwrap(), 0);
                assert_eq!(here.try_recv_from(&mut [0; 8]).unwrap().0, 0);
                assert!(there.send(b"late").await.is_err(), "it is not received");
                there.shutdown(Shutdown::Write).unwrap();
                assert_eq!(there.try_recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
                let (here, there) = UnixDatagram::pair().unwrap();
                there.send(b"before").await.unwrap();
                here.shutdown(how).unwrap();
                assert_eq!(here.recv(&mut [0; 8]).await.unwrap(), 6);
                assert_eq!(here.recv(&mut [0; 8]).await.unwrap(), 0);
            });
        }
    }

    /// A sender without a peer cannot wait for room in the queue of a receiver: the system says that it is writable, and each attempt in vain says so anew. It tries
    /// again after pauses, and the datagram arrives when there is room.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_receiver_is_tried_again_after_pauses() {
        let _dog = watchdog(60);
        let path = path("full");
        let runtime = runtime(1);
        runtime.block_on(async {
            let receiver = UnixDatagram::bind(&path).unwrap();
            // Filled by another socket, whose datagrams leave the buffer of our sender empty.
            let other = std::os::unix::net::UnixDatagram::unbound().unwrap();
            other.set_nonblocking(true).unwrap();
            let mut filled = 0;
            while other.send_to(b"filler", &path).is_ok() {
                filled += 1;
            }
            let sender = UnixDatagram::unbound().unwrap();
            let to = path.clone();
            let sending = spawn(async move { sender.send_to(b"at last", &to).await });
            let polls = || runtime.metrics().polls();
            let (begun, before) = (std::time::Instant::now(), polls());
            tasuki_rt::sleep(std::time::Duration::from_millis(300)).await;
            let (polls, milliseconds) = (polls() - before, begun.elapsed().as_millis() as u64);
            // A pause is a millisecond at least, but for the first few: no more polls than there is time for, however slow the machine.
            assert!(polls <= milliseconds + 20, "{polls} polls in {milliseconds} ms");
            assert!(!sending.is_finished(), "there is no room");
            let mut bytes = [0; 16];
            for _ in 0..filled {
                assert_eq!(receiver.recv(&mut bytes).await.unwrap(), 6);
            }
            assert_eq!(receiver.recv(&mut bytes).await.unwrap(), 7);
            assert_eq!(sending.await.unwrap().unwrap(), 7);
        });
        std::fs::remove_file(&path).unwrap();
    }

    /// A flush of a descriptor that buffers nothing is ready, and so is a close, also while there is no room to write and the peer takes nothing: neither waits for that.
    #[test]
    fn a_flush_does_not_wait_for_room() {
        let _dog = watchdog(60);
        runtime(1).block_on(async {
            let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let mut here = Async::new(here).unwrap();
            while here.try_write_with(|mut io| io.write(&[0; 4096])).is_ok() {}
            poll_fn(|cx| Pin::new(&mut here).poll_flush(cx)).await.unwrap();
            poll_fn(|cx| Pin::new(&mut here).poll_close(cx)).await.unwrap();
        });
    }

    /// A pipe between two tasks, through `Async`, by its own functions and by the traits of `futures-io`.
    #[test]
    fn a_pipe() {
        let _dog = watchdog(60);
        for workers in [1, 2] {
            let runtime = runtime(workers);
            runtime.block_on(async {
                let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
                here.set_nonblocking(true).unwrap();
                there.set_nonblocking(true).unwrap();
                let (mut here, mut there) = (Async::new(here).unwrap(), Async::new(there).unwrap());
                assert_eq!(
                    there.try_read_with(|mut io| io.read(&mut [0])).unwrap_err().kind(),
                    ErrorKind::WouldBlock
                );
                let writer = spawn(async move {
                    for n in 0..100_u8 {
                        here.write_with(|mut io| io.write(&[n])).await.unwrap();
                        let written = poll_fn(|cx| Pin::new(&mut here).poll_write(cx, &[n])).await.unwrap();
                        assert_eq!(written, 1);
                        here.writable().await.unwrap();
                    }
                    poll_fn(|cx| Pin::new(&mut here).poll_close(cx)).await.unwrap();
                    here.into_inner()
                });
                for n in 0..100_u8 {
                    let mut byte = [0];
                    assert_eq!(there.read_with(|mut io| io.read(&mut byte)).await.unwrap(), 1);
                    assert_eq!(byte, [n]);
                    there.readable().await.unwrap();
                    assert_eq!(poll_fn(|cx| Pin::new(&mut there).poll_read(cx, &mut byte)).await.unwrap(), 1);
                    assert_eq!(byte, [n]);
                }
                drop(writer.await.unwrap());
                assert_eq!(there.read_with(|mut io| io.read(&mut [0])).await.unwrap(), 0);
            });
        }
    }

    #[test]
    fn what_cannot_be_polled_is_refused() {
        let _dog = watchdog(60);
        runtime(1).block_on(async {
            let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
            assert!(Async::new(file).is_err());
        });
    }
}

/// The panic is of the lookup, and says what it was asked for.
#[test]
fn a_name_is_not_looked_up_outside_of_a_runtime() {
    let looked_up = std::panic::catch_unwind(|| {
        let mut connect = Box::pin(tasuki_rt::net::TcpStream::connect("localhost:1"));
        drop(connect.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())));
    });
    let message = looked_up.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("look up `localhost:1`") && !message.contains("spawn_blocking"), "{message}");
}
