//! Sockets when something goes wrong: resets, ended streams, runtimes that have shut down, sockets of another runtime.

use super::tcp::{LOOPBACK, echo, pair};
use crate::kit::{runtime, until, watchdog};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tasuki_rt::net::{TcpListener, TcpStream, UdpSocket};
use tasuki_rt::{JoinHandle, Runtime, spawn, timeout};

/// A reset ends what waits, in both directions.
#[test]
fn a_reset_wakes_the_reader_and_the_writer() {
    let _dog = watchdog(60);
    for workers in [1, 2] {
        runtime(workers).block_on(async {
            for _ in 0..50 {
                let (client, server) = pair().await.unwrap();
                let (mut read, mut write) = server.into_split();
                let writer = spawn(async move {
                    let bytes = [0; 65536];
                    loop {
                        if let Err(error) = write.write(&bytes).await {
                            return error.kind();
                        }
                    }
                });
                let reader = spawn(async move { read.read(&mut [0]).await.map_err(|error| error.kind()) });
                client.set_linger(Some(Duration::ZERO)).unwrap();
                drop(client);
                let writer = writer.await.unwrap();
                assert!(matches!(writer, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{writer}");
                // The writer may have taken the error of the socket.
                let reader = reader.await.unwrap();
                assert!(matches!(reader, Ok(0) | Err(ErrorKind::ConnectionReset)), "{reader:?}");
            }
        });
    }
}

/// One direction has ended, the other goes on.
#[test]
fn a_half_open_connection() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let (mut client, mut server) = pair().await.unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut bytes = [0; 1024];
        for _ in 0..3 {
            assert_eq!(server.read(&mut bytes).await.unwrap(), 0, "the end stays");
        }
        for _ in 0..100 {
            server.write_all(&[5; 1000]).await.unwrap();
            client.read_exact(&mut bytes[..1000]).await.unwrap();
        }
        drop(server);
        assert_eq!(client.read(&mut bytes).await.unwrap(), 0);
    });
}

/// A peer that says nothing, and is perhaps no more: a read ends by its limit, and has taken nothing; the connection is as before.
#[test]
fn a_read_of_a_silent_peer_ends_by_its_limit() {
    let _dog = watchdog(60);
    for workers in [1, 2] {
        runtime(workers).block_on(async {
            let (mut client, mut server) = pair().await.unwrap();
            let mut bytes = [0; 8];
            for round in 0..5 {
                let limited = timeout(Duration::from_millis(2), server.read(&mut bytes)).await;
                assert!(limited.is_err(), "nothing was sent in round {round}");
                client.write_all(b"here").await.unwrap();
                assert_eq!(server.read(&mut bytes).await.unwrap(), 4);
            }
            server.set_keepalive(Some(Duration::from_secs(1))).unwrap();
            assert!(server.keepalive().unwrap());
        });
    }
}

