//! The examples run, and print what they say. `cargo test` builds them beside the tests; when only this test was asked for, it
//! has them built.

use crate::kit::{program, watchdog};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

fn lines(example: &str) -> Vec<String> {
    program::lines("tasuki-rt", example)
}

#[test]
fn mutex_workers_take_turns() {
    let _dog = watchdog(60);
    let lines = lines("mutex_workers");
    assert_eq!(lines.len(), 6);
    for turn in lines.chunks(2) {
        let id =
            turn[0].strip_prefix("Worker ").and_then(|line| line.strip_suffix(" acquired lock")).unwrap();
        assert_eq!(turn[1], format!("Worker {id} released lock"));
    }
}

#[test]
fn the_semaphore_lets_two_in() {
    let _dog = watchdog(60);
    let lines = lines("semaphore");
    assert_eq!(lines.len(), 10);
    let mut inside = 0_usize;
    for line in &lines {
        inside = if line.ends_with(" in") { inside + 1 } else { inside - 1 };
        assert!(inside <= 2, "{lines:?}");
    }
}

#[test]
fn the_event_releases_all() {
    let _dog = watchdog(60);
    let lines = lines("event");
    let set = lines.iter().position(|line| line == "set").unwrap();
    assert_eq!((set, lines.len()), (3, 7));
    assert!(lines[..set].iter().all(|line| line.ends_with(" waiting")));
    assert!(lines[set + 1..].iter().all(|line| line.ends_with(" woke")));
}

#[test]
fn the_wait_group_waits_for_all() {
    let _dog = watchdog(60);
    let lines = lines("wait_group");
    assert_eq!((lines.len(), lines[3].as_str()), (4, "all done"));
}

#[test]
fn the_cancelled_task_stops() {
    let _dog = watchdog(60);
    let lines = lines("cancellation");
    let rounds =
        lines[0].strip_prefix("stopped after ").and_then(|line| line.strip_suffix(" rounds")).unwrap();
    // 1500 ms in steps of 200 ms, on a machine that may be slow, also with one of the two threads only.
    assert!((1..=50).contains(&rounds.parse::<usize>().unwrap()), "{rounds}");
}

#[test]
fn no_task_passes_the_startup_barrier_early() {
    let _dog = watchdog(60);
    let lines = lines("startup_barrier");
    let mut seen: HashMap<&str, usize> = HashMap::new();
    lines.iter().for_each(|line| *seen.entry(line).or_default() += 1);
    assert_eq!(lines.len(), 8);
    assert!(seen.values().all(|count| *count == 1));
    assert!(lines[..4].iter().all(|line| line.ends_with("phase0")), "{lines:?}");
    assert!(lines[4..].iter().all(|line| line.ends_with("phase1")), "{lines:?}");
}

#[test]
fn no_increment_is_lost() {
    let _dog = watchdog(60);
    assert_eq!(lines("increment"), ["10000"]);
}

#[test]
fn the_loop_mutex_stays_at_home() {
    let _dog = watchdog(60);
    let lines = lines("loop_mutex");
    assert_eq!(lines.len(), 10);
    for line in &lines[..9] {
        let home = line.strip_prefix("loop ").and_then(|line| line.split(' ').next()).unwrap();
        assert_eq!(*line, format!("loop {home} holds the lock on loop {home}"));
    }
    assert!(lines[9].contains("no event loop on this thread"));
}

#[test]
fn the_http_server_answers_and_quits() {
    let _dog = watchdog(60);
    let mut server =
        Command::new(program::path("tasuki-rt", "http")).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut output = BufReader::new(server.stdout.take().expect("piped")).lines().map(Result::unwrap);
    let address = output.next().unwrap();
    let address = address.strip_prefix("listening on ").expect("it says where");
    let ask = |request: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        write!(socket, "{request} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("GET /").ends_with("\r\n\r\nvisit 1"));
    assert!(ask("GET /").ends_with("\r\n\r\nvisit 2"));
    assert!(ask("POST /quit").ends_with("\r\n\r\ngoodbye"));
    assert_eq!(output.next().unwrap(), "2 visits in 3 requests, at most 1 at once");
    assert!(output.next().is_none() && server.wait().unwrap().success());
}

/// A server of the examples, and what it prints.
#[cfg(unix)]
struct Server {
    process: std::process::Child,
    output: Box<dyn Iterator<Item = String>>,
    address: String,
}

#[cfg(unix)]
impl Server {
    fn start(example: &str) -> Self {
        let path = program::path("tasuki-rt", example);
        let mut process = Command::new(path).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut output = Box::new(lines.map(Result::unwrap));
        let first = output.next().unwrap();
        let address = first.strip_prefix("listening on ").expect("it says where").to_owned();
        Self { process, output, address }
    }

    fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(&self.address).unwrap())
    }

    /// SIGTERM, and the rest of what it prints.
    fn terminate(mut self) -> Vec<String> {
        let number = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &number]).status().unwrap().success());
        let rest = self.output.collect();
        assert!(self.process.wait().unwrap().success());
        rest
    }
}

