//! The waits that go on: which task waits, for what, where, and since when.
//!
//! A wait of a task with an identity has a record from its first poll until its future has what it waited for, or is dropped. The records of one task are
//! found by its identity: they are in lists that 65,536 buckets share out, each under a lock of its own; waits for a time have lists of their own, of which a look sees one. A wait takes that lock twice.
//!
//! # Invariants
//! 1. The fields of a record are written before it is published, by the thread that waits; only `lock`, `want` and `held` change later, by the holder of
//!    the queue lock, and `task`, by the future itself when another task polls it, while the record is in no bucket.
//! 2. `id` is not 0 exactly while the wait is published, and no two waits have had the same.
//! 3. The lists are changed and read under the locks of their bucket, those of a lock's waits under the lock of its record. A thread that holds the second
//!    never takes the first.
//!
//! # Orderings
//! The fields are Relaxed: they are ordered by the lock of the bucket, and for a releaser by the queue lock. A wait is published before the graph is looked at, with
//! a `SeqCst` fence between the two ([`publish`]): of two waits that close a cycle together, the later fence comes after what the other task did before its own, so
//! that one of the two looks sees the whole cycle. The same fence orders the publication before the question whether the watcher runs (`watch.rs`).
//! `listed`: one compare-exchange decides between `publish` and `moved`, Relaxed: both list under the lock of the record, and `leave` comes after both.

use super::locks::{Held, LockId, LockRecord};
use super::pool::{Pool, Record, first};
use super::{AtomicStatic, locked, nanoseconds};
use crate::probe::LockMode;
use crate::task::TaskId;
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// A power of two: a million waiting tasks are sixteen in a bucket. An interpreter would take seconds to walk them all.
const BUCKETS: usize = if cfg!(miri) { 16 } else { 1 << 16 };

/// The lists of a lock's waits: those that readers pass, and those that keep readers out.
const OTHERS: usize = 0;
const WRITERS: usize = 1;
pub(super) const QUEUES: usize = 2;

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
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewWait {
    pub(crate) task: TaskId,
    pub(crate) lock: LockId,
    pub(crate) want: Want,
    /// What the waiter holds already: of an upgrade. How many it asks for: of permits.
    pub(crate) own: Held,
    pub(crate) is_limited: bool,
    pub(crate) at: &'static Location<'static>,
    pub(crate) name: &'static &'static str,
    /// Nanoseconds of the process.
    pub(crate) since: u64,
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
    pub(super) since: u64,
}

impl WaitView {
    pub(super) fn is_unlimited_lock(&self) -> bool {
        self.lock != LockId::NONE && !self.is_limited
    }
}

pub(crate) struct WaitRecord {
    next_free: AtomicU32,
    id: AtomicU64,
    /// How often the record was used.
    uses: AtomicU32,
    task: AtomicU64,
    lock: AtomicU64,
    /// The lock whose figures it is in.
    counted: AtomicU64,
    want: AtomicU32,
    own: AtomicU32,
    /// The place that a grant took for it.
    held: AtomicU32,
    is_limited: AtomicBool,
    at: AtomicStatic<Location<'static>>,
    name: AtomicStatic<&'static str>,
    since: AtomicU64,
    /// The neighbours in the bucket.
    prev: AtomicU32,
    next: AtomicU32,
    /// The lock in whose list it is, and the neighbours there.
    listed: AtomicU64,
    prev_queued: AtomicU32,
    next_queued: AtomicU32,
}

impl Record for WaitRecord {
    const NEW: Self = Self {
        next_free: AtomicU32::new(0),
        id: AtomicU64::new(0),
        uses: AtomicU32::new(0),
        task: AtomicU64::new(0),
        lock: AtomicU64::new(0),
        counted: AtomicU64::new(0),
        want: AtomicU32::new(0),
        own: AtomicU32::new(0),
        held: AtomicU32::new(0),
        is_limited: AtomicBool::new(false),
        at: AtomicStatic::new(),
        name: AtomicStatic::new(),
        since: AtomicU64::new(0),
        prev: AtomicU32::new(0),
        next: AtomicU32::new(0),
        listed: AtomicU64::new(0),
        prev_queued: AtomicU32::new(0),
        next_queued: AtomicU32::new(0),
    };

    fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

static WAITS: Pool<WaitRecord, { first(4096) }> = Pool::new();
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

fn bucket(task: u64) -> &'static Mutex<u32> {
    &HEADS[task as usize % BUCKETS]
}

fn time_bucket(task: u64) -> &'static Mutex<u32> {
    &TIME_HEADS[task as usize % BUCKETS]
}

