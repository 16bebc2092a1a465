//! Reads the records of the waits that have not ended: those of a task, of a lock, or all. The graph and the snapshots are made of them.
//!
//! A look takes no lock but that of a list, while it reads a few hundred records at most (of waits for a time all of a bucket, if none of the task is still to come), and may run at any time: a record is read as one ([`Stamp::look`](super::Stamp::look)), and may be over, or another wait's, a moment later. Nothing here changes a record, but for a mark of the watcher that a wait is old.

use super::lists::{bucket, chain, time_bucket, writers};
use super::{OF_POOL, POOL, WaitRecord, Want, get, id, load, tables};
use crate::inspect::locked;
use crate::inspect::locks::{Held, LockId};
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::vec::Vec;

/// A wait, as a look sees it.
#[derive(Clone, Copy, Debug)]
pub(in crate::inspect) struct WaitView {
    pub(in crate::inspect) id: u64,
    pub(in crate::inspect) task: u64,
    pub(in crate::inspect) lock: LockId,
    pub(in crate::inspect) want: Want,
    pub(in crate::inspect) own: Held,
    pub(in crate::inspect) permits: u32,
    /// It has a limit of ours, which may have been reached.
    pub(in crate::inspect) is_limited: bool,
    /// The limit is still to come.
    pub(in crate::inspect) ends_by_limit: bool,
    /// What it is for has come, and its future has not been polled since (`unpolled.rs`).
    pub(in crate::inspect) has_come: bool,
    pub(in crate::inspect) at: Option<&'static Location<'static>>,
    pub(in crate::inspect) name: &'static str,
    /// Nanoseconds of the process.
    pub(in crate::inspect) since: u64,
    /// Its order in the queue of the lock; the last if that is not known.
    pub(in crate::inspect) order: u32,
    /// In which process it began.
    pub(in crate::inspect) process: u32,
}

impl WaitView {
    pub(in crate::inspect) fn is_unlimited_lock(&self) -> bool {
        self.lock != LockId::NONE && !self.ends_by_limit
    }

    /// Can nothing but the next poll of its future end it, or nothing at all?
    pub(in crate::inspect) fn is_idle(&self) -> bool {
        self.has_come || self.want == Want::Nothing
    }

    /// May the poll of its task that runs come to it, and end it?
    pub(in crate::inspect) fn may_end_in_poll(&self) -> bool {
        self.is_idle() || self.is_limited
    }
}

impl WaitRecord {
    /// What is in the record of this number, if it is published.
    pub(super) fn view(&self, number: u32) -> Option<WaitView> {
        self.stamp.look(|uses| WaitView {
            id: id(uses, number),
            task: self.task.load(Ordering::Relaxed),
            lock: LockId::from_number(self.lock.load(Ordering::Relaxed)),
            want: self.request().want(),
            own: Held::of_slot(self.held.get()),
            permits: self.request().permits(),
            is_limited: self.request().is_limited(),
            ends_by_limit: self.ends_by_limit(),
            has_come: self.has_come(uses),
            at: self.at.get(),
            name: self.name.get().copied().unwrap_or_default(),
            since: self.since.load(Ordering::Relaxed),
            order: load(&self.order).wrapping_sub(1),
            process: self.origin().process(),
        })
    }
}

/// Is this use of its record the wait with this id?
pub(super) fn is_use(uses: u64, wait: u64) -> bool {
    id(uses, wait as u32) == wait
}

/// Does this wait still go on?
pub(in crate::inspect) fn is_published(wait: u64) -> bool {
    get(wait as u32).view(wait as u32).is_some_and(|view| view.id == wait)
}

/// What is in the records that a task's number leads to, of those that are of the task and in no bucket: mostly one.
fn direct(task: u64) -> impl Iterator<Item = WaitView> {
    let is_of = move |record: &WaitRecord| {
        // Relaxed: a look at it confirms the task, and a wait that is linked meanwhile is found in its bucket.
        record.stamp.is_published() && record.is_of(task) && !record.is_linked.load(Ordering::Relaxed)
    };
    let views = tables::of(task).filter(move |(_, record)| is_of(record));
    views.filter_map(|(number, record)| record.view(number)).filter(move |view| view.task == task)
}

/// So many records of a list are read while it is locked.
const SHORT: usize = 512;

