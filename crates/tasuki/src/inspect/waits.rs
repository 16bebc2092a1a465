//! The waits that go on: which task waits, for what, where, and since when.
//!
//! A wait of a task with an identity has a record from its first poll until its future has what it waited for, or is dropped. A task that waits once at a time, and few do more, has a record that
//! its number leads to, one of [`DIRECT`]: a wait takes it by one compare-exchange, publishes it by a store and a fence and frees it by a store. If that record is in use, by another wait of the task or by a task whose number
//! leads to the same, the wait has one of a pool. Such a wait, and one whose future was polled by another task than the one that began it, is in one of 65,536 lists by the number of its task, each under a lock of its own; waits for a time have lists of their own, of which a look sees one.
//!
//! Of the waits for a lock that has readers those that keep readers out are in a list of the lock, too. Whatever else is to be known of a lock's waits is found by a look at all.
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

use super::locks::{Held, LockId, LockRecord};
use super::pool::{Pool, Record, first};
use super::stamp::Stamp;
use super::{AtomicStatic, coarse_nanoseconds, locked, nanoseconds};
use crate::probe::LockMode;
use crate::process_id;
use crate::task::TaskId;
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::vec::Vec;

/// How many records the number of a task leads to. A power of two. An interpreter would take seconds to walk them all.
const DIRECT: usize = if cfg!(miri) { 8 } else { 1 << 14 };
/// A power of two: a million waiting tasks are sixteen in a bucket.
const BUCKETS: usize = if cfg!(miri) { 16 } else { 1 << 16 };

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
    /// What the waiter holds already: of an upgrade. How many it asks for: of permits.
    pub(crate) own: Held,
    pub(crate) is_limited: bool,
    pub(crate) at: &'static Location<'static>,
    pub(crate) name: &'static &'static str,
    /// The lock has readers.
    pub(crate) has_readers: bool,
}

/// A wait, as a look sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitView {
    pub(super) id: u64,
    pub(super) task: u64,
    pub(super) lock: LockId,
    pub(super) want: Want,
    pub(super) own: Held,
    pub(super) is_limited: bool,
    pub(super) at: Option<&'static Location<'static>>,
    pub(super) name: &'static str,
    /// Nanoseconds of the process.
    pub(super) since: u64,
    /// Its order in the queue of the lock; the last if that is not known.
    pub(super) order: u32,
    /// In which process it began.
    pub(super) process: u32,
}

impl WaitView {
    pub(super) fn is_unlimited_lock(&self) -> bool {
        self.lock != LockId::NONE && !self.is_limited
    }
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
    own: AtomicU32,
    /// The place that a grant took for it.
    held: AtomicU32,
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
        own: AtomicU32::new(0),
        held: AtomicU32::new(0),
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
static HEADS: [Mutex<u32>; BUCKETS] = [const { Mutex::new(0) }; BUCKETS];
/// Of waits for a time: a task may have thousands of them, and one is enough to keep it out of every cycle.
static TIME_HEADS: [Mutex<u32>; BUCKETS] = [const { Mutex::new(0) }; BUCKETS];

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

fn bucket(task: u64) -> &'static Mutex<u32> {
    &HEADS[task as usize % BUCKETS]
}

fn time_bucket(task: u64) -> &'static Mutex<u32> {
    &TIME_HEADS[task as usize % BUCKETS]
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
    let is_timed = wait.lock.is_some_and(LockRecord::times_wait);
    record.task.store(task, Ordering::Relaxed);
    record.lock.store(lock.number(), Ordering::Relaxed);
    record.counted.replace(wait.lock);
    store(&record.generation, lock.generation());
    store(&record.want, wait.want as u32);
    store(&record.own, wait.own.number());
    store(&record.held, 0);
    store(&record.order, 0);
    store(&record.process, process_id::id());
    record.is_limited.store(wait.is_limited, Ordering::Relaxed);
    record.is_old.store(false, Ordering::Relaxed);
    record.is_listed.store(wait.has_readers && wait.want.keeps_readers_out(), Ordering::Relaxed);
    record.at.set(wait.at);
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
        store(&record.order, lock.enqueued());
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
        lock.left(record.task.load(Ordering::Relaxed), load(&record.want) == Want::Exclusive as u32);
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

