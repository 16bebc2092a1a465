//! Tasks on two threads that read mostly, and write now and then.

use crate::measure::{Bench, Contender, Group, Sample, fairness};
use crate::peer::AsyncRwLock;
use crate::peers::{VisitRwLock, each_rwlock};
use crate::workload::now;
use crate::workload::start_gate::{Budget, Line, StartGate};
use crate::workload::two_thread_runtime::TwoThreadRuntime;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tasks that share the lock.
const TASKS: usize = 16;
/// Writes in a hundred.
pub(super) const WRITES: [u64; 2] = [10, 50];

/// Measures the mixes.
pub(super) fn run(bench: &mut Bench) {
    for percent in WRITES {
        let mut build = Build { percent, contenders: Vec::new() };
        each_rwlock(&mut build);
        let workload = format!("rwlock/mix-{}-{percent}", 100 - percent);
        bench.group(Group::on_two_threads(workload, TASKS, TwoThreadRuntime::Tokio.name(), build.contenders));
    }
}

struct Build {
    percent: u64,
    contenders: Vec<Contender>,
}

impl VisitRwLock for Build {
    fn visit<L: AsyncRwLock>(&mut self) {
        let percent = self.percent;
        let run = Box::new(move |ops| sample::<L>(percent, ops));
        self.contenders.push(Contender { subject: L::NAME, kind: L::KIND, run });
    }
}

/// What the tasks share.
struct Arena<L> {
    lock: Line<L>,
    budget: Budget,
    gate: StartGate,
    percent: u64,
    writes: AtomicU64,
}

/// One sample.
pub(super) fn sample<L: AsyncRwLock>(percent: u64, ops: u64) -> Sample {
    let arena = Arc::new(Arena {
        lock: Line(L::new()),
        budget: Budget::new(ops),
        gate: StartGate::new(TASKS),
        percent,
        writes: AtomicU64::new(0),
    });
    for task in 0..TASKS {
        TwoThreadRuntime::Tokio.spawn(take_part(arena.clone(), task));
    }
    let (reading, served) = arena.gate.run(|| arena.budget.cut());
    let ops = served.iter().sum::<u64>();
    let value = *now!(arena.lock.0.read());
    assert_eq!(value, arena.writes.load(Ordering::Relaxed), "{}: one increment a write", L::NAME);
    Sample::shared(ops, reading, fairness(&served))
}

/// A task that reads and writes until the budget is used.
async fn take_part<L: AsyncRwLock>(arena: Arc<Arena<L>>, me: usize) {
    arena.gate.enter().await;
    let (mut served, mut writes, mut dice) = (0, 0, me as u64);
    while arena.budget.take() {
        for _ in 0..Budget::CHUNK {
            // Steps through all residues of a hundred: the share is exact, the order looks random.
            dice = (dice + 37) % 100;
            if dice < arena.percent {
                *arena.lock.0.write().await += 1;
                writes += 1;
            } else {
                black_box(*arena.lock.0.read().await);
            }
        }
        served += Budget::CHUNK;
    }
    arena.writes.fetch_add(writes, Ordering::Relaxed);
    arena.gate.leave(me, served);
}
