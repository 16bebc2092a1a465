//! The client of the socket workloads: one thread with all connections.

use crate::measure::{Reading, Sample};
use crate::peer::{KEYS, NetRuntime, NetWork, PLAIN_TEXT};
use crate::peers::pin_side;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// One request in so many writes to the store.
const WRITES: u64 = 10;
/// Why nothing is timed.
const NOT_PINNED: &str = "server and client cannot be pinned to a processor each";

/// What is asked of the servers.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Asked {
    Echo,
    Store,
    Http,
    /// A new connection for every request, which is one byte; both ends are closed afterwards.
    Connection,
}

impl Asked {
    /// The name of the work that is asked for.
    pub(super) fn work(self) -> &'static str {
        match self {
            Asked::Echo => "echo",
            Asked::Store => "kv",
            Asked::Http => "hyper",
            Asked::Connection => "bytes",
        }
    }
}

/// What is read off a sample.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Figure {
    Elapsed,
    /// Processor time of everything in the process but the client.
    ServerTime,
    /// Of the answers of a sample, so many in a thousand came later than this.
    Late {
        per_mille: u64,
    },
}

/// All connections of one thread.
pub(super) struct Client {
    address: SocketAddr,
    streams: Vec<TcpStream>,
    asked: Asked,
    requests: u64,
    is_pinned: bool,
}

impl Client {
    /// A client beside a server that it starts in this process.
    pub(super) fn beside<R: NetRuntime>(n: usize, asked: Asked) -> Client {
        // Before the server starts: its thread finds out where it may be from the first that was pinned.
        let is_pinned = pin_side(1);
        let work = NetWork::of_name(asked.work()).expect("there is such work");
        Client { is_pinned, ..Client::of(R::start(Arc::new(work)), n, asked) }
    }

    /// A client of a server that listens there. Every connection has been accepted.
    pub(super) fn of(address: SocketAddr, n: usize, asked: Asked) -> Client {
        let streams = (0..n).map(|_| connect(address)).collect();
        let mut client = Client { address, streams, asked, requests: 0, is_pinned: false };
        client.round(&mut Vec::new());
        client
    }

    /// One request on every connection, and all answers; how long each took.
    pub(super) fn round(&mut self, times: &mut Vec<u64>) {
        let mut sent = Vec::with_capacity(self.streams.len());
        for n in 0..self.streams.len() {
            self.requests += 1;
            let request = self.request();
            sent.push((Instant::now(), request.len()));
            if self.asked == Asked::Connection {
                self.streams[n] = connect(self.address);
            }
            self.streams[n].write_all(request.as_bytes()).expect("the server reads");
        }
        let mut bytes = [0; 512];
        for (stream, (begun, length)) in self.streams.iter_mut().zip(sent) {
            let mut filled = 0;
            while !self.asked.is_whole(&bytes[..filled], length) {
                let count = stream.read(&mut bytes[filled..]).expect("the server answers");
                assert!(count > 0, "the server has gone");
                filled += count;
            }
            self.asked.check(&bytes[..filled], length);
            times.push(begun.elapsed().as_nanos() as u64);
        }
    }

    fn request(&self) -> String {
        let key = self.requests.wrapping_mul(7919) as usize % KEYS;
        match self.asked {
            Asked::Http => String::from("GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
            Asked::Connection => String::from("x"),
            Asked::Store if self.requests % WRITES == 0 => format!("SET key{key} value of {key}\n"),
            Asked::Echo | Asked::Store => format!("GET key{key}\n"),
        }
    }

    pub(super) fn sample(&mut self, ops: u64, read: Figure) -> Sample {
        if !self.is_pinned {
            return Sample::unmeasured(NOT_PINNED);
        }
        let rounds = ops.div_ceil(self.streams.len() as u64);
        let mut times = Vec::with_capacity((rounds as usize + 1) * self.streams.len());
        let (begun, processor) = (Instant::now(), server_time());
        (0..rounds).for_each(|_| self.round(&mut times));
        let (elapsed, processor) = (begun.elapsed().as_nanos() as f64, server_time() - processor);
        let done = times.len() as u64;
        let reading = |ns: f64| Reading { ns, allocations: 0 };
        match read {
            Figure::Elapsed => Sample::alone(done, reading(elapsed)),
            Figure::ServerTime if processor > 0.0 => Sample::alone(done, reading(processor)),
            Figure::ServerTime => Sample::unmeasured("the system does not tell the time of threads"),
            Figure::Late { per_mille } => {
                times.sort_unstable();
                let late = times[times.len() - 1 - times.len() * per_mille as usize / 1_000];
                // An operation is a request all the same: the harness sizes its samples by them.
                Sample::alone(done, reading(late as f64 * done as f64))
            }
        }
    }
}

impl Asked {
    /// Has the answer to a request of so many bytes come to its end?
    fn is_whole(self, answer: &[u8], length: usize) -> bool {
        match self {
            Asked::Connection => answer.len() == length,
            Asked::Http => answer.ends_with(PLAIN_TEXT.as_bytes()),
            Asked::Echo | Asked::Store => answer.last() == Some(&b'\n'),
        }
    }

    fn check(self, answer: &[u8], length: usize) {
        let is_right = match self {
            Asked::Echo | Asked::Connection => answer.len() == length,
            Asked::Store => answer == b"OK\n" || answer.starts_with(b"value of "),
            Asked::Http => answer.starts_with(b"HTTP/1.1 200 OK\r\n"),
        };
        assert!(is_right, "{:?}", String::from_utf8_lossy(answer));
    }
}

/// A connection, whose end is a reset: the ports of thousands of ended ones would be kept for a minute.
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let size = size_of::<libc::linger>() as libc::socklen_t;
        let (at, descriptor) = ((&raw const linger).cast(), stream.as_raw_fd());
        // SAFETY: the option is alive for the call, and of the size that it says.
        unsafe { libc::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_LINGER, at, size) };
    }
    stream
}

/// Processor time of all threads of the process but this one, in nanoseconds.
fn server_time() -> f64 {
    #[cfg(target_os = "linux")]
    {
        let read = |clock| {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the place is alive for the call.
            unsafe { libc::clock_gettime(clock, &mut time) };
            time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
        };
        read(libc::CLOCK_PROCESS_CPUTIME_ID) - read(libc::CLOCK_THREAD_CPUTIME_ID)
    }
    #[cfg(not(target_os = "linux"))]
    0.0
}