#[cfg(unix)]
fn line(client: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[cfg(unix)]
#[test]
fn the_key_value_server_answers_and_drains() {
    let _dog = watchdog(60);
    let server = Server::start("kv");
    let mut clients = [server.connect(), server.connect()];
    let ask = |client: &mut BufReader<TcpStream>, request: &str| {
        client.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        line(client)
    };
    assert_eq!(ask(&mut clients[0], "GET a"), "NONE");
    assert_eq!(ask(&mut clients[0], "SET a one two"), "OK");
    assert_eq!(ask(&mut clients[1], "GET a"), "VALUE one two");
    assert_eq!(ask(&mut clients[1], "SET b 2\nGET b\nDEL b"), "OK");
    assert_eq!([line(&mut clients[1]), line(&mut clients[1])], ["VALUE 2", "OK"]);
    assert!(ask(&mut clients[1], "PUT a").starts_with("ERROR"));
    assert_eq!(server.terminate(), ["drained, 1 keys"]);
    assert!(clients.iter_mut().all(|client| line(client).is_empty()), "the connections were closed");
}

/// A connection stays with the worker that accepted it, and what the connections of one worker share counts every line.
#[cfg(target_os = "linux")]
#[test]
fn listeners_of_one_port_on_each_worker() {
    const CLIENTS: usize = 40;
    const LINES: usize = 5;
    let _dog = watchdog(60);
    let server = Server::start("reuse_port");
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| (server.connect(), None)).collect();
    let mut answered: HashMap<usize, Vec<usize>> = HashMap::new();
    for _ in 0..LINES {
        for (client, home) in &mut clients {
            client.get_mut().write_all(b"which?\n").unwrap();
            let answer = line(client);
            let (worker, count) = answer.strip_prefix("worker ").unwrap().split_once(" line ").unwrap();
            let worker: usize = worker.parse().unwrap();
            assert_eq!(*home.get_or_insert(worker), worker, "a connection went to another worker");
            answered.entry(worker).or_default().push(count.parse().unwrap());
        }
    }
    // One line after the other was asked, so each worker counted its own in order. Which has how many is the system's choice.
    assert!(answered.keys().all(|worker| *worker < 2), "{answered:?}");
    assert!(answered.values().all(|counts| counts.iter().copied().eq(1..=counts.len())), "{answered:?}");
    assert_eq!(answered.values().map(Vec::len).sum::<usize>(), CLIENTS * LINES);
    assert_eq!(server.terminate(), ["ended"]);
}

#[cfg(unix)]
#[test]
fn the_chat_reaches_all_and_drains() {
    let _dog = watchdog(60);
    let server = Server::start("chat");
    let join = |name: &str| {
        let mut client = server.connect();
        writeln!(client.get_mut(), "{name}").unwrap();
        client
    };
    // One of them hears of the other: the one that entered first, which may be either.
    let (mut ann, mut bob) = (join("ann"), join("bob"));
    ann.get_ref().set_nonblocking(true).unwrap();
    bob.get_ref().set_nonblocking(true).unwrap();
    let mut heard = String::new();
    while heard.is_empty() {
        let _ = ann.read_line(&mut heard);
        let _ = bob.read_line(&mut heard);
    }
    ann.get_ref().set_nonblocking(false).unwrap();
    bob.get_ref().set_nonblocking(false).unwrap();
    assert!(["bob is here\n", "ann is here\n"].contains(&heard.as_str()), "{heard:?}");
    let mut cid = join("cid");
    for client in [&mut ann, &mut bob] {
        assert_eq!(line(client), "cid is here");
    }
    writeln!(cid.get_mut(), "hello").unwrap();
    for client in [&mut ann, &mut bob] {
        assert_eq!(line(client), "cid: hello");
    }
    drop(cid);
    for client in [&mut ann, &mut bob] {
        assert_eq!(line(client), "cid has left");
    }
    assert_eq!(server.terminate(), ["drained after 3 clients"]);
    for client in [&mut ann, &mut bob] {
        assert_eq!([line(client), line(client)], ["the chat ends", ""]);
    }
}