/// Writes a record down, in no list yet. Its number; 0 if there is no record left.
pub(crate) fn prepare(wait: &NewWait) -> u32 {
    let Some(number) = WAITS.take() else { return 0 };
    let record = WAITS.get(number);
    record.task.store(wait.task.get(), Ordering::Relaxed);
    record.lock.store(wait.lock.number(), Ordering::Relaxed);
    record.counted.store(wait.lock.number(), Ordering::Relaxed);
    store(&record.want, wait.want as u32);
    store(&record.own, wait.own.number());
    store(&record.held, 0);
    record.listed.store(0, Ordering::Relaxed);
    record.is_limited.store(wait.is_limited, Ordering::Relaxed);
    record.at.set(wait.at);
    record.name.set(wait.name);
    record.since.store(wait.since, Ordering::Relaxed);
    store(&record.uses, load(&record.uses).wrapping_add(1));
    record.id.store(u64::from(load(&record.uses)) << 32 | u64::from(number), Ordering::Relaxed);
    number
}

/// The wait has not begun after all.
pub(crate) fn discard(number: u32) {
    WAITS.get(number).id.store(0, Ordering::Relaxed);
    WAITS.put(number);
}

impl WaitRecord {
    /// The list that it is in. A wait for a time stays one.
    fn head(&self) -> &'static Mutex<u32> {
        let task = self.task.load(Ordering::Relaxed);
        if load(&self.want) == Want::Time as u32 {
            &TIME_HEADS[task as usize % BUCKETS]
        } else {
            bucket(task)
        }
    }
}

/// The waiter has been enqueued. True if it waits for a lock, without a limit: it can be part of a cycle.
pub(crate) fn publish(number: u32) -> bool {
    let record = WAITS.get(number);
    link(number, record);
    list(number, record);
    record.figures(LockRecord::enqueued);
    // SeqCst: pairs with the same fence of another task that publishes, and with that of the watcher; see the header.
    fence(Ordering::SeqCst);
    record.is_unlimited_lock()
}

/// The wait is over: granted and claimed, or cancelled.
pub(crate) fn leave(number: u32) {
    let record = WAITS.get(number);
    let waited = nanoseconds().saturating_sub(record.since.load(Ordering::Relaxed));
    record.figures(|lock| lock.left(waited));
    unlist(number, record);
    unlink(record);
    record.id.store(0, Ordering::Relaxed);
    WAITS.put(number);
}

/// Into the bucket of its task.
fn link(number: u32, record: &WaitRecord) {
    let mut head = locked(record.head());
    store(&record.prev, 0);
    store(&record.next, *head);
    if *head != 0 {
        store(&WAITS.get(*head).prev, number);
    }
    *head = number;
}

/// Out of the bucket of its task.
fn unlink(record: &WaitRecord) {
    let mut head = locked(record.head());
    let (prev, next) = (load(&record.prev), load(&record.next));
    if prev == 0 {
        *head = next;
    } else {
        store(&WAITS.get(prev).next, next);
    }
    if next != 0 {
        store(&WAITS.get(next).prev, prev);
    }
}

/// Lists the wait with its lock, if it is for one. A condvar's waiter may be moved to its mutex before it is published: the first of the two lists it.
fn list(number: u32, record: &WaitRecord) {
    let lock = LockId::from_number(record.lock.load(Ordering::Relaxed));
    let Some(of) = lock.record() else { return };
    // Relaxed: the list is changed under its lock, and `leave` comes after both of them.
    if record.listed.compare_exchange(0, lock.number(), Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    let mut heads = locked(&of.queues);
    let head = &mut heads[record.queue()];
    store(&record.prev_queued, 0);
    store(&record.next_queued, *head);
    if *head != 0 {
        store(&WAITS.get(*head).prev_queued, number);
    }
    *head = number;
}

fn unlist(number: u32, record: &WaitRecord) {
    let Some(of) = LockId::from_number(record.listed.load(Ordering::Relaxed)).record() else { return };
    let mut heads = locked(&of.queues);
    let head = &mut heads[record.queue()];
    let (prev, next) = (load(&record.prev_queued), load(&record.next_queued));
    if prev != 0 {
        store(&WAITS.get(prev).next_queued, next);
    } else if *head == number {
        *head = next;
    }
    if next != 0 {
        store(&WAITS.get(next).prev_queued, prev);
    }
}

/// The records of a bucket, which is locked.
fn chain(head: u32) -> impl Iterator<Item = &'static WaitRecord> {
    let mut at = head;
    std::iter::from_fn(move || {
        let record = (at != 0).then(|| WAITS.get(at))?;
        at = load(&record.next);
        Some(record)
    })
}

impl WaitRecord {
    /// In which of the lists of its lock it is. What it wants does not change any more when it is listed.
    fn queue(&self) -> usize {
        if Want::ALL[load(&self.want) as usize].keeps_readers_out() { WRITERS } else { OTHERS }
    }

    /// Tells the lock that it was enqueued for, and not the one that it was moved to.
    fn figures(&self, tell: impl FnOnce(&LockRecord)) {
        LockId::from_number(self.counted.load(Ordering::Relaxed)).record().map(tell);
    }

    fn is_unlimited_lock(&self) -> bool {
        self.lock.load(Ordering::Relaxed) != 0 && !self.is_limited.load(Ordering::Relaxed)
    }