/// A peer that takes nothing more is given up: the write that waits for room ends, and so does every operation after it.
#[cfg(target_os = "linux")]
#[test]
fn a_peer_that_takes_nothing_is_given_up() {
    let _dog = watchdog(120);
    for workers in [1, 2] {
        runtime(workers).block_on(async {
            let (client, mut server) = pair().await.unwrap();
            assert_eq!(server.user_timeout().unwrap(), None);
            server.set_user_timeout(Some(Duration::from_millis(200))).unwrap();
            assert_eq!(server.user_timeout().unwrap(), Some(Duration::from_millis(200)));
            let error = loop {
                if let Err(error) = server.write_all(&[0; 65_536]).await {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            assert!(server.write_all(b"x").await.is_err());
            assert_eq!(server.read(&mut [0]).await.unwrap(), 0, "the error was told, and this is the end");
            drop(client);
        });
    }
}

/// Each kind of socket goes to the standard library, and from there to another runtime, for good.
#[test]
fn every_socket_moves_to_another_runtime() {
    let _dog = watchdog(60);
    let (own, other) = (runtime(1), runtime(1));
    let listener = own.block_on(TcpListener::bind(LOOPBACK)).unwrap().into_std();
    let datagrams = own.block_on(UdpSocket::bind(LOOPBACK)).unwrap().into_std();
    drop(own);
    other.block_on(async {
        let listener = TcpListener::from_std(listener).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        listener.accept().await.unwrap();
        let datagrams = UdpSocket::from_std(datagrams).unwrap();
        datagrams.send_to(b"self", datagrams.local_addr().unwrap()).await.unwrap();
        assert_eq!(datagrams.recv_from(&mut [0; 8]).await.unwrap().0, 4);
    });
}

/// A port that is taken and on which no socket listens: a connect is refused for as long as the socket is kept.
fn deaf_port() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(LOOPBACK).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

#[test]
fn a_refused_connection_is_an_error() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let (_deaf, address) = deaf_port();
        assert!(TcpListener::bind(address).await.is_err(), "the address is in use");
        assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // The second of two addresses answers.
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let both = [address, listener.local_addr().unwrap()];
        assert_eq!(TcpStream::connect(&both[..]).await.unwrap().peer_addr().unwrap(), both[1]);
    });
}

#[test]
fn without_a_runtime_and_in_a_simulation_there_are_no_sockets() {
    let _dog = watchdog(60);
    let std = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = UdpSocket::from_std(std()).unwrap_err();
    assert!(error.to_string().contains("no runtime on this thread"), "{error}");
    tasuki_rt::testing::check(1, || async {
        let error = TcpListener::bind("127.0.0.1:0").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    });
}

/// A socket is used by tasks of another runtime; its own goes, and every operation is an error, also one that waits.
#[test]
fn a_socket_on_another_runtime_and_after_its_own() {
    let _dog = watchdog(60);
    let (own, other) = (runtime(2), runtime(2));
    let (mut client, mut server) = own.block_on(pair()).unwrap();
    let echoing = other.spawn(async move {
        let mut byte = [0];
        for n in 0..100 {
            client.write_all(&[n]).await.unwrap();
            client.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, [n]);
        }
        client
    });
    let answering = own.spawn(async move {
        let mut byte = [0];
        for _ in 0..100 {
            server.read_exact(&mut byte).await.unwrap();
            server.write_all(&byte).await.unwrap();
        }
        server
    });
    let mut client = other.block_on(echoing).unwrap();
    let server = own.block_on(answering).unwrap();
    let waits = Arc::new(AtomicUsize::new(0));
    let begun = waits.clone();
    let waiting = other.spawn(async move {
        begun.fetch_add(1, Ordering::SeqCst);
        let by_slot = client.read(&mut [0]).await.unwrap_err();
        let by_queue = client.readable().await.unwrap_err();
        (client, by_slot, by_queue)
    });
    until(|| waits.load(Ordering::SeqCst) == 1);
    drop(own);
    let (mut client, by_slot, by_queue) = other.block_on(waiting).unwrap();
    for error in [by_slot, by_queue] {
        assert!(error.to_string().contains("runtime of this socket has shut down"), "{error}");
    }
    other.block_on(async {
        assert!(client.write(b"x").await.is_err() && client.try_read(&mut [0]).is_err());
        // Also what has nothing to do.
        assert!(client.read(&mut []).await.is_err() && client.read_exact(&mut []).await.is_err());
        assert!(client.peek(&mut []).await.is_err() && client.write_all(&[]).await.is_err());
        // The sockets themselves are as they were, and can be taken elsewhere.
        let (client, server) = (client.into_std(), server.into_std());
        let (mut client, mut server) =
            (TcpStream::from_std(client).unwrap(), TcpStream::from_std(server).unwrap());
        client.write_all(b"again").await.unwrap();
        server.read_exact(&mut [0; 5]).await.unwrap();
    });
}

