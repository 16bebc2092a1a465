//! What is known of a lock: which tasks took it, and where.
//!
//! A lock has a number of a record here, from the first time that a task with an identity has it or waits for it, until it is dropped. The number
//! moves with the lock, so another lock at the same address has another record, and a forgotten guard says nothing of it.
//!
//! # Holders
//!
//! A record has four places for holders, and a map under a lock for more. A lock that has one holder at a time writes the first place,
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
//! then [`UNKNOWN`], which is no task, and not 0, which is a free place: two guards would share it. All others are counted. With the feature `critical-section` the holders beyond the
//! places are counted, too: a list allocates, and a release may run in an interrupt handler.
//!
//! # How long it is held
//!
//! Two looks at the clock for every hold would cost more than the lock. So one hold in [`TIMED`] of each place is timed, the first included: `turn` counts them, and
//! `since` is not 0 while a timed hold goes on. Holders beyond the places are not timed.
//!
//! # Invariants
//! 1. A place is written by the holder, or by the releaser that grants, before the lock can be had by another. Nothing that a primitive does depends on it.
//! 2. `turn` of a place changes whenever its holder does: a look that finds the same turn twice has found the same holder.
//! 3. `wait` of a place is the wait that was granted; it stays until the place is free, so that the wait is not taken for one that goes on.
//!
//! # Orderings
//! `task`: Release in [`Place::fill`] pairs with Acquire in [`Place::view`], for the other fields of the same place. They may still be of two holders, if one
//! comes after the other during a look: a report is made of what stayed the same in two looks, a second apart.

use super::durations::{CLASSES, Durations};
use super::pool::{Pool, Record, first};
use super::snapshot::LockLabel;
use super::waits::QUEUES;
use super::{AtomicStatic, LockKind, locked, nanoseconds};
use crate::probe::LockMode;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

/// One hold in so many is timed: the clock takes about as long as a lock and an unlock. A power of two.
const TIMED: u32 = 64;

/// How a lock is held, as it is stored.
const HELD_AS: [LockMode; 4] = [LockMode::Exclusive, LockMode::Read, LockMode::Upgradable, LockMode::Permits];

