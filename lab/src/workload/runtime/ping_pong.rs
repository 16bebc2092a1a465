//! From a thread of the system to a task and back.
//!
//! A wake within one processor costs a fraction of one that has to reach another, and where the task runs is the
//! runtime's choice. So the thread moves away from the processor that it finds the task on, and only round trips
//! count in which task and thread were apart.

use super::Work;
use crate::measure::{Meter, Reading, Sample};
use crate::peer::TaskRuntime;
use crate::placement::{cpus, current_cpu, pin};
use crate::workload::gate::Line;
use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread::Thread;

/// Round trips are given up when only one in so many counts.
const PATIENCE: u64 = 10;
/// No processor: nobody knows where it is.
const NOWHERE: usize = usize::MAX;

/// A task and a thread that wake each other.
pub(super) struct PingPong;

impl Work for PingPong {
    const NAME: &'static str = "runtime/ping-pong";
    const N: u64 = 2;
    const LEAST: u64 = 200;

    fn sample<R: TaskRuntime>(ops: u64) -> Sample {
        let court = Arc::new(Court::default());
        let far = court.clone();
        let thread = std::thread::spawn(move || answer(&far));
        let other = thread.thread().clone();
        let played = R::block_on(async { R::spawn(play(court, other, ops.div_ceil(2))).await });
        thread.join().expect("the thread plays to the end");
        R::output(played)
    }
}

/// Where they play: at odd turns the thread, at even turns the task.
#[derive(Default)]
struct Court {
    turn: Line<AtomicU64>,
    over: AtomicBool,
    task: Line<AtomicWaker>,
    task_cpu: AtomicUsize,
    thread_cpu: AtomicUsize,
}

/// The task's side; an operation is one hop.
async fn play(court: Arc<Court>, other: Thread, rounds: u64) -> Sample {
    let (mut counted, mut total) = (0, Reading::default());
    // The first round trip, in which both get ready, has no place and does not count.
    court.thread_cpu.store(NOWHERE, Ordering::Relaxed);
    for round in 0..=PATIENCE * rounds {
        let before = places(&court);
        court.task_cpu.store(before.0, Ordering::Relaxed);
        let meter = Meter::start();
        // Release: pairs with Acquire in `answer`, here and below; publishes the places, too.
        court.turn.0.store(2 * round + 1, Ordering::Release);
        other.unpark();
        poll_fn(|cx| {
            court.task.0.register(cx.waker());
            // Acquire: pairs with Release in `answer`.
            match court.turn.0.load(Ordering::Acquire) == 2 * round + 2 {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        let reading = meter.read();
        if round > 0 && are_apart(before, places(&court)) {
            total += reading;
            counted += 1;
        }
        if counted == rounds {
            break;
        }
    }
    // Relaxed: published by the turn.
    court.over.store(true, Ordering::Relaxed);
    court.turn.0.fetch_add(1, Ordering::Release);
    other.unpark();
    assert!(counted > 0, "task and thread were never on two processors");
    Sample::alone(2 * counted, total)
}

/// Where the task is, and where the thread was in its last turn.
fn places(court: &Court) -> (usize, usize) {
    (current_cpu().unwrap_or(NOWHERE), court.thread_cpu.load(Ordering::Relaxed))
}

/// Whether neither moved to where the other was. Where nothing is known, and where there is one processor, all count.
fn are_apart(before: (usize, usize), after: (usize, usize)) -> bool {
    let unknown = after.0 == NOWHERE;
    unknown || (before.1 == after.1 && before.0 != before.1 && after.0 != after.1)
}

/// The thread's side.
fn answer(court: &Court) {
    let cpus = cpus();
    let mut turn = 1;
    loop {
        // Acquire: pairs with Release in `play`.
        while court.turn.0.load(Ordering::Acquire) != turn {
            std::thread::park();
        }
        if court.over.load(Ordering::Relaxed) {
            return;
        }
        let task_cpu = court.task_cpu.load(Ordering::Relaxed);
        // Once it is somewhere for certain it stays there, until the task comes.
        if [task_cpu, NOWHERE].contains(&court.thread_cpu.load(Ordering::Relaxed)) {
            if let Some(&apart) = cpus.iter().find(|&&cpu| cpu != task_cpu) {
                pin(apart);
                court.thread_cpu.store(apart, Ordering::Relaxed);
            }
        }
        // Release: pairs with Acquire in `play`.
        court.turn.0.store(turn + 1, Ordering::Release);
        court.task.0.wake();
        turn += 2;
    }
}
