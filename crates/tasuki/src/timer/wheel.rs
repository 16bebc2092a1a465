//! The timer wheel: waiters sorted by their deadline, coarsely while it is far away and by single ticks when it is near.
//!
//! A hierarchy of ten levels of 64 slots. A slot of level 0 is one tick, a slot of level `n` is 64 slots of level
//! `n - 1`. A waiter is put into the highest level at which its time and the present differ; when the present
//! reaches a slot of a higher level, its waiters move down. Insert and cancel are O(1); each waiter moves
//! at most once per level. It knows ticks, not clocks, and nothing runs in it: what is due comes out in
//! batches.
//!
//! Time has an end: the present never passes [`LAST_TICK`], however far it is advanced. A waiter that is due later waits for
//! [`NEVER`]: it is in a ring of its own, is never released, and is not what [`Turned::Done`] tells to come back for.

use crate::queue::batch::WakeBatch;
use crate::queue::ring::Ring;
#[cfg(doc)]
use crate::queue::waiter::Payload;
use crate::queue::waiter::Waiter;
use crate::queue::{LockedQueue, Pinned};
use crate::shim;
use alloc::sync::Arc;

const SLOT_BITS: u32 = if shim::MODEL { 1 } else { 6 };
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = if shim::MODEL { 3 } else { 10 };
/// The last tick there is. In milliseconds, thirty-six million years.
pub(super) const LAST_TICK: u64 = (1 << (SLOT_BITS * LEVELS as u32)) - 1;
/// The tick that does not come.
pub(super) const NEVER: u64 = LAST_TICK + 1;
/// The ring of the waiters that are due at [`NEVER`].
const NEVER_RING: usize = LEVELS * SLOTS;
/// How many waiters one hold of `EDIT` may move or release.
const STEP: usize = if shim::MODEL { 2 } else { 32 };

/// Waiters by due tick. Every method takes the evidence that the lock of the wheel is held.
#[derive(Debug)]
pub(super) struct Wheel {
    /// The present: everything due before it has been released; what is due at it is in slots that begin at it.
    now: u64,
    /// `LEVELS × SLOTS`, and the one of the waiters that are never due. A ring must not move, and sentinels keep pointers to
    /// themselves. In an `Arc`, though it is not shared: a `Box` that is moved would be the only valid way to its content, and
    /// every pointer of before the move would be dead.
    rings: Arc<[Ring]>,
    /// A bit per slot that may have a waiter in it; cancelling leaves it set until the slot is visited.
    occupied: [u64; LEVELS],
    /// How many waiters there are, without those that are never due.
    len: usize,
}

/// A slot, and the tick at which it begins.
#[derive(Clone, Copy, Debug)]
struct SlotPosition {
    level: usize,
    index: usize,
    begins: u64,
}

/// What a step left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// Nothing is due; this is when to look again; `None` without a waiter that is ever due.
    Done(Option<u64>),
    /// There is more: unlock, wake the batch, and come back.
    More,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self { now: 0, rings: (0..=NEVER_RING).map(|_| Ring::new()).collect(), occupied: [0; LEVELS], len: 0 }
    }

    /// Puts a waiter that was made with [`Payload::due`] where it belongs.
    pub(super) fn insert(&mut self, locked: &mut LockedQueue<'_>, waiter: Pinned<'_>) {
        let due = waiter.get().due();
        let ring = if due >= NEVER { NEVER_RING } else { self.slot_of(due) };
        // SAFETY: the rings are behind a pointer, and `Timers` drops them only when no future holds a reference to it.
        unsafe { self.rings[ring].push_back(locked, waiter) };
        self.len += usize::from(ring != NEVER_RING);
    }

    /// How many deadlines there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A waiter has left by `LockedQueue::remove`; true if no deadline is left.
    pub(super) fn forget(&mut self, waiter: Pinned<'_>) -> bool {
        self.len -= usize::from(waiter.get().due() < NEVER);
        self.len == 0
    }

    /// Goes on towards `to`: releases what is due, moves down what is near, up to a bounded number of waiters.
    pub(super) fn turn(&mut self, locked: &mut LockedQueue<'_>, to: u64, batch: &mut WakeBatch) -> Turned {
        // A clock that is behind the wheel does not turn it back: what is due in the present is due.
        let to = to.clamp(self.now, LAST_TICK);
        for _ in 0..STEP {
            let Some(slot) = self.next_slot() else {
                self.now = to;
                return Turned::Done(None);
            };
            if slot.begins > to {
                self.now = to;
                return Turned::Done(Some(slot.begins));
            }
            self.now = slot.begins;
            if !self.take_one(locked, slot, batch) {
                self.occupied[slot.level] &= !(1 << slot.index);
            }
        }
        Turned::More
    }

    /// Releases or moves down the first waiter of a slot that has begun; false if it is empty.
    fn take_one(&mut self, locked: &mut LockedQueue<'_>, slot: SlotPosition, batch: &mut WakeBatch) -> bool {
        let ring = slot.level * SLOTS + slot.index;
        if slot.level == 0 {
            let Some(waker) = self.rings[ring].grant_front(locked) else { return false };
            self.len -= 1;
            batch.push(waker);
            return true;
        }
        let Some(due) = self.rings[ring].front(locked).map(Waiter::due) else { return false };
        let lower = self.slot_of(due);
        debug_assert!(lower < slot.level * SLOTS, "a waiter of level {} moves down", slot.level);
        // SAFETY: as in `insert`.
        unsafe { self.rings[ring].move_front(locked, &self.rings[lower]) };
        true
    }

    /// The ring for this due tick, at most [`LAST_TICK`], seen from the present; its slot is marked as occupied.
    fn slot_of(&mut self, due: u64) -> usize {
        let due = due.max(self.now);
        let differing = (self.now ^ due).max(1).ilog2();
        let level = (differing / SLOT_BITS) as usize;
        let index = (due >> (level as u32 * SLOT_BITS)) as usize % SLOTS;
        self.occupied[level] |= 1 << index;
        level * SLOTS + index
    }

    /// The slot that begins next, or has begun. All levels are looked at: what is in a slot of a higher level that has begun may be
    /// due before what is in a lower one.
    fn next_slot(&mut self) -> Option<SlotPosition> {
        if self.len == 0 {
            self.occupied = [0; LEVELS];
            return None;
        }
        (0..LEVELS).filter_map(|level| self.next_slot_of(level)).min_by_key(|slot| slot.begins)
    }

    /// The first occupied slot of a level, from the present on.
    fn next_slot_of(&self, level: usize) -> Option<SlotPosition> {
        let shift = level as u32 * SLOT_BITS;
        let present = (self.now >> shift) as usize % SLOTS;
        let ahead = self.occupied[level] >> present << present;
        if ahead == 0 {
            return None;
        }
        let index = ahead.trailing_zeros() as usize;
        // Everything above this level is as in the present.
        let above = self.now >> shift >> SLOT_BITS << SLOT_BITS << shift;
        let begins = above | (index as u64) << shift;
        debug_assert!(begins >= self.now, "a slot was passed: level {level}, {begins} before {}", self.now);
        Some(SlotPosition { level, index, begins })
    }
}
