//! What is known of a lock: which tasks took it, and where.
//!
//! A lock has a number of a record here, from the first time that a task with an identity has it or waits for it, until it is dropped. The number
//! moves with the lock, so another lock at the same address has another record, and a forgotten guard says nothing of it.
//!
//! # Holders
//!
//! A record has four places for holders (`place.rs`), and a map under a lock for more. A lock that has one holder at a time writes the first place,
//! without a locked operation. A lock that is shared takes a place by one compare-exchange, and its guard knows which ([`Held`]).
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | free | taken without a wait | taken | [`LockRecord::set`], [`LockRecord::add`] |
//! | free | granted to a waiter | unclaimed | [`LockRecord::grant`], [`LockRecord::add`] |
//! | unclaimed | the waiter's poll finds the grant | taken | [`LockRecord::set`], [`LockRecord::claim`] |
//! | taken, of an upgradable reader | its upgrade is granted | unclaimed, for itself alone | [`LockRecord::grant_upgrade`] |
//! | unclaimed, or taken | it is upgraded, or downgraded | taken | [`LockRecord::change`] |
//! | taken | another task uses the guard | taken, by that task, or by [`UNKNOWN`] | [`LockRecord::touch`] |
//! | any | released | free | [`LockRecord::clear`], [`LockRecord::remove`] |
//!
//! A holder without an identity has a place only where it cannot be without one: as the one holder of a lock, and where it uses or claims what has a place. It is
//! then [`UNKNOWN`], which is no task. All others are counted. With the feature `critical-section` the holders beyond the
//! places are counted, too: a list allocates, and a release may run in an interrupt handler.
//!
//! # How long it is held, and waited for
//!
//! Two looks at the clock for every hold would cost more than the lock. So one hold in 64 of each place is timed, the first included. Holders beyond the places are not timed. Of the
//! waits one in [`TIMED_WAITS`] is, the first included, and all that the watcher has found to be older than 0.1 s: it looks twice a second.
//!
//! # Figures of the waits
//! `enqueued` and `longest_queue` are written under the lock of the queue, by [`LockRecord::enqueued`]; so they need no read-modify-write, and the number that a wait gets is its order in the queue.
//! `left` is written by the task that has the lock for itself alone, `left_apart` by all others.
//!
//! # Invariants
//! 1. A place is written by the holder, or by the releaser that grants, before the lock can be had by another. Nothing that a primitive does depends on it.
//! 2. The record of a lock that is dropped has another generation before it is used again: a look that has found holders and then the same generation has found holders of that lock.

use super::durations::{CLASSES, Durations};
use super::place::{Hold, Look, NewHold, Place, UNUSED};
use super::pool::{Pool, Record, first};
use super::snapshot::LockLabel;
use super::stamp::Generation;
use super::{LockKind, locked, nanoseconds};
use crate::probe::LockMode;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// How many holders a record has without an allocation.
const PLACES: usize = 4;
/// Nothing may be allocated where a lock is released.
const IS_BOUNDED: bool = cfg!(feature = "critical-section");
/// The task of a holder that has no identity.
const UNKNOWN: u64 = u64::MAX;

/// What a place says of a task; 0 is code without an identity.
fn known(task: u64) -> u64 {
    if task == 0 { UNKNOWN } else { task }
}

/// One wait in so many is timed: two looks at the clock take as long as a short wait. A power of two.
const TIMED_WAITS: u32 = 64;

/// How a lock is held, as it is stored.
const HELD_AS: [LockMode; 4] = [LockMode::Exclusive, LockMode::Read, LockMode::Upgradable, LockMode::Permits];

#[inline]
const fn stored(mode: LockMode) -> u32 {
    match mode {
        // An upgrade that was granted is held for itself alone.
        LockMode::Exclusive | LockMode::Upgrade => 0,
        LockMode::Read => 1,
        LockMode::Upgradable => 2,
        LockMode::Permits => 3,
    }
}

/// Which place of a record a guard has: 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the guard must keep it"]
pub(crate) struct Held(u32);

impl Held {
    pub(crate) const NONE: Self = Self(0);
    /// That of the one holder.
    pub(crate) const FIRST: Self = Self(1);
    /// Held by code without an identity.
    const UNKNOWN: Self = Self(u32::MAX);

