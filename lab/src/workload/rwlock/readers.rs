//! Two threads that only read: how far the lock's own words scale.

use crate::measure::{Bench, Contender, Group, Meter, Reading, Sample};
use crate::peer::AsyncRwLock;
use crate::peers::{VisitRwLock, each_rwlock};
use crate::placement::pin_nth;
use crate::workload::now;
use crate::workload::start_gate::Line;
use std::future::Future;
use std::pin::pin;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};

/// How many read.
const THREADS: usize = 2;

/// Measures readers; an operation is one read, by each of the threads.
pub(super) fn run(bench: &mut Bench) {
    let mut build = Build(Vec::new());
    each_rwlock(&mut build);
    let group = Group::on_two_threads("rwlock/read-only", THREADS, "threads", build.0);
    bench.group(Group { probe_ops: 1_000, least_ops: 10_000, ..group });
}

struct Build(Vec<Contender>);

impl VisitRwLock for Build {
    fn visit<L: AsyncRwLock>(&mut self) {
        self.0.push(Contender { subject: L::NAME, kind: L::KIND, run: Box::new(sample::<L>) });
    }
}

/// One sample: both threads read so often; the slower one counts.
pub(super) fn sample<L: AsyncRwLock>(ops: u64) -> Sample {
    let lock = Line(L::new());
    *now!(lock.0.write()) = 1;
    let start = Barrier::new(THREADS);
    let readings: Vec<Reading> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (lock, start) = (&lock.0, &start);
                scope.spawn(move || {
                    pin_nth(thread);
                    start.wait();
                    read(lock, ops)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a reader ends well")).collect()
    });
    let ns = readings.iter().map(|reading| reading.ns).fold(0.0, f64::max);
    // The counter is shared by all threads, so either reading has the allocations of both.
    let allocations = readings.iter().map(|reading| reading.allocations).max().unwrap_or(0);
    Sample::alone(ops, Reading { ns, allocations })
}

/// Reads so often.
fn read<L: AsyncRwLock>(lock: &L, ops: u64) -> Reading {
    let meter = Meter::start();
    let mut seen = 0;
    for _ in 0..ops {
        let mut wait = pin!(lock.read());
        seen += match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => *guard,
            // Readers do not exclude each other, but some peers wait when another is in their way.
            Poll::Pending => *futures_lite::future::block_on(wait),
        };
    }
    let reading = meter.read();
    assert_eq!(seen, ops, "{}: the value is read every time", L::NAME);
    reading
}
