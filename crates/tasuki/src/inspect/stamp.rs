//! The stamp of a record that is used again and again: whether it is free, whether it may be read, and whether it still is the same use of it.
//!
//! # States, whose upper bits count the uses
//!
//! | state | event | to | fn |
//! |---|---|---|---|
//! | free | a wait is about to begin | prepared, the next use | [`Stamp::try_take`] |
//! | prepared | the waiter has been enqueued | published | [`Stamp::publish`] |
//! | prepared, published | the wait is over | free | [`Stamp::free`] |
//!
//! # Invariants
//! 1. The fields that a look may read are written by the one that took the record, and only while it is prepared.
//! 2. No two uses have the same stamp.
//!
//! # Orderings
//! A sequence lock, as a [`HolderSlot`](super::holder_slot::HolderSlot) is: Release in [`Stamp::publish`] pairs with Acquire in [`Stamp::look`]; the Release fence in [`Stamp::try_take`] with the Acquire fence in
//! [`Stamp::look`]; Release in [`Stamp::free`] with Acquire in [`Stamp::try_take`].
//! A wait that can be part of a cycle is published before it is asked whether the watcher runs, with a `SeqCst` fence between the two: the watcher must not end when such a wait has begun (`watch.rs`).
//! [`Generation`]: Acquire fence in [`Generation::is_still`], for what was read before; what is written into the record of another lock comes after [`Generation::next`].

use super::sync::{AtomicU32, AtomicU64, Ordering, TRIES, fence};

const PREPARED: u64 = 1;
const PUBLISHED: u64 = 2;
const FLAGS: u64 = PREPARED | PUBLISHED;
const USE: u64 = 4;

pub(super) struct Stamp(pub(super) AtomicU64);

impl Stamp {
    /// `free => prepared`. False if another wait has the record.
    #[inline]
    pub(super) fn try_take(&self) -> bool {
        // Relaxed: confirmed by the exchange.
        let before = self.0.load(Ordering::Relaxed);
        let after = before.wrapping_add(USE) | PREPARED;
        // Acquire: pairs with Release in `free`. Relaxed on failure: another record is taken.
        let taken = before & FLAGS == 0
            && self.0.compare_exchange(before, after, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Release: pairs with the Acquire fence in `look`.
        fence(Ordering::Release);
        taken
    }

    /// `prepared => published`. `is_watched`: the watcher must not end without having seen it.
    #[inline]
    pub(super) fn publish(&self, is_watched: bool) {
        // Release: pairs with Acquire in `look`.
        self.0.store(self.uses() | PUBLISHED, Ordering::Release);
        if is_watched {
            // SeqCst: pairs with the fence of a watcher that ends.
            fence(Ordering::SeqCst);
        }
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
        // Relaxed: after the fence of a watcher that ends; elsewhere it may be over at any time.
        self.0.load(Ordering::Relaxed) & PUBLISHED != 0
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
