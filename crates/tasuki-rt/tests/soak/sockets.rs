//! Sockets: connections come and go, are reset, and have reads and accepts that are cancelled. What was sent comes through, once and in order.

use crate::kit::rng::Rng;
use crate::ops::{glance, short};
use crate::shared_state::SharedState;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tasuki_rt::net::{TcpListener, TcpStream, UdpSocket};
use tasuki_rt::{JoinSet, sleep, timeout, yield_now};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// A connection, and what is done with it. Where no socket can be had, because the runtime is about to end or the process has no descriptor left, nothing is.
pub(crate) async fn converse(shared: &Arc<SharedState>, rng: &mut Rng) {
    // So many at a time, whatever the crowd: a process has a thousand descriptors.
    let Ok(_line) = shared.lines.try_acquire() else { return };
    match rng.below(8) {
        0 => drop(datagrams(shared, rng).await),
        1 => drop(lone_listener(rng).await),
        way => {
            let Ok((client, server)) = connect(rng).await else { return };
            match way {
                2 => reset(client, server, rng).await,
                3 => drop((client, server)),
                _ => send_and_receive(shared, client, server, rng).await,
            }
        }
    }
}

/// Both ends. The accept may be cancelled and begun again: the connection waits for it.
async fn connect(rng: &mut Rng) -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(LOOPBACK).await?;
    if rng.per_mille(300) {
        glance(listener.accept(), rng).await;
    }
    let client = TcpStream::connect(listener.local_addr()?).await?;
    // The ports of ended connections are free at once: there are thousands of them.
    client.set_linger(Some(Duration::ZERO))?;
    let server = loop {
        if rng.per_mille(300) {
            if let Ok(accepted) = timeout(short(rng), listener.accept()).await {
                break accepted?.0;
            }
        } else {
            break listener.accept().await?.0;
        }
    };
    server.set_linger(Some(Duration::ZERO))?;
    Ok((client, server))
}

/// The n-th byte of every conversation.
fn byte(n: usize) -> u8 {
    (n % 251) as u8
}

/// One side writes as it likes, the other reads with cancelled reads between: every byte comes, in order.
async fn send_and_receive(
    shared: &Arc<SharedState>,
    mut client: TcpStream,
    server: TcpStream,
    rng: &mut Rng,
) {
    let length = [1, 100, 10_000, 300_000][rng.below(4)];
    let mut set = JoinSet::new();
    let (seed, received, sender) = (rng.next(), shared.clone(), Sender::default());
    let has_gone = sender.0.clone();
    set.spawn(async move {
        if receive(server, length, Rng::new(seed), &has_gone).await {
            received.received.fetch_add(length as u64, SeqCst);
        }
    });
    let bytes: Vec<u8> = (0..length).map(byte).collect();
    let sent = send(&mut client, &bytes, rng).await;
    while let Some(ended) = set.join_next().await {
        // It has all. Or it was refused, because the runtime shuts down: then its stream was dropped, and this is the last poll of the sender.
        match ended {
            Ok(()) => assert!(sent.is_ok(), "{sent:?}"),
            Err(error) => assert!(!error.is_panic(), "{error}"),
        }
    }
}

/// Writes all, in pieces, with pauses and writes that are cancelled between.
async fn send(client: &mut TcpStream, bytes: &[u8], rng: &mut Rng) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        let piece = &bytes[sent..(sent + 1 + rng.below(8_192)).min(bytes.len())];
        match rng.below(10) {
            0 => sleep(short(rng)).await,
            1 => yield_now().await,
            // A write that is cancelled has written nothing.
            2 => sent += timeout(Duration::ZERO, client.write(piece)).await.unwrap_or(Ok(0))?,
            _ => sent += client.write(piece).await?,
        }
    }
    Ok(())
}

/// Tells the receiver that the sender's task was dropped: its stream is dropped after this.
#[derive(Default)]
struct Sender(Arc<AtomicBool>);

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Every byte; false if the sender was aborted.
async fn receive(mut server: TcpStream, length: usize, mut rng: Rng, has_gone: &AtomicBool) -> bool {
    let (mut room, mut filled) = (vec![0; 4_096], 0);
    while filled < length {
        let most = 1 + rng.below(room.len());
        let into = &mut room[..most];
        let count = match rng.below(6) {
            0 => match timeout(short(&mut rng), server.read(into)).await {
                Ok(count) => count,
                Err(_) => continue,
            },
            1 => {
                glance(server.readable(), &mut rng).await;
                continue;
            }
            2 => match server.try_read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    yield_now().await;
                    continue;
                }
                count => count,
            },
            _ => server.read(into).await,
        };
        let count = match count {
            // It was in this poll when its sender was aborted, with which it would have been.
            Err(error) if error.kind() == ErrorKind::ConnectionReset && has_gone.load(SeqCst) => {
                return false;
            }
            count => count.expect("the peer is there"),
        };
        assert!(count > 0, "the end came after {filled} bytes of {length}");
        for (at, got) in into[..count].iter().enumerate() {
            assert_eq!(*got, byte(filled + at), "byte {} of {length}", filled + at);
        }
        filled += count;
    }
    assert_eq!(filled, length);
    true
}

/// The peer resets while a task reads: the read ends.
async fn reset(client: TcpStream, mut server: TcpStream, rng: &mut Rng) {
    let patience = short(rng);
    let mut set = JoinSet::new();
    set.spawn(async move {
        let ended = server.read(&mut [0; 16]).await.map_err(|error| error.kind());
        assert!(matches!(ended, Ok(0) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
    });
    if rng.per_mille(500) {
        sleep(patience).await;
    }
    drop(client);
    while let Some(ended) = set.join_next().await {
        assert!(!ended.is_err_and(|error| error.is_panic()));
    }
}

/// Datagrams that answer each other, one at a time: loopback loses none.
async fn datagrams(shared: &SharedState, rng: &mut Rng) -> io::Result<()> {
    let (here, there) = (UdpSocket::bind(LOOPBACK).await?, UdpSocket::bind(LOOPBACK).await?);
    let address = there.local_addr()?;
    for n in 0..1 + rng.below(20) as u8 {
        if rng.per_mille(300) {
            glance(there.recv_from(&mut [0; 8]), rng).await;
        }
        here.send_to(&[n; 8], address).await?;
        let mut bytes = [0; 8];
        let (count, _) = there.recv_from(&mut bytes).await?;
        assert_eq!((count, bytes), (8, [n; 8]), "a cancelled receive took a datagram");
        shared.received.fetch_add(8, SeqCst);
    }
    Ok(())
}

/// Tasks that accept where no connection comes, and are cancelled.
async fn lone_listener(rng: &mut Rng) -> io::Result<()> {
    let listener = Arc::new(TcpListener::bind(LOOPBACK).await?);
    let mut set = JoinSet::new();
    for _ in 0..1 + rng.below(3) {
        let listener = listener.clone();
        set.spawn(async move { listener.accept().await.map(drop) });
    }
    sleep(short(rng)).await;
    set.abort_all();
    while set.join_next().await.is_some() {}
    Ok(())
}
