//! The holders of a lock: which tasks have it, where they took it, and whether they have claimed what was granted to them.
//!
//! A holder that has the lock alone is in the slot of the record (`holder_slot.rs`), written without a locked operation. Of the others, readers and holders of permits, each is in a slot of the thread
//! that took or granted the lock (`thread_slots.rs`), and its guard knows which ([`Held`]); if that thread has no slot left, in one of a pool, which is in a list of the lock (`extra_slots.rs`).
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | free | taken without a wait | taken | [`Holders::set`], [`LockRecord::add_holder`] |
//! | free | granted to a waiter | unclaimed | [`Holders::grant`], [`LockRecord::add_holder`] |
//! | unclaimed | the waiter's poll finds the grant | taken | [`Holders::set`], [`Held::claim`] |
//! | taken, of an upgradable reader | its upgrade is granted | unclaimed, for itself alone | [`Held::grant_upgrade`] |
//! | unclaimed, or taken | it is upgraded, or downgraded | taken | [`Held::change`] |
//! | taken | another task uses the guard | taken, by that task, or by [`UNKNOWN`] | [`Holders::touch`], [`Held::touch`] |
//! | any | released | free | [`LockRecord::clear_holder`], [`LockRecord::remove_holder`] |
//!
//! A holder that is not known has a slot in two cases: as the holder of a lock that has one at a time (not as the writer of a lock with readers), and where it uses or claims what has a slot. It is
//! then [`UNKNOWN`], which is no task. All other holders that are not known are counted, and so are those for which there is memory for no more.
//!
//! Two looks at the clock for every hold would cost more than the lock. So the first hold of a lock is timed, and one in 64 of each slot; holders in slots of the pool are not.
//!
//! # Invariant
//! A slot is written by the holder, or by the releaser that grants, before the lock can be had by another. Nothing that a primitive does depends on it. A writer of a lock that has readers is alone: it has the slot of the record, and keeps it
//! as a reader after a downgrade; the next writer comes after it.

use super::extra_slots::{EXTRA, ExtraSlots};
use super::thread_slots::{self, NEW_SLOT};
use super::{LockId, LockRecord};
use crate::inspect::holder_slot::{HoldView, HolderSlot, Look, NewHold, UNKNOWN};
use crate::inspect::nanoseconds;
use crate::probe::LockMode;
use crate::task::TaskId;
use core::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What a slot says of a task; 0 is code that is not known.
fn known(task: u64) -> u64 {
    if task == 0 { UNKNOWN } else { task }
}

/// The guard of this holder is used by this task. Code that is not known leaves the lock to a task that is known by its waker: that is known only while a wait of ours is polled, and it uses its guards in between.
fn touch(slot: &HolderSlot, task: u64) {
    let is_guessed = || TaskId::from_number(slot.task()).is_some_and(TaskId::is_guessed);
    if task != 0 || !is_guessed() {
        slot.touch(known(task));
    }
}

/// How a lock is held, as it is stored.
const HELD_AS: [LockMode; 5] =
    [LockMode::Exclusive, LockMode::Read, LockMode::Upgradable, LockMode::Permits, LockMode::OwnedPermits];

#[inline]
const fn stored(mode: LockMode) -> u32 {
    match mode {
        // An upgrade that was granted is held for itself alone.
        LockMode::Exclusive | LockMode::Upgrade => 0,
        LockMode::Read => 1,
        LockMode::Upgradable => 2,
        LockMode::Permits => 3,
        LockMode::OwnedPermits => 4,
    }
}

/// The slot of all holders that are only counted. Never held, and its `since` says what it is.
static COUNTED: HolderSlot = HolderSlot { since: AtomicU64::new(EXTRA), ..NEW_SLOT };

/// The slot of a holder, as its guard knows.
#[derive(Clone, Copy)]
#[must_use = "the guard must keep it"]
pub(crate) struct Held(Option<&'static HolderSlot>);

impl Held {
    pub(crate) const NONE: Self = Self(None);
    /// Held by code that is not known, or without memory for a slot: counted.
    const COUNTED: Self = Self(Some(&COUNTED));

    /// As a wait keeps it.
    pub(in crate::inspect) fn slot(self) -> Option<&'static HolderSlot> {
        self.0
    }

    pub(in crate::inspect) fn of_slot(slot: Option<&'static HolderSlot>) -> Self {
        Self(slot)
    }

    /// Differs from that of every other holder.
    pub(in crate::inspect) fn address(self) -> usize {
        self.0.map_or(0, |slot| core::ptr::from_ref(slot).addr())
    }

    /// Is it known already that this is held by this task? False is inconclusive.
    #[inline(always)]
    pub(crate) fn is_by(self, task: u64) -> bool {
        self.0.is_none_or(|slot| slot.is_of(task))
    }

    /// The slot, if it is that of one holder.
    fn own(self) -> Option<&'static HolderSlot> {
        self.0.filter(|_| self != Self::COUNTED)
    }

    /// The waiter that was granted this has been polled.
    pub(crate) fn claim(self, task: u64, mode: LockMode, at: &'static Location<'static>) {
        self.own().into_iter().for_each(|slot| fill(slot, task, mode, at));
    }

    /// The holder goes on in another way.
    pub(crate) fn change(self, mode: LockMode) {
        self.own().into_iter().for_each(|slot| slot.change(stored(mode)));
    }

    /// An upgrade has been granted to this holder, and its future has not been polled since.
    pub(crate) fn grant_upgrade(self, wait: u64) {
        self.own().into_iter().for_each(|slot| slot.grant_upgrade(stored(LockMode::Exclusive), wait));
    }

    /// The task that runs uses the guard: it is the holder, though another may have taken the lock.
    #[cold]
    pub(crate) fn touch(self, task: u64) {
        self.own().into_iter().for_each(|slot| touch(slot, task));
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Held {}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.address()).finish()
    }
}

