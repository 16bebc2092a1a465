//! The slot of one holder of a lock: which task holds it, where it took it, in which mode, and since when.
//!
//! Every lock has one, for a holder that has it alone, and every thread has a block of them for the locks that several tasks may hold (`locks/thread_slots.rs`). The holder writes its slot without a locked
//! operation; a look, the watcher's or a snapshot's, reads it at any time, and knows whether what it read is of one hold. Nothing that a primitive does depends on a slot.
//!
//! # States of `state`, whose upper bits are the turn
//!
//! | state | event | to | fn |
//! |---|---|---|---|
//! | free | taken by the one holder of a lock | held, claimed | [`HolderSlot::fill`] |
//! | free | taken by one of several, on the thread that has the slot | held, claimed, or granted | [`HolderSlot::try_fill`], [`HolderSlot::try_grant`] |
//! | free | granted to a waiter | held, granted | [`HolderSlot::grant`] |
//! | held | granted to another waiter | busy, then held, granted | [`HolderSlot::grant`] |
//! | held, granted | the poll of its waiter finds the grant | held, granted and claimed | [`HolderSlot::fill`] |
//! | held, granted | the same, by another task than it was granted to | busy, then held, granted and claimed | [`HolderSlot::fill`] |
//! | held | another task uses the guard | busy, then held | [`HolderSlot::touch`] |
//! | free | a guard is used that was taken when the lock had no record | busy, then held and claimed | [`HolderSlot::touch`] |
//! | held | the holder goes on in another mode, or claims its upgrade | held, claimed | [`HolderSlot::change`] |
//! | held | an upgrade is granted to the holder | busy, then held, granted | [`HolderSlot::grant_upgrade`] |
//! | held | released | free | [`HolderSlot::free`] |
//! | any | the record becomes that of another lock | free, as if never used | [`HolderSlot::reset`] |
//!
//! # Invariants
//! 1. A slot that is held is written by its holder, or by the releaser that grants. Of tasks that share a guard, by the one whose compare-exchange made it busy ([`HolderSlot::touch`]).
//! 2. A free slot is written by one thread only: that of a lock by the task that has the lock, one of a block by the thread that has the block. Any thread may free it.
//! 3. The fields that a look reads, all but `since`, are written only while the slot is free or busy, never while it is held.
//! 4. The turn changes whenever the holder does: two looks that find the same turn have found the same holder.
//! 5. `wait` says something only while the state has `GRANTED`, which stays until the slot is free: a wait that was granted is not taken for one that goes on.
//!
//! # Orderings
//! A sequence lock of which `state` is the sequence. Release of the store that makes it held pairs with Acquire of the first load of a look: it sees the fields of that hold, or later ones. The Release
//! fence before the fields are written pairs with the Acquire fence of a look before its second load of the state: a look that has seen a later field sees that the state has changed. The slot of a lock was
//! freed before its next holder had the lock; one of a block before Acquire in [`HolderSlot::free_state`], which pairs with Release in [`HolderSlot::free`].

use super::sync::{AtomicPtr, AtomicU64, Ordering, TRIES, fence, spin_hint};
use core::panic::Location;

/// It has a holder, and its fields are those of it.
const HELD: u64 = 1;
/// It has a holder, and its fields are being written.
const BUSY: u64 = 2;
/// The holder's future has seen that it has the lock.
const CLAIMED: u64 = 4;
/// It was granted to a wait: that of `wait`.
const GRANTED: u64 = 8;
/// How it is held, in three bits.
const MODE: u64 = 7 << MODE_SHIFT;
const MODE_SHIFT: u32 = 4;
const TURN_SHIFT: u32 = 8;
const FLAGS: u64 = (1 << TURN_SHIFT) - 1;

/// One hold in so many is timed: the clock takes about as long as a lock and an unlock. A power of two.
const TIMED: u64 = 64;
/// The state of a slot that was never used: its first hold is timed.
pub(super) const UNUSED: u64 = (TIMED - 1) << TURN_SHIFT;
/// The task of a holder that is not known, and of a slot that was never used: not 0, which a task is as long as its runtime was not asked.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// What a look reads of one holder.
pub(super) struct HolderSlot {
    pub(super) state: AtomicU64,
    pub(super) task: AtomicU64,
    pub(super) at: AtomicPtr<Location<'static>>,
    pub(super) wait: AtomicU64,
    /// The lock, of a slot that is not in its record.
    pub(super) lock: AtomicU64,
    /// When a timed hold began, in nanoseconds and never 0; 0 if this one is not timed. Only the holder reads it; the thread of a block clears it where it takes back the slot of a forgotten guard.
    pub(super) since: AtomicU64,
}

/// What a look has found in a slot: all of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HoldView {
    pub(super) task: u64,
    pub(super) at: Option<&'static Location<'static>>,
    /// As it was stored.
    pub(super) mode: u32,
    /// The wait that was granted, or 0.
    pub(super) wait: u64,
    pub(super) lock: u64,
    pub(super) turn: u32,
    pub(super) is_claimed: bool,
}

