//! How late a sleep is whose worker is in a long poll, while another worker is free: the mean, of each runtime with two workers.
//!
//! A task polls sleeps, so that they are armed where it runs, gives them to other tasks, and keeps its worker in a poll that outlasts them. A thread that only sleeps, the stall detector, says meanwhile by how much the machine was late
//! itself. A sample in which that was more than [`STALL`] says nothing of the runtime. The floor is the detector's own mean.

use crate::measure::{Bench, Contender, Group, Reading, Sample};
use crate::peer::{Kind, TaskRuntime};
use crate::peers::{VisitRuntime, each_runtime};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(super) const NAME: &str = "runtime/late";
/// Sleeps that are armed in a poll.
const SLEEPS: u64 = 20;
/// How long the poll goes on; the sleeps last from 4 to 11 ms.
const HOG: Duration = Duration::from_millis(20);
/// A machine that is later than this itself is not free enough.
const STALL: Duration = Duration::from_millis(2);
/// A sleep of the stall detector.
const STEP: Duration = Duration::from_micros(500);
/// The runtimes of which another worker can be free.
const HAS_TWO: &str = "-2";

/// Measures every runtime with two workers.
pub(super) fn run(bench: &mut Bench) {
    let floor = Contender { subject: "thread-sleep", kind: Kind::Floor, run: Box::new(Detector::alone) };
    let mut build = Build(vec![floor]);
    each_runtime(&mut build);
    let rounds = Group::on_two_threads(NAME, SLEEPS as usize, super::OWN, build.0);
    bench.group(Group { probe_ops: SLEEPS, least_ops: 5 * SLEEPS, patient: true, ..rounds });
}

struct Build(Vec<Contender>);

impl VisitRuntime for Build {
    fn visit<R: TaskRuntime>(&mut self) {
        if R::NAME.ends_with(HAS_TWO) {
            self.0.push(Contender { subject: R::NAME, kind: R::KIND, run: Box::new(sample::<R>) });
        }
    }
}

/// An operation is one sleep; its time is that by which it was late.
fn sample<R: TaskRuntime>(ops: u64) -> Sample {
    let rounds = ops.div_ceil(SLEEPS);
    let detector = Detector::start();
    let hog = async move {
        let mut late = Duration::ZERO;
        for _ in 0..rounds {
            let tasks: Vec<_> = armed::<R>().await;
            thread::sleep(HOG);
            for task in tasks {
                late += R::output(task.await);
            }
        }
        late
    };
    let late = R::output(R::block_on(async { R::spawn(hog).await }));
    let stalls = detector.stop();
    if stalls.worst > STALL {
        return Sample::unmeasured("the machine was late itself by more than 2 ms");
    }
    Sample::alone(rounds * SLEEPS, Reading { ns: late.as_nanos() as f64, allocations: 0 })
}

/// Sleeps that were polled here, each in a task of its own.
async fn armed<R: TaskRuntime>() -> Vec<R::Task<Duration>> {
    let mut tasks = Vec::new();
    for index in 0..SLEEPS {
        let time = Duration::from_millis(4 + index % 8);
        let due = Instant::now() + time;
        let mut sleep = Box::pin(R::sleep(time));
        // Over already, where the machine stood still for so long.
        let is_over = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await;
        tasks.push(R::spawn(async move {
            if !is_over {
                sleep.await;
            }
            due.elapsed()
        }));
    }
    tasks
}

/// By how much the machine was late: a thread that sleeps again and again.
struct Detector {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Stalls>,
}

#[derive(Default)]
struct Stalls {
    sleeps: u64,
    total: Duration,
    worst: Duration,
}

impl Stalls {
    fn sleep(&mut self) {
        let start = Instant::now();
        thread::sleep(STEP);
        let late = start.elapsed() - STEP;
        self.sleeps += 1;
        self.total += late;
        self.worst = self.worst.max(late);
    }
}

impl Detector {
    fn start() -> Detector {
        let ends = Arc::new(AtomicBool::new(false));
        let until = ends.clone();
        let thread = thread::spawn(move || {
            let mut stalls = Stalls::default();
            while !until.load(Ordering::Relaxed) {
                stalls.sleep();
            }
            stalls
        });
        Detector { ends, thread }
    }

    fn stop(self) -> Stalls {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }

    /// The floor: so many sleeps of a thread.
    fn alone(ops: u64) -> Sample {
        let mut stalls = Stalls::default();
        for _ in 0..ops {
            stalls.sleep();
        }
        Sample::alone(stalls.sleeps, Reading { ns: stalls.total.as_nanos() as f64, allocations: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Short(usize);

    impl VisitRuntime for Short {
        fn visit<R: TaskRuntime>(&mut self) {
            if R::NAME.ends_with(HAS_TWO) {
                let sample = sample::<R>(1);
                let is_sample = sample.ops == SLEEPS && sample.reading.ns > 0.0;
                assert!(is_sample || sample.unmeasured.is_some(), "{}", R::NAME);
                self.0 += 1;
            }
        }
    }

    #[test]
    fn every_runtime_with_two_workers_is_late_by_some_time() {
        let mut short = Short(0);
        each_runtime(&mut short);
        assert!(short.0 >= 3, "ours and two peers");
    }
}
