//! Everything at once, at random, on several workers: `cargo xtask soak`. Among the tests it runs for a few seconds.
//!
//! Epoch by epoch: a crowd of tasks is spawned, pinned, aborted; they sleep, lock every primitive, spawn others, panic; threads from
//! outside meddle. Then the epoch ends in one of the ways a runtime can end, and everything is checked: every task is accounted
//! for, every lock is free and its sums agree, nothing is left in memory. A watchdog checks that something happens all the time, so a
//! wake-up that is lost is noticed, at the latest when all other tasks have ended; tasks that must run at once tell a stalled runtime from a
//! stalled machine.
//!
//! Any panic but those that are meant ends the process, with the seed.

#[path = "../kit/alloc.rs"]
#[allow(dead_code, reason = "a part of it is used")]
mod alloc;
#[path = "../../../tasuki/tests/kit/mod.rs"]
mod kit;
mod lateness;
mod ops;
mod other_tasks;
mod shared_state;
#[cfg(feature = "net")]
mod sockets;
mod stall;
mod task_log;
mod tasks;

use alloc::live as live_bytes;
use kit::env_or;
use kit::rng::{Rng, Seed};
use lateness::Lateness;
use shared_state::SharedState;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};
use task_log::TaskLog;
use tasks::{Kind, meddler, spawn_task};
use tasuki_rt::{Resume, Runtime};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// So long nothing may happen, in ticks of the watchdog, which stands still when the process does.
const PATIENCE_TICKS: u32 = 300;
const TICK: Duration = Duration::from_millis(100);
/// What may be left allocated more than after the first epochs: queues and threads of others, at their largest. With debug assertions locks and waits are noted, and the notes keep
/// the room of the largest crowd.
const SLACK_BYTES: usize = if cfg!(debug_assertions) { 3 << 20 } else { 256 << 10 };
/// In a run that is so long, enough deadlines come while the machine is not late itself.
const JUDGED: Duration = Duration::from_secs(60);
/// Epochs before the base line is drawn.
const WARM_UP: u64 = 3;

/// The whole run.
struct Soak {
    seed: u64,
    workers: usize,
    rng: Rng,
    started: Instant,
    said: Instant,
    epochs: u64,
    /// Spawned, finished, cut short, steps, in the epochs that are over.
    sums: [u64; 4],
    base: usize,
    bytes: usize,
    watched: Arc<Mutex<Arc<TaskLog>>>,
    lateness: Lateness,
    /// Bytes that came through sockets.
    received: u64,
    /// The longest that a task waited which should run at once.
    worst: Duration,
}

/// How an epoch ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The tasks end by themselves. No thread comes from outside whose wake-up would make up for a lost one.
    Alone,
    /// The tasks are asked to stop, and the runtime goes on.
    Quiet,
    /// The same, and the runtime drains.
    Drain,
    /// A drain whose time is soon over, then a shutdown.
    Impatient,
    Shutdown,
    Drop,
}

impl End {
    const ALL: [Self; 6] =
        [Self::Alone, Self::Quiet, Self::Drain, Self::Impatient, Self::Shutdown, Self::Drop];
}

/// Ends the process, loudly.
fn fail(note: &str, why: &str) -> ! {
    // Not `eprintln!`: what the test harness captures is lost in an abort.
    let _ = std::io::stderr().write_all(format!("\nsoak FAILED: {why}\n{note}\n").as_bytes());
    std::process::abort();
}

fn wait_until(mut so: impl FnMut() -> bool) {
    while !so() {
        thread::sleep(Duration::from_micros(300));
    }
}

impl Soak {
    fn new(seed: u64, workers: usize) -> Self {
        let watched = Arc::new(Mutex::new(Arc::default()));
        let note = format!("again by: cargo xtask soak --seed {seed} --workers {workers}");
        let hook_note = note.clone();
        // Those that are meant do not come here.
        std::panic::set_hook(Box::new(move |panic| {
            fail(&hook_note, &format!("{panic}\n{}", std::backtrace::Backtrace::force_capture()));
        }));
        let dog = watched.clone();
        thread::spawn(move || watch(&dog, &note));
        stall::start_clock();
        let now = Instant::now();
        let (rng, base) = (Rng::new(seed), usize::MAX);
        let lateness = Lateness::default();
        Self {
            seed,
            workers,
            rng,
            started: now,
            said: now,
            epochs: 0,
            sums: [0; 4],
            base,
            bytes: 0,
            watched,
            lateness,
            received: 0,
            worst: Duration::ZERO,
        }
    }

