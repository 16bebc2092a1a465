//! Servers on loopback: requests of a client with so many connections, each of which has one under way.
//!
//! The server has one thread on the first processor; the client is the thread of the sample, on the second. It sends a request on every connection, then reads every answer. Beside
//! the time that goes by, the processor time of the server is a figure of its own: the client's processor may be the limit. System calls are not counted.

use crate::measure::{Bench, Contender, Group, Reading, Sample};
use crate::peer::{NetRuntime, NetWork};
use crate::peers::{VisitNet, each_net, pin_side};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// In place of the runtime's name in reports: the runtime is the subject.
const OWN: &str = "own";
/// Keys of the store, and one request in so many that writes.
const KEYS: usize = 1_000;
const WRITES: u64 = 10;

/// What is asked of the servers.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Echo,
    Store,
}

/// What is read off a sample.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    Elapsed,
    /// Processor time of everything in the process but the client.
    ServerTime,
    /// Of the answers of a sample, one in a hundred came later than this.
    Late,
}

/// Measures every runtime with sockets.
pub(crate) fn run(bench: &mut Bench) {
    let quick = bench.is_quick();
    let numbers: &[usize] = if quick { &[1, 64] } else { &[1, 4, 64, 1_024] };
    for &n in numbers {
        group(bench, "net/echo", n, Asked::Echo, Figure::Elapsed);
        group(bench, "net/kv", n, Asked::Store, Figure::Elapsed);
        group(bench, "net/kv-server-time", n, Asked::Store, Figure::ServerTime);
        if !quick {
            group(bench, "net/kv-p99", n, Asked::Store, Figure::Late);
        }
    }
}

fn group(bench: &mut Bench, name: &'static str, n: usize, asked: Asked, read: Figure) {
    let mut build = Build { contenders: Vec::new(), n, asked, read };
    each_net(&mut build);
    bench.group(Group {
        probe_ops: n as u64,
        least_ops: 4 * n as u64,
        two_threads: true,
        patient: true,
        ..Group::on_one_thread(name, n, OWN, n as u64, build.contenders)
    });
}

struct Build {
    contenders: Vec<Contender>,
    n: usize,
    asked: Asked,
    read: Figure,
}

impl VisitNet for Build {
    fn visit<R: NetRuntime>(&mut self) {
        let (n, asked, read) = (self.n, self.asked, self.read);
        // Started by the first sample: a cell that is only listed starts nothing.
        let client: Rc<RefCell<Option<Client>>> = Rc::default();
        let run = move |ops: u64| {
            let mut client = client.borrow_mut();
            client.get_or_insert_with(|| Client::start::<R>(n, asked)).sample(ops, read)
        };
        self.contenders.push(Contender { subject: R::NAME, kind: R::KIND, run: Box::new(run) });
    }
}

/// All connections of one thread.
struct Client {
    streams: Vec<TcpStream>,
    asked: Asked,
    requests: u64,
}

impl Client {
    fn start<R: NetRuntime>(n: usize, asked: Asked) -> Client {
        let work = match asked {
            Asked::Echo => NetWork::Echo,
            Asked::Store => NetWork::store(KEYS),
        };
        // Before the server starts: its thread finds out where it may be from the first that was pinned.
        pin_side(1);
        let address = R::start(Arc::new(work));
        let connect = |_| {
            let stream = TcpStream::connect(address).expect("the server listens");
            stream.set_nodelay(true).expect("a socket");
            stream
        };
        let mut client = Client { streams: (0..n).map(connect).collect(), asked, requests: 0 };
        // Every connection has been accepted.
        client.round(&mut Vec::new());
        client
    }

    /// One request on every connection, and all answers; how long each took.
    fn round(&mut self, times: &mut Vec<u64>) {
        let mut sent = Vec::with_capacity(self.streams.len());
        for stream in &mut self.streams {
            self.requests += 1;
            let key = self.requests.wrapping_mul(7919) as usize % KEYS;
            let request = match self.asked {
                Asked::Store if self.requests % WRITES == 0 => format!("SET key{key} value of {key}\n"),
                _ => format!("GET key{key}\n"),
            };
            sent.push((Instant::now(), request.len()));
            stream.write_all(request.as_bytes()).expect("the server reads");
        }
        let mut bytes = [0; 256];
        for (stream, (begun, length)) in self.streams.iter_mut().zip(sent) {
            let mut filled = 0;
            while filled == 0 || bytes[filled - 1] != b'\n' {
                let count = stream.read(&mut bytes[filled..]).expect("the server answers");
                assert!(count > 0, "the server has gone");
                filled += count;
            }
            let answer = &bytes[..filled];
            let is_right = match self.asked {
                Asked::Echo => filled == length,
                Asked::Store => answer == b"OK\n" || answer.starts_with(b"value of "),
            };
            assert!(is_right, "{:?}", String::from_utf8_lossy(answer));
            times.push(begun.elapsed().as_nanos() as u64);
        }
    }

    fn sample(&mut self, ops: u64, read: Figure) -> Sample {
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
            Figure::Late => {
                times.sort_unstable();
                let late = times[times.len() - 1 - times.len() / 100];
                // An operation is a request all the same: the harness sizes its samples by them.
                Sample::alone(done, reading(late as f64 * done as f64))
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Short;

    impl VisitNet for Short {
        fn visit<R: NetRuntime>(&mut self) {
            for (n, asked) in [(1, Asked::Echo), (8, Asked::Store)] {
                let mut client = Client::start::<R>(n, asked);
                for read in [Figure::Elapsed, Figure::Late] {
                    let sample = client.sample(20, read);
                    assert!(sample.ops >= 20 && sample.reading.ns > 0.0, "{}", R::NAME);
                }
            }
        }
    }

    #[test]
    fn every_server_answers() {
        each_net(&mut Short);
    }
}
