//! TCP: what a connection and a listener do.

use crate::kit::{runtime, until, watchdog};
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use tasuki_rt::net::{TcpListener, TcpStream};
use tasuki_rt::{JoinSet, spawn};

pub(super) const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// A connection, both of its ends.
pub(super) async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(LOOPBACK).await?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    Ok((client, listener.accept().await?.0))
}

/// Answers every byte, until the peer ends.
pub(super) async fn echo(mut stream: TcpStream) -> io::Result<usize> {
    let (mut bytes, mut total) = ([0; 1024], 0);
    loop {
        match stream.read(&mut bytes).await? {
            0 => return Ok(total),
            count => stream.write_all(&bytes[..count]).await?,
        }
        total += 1;
    }
}

#[test]
fn many_connections_are_echoed_on_any_number_of_workers() {
    let _dog = watchdog(60);
    for workers in [1, 2, 4] {
        const CONNECTIONS: usize = 50;
        const ROUNDS: usize = 40;
        let runtime = runtime(workers);
        let listener = runtime.block_on(TcpListener::bind(LOOPBACK)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = runtime.spawn(async move {
            let mut connections = JoinSet::new();
            for _ in 0..CONNECTIONS {
                connections.spawn(echo(listener.accept().await.unwrap().0));
            }
            while let Some(ended) = connections.join_next().await {
                ended.unwrap().unwrap();
            }
        });
        let clients: Vec<_> = (0..CONNECTIONS).map(|n| runtime.spawn(client(address, n, ROUNDS))).collect();
        for client in clients {
            runtime.block_on(client).unwrap().unwrap();
        }
        runtime.block_on(server).unwrap();
    }
}

async fn client(address: SocketAddr, number: usize, rounds: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    for round in 0..rounds {
        let sent = vec![(number ^ round) as u8; 1 + number * round];
        let (mut read, mut write) = stream.split();
        let mut received = vec![0; sent.len()];
        // The answer to a long one begins before its end was sent.
        both(write.write_all(&sent), read.read_exact(&mut received)).await?;
        assert_eq!(sent, received);
    }
    Ok(())
}

/// Two futures of one task, until both have ended.
async fn both(
    one: impl Future<Output = io::Result<()>>,
    other: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let mut ended = [false; 2];
    poll_fn(|cx| {
        if !ended[0] {
            if let Poll::Ready(result) = one.as_mut().poll(cx) {
                result?;
                ended[0] = true;
            }
        }
        if !ended[1] {
            if let Poll::Ready(result) = other.as_mut().poll(cx) {
                result?;
                ended[1] = true;
            }
        }
        if ended == [true; 2] { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// A writer that is faster than its reader waits for room, and loses nothing.
#[test]
fn a_writer_waits_for_room() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.block_on(async {
        const BYTES: usize = 8 << 20;
        let (mut client, server) = pair().await.unwrap();
        let writer = spawn(async move {
            let (_, mut write) = server.into_split();
            let bytes: Vec<u8> = (0..BYTES).map(|n| (n * 7 / 3) as u8).collect();
            write.write_all(&bytes).await.unwrap();
            bytes
        });
        let mut received = Vec::new();
        let mut bytes = [0; 4096];
        while let count @ 1.. = client.read(&mut bytes).await.unwrap() {
            received.extend_from_slice(&bytes[..count]);
        }
        assert!(received == writer.await.unwrap(), "the bytes come in order, and all of them");
    });
}

/// A short read says that there is no more for now; what comes afterwards, the end included, is noticed.
#[test]
fn after_a_short_read_more_and_the_end_are_noticed() {
    let _dog = watchdog(60);
    for workers in [1, 2] {
        let runtime = runtime(workers);
        runtime.block_on(async {
            for _ in 0..200 {
                let (mut client, mut server) = pair().await.unwrap();
                let reader = spawn(async move {
                    let (mut bytes, mut total) = ([0; 64], 0);
                    while let count @ 1.. = server.read(&mut bytes).await.unwrap() {
                        total += count;
                    }
                    total
                });
                for _ in 0..3 {
                    client.write_all(b"abc").await.unwrap();
                    tasuki_rt::yield_now().await;
                }
                drop(client);
                assert_eq!(reader.await.unwrap(), 9);
            }
        });
    }
}

#[test]
fn halves_end_their_directions_and_reunite() {
    let _dog = watchdog(60);
    runtime(1).block_on(async {
        let (client, mut server) = pair().await.unwrap();
        let (mut read, mut write) = client.into_split();
        write.write_all(b"question").await.unwrap();
        drop(write);
        let mut bytes = [0; 64];
        assert_eq!(server.read(&mut bytes).await.unwrap(), 8);
        assert_eq!(server.read(&mut bytes).await.unwrap(), 0, "the half that writes was dropped");
        server.write_all(b"answer").await.unwrap();
        read.read_exact(&mut bytes[..5]).await.unwrap();
        assert_eq!(read.read(&mut bytes[5..]).await.unwrap(), 1);
        assert_eq!(&bytes[..6], b"answer");
        drop(server);
        assert_eq!(read.read_exact(&mut bytes).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);

        let (one, other) = pair().await.unwrap();
        let ((read_one, write_one), (read_other, write_other)) = (one.into_split(), other.into_split());
        let error = read_one.reunite(write_other).expect_err("two streams");
        assert!(error.to_string().contains("two streams"));
        let mut one = error.0.reunite(write_one).expect("one stream");
        let mut other = read_other.reunite(error.1).expect("one stream");
        one.write_all(b"still open").await.unwrap();
        assert_eq!(other.read(&mut bytes).await.unwrap(), 10);
    });
}

#[test]
fn a_cancelled_operation_has_done_nothing() {
    let _dog = watchdog(60);
    runtime(2).block_on(async {
        let (mut client, mut server) = pair().await.unwrap();
        let mut bytes = [0; 8];
        for round in 0..50_u8 {
            // Enqueued, then dropped: by the slot, and by the queue.
            let mut cx = Context::from_waker(Waker::noop());
            assert!(pin!(server.read(&mut bytes)).poll(&mut cx).is_pending());
            assert!(pin!(server.peek(&mut bytes)).poll(&mut cx).is_pending());
            assert!(pin!(server.readable()).poll(&mut cx).is_pending());
            client.write_all(&[round]).await.unwrap();
            assert_eq!(server.peek(&mut bytes).await.unwrap(), 1);
            assert_eq!((server.read(&mut bytes).await.unwrap(), bytes[0]), (1, round));
            assert_eq!(server.try_read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}

/// Tasks that share a socket: all are told, and each byte is read once.
#[test]
fn several_tasks_wait_for_one_socket() {
    let _dog = watchdog(60);
    for workers in [1, 3] {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let (mut client, server) = pair().await.unwrap();
            let (server, read) = (Arc::new(server), Arc::new(AtomicUsize::new(0)));
            const BYTES: usize = 300;
            let mut readers = JoinSet::new();
            for _ in 0..6 {
                let (server, read) = (server.clone(), read.clone());
                readers.spawn(async move {
                    loop {
                        server.readable().await.unwrap();
                        match server.try_read(&mut [0]) {
                            Ok(0) => return,
                            Ok(count) => drop(read.fetch_add(count, Ordering::SeqCst)),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                        }
                    }
                });
            }
            for _ in 0..BYTES {
                client.write_all(b"x").await.unwrap();
                tasuki_rt::yield_now().await;
            }
            drop(client);
            while let Some(ended) = readers.join_next().await {
                ended.unwrap();
            }
            assert_eq!(read.load(Ordering::SeqCst), BYTES);
        });
    }
}

#[test]
fn several_tasks_accept_from_one_listener() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.block_on(async {
        let listener = Arc::new(TcpListener::bind(LOOPBACK).await.unwrap());
        let address = listener.local_addr().unwrap();
        let mut accepting = JoinSet::new();
        for _ in 0..4 {
            let listener = listener.clone();
            accepting.spawn(async move {
                for _ in 0..25 {
                    listener.accept().await.unwrap();
                }
            });
        }
        let connect = std::thread::spawn(move || {
            (0..100).for_each(|_| drop(std::net::TcpStream::connect(address).unwrap()));
        });
        while let Some(ended) = accepting.join_next().await {
            ended.unwrap();
        }
        connect.join().unwrap();
    });
}

/// To the standard library and back; what was waited for before is forgotten.
#[test]
fn sockets_come_from_the_standard_library_and_go_back() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.block_on(async {
        let (client, mut server) = pair().await.unwrap();
        let mut client = client.into_std();
        client.set_nonblocking(false).unwrap();
        server.write_all(b"for a thread").await.unwrap();
        let mut bytes = [0; 12];
        client.read_exact(&mut bytes).unwrap();
        client.write_all(b"for a task").unwrap();
        let mut client = TcpStream::from_std(client).unwrap();
        let mut bytes = [0; 10];
        server.read_exact(&mut bytes).await.unwrap();
        server.write_all(&bytes).await.unwrap();
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"for a task");
        assert_eq!(
            client.read_exact(&mut []).await.map_err(|error| error.kind()),
            Ok(()),
            "nothing is read at once"
        );
        drop(server);
        let end = client.read_exact(&mut bytes).await.unwrap_err();
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    });
}

/// A loop over a socket that is always ready lets another task of its worker run.
#[test]
fn the_budget_bounds_a_task_whose_socket_is_always_ready() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let rounds = Arc::new(AtomicUsize::new(0));
    let seen = rounds.clone();
    let task = runtime.spawn(async move {
        let (_client, server) = pair().await.unwrap();
        // The other task ends this one, and has one worker with it.
        let spinning = spawn(async move {
            loop {
                server.writable().await.unwrap();
                rounds.fetch_add(1, Ordering::SeqCst);
            }
        });
        tasuki_rt::yield_now().await;
        while seen.load(Ordering::SeqCst) == 0 {
            tasuki_rt::yield_now().await;
        }
        spinning.abort();
        assert!(spinning.await.unwrap_err().is_aborted());
    });
    runtime.block_on(task).unwrap();
}

/// A worker that always has something to do asks the system for its sockets all the same.
#[test]
fn sockets_do_not_starve_behind_ready_tasks() {
    let _dog = watchdog(60);
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let busy: Vec<_> = (0..workers * 3)
            .map(|_| {
                runtime.spawn(async {
                    loop {
                        tasuki_rt::yield_now().await;
                    }
                })
            })
            .collect();
        let talk = runtime.spawn(async {
            let (mut client, server) = pair().await.unwrap();
            let server = spawn(echo(server));
            for _ in 0..20 {
                client.write_all(b"ping").await.unwrap();
                client.read_exact(&mut [0; 4]).await.unwrap();
            }
            drop(client);
            server.await.unwrap().unwrap();
        });
        runtime.block_on(talk).unwrap();
        busy.iter().for_each(tasuki_rt::JoinHandle::abort);
        until(|| runtime.tasks() == 0);
    }
}

/// The worker that polled runs a closure that does not return; the other one waits for the sockets in its place.
#[test]
fn a_long_poll_does_not_keep_the_sockets_from_the_others() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    for _ in 0..20 {
        runtime.block_on(async {
            let (mut client, server) = pair().await.unwrap();
            let (mut other, peer) = pair().await.unwrap();
            let server = spawn(echo(server));
            let held = Arc::new(std::sync::Barrier::new(2));
            let release = held.clone();
            let holder = spawn(async move {
                let mut peer = peer;
                peer.read_exact(&mut [0]).await.unwrap();
                // It holds its worker until the echo was heard.
                held.wait();
            });
            other.write_all(b"x").await.unwrap();
            for _ in 0..5 {
                client.write_all(b"ping").await.unwrap();
                client.read_exact(&mut [0; 4]).await.unwrap();
            }
            release.wait();
            holder.await.unwrap();
            drop(client);
            server.await.unwrap().unwrap();
        });
    }
}