    fn runtime(&mut self) -> Runtime {
        let resume = [Resume::Next, Resume::Local, Resume::Global][self.rng.below(10).min(2)];
        Runtime::builder().workers(self.workers).resume(resume).build().expect("a runtime can be made")
    }

    fn run(&mut self, time: Duration) {
        println!("soak: {} workers, {time:?}, seed {}", self.workers, self.seed);
        let mut runtime = None;
        while self.started.elapsed() < time {
            let current = runtime.take().unwrap_or_else(|| self.runtime());
            runtime = self.epoch(current);
            if runtime.is_none() {
                self.lateness.measure(&mut self.rng);
                self.check_memory();
            }
            self.epochs += 1;
        }
        drop(runtime);
        self.say();
        // Among the tests, which share the machine with others, nothing is judged by time.
        self.lateness.judge(time >= JUDGED);
    }

    /// Runs a crowd for a while; gives the runtime back if it goes on.
    fn epoch(&mut self, runtime: Runtime) -> Option<Runtime> {
        let shared = Arc::new(SharedState::new());
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = shared.log.clone();
        let over = Arc::new(AtomicBool::new(false));
        if self.rng.per_mille(500) {
            self.encounters(&runtime, &shared);
        }
        let meddlers = [0; 2].map(|_| meddler(shared.clone(), over.clone(), self.rng.next()));
        let end = End::ALL[self.rng.below(End::ALL.len())];
        self.load(&runtime, &shared);
        over.store(end == End::Alone, SeqCst);
        let runtime = finish(runtime, &shared, end);
        wait_until(|| shared.log.live_tasks() == 0);
        wait_until(|| shared.posts.load(SeqCst) == shared.posts_gone.load(SeqCst));
        over.store(true, SeqCst);
        meddlers.into_iter().for_each(|meddler| meddler.join().expect("it does not panic"));
        while shared.take(0).is_some() {}
        drop(shared.take_wakers());
        // What a shutdown that was not waited for has left goes last.
        wait_until(|| Arc::strong_count(&shared) == 1);
        shared.check();
        self.received += shared.received.load(SeqCst);
        let log = &shared.log;
        let counts = [&log.opened, &log.finished, &log.cut, &log.steps];
        self.sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count.load(SeqCst));
        runtime
    }

    fn spawn(&mut self, runtime: &Runtime, shared: &Arc<SharedState>, depth: u8) {
        let (kind, seed) = (Kind::pick(&mut self.rng), self.rng.next());
        let handle = spawn_task(Some(runtime), shared, kind, seed, depth, None);
        if self.rng.per_mille(500) {
            shared.keep(handle, self.rng.below(256));
        }
    }

    /// A few at a time, until they have gone: in a crowd the wake-ups of others make up for a lost one.
    fn encounters(&mut self, runtime: &Runtime, shared: &Arc<SharedState>) {
        runtime.start().expect("threads can be started");
        let until = Instant::now() + Duration::from_millis(500);
        let lone = Runtime::builder().workers(1).build().expect("a runtime can be made");
        lone.start().expect("threads can be started");
        while Instant::now() < until {
            (0..1 + self.rng.below(3)).for_each(|_| self.spawn(runtime, shared, 1));
            wait_until(|| runtime.tasks() == 0);
            for asked in [&lone, runtime] {
                match stall::probe(asked, &mut self.rng, 5) {
                    Ok(worst) => self.worst = self.worst.max(worst),
                    Err(why) => panic!("a runtime of {} workers is stalled: {why}", asked.workers()),
                }
            }
        }
    }

    /// Keeps a crowd alive for a while.
    fn load(&mut self, runtime: &Runtime, shared: &Arc<SharedState>) {
        let crowd = [5, 20, 200, 2000][self.rng.below(4)];
        let until = Instant::now() + Duration::from_millis(100 + self.rng.next() % 600);
        if self.rng.per_mille(800) {
            runtime.start().expect("threads can be started");
        }
        while Instant::now() < until {
            while shared.log.live_tasks() < crowd {
                self.spawn(runtime, shared, 3);
            }
            runtime.start().expect("threads can be started");
            thread::sleep(Duration::from_millis(1));
            if self.said.elapsed() > Duration::from_secs(5) {
                self.say();
            }
        }
    }

    /// No runtime and no task is left: what is allocated is what was.
    fn check_memory(&mut self) {
        let settled = |base: usize| live_bytes() <= base.saturating_add(SLACK_BYTES);
        if self.epochs < WARM_UP || self.base == usize::MAX {
            // Threads of runtimes whose end was not waited for.
            thread::sleep(Duration::from_millis(700));
            self.base = live_bytes();
        }
        let patience = (0..100).any(|_| {
            settled(self.base) || {
                thread::sleep(TICK);
                false
            }
        });
        self.bytes = live_bytes();
        assert!(patience, "{} bytes are allocated, {} at first", self.bytes, self.base);
    }

    fn say(&mut self) {
        self.said = Instant::now();
        let [spawned, finished, cut, steps] = self.sums;
        println!(
            "{:5} s  {:4} epochs  {spawned} tasks: {finished} finished, {cut} cut short  {steps} steps  {} KiB by sockets  {} KiB  first poll after {:?} at worst",
            self.started.elapsed().as_secs(),
            self.epochs,
            self.received / 1024,
            self.bytes / 1024,
            self.worst,
        );
    }
}

