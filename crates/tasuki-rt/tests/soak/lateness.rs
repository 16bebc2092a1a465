//! How late deadlines are while one worker is free, beside how late the machine is itself.
//!
//! A task keeps worker 0 in long polls, in each of which it arms sleeps on that worker's wheel for tasks that any worker may run. Worker 1 has nothing else
//! to do. Meanwhile a thread that only sleeps, the stall detector, says by how much the machine was late. A sleep is late if it took more than two milliseconds
//! longer than that. Where the machine itself was later than two milliseconds, nothing can be said of the runtime: such samples are counted, and not judged. Nor are samples in which a worker was ready for as long and had no
//! processor (Linux counts that time): the system prefers threads that mostly sleep, so the detector alone would not see it.

use super::kit::rng::Rng;
use std::fs;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};
use tasuki_rt::{JoinSet, Runtime, WorkerId, sleep_until, yield_now};

/// What a deadline may be late with one worker free.
const LIMIT: Duration = Duration::from_millis(2);
/// A sleep of the stall detector.
const STEP: Duration = Duration::from_micros(500);
const ROUNDS: usize = 5;
const SLEEPS: usize = 20;

/// All samples.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    samples: usize,
    /// Of these, taken while the machine itself was late.
    excused: usize,
    /// Of those that are judged.
    late: usize,
    /// The worst of all.
    worst: Duration,
    /// The worst of the machine.
    stall: Duration,
}

impl Lateness {
    /// Some more samples.
    pub(crate) fn measure(&mut self, rng: &mut Rng) {
        let stop = Arc::new(AtomicBool::new(false));
        let detector = thread::spawn({
            let stop = stop.clone();
            move || {
                let mut worst = Duration::ZERO;
                while !stop.load(SeqCst) {
                    let start = Instant::now();
                    thread::sleep(STEP);
                    worst = worst.max(start.elapsed() - STEP);
                }
                worst
            }
        });
        let times: Vec<_> =
            (0..ROUNDS * SLEEPS).map(|_| Duration::from_millis(4 + rng.below(8) as u64)).collect();
        let workers = Arc::new(Mutex::new(Vec::new()));
        let started = workers.clone();
        let note_thread = move || started.lock().unwrap().push(fs::read_link("/proc/thread-self"));
        let runtime = Runtime::builder().workers(2).on_thread_start(note_thread);
        let runtime = runtime.build().expect("a runtime can be made");
        let hog = runtime.spawn_on(WorkerId::new(0), move || async move {
            let mut late = JoinSet::new();
            for round in times.chunks(SLEEPS) {
                for time in round {
                    let due = Instant::now() + *time;
                    let mut sleep = Box::pin(sleep_until(due));
                    // On the wheel of this worker; or over, where the machine stood still for so long.
                    let is_over = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await;
                    late.spawn(async move {
                        if !is_over {
                            sleep.await;
                        }
                        due.elapsed()
                    });
                }
                thread::sleep(Duration::from_millis(20));
                yield_now().await;
            }
            let mut all = Vec::new();
            while let Some(late) = late.join_next().await {
                all.push(late.expect("it does not panic"));
            }
            all
        });
        let all = runtime.block_on(hog).expect("it does not panic");
        stop.store(true, SeqCst);
        let refused =
            workers.lock().unwrap().iter().flatten().map(|thread| time_without_processor(thread)).max();
        let stall = detector.join().expect("it does not panic").max(refused.unwrap_or_default());
        self.samples += all.len();
        if stall > LIMIT {
            self.excused += all.len();
        } else {
            self.late += all.iter().filter(|late| **late > LIMIT + stall).count();
        }
        self.worst = all.into_iter().fold(self.worst, Duration::max);
        self.stall = self.stall.max(stall);
    }

    /// One in a hundred may be late.
    pub(crate) fn judge(&self, strict: bool) {
        let judged = self.samples - self.excused;
        println!(
            "soak: of {judged} deadlines with one worker free {} were more than {LIMIT:?} late; {} were not judged, for the machine was late itself; worst {:?}, of the machine {:?}",
            self.late, self.excused, self.worst, self.stall
        );
        if strict && judged == 0 {
            println!(
                "soak: NOT JUDGED: the machine was never free enough to tell whether deadlines are late"
            );
        }
        assert!(!strict || self.late * 100 <= judged, "deadlines are late: {self:?}");
    }
}

/// How long a thread was ready and had no processor; zero where the system does not count it. The thread is named as in `/proc/thread-self`.
fn time_without_processor(thread: &Path) -> Duration {
    let told = fs::read_to_string(Path::new("/proc").join(thread).join("schedstat"));
    let nanos = told.ok().and_then(|told| told.split_whitespace().nth(1)?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
