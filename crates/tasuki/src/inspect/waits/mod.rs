//! The waits that go on: which task waits, for what, where, and since when.
//!
//! A wait of a task with an identity has a record from its first poll until its future has what it waited for, or is dropped. A task that waits once at a time, and few do more, has a record that
//! its number leads to, one of [`DIRECT`]: a wait takes it by one compare-exchange, publishes it by a store and a fence and frees it by a store. If that record is in use, by another wait of the task or by a task whose number
//! leads to the same, the wait has one of a pool. Such a wait, and one whose future was polled by another task than the one that began it, is in a list by the number of its task; and of the waits for a lock that has readers those that keep readers out are in a list of the lock (`lists.rs`).
//! Whatever else is to be known of a lock's waits is found by a look at all (`looks.rs`).
//!
//! | event | fn |
//! |---|---|
//! | a poll is about to wait | [`prepare`]; [`discard`] if it need not after all |
//! | its waiter is enqueued | [`enqueued`], with the queue locked; then [`publish`] |
//! | its future is polled again | [`polled`] |
//! | its waiter is granted, moved to another queue, revoked | [`granted`], [`set_held`], [`moved`], [`revoked`], with the queue locked |
//! | the wait is over | [`leave`] |
//!
//! # Invariants
//! 1. The fields of a record are written before it is published, by the thread that waits (`stamp.rs`); only `lock`, `want`, `held` and `order` change later, by the holder of
//!    the queue lock, each by itself, and `task`, by the future itself when another task polls it, while the record is in no bucket.
//! 2. A record is published exactly while the wait goes on, and no two waits have had the same id.
//! 3. The lists are changed and read under the locks of their bucket, that of a lock's writers under the lock of its record. A thread that holds the second
//!    never takes the first.
//!
//! # Orderings
//! The fields are Relaxed: they are ordered by the stamp, and for a releaser by the queue lock. A wait is published before it is asked whether the watcher runs, with a `SeqCst` fence between the two (`stamp.rs`, `watch.rs`). In strict mode
//! a wait is published before the graph is looked at, with a `SeqCst` fence between the two (`check_cycle`): of two waits that close a cycle together, the later fence comes after what the other
//! task did before its own, so that one of the two looks sees the whole cycle.

mod lists;
mod looks;

use super::holder_slot::HolderSlot;
use super::locks::{Held, LockId, LockRecord};
use super::pool::{Pool, Record, first};
use super::stamp::Stamp;
use super::{AtomicStatic, coarse_nanoseconds, nanoseconds};
use crate::probe::LockMode;
use crate::process_id;
use crate::task::TaskId;
use lists::{link, list, unlink, unlist};
pub(super) use looks::{
    WaitView, each, each_candidate, each_of, each_waiter, each_writer, has_candidate, is_published, sleeps,
};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How many records the number of a task leads to. A power of two. An interpreter would take seconds to walk them all.
const DIRECT: usize = if cfg!(miri) { 8 } else { 1 << 14 };

/// What a wait asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// A signal that any task may give.
    Signal,
    /// A time, which comes by itself.
    Time,
    /// A lock, for itself alone.
    Exclusive,
    Read,
    Upgradable,
    /// From an upgradable read to a lock for itself alone.
    Upgrade,
    Permits,
}

impl Want {
    const ALL: [Self; 7] = [
        Self::Signal,
        Self::Time,
        Self::Exclusive,
        Self::Read,
        Self::Upgradable,
        Self::Upgrade,
        Self::Permits,
    ];

    pub(crate) const fn of(mode: LockMode) -> Self {
        match mode {
            LockMode::Exclusive => Self::Exclusive,
            LockMode::Read => Self::Read,
            LockMode::Upgradable => Self::Upgradable,
            LockMode::Upgrade => Self::Upgrade,
            LockMode::Permits => Self::Permits,
        }
    }

    fn keeps_readers_out(self) -> bool {
        matches!(self, Self::Exclusive | Self::Upgrade)
    }
}

/// A wait, as it is described before it is published.
#[derive(Clone, Copy)]
pub(crate) struct NewWait {
    pub(crate) task: TaskId,
    pub(crate) lock: Option<&'static LockRecord>,
    pub(crate) want: Want,
    /// What the waiter holds already: of an upgrade.
    pub(crate) own: Held,
    /// How many it asks for.
    pub(crate) permits: u32,
    pub(crate) is_limited: bool,
    pub(crate) at: Option<&'static Location<'static>>,
    pub(crate) name: &'static &'static str,
    /// The lock has readers.
    pub(crate) has_readers: bool,
}

