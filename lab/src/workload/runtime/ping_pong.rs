//! From a thread of the system to a task, again and again; the way back is the system's and does not count.
//!
//! A wake within one processor costs a fraction of one that has to reach another, and where the task goes on is the
//! runtime's choice. So the thread stays on one processor, and only hops to another count; if there are none for a
//! while, the thread goes elsewhere.

use super::Work;
use crate::alloc;
use crate::measure::{Reading, Sample};
use crate::peer::TaskRuntime;
use crate::placement::{cpus, current_cpu, pin};
use crate::workload::start_gate::Line;
use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread::Thread;
use std::time::Instant;

/// Hops to the thread's own processor before it moves away.
const STAY: u64 = 16;
/// Hops for each one that counts, at most, and hops before it is given up in any case: a runtime whose thread the
/// system always wakes where the waker is has none that counts, which is a fact and no defect.
const PATIENCE: u64 = 20;
const CHANCES: u64 = 10_000;

/// The turn after the last one.
const OVER: u64 = u64::MAX;

/// A task and a thread that wake each other.
pub(super) struct PingPong;

impl Work for PingPong {
    const NAME: &'static str = "runtime/ping-pong";
    const N: u64 = 2;
    const LEAST: u64 = 100;

    fn sample<R: TaskRuntime>(ops: u64) -> Sample {
        let court = Arc::new(Court {
            turn: Line(AtomicU64::new(0)),
            task: Line(AtomicWaker::new()),
            served_at: AtomicU64::new(0),
            thread_place: AtomicUsize::new(0),
            begin: Instant::now(),
            cpus: cpus(),
        });
        let far = court.clone();
        let thread = std::thread::spawn(move || serve(&far));
        let other = thread.thread().clone();
        let played = R::block_on(async { R::spawn(play(court, other, ops)).await });
        thread.join().expect("the thread plays to the end");
        R::output(played)
    }
}

/// Where they play: at odd turns the thread, at even turns the task.
struct Court {
    turn: Line<AtomicU64>,
    task: Line<AtomicWaker>,
    /// When the thread began its wake.
    served_at: AtomicU64,
    /// Which of the processors the thread is on.
    thread_place: AtomicUsize,
    begin: Instant,
    /// All processors there are.
    cpus: Vec<usize>,
}

impl Court {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Publishes the thread's time and place, or the task's wish for another one.
    fn pass(&self, turn: u64) {
        // Release: pairs with Acquire in `has`.
        self.turn.0.store(turn, Ordering::Release);
    }

    fn has(&self, turn: u64) -> bool {
        // Acquire: pairs with Release in `pass`. What the turn publishes is read and written relaxed.
        self.turn.0.load(Ordering::Acquire) == turn
    }
}

/// The task's side; an operation is one hop to the task, from the call of its waker to its poll.
async fn play(court: Arc<Court>, other: Thread, hops: u64) -> Sample {
    let (cpus, before) = (&court.cpus, alloc::allocations());
    let (mut counted, mut ns, mut misses, mut hopped) = (0, 0, 0, 0);
    for round in 0..CHANCES + PATIENCE * hops {
        court.pass(2 * round + 1);
        other.unpark();
        poll_fn(|cx| {
            court.task.0.register(cx.waker());
            if court.has(2 * round + 2) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        hopped += 1;
        let hop = court.now() - court.served_at.load(Ordering::Relaxed);
        let place = court.thread_place.load(Ordering::Relaxed);
        // With nowhere else to go all hops count; so do those whose place is not known.
        let crossed = cpus.len() < 2 || current_cpu() != Some(cpus[place]);
        // In the first one both get ready.
        if round > 0 && crossed {
            (counted, ns, misses) = (counted + 1, ns + hop, 0);
        } else {
            misses += 1;
        }
        if counted == hops {
            break;
        }
        if misses > STAY {
            misses = 0;
            court.thread_place.store((place + 1) % cpus.len().max(1), Ordering::Relaxed);
        }
    }
    court.pass(OVER);
    other.unpark();
    if counted == 0 {
        return Sample::unmeasured("every hop stayed on the processor of the thread");
    }
    // All hops may allocate: those that count answer for their share.
    let allocations = (alloc::allocations() - before) * counted / hopped;
    Sample::alone(counted, Reading { ns: ns as f64, allocations })
}

/// The thread's side.
fn serve(court: &Court) {
    let cpus = &court.cpus;
    let mut place = usize::MAX;
    for round in 0.. {
        while !court.has(2 * round + 1) {
            if court.has(OVER) {
                return;
            }
            std::thread::park();
        }
        let wished = court.thread_place.load(Ordering::Relaxed);
        if place != wished && cpus.len() > 1 {
            place = wished;
            pin(cpus[place]);
        }
        court.served_at.store(court.now(), Ordering::Relaxed);
        court.pass(2 * round + 2);
        court.task.0.wake();
    }
}
