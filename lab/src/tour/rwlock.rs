//! Tour stop: readers together, writers alone, in the order in which they came; an upgrade that no writer gets ahead of.

use super::tasks::NOTES;
use super::{Count, Guide, all, grouped, rate};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tasuki::{RwLock, RwLockUpgradableReadGuard};
use tasuki_rt::{spawn_local, yield_now};

/// One in so many writes.
const WRITES: usize = 10;

/// What the tasks share.
struct Shelf {
    lock: RwLock<usize>,
    readers: Cell<usize>,
    together: Cell<usize>,
    torn: Cell<usize>,
}

/// What they came out with.
struct Shared {
    failed: usize,
    value: Option<usize>,
    together: usize,
    torn: usize,
    taken: Duration,
    allocated: u64,
}

/// Lets readers and writers share a value, then upgrades.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(100_000, 2_000);
    let shared = guide.run_on_loop(move || share(tasks), || "   readers and writers come and go")?;
    guide.check(
        shared.failed == 0 && shared.value == Some(tasks / WRITES),
        format_args!("{} readers and writers, on one event loop", grouped(tasks)),
    )?;
    guide.check(
        shared.together == WRITES - 1 && shared.torn == 0,
        format_args!("all {} readers between two writers read together, and in their place", WRITES - 1),
    )?;
    guide.check(shared.allocated <= NOTES, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(tasks, shared.taken)));
    let (seen, value) = guide.run_on_loop(upgrade, || "   an upgrade")?;
    guide.check(seen == (1, 1) && value == Some(22), "an upgrade: no writer slips in, though one waits")
}

/// Spawns readers and writers in order, and waits for them.
async fn share(tasks: usize) -> Shared {
    let shelf = Rc::new(Shelf {
        lock: RwLock::new(0),
        readers: Cell::new(0),
        together: Cell::new(0),
        torn: Cell::new(0),
    });
    let tasks: Vec<_> = (0..tasks).map(|task| spawn_local(visit_shelf(shelf.clone(), task))).collect();
    let count = Count::start();
    let failed = all(tasks).await;
    let (taken, allocated) = count.stop();
    let value = shelf.lock.try_read().map(|value| *value);
    Shared { failed, value, together: shelf.together.get(), torn: shelf.torn.get(), taken, allocated }
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

/// Reads, finds that it must write, and writes what no other task changed in between.
async fn upgrade() -> ((usize, usize), Option<usize>) {
    let lock = Rc::new(RwLock::new(1));
    let (upgrading, writing) = (lock.clone(), lock.clone());
    let first = spawn_local(async move {
        let guard = upgrading.upgradable_read().await;
        let before = *guard;
        yield_now().await;
        let mut guard = RwLockUpgradableReadGuard::upgrade(guard).await;
        let after = *guard;
        *guard += 10;
        (before, after)
    });
    let second = spawn_local(async move { *writing.write().await *= 2 });
    let seen = first.await.unwrap_or_default();
    let failed = all(vec![second]).await;
    (seen, lock.try_read().map(|value| *value).filter(|_| failed == 0))
}
