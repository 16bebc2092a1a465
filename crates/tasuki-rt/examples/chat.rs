//! A chat over TCP: the first line of a client is its name, every other line goes to all the others.
//!
//! `cargo run -p tasuki-rt --example chat [PORT]`. SIGTERM or Ctrl-C drains it: the clients are told, what was said before reaches them, and then all end.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tasuki::channel::{self, Receiver, Sender};
use tasuki::{CancellationSource, CancellationToken, Mutex, WaitGroup};
use tasuki_rt::net::{OwnedReadHalf, OwnedWriteHalf, TcpListener, TcpStream};

/// A client that has so many lines to read gets no more: one that does not read must not hold up the others.
const PENDING: usize = 256;

/// The clients that are there, by the number of the connection.
type Clients = HashMap<u64, Sender<Arc<str>>>;
type Room = Mutex<Clients>;

fn main() -> io::Result<()> {
    let port =
        std::env::args().nth(1).map_or(0, |port| port.parse().expect("a port is a number below 65536"));
    tasuki_rt::run(async move {
        let listener = TcpListener::bind(([127, 0, 0, 1], port)).await?;
        println!("listening on {}", listener.local_addr()?);
        let (stop, room, clients) =
            (CancellationSource::new(), Arc::new(Room::default()), Arc::new(WaitGroup::new()));
        let token = stop.token();
        drop(tasuki_rt::spawn(async move {
            end_of_service().await;
            stop.request_cancel();
        }));
        let mut number = 0;
        while let Some(accepted) = token.run_until_cancelled(listener.accept()).await {
            let Ok((stream, _)) = accepted else { continue };
            number += 1;
            let (room, token, member) = (room.clone(), token.clone(), clients.clone().member_owned());
            drop(tasuki_rt::spawn(async move {
                let _member = member;
                attend(stream, number, &room, &token).await;
            }));
        }
        drop(listener);
        clients.wait().await;
        println!("drained after {number} clients");
        Ok(())
    })
}

async fn end_of_service() {
    #[cfg(unix)]
    {
        use std::future::Future;
        use std::pin::pin;
        use std::task::Poll;
        use tasuki_rt::signal::unix::{SignalKind, signal};
        let [mut interrupt, mut terminate] =
            [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).expect("a handler"));
        let (mut interrupt, mut terminate) = (pin!(interrupt.recv()), pin!(terminate.recv()));
        std::future::poll_fn(|cx| {
            let ends = interrupt.as_mut().poll(cx).is_ready() || terminate.as_mut().poll(cx).is_ready();
            if ends { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    #[cfg(not(unix))]
    tasuki_rt::signal::ctrl_c().await.expect("a handler");
}

/// One client, from its name to its end.
async fn attend(stream: TcpStream, number: u64, room: &Room, token: &CancellationToken) {
    let (read, write) = stream.into_split();
    let (sender, receiver) = channel::bounded(PENDING);
    let writer = tasuki_rt::spawn(deliver(write, receiver));
    let mut lines = Lines { read, pending: Vec::new() };
    if let Some(Ok(Some(name))) = token.run_until_cancelled(lines.next()).await {
        enter(&mut *room.lock().await, number, &name, &sender);
        while let Some(Ok(Some(line))) = token.run_until_cancelled(lines.next()).await {
            say(&*room.lock().await, number, &format!("{name}: {line}"));
        }
        if token.stop_requested() {
            room.lock().await.remove(&number);
            let _ = sender.send("the chat ends".into()).await;
        } else {
            leave(&mut *room.lock().await, number, &name);
        }
    }
    // With the last sender the writer ends, after what is pending.
    drop(sender);
    let _ = writer.await;
}

/// A client hears of all that enter after it, and of none that entered before: both steps are in one hold of the room.
fn enter(clients: &mut Clients, number: u64, name: &str, sender: &Sender<Arc<str>>) {
    say(clients, number, &format!("{name} is here"));
    clients.insert(number, sender.clone());
}

fn leave(clients: &mut Clients, number: u64, name: &str) {
    clients.remove(&number);
    say(clients, number, &format!("{name} has left"));
}

/// To all but one.
fn say(clients: &Clients, from: u64, line: &str) {
    let line: Arc<str> = line.into();
    for (_, sender) in clients.iter().filter(|(number, _)| **number != from) {
        let _ = sender.try_send(line.clone());
    }
}

async fn deliver(mut write: OwnedWriteHalf<TcpStream>, lines: Receiver<Arc<str>>) -> io::Result<()> {
    while let Ok(line) = lines.recv().await {
        write.write_all(format!("{line}\n").as_bytes()).await?;
    }
    Ok(())
}

/// The lines of a client.
struct Lines {
    read: OwnedReadHalf<TcpStream>,
    pending: Vec<u8>,
}

impl Lines {
    /// The next line; `None` at the end. Cancelling loses nothing: what was read is kept here.
    async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(length) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=length).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            let mut bytes = [0; 1024];
            match self.read.read(&mut bytes).await? {
                0 => return Ok(None),
                count => self.pending.extend_from_slice(&bytes[..count]),
            }
        }
    }
}
