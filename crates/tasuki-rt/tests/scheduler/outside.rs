//! What comes from outside to a worker that always has something to do waits for some of its polls, and not for 64 however long.
//!
//! A table: everything that can come (a task, a posted closure, a deadline, a socket) × both runtimes × everything that can keep the worker busy, what comes from outside itself included × long and short polls.

use crate::kit::{MS, scaled, watchdog};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::Event;
use tasuki_rt::{EventLoop, Handle, LocalRuntime, Resume, Runtime, WorkerId, sleep_until, spawn, yield_now};

/// How long a poll takes at least, and how many it may have to wait for. Long ones: the clock is looked at after each, and the tasks that are queued before it come first. Short ones: 64 picks are
/// fewer than what the clock allows; a deadline is a tick of a millisecond late, and half of one until the clock is looked at: 750 polls, however fast the processor is.
const POLLS: [(Duration, usize); 2] = [(MS, 16), (Duration::from_micros(2), 1_000)];
const BUSY_TASKS: usize = 3;

/// What keeps the worker busy.
#[derive(Clone, Copy, Debug)]
enum Busy {
    Tasks,
    /// Tasks that come from outside themselves, each time: with [`Resume::Global`] a yield goes there.
    GlobalTasks,
    /// A closure that posts itself again.
    Closure,
    /// The future of `block_on`: of a `LocalRuntime` a part of its worker.
    BlockOn,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Runtime,
    LocalRuntime,
}

/// What the busy worker, and the thread that has something for it, share.
struct Load {
    length: Duration,
    /// Since when something waits for the worker.
    waits_since: Mutex<Option<Instant>>,
    /// The polls that began since then.
    polls: AtomicUsize,
    stop: AtomicBool,
    /// The thread has ended.
    ended: Event,
}

impl Load {
    /// One poll of what keeps the worker busy; false when that is to end.
    fn step(&self) -> bool {
        let start = Instant::now();
        if self.waits_since.lock().unwrap().is_some_and(|since| since <= start) {
            self.polls.fetch_add(1, SeqCst);
        }
        while start.elapsed() < self.length {}
        // At real-time priority a busy thread keeps its processor, which the test's own thread may need.
        thread::yield_now();
        !self.stop.load(SeqCst)
    }

    async fn keep_busy(&self) {
        while self.step() {
            yield_now().await;
        }
    }

    /// From then on something waits.
    fn waits_since(&self, since: Instant) {
        self.polls.store(0, SeqCst);
        *self.waits_since.lock().unwrap() = Some(since);
    }

    /// It runs, after so many polls.
    fn runs(&self) -> usize {
        *self.waits_since.lock().unwrap() = None;
        self.polls.swap(0, SeqCst)
    }
}

fn post_again(here: EventLoop, load: Arc<Load>) {
    if load.step() {
        let (there, load) = (here.clone(), load);
        // The loop ends with its runtime.
        let _ = here.post(move || post_again(there, load));
    }
}

/// Everything that another thread has for the worker: called there, with what is to be told how many polls came first.
type Source = fn(&Handle, &EventLoop, &Arc<Load>, mpsc::Sender<usize>);

/// In the runtime: starts what keeps the worker busy, and the thread that has something for it. The rounds differ in where the worker is in its 64 picks.
async fn check(busy: Busy, load: Arc<Load>, handle: Handle, source: Source) -> thread::JoinHandle<usize> {
    let here = spawn(async { EventLoop::current().unwrap() }).await.unwrap();
    match busy {
        Busy::Tasks | Busy::GlobalTasks => (0..BUSY_TASKS).for_each(|_| {
            let load = load.clone();
            drop(spawn(async move { load.keep_busy().await }));
        }),
        Busy::Closure => {
            let (there, load) = (here.clone(), load.clone());
            here.post(move || post_again(there, load)).unwrap();
        }
        Busy::BlockOn => {}
    }
    let others = load.clone();
    let thread = thread::spawn(move || {
        let most = (0..scaled(5, 1)).map(|_| {
            let (told, polls) = mpsc::channel();
            source(&handle, &here, &others, told);
            // The last one may have run before it was said to wait; one that never runs is counted as that.
            let polls = polls.recv_timeout(Duration::from_secs(10)).unwrap_or(usize::MAX);
            others.runs();
            polls
        });
        let most = most.max().expect("at least one round");
        others.stop.store(true, SeqCst);
        others.ended.set();
        most
    });
    match busy {
        Busy::BlockOn => load.keep_busy().await,
        Busy::Tasks | Busy::GlobalTasks | Busy::Closure => load.ended.wait().await,
    }
    thread
}

