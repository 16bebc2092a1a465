//! The holders of a lock: which tasks have it, where they took it, and whether they know it.
//!
//! A record has four places for holders (`place.rs`), and a map under a lock for more. A lock that has one holder at a time writes the first place,
//! without a locked operation. A lock that is shared takes a place by one compare-exchange, and its guard knows which ([`Held`]).
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | free | taken without a wait | taken | [`Holders::set`], [`Holders::add`] |
//! | free | granted to a waiter | unclaimed | [`Holders::grant`], [`Holders::add`] |
//! | unclaimed | the waiter's poll finds the grant | taken | [`Holders::set`], [`Holders::claim`] |
//! | taken, of an upgradable reader | its upgrade is granted | unclaimed, for itself alone | [`Holders::grant_upgrade`] |
//! | unclaimed, or taken | it is upgraded, or downgraded | taken | [`Holders::change`] |
//! | taken | another task uses the guard | taken, by that task, or by [`UNKNOWN`] | [`Holders::touch`] |
//! | any | released | free | [`Holders::clear`], [`Holders::remove`] |
//!
//! A holder without an identity has a place only where it cannot be without one: as the one holder of a lock, and where it uses or claims what has a place. It is
//! then [`UNKNOWN`], which is no task. All others are counted. With the feature `critical-section` the holders beyond the
//! places are counted, too: a list allocates, and a release may run in an interrupt handler.
//!
//! Two looks at the clock for every hold would cost more than the lock. So one hold in 64 of each place is timed, the first included. Holders beyond the places are not timed.
//!
//! # Invariant
//! A place is written by the holder, or by the releaser that grants, before the lock can be had by another. Nothing that a primitive does depends on it.

use super::figures::Histogram;
use crate::inspect::durations::Durations;
use crate::inspect::place::{Hold, Look, NewHold, Place, UNUSED};
use crate::inspect::{locked, nanoseconds};
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

    pub(in crate::inspect) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// A holder of a lock, as a look sees it.
#[derive(Clone, Copy, Debug)]
pub(in crate::inspect) struct Holder {
    pub(in crate::inspect) held: Held,
    pub(in crate::inspect) task: u64,
    pub(in crate::inspect) mode: LockMode,
    /// The wait that was granted, or 0.
    pub(in crate::inspect) wait: u64,
    pub(in crate::inspect) turn: u32,
    pub(in crate::inspect) is_claimed: bool,
    pub(in crate::inspect) at: Option<&'static Location<'static>>,
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

pub(crate) struct Holders {
    places: [Place; PLACES],
    /// How many holders are beyond the places, and which.
    beyond: AtomicU32,
    more: Mutex<BTreeMap<u32, Holder>>,
    /// How many holders have no place, and are not known.
    unknown: AtomicU32,
    /// How many permits were free when the queue was unlocked last, with waiters in it.
    free: AtomicU32,
    /// How many of the timed holds took how long.
    held: Histogram,
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

impl Holders {
    #[expect(clippy::declare_interior_mutable_const, reason = "each use is another one")]
    pub(super) const NEW: Self = Self {
        places: [const { NEW_PLACE }; PLACES],
        beyond: AtomicU32::new(0),
        more: Mutex::new(BTreeMap::new()),
        unknown: AtomicU32::new(0),
        free: AtomicU32::new(0),
        held: Histogram::NEW,
    };

    /// The lock is gone: its record is another lock's from now on.
    pub(super) fn reset(&self) {
        self.places.iter().for_each(Place::reset);
        if !IS_BOUNDED {
            locked(&self.more).clear();
        }
        // Relaxed: no other thread has the lock.
        [&self.unknown, &self.beyond, &self.free]
            .into_iter()
            .for_each(|count| count.store(0, Ordering::Relaxed));
        self.held.reset();
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
        self.held.add(nanoseconds().saturating_sub(since));
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

    pub(in crate::inspect) fn free_permits(&self) -> u32 {
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
    pub(in crate::inspect) fn each(&self, mut see: impl FnMut(Holder)) -> usize {
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
        self.each(|holder| {
            if holder.task == task && holder.is_claimed {
                found = found.or(holder.at);
            }
        });
        found
    }

    /// A holder that is known, and where it took the lock.
    pub(crate) fn first(&self) -> Option<(u64, &'static Location<'static>)> {
        let mut found = None;
        self.each(|holder| found = found.or(holder.at.map(|at| (holder.task, at))));
        found
    }

    /// Is it known that this task has the lock for itself alone?
    #[inline]
    pub(in crate::inspect) fn is_first(&self, task: u64) -> bool {
        self.places[0].is_of(task)
    }

    /// How many of the timed holds took how long.
    pub(in crate::inspect) fn holds(&self) -> Durations {
        self.held.look()
    }
}