/// Into the bucket of its task.
#[cold]
fn link(number: u32, record: &WaitRecord) {
    let mut head = locked(record.head());
    store(&record.prev, 0);
    store(&record.next, *head);
    if *head != 0 {
        store(&get(*head).prev, number);
    }
    *head = number;
    record.is_linked.store(true, Ordering::Relaxed);
}

/// Out of the bucket of its task.
#[cold]
fn unlink(record: &WaitRecord) {
    let mut head = locked(record.head());
    let (prev, next) = (load(&record.prev), load(&record.next));
    if prev == 0 {
        *head = next;
    } else {
        store(&get(prev).next, next);
    }
    if next != 0 {
        store(&get(next).prev, prev);
    }
    record.is_linked.store(false, Ordering::Relaxed);
}

/// Lists the wait with the writers of its lock.
fn list(number: u32, record: &WaitRecord) {
    let Some(of) = record.counted() else { return };
    let mut head = locked(&of.writers);
    store(&record.prev_writer, 0);
    store(&record.next_writer, *head);
    if *head != 0 {
        store(&get(*head).prev_writer, number);
    }
    *head = number;
}

fn unlist(number: u32, record: &WaitRecord) {
    let Some(of) = record.counted() else { return };
    let mut head = locked(&of.writers);
    let (prev, next) = (load(&record.prev_writer), load(&record.next_writer));
    if prev != 0 {
        store(&get(prev).next_writer, next);
    } else if *head == number {
        *head = next;
    }
    if next != 0 {
        store(&get(next).prev_writer, prev);
    }
}

/// The records of a bucket, which is locked.
fn chain(head: u32) -> impl Iterator<Item = (u32, &'static WaitRecord)> {
    let mut at = head;
    std::iter::from_fn(move || {
        let (number, record) = (at, (at != 0).then(|| get(at))?);
        at = load(&record.next);
        Some((number, record))
    })
}

impl WaitRecord {
    /// The list that it is in, if it is of the pool. A wait for a time stays one.
    fn head(&self) -> &'static Mutex<u32> {
        let task = self.task.load(Ordering::Relaxed);
        if load(&self.want) == Want::Time as u32 { time_bucket(task) } else { bucket(task) }
    }

    /// The lock that it was enqueued for, and not the one that it was moved to; unless it has been dropped.
    #[inline]
    fn counted(&self) -> Option<&'static LockRecord> {
        self.counted.get().filter(|lock| lock.generation.get() == load(&self.generation))
    }

    #[cold]
    fn count_time(&self, lock: &LockRecord, timed_since: u64) {
        let since = if timed_since == 0 { self.since.load(Ordering::Relaxed) } else { timed_since };
        lock.waited(nanoseconds().saturating_sub(since));
    }

    fn is_unlimited_lock(&self) -> bool {
        self.lock.load(Ordering::Relaxed) != 0 && !self.is_limited.load(Ordering::Relaxed)
    }

    fn is_of(&self, task: u64) -> bool {
        self.task.load(Ordering::Relaxed) == task
    }

    /// What is in the record of this number, if it is published.
    fn view(&self, number: u32) -> Option<WaitView> {
        self.stamp.look(|uses| WaitView {
            id: id(uses, number),
            task: self.task.load(Ordering::Relaxed),
            lock: LockId::from_number(self.lock.load(Ordering::Relaxed)),
            want: Want::ALL[load(&self.want) as usize],
            own: Held::from_number(load(&self.own)),
            is_limited: self.is_limited.load(Ordering::Relaxed),
            at: self.at.get(),
            name: self.name.get().copied().unwrap_or_default(),
            since: self.since.load(Ordering::Relaxed),
            order: load(&self.order).wrapping_sub(1),
            process: load(&self.process),
        })
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
    (id(record.stamp.count(), number), Held::from_number(load(&record.own)))
}

