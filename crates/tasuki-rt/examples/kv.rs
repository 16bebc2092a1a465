//! A key-value server over TCP: a line is a request, a line is its answer. `SET key value`, `GET key`, `DEL key`.
//!
//! `cargo run -p tasuki-rt --example kv [PORT]`. SIGTERM or Ctrl-C drains it: it accepts no more, every connection answers what it has read, and then all end.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tasuki::{CancellationSource, CancellationToken, RwLock, WaitGroup};
use tasuki_rt::net::{TcpListener, TcpStream};

/// What is stored.
type Store = RwLock<HashMap<String, String>>;

/// A longer line is the end of its connection.
const LONGEST: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let port =
        std::env::args().nth(1).map_or(0, |port| port.parse().expect("a port is a number below 65536"));
    tasuki_rt::run(async move {
        let listener = TcpListener::bind(([127, 0, 0, 1], port)).await?;
        println!("listening on {}", listener.local_addr()?);
        let (stop, store, connections) =
            (CancellationSource::new(), Arc::new(Store::default()), Arc::new(WaitGroup::new()));
        let token = stop.token();
        drop(tasuki_rt::spawn(async move {
            end_of_service().await;
            stop.request_cancel();
        }));
        while let Some(accepted) = token.run_until_cancelled(listener.accept()).await {
            let Ok((stream, _)) = accepted else { continue };
            let (store, token, member) = (store.clone(), token.clone(), connections.clone().member_owned());
            drop(tasuki_rt::spawn(async move {
                let _member = member;
                // A client that goes away is the end of its own connection only.
                let _ = converse(stream, &store, &token).await;
            }));
        }
        drop(listener);
        connections.wait().await;
        println!("drained, {} keys", store.read().await.len());
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

/// Answers line by line. All requests of one read are answered by one write.
async fn converse(mut stream: TcpStream, store: &Store, token: &CancellationToken) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut bytes = [0; 4096];
    loop {
        let count = match token.run_until_cancelled(stream.read(&mut bytes)).await {
            None | Some(Ok(0)) => return Ok(()),
            Some(count) => count?,
        };
        input.extend_from_slice(&bytes[..count]);
        let mut begin = 0;
        while let Some(length) = input[begin..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&input[begin..begin + length]);
            output.extend_from_slice(answer(line.trim_end(), store).await.as_bytes());
            output.push(b'\n');
            begin += length + 1;
        }
        input.drain(..begin);
        stream.write_all(&output).await?;
        output.clear();
        if input.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"));
        }
    }
}

async fn answer(request: &str, store: &Store) -> String {
    let mut words = request.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(key), None) => {
            store.read().await.get(key).map_or("NONE".into(), |value| format!("VALUE {value}"))
        }
        (Some("SET"), Some(key), Some(value)) => {
            store.write().await.insert(key.to_owned(), value.to_owned());
            "OK".into()
        }
        (Some("DEL"), Some(key), None) => store.write().await.remove(key).map_or("NONE", |_| "OK").into(),
        _ => "ERROR: SET key value, GET key, DEL key".into(),
    }
}