fn stored(mode: LockMode) -> u32 {
    // An upgrade that was granted is held for itself alone.
    HELD_AS.iter().position(|held| *held == mode).unwrap_or(0) as u32
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

/// A place for a holder; free while `task` is 0.
struct Place {
    task: AtomicU64,
    at: AtomicStatic<Location<'static>>,
    wait: AtomicU64,
    mode: AtomicU32,
    claimed: AtomicU32,
    turn: AtomicU32,
    /// When a timed hold began, in nanoseconds of the process and never 0; 0 if this one is not timed.
    since: AtomicU64,
}

impl Place {
    #[expect(clippy::declare_interior_mutable_const, reason = "each use is another place")]
    const NEW: Self = Self {
        task: AtomicU64::new(0),
        at: AtomicStatic::new(),
        wait: AtomicU64::new(0),
        mode: AtomicU32::new(0),
        claimed: AtomicU32::new(0),
        turn: AtomicU32::new(0),
        since: AtomicU64::new(0),
    };

    /// Another holder, or the same one anew. All Relaxed, and not one operation: invariant 1.
    #[inline(always)]
    fn fill(&self, task: u64, mode: LockMode, at: &'static Location<'static>) {
        self.at.set(at);
        self.mode.store(stored(mode), Ordering::Relaxed);
        self.claimed.store(1, Ordering::Relaxed);
        let turn = self.turn.load(Ordering::Relaxed).wrapping_add(1);
        self.turn.store(turn, Ordering::Relaxed);
        if turn % TIMED == 1 {
            self.begin_timed();
        }
        // Release: pairs with Acquire in `view`.
        self.task.store(known(task), Ordering::Release);
    }

    #[cold]
    fn begin_timed(&self) {
        self.since.store(nanoseconds().max(1), Ordering::Relaxed);
    }

    /// It has been granted, and its future has not been polled since.
    fn fill_granted(&self, task: u64, mode: LockMode, at: &'static Location<'static>, wait: u64) {
        self.wait.store(wait, Ordering::Relaxed);
        self.fill(task, mode, at);
        self.claimed.store(0, Ordering::Relaxed);
    }

    /// The holder releases the lock; how long it held it, if that was timed.
    #[must_use]
    #[inline(always)]
    fn free(&self) -> Option<u64> {
        self.wait.store(0, Ordering::Relaxed);
        let since = self.since.load(Ordering::Relaxed);
        if since != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
        // Release: pairs with Acquire in `LockRecord::add`: the next holder writes after what was written for this one.
        self.task.store(0, Ordering::Release);
        (since != 0).then(|| nanoseconds().saturating_sub(since))
    }

    /// The place is another lock's from now on, whose first hold is timed.
    fn reset(&self) {
        let _ = self.free();
        self.at.clear();
        self.turn.store((self.turn.load(Ordering::Relaxed) | (TIMED - 1)).wrapping_add(1), Ordering::Relaxed);
    }

    fn view(&self, held: Held) -> Option<Holder> {
        // Acquire: pairs with Release in `fill`.
        let task = self.task.load(Ordering::Acquire);
        (task != 0 && task != UNKNOWN).then(|| Holder {
            held,
            task,
            mode: HELD_AS[self.mode.load(Ordering::Relaxed) as usize],
            wait: self.wait.load(Ordering::Relaxed),
            turn: self.turn.load(Ordering::Relaxed),
            is_claimed: self.claimed.load(Ordering::Relaxed) == 1,
            at: self.at.get(),
        })
    }
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
    /// Changes when the record is another lock's.
    generation: AtomicU32,
    label: Mutex<LockLabel>,
    places: [Place; PLACES],
    /// Holders beyond the places.
    more: Mutex<BTreeMap<u32, Holder>>,
    /// How many holders have no place, and are not known.
    unknown: AtomicU32,
    /// The first of the waits for it, in two lists ([`waits`](super::waits)).
    pub(super) queues: Mutex<[u32; QUEUES]>,
    /// How many permits were free when the queue was unlocked last, with waiters in it.
    free: AtomicU32,
    /// How many wait, and the most that have at a time.
    queued: AtomicU32,
    longest_queue: AtomicU32,
    /// How many waits took how long.
    waited: [AtomicU32; CLASSES],
    /// How many of the timed holds took how long.
    held: [AtomicU32; CLASSES],
}

impl Record for LockRecord {
    const NEW: Self = Self {
        next_free: AtomicU32::new(0),
        number: AtomicU32::new(0),
        generation: AtomicU32::new(0),
        label: Mutex::new(NO_LABEL),
        places: [const { Place::NEW }; PLACES],
        more: Mutex::new(BTreeMap::new()),
        unknown: AtomicU32::new(0),
        queues: Mutex::new([0; QUEUES]),
        free: AtomicU32::new(0),
        queued: AtomicU32::new(0),
        longest_queue: AtomicU32::new(0),
        waited: [const { AtomicU32::new(0) }; CLASSES],
        held: [const { AtomicU32::new(0) }; CLASSES],
    };

    fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

static LOCKS: Pool<LockRecord, { first(1024) }> = Pool::new();

/// The record of all locks for which there was no other: never written.
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

    /// The record, if it still is of this lock.
    pub(super) fn record(self) -> Option<&'static LockRecord> {
        let record = if self == Self::NONE { None } else { Some(LOCKS.get(self.0 as u32)) };
        // Relaxed: a record that is another lock's by now is found out by the second look.
        record.filter(|record| record.generation.load(Ordering::Relaxed) == (self.0 >> 32) as u32)
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
    // Relaxed: see `LockId::record`.
    record.generation.store(record.generation.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    record.places.iter().for_each(Place::reset);
    if !IS_BOUNDED {
        locked(&record.more).clear();
    }
    // Relaxed: no other thread has the lock.
    record.unknown.store(0, Ordering::Relaxed);
    *locked(&record.queues) = [0; QUEUES];
    // Relaxed: as above.
    let figures = [&record.free, &record.queued, &record.longest_queue]
        .into_iter()
        .chain(&record.waited)
        .chain(&record.held);
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

impl LockRecord {
    #[inline(always)]
    pub(crate) fn is_of_none(&self) -> bool {
        core::ptr::eq(self, &raw const NO_LOCK)
    }

    /// Which lock the record is of now.
    pub(crate) fn id(&self) -> LockId {
        // Relaxed: the caller has the lock.
        let (number, generation) =
            (self.number.load(Ordering::Relaxed), self.generation.load(Ordering::Relaxed));
        LockId(u64::from(generation) << 32 | u64::from(number))
    }

    /// The one holder: taken, or claimed, by this task; 0 is code without an identity.
    #[inline(always)]
    pub(crate) fn set(&self, task: u64, at: &'static Location<'static>) {
        self.places[0].fill(task, LockMode::Exclusive, at);
    }

    /// The one holder: a waiter, whose future has not been polled since.
    pub(crate) fn grant(&self, task: u64, at: &'static Location<'static>, wait: u64) {
        self.places[0].fill_granted(task, LockMode::Exclusive, at, wait);
    }

    /// The one holder releases the lock.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.free(&self.places[0]);
    }

    #[inline]
    fn free(&self, place: &Place) {
        if let Some(nanoseconds) = place.free() {
            self.held_for(nanoseconds);
        }
    }

    #[cold]
    fn held_for(&self, nanoseconds: u64) {
        // Relaxed: a number to look at.
        self.held[class(nanoseconds)].fetch_add(1, Ordering::Relaxed);
    }

    /// One of several holders; `wait` is what was granted and not claimed, or 0.
    pub(crate) fn add(&self, task: u64, mode: LockMode, at: &'static Location<'static>, wait: u64) -> Held {
        if task == 0 {
            return self.add_unknown();
        }
        for (number, place) in self.places.iter().enumerate() {
            // Relaxed: a look, which the exchange confirms.
            if place.task.load(Ordering::Relaxed) != 0 {
                continue;
            }
            // Acquire: pairs with Release in `Place::free`. Relaxed on failure: the next place is looked at.
            if place.task.compare_exchange(0, task, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                if wait == 0 {
                    place.fill(task, mode, at);
                } else {
                    place.fill_granted(task, mode, at, wait);
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
        held
    }

    /// The waiter that was granted this place has been polled.
    pub(crate) fn claim(&self, held: Held, task: u64, mode: LockMode, at: &'static Location<'static>) {
        match self.place(held) {
            Ok(Some(place)) => place.fill(task, mode, at),
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
            // Relaxed: written by the holder.
            Ok(Some(place)) => {
                place.mode.store(stored(mode), Ordering::Relaxed);
                place.claimed.store(1, Ordering::Relaxed);
            }
            Ok(None) => {}
            Err(()) => self.change_more(held, |holder| (holder.mode, holder.is_claimed) = (mode, true)),
        }
    }

    /// An upgrade has been granted to the holder of this place, and its future has not been polled since.
    pub(crate) fn grant_upgrade(&self, held: Held, wait: u64) {
        match self.place(held) {
            // Relaxed: written by the releaser that grants; the turn stays, for the holder does.
            Ok(Some(place)) => {
                place.wait.store(wait, Ordering::Relaxed);
                place.mode.store(stored(LockMode::Exclusive), Ordering::Relaxed);
                place.claimed.store(0, Ordering::Relaxed);
            }
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
        // Relaxed: the guard is used, so its place is written by no other.
        self.places
            .get((held.0 as usize).wrapping_sub(1))
            .is_some_and(|place| place.task.load(Ordering::Relaxed) == task)
    }

    /// The task that runs uses the guard: it is the holder, though another may have taken the lock.
    #[cold]
    pub(crate) fn touch(&self, held: Held, task: u64) {
        let task = known(task);
        match self.place(held) {
            Ok(Some(place)) => {
                // Relaxed: the guard is used, so its place is written by no other.
                if place.task.load(Ordering::Relaxed) != task {
                    place.turn.store(place.turn.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                    // A guard is there: the lock was claimed, perhaps by code without an identity and before there was a record.
                    place.claimed.store(1, Ordering::Relaxed);
                    // Release: pairs with Acquire in `Place::view`.
                    place.task.store(task, Ordering::Release);
                }
            }
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
            Err(()) => drop(locked(&self.more).remove(&held.0)),
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

    /// Every holder that has an identity. `see` must not lock a record.
    pub(super) fn each_holder(&self, mut see: impl FnMut(Holder)) {
        for (number, place) in self.places.iter().enumerate() {
            place.view(Held(number as u32 + 1)).into_iter().for_each(&mut see);
        }
        if !IS_BOUNDED {
            locked(&self.more).values().copied().filter(|holder| holder.task != UNKNOWN).for_each(see);
        }
    }

    /// Is a task known to hold it? Where and how it took it.
    pub(crate) fn held_by(&self, task: u64) -> Option<&'static Location<'static>> {
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

    /// How many holders are not known.
    pub(super) fn unknown(&self) -> usize {
        // Relaxed: numbers to look at.
        let is_unknown = |place: &&Place| place.task.load(Ordering::Relaxed) == UNKNOWN;
        let more = if IS_BOUNDED {
            0
        } else {
            locked(&self.more).values().filter(|holder| holder.task == UNKNOWN).count()
        };
        self.unknown.load(Ordering::Relaxed) as usize + self.places.iter().filter(is_unknown).count() + more
    }

    /// A wait begins. All figures are Relaxed: numbers to look at.
    pub(super) fn enqueued(&self) {
        let queued = self.queued.fetch_add(1, Ordering::Relaxed) + 1;
        if queued > self.longest_queue.load(Ordering::Relaxed) {
            self.longest_queue.fetch_max(queued, Ordering::Relaxed);
        }
    }

    /// A wait ends, after so long.
    pub(super) fn left(&self, nanoseconds: u64) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
        self.waited[class(nanoseconds)].fetch_add(1, Ordering::Relaxed);
    }

    /// How many waits, and how many timed holds, took how long.
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