/// What a look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Free,
    Held(HoldView),
    /// It changes all the time: it has holders, and nothing is known of them.
    Changing,
}

/// What is written for a holder.
#[derive(Clone, Copy)]
pub(super) struct NewHold {
    pub(super) task: u64,
    pub(super) at: &'static Location<'static>,
    pub(super) mode: u32,
}

impl HolderSlot {
    /// Another holder than `before`; of this lock, in the block of a thread. True if its hold is to be timed.
    #[inline(always)]
    fn write(&self, before: u64, flags: u64, hold: NewHold, lock: Option<u64>) -> bool {
        let state =
            (before & !FLAGS).wrapping_add(1 << TURN_SHIFT) | flags | u64::from(hold.mode) << MODE_SHIFT;
        // Release: pairs with the Acquire fence in `look`, for the state before.
        fence(Ordering::Release);
        self.at.store(core::ptr::from_ref(hold.at).cast_mut(), Ordering::Relaxed);
        self.task.store(hold.task, Ordering::Relaxed);
        if let Some(lock) = lock {
            self.lock.store(lock, Ordering::Relaxed);
        }
        // Release: pairs with Acquire in `look`.
        self.state.store(state, Ordering::Release);
        state & ((TIMED - 1) << TURN_SHIFT) == 0
    }

    /// The lock has been taken by this holder, or it claims what was granted. True if its hold is to be timed.
    #[inline(always)]
    pub(super) fn fill(&self, hold: NewHold) -> bool {
        // Relaxed: invariant 1.
        let before = self.state.load(Ordering::Relaxed);
        if before & HELD != 0 {
            return self.claim(before, hold);
        }
        self.write(before, HELD | CLAIMED, hold, None)
    }

    fn claim(&self, before: u64, hold: NewHold) -> bool {
        // Mostly it is what the releaser wrote for it: the same hold, of which only is to be said that it is known. Relaxed: invariant 1.
        let at = self.at.load(Ordering::Relaxed).cast_const();
        if self.is_of(hold.task) && core::ptr::eq(at, hold.at) && before & GRANTED != 0 {
            self.change(hold.mode);
            return false;
        }
        self.begin_change(before);
        self.write(before, HELD | CLAIMED | before & GRANTED, hold, None)
    }

    /// `held => busy`.
    fn begin_change(&self, before: u64) {
        // Relaxed: ordered by the fence that follows, before the fields are written.
        self.state.store(before & !HELD | BUSY, Ordering::Relaxed);
    }

    /// The lock has been granted, and the future has not been polled since. True if its hold is to be timed.
    pub(super) fn grant(&self, hold: NewHold, wait: u64) -> bool {
        // Relaxed: invariant 1.
        let before = self.state.load(Ordering::Relaxed);
        if before & HELD != 0 {
            self.begin_change(before);
        }
        self.write_granted(before, hold, wait, None)
    }

    fn write_granted(&self, before: u64, hold: NewHold, wait: u64, lock: Option<u64>) -> bool {
        // Release: pairs with the Acquire fence in `look`, as in `write`.
        fence(Ordering::Release);
        self.wait.store(wait, Ordering::Relaxed);
        self.write(before, HELD | GRANTED, hold, lock)
    }

    /// The state, if the slot is free: asked by the thread that has its block.
    #[inline(always)]
    fn free_state(&self) -> Option<u64> {
        // Acquire: pairs with Release in `free`.
        let before = self.state.load(Ordering::Acquire);
        (before & (HELD | BUSY) == 0).then_some(before)
    }

    /// Has it no holder? Asked as above.
    pub(super) fn is_free(&self) -> bool {
        self.free_state().is_some()
    }

    /// `free => held`, by one of several holders of this lock, on the thread that has the block. `Some(true)` if its hold is to be timed.
    #[inline(always)]
    pub(super) fn try_fill(&self, hold: NewHold, lock: u64) -> Option<bool> {
        self.free_state().map(|before| self.write(before, HELD | CLAIMED, hold, Some(lock)))
    }

    /// The same for a waiter that was granted the lock, and whose future has not been polled since.
    pub(super) fn try_grant(&self, hold: NewHold, lock: u64, wait: u64) -> Option<bool> {
        self.free_state().map(|before| self.write_granted(before, hold, wait, Some(lock)))
    }

    /// Is it, or was it last, of this lock? A hint, which a look confirms.
    pub(super) fn is_of_lock(&self, lock: u64) -> bool {
        // Relaxed: a hint.
        self.lock.load(Ordering::Relaxed) == lock
    }

    /// The lock of a holder in the block of a thread.
    pub(super) fn lock(&self) -> u64 {
        // Relaxed: asked by the thread that has the block, which wrote it.
        self.lock.load(Ordering::Relaxed)
    }

