//! One lock among tasks on two threads: what a runtime that knows its locks buys.
//!
//! Here the table is not of one runtime: our lock is on our runtime, with each place for its new owner, and on the
//! peers'; each peer's lock is on both of the peers' runtimes, so that the better one counts.

use crate::measure::{Bench, Contender, Group, Sample, fairness};
use crate::peer::{AsyncMutex, Kind};
use crate::peers::{VisitMutex, each_mutex};
use crate::workload::contended::{self, Scene};
use crate::workload::start_gate::{Line, StartGate};
use crate::workload::two_thread_runtime::TwoThreadRuntime;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tasuki::{Mutex, MutexGuard};
use tasuki_rt::Resume;

/// How many tasks share the lock.
const TASKS: [usize; 3] = [2, 16, 256];
/// The lock of ours that is measured.
const OURS: &str = "tasuki-fifo";
/// Where ours runs.
const TWO_THREAD_RUNTIMES: [TwoThreadRuntime; 5] = [
    TwoThreadRuntime::Tasuki(Resume::Next),
    TwoThreadRuntime::Tasuki(Resume::Local),
    TwoThreadRuntime::Tasuki(Resume::Global),
    TwoThreadRuntime::Tokio,
    TwoThreadRuntime::AsyncExecutor,
];

/// Turns of each task in a sample. Before all queue, the first to come take more turns than others, one of which is as long as a task's budget (128); so many make that a small part of
/// what is seen.
const TURNS: u64 = 12_000;

/// In place of the runtime's name in reports: each subject names its own.
const EACH: &str = "each";

/// Measures the contended lock, then the lock that is handed off.
pub(super) fn run(bench: &mut Bench) {
    for (workload, hand_off) in [("runtime/mutex", false), ("runtime/hand-off", true)] {
        for tasks in TASKS {
            let mut build = Build { tasks, hand_off, contenders: Vec::new() };
            each_mutex(&mut build);
            let group = Group::on_two_threads(workload, tasks, EACH, build.contenders);
            // Those of a lock that is handed off are long: a task alone has 64 in a poll. A short sample would see the first few.
            let turns = if bench.is_quick() && !hand_off { 0 } else { TURNS * tasks as u64 };
            bench.group(Group { least_ops: group.least_ops.max(turns), patient: true, ..group });
        }
    }
}

struct Build {
    tasks: usize,
    /// Does a task yield to the task that it hands the lock to?
    hand_off: bool,
    contenders: Vec<Contender>,
}

impl Build {
    fn push(
        &mut self,
        lock: &str,
        kind: Kind,
        runtime: TwoThreadRuntime,
        run: Box<dyn FnMut(u64) -> Sample>,
    ) {
        // Never freed: a handful of names a run.
        let subject = format!("{lock}@{}", runtime.name()).leak();
        self.contenders.push(Contender { subject, kind, run });
    }
}

impl VisitMutex for Build {
    fn shared<M: AsyncMutex>(&mut self) {
        let (tasks, ours) = (self.tasks, <M as AsyncMutex>::KIND == Kind::Ours);
        let name = <M as AsyncMutex>::NAME;
        if M::BLOCKS || M::NEVER_WAITS || (ours && name != OURS) {
            return;
        }
        for runtime in
            if ours { &TWO_THREAD_RUNTIMES[..] } else { &TwoThreadRuntime::ALL[..] }.iter().copied()
        {
            if ours && self.hand_off {
                self.push(name, Kind::Ours, runtime, Box::new(move |ops| hand_offs(runtime, tasks, ops)));
                continue;
            }
            // The nearest a peer has: unlock, then yield to any task.
            let scene = Scene { runtime, tasks, section_ns: 0, yields: self.hand_off, watch: false };
            self.push(name, M::KIND, runtime, Box::new(move |ops| contended::sample::<M>(scene, ops)));
        }
    }
}

/// What the tasks of one sample share.
struct Arena {
    lock: Line<Mutex<u64>>,
    /// How far to count; on a line of its own, that is only read while all is well.
    total: Line<AtomicU64>,
    gate: StartGate,
}

/// One sample; an operation is one turn with the lock, given away with `hand_off`.
fn hand_offs(runtime: TwoThreadRuntime, tasks: usize, ops: u64) -> Sample {
    let arena = Arc::new(Arena {
        lock: Line(Mutex::new(0)),
        total: Line(AtomicU64::new(ops)),
        gate: StartGate::new(tasks),
    });
    for task in 0..tasks {
        runtime.spawn(pass(arena.clone(), task));
    }
    // Relaxed: the tasks see it when they look again.
    let (reading, served) = arena.gate.run(|| arena.total.0.store(0, Ordering::Relaxed));
    let ops = *arena.lock.0.try_lock().expect("given back");
    assert_eq!(served.iter().sum::<u64>(), ops, "one increment an operation, each of one task");
    Sample::shared(ops, reading, fairness(&served))
}

/// A task that takes the lock, and yields to the task that it hands it to.
async fn pass(arena: Arc<Arena>, me: usize) {
    arena.gate.enter().await;
    let mut served = 0;
    loop {
        let mut guard = arena.lock.0.lock().await;
        if *guard >= arena.total.0.load(Ordering::Relaxed) {
            break;
        }
        *guard += 1;
        served += 1;
        MutexGuard::hand_off(guard).await;
    }
    arena.gate.leave(me, served);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_ends_with_its_counters_right() {
        for runtime in TWO_THREAD_RUNTIMES {
            assert_eq!(hand_offs(runtime, 4, 1_000).ops, 1_000);
        }
        let mut build = Build { tasks: 4, hand_off: false, contenders: Vec::new() };
        each_mutex(&mut build);
        let ours = build.contenders.iter_mut().filter(|contender| contender.kind == Kind::Ours);
        assert_eq!(
            ours.map(|contender| assert_eq!((contender.run)(1_000).ops, 1_000)).count(),
            TWO_THREAD_RUNTIMES.len()
        );
    }
}
