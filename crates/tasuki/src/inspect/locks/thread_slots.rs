//! Slots for the holders of locks that several tasks may hold, a block of them for every thread.
//!
//! A reader, or the holder of a permit, needs a slot in which it is noted (`holder_slot.rs`). Were the slots in the record of the lock, each holder would have to take one by a compare-exchange, which costs as much
//! as the read lock itself. A thread that has slots of its own takes one by a load and stores. Its guard knows the slot, so that any thread may free it.
//!
//! ```text
//!   thread A: block 1  [lock 7, task 3] [free] [free] ...         a look at lock 7 goes through the used
//!   thread B: block 2  [free] [lock 7, task 9] [lock 8, task 9]   slots of all blocks
//! ```
//!
//! Blocks are never freed: that of a thread that ends is the next new thread's, with the holders that are still in it. A thread without a free slot has its holders noted in others (`extra_slots.rs`), and looks for one again after
//! [`SLOTS`] of them. A slot whose guard was forgotten is used again when its lock is gone, if that had a record.
//!
//! # Invariants
//! 1. Only the thread that has a block makes a slot of it held; with the feature `critical-section` no interrupt handler of the thread does so meanwhile.
//! 2. A slot that was ever held is below `used` of its block.
//!
//! # Orderings
//! Those of the slots. A block goes from thread to thread under the lock of its pool. `used` is Relaxed: a look that misses a new slot is as one that came before.

use super::LockId;
use crate::inspect::holder_slot::{HolderSlot, Look, UNKNOWN, UNUSED};
use crate::inspect::pool::{Pool, Record, first};
use crate::shim::Section;
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::thread_local;

/// How many holders a thread can have noted. An interpreter looks at all of them.
const SLOTS: u32 = if cfg!(miri) { 4 } else { 64 };

#[expect(clippy::declare_interior_mutable_const, reason = "each use is another slot")]
pub(in crate::inspect) const NEW_SLOT: HolderSlot = HolderSlot {
    state: AtomicU64::new(UNUSED),
    task: AtomicU64::new(UNKNOWN),
    at: AtomicPtr::new(core::ptr::null_mut()),
    wait: AtomicU64::new(0),
    lock: AtomicU64::new(0),
    since: AtomicU64::new(0),
};

struct Block {
    slots: [HolderSlot; SLOTS as usize],
    /// No slot from here on was ever held.
    used: AtomicU32,
    next_free: AtomicU32,
}

impl Record for Block {
    const NEW: Self = Self {
        slots: [const { NEW_SLOT }; SLOTS as usize],
        used: AtomicU32::new(0),
        next_free: AtomicU32::new(0),
    };

    fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

static BLOCKS: Pool<Block, { first(16) }> = Pool::new();

thread_local! {
    /// The slot that this thread tries first, if it has one.
    static NEXT: Cell<Option<&'static HolderSlot>> = const { Cell::new(None) };
    /// Where that slot is in the block; without one, how many times none is looked for.
    static AT: Cell<u32> = const { Cell::new(0) };
    static MINE: OwnedBlock = const { OwnedBlock(Cell::new(0)) };
}

fn set_next(slot: Option<&'static HolderSlot>, at: u32) {
    let _ = NEXT.try_with(|next| next.set(slot));
    let _ = AT.try_with(|next| next.set(at));
}

/// The block of a thread, 0 if it has none.
struct OwnedBlock(Cell<u32>);

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        // Before the block can be another thread's: this one has no slot any more.
        set_next(None, 0);
        if self.0.get() != 0 {
            BLOCKS.put(self.0.get());
        }
    }
}

