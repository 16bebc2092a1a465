//! What comes from outside of a worker that always has something to do, tasks that other threads spawn or wake and sockets, waits for some of its polls, and not for 64 however long.

use crate::kit::{MS, runtime, scaled, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Instant;
use tasuki_rt::{JoinHandle, Runtime, yield_now};

/// How many polls it may have to wait for: the clock is looked at after each, the tasks that are queued before it come first.
const MOST: usize = 16;
const TASKS: usize = 3;

/// Tasks with polls of a millisecond, which never wait; those polls are counted that begin while something waits.
struct Busy {
    waits: AtomicBool,
    polls: AtomicUsize,
    stop: AtomicBool,
}

impl Busy {
    fn on(runtime: &Runtime) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let (waits, polls, stop) = Default::default();
        let busy = Arc::new(Self { waits, polls, stop });
        let one = |_| {
            let busy = busy.clone();
            runtime.spawn(async move {
                while !busy.stop.load(SeqCst) {
                    if busy.waits.load(SeqCst) {
                        busy.polls.fetch_add(1, SeqCst);
                    }
                    let start = Instant::now();
                    while start.elapsed() < MS {}
                    // At real-time priority a busy thread keeps its processor, which the test's own thread may need.
                    thread::yield_now();
                    yield_now().await;
                }
            })
        };
        let tasks = (0..TASKS).map(one).collect();
        (busy, tasks)
    }

    /// From now on something waits.
    fn begin(&self) {
        self.waits.store(true, SeqCst);
    }

    /// It runs: not too many polls came before it.
    fn end(&self) -> usize {
        self.waits.store(false, SeqCst);
        self.polls.swap(0, SeqCst)
    }
}

/// The rounds differ in where the worker is in its 64 picks.
fn check(round: impl Fn(&Runtime, &Arc<Busy>) -> usize) {
    let _dog = watchdog(120);
    let runtime = runtime(1);
    runtime.start().unwrap();
    let (busy, tasks) = Busy::on(&runtime);
    for _ in 0..scaled(10, 2) {
        // The last one may have run before it was said to wait.
        busy.end();
        let polls = round(&runtime, &busy);
        assert!(polls <= MOST, "{polls} polls of a millisecond came before it");
    }
    busy.stop.store(true, SeqCst);
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_task_that_is_spawned() {
    check(|runtime, busy| {
        let ran = busy.clone();
        let task = runtime.spawn(async move { ran.end() });
        // Afterwards: if this thread is held up, it counts fewer.
        busy.begin();
        runtime.block_on(task).unwrap()
    });
}

#[cfg(feature = "net")]
#[test]
#[cfg_attr(miri, ignore = "Miri has no sockets")]
fn a_socket_that_is_ready() {
    use std::io::Write;
    use tasuki_rt::net::TcpListener;

    check(|runtime, busy| {
        let ran = busy.clone();
        let (told, address) = std::sync::mpsc::channel();
        let task = runtime.spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut byte = [0];
            stream.read(&mut byte).await.unwrap();
            ran.end()
        });
        let mut peer = std::net::TcpStream::connect(address.recv().unwrap()).unwrap();
        peer.write_all(&[1]).unwrap();
        busy.begin();
        runtime.block_on(task).unwrap()
    });
}