pub(crate) struct WaitRecord {
    stamp: Stamp,
    task: AtomicU64,
    lock: AtomicU64,
    /// The record of the lock whose figures it is in, and its generation then.
    counted: AtomicStatic<LockRecord>,
    generation: AtomicU32,
    at: AtomicStatic<Location<'static>>,
    name: AtomicStatic<&'static str>,
    /// By the cheap clock, of all waits, so that they can be compared.
    since: AtomicU64,
    /// By the other one, if the wait is timed; or 0.
    timed_since: AtomicU64,
    want: AtomicU32,
    permits: AtomicU32,
    /// The slot of its holder: of an upgrade from the beginning, of the others from a grant on that several may have.
    held: AtomicStatic<HolderSlot>,
    order: AtomicU32,
    process: AtomicU32,
    is_limited: AtomicBool,
    /// The watcher has seen that it is old: its time is to be counted, though it is not timed.
    is_old: AtomicBool,
    /// It is in the list of the writers of its lock.
    is_listed: AtomicBool,
    /// It is in the bucket of its task; and its neighbours there.
    is_linked: AtomicBool,
    prev: AtomicU32,
    next: AtomicU32,
    /// The neighbours in the list of writers.
    prev_writer: AtomicU32,
    next_writer: AtomicU32,
    next_free: AtomicU32,
}

impl Record for WaitRecord {
    const NEW: Self = Self {
        stamp: Stamp(AtomicU64::new(0)),
        task: AtomicU64::new(0),
        lock: AtomicU64::new(0),
        counted: AtomicStatic::new(),
        generation: AtomicU32::new(0),
        at: AtomicStatic::new(),
        name: AtomicStatic::new(),
        since: AtomicU64::new(0),
        timed_since: AtomicU64::new(0),
        want: AtomicU32::new(0),
        permits: AtomicU32::new(0),
        held: AtomicStatic::new(),
        order: AtomicU32::new(0),
        process: AtomicU32::new(0),
        is_limited: AtomicBool::new(false),
        is_old: AtomicBool::new(false),
        is_listed: AtomicBool::new(false),
        is_linked: AtomicBool::new(false),
        prev: AtomicU32::new(0),
        next: AtomicU32::new(0),
        prev_writer: AtomicU32::new(0),
        next_writer: AtomicU32::new(0),
        next_free: AtomicU32::new(0),
    };

    fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

/// The records that the numbers of tasks lead to; they are numbered from 1 on, those of the pool after them.
static BY_TASK: [WaitRecord; DIRECT] = [const { WaitRecord::NEW }; DIRECT];
static POOL: Pool<WaitRecord, { first(4096) }> = Pool::new();
// All Relaxed from here on: see the header.
fn load(number: &AtomicU32) -> u32 {
    number.load(Ordering::Relaxed)
}

fn store(number: &AtomicU32, value: u32) {
    number.store(value, Ordering::Relaxed);
}

fn is_of_pool(number: u32) -> bool {
    number as usize > DIRECT
}

#[inline]
fn get(number: u32) -> &'static WaitRecord {
    BY_TASK.get(number as usize - 1).unwrap_or_else(|| POOL.get(number - DIRECT as u32))
}

/// A record that no other wait has. 0 if there is none left.
#[inline(always)]
fn take(task: u64) -> u32 {
    let place = task as usize % DIRECT;
    if BY_TASK[place].stamp.try_take() { place as u32 + 1 } else { take_of_pool() }
}

#[cold]
fn take_of_pool() -> u32 {
    let Some(number) = POOL.take() else { return 0 };
    let is_free = POOL.get(number).stamp.try_take();
    debug_assert!(is_free, "a record that is in use is not in the pool");
    number + DIRECT as u32
}

/// Writes a record down, not published yet. Its number; 0 if there is no record left.
#[inline]
pub(crate) fn prepare(wait: &NewWait) -> u32 {
    let task = wait.task.get();
    let number = take(task);
    if number == 0 {
        return 0;
    }
    let record = get(number);
    let lock = wait.lock.map_or(LockId::NONE, LockRecord::id);
    let is_timed = wait.lock.is_some_and(|lock| lock.figures.times_wait());
    record.task.store(task, Ordering::Relaxed);
    record.lock.store(lock.number(), Ordering::Relaxed);
    record.counted.replace(wait.lock);
    store(&record.generation, lock.generation());
    store(&record.want, wait.want as u32);
    store(&record.permits, wait.permits);
    record.held.replace(wait.own.slot());
    store(&record.order, 0);
    store(&record.process, process_id::id());
    record.is_limited.store(wait.is_limited, Ordering::Relaxed);
    record.is_old.store(false, Ordering::Relaxed);
    record.is_listed.store(wait.has_readers && wait.want.keeps_readers_out(), Ordering::Relaxed);
    record.at.replace(wait.at);
    record.name.set(wait.name);
    record.since.store(coarse_nanoseconds(), Ordering::Relaxed);
    record.timed_since.store(if is_timed { nanoseconds() } else { 0 }, Ordering::Relaxed);
    number
}