/// A holder of a lock, as a look sees it.
#[derive(Clone, Copy, Debug)]
pub(in crate::inspect) struct HolderView {
    pub(in crate::inspect) held: Held,
    pub(in crate::inspect) task: u64,
    pub(in crate::inspect) mode: LockMode,
    /// The wait that was granted, or 0.
    pub(in crate::inspect) wait: u64,
    pub(in crate::inspect) turn: u32,
    pub(in crate::inspect) is_claimed: bool,
    pub(in crate::inspect) at: Option<&'static Location<'static>>,
}

impl HolderView {
    fn new(held: Held, hold: HoldView) -> Self {
        let HoldView { task, at, mode, wait, turn, is_claimed, .. } = hold;
        Self { held, task, mode: HELD_AS[mode as usize], wait, turn, is_claimed, at }
    }
}

#[cold]
fn begin_timed(slot: &HolderSlot) {
    // Relaxed: only the holder looks at it.
    if slot.since.load(Ordering::Relaxed) & EXTRA == 0 {
        slot.since.store(nanoseconds().max(1), Ordering::Relaxed);
    }
}

#[repr(C)]
pub(crate) struct Holders {
    first: HolderSlot,
    /// A shared hold has been timed: the next first one is another lock's.
    was_timed: AtomicBool,
    /// Several may hold it.
    pub(super) is_shared: AtomicBool,
    extra: ExtraSlots,
    /// How many holders are noted nowhere, and are not known.
    unknown: AtomicU32,
    /// How many permits were free when the queue was unlocked last, with waiters in it.
    free: AtomicU32,
}

#[inline(always)]
fn fill(slot: &HolderSlot, task: u64, mode: LockMode, at: &'static Location<'static>) {
    if slot.fill(NewHold { task: known(task), at, mode: stored(mode) }) {
        begin_timed(slot);
    }
}

impl Holders {
    #[expect(clippy::declare_interior_mutable_const, reason = "each use is another one")]
    pub(super) const NEW: Self = Self {
        first: NEW_SLOT,
        was_timed: AtomicBool::new(false),
        is_shared: AtomicBool::new(false),
        extra: ExtraSlots::NEW,
        unknown: AtomicU32::new(0),
        free: AtomicU32::new(0),
    };

    /// The lock is gone: its record is another lock's from now on.
    pub(super) fn reset(&self) {
        self.first.reset();
        self.extra.reset();
        // Relaxed: no other thread has the lock.
        self.unknown.store(0, Ordering::Relaxed);
        self.free.store(0, Ordering::Relaxed);
        self.was_timed.store(false, Ordering::Relaxed);
    }

    /// The one holder: taken, or claimed, by this task; 0 is code that is not known.
    #[inline(always)]
    pub(crate) fn set(&self, task: u64, at: &'static Location<'static>) {
        fill(&self.first, task, LockMode::Exclusive, at);
    }

    /// The one holder: a waiter, whose future has not been polled since.
    #[inline(always)]
    pub(crate) fn grant(&self, task: u64, at: &'static Location<'static>, wait: u64) {
        if self.first.grant(NewHold { task: known(task), at, mode: stored(LockMode::Exclusive) }, wait) {
            begin_timed(&self.first);
        }
    }

    /// One of several holders that is not the only one; `wait` is what was granted and not claimed, or 0.
    #[inline(always)]
    fn add_shared(&self, lock: LockId, hold: NewHold, wait: u64) -> Held {
        let taken = thread_slots::take(|slot| {
            let is_timed = if wait == 0 {
                slot.try_fill(hold, lock.number())?
            } else {
                slot.try_grant(hold, lock.number(), wait)?
            };
            // Relaxed: two may be the first.
            if is_timed || !self.was_timed.load(Ordering::Relaxed) {
                self.was_timed.store(true, Ordering::Relaxed);
                begin_timed(slot);
            }
            Some(())
        });
        match taken {
            Some(slot) => Held(Some(slot)),
            None => self.add_extra(lock, hold, wait),
        }
    }