    pub(super) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// A holder of a lock, as a look sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) held: Held,
    pub(super) task: u64,
    pub(super) mode: LockMode,
    /// The wait that was granted, or 0.
    pub(super) wait: u64,
    pub(super) turn: u32,
    pub(super) is_claimed: bool,
    pub(super) at: Option<&'static Location<'static>>,
}

impl Holder {
    fn new(held: Held, hold: Hold) -> Self {
        let Hold { task, at, mode, wait, turn, is_claimed } = hold;
        Self { held, task, mode: HELD_AS[mode as usize], wait, turn, is_claimed, at }
    }
}

#[expect(clippy::declare_interior_mutable_const, reason = "each use is another place")]
const NEW_PLACE: Place = Place {
    state: AtomicU64::new(UNUSED),
    task: AtomicU64::new(0),
    at: AtomicPtr::new(core::ptr::null_mut()),
    wait: AtomicU64::new(0),
    since: AtomicU64::new(0),
};

#[cold]
fn begin_timed(place: &Place) {
    // Relaxed: only the holder looks at it.
    place.since.store(nanoseconds().max(1), Ordering::Relaxed);
}

const NO_LABEL: LockLabel = LockLabel { kind: LockKind::Mutex, name: None, made_at: None };

/// The class of a time in a histogram.
fn class(nanoseconds: u64) -> usize {
    let class = (nanoseconds / 1_000).checked_ilog2().map_or(0, |log| log as usize + 1);
    class.min(CLASSES - 1)
}

/// What is known of a lock.
pub(crate) struct LockRecord {
    next_free: AtomicU32,
    /// Its number in the pool; 0 before its first use, and in [`NO_LOCK`].
    number: AtomicU32,
    pub(super) generation: Generation,
    label: Mutex<LockLabel>,
    places: [Place; PLACES],
    /// How many holders are beyond the places, and which.
    beyond: AtomicU32,
    more: Mutex<BTreeMap<u32, Holder>>,
    /// How many holders have no place, and are not known.
    unknown: AtomicU32,
    /// The first of the waits that keep readers out ([`waits`](super::waits)).
    pub(super) writers: Mutex<u32>,
    /// How many permits were free when the queue was unlocked last, with waiters in it.
    free: AtomicU32,
    /// How many waits have begun and ended, and the most that there were at a time. See the header.
    enqueued: AtomicU32,
    left: AtomicU32,
    left_apart: AtomicU32,
    longest_queue: AtomicU32,
    /// How many of the timed waits took how long.
    waited: [AtomicU32; CLASSES],
    /// How many of the timed holds took how long.
    held: [AtomicU32; CLASSES],
}

impl Record for LockRecord {
    const NEW: Self = Self {
        next_free: AtomicU32::new(0),
        number: AtomicU32::new(0),
        generation: Generation(AtomicU32::new(0)),
        label: Mutex::new(NO_LABEL),
        places: [const { NEW_PLACE }; PLACES],
        beyond: AtomicU32::new(0),
        more: Mutex::new(BTreeMap::new()),
        unknown: AtomicU32::new(0),
        writers: Mutex::new(0),
        free: AtomicU32::new(0),
        enqueued: AtomicU32::new(0),
        left: AtomicU32::new(0),
        left_apart: AtomicU32::new(0),
        longest_queue: AtomicU32::new(0),
        waited: [const { AtomicU32::new(0) }; CLASSES],
        held: [const { AtomicU32::new(0) }; CLASSES],
    };

    fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

static LOCKS: Pool<LockRecord, { first(1024) }> = Pool::new();

/// The record of all locks for which there was no other. They write into its first place, as into any other; no look reads it.
static NO_LOCK: LockRecord = LockRecord::NEW;

/// A lock that a wait is for: its record, and which use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LockId(u64);

impl LockId {
    pub(crate) const NONE: Self = Self(0);

    pub(super) fn number(self) -> u64 {
        self.0
    }

    pub(super) fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Which use of the record it is.
    pub(super) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Is the record, which was read, still of this lock?
    pub(super) fn is_current(self) -> bool {
        self.record().is_some_and(|record| record.generation.is_still(self.generation()))
    }

    /// The record, if it still is of this lock.
    #[inline]
    pub(super) fn record(self) -> Option<&'static LockRecord> {
        let record = if self == Self::NONE { None } else { Some(LOCKS.get(self.0 as u32)) };
        record.filter(|record| record.generation.get() == self.generation())
    }
}