    /// The guard is used by this task, which is the holder from now on, unless another that shares the guard uses it at the same time; also if the lock was taken when it had no record yet, and the slot is free.
    pub(super) fn touch(&self, task: u64) {
        // Relaxed: a look, which the exchange confirms.
        let before = self.state.load(Ordering::Relaxed);
        if before & BUSY != 0 || before & HELD != 0 && self.is_of(task) {
            return;
        }
        // Tasks that share a guard may use it at the same time: one of them writes, whichever. Acquire: pairs with Release of another's `touch` before. Relaxed on failure: nothing is written.
        let busy = before & !HELD | BUSY;
        if self.state.compare_exchange(before, busy, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        // Release: pairs with the Acquire fence in `look`, as in `write`.
        fence(Ordering::Release);
        if before & HELD == 0 {
            self.at.store(core::ptr::null_mut(), Ordering::Relaxed);
        }
        self.task.store(task, Ordering::Relaxed);
        // A guard is there: the lock was claimed.
        let kept = if before & HELD == 0 { before & !FLAGS | HELD | CLAIMED } else { before | CLAIMED };
        // Release: pairs with Acquire in `look`, as in `write`.
        self.state.store(kept.wrapping_add(1 << TURN_SHIFT), Ordering::Release);
    }

    /// Is this the task of the holder, which asks?
    #[inline(always)]
    pub(super) fn is_of(&self, task: u64) -> bool {
        // Relaxed: invariant 1.
        self.task.load(Ordering::Relaxed) == task
    }

    /// The task of the holder, or of the last one.
    pub(super) fn task(&self) -> u64 {
        // Relaxed: a look, for code that has a guard of this holder.
        self.task.load(Ordering::Relaxed)
    }

    /// The holder goes on in another mode, or claims its upgrade.
    pub(super) fn change(&self, mode: u32) {
        // Relaxed: invariant 1.
        let before = self.state.load(Ordering::Relaxed);
        let state = before & !MODE | CLAIMED | u64::from(mode) << MODE_SHIFT;
        // Release: pairs with Acquire in `look`, for the wait that a releaser, another thread, wrote in `grant_upgrade`.
        self.state.store(state, Ordering::Release);
    }

    /// An upgrade to this mode has been granted to the holder, and its future has not been polled since. The turn stays, for the holder does.
    pub(super) fn grant_upgrade(&self, mode: u32, wait: u64) {
        // Relaxed: invariant 1.
        let before = self.state.load(Ordering::Relaxed);
        self.begin_change(before);
        // Release: pairs with the Acquire fence in `look`, as in `write`.
        fence(Ordering::Release);
        self.wait.store(wait, Ordering::Relaxed);
        let state = before & !(MODE | CLAIMED) | GRANTED | u64::from(mode) << MODE_SHIFT;
        // Release: pairs with Acquire in `look`, as in `write`.
        self.state.store(state, Ordering::Release);
    }

    /// Is there more to do at the release than to free it?
    #[inline(always)]
    pub(super) fn is_timed(&self) -> bool {
        // Relaxed: of the holder alone, until the slot is free.
        self.since.load(Ordering::Relaxed) != 0
    }

    /// The holder releases the lock.
    #[inline(always)]
    pub(super) fn free(&self) {
        // Relaxed: of the holder alone, until the slot is free.
        let before = self.state.load(Ordering::Relaxed);
        // Release: pairs with Acquire in `free_state`: the next holder writes after what was written for this one.
        self.state.store(before & !HELD, Ordering::Release);
    }

    /// The slot is another lock's from now on, whose first hold is timed.
    pub(super) fn reset(&self) {
        self.free();
        // Relaxed: no other thread has the lock; published with its record.
        self.since.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `look`, as in `write`.
        fence(Ordering::Release);
        // The last holder of the lock before is not known to have this one.
        self.task.store(UNKNOWN, Ordering::Relaxed);
        self.state.store(self.state.load(Ordering::Relaxed) & !FLAGS | UNUSED, Ordering::Relaxed);
    }

    /// What is in the slot.
    pub(super) fn look(&self) -> Look {
        for _ in 0..TRIES {
            // Acquire: pairs with Release in `write`.
            let state = self.state.load(Ordering::Acquire);
            if state & (HELD | BUSY) == 0 {
                return Look::Free;
            }
            if state & HELD != 0 {
                let hold = self.read(state);
                // Acquire: pairs with the Release fence in `write`.
                fence(Ordering::Acquire);
                if self.state.load(Ordering::Relaxed) == state {
                    return Look::Held(hold);
                }
            }
            spin_hint();
        }
        Look::Changing
    }

    /// The fields. Relaxed: the caller looks whether they are of one hold.
    fn read(&self, state: u64) -> HoldView {
        HoldView {
            task: self.task.load(Ordering::Relaxed),
            // SAFETY: null, or from a reference that is valid for ever.
            at: unsafe { self.at.load(Ordering::Relaxed).as_ref() },
            mode: ((state & MODE) >> MODE_SHIFT) as u32,
            wait: if state & GRANTED == 0 { 0 } else { self.wait.load(Ordering::Relaxed) },
            lock: self.lock.load(Ordering::Relaxed),
            turn: (state >> TURN_SHIFT) as u32,
            is_claimed: state & CLAIMED != 0,
        }
    }
}