fn check_all(source: Source) {
    let _dog = watchdog(120);
    let mut late = Vec::new();
    for (length, most) in POLLS {
        for busy in [Busy::Tasks, Busy::GlobalTasks, Busy::Closure, Busy::BlockOn] {
            for kind in [Kind::Runtime, Kind::LocalRuntime] {
                let (waits_since, polls, stop) = Default::default();
                let load = Arc::new(Load { length, waits_since, polls, stop, ended: Event::manual() });
                let resume = if let Busy::GlobalTasks = busy { Resume::Global } else { Resume::default() };
                let builder = Runtime::builder().workers(1).resume(resume);
                let thread = match kind {
                    Kind::Runtime => {
                        let runtime = builder.build().unwrap();
                        runtime.block_on(check(busy, load, runtime.handle(), source))
                    }
                    Kind::LocalRuntime => {
                        let runtime = builder.build_local().unwrap();
                        runtime.block_on(check(busy, load, runtime.handle(), source))
                    }
                };
                let polls = thread.join().unwrap();
                // `Runtime::block_on` keeps a thread of its own busy, whose polls are no measure for the worker: there it must come at all.
                let is_worker = !matches!((kind, busy), (Kind::Runtime, Busy::BlockOn));
                if polls > if is_worker { most } else { usize::MAX - 1 } {
                    late.push((kind, busy, length, polls));
                }
            }
        }
    }
    assert!(late.is_empty(), "too many polls came before it: {late:?}");
}

#[test]
fn a_task_that_is_spawned() {
    check_all(|handle, _, load, told| {
        let ran = load.clone();
        drop(handle.spawn(async move { told.send(ran.runs()).unwrap() }));
        // Afterwards: if this thread is held up, it counts fewer.
        load.waits_since(Instant::now());
    });
}

#[test]
fn a_pinned_task_that_is_spawned() {
    check_all(|handle, _, load, told| {
        let ran = load.clone();
        drop(handle.spawn_on(WorkerId::new(0), || async move { told.send(ran.runs()).unwrap() }));
        load.waits_since(Instant::now());
    });
}

#[test]
fn a_closure_that_is_posted() {
    check_all(|_, there, load, told| {
        let ran = load.clone();
        there.post(move || told.send(ran.runs()).unwrap()).unwrap();
        load.waits_since(Instant::now());
    });
}

#[test]
fn a_deadline() {
    check_all(|handle, _, load, told| {
        let load = load.clone();
        drop(handle.spawn(async move {
            let due = Instant::now() + 3 * MS;
            load.waits_since(due);
            sleep_until(due).await;
            told.send(load.runs()).unwrap();
        }));
    });
}

/// Of Unix: it is readable when the write has returned. What is sent over TCP may be on its way for many polls, on a machine with much to do.
#[cfg(all(feature = "net", unix))]
#[test]
#[cfg_attr(miri, ignore = "Miri has no sockets")]
fn a_socket_that_is_ready() {
    use std::io::Write;
    use std::os::unix::net;
    use tasuki_rt::net::UnixStream;

    check_all(|handle, _, load, told| {
        let ran = load.clone();
        let (mut peer, stream) = net::UnixStream::pair().unwrap();
        let (tells, waits) = mpsc::channel();
        drop(handle.spawn(async move {
            let stream = UnixStream::from_std(stream).unwrap();
            let mut asked = false;
            stream.readable().await.unwrap();
            while stream.try_read(&mut [0]).is_err() {
                if !std::mem::replace(&mut asked, true) {
                    // From now on only a report makes it ready.
                    tells.send(()).unwrap();
                }
                stream.readable().await.unwrap();
            }
            told.send(ran.runs()).unwrap();
        }));
        waits.recv().unwrap();
        peer.write_all(&[1]).unwrap();
        load.waits_since(Instant::now());
        // Open until it has been read: not a report of its end.
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(1));
            drop(peer);
        });
    });
}

/// `socket_polls` counts where the system was asked, not where a worker wanted to: one that is kept awake by the future of `block_on` asks at one step in 64, or after 500 µs.
#[cfg(feature = "net")]
#[test]
#[cfg_attr(miri, ignore = "as above")]
fn polls_that_did_not_happen_are_not_counted() {
    const YIELDS: u64 = 20_000;
    let _dog = watchdog(60);
    let runtime = LocalRuntime::new().unwrap();
    let handle = runtime.handle();
    runtime.block_on(async {
        let _socket = tasuki_rt::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        yield_now().await;
        let (before, start) = (handle.metrics().socket_polls(), Instant::now());
        for _ in 0..YIELDS {
            yield_now().await;
        }
        let polls = handle.metrics().socket_polls() - before;
        let most = YIELDS / 64 + start.elapsed().as_micros() as u64 / 500 + 2;
        assert!((1..=most).contains(&polls), "{polls} polls in {YIELDS} yields");
    });
}
