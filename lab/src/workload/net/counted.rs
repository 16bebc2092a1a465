//! What needs no clock: system calls, memory, and the processor time of a server that has nothing to do.
//!
//! System calls are those of the server's whole process, all threads, as `strace` counts them: the difference of two runs with different numbers of requests, so that the start, the
//! accepts and the end are not in it. Under `strace` a system call takes much longer, so requests gather while the server is in one: where a runtime takes several events with
//! one wait it has fewer calls than it would have else, and all subjects alike.

use super::client::{Asked, Client};
use crate::alloc;
use crate::peer::{NetRuntime, NetWork};
use crate::peers::pin_side;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Requests of the first run, and how many more the second has; and so many rounds at least: how the first requests meet the accepts is chance.
const FEW: (usize, usize) = (2_000, 4);
const MORE: (usize, usize) = (8_000, 32);
/// A server that was just busy comes to rest.
const SETTLES: Duration = Duration::from_millis(500);

/// A server in a process of its own.
struct Server {
    process: Child,
    input: Option<ChildStdin>,
    address: SocketAddr,
}

impl Server {
    /// Starts a server by this command, to which what it serves is added.
    fn start(mut command: Command, subject: &str, work: &str) -> Result<Server, &'static str> {
        let command = command
            .args(["serve", subject, work])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn().map_err(|_| "the program to run the server is not there")?;
        let (input, output) = (process.stdin.take(), process.stdout.take().expect("piped"));
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        match line.trim().parse() {
            Ok(address) if read.is_ok() => Ok(Server { process, input, address }),
            _ => {
                process.kill().ok();
                process.wait().ok();
                Err("the server did not start there")
            }
        }
    }

    /// Ends it: the end of its stdin.
    fn end(mut self) -> Result<(), &'static str> {
        drop(self.input.take());
        match self.process.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err("the server failed"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.input.is_some() {
            self.process.kill().ok();
            self.process.wait().ok();
        }
    }
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("a program has a path")
}

/// System calls of the server's process for a request.
pub(super) fn system_calls(subject: &str, n: usize, asked: Asked) -> Result<f64, &'static str> {
    let rounds = |(requests, least): (usize, usize)| requests.div_ceil(n).max(least);
    let few = calls_of_run(subject, n, asked, rounds(FEW))?;
    let both = calls_of_run(subject, n, asked, rounds(FEW) + rounds(MORE))?;
    Ok((both as f64 - few as f64) / (rounds(MORE) * n) as f64)
}

fn calls_of_run(subject: &str, n: usize, asked: Asked, rounds: usize) -> Result<u64, &'static str> {
    let table = std::env::temp_dir().join(format!("tasuki-lab-calls-{}-{subject}", std::process::id()));
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-c", "-U", "calls,name", "-o"]).arg(&table).arg(this_program());
    let server = Server::start(command, subject, asked.work()).map_err(|_| "strace cannot be run here")?;
    let mut client = Client::of(server.address, n, asked);
    (0..rounds).for_each(|_| client.round(&mut Vec::new()));
    drop(client);
    let ended = server.end();
    let text = std::fs::read_to_string(&table);
    std::fs::remove_file(&table).ok();
    ended?;
    let text = text.map_err(|_| "strace wrote nothing")?;
    sum_of_calls(&text).ok_or("what strace wrote is not understood")
}

/// The sum of a table of `strace -c -U calls,name`.
fn sum_of_calls(table: &str) -> Option<u64> {
    let total = table.lines().rev().find(|line| line.split_whitespace().nth(1) == Some("total"))?;
    total.split_whitespace().next()?.parse().ok()
}

/// Memory of the heap for a connection: its task and the state of its socket. The buffers of the server are one byte, and nothing happens. The heap is that of the whole process: nothing else may
/// run in it.
pub(super) fn memory<R: NetRuntime>(n: usize) -> Result<f64, &'static str> {
    let _ = pin_side(1);
    let _watch = alloc::Watch::start();
    let address = R::start(Arc::new(NetWork::Bytes));
    // The first brings what a runtime has once.
    let mut streams = Vec::with_capacity(n + 1);
    streams.push(answered(address));
    let before = alloc::live_bytes();
    streams.extend((0..n).map(|_| answered(address)));
    let bytes = alloc::live_bytes() - before;
    // For the rest of the process: what their servers would give back is not to be counted for the next subject.
    std::mem::forget(streams);
    if bytes > 0 { Ok(bytes as f64 / n as f64) } else { Err("other memory of the process was given back") }
}

/// A connection whose server has answered, and waits again.
fn answered(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    // The second answer comes from a task that has waited.
    for _ in 0..2 {
        stream.write_all(b"x").expect("the server reads");
        stream.read_exact(&mut [0]).expect("the server answers");
    }
    stream
}

/// Processor time of a server in whose connections nothing happens for so many seconds, in microseconds.
pub(super) fn idle_time(subject: &str, n: usize, seconds: u64) -> Result<f64, &'static str> {
    let server = Server::start(Command::new(this_program()), subject, "bytes")?;
    let streams: Vec<_> = (0..n).map(|_| answered(server.address)).collect();
    thread::sleep(SETTLES);
    let read = || time_of_process(server.process.id()).ok_or("the system does not tell the time of threads");
    let before = read()?;
    thread::sleep(Duration::from_secs(seconds));
    let spent = read()? - before;
    drop(streams);
    server.end()?;
    Ok(spent / 1_000.0)
}

/// Processor time of all threads of a process, in nanoseconds.
fn time_of_process(process: u32) -> Option<f64> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let time = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    threads.map(time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_understood() {
        let table = "    calls syscall\n--------- ----------------\n      120 epoll_wait\n       80 read\n--------- ----------------\n      200 total\n";
        assert_eq!(sum_of_calls(table), Some(200));
        assert_eq!(sum_of_calls("strace: ptrace: Operation not permitted"), None);
    }
}
