//! `WaitNote`: what a waiter keeps of its record in `inspect/`, where that is active: the number of the record.
//!
//! The future of the wait says by it that the wait was enqueued, polled again, or is over; a releaser says that the end of the wait has come, with the queue locked. So nothing here may run foreign code.
//! [`WaitSlot`] is for waits in no queue (`signal_wait.rs`). `no_notes.rs` has the same types, empty.

use super::limits::is_limited;
use super::notes::{Target, WaitBegin, me, my_number, waits_have_moved};
use crate::inspect::waits;
use core::sync::atomic::{AtomicU64, Ordering};

/// The record of a wait, kept in its waiter; 0 is none.
#[derive(Clone, Copy, Debug)]
pub struct WaitNote(pub(super) u32);

impl WaitNote {
    pub(crate) const NONE: Self = Self(0);

    /// The waiter is about to be enqueued. Called with the queue locked.
    #[inline]
    pub(crate) fn enqueued(self) {
        if self.0 != 0 {
            waits::enqueued(self.0);
        }
    }

    /// Its future has been polled, and waits on: the wait is the running task's.
    pub(crate) fn polled(self) {
        if self.0 != 0 && waits::polled(self.0, my_number(), is_limited()) {
            waits_have_moved();
        }
    }

    /// A wait of the running task for a signal, which has begun: no future of this crate has it.
    pub(crate) fn of_signal(name: &'static &'static str) -> Self {
        let Some(me) = me() else { return Self::NONE };
        let begin = WaitBegin::of(me, Target::SIGNAL, name, None);
        let note = begin.note();
        // No wait for a signal closes a cycle.
        let _ = begin.enqueued();
        note
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The waiter is about to be granted, or taken out by its own future. Called with the queue locked.
    #[inline]
    pub(crate) fn came(self) {
        if self.0 != 0 {
            waits::came(self.0);
        }
    }

    /// The waiter is about to be refused. Called with the queue locked.
    #[inline]
    pub(crate) fn refused(self) {
        if self.0 != 0 {
            waits::refused(self.0);
        }
    }

    /// Both have been polled and wait, and the second ends the first. Called by their own future.
    pub(crate) fn limited_by(self, limit: Self) {
        if self.0 != 0 && limit.0 != 0 {
            waits::limited_by(self.0, limit.0);
        }
    }

    /// The wait is over. Called once, by its own future.
    pub(crate) fn end(self) {
        if self.0 != 0 {
            waits::end(self.0);
        }
    }
}

/// The id of a wait, for the code that gives the signal that it is for; 0 is none. Relaxed: a store that comes late, or an id that is read late, leaves a wait that is taken for one that may still end.
#[derive(Debug)]
pub(crate) struct WaitSlot(AtomicU64);

impl WaitSlot {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn set(&self, note: WaitNote) {
        if note.0 != 0 {
            self.0.store(waits::id_of(note.0), Ordering::Relaxed);
        }
    }

    pub(crate) fn came(&self) {
        match self.0.load(Ordering::Relaxed) {
            0 => {}
            wait => waits::signal_came(wait),
        }
    }
}
