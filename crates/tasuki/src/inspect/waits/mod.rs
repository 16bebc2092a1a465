//! The records of waits that have not ended: which task waits, for what, where, and since when.
//!
//! A wait of a task that is known, by an identity or by its waker, has a record from its first poll until its future has what it waited for, or is dropped. Mostly it is one of its thread, to which the number of the task leads (`tables.rs`): it is taken, published and freed by a
//! store each. If that record is in use, by another wait of the task or by a task whose number
//! leads to the same, the wait has one of a pool. Such a wait, and one whose future was polled by another task than the one that began it, is in a list by the number of its task; and of the waits for a lock that has readers those that keep readers out are in a list of the lock (`lists.rs`).
//! Whatever else is to be known of a lock's waits is found by a look at all (`looks.rs`).
//!
//! | event | fn |
//! |---|---|
//! | a poll is about to wait | [`prepare`]; [`discard`] if it need not after all |
//! | its waiter is enqueued | [`enqueued`], with the queue locked; then [`publish`] |
//! | its future is polled again | [`polled`] |
//! | its waiter is granted, moved to another queue, revoked | [`granted`], [`set_held`], [`moved`], [`revoked`], with the queue locked |
//! | its end has come, or that of its limit | `unpolled.rs` |
//! | the wait is over | [`end`] |
//!
//! # Invariants
//! 1. The fields of a record are written before it is published, by the thread that waits (`stamp.rs`). Later change, each by itself: `lock`, the `want` of `request`, `held`, `order` and, when a waiter is moved, what says of which lock it is, since
//!    when, and whether that is long ago, by the holder of the queue lock; `task`, by the future itself when another task polls it, while the record is in no bucket; whether `request` has a limit, by the future itself, and at the same time as its `want`; `is_linked` and the links, under the lock of their list; `is_old`, by the watcher; `over`, by the holder of the queue lock or by what gives a runtime's signal, and `limit`, by the future itself (`unpolled.rs`).
//! 2. A record is published exactly while the wait goes on, and no two waits have had the same id.
//! 3. The lists are changed and read under the locks of their bucket, that of a lock's writers under the lock of its record. A thread that holds the second
//!    never takes the first.
//!
//! # Orderings
//! The fields are Relaxed: they are ordered by the stamp, and for a releaser by the queue lock. A wait takes its record before it asks whether the watcher runs (`watch.rs`). In strict mode
//! a wait is published before the graph is looked at, with a `SeqCst` fence between the two (`check_cycle`): of two waits that close a cycle together, the later fence comes after what the other
//! task did before its own, so that one of the two looks sees the whole cycle.

mod lists;
mod looks;
mod tables;
mod unpolled;
pub(super) mod unrecorded;

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
    WaitView, each, each_candidate, each_of, each_waiter, each_writer, has_begun, has_candidate,
    is_published, sleeps,
};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(crate) use unpolled::{came, id_of, limited_by, refused, signal_came};

/// What a wait asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Nothing that comes: its grant was revoked, and it is in no queue until its future is polled again; or it is for a time or a cancel that never comes. No event makes its task go on.
    Nothing,
}

impl Want {
    const ALL: [Self; 8] = [
        Self::Signal,
        Self::Time,
        Self::Exclusive,
        Self::Read,
        Self::Upgradable,
        Self::Upgrade,
        Self::Permits,
        Self::Nothing,
    ];

