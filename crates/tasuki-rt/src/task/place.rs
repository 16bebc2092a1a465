//! Where a task is registered, and whether it was asked to end: one word with two bits and an entry.
//!
//! # States
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | new | abort | aborted | none: the task is in a queue, or is being polled | [`Place::abort`] |
//! | new | the first poll leaves the task waiting | registered | none | [`Place::register`] |
//! | aborted | the same | aborted, registered | wake the task | [`Place::register`] |
//! | registered | abort | aborted, registered | wake the task, through the registry | [`Place::abort`] |
//!
//! Both sides are read-modify-writes of the one word, so one of them sees the other, and wakes.
//!
//! # Orderings
//! Release in `abort` pairs with Acquire in `look`: what the aborter did before. The entry is only a number, and
//! its shard has a lock.

use super::registry::Entry;
use crate::shim::{AtomicU64, Ordering};

/// The task has been asked to end.
const ABORTED: u64 = 1 << 63;
/// The rest of the word is the task's entry in the registry.
const REGISTERED: u64 = 1 << 62;

/// The word.
#[derive(Debug)]
pub(crate) struct Place(AtomicU64);

/// The word, read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look(u64);

impl Look {
    #[inline]
    pub(crate) fn is_aborted(self) -> bool {
        self.0 & ABORTED != 0
    }

    /// The entry, if there is one.
    #[inline]
    pub(crate) fn entry(self) -> Option<Entry> {
        let bits = self.0 & !(ABORTED | REGISTERED);
        (self.0 & REGISTERED != 0).then_some(Entry { shard: (bits >> 32) as u32, slot: bits as u32 })
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Asks the task to end. The entry by which it is to be woken, if it needs that.
    #[must_use]
    pub(crate) fn abort(&self) -> Option<Entry> {
        // Release: pairs with Acquire in `look`. AcqRel would gain nothing, see above.
        Look(self.0.fetch_or(ABORTED, Ordering::Release)).entry()
    }

    /// Notes where the task is registered; true if it was asked to end before, and is to be woken.
    #[must_use]
    pub(crate) fn register(&self, entry: Entry) -> bool {
        let place = REGISTERED | u64::from(entry.shard) << 32 | u64::from(entry.slot);
        // Relaxed: an aborter that sees the place takes the lock of the shard; one that came before has left its bit.
        Look(self.0.fetch_or(place, Ordering::Relaxed)).is_aborted()
    }

    /// For the poll.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        // Acquire: pairs with Release in `abort`.
        Look(self.0.load(Ordering::Acquire))
    }

    /// For the end of the task.
    pub(crate) fn last_entry(&self) -> Option<Entry> {
        // Relaxed: written by a poll, which came before in the life of the task.
        Look(self.0.load(Ordering::Relaxed)).entry()
    }
}
