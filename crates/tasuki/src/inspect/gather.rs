//! Gathers the records into a snapshot.

use super::graph::{self, Blocker};
use super::locks::{self, Holder, LockId, LockRecord};
use super::snapshot::{HolderSnapshot, LockLabel, LockSnapshot, Snapshot, WaitSnapshot};
use super::waits::{self, WaitView};
use super::{Deadlock, Hold, nanoseconds};
use crate::task::TaskId;
use std::collections::HashMap;
use std::time::Duration;
use std::vec::Vec;

impl HolderSnapshot {
    fn of_holder(holder: &Holder) -> Option<Self> {
        let hold = if holder.is_claimed { Hold::Taken } else { Hold::Unclaimed };
        Some(Self { task: TaskId::from_number(holder.task)?, hold, at: holder.at })
    }

    pub(super) fn of(blocker: &Blocker) -> Option<Self> {
        match blocker {
            Blocker::Holder(holder) => Self::of_holder(holder),
            Blocker::Writer(wait) => {
                Some(Self { task: TaskId::from_number(wait.task)?, hold: Hold::Queued, at: wait.at })
            }
        }
    }
}

pub(super) fn label(lock: LockId) -> Option<LockLabel> {
    lock.record().map(LockRecord::label)
}

fn wait(view: &WaitView, now: u64) -> Option<WaitSnapshot> {
    Some(WaitSnapshot {
        task: TaskId::from_number(view.task)?,
        future: view.name,
        at: view.at,
        waited: Duration::from_nanos(now.saturating_sub(view.since)),
        is_limited: view.is_limited,
        is_granted: graph::is_granted(view),
        lock: label(view.lock).map(|label| (view.lock.number(), label)),
        behind: graph::blockers(view).iter().filter_map(HolderSnapshot::of).collect(),
    })
}

fn lock(id: LockId, record: &LockRecord, waiters: usize) -> LockSnapshot {
    let mut holders = Vec::new();
    record.each_holder(|holder| holders.extend(HolderSnapshot::of_holder(&holder)));
    let (waited, longest_queue) = record.figures();
    let contentions = waited.iter().map(|count| u64::from(*count)).sum();
    LockSnapshot {
        id: id.number(),
        label: record.label(),
        holders,
        waiters,
        contentions,
        longest_queue,
        waited,
    }
}

pub(super) fn snapshot() -> Snapshot {
    let mut views = Vec::new();
    waits::each(|view| views.push(view));
    // The oldest first; of those of one moment the one that was enqueued first.
    views.sort_by_key(|view| (view.since, view.id));
    let mut waiters: HashMap<LockId, usize> = HashMap::new();
    for view in views.iter().filter(|view| !graph::is_granted(view)) {
        *waiters.entry(view.lock).or_default() += 1;
    }
    let now = nanoseconds();
    let mut all = Vec::new();
    locks::each(|id, record| all.push(lock(id, record, waiters.get(&id).copied().unwrap_or(0))));
    let deadlocks = graph::cycles().iter().map(Deadlock::new).collect();
    Snapshot { locks: all, waits: views.iter().filter_map(|view| wait(view, now)).collect(), deadlocks }
}

/// How many wait for a lock, and for how long the first of them has.
pub(super) fn queue(lock: LockId) -> (usize, Duration) {
    let (mut count, mut oldest) = (0, u64::MAX);
    waits::each_but_time(|view| {
        if view.lock == lock && !graph::is_granted(&view) {
            count += 1;
            oldest = oldest.min(view.since);
        }
    });
    (count, Duration::from_nanos(nanoseconds().saturating_sub(oldest)))
}
