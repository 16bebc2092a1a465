//! The rows of sockets in the table of awaitables (`budget_table.rs`).

use super::budget_table::{ENOUGH, Other, Outcome, Row, is_ready_at_once, row};
use std::io::{Read, Write};
use tasuki_rt::net::{TcpListener, TcpStream, UdpSocket, lookup_host};
use tasuki_rt::yield_now;

/// More than the budget of a poll: so many bytes, datagrams or connections wait to be taken.
const WAITING: usize = 200;
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// A stream with bytes to read and room to write; its peer, which must live as long.
async fn stream() -> (TcpStream, std::net::TcpStream) {
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

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        row!(
            "stream, ready",
            ["readable", "writable"],
            {
                let (stream, _peer) = stream().await;
            },
            {
                stream.readable().await.unwrap();
                stream.writable().await.unwrap();
            }
        ),
        row!(
            "stream, read",
            ["read", "read_exact"],
            {
                let (mut stream, _peer) = stream().await;
            },
            {
                stream.read(&mut [0]).await.unwrap();
                stream.read_exact(&mut [0]).await.unwrap();
            }
        ),
        row!(
            "stream, read only",
            [],
            {
                let (mut stream, _peer) = stream().await;
            },
            stream.read(&mut [0]).await.unwrap()
        ),
        row!(
            "stream, write",
            ["write", "write_all"],
            {
                let (mut stream, _peer) = stream().await;
            },
            {
                stream.write(&[0]).await.unwrap();
                stream.write_all(&[0]).await.unwrap();
            }
        ),
        row!(
            "stream, peek",
            ["peek"],
            {
                let (stream, _peer) = stream().await;
            },
            stream.peek(&mut [0]).await.unwrap()
        ),
        row!(
            "datagrams, from",
            ["recv_from", "peek_from"],
            {
                let (socket, _peer) = datagrams().await;
            },
            {
                socket.peek_from(&mut [0]).await.unwrap();
                socket.recv_from(&mut [0]).await.unwrap();
            }
        ),
        row!(
            "datagrams",
            ["recv", "send", "send_to"],
            {
                let (socket, peer) = datagrams().await;
                let address = peer.local_addr().unwrap();
            },
            {
                socket.recv(&mut [0]).await.unwrap();
                socket.send(b"x").await.unwrap();
                let _ = socket.send_to(b"x", address).await;
            }
        ),
        row!(
            "listener",
            ["accept"],
            {
                let listener = TcpListener::bind(LOOPBACK).await.unwrap();
                let address = listener.local_addr().unwrap();
                let connect = |_| std::net::TcpStream::connect(address).unwrap();
                let _peers: Vec<_> = (0..WAITING).map(connect).collect();
            },
            drop(listener.accept().await.unwrap())
        ),
        row!("names", ["lookup_host"], {}, lookup_host(LOOPBACK).await.unwrap()),
        row!("bind", ["bind"], {}, drop(UdpSocket::bind(LOOPBACK).await.unwrap())),
        row!(
            "connect",
            ["connect"],
            {
                let (socket, peer) = datagrams().await;
                let address = peer.local_addr().unwrap();
            },
            socket.connect(address).await.unwrap()
        ),
    ];
    #[cfg(unix)]
    rows.push(row!(
        "descriptor",
        ["read_with", "write_with"],
        {
            let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
            one.set_nonblocking(true).unwrap();
            other.write_all(&[7; 10 * WAITING]).unwrap();
            let one = tasuki_rt::io::Async::new(one).unwrap();
        },
        {
            one.read_with(|mut io| io.read(&mut [0])).await.unwrap();
            one.write_with(|mut io| io.write(&[0])).await.unwrap();
        }
    ));
    rows
}