/// A record for a lock that has none; [`NO_LOCK`] if there is no record left.
#[cold]
pub(crate) fn register(
    kind: LockKind,
    name: Option<&'static str>,
    made_at: &'static Location<'static>,
) -> &'static LockRecord {
    let Some(number) = LOCKS.take() else { return &NO_LOCK };
    let record = LOCKS.get(number);
    // Relaxed: published with the record.
    record.number.store(number, Ordering::Relaxed);
    *locked(&record.label) = LockLabel { kind, name, made_at: Some(made_at) };
    record
}

/// The lock is gone, or another thread gave it a record first.
#[cold]
pub(crate) fn unregister(record: &'static LockRecord) {
    if record.is_of_none() {
        return;
    }
    record.generation.next();
    record.places.iter().for_each(Place::reset);
    if !IS_BOUNDED {
        locked(&record.more).clear();
    }
    // Relaxed: no other thread has the lock.
    record.unknown.store(0, Ordering::Relaxed);
    *locked(&record.writers) = 0;
    // Relaxed: as above.
    let counts = [&record.beyond, &record.free, &record.enqueued, &record.left, &record.left_apart];
    let counts = counts.into_iter().chain([&record.longest_queue]);
    let figures = counts.chain(&record.waited).chain(&record.held);
    figures.for_each(|figure| figure.store(0, Ordering::Relaxed));
    *locked(&record.label) = NO_LABEL;
    LOCKS.put(record.number.load(Ordering::Relaxed));
}

