//! Every public awaitable of the runtime that is dropped while it waits keeps no waker: neither is the task woken for what it no longer waits for, nor does its memory outlive it. The rows are
//! compared with the sources.

use super::budget_table::awaitables_of;
use crate::kit::waker::Spy;
use crate::kit::{poll_with, runtime, watchdog};
use socket2::SockRef;
use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Waker;
use std::time::Duration;
use tasuki_rt::io::Async;
use tasuki_rt::net::{
    TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream, lookup_host,
};
use tasuki_rt::signal::unix::{SignalKind, signal};
use tasuki_rt::{JoinSet, TaskLocal, WorkerId, interval, sleep, spawn, timeout, yield_now};

const LONG: Duration = Duration::from_secs(600);

/// What is left after one poll and the drop.
#[derive(Debug, PartialEq)]
enum Outcome {
    Nothing,
    /// So many wakers.
    Wakers(isize),
    /// The first poll was ready: the row shows nothing.
    WasReady,
}

struct Row {
    name: &'static str,
    run: fn() -> Pin<Box<dyn Future<Output = Outcome>>>,
}

/// Polls once, and drops.
fn drop_it<F: Future>(future: F) -> Outcome {
    let spy = Spy::new();
    let mut future = Box::pin(future);
    let was_ready = poll_with(&mut future, &spy.waker()).is_ready();
    drop(future);
    match (was_ready, spy.alive()) {
        (true, _) => Outcome::WasReady,
        (false, 0) => Outcome::Nothing,
        (false, left) => Outcome::Wakers(left),
    }
}

/// Finds out that an operation would block, which is not known before the first.
fn try_once<F: Future>(future: F) {
    assert!(poll_with(&mut Box::pin(future), Waker::noop()).is_pending());
}

/// A row: what the operation needs, and the operation.
macro_rules! row {
    ($name:literal, { $($setup:tt)* }, $operation:expr) => {
        Row {
            name: $name,
            run: || {
                Box::pin(async {
                    $($setup)*
                    drop_it($operation)
                })
            },
        }
    };
}

/// Rows of what needs the same, each by the name of its function.
macro_rules! each {
    ($setup:tt, $($name:literal => $operation:expr),* $(,)?) => {
        vec![$(row!($name, $setup, $operation)),*]
    };
}

/// A descriptor to which no more can be written now, and its peer, which has sent nothing.
fn full() -> (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream) {
    let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    while (&one).write(&[0; 65_536]).is_ok() {}
    (one, other)
}

