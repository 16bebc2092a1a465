//! Tasks that do nothing but return a number: from outside, from inside, one out of the other.

use super::Work;
use crate::measure::{Meter, Reading, Sample};
use crate::peer::TaskRuntime;
use std::sync::{Arc, OnceLock};
use tasuki::Event;

/// Tasks that exist together.
const TASKS: u64 = 100_000;
/// Tasks that spawn each other.
const LINKS: u64 = 1_000;

/// Spawned and awaited by the thread of `block_on`.
pub(super) struct Outside;

impl Work for Outside {
    const NAME: &'static str = "runtime/spawn-join";
    const N: u64 = TASKS;
    const LEAST: u64 = TASKS;

    fn sample<R: TaskRuntime>(ops: u64) -> Sample {
        R::block_on(spawn_join::<R>(ops))
    }
}

/// Spawned and awaited by a task.
pub(super) struct Inside;

impl Work for Inside {
    const NAME: &'static str = "runtime/spawn-inside";
    const N: u64 = TASKS;
    const LEAST: u64 = TASKS;

    fn sample<R: TaskRuntime>(ops: u64) -> Sample {
        R::output(R::block_on(async { R::spawn(spawn_join::<R>(ops)).await }))
    }
}

/// Spawns all tasks, then awaits them in the order of their spawning; an operation is one task.
async fn spawn_join<R: TaskRuntime>(ops: u64) -> Sample {
    let rounds = ops.div_ceil(TASKS);
    let mut tasks = Vec::with_capacity(TASKS as usize);
    let mut total = Reading::default();
    for _ in 0..rounds {
        let (meter, mut sum) = (Meter::start(), 0);
        for number in 0..TASKS {
            tasks.push(R::spawn(async move { number }));
        }
        for task in tasks.drain(..) {
            sum += R::output(task.await);
        }
        total += meter.read();
        assert_eq!(sum, TASKS * (TASKS - 1) / 2, "{}: every task ran once", R::NAME);
    }
    Sample::alone(rounds * TASKS, total)
}

/// Each task spawns the next one and ends.
pub(super) struct Chained;

impl Work for Chained {
    const NAME: &'static str = "runtime/chained-spawn";
    const N: u64 = LINKS;
    const LEAST: u64 = 16 * LINKS;

    fn sample<R: TaskRuntime>(ops: u64) -> Sample {
        let chain = Arc::new(Chain { end: Event::manual(), reading: OnceLock::new() });
        let links = ops.max(LINKS);
        let given = chain.clone();
        R::block_on(async move {
            let first = R::spawn(async move { link::<R>(given, Meter::start(), links) });
            R::output(first.await);
            chain.end.wait().await;
            Sample::alone(links, *chain.reading.get().expect("noted before the end is told"))
        })
    }
}

/// What the links share.
struct Chain {
    end: Event,
    reading: OnceLock<Reading>,
}

/// Spawns the task that spawns the rest; the last one reads the clock.
fn link<R: TaskRuntime>(chain: Arc<Chain>, meter: Meter, left: u64) {
    if left == 0 {
        chain.reading.set(meter.read()).ok();
        chain.end.set();
    } else {
        R::detach(R::spawn(async move { link::<R>(chain, meter, left - 1) }));
    }
}
