//! A semaphore whose permits are asked for in different amounts, and served in order.

use super::{Guide, counted, grouped, rate};
use crate::exec::{Executor, yield_now};
use std::cell::Cell;
use std::rc::Rc;
use tasuki::Semaphore;

/// Permits there are; one request in so many wants them all.
const PERMITS: usize = 4;

/// What the tasks share.
struct Pool {
    semaphore: Semaphore,
    inside: Cell<usize>,
    most: Cell<usize>,
    served: Cell<usize>,
    overtaken: Cell<usize>,
}

/// Queues small and big requests, and checks who was served when.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(100_000, 2_000);
    let pool = Rc::new(Pool {
        semaphore: Semaphore::new(PERMITS),
        inside: Cell::new(0),
        most: Cell::new(0),
        served: Cell::new(0),
        overtaken: Cell::new(0),
    });
    let mut exec = Executor::new(tasks);
    for task in 0..tasks {
        exec.spawn(take(pool.clone(), task));
    }
    let (left, taken, allocated) = counted(|| exec.run_until_stalled());
    guide.check(left == 0, format_args!("{} requests for 1 to {PERMITS} permits", grouped(tasks)))?;
    guide.check(
        pool.overtaken.get() == 0,
        "served in order: a big request is never overtaken by small ones",
    )?;
    guide.check(
        pool.most.get() == PERMITS && pool.semaphore.available_permits() == PERMITS,
        format_args!("never more than {PERMITS} permits out, all of them back at the end"),
    )?;
    guide.check(allocated == 0, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(tasks, taken)));
    Ok(())
}

/// Asks for its amount, and notes whether it was its turn.
async fn take(pool: Rc<Pool>, me: usize) {
    let amount = 1 + me % PERMITS;
    let permit = pool.semaphore.acquire_many(amount).await;
    if pool.served.replace(pool.served.get() + 1) != me {
        pool.overtaken.set(pool.overtaken.get() + 1);
    }
    pool.inside.set(pool.inside.get() + amount);
    pool.most.set(pool.most.get().max(pool.inside.get()));
    yield_now().await;
    pool.inside.set(pool.inside.get() - amount);
    drop(permit);
}
