//! Further slots for holders of locks: a thread that notes more holders at a time than it has slots of its own (`thread_slots.rs`) takes them from a pool of the process.
//!
//! Called by `holders.rs`. Each slot is in a list of its lock, under a lock of that list: a program that has hundreds of permits or readers at a time finds those of a lock without a walk over all. While a list is locked a holder that comes or goes waits, and with it the queue of its lock: so a long list is not read, but all slots of the pool, without a lock. The `since` of such a slot is not a time but its number, with the bit
//! [`EXTRA`]: a release sees by it that there is more to do than to free the slot.
//!
//! Links are numbers of slots, Relaxed: they are read and written under the lock of the list.

use super::thread_slots::NEW_SLOT;
use crate::inspect::holder_slot::{HolderSlot, Look};
use crate::inspect::locked;
use crate::inspect::pool::{Pool, Record, first};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

/// Set in the `since` of a slot that is not simply freed.
pub(super) const EXTRA: u64 = 1 << 63;

struct ExtraSlot {
    slot: HolderSlot,
    prev: AtomicU32,
    next: AtomicU32,
    next_free: AtomicU32,
}

impl Record for ExtraSlot {
    const NEW: Self = Self {
        slot: NEW_SLOT,
        prev: AtomicU32::new(0),
        next: AtomicU32::new(0),
        next_free: AtomicU32::new(0),
    };

    fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

static POOL: Pool<ExtraSlot, { first(4096) }> = Pool::new();

/// So many slots of a list are read while it is locked: some ten microseconds.
const SHORT: u32 = if cfg!(miri) { 16 } else { 1024 };

fn load(number: &AtomicU32) -> u32 {
    // Relaxed: see the header.
    number.load(Ordering::Relaxed)
}

fn store(number: &AtomicU32, value: u32) {
    // Relaxed: see the header.
    number.store(value, Ordering::Relaxed);
}

/// The slots of the pool that holders of one lock have.
pub(super) struct ExtraSlots {
    /// The number of the first, or 0.
    head: Mutex<u32>,
    /// How many there are. Written under the lock.
    count: AtomicU32,
}

impl ExtraSlots {
    #[expect(clippy::declare_interior_mutable_const, reason = "each use is another list")]
    pub(super) const NEW: Self = Self { head: Mutex::new(0), count: AtomicU32::new(0) };

    /// A free slot, in the list; `None` if there is memory for no more.
    pub(super) fn take(&self) -> Option<&'static HolderSlot> {
        let number = POOL.take()?;
        let extra = POOL.get(number);
        // Relaxed: only the holder looks at it.
        extra.slot.since.store(EXTRA | u64::from(number), Ordering::Relaxed);
        let mut head = locked(&self.head);
        store(&extra.prev, 0);
        store(&extra.next, *head);
        if *head != 0 {
            store(&POOL.get(*head).prev, number);
        }
        *head = number;
        store(&self.count, load(&self.count) + 1);
        Some(&extra.slot)
    }

    /// The holder in the slot of this number releases the lock.
    pub(super) fn put(&self, number: u32) {
        let extra = POOL.get(number);
        let mut head = locked(&self.head);
        extra.slot.free();
        let (prev, next) = (load(&extra.prev), load(&extra.next));
        if prev == 0 {
            *head = next;
        } else {
            store(&POOL.get(prev).next, next);
        }
        if next != 0 {
            store(&POOL.get(next).prev, prev);
        }
        store(&self.count, load(&self.count) - 1);
        drop(head);
        POOL.put(number);
    }

    /// The lock is gone, and with it the holders whose guards were forgotten.
    pub(super) fn reset(&self) {
        loop {
            let number = *locked(&self.head);
            if number == 0 {
                return;
            }
            self.put(number);
        }
    }

    /// Every slot that is held by a holder of this lock, whose list it is; and those that change all the time.
    pub(super) fn each(&self, lock: u64, mut see: impl FnMut(&'static HolderSlot, Look)) {
        // A hint: a holder that comes meanwhile is as one that comes after the look.
        if load(&self.count) == 0 {
            return;
        }
        let mut see = |slot: &'static HolderSlot| match slot.look() {
            Look::Held(hold) if hold.lock != lock => {}
            look => see(slot, look),
        };
        let is_of_lock = |slot: &&HolderSlot| slot.is_of_lock(lock);
        match self.read_short() {
            Some(slots) => slots.into_iter().filter(is_of_lock).for_each(&mut see),
            None => pooled().filter(is_of_lock).for_each(&mut see),
        }
    }

    /// The slots of the list, if it is short.
    fn read_short(&self) -> Option<Vec<&'static HolderSlot>> {
        let mut slots = Vec::with_capacity(load(&self.count).min(SHORT) as usize);
        let head = locked(&self.head);
        if load(&self.count) > SHORT {
            return None;
        }
        let mut at = *head;
        while at != 0 {
            let extra = POOL.get(at);
            slots.push(&extra.slot);
            at = load(&extra.next);
        }
        Some(slots)
    }
}

/// All slots that were ever used, and some that were not.
fn pooled() -> impl Iterator<Item = &'static HolderSlot> {
    (1..=POOL.used()).map(|number| &POOL.get(number).slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::holder_slot::NewHold;
    use crate::inspect::try_locked;
    use core::panic::Location;

    /// A slot that is held by a holder of this lock, which there is not.
    fn take(slots: &ExtraSlots, lock: u64) -> bool {
        let hold = NewHold { task: u64::MAX, at: Location::caller(), mode: 0 };
        slots.take().is_some_and(|slot| slot.try_fill(hold, lock).is_some())
    }

    fn numbers(slots: &ExtraSlots, lock: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        slots.each(lock, |slot, _| numbers.push(slot.since.load(Ordering::Relaxed) & !EXTRA));
        numbers
    }

    /// Taken out of the middle, of both ends, and all that are left when the lock is gone.
    #[test]
    fn a_list_of_slots() {
        let (slots, lock) = (ExtraSlots::NEW, u64::MAX);
        let taken = (0..5).filter(|_| take(&slots, lock)).count();
        let all = numbers(&slots, lock);
        assert_eq!((taken, all.len()), (5, 5));
        [all[2], all[0], all[4]].into_iter().for_each(|number| slots.put(number as u32));
        assert_eq!(numbers(&slots, lock), [all[1], all[3]]);
        slots.reset();
        assert_eq!((numbers(&slots, lock).len(), load(&slots.count)), (0, 0));
    }

    /// What sees the slots may take its time: no list is locked meanwhile. One that is long is not read under its lock at all.
    #[test]
    fn a_look_locks_no_list() {
        for (count, lock) in [(SHORT, u64::MAX - 1), (SHORT + 1, u64::MAX - 2)] {
            let slots = ExtraSlots::NEW;
            let taken = (0..count).filter(|_| take(&slots, lock)).count();
            assert_eq!(taken, count as usize);
            assert_eq!(slots.read_short().is_some(), count == SHORT);
            let mut seen = 0;
            slots.each(lock, |_, look| {
                seen += usize::from(matches!(look, Look::Held(_)));
                assert!(try_locked(&slots.head).is_some(), "a holder that goes would wait");
            });
            assert_eq!(seen, taken);
            slots.reset();
        }
    }

    /// What docs/inspect.md says, on a machine of 64 bits.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn size_of_a_slot() {
        assert_eq!(size_of::<ExtraSlot>(), 64);
    }
}
