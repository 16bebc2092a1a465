//! The stamp of a record: a counter that says whether the record is free, whether it may be read, and whether it has been used for another wait since.
//!
//! Records are never freed, so that the watcher and snapshots may read them while tasks write them (`pool.rs`). The stamp of a record of a wait makes that safe: a wait takes the record, writes it and publishes it, and a look that reads it knows by the
//! stamp, asked before and after, whether all that it read is of one wait. The record of a lock has a [`Generation`] instead, which changes when the lock is dropped. Neither ever makes a task wait.
//!
//! # States, whose upper bits count the uses
//!
//! | state | event | to | fn |
//! |---|---|---|---|
//! | free | a wait is about to begin, on the one thread that may take the record | prepared, the next use | [`Stamp::try_take`] |
//! | prepared | the waiter has been enqueued | published | [`Stamp::publish`] |
//! | prepared, published | the wait is over | free | [`Stamp::free`] |
//!
//! # Invariants
//! 1. A field that is written while the record is published says something by itself (`waits/mod.rs` names these fields); all others are written by the thread that took the record, while it is prepared.
//! 2. No two uses have the same stamp.
//!
//! # Orderings
//! A sequence lock, as a [`HolderSlot`](super::holder_slot::HolderSlot) is: Release in [`Stamp::publish`] pairs with Acquire in [`Stamp::look`]; the Release fence in [`Stamp::try_take`] with the Acquire fence in
//! [`Stamp::look`]; Release in [`Stamp::free`] with Acquire in [`Stamp::try_take`].
//! A watcher must not end when a wait has begun that it has to see: the argument is in `watch.rs`.
//! [`Generation`]: Acquire fence in [`Generation::is_still`], for what was read before; what is written into the record of another lock comes after [`Generation::next`].

use super::sync::{AtomicU32, AtomicU64, Ordering, TRIES, fence};

const PREPARED: u64 = 1;
const PUBLISHED: u64 = 2;
const FLAGS: u64 = PREPARED | PUBLISHED;
const USE: u64 = 4;

pub(super) struct Stamp(pub(super) AtomicU64);

impl Stamp {
    /// `free => prepared`. False if another wait has the record. Called by no two threads at a time.
    #[inline(always)]
    pub(super) fn try_take(&self) -> bool {
        // Acquire: pairs with Release in `free`.
        let before = self.0.load(Ordering::Acquire);
        if before & FLAGS != 0 {
            return false;
        }
        // Relaxed: the fence that follows orders it before the fields.
        self.0.store(before.wrapping_add(USE) | PREPARED, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `look`.
        fence(Ordering::Release);
        true
    }

    /// `prepared => published`.
    #[inline]
    pub(super) fn publish(&self) {
        // Release: pairs with Acquire in `look`.
        self.0.store(self.uses() | PUBLISHED, Ordering::Release);
    }

    /// `prepared | published => free`.
    #[inline]
    pub(super) fn free(&self) {
        // Release: pairs with Acquire in `try_take`.
        self.0.store(self.uses(), Ordering::Release);
    }

    /// The bits that count. Relaxed: of the one that took the record.
    fn uses(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & !FLAGS
    }

    /// Does the record say something now?
    #[inline]
    pub(super) fn is_published(&self) -> bool {
        // Relaxed: it may be over at any time.
        self.0.load(Ordering::Relaxed) & PUBLISHED != 0
    }

    /// Is the record taken, and does `is_seen` say so of what is in it, or is it not published yet? Asked by a watcher that ends.
    pub(super) fn is_taken(&self, is_seen: impl FnOnce() -> bool) -> bool {
        // Acquire: pairs with Release in `publish`, for what is in it.
        let stamp = self.0.load(Ordering::Acquire);
        stamp & PREPARED != 0 || stamp & PUBLISHED != 0 && is_seen()
    }

    /// How often the record was taken.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.uses() / USE
    }

    /// What `read` finds in the record, if it is published. It gets the number of the use, and is asked again if that ends meanwhile and another begins.
    #[inline]
    pub(super) fn look<R>(&self, read: impl Fn(u64) -> R) -> Option<R> {
        for _ in 0..TRIES {
            // Acquire: pairs with Release in `publish`.
            let stamp = self.0.load(Ordering::Acquire);
            if stamp & PUBLISHED == 0 {
                return None;
            }
            let found = read(stamp / USE);
            // Acquire: pairs with the Release fence in `try_take`.
            fence(Ordering::Acquire);
            if self.0.load(Ordering::Relaxed) == stamp {
                return Some(found);
            }
        }
        None
    }
}

/// Which lock a record is of: another generation is another lock.
pub(super) struct Generation(pub(super) AtomicU32);

impl Generation {
    #[inline]
    pub(super) fn get(&self) -> u32 {
        // Relaxed: for the one that has the lock it does not change, and a look asks again when it has read the record.
        self.0.load(Ordering::Relaxed)
    }

    /// Is the record, which was read since this was its generation, still of the same lock? Then all that was read is of that.
    pub(super) fn is_still(&self, generation: u32) -> bool {
        // Acquire: pairs with Release in `HolderSlot::write`: what another lock's holder wrote came after `next`.
        fence(Ordering::Acquire);
        self.get() == generation
    }

    /// The lock is gone. Before the record is another's.
    pub(super) fn next(&self) {
        // Relaxed: no other thread has the lock.
        self.0.store(self.get().wrapping_add(1), Ordering::Relaxed);
    }
}
