//! Tour stop: a semaphore with requests of different sizes, granted in order.

use super::tasks::NOTES;
use super::{Count, Guide, all, grouped, rate};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tasuki::Semaphore;
use tasuki_rt::{spawn_local, yield_now};

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

/// What they came out with.
struct Served {
    failed: usize,
    overtaken: usize,
    most: usize,
    back: usize,
    taken: Duration,
    allocated: u64,
}

/// Enqueues small and big requests, and checks in which order they are granted.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(100_000, 2_000);
    let served = guide.run_on_loop(move || serve(tasks), || "   requests are served")?;
    guide.check(
        served.failed == 0,
        format_args!("{} requests for 1 to {PERMITS} permits, on one event loop", grouped(tasks)),
    )?;
    guide.check(served.overtaken == 0, "served in order: a big request is never overtaken by small ones")?;
    guide.check(
        served.most == PERMITS && served.back == PERMITS,
        format_args!("never more than {PERMITS} permits out, all of them back at the end"),
    )?;
    guide.check(served.allocated <= NOTES, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(tasks, served.taken)));
    Ok(())
}

/// Spawns all requests in order, and waits for them.
async fn serve(tasks: usize) -> Served {
    let pool = Rc::new(Pool {
        semaphore: Semaphore::new(PERMITS),
        inside: Cell::new(0),
        most: Cell::new(0),
        served: Cell::new(0),
        overtaken: Cell::new(0),
    });
    let tasks: Vec<_> = (0..tasks).map(|task| spawn_local(take(pool.clone(), task))).collect();
    let count = Count::start();
    let failed = all(tasks).await;
    let (taken, allocated) = count.stop();
    let (overtaken, most) = (pool.overtaken.get(), pool.most.get());
    Served { failed, overtaken, most, back: pool.semaphore.available_permits(), taken, allocated }
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
