//! hyper on this runtime: the server of the example `http`, asked by plain threads.

#[path = "../../examples/http/server.rs"]
mod server;

use crate::kit::{runtime, until, watchdog};
use server::{SEATS, Site, serve};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tasuki_rt::net::TcpListener;
use tasuki_rt::{JoinHandle, Runtime};

/// A connection of a client that knows just enough of the protocol.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).expect("the server listens")))
    }

    fn send(&mut self, method: &str, path: &str) {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("the server reads");
    }

    /// The next answer: its status and its text.
    fn receive(&mut self) -> (u16, String) {
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("the server answers");
            assert!(line.ends_with("\r\n"), "the answer was cut short: {line:?}");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().expect("a status");
            } else if let Some(number) = line.strip_prefix("content-length: ") {
                length = number.parse().expect("a length");
            } else if line.is_empty() {
                break;
            }
        }
        let mut text = vec![0; length];
        self.0.read_exact(&mut text).expect("all of the text");
        (status, String::from_utf8(text).expect("text"))
    }

    fn ask(&mut self, method: &str, path: &str) -> (u16, String) {
        self.send(method, path);
        self.receive()
    }

    /// Has the server closed its side?
    fn is_at_end(&mut self) -> bool {
        self.0.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}

fn serving(runtime: &Runtime) -> (Arc<Site>, SocketAddr, JoinHandle<std::io::Result<()>>) {
    let site = Arc::new(Site::new());
    let listener = runtime.block_on(TcpListener::bind(([127, 0, 0, 1], 0))).expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    (site.clone(), address, runtime.spawn(serve(listener, site)))
}

#[test]
fn many_clients_are_answered_each_visit_is_counted_once() {
    const CLIENTS: usize = 12;
    const REQUESTS: usize = 10;
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let (site, address, server) = serving(&runtime);
    runtime.start().unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::new(address);
                let visit = |_| {
                    let (status, text) = client.ask("GET", "/");
                    assert_eq!(status, 200);
                    text.strip_prefix("visit ").expect("a visit").parse::<usize>().expect("a number")
                };
                (0..REQUESTS).map(visit).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut visits = Vec::new();
    for client in clients {
        let own = client.join().unwrap();
        assert!(own.is_sorted(), "the answers on one connection come in order: {own:?}");
        visits.extend(own);
    }
    visits.sort_unstable();
    assert!(visits.into_iter().eq(1..=CLIENTS * REQUESTS), "every visit has its own number");
    let crowd = site.crowd.load(Ordering::SeqCst);
    assert!((1..=SEATS).contains(&crowd), "{crowd} were seated at once");

    let mut client = Client::new(address);
    assert_eq!(client.ask("GET", "/nowhere"), (404, "nothing at /nowhere".to_owned()));
    assert_eq!(client.ask("POST", "/quit"), (200, "goodbye".to_owned()));
    assert!(client.is_at_end());
    runtime.block_on(server).unwrap().unwrap();
    assert_eq!(runtime.block_on(async { *site.visits.lock().await }) as usize, CLIENTS * REQUESTS);
    runtime.shutdown_timeout(Duration::MAX).unwrap();
}

/// A client that was waiting for an answer gets it; a connection without a request is closed.
#[test]
fn a_server_that_quits_answers_what_it_was_asked() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let (site, address, server) = serving(&runtime);
    runtime.start().unwrap();
    let mut idle = Client::new(address);
    assert_eq!(idle.ask("GET", "/").0, 200);
    let held = site.visits.try_lock().expect("no task is inside");
    let mut waiting: Vec<Client> = (0..6).map(|_| Client::new(address)).collect();
    waiting.iter_mut().for_each(|client| client.send("GET", "/"));
    // The idle one's, and six that wait for the mutex or for a seat.
    until(|| site.requests.load(Ordering::SeqCst) == 7);
    site.quit.request_cancel();
    assert!(idle.is_at_end() && !server.is_finished());
    drop(held);
    for client in &mut waiting {
        let (status, text) = client.receive();
        assert!(status == 200 && text.starts_with("visit "), "{status} {text}");
        assert!(client.is_at_end());
    }
    runtime.block_on(server).unwrap().unwrap();
}

/// Connections in the middle of a request go down with their runtime.
#[test]
fn a_runtime_shuts_down_with_connections_open() {
    let _dog = watchdog(60);
    for _ in 0..10 {
        let runtime = runtime(2);
        let (site, address, server) = serving(&runtime);
        runtime.start().unwrap();
        let mut clients: Vec<Client> = (0..4).map(|_| Client::new(address)).collect();
        clients.iter_mut().for_each(|client| client.0.get_mut().write_all(b"GET / HT").unwrap());
        until(|| runtime.tasks() == 5);
        runtime.shutdown_timeout(Duration::MAX).unwrap();
        clients.iter_mut().for_each(|client| assert!(client.0.fill_buf().map_or(true, <[u8]>::is_empty)));
        let other = Runtime::new().unwrap();
        assert!(other.block_on(server).unwrap_err().is_shut_down());
        assert_eq!((Arc::strong_count(&site), runtime.tasks()), (1, 0));
    }
}
