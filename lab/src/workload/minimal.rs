//! Runs tasks to their end on the lab's own executor.

use crate::exec::{Executor, yield_now};
use crate::measure::{Contender, Meter, Reading, Sample};
use crate::peer::Kind;
use std::future::Future;

/// The executor's name in reports.
pub(crate) const NAME: &str = "minimal";

/// Runs the tasks, and checks that no wake-up was lost.
pub(crate) fn run<F: Future<Output = ()> + 'static>(tasks: impl Iterator<Item = F>) -> Reading {
    let tasks: Vec<F> = tasks.collect();
    let mut exec = Executor::new(tasks.len());
    tasks.into_iter().for_each(|task| exec.spawn(task));
    let meter = Meter::start();
    let left = exec.run_until_stalled();
    let reading = meter.read();
    assert_eq!(left, 0, "no wake-up is lost");
    reading
}

/// The floor of everything on this executor: so many tasks, one yield an operation.
pub(crate) fn alone(tasks: usize) -> Contender {
    let run = move |ops: u64| {
        let each = ops.div_ceil(tasks as u64);
        let reading = run((0..tasks).map(|_| async move {
            for _ in 0..each {
                yield_now().await;
            }
        }));
        Sample::alone(each * tasks as u64, reading)
    };
    Contender { subject: "executor-alone", kind: Kind::Floor, run: Box::new(run) }
}