/// Every lock that has a record.
pub(super) fn each(mut see: impl FnMut(LockId, &'static LockRecord)) {
    for number in 1..=LOCKS.used() {
        let record = LOCKS.get(number);
        if record.label() != NO_LABEL {
            see(record.id(), record);
        }
    }
}

#[inline(always)]
fn fill(place: &Place, task: u64, mode: LockMode, at: &'static Location<'static>) {
    if place.fill(NewHold { task: known(task), at, mode: stored(mode) }) {
        begin_timed(place);
    }
}

fn fill_granted(place: &Place, task: u64, mode: LockMode, at: &'static Location<'static>, wait: u64) {
    if place.grant(NewHold { task: known(task), at, mode: stored(mode) }, wait) {
        begin_timed(place);
    }
}

impl LockRecord {
    #[inline(always)]
    pub(crate) fn is_of_none(&self) -> bool {
        core::ptr::eq(self, &raw const NO_LOCK)
    }

    /// Which lock the record is of now.
    #[inline]
    pub(crate) fn id(&self) -> LockId {
        // Relaxed: the caller has the lock.
        let (number, generation) = (self.number.load(Ordering::Relaxed), self.generation.get());
        LockId(u64::from(generation) << 32 | u64::from(number))
    }

    /// The one holder: taken, or claimed, by this task; 0 is code without an identity.
    #[inline(always)]
    pub(crate) fn set(&self, task: u64, at: &'static Location<'static>) {
        fill(&self.places[0], task, LockMode::Exclusive, at);
    }

    /// The one holder: a waiter, whose future has not been polled since.
    pub(crate) fn grant(&self, task: u64, at: &'static Location<'static>, wait: u64) {
        fill_granted(&self.places[0], task, LockMode::Exclusive, at, wait);
    }

    /// The one holder releases the lock.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.free(&self.places[0]);
    }

    #[inline]
    fn free(&self, place: &Place) {
        if let Some(since) = place.free() {
            self.held_since(since);
        }
    }

    #[cold]
    fn held_since(&self, since: u64) {
        // Relaxed: a number to look at.
        self.held[class(nanoseconds().saturating_sub(since))].fetch_add(1, Ordering::Relaxed);
    }

    /// One of several holders; `wait` is what was granted and not claimed, or 0.
    pub(crate) fn add(&self, task: u64, mode: LockMode, at: &'static Location<'static>, wait: u64) -> Held {
        if task == 0 {
            return self.add_unknown();
        }
        for (number, place) in self.places.iter().enumerate() {
            if place.try_take() {
                if wait == 0 {
                    fill(place, task, mode, at);
                } else {
                    fill_granted(place, task, mode, at, wait);
                }
                return Held(number as u32 + 1);
            }
        }
        self.add_more(task, mode, at, wait)
    }

    /// One of several holders, which is not known.
    pub(crate) fn add_unknown(&self) -> Held {
        // Relaxed: a number to look at.
        self.unknown.fetch_add(1, Ordering::Relaxed);
        Held::UNKNOWN
    }

    #[cold]
    fn add_more(&self, task: u64, mode: LockMode, at: &'static Location<'static>, wait: u64) -> Held {
        if IS_BOUNDED {
            return self.add_unknown();
        }
        let mut more = locked(&self.more);
        let first = PLACES as u32 + 1;
        let last = more.last_key_value();
        let held = Held(last.map_or(first, |(last, _)| last.wrapping_add(1).clamp(first, u32::MAX - 1)));
        more.insert(held.0, Holder { held, task, mode, wait, turn: 0, is_claimed: wait == 0, at: Some(at) });
        // Relaxed: written under the lock.
        self.beyond.store(more.len() as u32, Ordering::Relaxed);
        held
    }

    /// The waiter that was granted this place has been polled.
    pub(crate) fn claim(&self, held: Held, task: u64, mode: LockMode, at: &'static Location<'static>) {
        match self.place(held) {
            Ok(Some(place)) => fill(place, task, mode, at),
            Ok(None) => {}
            Err(()) => self.change_more(held, |holder| {
                *holder = Holder {
                    task: known(task),
                    mode,
                    is_claimed: true,
                    turn: holder.turn.wrapping_add(1),
                    at: Some(at),
                    ..*holder
                };
            }),
        }
    }

    /// The holder goes on in another way.
    pub(crate) fn change(&self, held: Held, mode: LockMode) {
        match self.place(held) {
            Ok(Some(place)) => place.change(stored(mode)),
            Ok(None) => {}
            Err(()) => self.change_more(held, |holder| (holder.mode, holder.is_claimed) = (mode, true)),
        }
    }

    /// An upgrade has been granted to the holder of this place, and its future has not been polled since.
    pub(crate) fn grant_upgrade(&self, held: Held, wait: u64) {
        match self.place(held) {
            Ok(Some(place)) => place.grant_upgrade(stored(LockMode::Exclusive), wait),
            Ok(None) => {}
            Err(()) => self.change_more(held, |holder| {
                (holder.wait, holder.mode, holder.is_claimed) = (wait, LockMode::Exclusive, false);
            }),
        }
    }

    /// So many permits are free, with waiters in the queue. Called with the queue locked.
    pub(crate) fn set_free_permits(&self, permits: u32) {
        // Relaxed: a number to look at.
        self.free.store(permits, Ordering::Relaxed);
    }

    pub(super) fn free_permits(&self) -> u32 {
        // Relaxed: as above.
        self.free.load(Ordering::Relaxed)
    }

    /// Is it known already that this task has the place? False is inconclusive.
    #[inline(always)]
    pub(crate) fn is_held_by(&self, held: Held, task: u64) -> bool {
        self.places.get((held.0 as usize).wrapping_sub(1)).is_some_and(|place| place.is_of(task))
    }

    /// The task that runs uses the guard: it is the holder, though another may have taken the lock.
    #[cold]
    pub(crate) fn touch(&self, held: Held, task: u64) {
        let task = known(task);
        match self.place(held) {
            Ok(Some(place)) => place.touch(task),
            Ok(None) => {}
            Err(()) => self.change_more(held, |holder| {
                holder.turn = holder.turn.wrapping_add(u32::from(holder.task != task));
                holder.task = task;
            }),
        }
    }

    /// One of several holders releases the lock.
    pub(crate) fn remove(&self, held: Held) {
        if held == Held::UNKNOWN {
            // Relaxed: a number to look at.
            self.unknown.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        match self.place(held) {
            Ok(Some(place)) => self.free(place),
            Ok(None) => {}
            Err(()) => {
                let mut more = locked(&self.more);
                more.remove(&held.0);
                // Relaxed: written under the lock.
                self.beyond.store(more.len() as u32, Ordering::Relaxed);
            }
        }
    }

    /// The place of a holder; `Err` if it is among the others.
    fn place(&self, held: Held) -> Result<Option<&Place>, ()> {
        match held {
            Held::NONE | Held::UNKNOWN => Ok(None),
            Held(number) => self.places.get(number as usize - 1).map(Some).ok_or(()),
        }
    }

    fn change_more(&self, held: Held, change: impl FnOnce(&mut Holder)) {
        locked(&self.more).get_mut(&held.0).map(change);
    }

    /// Every holder that has an identity; and how many more there are, as far as they were counted. `see` must not lock a record.
    pub(super) fn each_holder(&self, mut see: impl FnMut(Holder)) -> usize {
        // Relaxed: a number to look at.
        let mut unknown = self.unknown.load(Ordering::Relaxed) as usize;
        for (number, place) in self.places.iter().enumerate() {
            match place.look() {
                Look::Free => {}
                Look::Held(hold) if hold.task != UNKNOWN => see(Holder::new(Held(number as u32 + 1), hold)),
                Look::Held(_) | Look::Changing => unknown += 1,
            }
        }
        // Relaxed: a hint. A holder that comes meanwhile is as one that comes after the look; and the one that asks for itself is there.
        if !IS_BOUNDED && self.beyond.load(Ordering::Relaxed) != 0 {
            let more = locked(&self.more);
            more.values().copied().filter(|holder| holder.task != UNKNOWN).for_each(see);
            unknown += more.values().filter(|holder| holder.task == UNKNOWN).count();
        }
        unknown
    }

    /// Is a task known to hold it? Where it took it. For the task itself.
    #[inline]
    pub(crate) fn held_by(&self, task: u64) -> Option<&'static Location<'static>> {
        // Relaxed: what the task holds it has written itself.
        let may_hold =
            self.places.iter().any(|place| place.is_of(task)) || self.beyond.load(Ordering::Relaxed) != 0;
        if may_hold { self.find_holder(task) } else { None }
    }

    #[cold]
    fn find_holder(&self, task: u64) -> Option<&'static Location<'static>> {
        let mut found = None;
        self.each_holder(|holder| {
            if holder.task == task && holder.is_claimed {
                found = found.or(holder.at);
            }
        });
        found
    }

    /// A holder that is known, and where it took the lock.
    pub(crate) fn first_holder(&self) -> Option<(u64, &'static Location<'static>)> {
        let mut found = None;
        self.each_holder(|holder| found = found.or(holder.at.map(|at| (holder.task, at))));
        found
    }

    /// Is the next wait to be timed?
    pub(super) fn times_wait(&self) -> bool {
        // Relaxed: a number that others change meanwhile.
        self.enqueued.load(Ordering::Relaxed) % TIMED_WAITS == 0
    }

    /// A wait begins. Called with the queue locked. How many have begun: its order in the queue.
    #[inline]
    pub(super) fn enqueued(&self) -> u32 {
        // Relaxed, and no read-modify-write: see the header.
        let order = self.enqueued.load(Ordering::Relaxed).wrapping_add(1);
        self.enqueued.store(order, Ordering::Relaxed);
        let queued = order.wrapping_sub(self.contentions());
        if queued > self.longest_queue.load(Ordering::Relaxed) {
            self.longest_queue.store(queued, Ordering::Relaxed);
        }
        order
    }

    /// A wait of this task ends. `is_alone`: it has what only one can have. All figures are Relaxed: numbers to look at.
    #[inline]
    pub(super) fn left(&self, task: u64, is_alone: bool) {
        if is_alone && self.places[0].is_of(task) {
            self.left.store(self.left.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        } else {
            self.left_apart.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A wait that was timed, or old, took so long.
    pub(super) fn waited(&self, nanoseconds: u64) {
        self.waited[class(nanoseconds)].fetch_add(1, Ordering::Relaxed);
    }

    /// How many waits have ended.
    pub(super) fn contentions(&self) -> u32 {
        self.left.load(Ordering::Relaxed).wrapping_add(self.left_apart.load(Ordering::Relaxed))
    }

    /// How many of the timed waits, and of the timed holds, took how long.
    pub(super) fn histograms(&self) -> [Durations; 2] {
        let look = |counts: &[AtomicU32; CLASSES]| {
            Durations(counts.each_ref().map(|count| count.load(Ordering::Relaxed)))
        };
        [&self.waited, &self.held].map(look)
    }

    pub(super) fn longest_queue(&self) -> usize {
        self.longest_queue.load(Ordering::Relaxed) as usize
    }

    pub(super) fn label(&self) -> LockLabel {
        *locked(&self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_is_in_its_class() {
        for nanos in [0, 999, 1_000, 1_999, 2_000, 4_095_999, 4_096_000, 8_000_000_000, u64::MAX] {
            let mut counts = [0; CLASSES];
            counts[class(nanos)] = 1;
            let time = Duration::from_nanos(nanos);
            let found = Durations(counts).classes().any(|(times, count)| count == 1 && times.contains(&time));
            assert!(found, "{time:?}");
        }
    }
}