/// The wait has not begun after all.
pub(crate) fn discard(number: u32) {
    get(number).stamp.free();
    if is_of_pool(number) {
        POOL.put(number - DIRECT as u32);
    }
}

/// The waiter is about to be enqueued. Called with the queue locked.
#[inline]
pub(crate) fn enqueued(number: u32) {
    let record = get(number);
    if let Some(lock) = record.counted() {
        store(&record.order, lock.figures.enqueued());
    }
}

/// The waiter has been enqueued. True if it waits for a lock, without a limit: it can be part of a cycle.
#[inline]
pub(crate) fn publish(number: u32) -> bool {
    let record = get(number);
    if record.is_listed.load(Ordering::Relaxed) {
        list(number, record);
    }
    if is_of_pool(number) {
        link(number, record);
    }
    let is_part = record.is_unlimited_lock();
    record.stamp.publish(is_part);
    is_part
}

/// The wait is over: granted and claimed, or cancelled.
pub(crate) fn leave(number: u32) {
    let record = get(number);
    if let Some(lock) = record.counted() {
        let since = record.timed_since.load(Ordering::Relaxed);
        if since != 0 || record.is_old.load(Ordering::Relaxed) {
            record.count_time(lock, since);
        }
        let is_exclusive = load(&record.want) == Want::Exclusive as u32;
        lock.figures.left(is_exclusive && lock.holders.is_first(record.task.load(Ordering::Relaxed)));
    }
    if record.is_listed.load(Ordering::Relaxed) {
        unlist(number, record);
    }
    if record.is_linked.load(Ordering::Relaxed) {
        unlink(record);
    }
    record.stamp.free();
    if is_of_pool(number) {
        POOL.put(number - DIRECT as u32);
    }
}

impl WaitRecord {
    /// The lock that it was enqueued for, and not the one that it was moved to; unless it has been dropped.
    #[inline]
    fn counted(&self) -> Option<&'static LockRecord> {
        self.counted.get().filter(|lock| lock.generation.get() == load(&self.generation))
    }

    #[cold]
    fn count_time(&self, lock: &LockRecord, timed_since: u64) {
        let since = if timed_since == 0 { self.since.load(Ordering::Relaxed) } else { timed_since };
        lock.figures.waited(nanoseconds().saturating_sub(since));
    }

    fn is_unlimited_lock(&self) -> bool {
        self.lock.load(Ordering::Relaxed) != 0 && !self.is_limited.load(Ordering::Relaxed)
    }

    fn is_of(&self, task: u64) -> bool {
        self.task.load(Ordering::Relaxed) == task
    }
}

/// The number of a wait: of a use of a record. Never 0.
fn id(uses: u64, number: u32) -> u64 {
    uses << 32 | u64::from(number)
}

/// What a releaser needs to know of the waiter that it grants.
pub(crate) fn granted(number: u32) -> (u64, u64, Option<&'static Location<'static>>) {
    let record = get(number);
    (record.task.load(Ordering::Relaxed), id(record.stamp.count(), number), record.at.get())
}

/// The future of the wait has been polled by this task, 0 if that has no identity, and waits on: it is that task's, though another may have enqueued it. Called by its own future.
#[inline]
pub(crate) fn polled(number: u32, task: u64) {
    let record = get(number);
    if !record.is_of(task) {
        adopt(number, record, task);
    }
}

#[cold]
fn adopt(number: u32, record: &WaitRecord, task: u64) {
    if record.is_linked.load(Ordering::Relaxed) {
        unlink(record);
    }
    record.task.store(task, Ordering::Relaxed);
    link(number, record);
}

/// Of an upgrade: the wait, and what its task holds.
pub(crate) fn upgraded(number: u32) -> (u64, Held) {
    let record = get(number);
    (id(record.stamp.count(), number), Held::of_slot(record.held.get()))
}

/// The slot that a grant took for a waiter.
pub(crate) fn set_held(number: u32, held: Held) {
    get(number).held.replace(held.slot());
}

pub(crate) fn held(number: u32) -> Held {
    Held::of_slot(get(number).held.get())
}

/// The waiter was moved to the queue of this lock.
pub(crate) fn moved(number: u32, lock: LockId) {
    let record = get(number);
    store(&record.want, Want::Exclusive as u32);
    record.lock.store(lock.number(), Ordering::Relaxed);
}

/// The grant of the waiter was revoked: it is in no queue until it is polled again, and nothing that it is polled for is held from it.
pub(crate) fn revoked(number: u32) {
    let record = get(number);
    record.lock.store(0, Ordering::Relaxed);
    store(&record.want, Want::Signal as u32);
}
