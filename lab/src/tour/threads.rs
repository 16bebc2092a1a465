//! Tour stop: plain threads and tasks that wait for the same lock in the same queue.

use super::{Guide, all, grouped, rate};
use std::sync::Arc;
use std::time::Instant;
use tasuki::Mutex;

/// Threads that block.
const THREADS: usize = 4;
/// Tasks beside them.
const TASKS: usize = 100;

/// Lets both kinds increment one counter.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let turns = guide.pick(1_000, 50);
    let counter = Arc::new(Mutex::new(0_usize));
    guide.live("   threads and tasks share a lock");
    let start = Instant::now();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let counter = counter.clone();
            std::thread::spawn(move || (0..turns).for_each(|_| *counter.lock().block() += 1))
        })
        .collect();
    let tasks = (0..TASKS).map(|_| {
        let counter = counter.clone();
        guide.runtime.spawn(async move {
            for _ in 0..turns {
                let mut guard = counter.lock().await;
                *guard += 1;
                // Held over a yield, so that the others do queue.
                tasuki_rt::yield_now().await;
                drop(guard);
            }
        })
    });
    let failed = guide.run(all(tasks.collect()), || "   threads and tasks share a lock")?;
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    let taken = start.elapsed();
    let total = turns * (THREADS + TASKS);
    let count = *counter.try_lock().ok_or("the lock was not given back")?;
    guide.check(
        failed == 0 && count == total,
        format_args!("{THREADS} threads (`.block()`) and {TASKS} tasks (`.await`): {} turns", grouped(total)),
    )?;
    guide.say(format_args!("       {}", rate(total, taken)));
    Ok(())
}