/// A thread in `block_on`, and a closure of `spawn_blocking`, wait for a socket of a runtime that shuts down: they are told, and the shutdown ends.
#[test]
fn a_shutdown_ends_the_waits_of_threads() {
    let _dog = watchdog(60);
    for _ in 0..20 {
        let runtime = Arc::new(runtime(2));
        let (client, mut server) = runtime.block_on(pair()).unwrap();
        let (inner, other) = (runtime.clone(), Runtime::builder().workers(1).build().unwrap());
        let blocked = runtime.spawn_blocking(move || {
            drop(inner);
            other.block_on(server.read(&mut [0])).unwrap_err()
        });
        runtime.shutdown_timeout(Duration::MAX).unwrap();
        drop((client, blocked));
    }
}

/// Connections in every state go down with their runtime, and its tasks with them.
#[test]
fn a_shutdown_with_open_connections() {
    let _dog = watchdog(60);
    for workers in [1, 3] {
        let runtime = runtime(workers);
        let listener = Arc::new(runtime.block_on(TcpListener::bind(LOOPBACK)).unwrap());
        let (address, listens) = (listener.local_addr().unwrap(), Arc::downgrade(&listener));
        let server = runtime.spawn(async move {
            loop {
                drop(spawn(echo(listener.accept().await.unwrap().0)));
            }
        });
        runtime.start().unwrap();
        let mut clients: Vec<_> = (0..100).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        clients.iter_mut().step_by(2).for_each(|client| std::io::Write::write_all(client, b"hello").unwrap());
        until(|| runtime.tasks() == 101);
        runtime.shutdown_timeout(Duration::MAX).unwrap();
        assert_eq!(runtime.tasks(), 0);
        assert!(JoinHandle::is_finished(&server));
        assert!(listens.upgrade().is_none(), "the listener was closed");
        for client in &mut clients {
            // The answer of those that asked, if there was time for it, and the end.
            let ended = std::io::copy(client, &mut std::io::sink()).map_err(|error| error.kind());
            assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
        }
    }
}

/// Sockets are closed while others are opened, on several workers: a token that is used again reports to the right task.
#[test]
fn sockets_come_and_go() {
    let _dog = watchdog(60);
    let runtime = runtime(3);
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            runtime.spawn(async {
                for n in 0..100_u8 {
                    let (mut client, mut server) = pair().await.unwrap();
                    client.write_all(&[n]).await.unwrap();
                    if n % 3 == 0 {
                        continue;
                    }
                    let mut byte = [0];
                    server.read_exact(&mut byte).await.unwrap();
                    assert_eq!(byte, [n]);
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
}

/// A read ends at the mark of urgent data, though more is there: the rest is read too. The urgent byte itself is not part of the stream.
#[cfg(unix)]
#[test]
fn urgent_data_does_not_stop_a_read() {
    use std::future::{Future, poll_fn};
    use std::task::Poll;

    let _dog = watchdog(60);
    for workers in [1, 2] {
        runtime(workers).block_on(async {
            for round in 0..50_u8 {
                let (client, mut server) = pair().await.unwrap();
                let client = client.into_std();
                let out_of_band = socket2::SockRef::from(&client);
                let mut bytes = [0; 64];
                // All of it is there before the first read, and again while the reader waits.
                for turn in 0..2 {
                    let reader = async {
                        let mut all = Vec::new();
                        while all.len() < 6 {
                            match server.read(&mut bytes).await.unwrap() {
                                0 => panic!("the peer is there"),
                                count => all.extend_from_slice(&bytes[..count]),
                            }
                        }
                        all
                    };
                    let write = || {
                        out_of_band.send(b"abc").unwrap();
                        out_of_band.send_out_of_band(&[round]).unwrap();
                        out_of_band.send(b"def").unwrap();
                    };
                    let mut reader = std::pin::pin!(reader);
                    if turn == 1 {
                        let polled = poll_fn(|cx| Poll::Ready(reader.as_mut().poll(cx))).await;
                        assert!(polled.is_pending(), "nothing was sent");
                    }
                    write();
                    assert_eq!(reader.await, b"abcdef");
                }
            }
        });
    }
}
