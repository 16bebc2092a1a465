//! Switching from one task to the next: yields.

use super::Work;
use crate::exec;
use crate::measure::{Contender, Meter, Sample};
use crate::peer::{Kind, TaskRuntime};
use crate::workload::start_gate::StartGate;
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Tasks that take turns.
const TASKS: u64 = 1_000;

/// The runtime's own yield.
pub(super) struct Yield;

impl Work for Yield {
    const NAME: &'static str = "runtime/yield";
    const N: u64 = TASKS;
    const LEAST: u64 = 100 * TASKS;

    fn sample<R: TaskRuntime>(ops: u64) -> Sample {
        R::block_on(take_turns::<R, _>(ops, R::yield_now))
    }
}

/// What a worker of ours does at most once between two polls.
pub(super) fn clock_reading() -> Contender {
    let read = |ops| {
        let meter = Meter::start();
        (0..ops).for_each(|_| _ = black_box(Instant::now()));
        Sample::alone(ops, meter.read())
    };
    Contender { subject: "clock-reading", kind: Kind::Floor, run: Box::new(read) }
}

/// A future that wakes itself and returns.
pub(super) struct SelfWake;

impl Work for SelfWake {
    const NAME: &'static str = "runtime/self-wake";
    const N: u64 = TASKS;
    const LEAST: u64 = 100 * TASKS;

    fn sample<R: TaskRuntime>(ops: u64) -> Sample {
        R::block_on(take_turns::<R, _>(ops, exec::yield_now))
    }
}

/// All tasks begin together and yield equally often; an operation is one yield.
async fn take_turns<R: TaskRuntime, F: Future + Send + 'static>(ops: u64, turn: fn() -> F) -> Sample {
    let each = ops.div_ceil(TASKS);
    let gate = Arc::new(StartGate::new(TASKS as usize));
    let player = |me| {
        let gate = gate.clone();
        async move {
            gate.enter().await;
            for _ in 0..each {
                turn().await;
            }
            gate.leave(me, each);
        }
    };
    let tasks: Vec<_> = (0..TASKS as usize).map(|me| R::spawn(player(me))).collect();
    gate.open().await;
    for task in tasks {
        R::output(task.await);
    }
    Sample::alone(each * TASKS, gate.reading().expect("all have left"))
}
