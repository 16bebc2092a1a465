//! The server: one thread accepts, one thread for each connection answers, as many as [`Limits`] allow. No executor takes part, so it answers while the program is stuck.
//!
//! Everything that a client can do is bounded: the bytes and the time of its request, the time of its answer, the number of connections, and of those the number of streams of events. A
//! connection ends with its answer. What is sent is the text of the last sample, shared by all: a client costs no look of its own at the program. (One that reads the events makes the samples more frequent, however many there are: `sampler.rs`. `/dump.txt` costs a look, a bounded one, which is shared too: `dumps.rs`.)

use crate::request::{self, HttpRequest, Refusal};
use crate::sampler::Samples;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// Of those so many streams of events: a page that is open must not keep out a question from the command line.
    pub(crate) streams: usize,
    /// From the accept to the end of the head.
    pub(crate) head_time: Duration,
    /// For one answer, or one event.
    pub(crate) answer_time: Duration,
}

impl Limits {
    pub(crate) const DEFAULT: Self = Self {
        connections: 32,
        streams: 16,
        head_time: Duration::from_secs(5),
        answer_time: Duration::from_secs(10),
    };
}

/// The page, with its script and its style.
const PAGE: &str = include_str!("page.html");

/// Nothing is loaded from anywhere but here, nothing is framed, nothing is kept.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\nConnection: close\r\n";

/// What the threads of a server share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) samples: Arc<Samples>,
    pub(crate) limits: Limits,
    pub(crate) token: Option<String>,
    connections: AtomicUsize,
    streams: AtomicUsize,
}

/// One of a limited number, until it is dropped.
struct CountedPlace<'a>(&'a AtomicUsize);

impl<'a> CountedPlace<'a> {
    fn take(count: &'a AtomicUsize, limit: usize) -> Option<Self> {
        // Relaxed: a number, which publishes nothing.
        let place = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < limit).then_some(place)
    }
}

impl Drop for CountedPlace<'_> {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    pub(crate) fn new(samples: Arc<Samples>, limits: Limits, token: Option<String>) -> Arc<Self> {
        let (connections, streams) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { samples, limits, token, connections, streams })
    }

    /// The life of the thread that accepts. Ends when the samples do, at the next connection.
    pub(crate) fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.samples.have_ended() {
                return;
            }
            match accepted {
                Ok((stream, _)) => self.connected(stream),
                // Too many descriptors, or a client that is gone: the next one may do better.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn connected(self: &Arc<Self>, stream: TcpStream) {
        // Relaxed: only this thread adds to it.
        if self.connections.load(Ordering::Relaxed) >= self.limits.connections {
            return refuse_at_once(&stream);
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        let server = self.clone();
        let run = move || {
            let _place = CountedPlace(&server.connections);
            // A client that is gone, or too slow, is not told.
            let _ = server.answer(stream);
        };
        let started =
            thread::Builder::new().name("tasuki-inspect-client".into()).stack_size(256 * 1024).spawn(run);
        if started.is_err() {
            // The closure was dropped before it ran.
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Reads a request and answers it.
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let request = request::read(&mut stream, Instant::now() + self.limits.head_time)?;
        let mut out = Timed { stream, deadline: Instant::now() + self.limits.answer_time };
        let request = match request.and_then(|request| self.allowed(&request).map(|()| request)) {
            Ok(request) => request,
            Err(refusal) => return refuse(&mut out, refusal),
        };
        match request.path.as_str() {
            "/" => send(&mut out, &request, "text/html; charset=utf-8", PAGE),
            "/snapshot.json" => send(&mut out, &request, "application/json", &self.samples.latest().1),
            "/dump.txt" => {
                let text = self.samples.dump();
                // From now on: a look at very many tasks may take longer than an answer may.
                out.deadline = Instant::now() + self.limits.answer_time;
                send(&mut out, &request, "text/plain; charset=utf-8", &text)
            }
            "/events" => self.stream(out, &request),
            _ => refuse(&mut out, Refusal(404, "there are /, /snapshot.json, /events and /dump.txt")),
        }
    }

    /// May this client ask? By the token; and where there is none, only as this machine: a page of another site whose name leads here is refused. What a browser asks for in the name of another site
    /// gets nothing but the page, which says nothing of the program: a link leads there.
    fn allowed(&self, request: &HttpRequest) -> Result<(), Refusal> {
        if request.site.as_deref() == Some("cross-site") && request.path != "/" {
            return Err(Refusal(403, "asked by another web site: open the page itself"));
        }
        match &self.token {
            Some(token) => {
                let bearer = request.authorization.as_deref().and_then(bearer_token);
                let given = [bearer, request.token.as_deref()];
                if given.into_iter().flatten().any(|given| is_same(given.as_bytes(), token.as_bytes())) {
                    Ok(())
                } else {
                    Err(Refusal(401, "a token is needed: ?token=..., or Authorization: Bearer ..."))
                }
            }
            // Who asks under no name is not known to ask under one of this machine.
            None if request.host.is_none() => Err(Refusal(400, "a request has a field Host")),
            None => {
                let origin =
                    request.origin.as_deref().map(|origin| origin.strip_prefix("http://").unwrap_or(""));
                let names = [request.host.as_deref(), origin];
                if names.into_iter().flatten().all(is_this_machine) {
                    Ok(())
                } else {
                    Err(Refusal(
                        403,
                        "asked under a name that is not this machine's: use 127.0.0.1 or localhost",
                    ))
                }
            }
        }
    }

    /// Sends each sample as it comes, until the client is gone.
    fn stream(&self, mut out: Timed, request: &HttpRequest) -> io::Result<()> {
        let Some(_place) = CountedPlace::take(&self.streams, self.limits.streams) else {
            return refuse(&mut out, Refusal(503, "too many streams of events"));
        };
        let _watching = self.samples.watch();
        write!(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{HEADERS}\r\n")?;
        if request.is_head {
            return Ok(());
        }
        let mut seen = 0;
        while let Some((number, sample)) = self.samples.next_after(seen) {
            seen = number;
            out.deadline = Instant::now() + self.limits.answer_time;
            // JSON has no line ends of its own.
            write!(out, "id: {number}\ndata: {sample}\n\n")?;
        }
        Ok(())
    }
}

/// Is it `localhost` or a loopback address, with or without a port? The host name of the machine is not.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, after)) if after.is_empty() || after.starts_with(':') => inside,
        Some(_) => return false,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || name.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

/// The token of a field `Authorization: Bearer ..`. The name of the scheme may be written in any case (RFC 9110).
fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim_start())
}