/// The same over TCP, where bytes are on their way for a while after a write.
fn full_tcp() -> (TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let other = listener.accept().unwrap().0;
    SockRef::from(&one).set_send_buffer_size(4_096).unwrap();
    one.set_nonblocking(true).unwrap();
    let mut blocked = 0;
    while blocked < 3 {
        if (&one).write(&[0; 65_536]).is_ok() {
            blocked = 0;
        } else {
            blocked += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    (TcpStream::from_std(one).unwrap(), other)
}

/// Writes until it would block: on a busy machine bytes may have gone on since the stream was full.
fn fill(stream: &mut TcpStream) {
    while poll_with(&mut Box::pin(stream.write(b"x")), Waker::noop()).is_ready() {}
}

/// A name in the file system, as long as it is needed.
struct Named(PathBuf);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Datagrams that stay where they are: a socket that can send no more to the one with this path.
fn full_datagrams() -> (UnixDatagram, std::os::unix::net::UnixDatagram, Named) {
    let name = format!("tasuki-rt-dropped-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let other = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let one = std::os::unix::net::UnixDatagram::unbound().unwrap();
    one.set_nonblocking(true).unwrap();
    while one.send_to(b"x", &path).is_ok() {}
    (UnixDatagram::from_std(one).unwrap(), other, Named(path))
}

#[allow(unused_mut, unused_variables, reason = "not every operation needs all that is made")]
fn rows() -> Vec<Row> {
    static NUMBER: TaskLocal<u32> = TaskLocal::new();
    let tasks = each!(
        {
            let mut set = JoinSet::new();
            set.insert(spawn(pending::<()>()));
            let mut ticks = interval(LONG);
            ticks.tick().await;
        },
        "timeout" => timeout(LONG, pending::<()>()),
        "Scoped" => NUMBER.scope(1, sleep(LONG)),
        "Interval::tick" => ticks.tick(),
        "JoinHandle" => spawn(pending::<()>()),
        "JoinSet::join_next" => set.join_next(),
        "JoinSet::join_next_with_id" => set.join_next_with_id(),
        "JoinSet::join_all" => set.join_all(),
        "JoinSet::shutdown" => set.shutdown(),
        "yield_now" => yield_now(),
        "Signal::recv" => async { signal(SignalKind::window_change()).unwrap().recv().await },
    );
    let streams = each!(
        {
            let (mut stream, _peer) = full_tcp();
            try_once(stream.read(&mut [0]));
            fill(&mut stream);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
        },
        "TcpStream::connect" => TcpStream::connect(address),
        "TcpStream::readable" => stream.readable(),
        "TcpStream::writable" => stream.writable(),
        "TcpStream::read" => stream.read(&mut [0]),
        "TcpStream::read_exact" => stream.read_exact(&mut [0]),
        "TcpStream::write" => stream.write(&[0]),
        "TcpStream::write_all" => stream.write_all(&[0]),
        "TcpStream::peek" => stream.peek(&mut [0]),
        "TcpListener::accept" => listener.accept(),
    );
    let unix_streams = each!(
        {
            let (one, _peer) = full();
            let mut stream = UnixStream::from_std(one).unwrap();
            try_once(stream.read(&mut [0]));
            try_once(stream.write(&[0]));
        },
        "UnixStream::readable" => stream.readable(),
        "UnixStream::writable" => stream.writable(),
        "UnixStream::read" => stream.read(&mut [0]),
        "UnixStream::read_exact" => stream.read_exact(&mut [0]),
        "UnixStream::write" => stream.write(&[0]),
        "UnixStream::write_all" => stream.write_all(&[0]),
    );
    let halves = each!(
        {
            let (one, _peer) = full();
            let mut stream = UnixStream::from_std(one).unwrap();
            let (mut read, mut write) = stream.split();
        },
        "ReadHalf::read" => read.read(&mut [0]),
        "ReadHalf::read_exact" => read.read_exact(&mut [0]),
        "WriteHalf::write" => write.write(&[0]),
        "WriteHalf::write_all" => write.write_all(&[0]),
    );
    let owned_halves = each!(
        {
            let (one, _peer) = full();
            let (mut read, mut write) = UnixStream::from_std(one).unwrap().into_split();
        },
        "OwnedReadHalf::read" => read.read(&mut [0]),
        "OwnedReadHalf::read_exact" => read.read_exact(&mut [0]),
        "OwnedWriteHalf::write" => write.write(&[0]),
        "OwnedWriteHalf::write_all" => write.write_all(&[0]),
    );
    let descriptors = each!(
        {
            let (one, _peer) = full();
            let one = Async::new(one).unwrap();
            try_once(one.read_with(|mut io| io.read(&mut [0])));
            try_once(one.write_with(|mut io| io.write(&[0])));
        },
        "Async::readable" => one.readable(),
        "Async::writable" => one.writable(),
        "Async::read_with" => one.read_with(|mut io| io.read(&mut [0])),
        "Async::write_with" => one.write_with(|mut io| io.write(&[0])),
    );
    let datagrams = each!(
        {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            socket.connect(socket.local_addr().unwrap()).await.unwrap();
            try_once(socket.recv(&mut [0]));
        },
        "UdpSocket::readable" => socket.readable(),
        "UdpSocket::recv" => socket.recv(&mut [0]),
        "UdpSocket::recv_from" => socket.recv_from(&mut [0]),
        "UdpSocket::peek_from" => socket.peek_from(&mut [0]),
    );
    let unix_datagrams = each!(
        {
            let (socket, _other, path) = full_datagrams();
            try_once(socket.recv(&mut [0]));
            socket.connect(&path.0).unwrap();
            try_once(socket.send(b"x"));
        },
        "UnixDatagram::readable" => socket.readable(),
        "UnixDatagram::writable" => socket.writable(),
        "UnixDatagram::recv" => socket.recv(&mut [0]),
        "UnixDatagram::recv_from" => socket.recv_from(&mut [0]),
        "UnixDatagram::send" => socket.send(b"x"),
        "UnixDatagram::send_to" => socket.send_to(b"x", &path.0),
    );
    let listener = each!(
        {
            let name = format!("tasuki-rt-dropped-accept-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
        },
        "UnixListener::accept" => listener.accept(),
    );
    let all = [
        tasks,
        streams,
        unix_streams,
        halves,
        owned_halves,
        descriptors,
        datagrams,
        unix_datagrams,
        listener,
    ];
    all.into_iter().flatten().collect()
}

/// Awaitables that store no waker of their own: they are ready at once, unless they yield or look up a name. `ctrl_c` stores its waker as `Signal::recv` does, and would make the test program ignore an interrupt.
const OTHERS: [&str; 10] = [
    "TcpListener::bind",
    "UdpSocket::bind",
    "UdpSocket::connect",
    "UdpSocket::send",
    "UdpSocket::send_to",
    "UdpSocket::writable",
    "UnixStream::connect",
    "checkpoint",
    "lookup_host",
    "ctrl_c",
];

#[test]
#[cfg_attr(miri, ignore = "Miri has no sockets")]
fn what_is_dropped_keeps_no_waker() {
    let _dog = watchdog(120);
    // One worker, which runs the row: what is reported meanwhile is delivered later.
    let runtime = runtime(1);
    let bad: Vec<_> = rows()
        .iter()
        .map(|row| (row.name, runtime.block_on(runtime.spawn_on(WorkerId::new(0), row.run)).unwrap()))
        .filter(|(_, outcome)| *outcome != Outcome::Nothing)
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
    // A name: the lookup may be ready before the poll, and is waited for by a handle.
    let lookup = || async { drop_it(lookup_host("localhost:1")) };
    let left = runtime.block_on(runtime.spawn_on(WorkerId::new(0), lookup)).unwrap();
    assert!(!matches!(left, Outcome::Wakers(_)), "{left:?}");
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_awaitable_has_a_row() {
    let public = awaitables_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let rows: BTreeSet<String> = rows().iter().map(|row| row.name).chain(OTHERS).map(str::to_owned).collect();
    let differs: Vec<_> = public.symmetric_difference(&rows).collect();
    assert!(differs.is_empty(), "awaitables without a row, or rows for what there is not: {differs:?}");
}

/// A read that was dropped does not wake its task when bytes come, while a write in the other direction, whose waker is beside it, waits on.
#[test]
#[cfg_attr(miri, ignore = "Miri has no sockets")]
fn a_read_that_was_dropped_wakes_no_task() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    runtime.start().unwrap();
    let (one, mut peer) = full();
    let mut stream = {
        let _inside = runtime.enter();
        UnixStream::from_std(one).unwrap()
    };
    let (dropped, other) = (Spy::new(), Spy::new());
    let (mut read, mut write) = stream.split();
    assert!(poll_with(&mut Box::pin(read.read(&mut [0])), &dropped.waker()).is_pending());
    let mut writes = Box::pin(write.write(&[0]));
    assert!(poll_with(&mut writes, &other.waker()).is_pending());
    peer.write_all(b"x").unwrap();
    // By a queue beside the slot: it is told of the same report, after the slot.
    runtime.block_on(read.stream().readable()).unwrap();
    assert_eq!((dropped.wakes(), dropped.alive(), other.wakes()), (0, 0, 0));
    let mut rest = [0; 65_536];
    assert!(peer.read(&mut rest).unwrap() > 0);
    while other.wakes() == 0 {
        // Room for one page or more is what makes it writable.
        peer.set_nonblocking(true).unwrap();
        let _ = peer.read(&mut rest);
    }
    assert!(runtime.block_on(writes).is_ok());
}
