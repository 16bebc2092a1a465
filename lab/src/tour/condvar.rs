//! A bounded queue out of a mutex and two condition variables.

use super::{Guide, counted, grouped, rate};
use crate::exec::Executor;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
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
    sum: Cell<usize>,
    taken: Cell<usize>,
}

/// Hands numbers over and checks that each arrived once.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let items = guide.pick(400_000, 8_000);
    let queue = Rc::new(Queue {
        items: Mutex::new(VecDeque::with_capacity(ROOM)),
        not_empty: Condvar::new(),
        not_full: Condvar::new(),
        sum: Cell::new(0),
        taken: Cell::new(0),
    });
    let mut exec = Executor::new(2 * EACH);
    for part in 0..EACH {
        exec.spawn(produce(queue.clone(), part, items));
        exec.spawn(consume(queue.clone(), items / EACH));
    }
    let (left, taken, allocated) = counted(|| exec.run_until_stalled());
    guide.check(
        left == 0 && queue.taken.get() == items && queue.sum.get() == items * (items - 1) / 2,
        format_args!("{} items through room for {ROOM}: each arrived, and once", grouped(items)),
    )?;
    guide.check(allocated == 0, "no notification lost, no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(items, taken)));
    Ok(())
}

/// Puts every number of its share in.
async fn produce(queue: Rc<Queue>, part: usize, items: usize) {
    for item in (part..items).step_by(EACH) {
        let guard = queue.items.lock().await;
        let mut guard = queue.not_full.wait_while(guard, |items| items.len() == ROOM).await;
        guard.push_back(item);
        drop(guard);
        queue.not_empty.notify_one();
    }
}

/// Takes so many out.
async fn consume(queue: Rc<Queue>, items: usize) {
    for _ in 0..items {
        let guard = queue.items.lock().await;
        let mut guard = queue.not_empty.wait_while(guard, |items| items.is_empty()).await;
        let item = guard.pop_front().unwrap_or_default();
        drop(guard);
        queue.not_full.notify_one();
        queue.sum.set(queue.sum.get() + item);
        queue.taken.set(queue.taken.get() + 1);
    }
}
