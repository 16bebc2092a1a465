//! The place of one holder in the record of a lock: its holder writes it without a locked operation, a look reads it at any time, and knows whether what it read is of one hold.
//!
//! # States of `state`, whose upper bits are the turn
//!
//! | state | event | to | fn |
//! |---|---|---|---|
//! | free | taken by the one holder of a lock | held, claimed | [`Place::fill`] |
//! | free | taken by one of several | busy, then held and claimed, or granted | [`Place::try_take`], then [`Place::fill`] or [`Place::grant`] |
//! | free | granted to a waiter | held, granted | [`Place::grant`] |
//! | held, granted | the poll of its waiter finds the grant | held, granted and claimed | [`Place::fill`] |
//! | held, granted | the same, by another task than it was granted to | busy, then held, granted and claimed | [`Place::fill`] |
//! | held | another task uses the guard | busy, then held | [`Place::touch`] |
//! | free | a guard is used that was taken when the lock had no record | busy, then held and claimed | [`Place::touch`] |
//! | held | the holder goes on in another mode, or claims its upgrade | held, claimed | [`Place::change`] |
//! | held | an upgrade is granted to the holder | busy, then held, granted | [`Place::grant_upgrade`] |
//! | held | released | free | [`Place::free`] |
//!
//! # Invariants
//! 1. Only the holder writes, or the releaser that grants, or the one that took the place by a compare-exchange ([`Place::try_take`]). Of tasks that share a guard, the one whose compare-exchange made it busy ([`Place::touch`]).
//! 2. The other fields are written only while the place is free or busy, never while it is held.
//! 3. The turn changes whenever the holder does: two looks that find the same turn have found the same holder.
//! 4. `wait` says something only while the state has `GRANTED`, which stays until the place is free: a wait that was granted is not taken for one that goes on.
//!
//! # Orderings
//! A sequence lock of which `state` is the sequence. Release of the store that makes it held pairs with Acquire of the first load of a look: it sees the fields of that hold, or later ones. The Release
//! fence before the fields are written pairs with the Acquire fence of a look before its second load of the state: a look that has seen a later field sees that the state has changed. A free place was
//! freed before its next holder had the lock, or before Acquire in [`Place::try_take`], which pairs with Release in [`Place::free`].

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
/// How it is held, in two bits.
const MODE: u64 = 3 << MODE_SHIFT;
const MODE_SHIFT: u32 = 4;
const TURN_SHIFT: u32 = 8;
const FLAGS: u64 = (1 << TURN_SHIFT) - 1;

/// One hold in so many is timed: the clock takes about as long as a lock and an unlock. A power of two.
const TIMED: u64 = 64;
/// The state of a place that was never used: its first hold is timed.
pub(super) const UNUSED: u64 = (TIMED - 1) << TURN_SHIFT;

/// A place for a holder.
pub(super) struct Place {
    pub(super) state: AtomicU64,
    pub(super) task: AtomicU64,
    pub(super) at: AtomicPtr<Location<'static>>,
    pub(super) wait: AtomicU64,
    /// When a timed hold began, in nanoseconds and never 0; 0 if this one is not timed. Only the holder looks at it.
    pub(super) since: AtomicU64,
}

/// What a look has found in a place: all of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) task: u64,
    pub(super) at: Option<&'static Location<'static>>,
    /// As it was stored.
    pub(super) mode: u32,
    /// The wait that was granted, or 0.
    pub(super) wait: u64,
    pub(super) turn: u32,
    pub(super) is_claimed: bool,
}

/// What a look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Free,
    Held(Hold),
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

impl Place {
    /// Another holder than `before`. True if its hold is to be timed.
    #[inline(always)]
    fn write(&self, before: u64, flags: u64, hold: NewHold) -> bool {
        let state =
            (before & !FLAGS).wrapping_add(1 << TURN_SHIFT) | flags | u64::from(hold.mode) << MODE_SHIFT;
        // Release: pairs with the Acquire fence in `look`, for the state before.
        fence(Ordering::Release);
        self.at.store(core::ptr::from_ref(hold.at).cast_mut(), Ordering::Relaxed);
        self.task.store(hold.task, Ordering::Relaxed);
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
        self.write(before, HELD | CLAIMED, hold)
    }

    fn claim(&self, before: u64, hold: NewHold) -> bool {
        // Mostly it is what the releaser wrote for it: the same hold, of which only is to be said that it is known. Relaxed: invariant 1.
        let at = self.at.load(Ordering::Relaxed).cast_const();
        if self.is_of(hold.task) && core::ptr::eq(at, hold.at) && before & GRANTED != 0 {
            self.change(hold.mode);
            return false;
        }
        self.begin_change(before);
        self.write(before, HELD | CLAIMED | before & GRANTED, hold)
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
        // Release: pairs with the Acquire fence in `look`, as in `write`.
        fence(Ordering::Release);
        self.wait.store(wait, Ordering::Relaxed);
        self.write(before, HELD | GRANTED, hold)
    }

    /// `free => busy`: one of several holders takes the place, if it is free.
    pub(super) fn try_take(&self) -> bool {
        // Relaxed: a look, which the exchange confirms.
        let before = self.state.load(Ordering::Relaxed);
        // Acquire: pairs with Release in `free`. Relaxed on failure: the next place is looked at.
        before & (HELD | BUSY) == 0
            && self
                .state
                .compare_exchange(before, before | BUSY, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// The guard is used by this task, which is the holder from now on, unless another that shares the guard uses it at the same time; also if the lock was taken when it had no record yet, and the place is free.
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

    /// The holder releases the lock. When its hold began, if that was timed.
    #[must_use]
    #[inline(always)]
    pub(super) fn free(&self) -> Option<u64> {
        // Relaxed: of the holder alone, until the place is free.
        let since = self.since.load(Ordering::Relaxed);
        if since != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
        let before = self.state.load(Ordering::Relaxed);
        // Release: pairs with Acquire in `try_take`: the next holder writes after what was written for this one.
        self.state.store(before & !HELD, Ordering::Release);
        (since != 0).then_some(since)
    }

    /// The place is another lock's from now on, whose first hold is timed.
    pub(super) fn reset(&self) {
        let _ = self.free();
        // Relaxed: no other thread has the lock; published with its record.
        self.state.store(self.state.load(Ordering::Relaxed) & !FLAGS | UNUSED, Ordering::Relaxed);
    }

    /// What is in the place.
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
    fn read(&self, state: u64) -> Hold {
        Hold {
            task: self.task.load(Ordering::Relaxed),
            // SAFETY: null, or from a reference that is valid for ever.
            at: unsafe { self.at.load(Ordering::Relaxed).as_ref() },
            mode: ((state & MODE) >> MODE_SHIFT) as u32,
            wait: if state & GRANTED == 0 { 0 } else { self.wait.load(Ordering::Relaxed) },
            turn: (state >> TURN_SHIFT) as u32,
            is_claimed: state & CLAIMED != 0,
        }
    }
}
