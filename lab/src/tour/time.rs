//! Waits that end by a deadline or by a token, and take nothing with them.

use super::{Guide, grouped};
use crate::exec::Executor;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tasuki::{CancellationSource, Mutex, Semaphore};

/// How long the short ones wait.
const SHORT: Duration = Duration::from_millis(30);

/// Lets waits run out, and shows that those who stay are served.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(100_000, 2_000);
    let (mutex, elapsed, served) = (Rc::new(Mutex::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let held = mutex.try_lock().ok_or("a new mutex is free")?;
    let mut exec = Executor::new(tasks);
    for task in 0..tasks {
        let (mutex, elapsed, served) = (mutex.clone(), elapsed.clone(), served.clone());
        let limit = if task % 2 == 0 { SHORT } else { Duration::MAX };
        exec.spawn(async move {
            let outcome = mutex.lock().timeout(limit).await;
            let count = if outcome.is_ok() { served } else { elapsed };
            count.set(count.get() + 1);
        });
    }
    let start = Instant::now();
    exec.run_until_stalled();
    while elapsed.get() < tasks.div_ceil(2) && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
        exec.run_until_stalled();
    }
    let taken = start.elapsed();
    guide.check(
        elapsed.get() == tasks.div_ceil(2) && taken >= SHORT,
        format_args!("{} waits ran out after {} ms, not before", grouped(elapsed.get()), SHORT.as_millis()),
    )?;
    drop(held);
    let left = exec.run_until_stalled();
    guide.check(left == 0 && served.get() == tasks / 2, "those with more patience were all served")?;
    cancelled(guide)
}

/// A wait ended by a token, while permits stay whole.
fn cancelled(guide: &Guide) -> Result<(), String> {
    let (semaphore, source) = (Semaphore::new(1), CancellationSource::new());
    let token = source.token();
    let held = semaphore.try_acquire().map_err(|_| "a new semaphore has its permits")?;
    let outcome = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| semaphore.acquire().or_cancelled(&token).block().is_err());
        std::thread::sleep(Duration::from_millis(5));
        source.request_cancel();
        waiter.join()
    });
    drop(held);
    let ended = outcome.map_err(|_| "the waiter panicked")?;
    guide.check(
        ended && semaphore.available_permits() == 1,
        "a token ends a thread's wait; the permit is still there",
    )
}