/// Does this wait still go on?
pub(super) fn is_published(wait: u64) -> bool {
    get(wait as u32).view(wait as u32).is_some_and(|view| view.id == wait)
}

/// The place that a grant took for a waiter.
pub(crate) fn set_held(number: u32, held: Held) {
    store(&get(number).held, held.number());
}

pub(crate) fn held(number: u32) -> Held {
    Held::from_number(load(&get(number).held))
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

/// What is in the record that a task's number leads to, if it is of that task and in no bucket.
fn direct(task: u64) -> Option<WaitView> {
    let place = task as usize % DIRECT;
    let record = &BY_TASK[place];
    let view = record.view(place as u32 + 1).filter(|view| view.task == task);
    view.filter(|_| !record.is_linked.load(Ordering::Relaxed))
}

/// The waits of a task, the first that began first: all but those for a time, and one of those, which is enough to know that the task goes on.
pub(super) fn each_of(task: u64, mut see: impl FnMut(WaitView)) {
    let view = |(number, record): (u32, &WaitRecord)| record.view(number);
    direct(task).into_iter().for_each(&mut see);
    let is_of = |(_, record): &(u32, &WaitRecord)| record.is_of(task);
    let linked: Vec<WaitView> = chain(*locked(bucket(task))).filter(is_of).filter_map(view).collect();
    linked.into_iter().rev().for_each(&mut see);
    chain(*locked(time_bucket(task))).find(is_of).and_then(view).into_iter().for_each(see);
}

/// Does the task wait for a time? Then it goes on by itself.
pub(super) fn sleeps(task: u64) -> bool {
    let is_direct = direct(task).is_some_and(|view| view.want == Want::Time);
    is_direct || chain(*locked(time_bucket(task))).any(|(_, record)| record.is_of(task))
}

/// All records that were ever used, and some that were not.
fn records() -> impl Iterator<Item = (u32, &'static WaitRecord)> {
    let direct = (1..).zip(&BY_TASK);
    direct.chain((1..=POOL.used()).map(|number| (number + DIRECT as u32, POOL.get(number))))
}

/// The lock of every wait for one that has no limit and began before this time. From the records themselves, without a lock: some may have ended meanwhile.
pub(super) fn each_candidate(before: u64, mut see: impl FnMut(LockId)) {
    candidates(before).for_each(|record| see(LockId::from_number(record.lock.load(Ordering::Relaxed))));
}

/// Is there one?
pub(super) fn has_candidate(before: u64) -> bool {
    candidates(before).next().is_some()
}

fn candidates(before: u64) -> impl Iterator<Item = &'static WaitRecord> {
    records().map(|(_, record)| record).filter(move |record| {
        let is_old = record.stamp.is_published() && record.since.load(Ordering::Relaxed) < before;
        if is_old && before != u64::MAX {
            // It may be another wait by now: then that one is counted, too.
            record.is_old.store(true, Ordering::Relaxed);
        }
        is_old && record.is_unlimited_lock()
    })
}

/// Every wait of all tasks; not of one moment.
pub(super) fn each(see: impl FnMut(WaitView)) {
    records().filter_map(|(number, record)| record.view(number)).for_each(see);
}

/// Every wait in the queue of this lock that keeps readers out.
pub(super) fn each_writer(lock: LockId, mut see: impl FnMut(WaitView)) {
    let Some(of) = lock.record() else { return };
    let head = locked(&of.writers);
    let mut at = *head;
    while at != 0 {
        let record = get(at);
        record.view(at).into_iter().for_each(&mut see);
        at = load(&record.next_writer);
    }
}

/// Every wait for this lock, whether it has been granted or not. Looks at the waits of all.
pub(super) fn each_waiter(lock: LockId, mut see: impl FnMut(WaitView)) {
    each(|view| {
        if view.lock == lock {
            see(view);
        }
    });
}