    pub(crate) const fn of(mode: LockMode) -> Self {
        match mode {
            LockMode::Exclusive => Self::Exclusive,
            LockMode::Read => Self::Read,
            LockMode::Upgradable => Self::Upgradable,
            LockMode::Upgrade => Self::Upgrade,
            LockMode::Permits | LockMode::OwnedPermits => Self::Permits,
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

/// In two lines of a cache: what the releaser and the end of the wait read, and the rest.
#[repr(C, align(64))]
pub(crate) struct WaitRecord {
    stamp: Stamp,
    task: AtomicU64,
    at: AtomicStatic<Location<'static>>,
    /// The record of the lock whose figures it is in.
    counted: AtomicStatic<LockRecord>,
    origin: AtomicU64,
    request: AtomicU64,
    /// By the exact clock, if the wait is timed; or 0.
    timed_since: AtomicU64,
    order: AtomicU32,
    /// The watcher has seen that it is old: its time is to be counted, though it is not timed.
    is_old: AtomicBool,
    /// It is in the bucket of its task, with these neighbours.
    is_linked: AtomicBool,
    lock: AtomicU64,
    /// The slot of its holder: of an upgrade from the beginning, of the others from a grant on that several may have.
    held: AtomicStatic<HolderSlot>,
    name: AtomicStatic<&'static str>,
    /// By the cheap clock, of all waits, so that they can be compared.
    since: AtomicU64,
    prev: AtomicU32,
    next: AtomicU32,
    /// The neighbours in the list of writers.
    prev_writer: AtomicU32,
    next_writer: AtomicU32,
    next_free: AtomicU32,
    /// Which use of the record has come to its end, and which wait limits it: see `unpolled.rs`.
    over: AtomicU32,
    limit: AtomicU64,
}

/// In which process a wait began, and of which generation its lock was then: one word, so that it is one store.
#[derive(Clone, Copy)]
struct WaitOrigin(u64);

impl WaitOrigin {
    fn new(process: u32, lock: LockId) -> Self {
        Self(u64::from(lock.generation()) << 32 | u64::from(process))
    }

    fn process(self) -> u32 {
        self.0 as u32
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What a wait asks for: one word, so that it is one store.
#[derive(Clone, Copy)]
struct Request(u64);

impl Request {
    const WANT: u64 = 0xff;
    const LIMITED: u64 = 1 << 8;
    const LISTED: u64 = 1 << 9;

    fn new(wait: &NewWait) -> Self {
        let is_listed = wait.has_readers && wait.want.keeps_readers_out();
        let limited = if wait.is_limited { Self::LIMITED } else { 0 };
        let listed = if is_listed { Self::LISTED } else { 0 };
        Self(wait.want as u64 | limited | listed | u64::from(wait.permits) << 32)
    }

    fn want(self) -> Want {
        Want::ALL[(self.0 & Self::WANT) as usize]
    }

    fn is_exclusive(self) -> bool {
        self.0 & Self::WANT == Want::Exclusive as u64
    }

    fn with_want(self, want: Want) -> Self {
        Self(self.0 & !Self::WANT | want as u64)
    }

    fn is_limited(self) -> bool {
        self.0 & Self::LIMITED != 0
    }

    /// Is it in the list of the writers of its lock?
    fn is_listed(self) -> bool {
        self.0 & Self::LISTED != 0
    }

    fn permits(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl Record for WaitRecord {
    const NEW: Self = Self {
        stamp: Stamp(AtomicU64::new(0)),
        task: AtomicU64::new(0),
        at: AtomicStatic::new(),
        counted: AtomicStatic::new(),
        origin: AtomicU64::new(0),
        request: AtomicU64::new(0),
        timed_since: AtomicU64::new(0),
        order: AtomicU32::new(0),
        is_old: AtomicBool::new(false),
        is_linked: AtomicBool::new(false),
        lock: AtomicU64::new(0),
        held: AtomicStatic::new(),
        name: AtomicStatic::new(),
        since: AtomicU64::new(0),
        prev: AtomicU32::new(0),
        next: AtomicU32::new(0),
        prev_writer: AtomicU32::new(0),
        next_writer: AtomicU32::new(0),
        next_free: AtomicU32::new(0),
        over: AtomicU32::new(0),
        limit: AtomicU64::new(0),
    };

    fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

/// The records that are of no thread.
static POOL: Pool<WaitRecord, { first(4096) }> = Pool::new();
/// The number of a record of the pool has this bit. Those of the tables have not: they are few.
const OF_POOL: u32 = 1 << 31;

// All Relaxed from here on: see the header.
fn load(number: &AtomicU32) -> u32 {
    number.load(Ordering::Relaxed)
}

fn store(number: &AtomicU32, value: u32) {
    number.store(value, Ordering::Relaxed);
}

fn is_of_pool(number: u32) -> bool {
    number & OF_POOL != 0
}

#[inline]
fn get(number: u32) -> &'static WaitRecord {
    if is_of_pool(number) { POOL.get(number & !OF_POOL) } else { tables::get(number) }
}

#[cold]
fn take_of_pool() -> Option<(u32, &'static WaitRecord)> {
    let number = POOL.take()?;
    let record = POOL.get(number);
    let is_free = record.stamp.try_take();
    debug_assert!(is_free, "a record that is in use is not in the pool");
    Some((number | OF_POOL, record))
}

/// Writes a record down, not published yet. Its number; 0 if there is no record left.
#[inline]
pub(crate) fn prepare(wait: &NewWait) -> u32 {
    let task = wait.task.get();
    let Some((number, record)) = tables::take(task).or_else(take_of_pool) else {
        unrecorded::note(task);
        return 0;
    };
    let lock = wait.lock.map_or(LockId::NONE, LockRecord::id);
    let is_timed = wait.lock.is_some_and(|lock| lock.figures.times_wait());
    record.task.store(task, Ordering::Relaxed);
    record.at.replace(wait.at);
    record.counted.replace(wait.lock);
    record.origin.store(WaitOrigin::new(process_id::id(), lock).0, Ordering::Relaxed);
    record.request.store(Request::new(wait).0, Ordering::Relaxed);
    record.timed_since.store(if is_timed { nanoseconds() } else { 0 }, Ordering::Relaxed);
    store(&record.order, 0);
    record.is_old.store(false, Ordering::Relaxed);
    record.lock.store(lock.number(), Ordering::Relaxed);
    record.held.replace(wait.own.slot());
    record.name.set(wait.name);
    record.since.store(coarse_nanoseconds(), Ordering::Relaxed);
    if wait.is_limited {
        record.limit.store(0, Ordering::Relaxed);
    }
    number
}

/// The wait has not begun after all.
pub(crate) fn discard(number: u32) {
    free(number, get(number));
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
    let request = record.request();
    if request.is_listed() {
        list(number, record);
    }
    if is_of_pool(number) {
        link(number, record);
    }
    record.stamp.publish();
    record.is_unlimited_lock()
}

/// The wait is over: granted and claimed, or cancelled.
#[inline]
pub(crate) fn end(number: u32) {
    let record = get(number);
    let request = record.request();
    if let Some(lock) = record.counted() {
        let since = record.timed_since.load(Ordering::Relaxed);
        if since != 0 || record.is_old.load(Ordering::Relaxed) {
            record.count_time(lock, since);
        }
        lock.figures
            .ended(request.is_exclusive() && lock.holders.is_first(record.task.load(Ordering::Relaxed)));
    }
    if request.is_listed() || record.is_linked.load(Ordering::Relaxed) || is_of_pool(number) {
        end_slow(number, record, request);
    } else {
        record.stamp.free();
    }
}

#[cold]
fn end_slow(number: u32, record: &WaitRecord, request: Request) {
    if request.is_listed() {
        unlist(number, record);
    }
    if record.is_linked.load(Ordering::Relaxed) {
        unlink(record);
    }
    free(number, record);
}

fn free(number: u32, record: &WaitRecord) {
    record.stamp.free();
    if is_of_pool(number) {
        POOL.put(number & !OF_POOL);
    }
}

impl WaitRecord {
    /// The lock that it was enqueued for, or moved to; unless that has been dropped.
    #[inline]
    fn counted(&self) -> Option<&'static LockRecord> {
        self.counted.get().filter(|lock| lock.generation.get() == self.origin().generation())
    }

    #[cold]
    fn count_time(&self, lock: &LockRecord, timed_since: u64) {
        let since = if timed_since == 0 { self.since.load(Ordering::Relaxed) } else { timed_since };
        lock.figures.waited(nanoseconds().saturating_sub(since));
    }

    fn origin(&self) -> WaitOrigin {
        WaitOrigin(self.origin.load(Ordering::Relaxed))
    }

    fn request(&self) -> Request {
        Request(self.request.load(Ordering::Relaxed))
    }

    /// By one operation, as in [`set_limited`](Self::set_limited).
    fn set_want(&self, want: Want) {
        let change = |request| Some(Request(request).with_want(want).0);
        let _ = self.request.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// Its future is polled inside of a limit from now on, or no longer; true if it then waits for a lock without one. By one operation each: what is wanted may be changed at the same time, by a condvar's mover, and neither change may undo the other.
    #[cold]
    fn set_limited(&self, is_limited: bool) -> bool {
        if is_limited {
            self.limit.store(0, Ordering::Relaxed);
            self.request.fetch_or(Request::LIMITED, Ordering::Relaxed);
        } else {
            self.request.fetch_and(!Request::LIMITED, Ordering::Relaxed);
        }
        self.is_unlimited_lock()
    }

    fn is_unlimited_lock(&self) -> bool {
        self.lock.load(Ordering::Relaxed) != 0 && !self.request().is_limited()
    }

    /// The same, also if it has a limit that has been reached.
    fn is_lock_to_stay(&self) -> bool {
        self.lock.load(Ordering::Relaxed) != 0 && !self.ends_by_limit()
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

/// The future of the wait has been polled by this task, 0 if that is not known, and waits on: it is that task's, though another may have enqueued it. And it is inside of a limit as that poll was: a future that is borrowed is polled by others, with
/// limits of their own. True if it has become a wait for a lock without a limit. Called by its own future.
#[inline]
pub(crate) fn polled(number: u32, task: u64, is_limited: bool) -> bool {
    let record = get(number);
    if !record.is_of(task) {
        adopt(number, record, task);
    }
    record.request().is_limited() != is_limited && record.set_limited(is_limited)
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

/// The waiter was moved to this lock: to be granted it at once, or to its queue, for which it has not waited before; or it came back there after its grant was revoked. Called with the queue locked.
pub(crate) fn moved(number: u32, lock: Option<&'static LockRecord>, is_queued: bool) {
    let record = get(number);
    let id = lock.map_or(LockId::NONE, LockRecord::id);
    if let (true, None, Some(lock)) = (is_queued, record.counted.get(), lock) {
        record.origin.store(WaitOrigin::new(record.origin().process(), id).0, Ordering::Relaxed);
        record.counted.set(lock);
        record.is_old.store(false, Ordering::Relaxed);
        record.since.store(coarse_nanoseconds(), Ordering::Relaxed);
        store(&record.order, lock.figures.enqueued());
    }
    record.set_want(Want::Exclusive);
    record.lock.store(id.number(), Ordering::Relaxed);
    record.comes_again();
}

/// The grant of the waiter was revoked: it is in no queue until it is polled again, and nothing that it is polled for is held from it. Called with the queue locked.
pub(crate) fn revoked(number: u32) {
    let record = get(number);
    record.lock.store(0, Ordering::Relaxed);
    record.set_want(Want::Nothing);
}
