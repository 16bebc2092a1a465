//! Readers together, writers alone, in the order they came; an upgrade nobody slips into.

use super::{Guide, counted, grouped, rate};
use crate::exec::{Executor, yield_now};
use std::cell::Cell;
use std::rc::Rc;
use tasuki::{RwLock, RwLockUpgradableReadGuard};

/// One in so many writes.
const WRITES: usize = 10;

/// What the tasks share.
struct Shelf {
    lock: RwLock<usize>,
    readers: Cell<usize>,
    together: Cell<usize>,
    torn: Cell<usize>,
}

/// Lets readers and writers share a value, then upgrades.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(100_000, 2_000);
    let shelf = Rc::new(Shelf {
        lock: RwLock::new(0),
        readers: Cell::new(0),
        together: Cell::new(0),
        torn: Cell::new(0),
    });
    let mut exec = Executor::new(tasks);
    for task in 0..tasks {
        exec.spawn(visit_shelf(shelf.clone(), task));
    }
    let (left, taken, allocated) = counted(|| exec.run_until_stalled());
    let value = *shelf.lock.try_read().ok_or("the lock was not given back")?;
    guide.check(
        left == 0 && value == tasks / WRITES,
        format_args!("{} readers and writers", grouped(tasks)),
    )?;
    guide.check(
        shelf.together.get() == WRITES - 1 && shelf.torn.get() == 0,
        format_args!("all {} readers between two writers read together, and in their place", WRITES - 1),
    )?;
    guide.check(allocated == 0, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(tasks, taken)));
    upgrade(guide)
}

/// A task in ten writes; what a reader sees must be the number of writers before it.
async fn visit_shelf(shelf: Rc<Shelf>, me: usize) {
    if me % WRITES == 0 {
        let mut value = shelf.lock.write().await;
        let alone = shelf.readers.get() == 0 && *value == me / WRITES;
        shelf.torn.set(shelf.torn.get() + usize::from(!alone));
        yield_now().await;
        *value += 1;
    } else {
        let value = shelf.lock.read().await;
        shelf.readers.set(shelf.readers.get() + 1);
        shelf.together.set(shelf.together.get().max(shelf.readers.get()));
        shelf.torn.set(shelf.torn.get() + usize::from(*value != me / WRITES + 1));
        yield_now().await;
        shelf.readers.set(shelf.readers.get() - 1);
    }
}

/// Reads, finds that it must write, and writes what nobody changed in between.
fn upgrade(guide: &Guide) -> Result<(), String> {
    let lock = Rc::new(RwLock::new(1));
    let mut exec = Executor::new(2);
    let (upgrading, writing) = (lock.clone(), lock.clone());
    let seen = Rc::new(Cell::new((0, 0)));
    let note = seen.clone();
    exec.spawn(async move {
        let guard = upgrading.upgradable_read().await;
        let before = *guard;
        yield_now().await;
        let mut guard = RwLockUpgradableReadGuard::upgrade(guard).await;
        note.set((before, *guard));
        *guard += 10;
    });
    exec.spawn(async move { *writing.write().await *= 2 });
    let left = exec.run_until_stalled();
    let value = *lock.try_read().ok_or("the lock was not given back")?;
    guide.check(
        left == 0 && seen.get() == (1, 1) && value == 22,
        "an upgrade: no writer slips in, though one waits",
    )
}
