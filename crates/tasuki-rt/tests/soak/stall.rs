//! A stalled machine or a stalled runtime? Tasks that must run at once, and a clock that stands still when the machine does.
//!
//! The clock is a thread of ours that sleeps a millisecond at a time and counts. A task that has not run after thousands of its ticks
//! is not late because the machine was busy: the clock was scheduled thousands of times meanwhile. What the system says of
//! our threads is reported with it: workers that sleep while a task is runnable have missed a wake-up; workers that are runnable have not.

use crate::kit::rng::Rng;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::Event;
use tasuki_rt::{Runtime, spawn, yield_now};

/// After so many ticks a runtime is stalled.
const PATIENCE_TICKS: u64 = 5_000;
const TICK: Duration = Duration::from_millis(1);

static TICKS: AtomicU64 = AtomicU64::new(0);
/// The longest time between two ticks, in µs: how late this machine has been for us.
static WORST_TICK: AtomicU64 = AtomicU64::new(0);

/// Starts the clock, which never stops.
pub(crate) fn start_clock() {
    thread::spawn(|| {
        let mut last = Instant::now();
        loop {
            thread::sleep(TICK);
            let now = Instant::now();
            WORST_TICK.fetch_max((now - last).as_micros() as u64, SeqCst);
            TICKS.fetch_add(1, SeqCst);
            last = now;
        }
    });
}

/// What the clock and the system know, for a failure.
pub(crate) fn report() -> String {
    let mut text = format!(
        "{} ticks of the clock, the longest took {} ms; threads:",
        TICKS.load(SeqCst),
        WORST_TICK.load(SeqCst) / 1000
    );
    for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |file| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let status = read("status");
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim();
        let _ = write!(text, "\n  {}: {}, in {}", field("Name:"), field("State:"), read("wchan"));
    }
    text
}

/// What a runtime is asked to do at once.
#[derive(Clone, Copy, Debug)]
enum Request {
    /// A task from outside.
    Spawn,
    /// A task from outside spawns one that yields.
    SpawnInside,
    /// A task from outside waits for an event that is set just after it was spawned.
    WakeEarly,
}

/// Asks a runtime, one request after the other; how long the worst took. `Err` if one was not answered.
pub(crate) fn probe(runtime: &Runtime, rng: &mut Rng, requests: usize) -> Result<Duration, String> {
    probe_for(PATIENCE_TICKS, runtime, rng, requests)
}

fn probe_for(patience: u64, runtime: &Runtime, rng: &mut Rng, requests: usize) -> Result<Duration, String> {
    let mut worst = Duration::ZERO;
    for _ in 0..requests {
        let request = [Request::Spawn, Request::SpawnInside, Request::WakeEarly][rng.below(3)];
        let (start, tick) = (Instant::now(), TICKS.load(SeqCst));
        let ran = ask(runtime, request);
        while !ran.load(SeqCst) {
            let ticks = TICKS.load(SeqCst) - tick;
            if ticks > patience {
                return Err(format!("{request:?} was not answered in {ticks} ticks\n{}", report()));
            }
            // By turns with a nap, so that the workers fall asleep in different states of this thread.
            if rng.per_mille(500) { thread::yield_now() } else { thread::sleep(TICK / 20) }
        }
        worst = worst.max(start.elapsed());
    }
    Ok(worst)
}

fn ask(runtime: &Runtime, request: Request) -> Arc<AtomicBool> {
    let ran = Arc::new(AtomicBool::new(false));
    let tell = ran.clone();
    match request {
        Request::Spawn => drop(runtime.spawn(async move { tell.store(true, SeqCst) })),
        Request::SpawnInside => drop(runtime.spawn(async move {
            drop(spawn(async move {
                yield_now().await;
                tell.store(true, SeqCst);
            }));
        })),
        Request::WakeEarly => {
            let event = Arc::new(Event::manual());
            let waits = event.clone();
            drop(runtime.spawn(async move {
                waits.wait().await;
                tell.store(true, SeqCst);
            }));
            event.set();
        }
    }
    ran
}

/// A runtime whose threads were never started answers nothing.
#[test]
#[cfg_attr(miri, ignore)]
fn a_stalled_runtime_is_noticed() {
    start_clock();
    let runtime = Runtime::builder().workers(1).build().expect("a runtime can be made");
    let mut rng = Rng::new(1);
    let why = probe_for(20, &runtime, &mut rng, 3).expect_err("nothing runs");
    assert!(why.contains("was not answered"), "{why}");
    runtime.start().expect("threads can be started");
    probe(&runtime, &mut rng, 3).expect("it runs");
}