/// A slot of this thread that was free: `fill` makes it held, and answers `None` if it is not free. `None` if there is no such slot.
#[inline(always)]
pub(super) fn take(fill: impl Fn(&'static HolderSlot) -> Option<()>) -> Option<&'static HolderSlot> {
    let _section = Section::enter();
    let next = NEXT.try_with(Cell::get).ok()?;
    match next {
        Some(slot) if fill(slot).is_some() => Some(slot),
        _ => take_another(fill),
    }
}

#[cold]
#[inline(never)]
fn take_another(fill: impl Fn(&'static HolderSlot) -> Option<()>) -> Option<&'static HolderSlot> {
    find().filter(|slot| fill(slot).is_some())
}

/// The next free slot of this thread.
fn find() -> Option<&'static HolderSlot> {
    let next = NEXT.try_with(Cell::get).ok()?;
    let found = match (next, AT.try_with(Cell::get).ok()?) {
        (None, skips @ 1..) => Err(skips - 1),
        (None, 0) => search(0).ok_or(SLOTS),
        (Some(_), at) => search(at + 1).ok_or(SLOTS),
    };
    match found {
        Ok((slot, at)) => set_next(Some(slot), at),
        Err(skips) => set_next(None, skips),
    }
    found.ok().map(|(slot, _)| slot)
}

/// The number of this thread's block, which is taken from the pool if it has none; `None` where the thread ends, or there is memory for no more.
fn block() -> Option<u32> {
    let mine = |mine: &OwnedBlock| {
        if mine.0.get() == 0 {
            mine.0.set(BLOCKS.take()?);
        }
        Some(mine.0.get())
    };
    MINE.try_with(mine).ok()?
}

/// The first free slot of this thread's block, from this one on and then from the first; and where it is.
fn search(from: u32) -> Option<(&'static HolderSlot, u32)> {
    let of = BLOCKS.get(block()?);
    let at = (0..SLOTS).map(|n| (from + n) % SLOTS).find(|at| is_free(&of.slots[*at as usize]))?;
    // Relaxed: see the header.
    of.used.fetch_max(at + 1, Ordering::Relaxed);
    Some((&of.slots[at as usize], at))
}

/// Is it free, or that of a guard that was forgotten and whose lock is gone? A lock without a record cannot be found gone: the slot of its holder is that holder's until the guard is dropped.
fn is_free(slot: &HolderSlot) -> bool {
    if slot.is_free() {
        return true;
    }
    let lock = LockId::from_number(slot.lock());
    let is_forgotten = lock != LockId::NONE && lock.record().is_none();
    if is_forgotten {
        // Relaxed: only its holder looked at it.
        slot.since.store(0, Ordering::Relaxed);
        slot.free();
    }
    is_forgotten
}

/// Every slot that is held by a holder of this lock; and those that change all the time.
pub(super) fn each(lock: LockId, mut see: impl FnMut(&'static HolderSlot, Look)) {
    for block in 1..=BLOCKS.used() {
        let of = BLOCKS.get(block);
        // Relaxed: see the header.
        let used = of.used.load(Ordering::Relaxed) as usize;
        for slot in of.slots[..used].iter().filter(|slot| slot.is_of_lock(lock.number())) {
            match slot.look() {
                Look::Held(hold) if hold.lock != lock.number() => {}
                look => see(slot, look),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Held, LockRecord, NO_LOCK};
    use super::*;
    use crate::inspect::holder_slot::NewHold;
    use crate::probe::LockMode;
    use core::panic::Location;
    use core::ptr;
    use std::thread;
    use std::vec::Vec;

    fn hold() -> NewHold {
        NewHold { task: u64::MAX, at: Location::caller(), mode: 0 }
    }

    /// Of a lock that there is, or the slot could be taken from its holder.
    fn with_lock(run: impl FnOnce(LockId)) {
        let record = super::super::register(super::super::LockKind::Semaphore, None, Location::caller());
        run(record.id());
        super::super::unregister(record);
    }

    type Slot = &'static HolderSlot;

    fn take_one(lock: LockId) -> Option<Slot> {
        take(|slot| slot.try_fill(hold(), lock.number()).map(|_| ()))
    }

    fn held(lock: LockId) -> usize {
        let mut count = 0;
        each(lock, |_, look| count += usize::from(matches!(look, Look::Held(_))));
        count
    }

    /// A thread has so many slots; what is freed, by whichever thread, is taken again, when it is looked for.
    #[test]
    fn a_full_block() {
        with_lock(|lock| {
            let all: Vec<Slot> = (0..SLOTS).filter_map(|_| take_one(lock)).collect();
            assert_eq!((all.len(), held(lock)), (SLOTS as usize, SLOTS as usize));
            assert!(take_one(lock).is_none());
            let first = all[0];
            thread::spawn(move || first.free()).join().unwrap();
            assert_eq!(held(lock), SLOTS as usize - 1);
            let again = (0..=SLOTS).find_map(|_| take_one(lock));
            assert!(again.is_some_and(|again| ptr::eq(again, first)), "after some that did not look");
            all.into_iter().for_each(HolderSlot::free);
            assert_eq!(held(lock), 0);
        });
    }

    /// What docs/inspect.md says, on a machine of 64 bits.
    #[test]
    #[cfg(all(target_pointer_width = "64", not(miri)))]
    fn size_of_a_block() {
        assert_eq!(size_of::<Block>(), 3_080);
    }

    /// The guards were forgotten, and the lock is gone: their slots are free for another.
    #[test]
    fn slots_of_forgotten_guards() {
        with_lock(|lock| (0..SLOTS).for_each(|_| assert!(take_one(lock).is_some())));
        with_lock(|lock| {
            let all: Vec<Slot> = (0..SLOTS).filter_map(|_| take_one(lock)).collect();
            assert_eq!((all.len(), held(lock)), (SLOTS as usize, SLOTS as usize));
            all.into_iter().for_each(HolderSlot::free);
        });
    }

    /// The holders of locks for which there was no record keep their slots as long as their guards: a slot that is held is not taken for that of a forgotten guard.
    #[test]
    fn slots_of_locks_without_a_record() {
        let all: Vec<Slot> = (0..SLOTS).filter_map(|_| take_one(LockId::NONE)).collect();
        assert_eq!(all.len(), SLOTS as usize);
        assert!((0..2 * SLOTS).all(|_| take_one(LockId::NONE).is_none()));
        all.into_iter().for_each(HolderSlot::free);
    }

    /// Those for which the thread has no slot are not noted: slots of the pool are for holders that a look asks for.
    #[test]
    fn holders_without_a_record_take_nothing_of_the_pool() {
        let add = || NO_LOCK.add_holder(u64::MAX, LockMode::Permits, Location::caller(), 0);
        let held: Vec<Held> = (0..2 * SLOTS).map(|_| add()).collect();
        assert_eq!(held.iter().filter(|held| **held != Held::NONE).count(), SLOTS as usize);
        held.into_iter().for_each(|held| LockRecord::remove_holder(|| Some(&NO_LOCK), held));
    }

    /// The holders of a thread that has ended are seen, and their slots are not given to another thread's holders.
    #[test]
    fn the_block_of_a_thread_that_has_ended() {
        with_lock(|lock| {
            let left = thread::spawn(move || take_one(lock)).join().unwrap().unwrap();
            let others: Vec<Slot> = (0..3)
                .map(|_| thread::spawn(move || take_one(lock)).join().unwrap())
                .map(|slot| slot.expect("there is one"))
                .collect();
            assert!(others.iter().all(|slot| !ptr::eq(*slot, left)));
            assert_eq!(held(lock), 4);
            others.into_iter().chain([left]).for_each(HolderSlot::free);
        });
    }
}
