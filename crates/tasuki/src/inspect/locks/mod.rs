//! What is known of a lock: its name, which tasks hold it, and how often it is waited for.
//!
//! A lock has a record here, from the first time that a task that is known has it or waits for it, or that a permit of it is taken, until it is dropped. Its pointer to the record
//! moves with the lock, so another lock at the same address has another record, and a forgotten guard says nothing of it.
//!
//! | part of a record | file |
//! |---|---|
//! | which lock it is of ([`LockId`]), its label | here |
//! | which tasks have it, and where they took it | `holders.rs`, `thread_slots.rs`, `extra_slots.rs`, `holder_slot.rs` |
//! | how many waited, how long | `figures.rs` |
//! | the waits that keep readers out | `waits/lists.rs` |
//!
//! # Invariant
//! The record of a lock that is dropped has another generation before it is used again: a look that has found holders and then the same generation has found holders of that lock.

mod extra_slots;
mod figures;
mod holders;
mod thread_slots;

use super::pool::{Pool, Record, first};
use super::snapshot::LockLabel;
use super::stamp::Generation;
use super::{LockKind, locked};
use figures::Figures;
pub(crate) use holders::Held;
pub(super) use holders::HolderView;
use holders::Holders;
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
#[cfg(test)]
pub(super) use thread_slots::NEW_SLOT;

const NO_LABEL: LockLabel = LockLabel { kind: LockKind::Mutex, name: None, made_at: None };

/// What is known of a lock. What a hold and a wait write is in the first two lines of a cache, which processors fetch together.
#[repr(C, align(128))]
pub(crate) struct LockRecord {
    pub(crate) holders: Holders,
    /// Its number in the pool; 0 before its first use, and in [`NO_LOCK`].
    number: AtomicU32,
    pub(super) generation: Generation,
    pub(super) figures: Figures,
    label: Mutex<LockLabel>,
    /// The first of the waits that keep readers out ([`waits`](super::waits)).
    pub(super) writers: Mutex<u32>,
    next_free: AtomicU32,
}

const _: () = assert!(core::mem::offset_of!(LockRecord, figures) + Figures::COUNTS <= 128);

impl Record for LockRecord {
    const NEW: Self = Self {
        holders: Holders::NEW,
        number: AtomicU32::new(0),
        generation: Generation(AtomicU32::new(0)),
        figures: Figures::NEW,
        label: Mutex::new(NO_LABEL),
        writers: Mutex::new(0),
        next_free: AtomicU32::new(0),
    };

    fn next_free(&self) -> &AtomicU32 {
        &self.next_free
    }
}

static LOCKS: Pool<LockRecord, { first(1024) }> = Pool::new();

/// The record of all locks for which there was no other. They write into its slot, as into any other; no look reads it.
static NO_LOCK: LockRecord = LockRecord::NEW;

/// A lock that a wait is for: its record, and which use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LockId(u64);

impl LockId {
    pub(crate) const NONE: Self = Self(0);

    pub(super) fn number(self) -> u64 {
        self.0
    }

    pub(super) fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Which use of the record it is.
    pub(super) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Is the record, which was read, still of this lock?
    pub(super) fn is_current(self) -> bool {
        self.record().is_some_and(|record| record.generation.is_still(self.generation()))
    }

    /// The record, if it still is of this lock.
    #[inline]
    pub(super) fn record(self) -> Option<&'static LockRecord> {
        let record = if self == Self::NONE { None } else { Some(LOCKS.get(self.0 as u32)) };
        record.filter(|record| record.generation.get() == self.generation())
    }
}

/// A record for a lock that has none; [`NO_LOCK`] if there is no record left.
#[cold]
pub(crate) fn register(
    kind: LockKind,
    name: Option<&'static str>,
    made_at: &'static Location<'static>,
) -> &'static LockRecord {
    let Some(number) = LOCKS.take() else { return &NO_LOCK };
    let record = LOCKS.get(number);
    // Relaxed: published with the record.
    record.number.store(number, Ordering::Relaxed);
    record.holders.is_shared.store(matches!(kind, LockKind::RwLock | LockKind::Semaphore), Ordering::Relaxed);
    *locked(&record.label) = LockLabel { kind, name, made_at: Some(made_at) };
    record
}

/// The lock is gone, or another thread gave it a record first.
#[cold]
pub(crate) fn unregister(record: &'static LockRecord) {
    if record.is_of_none() {
        return;
    }
    record.generation.next();
    record.holders.reset();
    *locked(&record.writers) = 0;
    record.figures.reset();
    *locked(&record.label) = NO_LABEL;
    // Relaxed: no other thread has the lock.
    LOCKS.put(record.number.load(Ordering::Relaxed));
}

/// Every lock that has a record.
pub(super) fn each(mut see: impl FnMut(LockId, &'static LockRecord)) {
    for number in 1..=LOCKS.used() {
        let record = LOCKS.get(number);
        if record.label() != NO_LABEL {
            see(record.id(), record);
        }
    }
}

impl LockRecord {
    #[inline(always)]
    pub(crate) fn is_of_none(&self) -> bool {
        core::ptr::eq(self, &raw const NO_LOCK)
    }

    /// Which lock the record is of now.
    #[inline]
    pub(crate) fn id(&self) -> LockId {
        // Relaxed: the caller has the lock.
        let (number, generation) = (self.number.load(Ordering::Relaxed), self.generation.get());
        LockId(u64::from(generation) << 32 | u64::from(number))
    }

    pub(super) fn label(&self) -> LockLabel {
        *locked(&self.label)
    }
}