    #[cold]
    fn add_extra(&self, lock: LockId, hold: NewHold, wait: u64) -> Held {
        // Of a lock without a record: no look asks for it, and the pool is for those of others.
        if lock == LockId::NONE {
            return Held::NONE;
        }
        match self.extra.take() {
            Some(slot) => {
                let filled = if wait == 0 {
                    slot.try_fill(hold, lock.number())
                } else {
                    slot.try_grant(hold, lock.number(), wait)
                };
                debug_assert!(filled.is_some(), "a slot that is held is not in the pool");
                Held(Some(slot))
            }
            None => self.add_counted(),
        }
    }

    /// One of several holders, which is not known.
    #[cold]
    fn add_counted(&self) -> Held {
        // Relaxed: a number to look at.
        self.unknown.fetch_add(1, Ordering::Relaxed);
        Held::COUNTED
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

    /// Is it known already that this task has the lock for itself alone? False is inconclusive.
    #[inline(always)]
    pub(crate) fn is_first(&self, task: u64) -> bool {
        self.first.is_of(task)
    }

    /// The guard of the one holder is used by this task.
    #[cold]
    pub(crate) fn touch(&self, task: u64) {
        touch(&self.first, task);
    }
}

impl LockRecord {
    /// The one holder releases the lock.
    #[inline(always)]
    pub(crate) fn clear_holder(&self) {
        if self.holders.first.is_timed() {
            self.free_timed(&self.holders.first);
        } else {
            self.holders.first.free();
        }
    }

    #[cold]
    fn free_timed(&self, slot: &HolderSlot) {
        // Relaxed: only the holder looks at it.
        let since = slot.since.swap(0, Ordering::Relaxed);
        slot.free();
        self.figures.held(nanoseconds().saturating_sub(since));
    }

    /// One of several holders releases the lock, and is not simply freed.
    #[cold]
    fn remove_slow(&self, slot: &'static HolderSlot) {
        // Relaxed: only the holder looks at it.
        match slot.since.load(Ordering::Relaxed) {
            // Relaxed: a number to look at.
            EXTRA => _ = self.holders.unknown.fetch_sub(1, Ordering::Relaxed),
            number if number & EXTRA != 0 => self.holders.extra.put((number & !EXTRA) as u32),
            _ => self.free_timed(slot),
        }
    }

    /// One of several holders, or the one that has it for itself alone; `wait` is what was granted and not claimed, or 0.
    #[inline(always)]
    pub(crate) fn add_holder(
        &'static self,
        task: u64,
        mode: LockMode,
        at: &'static Location<'static>,
        wait: u64,
    ) -> Held {
        let holders = &self.holders;
        if task == 0 {
            return holders.add_counted();
        }
        if mode == LockMode::Exclusive {
            if wait == 0 {
                holders.set(task, at)
            } else {
                holders.grant(task, at, wait)
            }
            return Held(Some(&holders.first));
        }
        holders.add_shared(self.id(), NewHold { task, at, mode: stored(mode) }, wait)
    }

    /// Every holder that is known; and how many more there are, as far as they were counted. `see` must not lock a record.
    pub(in crate::inspect) fn each_holder(&'static self, mut see: impl FnMut(HolderView)) -> usize {
        let holders = &self.holders;
        // Relaxed: a number to look at.
        let mut unknown = holders.unknown.load(Ordering::Relaxed) as usize;
        let mut slot = |slot: &'static HolderSlot, look| match look {
            Look::Free => {}
            Look::Held(hold) if hold.task != UNKNOWN => see(HolderView::new(Held(Some(slot)), hold)),
            Look::Held(_) | Look::Changing => unknown += 1,
        };
        slot(&holders.first, holders.first.look());
        // Relaxed: written before the record was published.
        if holders.is_shared.load(Ordering::Relaxed) {
            thread_slots::each(self.id(), &mut slot);
            holders.extra.each(self.id().number(), &mut slot);
        }
        unknown
    }

    /// Is a task known to hold it? Where it took it. For the task itself.
    pub(crate) fn held_by(&'static self, task: u64) -> Option<&'static Location<'static>> {
        let mut found = None;
        self.each_holder(|holder| {
            if holder.task == task && holder.is_claimed {
                found = found.or(holder.at);
            }
        });
        found
    }

    /// A holder that is known, and where it took the lock.
    pub(crate) fn first_holder(&'static self) -> Option<(u64, &'static Location<'static>)> {
        let mut found = None;
        self.each_holder(|holder| found = found.or(holder.at.map(|at| (holder.task, at))));
        found
    }

    /// One of several holders releases the lock.
    #[inline(always)]
    pub(crate) fn remove_holder(record: impl FnOnce() -> Option<&'static Self>, held: Held) {
        let Some(slot) = held.0 else { return };
        if slot.is_timed() {
            record().into_iter().for_each(|record| record.remove_slow(slot));
        } else {
            slot.free();
        }
    }
}
