//! Servers on loopback: requests of a client with so many connections, each of which has one under way.
//!
//! The server has one thread on the first processor; the client is the thread of the sample, on the second, and where they cannot be put there nothing is timed. The client sends a request
//! on every connection, then reads every answer (`client`). Beside the time that goes by, the processor time of the server is a figure of its own: the client's processor may be the limit. What needs no clock,
//! system calls, memory and the idle server, is in `counted`, with a server in a process of its own where that must be told apart from the client.

mod client;
mod counted;

use crate::measure::{Bench, Contender, Group, Metric, Sample};
use crate::peer::{NetRuntime, NetWork};
use crate::peers::{VisitNet, each_net};
use client::{Asked, Client, Figure};
use std::cell::RefCell;
use std::io::Read;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// In place of the runtime's name in reports: the runtime is the subject.
const OWN: &str = "own";
/// Connections of the HTTP servers, and of a round of accepts.
const MANY: usize = 64;

/// Measures every runtime with sockets.
pub(crate) fn run(bench: &mut Bench) {
    let quick = bench.is_quick();
    let numbers: &[usize] = if quick { &[1, 64] } else { &[1, 4, 64, 1_024] };
    for &n in numbers {
        group(bench, "net/echo", n, Asked::Echo, Figure::Elapsed);
        group(bench, "net/kv", n, Asked::Store, Figure::Elapsed);
        group(bench, "net/kv-server-time", n, Asked::Store, Figure::ServerTime);
        counted(bench, "net/kv-calls", "calls/request", n, Count::SystemCalls(Asked::Store));
        if !quick {
            late(bench, "kv", n, Asked::Store);
        }
    }
    group(bench, "net/hyper", MANY, Asked::Http, Figure::Elapsed);
    group(bench, "net/hyper-server-time", MANY, Asked::Http, Figure::ServerTime);
    counted(bench, "net/hyper-calls", "calls/request", MANY, Count::SystemCalls(Asked::Http));
    group(bench, "net/accept", MANY, Asked::Connection, Figure::Elapsed);
    group(bench, "net/accept-server-time", MANY, Asked::Connection, Figure::ServerTime);
    let (connections, seconds) = if quick { (64, 1) } else { (1_024, 5) };
    counted(bench, "net/memory", "bytes", connections, Count::Memory);
    counted(bench, "net/idle", "us", connections, Count::Idle { seconds });
    if !quick {
        late(bench, "hyper", MANY, Asked::Http);
    }
}

/// How late answers are: one in two, in a hundred, in a thousand.
fn late(bench: &mut Bench, work: &str, n: usize, asked: Asked) {
    for (name, per_mille) in [("p50", 500), ("p99", 10), ("p999", 1)] {
        group(bench, format!("net/{work}-{name}"), n, asked, Figure::Late { per_mille });
    }
}

fn group(bench: &mut Bench, name: impl Into<String>, n: usize, asked: Asked, read: Figure) {
    let mut build = Build { contenders: Vec::new(), n, asked, read };
    each_net(&mut build);
    // Ten answers at least are later than what is read.
    let least = if let Figure::Late { per_mille } = read { 10_000 / per_mille } else { 0 };
    bench.group(Group {
        probe_ops: n as u64,
        least_ops: (4 * n as u64).max(least),
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
            client.get_or_insert_with(|| Client::beside::<R>(n, asked)).sample(ops, read)
        };
        self.contenders.push(Contender { subject: R::NAME, kind: R::KIND, run: Box::new(run) });
    }
}

/// What is counted, without a clock of the client.
#[derive(Clone, Copy)]
enum Count {
    /// System calls of the server's process for a request.
    SystemCalls(Asked),
    /// Memory of the heap for a connection on which nothing happens.
    Memory,
    /// Processor time of a server in whose connections nothing happens for so long, in microseconds.
    Idle { seconds: u64 },
}

fn counted(bench: &mut Bench, name: &str, unit: &'static str, n: usize, count: Count) {
    struct Build(Vec<Contender>, usize, Count);
    impl VisitNet for Build {
        fn visit<R: NetRuntime>(&mut self) {
            let (n, count) = (self.1, self.2);
            let run = move |_: u64| {
                let counted = match count {
                    Count::SystemCalls(asked) => counted::system_calls(R::NAME, n, asked),
                    Count::Memory => counted::memory::<R>(n),
                    Count::Idle { seconds } => counted::idle_time(R::NAME, n, seconds),
                };
                counted.map_or_else(Sample::unmeasured, Sample::exact)
            };
            self.0.push(Contender { subject: R::NAME, kind: R::KIND, run: Box::new(run) });
        }
    }
    let mut build = Build(Vec::new(), n, count);
    each_net(&mut build);
    let group = Group::on_one_thread(name, n, OWN, 1, build.0);
    bench.group(Group { metric: Metric::Exact(unit), ..group });
}

/// `lab serve`: a server by itself, until stdin ends.
pub(crate) fn serve(subject: &str, work: &str) -> Result<(), String> {
    struct Start<'a>(&'a str, Option<NetWork>, Option<SocketAddr>);
    impl VisitNet for Start<'_> {
        fn visit<R: NetRuntime>(&mut self) {
            if R::NAME == self.0 {
                self.2 = self.1.take().map(|work| R::start(Arc::new(work)));
            }
        }
    }
    let work = NetWork::of_name(work).ok_or(format!("no server does {work:?}"))?;
    let mut start = Start(subject, Some(work), None);
    each_net(&mut start);
    println!("{}", start.2.ok_or(format!("no runtime with sockets is called {subject:?}"))?);
    std::io::stdin().read_to_end(&mut Vec::new()).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Short;

    impl VisitNet for Short {
        fn visit<R: NetRuntime>(&mut self) {
            let asked = [(1, Asked::Echo), (8, Asked::Store), (8, Asked::Http), (4, Asked::Connection)];
            for (n, asked) in asked {
                let mut client = Client::beside::<R>(n, asked);
                for read in [Figure::Elapsed, Figure::Late { per_mille: 10 }] {
                    let sample = client.sample(20, read);
                    let measured = sample.ops >= 20 && sample.reading.ns > 0.0;
                    assert!(measured || sample.unmeasured.is_some(), "{}", R::NAME);
                }
            }
        }
    }

    #[test]
    fn every_server_answers() {
        each_net(&mut Short);
    }

    #[test]
    fn a_server_by_itself_is_one_that_there_is() {
        assert!(serve("tokio-1", "dance").is_err() && serve("no-such", "kv").is_err());
    }
}
