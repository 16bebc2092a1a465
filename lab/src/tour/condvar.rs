//! Tour stop: a bounded queue made of a mutex and two condition variables.

use super::tasks::NOTES;
use super::{Count, Guide, all, grouped, rate};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tasuki::{Condvar, Mutex};

/// Room in the queue.
const ROOM: usize = 8;
/// Producers, and as many consumers.
const EACH: usize = 4;

/// The queue.
struct Queue {
    items: Mutex<VecDeque<usize>>,
    not_empty: Condvar,
    not_full: Condvar,
    sum: AtomicUsize,
    taken: AtomicUsize,
}

/// Hands numbers over and checks that each arrived once.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let items = guide.pick(400_000, 8_000);
    let queue = Arc::new(Queue {
        items: Mutex::new(VecDeque::with_capacity(ROOM)),
        not_empty: Condvar::new(),
        not_full: Condvar::new(),
        sum: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
    });
    let given = queue.clone();
    let work = async move {
        let mut tasks = Vec::with_capacity(2 * EACH);
        for part in 0..EACH {
            tasks.push(tasuki_rt::spawn(produce(given.clone(), part, items)));
            tasks.push(tasuki_rt::spawn(consume(given.clone(), items / EACH)));
        }
        let count = Count::start();
        (all(tasks).await, count.stop())
    };
    let number = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    let progress = || format!("   {} items of {items}", number(&queue.taken));
    let (failed, (taken, allocated)) = guide.run(work, progress)?;
    guide.check(
        failed == 0 && number(&queue.taken) == items && number(&queue.sum) == items * (items - 1) / 2,
        format_args!("{} items through room for {ROOM}: each arrived, and once", grouped(items)),
    )?;
    guide.check(allocated <= NOTES, "no notification lost, no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(items, taken)));
    Ok(())
}

/// Puts every number of its share in.
async fn produce(queue: Arc<Queue>, part: usize, items: usize) {
    for item in (part..items).step_by(EACH) {
        let guard = queue.items.lock().await;
        let mut guard = queue.not_full.wait_while(guard, |items| items.len() == ROOM).await;
        guard.push_back(item);
        drop(guard);
        queue.not_empty.notify_one();
    }
}

/// Takes so many out.
async fn consume(queue: Arc<Queue>, items: usize) {
    for _ in 0..items {
        let guard = queue.items.lock().await;
        let mut guard = queue.not_empty.wait_while(guard, |items| items.is_empty()).await;
        let item = guard.pop_front().unwrap_or_default();
        drop(guard);
        queue.not_full.notify_one();
        // Relaxed: sums that are read when the tasks have ended.
        queue.sum.fetch_add(item, Ordering::Relaxed);
        queue.taken.fetch_add(1, Ordering::Relaxed);
    }
}