/// Takes as long wherever the first difference is.
fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    let differs = given.iter().zip(wanted).fold(0, |differs, (one, other)| differs | (one ^ other));
    std::hint::black_box(differs) == 0 && given.len() == wanted.len()
}

/// A stream that is written until a time.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn send(out: &mut Timed, request: &HttpRequest, kind: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{HEADERS}\r\n");
    out.write_all(head.as_bytes())?;
    if !request.is_head {
        out.write_all(body.as_bytes())?;
    }
    close(out)
}

fn refuse(out: &mut Timed, refusal: Refusal) -> io::Result<()> {
    out.write_all(refusal_text(refusal).as_bytes())?;
    close(out)
}

/// What the client still sends, as its next request, is taken for a moment: a close with unread bytes would take the answer from it.
fn close(out: &mut Timed) -> io::Result<()> {
    out.stream.shutdown(std::net::Shutdown::Write)?;
    out.stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut rest = [0; 4096];
    for _ in 0..16 {
        if io::Read::read(&mut out.stream, &mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

fn refusal_text(Refusal(status, why): Refusal) -> String {
    let reason = match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "HTTP Version Not Supported",
    };
    let more = match status {
        401 => "WWW-Authenticate: Bearer\r\n",
        405 => "Allow: GET, HEAD\r\n",
        503 => "Retry-After: 1\r\n",
        _ => "",
    };
    let length = why.len() + 1;
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n{more}{HEADERS}\r\n{why}\n"
    )
}

/// By the thread that accepts, which must not wait for the client: what does not fit into its buffer is not sent.
fn refuse_at_once(stream: &TcpStream) {
    let _ = stream.set_nonblocking(true);
    let mut out = stream;
    let _ = out.write(refusal_text(Refusal(503, "too many connections")).as_bytes());
}

/// Wakes the thread that accepts. False if it could not be reached: no descriptor is left, or its backlog is full.
#[must_use]
pub(crate) fn knock(address: SocketAddr) -> bool {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn names_of_this_machine() {
        for host in ["localhost", "LocalHost:80", "127.0.0.1", "127.1.2.3:6680", "[::1]", "[::1]:6680"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "128.0.0.1",
            "[::2]:1",
            "[::1]evil.example",
            "127.0.0.1.evil",
            "0.0.0.0",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    /// A page with these limits, on any free port.
    fn page(limits: Limits) -> crate::Inspection {
        let mut inspector = crate::Inspector::new().address(([127, 0, 0, 1], 0).into());
        inspector.limits = limits;
        inspector.start().unwrap()
    }

    /// What the server says to a client that has sent this, until it closes.
    fn answer(mut stream: TcpStream, request: &[u8]) -> String {
        // The server may have closed already.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    /// A client that sends its next requests before the answer has the whole answer to the first, and then the end: it was a reset.
    #[test]
    fn an_answer_is_not_cut_by_what_is_sent_behind_its_request() {
        let page = page(Limits::DEFAULT);
        let mut client = TcpStream::connect(page.address()).unwrap();
        client.write_all(&REQUEST.repeat(100)).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"}"));
    }

    const REQUEST: &[u8] = b"GET /snapshot.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const EVENTS: &[u8] = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    /// No test waits for it.
    const LONG: Duration = Duration::from_secs(3600);

    /// Clients that send nothing have all places: the next one is told so at once, and when one of them goes there is room.
    #[test]
    fn connections_are_limited() {
        let page = page(Limits { connections: 3, head_time: LONG, ..Limits::DEFAULT });
        let connect = || TcpStream::connect(page.address()).unwrap();
        let silent = [connect(), connect(), connect()];
        // Connections are accepted in their order: this one comes after the three.
        assert!(answer(connect(), b"").starts_with("HTTP/1.1 503 "));
        drop(silent);
        while !answer(connect(), REQUEST).starts_with("HTTP/1.1 200 ") {}
    }

    /// A client that sends nothing, or never the end of its request, is cut off, and its place is free.
    #[test]
    fn a_silent_client_is_cut_off() {
        let page = page(Limits { connections: 1, head_time: Duration::from_millis(30), ..Limits::DEFAULT });
        let connect = || TcpStream::connect(page.address()).unwrap();
        assert_eq!(answer(connect(), b""), "");
        while answer(connect(), b"GET / HTTP/1.1\r\n").starts_with("HTTP/1.1 503 ") {}
        while !answer(connect(), REQUEST).starts_with("HTTP/1.1 200 ") {}
    }

    /// One byte after the other, each in time: the head as a whole is late.
    #[test]
    fn a_client_that_dribbles_is_cut_off() {
        let page = page(Limits { connections: 1, head_time: Duration::from_millis(30), ..Limits::DEFAULT });
        let mut slow = TcpStream::connect(page.address()).unwrap();
        slow.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
        let mut byte = [0];
        let read = loop {
            if slow.write_all(b"x").is_err() {
                break 0;
            }
            match slow.read(&mut byte) {
                Ok(count) => break count,
                Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(_) => break 0,
            }
        };
        assert_eq!(read, 0, "cut off by its time, before it is refused for its bytes");
    }

    /// A dump that takes longer than an answer may is sent all the same: the time of an answer begins when there is one.
    #[test]
    fn a_dump_that_takes_long_is_answered() {
        let page = page(Limits { answer_time: Duration::from_millis(200), ..Limits::DEFAULT });
        let (made, asked) = std::sync::mpsc::channel();
        let samples = page.samples.clone();
        // The client waits for this look.
        let slow = thread::spawn(move || {
            samples.dump_with(|| {
                made.send(()).unwrap();
                thread::sleep(Duration::from_millis(600));
                "a look that took long".to_owned()
            })
        });
        asked.recv().unwrap();
        let client = TcpStream::connect(page.address()).unwrap();
        let answer = answer(client, b"GET /dump.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("a look that took long"), "{answer}");
        slow.join().unwrap();
    }

    /// Streams of events leave room for questions.
    #[test]
    fn streams_are_limited() {
        let page = page(Limits { streams: 1, ..Limits::DEFAULT });
        let mut open = TcpStream::connect(page.address()).unwrap();
        open.write_all(EVENTS).unwrap();
        let mut first = [0; 12];
        open.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        let connect = || TcpStream::connect(page.address()).unwrap();
        assert!(answer(connect(), EVENTS).starts_with("HTTP/1.1 503 "));
        assert!(answer(connect(), REQUEST).starts_with("HTTP/1.1 200 "));
    }

    /// A page that cannot be reached, as when no descriptor is left: its drop ends, and its thread at the next connection.
    #[test]
    fn a_drop_that_does_not_reach_its_page_ends() {
        let mut page = page(Limits::DEFAULT);
        let address = page.address();
        page.address.set_port(0);
        drop(page);
        while TcpStream::connect(address).is_ok() {}
    }

    /// A client that does not read takes no longer than an answer may.
    #[test]
    fn a_deaf_client_is_cut_off() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _deaf = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().unwrap().0;
        let mut out = Timed { stream, deadline: Instant::now() + Duration::from_millis(30) };
        let endless = vec![0; 1 << 20];
        let kind = loop {
            if let Err(why) = out.write_all(&endless) {
                break why.kind();
            }
        };
        assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind:?}");
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(is_same(b"secret", b"secret"));
        for given in [&b""[..], b"secre", b"secrets", b"Secret"] {
            assert!(!is_same(given, b"secret"));
        }
    }
}
