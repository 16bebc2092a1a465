//! Further slots for holders of locks: a thread that notes more holders at a time than it has slots of its own (`thread_slots.rs`) takes them from a pool of the process.
//!
//! Called by `holders.rs`. Each slot is in a list of its lock, under a lock of that list: a program that has thousands of permits or readers at a time finds those of a lock without a walk over all. The `since` of such a slot is not a time but its number, with the bit
//! [`EXTRA`]: a release sees by it that there is more to do than to free the slot.
//!
//! Links are numbers of slots, Relaxed: they are read and written under the lock of the list.

use super::thread_slots::NEW_SLOT;
use crate::inspect::holder_slot::HolderSlot;
use crate::inspect::locked;
use crate::inspect::pool::{Pool, Record, first};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

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

    /// Every slot of the list.
    pub(super) fn each(&self, mut see: impl FnMut(&'static HolderSlot)) {
        // A hint: a holder that comes meanwhile is as one that comes after the look.
        if load(&self.count) == 0 {
            return;
        }
        let head = locked(&self.head);
        let mut at = *head;
        while at != 0 {
            let extra = POOL.get(at);
            see(&extra.slot);
            at = load(&extra.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn numbers(slots: &ExtraSlots) -> Vec<u64> {
        let mut numbers = Vec::new();
        slots.each(|slot| numbers.push(slot.since.load(Ordering::Relaxed) & !EXTRA));
        numbers
    }

    /// Taken out of the middle, of both ends, and all that are left when the lock is gone.
    #[test]
    fn a_list_of_slots() {
        let slots = ExtraSlots::NEW;
        let taken = (0..5).filter_map(|_| slots.take()).count();
        let all = numbers(&slots);
        assert_eq!((taken, all.len()), (5, 5));
        [all[2], all[0], all[4]].into_iter().for_each(|number| slots.put(number as u32));
        assert_eq!(numbers(&slots), [all[1], all[3]]);
        slots.reset();
        assert_eq!((numbers(&slots).len(), load(&slots.count)), (0, 0));
    }

    /// What docs/inspect.md says, on a machine of 64 bits.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn size_of_a_slot() {
        assert_eq!(size_of::<ExtraSlot>(), 64);
    }
}