/// What is in a list that is locked, if it is short. While a long one is read, every wait that begins or ends would have to wait for its lock: all records are looked at instead, without a lock.
fn short<T>(list: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let read: Vec<T> = list.take(SHORT + 1).collect();
    (read.len() <= SHORT).then_some(read)
}

/// The waits of a task: all but those for a time, and one of those that have not come, which is enough to know that the task goes on.
pub(in crate::inspect) fn each_of(task: u64, mut see: impl FnMut(WaitView)) {
    let view = |(number, record): (u32, &WaitRecord)| record.view(number);
    direct(task).for_each(&mut see);
    let is_of = |(_, record): &(u32, &WaitRecord)| record.is_of(task);
    let is_still = |view: &WaitView| view.task == task;
    let linked = short(chain(*locked(bucket(task))));
    // The list is not locked any more.
    match linked {
        Some(linked) => {
            let views = linked.into_iter().rev().filter(is_of).filter_map(view);
            views.filter(is_still).for_each(&mut see);
        }
        None => {
            let is_linked = |record: &WaitRecord| {
                record.is_linked.load(Ordering::Relaxed) && record.request().want() != Want::Time
            };
            let linked = records().filter(|one| is_of(one) && is_linked(one.1));
            linked.filter_map(view).filter(is_still).for_each(&mut see);
        }
    }
    let comes = |one: &(u32, &WaitRecord)| is_of(one) && !one.1.is_over();
    chain(*locked(time_bucket(task))).find(comes).and_then(view).into_iter().for_each(see);
}

/// Does the task wait for a time that has not come? Then it goes on by itself.
pub(in crate::inspect) fn sleeps(task: u64) -> bool {
    let is_direct = direct(task).any(|view| view.want == Want::Time && !view.has_come);
    is_direct || chain(*locked(time_bucket(task))).any(|(_, record)| record.is_of(task) && !record.is_over())
}

/// All records that were ever used, and some that were not.
fn records() -> impl Iterator<Item = (u32, &'static WaitRecord)> {
    let pooled = (1..=POOL.used()).map(|number| (number | OF_POOL, POOL.get(number)));
    tables::each().chain(pooled)
}

/// The lock of every wait for one that has no limit and began before this time. From the records themselves, without a lock: some may have ended meanwhile.
pub(in crate::inspect) fn each_candidate(before: u64, mut see: impl FnMut(LockId)) {
    candidates(before).for_each(|record| see(LockId::from_number(record.lock.load(Ordering::Relaxed))));
}

/// Is there one?
pub(in crate::inspect) fn has_candidate(before: u64) -> bool {
    candidates(before).next().is_some()
}

/// Is there one, or a wait that is about to begin? For a watcher that ends.
pub(in crate::inspect) fn has_begun() -> bool {
    records().any(|(_, record)| record.stamp.is_taken(|| record.is_lock_to_stay()))
}

fn candidates(before: u64) -> impl Iterator<Item = &'static WaitRecord> {
    records().map(|(_, record)| record).filter(move |record| {
        let is_old = record.stamp.is_published() && record.since.load(Ordering::Relaxed) < before;
        if is_old && before != u64::MAX {
            // It may be another wait by now: then that one is counted, too.
            record.is_old.store(true, Ordering::Relaxed);
        }
        is_old && record.is_lock_to_stay()
    })
}

/// Every wait of all tasks; not of one moment.
pub(in crate::inspect) fn each(see: impl FnMut(WaitView)) {
    records().filter_map(|(number, record)| record.view(number)).for_each(see);
}

/// Every wait in the queue of this lock that keeps readers out.
pub(in crate::inspect) fn each_writer(lock: LockId, mut see: impl FnMut(WaitView)) {
    let Some(of) = lock.record() else { return };
    let listed = short(writers(*locked(&of.writers)));
    match listed {
        Some(listed) => listed.into_iter().filter_map(|(at, record)| record.view(at)).for_each(see),
        None => each_waiter(lock, |view| {
            if view.want.keeps_readers_out() {
                see(view);
            }
        }),
    }
}

/// Every wait for this lock, whether it has been granted or not. Looks at the waits of all.
pub(in crate::inspect) fn each_waiter(lock: LockId, mut see: impl FnMut(WaitView)) {
    each(|view| {
        if view.lock == lock {
            see(view);
        }
    });
}