fn finish(runtime: Runtime, shared: &SharedState, end: End) -> Option<Runtime> {
    let soon = Duration::from_millis(2);
    match end {
        End::Alone | End::Quiet => {
            if end == End::Quiet {
                shared.stop.request_cancel();
            }
            wait_until(|| runtime.tasks() == 0);
            return Some(runtime);
        }
        End::Drain => {
            shared.stop.request_cancel();
            runtime.drain(Duration::MAX).expect("called from outside");
        }
        End::Impatient => {
            let _ = runtime.drain(soon);
            runtime.shutdown_timeout(Duration::MAX).expect("called from outside");
        }
        End::Shutdown => runtime.shutdown_timeout(Duration::MAX).expect("called from outside"),
        End::Drop => return None,
    }
    assert_eq!(runtime.tasks(), 0);
    None
}

/// The watchdog: if nothing happens for too long, it fails the run.
fn watch(watched: &Mutex<Arc<TaskLog>>, note: &str) {
    let (mut pulse, mut still) = (0, 0);
    loop {
        thread::sleep(TICK);
        let log = watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = log.pulse();
        still = if now == pulse { still + 1 } else { 0 };
        pulse = now;
        if still > PATIENCE_TICKS {
            let (left, threads) = (log.report(&ops::NAMES), stall::report());
            fail(note, &format!("nothing happens; still there:\n{left}\n{threads}"));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn everything_at_once() {
    let (seconds, workers) = (env_or("TASUKI_SOAK_SECONDS", 4), env_or("TASUKI_SOAK_WORKERS", 3));
    let seed = Seed::pick();
    Soak::new(seed.0, workers as usize).run(Duration::from_secs(seconds));
}

/// What this process has had of its processors: neighbours do not add to it, as they do to the time that goes by.
#[cfg(unix)]
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to `time`, which is there.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "the clock of the process can be read");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// B139: a million timers do not delay a shutdown by more than a second of the processors.
#[test]
#[cfg(unix)]
#[ignore = "a bound on time: `cargo xtask soak` has it"]
fn a_shutdown_with_a_million_timers_is_quick() {
    kit::process::alone(|| {
        let (timers, armed) = (1_000_000, Arc::new(AtomicUsize::new(0)));
        let runtime = Runtime::builder().workers(2).build().expect("a runtime can be made");
        for n in 0..timers {
            let armed = armed.clone();
            drop(runtime.spawn(async move {
                let mut sleep = Box::pin(tasuki_rt::sleep(Duration::from_secs(3_600 + n % 100_000)));
                assert!(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await.is_pending());
                armed.fetch_add(1, SeqCst);
                sleep.await;
            }));
        }
        runtime.start().expect("threads can be had");
        wait_until(|| armed.load(SeqCst) as u64 == timers);
        let (start, before) = (Instant::now(), processor_time());
        drop(runtime);
        let (waited, took) = (start.elapsed(), processor_time() - before);
        println!("shutdown with {timers} timers: {took:?} of the processors, {waited:?} went by");
        assert!(took < Duration::from_secs(1), "{took:?}");
    });
}