    fn view(&self) -> WaitView {
        WaitView {
            id: self.id.load(Ordering::Relaxed),
            task: self.task.load(Ordering::Relaxed),
            lock: LockId::from_number(self.lock.load(Ordering::Relaxed)),
            want: Want::ALL[load(&self.want) as usize],
            own: Held::from_number(load(&self.own)),
            is_limited: self.is_limited.load(Ordering::Relaxed),
            at: self.at.get(),
            name: self.name.get().copied().unwrap_or_default(),
            since: self.since.load(Ordering::Relaxed),
        }
    }
}

/// What a releaser needs to know of the waiter that it grants.
pub(crate) fn granted(number: u32) -> (u64, u64, Option<&'static Location<'static>>) {
    let record = WAITS.get(number);
    (record.task.load(Ordering::Relaxed), record.id.load(Ordering::Relaxed), record.at.get())
}

/// The future of the wait has been polled by this task, 0 if that has no identity, and waits on: it is that task's, though another may have enqueued it. Called by its own future.
pub(crate) fn polled(number: u32, task: u64) {
    let record = WAITS.get(number);
    if record.task.load(Ordering::Relaxed) == task {
        return;
    }
    unlink(record);
    record.task.store(task, Ordering::Relaxed);
    link(number, record);
}

/// When a wait began.
pub(super) fn since(number: u32) -> u64 {
    WAITS.get(number).since.load(Ordering::Relaxed)
}

/// Of an upgrade: the wait, and what its task holds.
pub(crate) fn upgraded(number: u32) -> (u64, Held) {
    let record = WAITS.get(number);
    (record.id.load(Ordering::Relaxed), Held::from_number(load(&record.own)))
}

/// Does this wait still go on?
pub(super) fn is_published(wait: u64) -> bool {
    WAITS.get(wait as u32).id.load(Ordering::Relaxed) == wait
}

/// The place that a grant took for a waiter.
pub(crate) fn set_held(number: u32, held: Held) {
    store(&WAITS.get(number).held, held.number());
}

pub(crate) fn held(number: u32) -> Held {
    Held::from_number(load(&WAITS.get(number).held))
}

/// The waiter was moved to the queue of this lock.
pub(crate) fn moved(number: u32, lock: LockId) {
    let record = WAITS.get(number);
    store(&record.want, Want::Exclusive as u32);
    record.lock.store(lock.number(), Ordering::Relaxed);
    list(number, record);
}

/// The grant of the waiter was revoked: it is in no queue until it is polled again, and nothing that it is polled for is held from it.
pub(crate) fn revoked(number: u32) {
    let record = WAITS.get(number);
    record.lock.store(0, Ordering::Relaxed);
    store(&record.want, Want::Signal as u32);
}

/// The waits of a task: all but those for a time, and one of those, which is enough to know that the task goes on.
pub(super) fn each_of(task: u64, mut see: impl FnMut(WaitView)) {
    let is_of = |record: &&WaitRecord| record.task.load(Ordering::Relaxed) == task;
    chain(*locked(bucket(task))).filter(is_of).map(WaitRecord::view).for_each(&mut see);
    chain(*locked(time_bucket(task))).find(is_of).map(WaitRecord::view).into_iter().for_each(see);
}

/// Does the task wait for a time? Then it goes on by itself.
pub(super) fn sleeps(task: u64) -> bool {
    let head = locked(&TIME_HEADS[task as usize % BUCKETS]);
    chain(*head).any(|wait| wait.task.load(Ordering::Relaxed) == task)
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
    (1..=WAITS.used()).map(|number| WAITS.get(number)).filter(move |record| {
        let is_old = record.since.load(Ordering::Relaxed) < before;
        record.id.load(Ordering::Relaxed) != 0 && is_old && record.is_unlimited_lock()
    })
}

/// Every wait of all tasks; not of one moment.
pub(super) fn each(mut see: impl FnMut(WaitView)) {
    for head in HEADS.iter().chain(&TIME_HEADS) {
        chain(*locked(head)).map(WaitRecord::view).for_each(&mut see);
    }
}

/// Every wait in the queue of this lock that keeps readers out.
pub(super) fn each_writer(lock: LockId, see: impl FnMut(WaitView)) {
    each_queued(lock, &[WRITERS], see);
}

/// Every wait for this lock, whether it has been granted or not.
pub(super) fn each_waiter(lock: LockId, see: impl FnMut(WaitView)) {
    each_queued(lock, &[OTHERS, WRITERS], see);
}

fn each_queued(lock: LockId, queues: &[usize], mut see: impl FnMut(WaitView)) {
    let Some(of) = lock.record() else { return };
    let heads = locked(&of.queues);
    for queue in queues {
        let mut at = heads[*queue];
        while at != 0 {
            let record = WAITS.get(at);
            see(record.view());
            at = load(&record.next_queued);
        }
    }
}
