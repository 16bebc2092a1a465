//! Gathers the records of locks and waits into a snapshot, and into what `Debug` of a lock shows. Called by the thread that asks; takes no lock for longer than a list is read, and calls foreign code only for the labels of tasks.

use super::graph::{self, Blocker, Blockers};
use super::labels::{LABELS, LabelTasks, TaskLabel};
use super::locks::{self, HolderView, LockId, LockRecord};
use super::snapshot::{HolderSnapshot, LockLabel, LockSnapshot, Snapshot, WaitSite, WaitSnapshot};
use super::waits::{self, WaitView};
use super::{Deadlock, Hold, nanoseconds};
use crate::catch_panic::caught;
use crate::task::TaskId;
use core::cmp::Reverse;
use core::sync::atomic::Ordering;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use std::vec::Vec;

impl HolderSnapshot {
    fn of_holder(holder: &HolderView) -> Option<Self> {
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

/// The labels of these tasks, as far as they are known, by their numbers.
pub(super) fn labels_of(tasks: impl IntoIterator<Item = TaskId>) -> Vec<TaskLabel> {
    let mut tasks: Vec<TaskId> = tasks.into_iter().collect();
    tasks.sort_unstable();
    tasks.dedup();
    // Relaxed: as in `label_tasks`.
    let labels = LABELS.load(Ordering::Relaxed);
    if labels.is_null() || tasks.is_empty() {
        return Vec::new();
    }
    // SAFETY: not null, so it was stored by `label_tasks`, from a pointer of this type.
    let labels = unsafe { core::mem::transmute::<*mut (), LabelTasks>(labels) };
    let mut labels = caught(|| labels(&tasks)).unwrap_or_default();
    labels.sort_by_key(|label| label.task);
    #[cfg(all(test, not(miri)))]
    super::tests::count_work(labels.len());
    labels
}

/// Behind so many holders and writers a wait is shown; a crowd of waits behind a crowd of holders would be too much to show.
const SHOWN: usize = 64;

fn wait(view: &WaitView, now: u64, is_granted: bool, blockers: &mut Blockers) -> Option<WaitSnapshot> {
    Some(WaitSnapshot {
        task: TaskId::from_number(view.task)?,
        future: view.name,
        at: view.at,
        waited: Duration::from_nanos(now.saturating_sub(view.since)),
        is_limited: view.is_limited,
        is_granted,
        lock: label(view.lock).map(|label| (view.lock.number(), label)),
        behind: blockers.of(view, SHOWN).filter_map(|blocker| HolderSnapshot::of(&blocker)).collect(),
    })
}

fn lock(id: LockId, record: &'static LockRecord, waiters: usize) -> LockSnapshot {
    let mut holders = Vec::new();
    let unknown_holders = record.each_holder(|holder| holders.extend(HolderSnapshot::of_holder(&holder)));
    let (waited, held) = (record.figures.waits(), record.figures.holds());
    LockSnapshot {
        id: id.number(),
        label: record.label(),
        holders,
        unknown_holders,
        waiters,
        contentions: u64::from(record.figures.contentions()),
        longest_queue: record.figures.longest_queue(),
        waited,
        held,
    }
}

/// Keeps the first so many of an order, sorted.
fn keep_first<T, K: Ord>(all: &mut Vec<T>, limit: usize, key: impl Fn(&T) -> K) {
    if limit < all.len() {
        all.select_nth_unstable_by_key(limit, &key);
        all.truncate(limit);
    }
    all.sort_by_key(key);
}

/// The waits that were granted and not polled since: found once, for a search by each wait among a crowd of holders would take the product of both.
fn granted() -> HashSet<u64> {
    let mut granted = HashSet::new();
    locks::each(|_, record| {
        record.each_holder(|holder| granted.extend((holder.wait != 0).then_some(holder.wait)));
    });
    granted
}

/// The locks with most waiters, then those with most contentions; and how many there are.
fn locks(waiters: &HashMap<LockId, usize>, limit: usize) -> (Vec<LockSnapshot>, usize) {
    let mut all = Vec::new();
    locks::each(|id, record| all.push((id, record, waiters.get(&id).copied().unwrap_or(0))));
    let total = all.len();
    if limit < total {
        keep_first(&mut all, limit, |(id, record, waiters)| {
            (Reverse(*waiters), Reverse(record.figures.contentions()), *id)
        });
    }
    (all.into_iter().map(|(id, record, waiters)| lock(id, record, waiters)).collect(), total)
}

/// The waits by what they are for and where they were asked for. The oldest of each comes first.
fn sites(views: &[WaitView], now: u64, limit: usize) -> Vec<WaitSite> {
    let mut sites: HashMap<_, (usize, u64)> = HashMap::new();
    for view in views {
        let (count, since) = sites.entry((view.lock, view.name, view.at)).or_insert((0, u64::MAX));
        *count += 1;
        *since = (*since).min(view.since);
    }
    let mut all: Vec<_> = sites.into_iter().collect();
    keep_first(&mut all, limit, |(key, (count, since))| (Reverse(*count), *since, *key));
    let site = |((lock, future, at), (count, since)): ((LockId, _, _), (usize, u64))| WaitSite {
        future,
        at,
        lock: label(lock).map(|label| (lock.number(), label)),
        count,
        longest: Duration::from_nanos(now.saturating_sub(since)),
    };
    all.into_iter().map(site).collect()
}

pub(super) fn snapshot(limit: usize) -> Snapshot {
    let mut views = Vec::new();
    waits::each(|view| views.push(view));
    let (now, granted) = (nanoseconds(), granted());
    let mut waiters: HashMap<LockId, usize> = HashMap::new();
    for view in views.iter().filter(|view| !granted.contains(&view.id)) {
        *waiters.entry(view.lock).or_default() += 1;
    }
    let (locks, total_locks) = locks(&waiters, limit);
    let (sites, total_waits) = (sites(&views, now, limit), views.len());
    // The oldest first; of those of one moment the one that was enqueued first.
    keep_first(&mut views, limit, |view| (view.since, view.order, view.id));
    let mut blockers = Blockers::default();
    let has_come = |view: &WaitView| view.has_come && view.lock == LockId::NONE;
    let wait = |view: &WaitView| wait(view, now, granted.contains(&view.id) || has_come(view), &mut blockers);
    let waits: Vec<WaitSnapshot> = views.iter().filter_map(wait).collect();
    let mut cycles = graph::cycles();
    let total_deadlocks = cycles.len();
    // Those that are certain come first.
    cycles.truncate(limit);
    let deadlocks = Deadlock::all(&cycles);
    let behind = waits.iter().flat_map(|wait| wait.behind.iter().map(|holder| holder.task));
    let tasks = labels_of(waits.iter().map(|wait| wait.task).chain(behind));
    Snapshot { locks, total_locks, waits, total_waits, sites, deadlocks, total_deadlocks, tasks }
}

/// How many wait for a lock, and for how long the first of them has.
pub(super) fn queue(lock: LockId) -> (usize, Duration) {
    let mut granted = HashSet::new();
    if let Some(record) = lock.record() {
        record.each_holder(|holder| granted.extend((holder.wait != 0).then_some(holder.wait)));
    }
    let (mut count, mut oldest) = (0, u64::MAX);
    waits::each_waiter(lock, |view| {
        if !granted.contains(&view.id) {
            count += 1;
            oldest = oldest.min(view.since);
        }
    });
    (count, Duration::from_nanos(nanoseconds().saturating_sub(oldest)))
}
