//! Watching a held lock for a short time before queueing: the spin of `Fifo`, `Lifo` and `Revocable`. Called by `enqueue.rs`; how often it is tried, and for how long, is decided by `mutex/spin.rs`.

use super::super::spin;
use super::{FREE, HELD, RawMutex};
use crate::policy::Policy;
use crate::queue::word::Word;
use crate::shim;

/// What came of watching a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Taken,
    StillHeld,
    /// A queue has formed, or the lock was granted to a waiter.
    Queued,
}

impl<P: Policy> RawMutex<P> {
    /// Does the holder run, and is there no waiter?
    #[inline(always)]
    pub(super) fn is_worth_a_spin(&self, word: Word) -> bool {
        P::SPIN && word == HELD && !self.is_unclaimed()
    }

    /// Watches a lock that is held and that has no queue; true if it got it. A waiter that is enqueued meanwhile ends it, so no waiter is ever
    /// overtaken.
    pub(super) fn spin(&self) -> bool {
        // In the model a spin is only more of the same executions.
        if shim::MODEL || !self.spin.is_worthwhile() {
            return false;
        }
        match self.watch(spin::SHORT_NANOSECONDS) {
            Watched::Taken => {
                self.spin.short_succeeded();
                return true;
            }
            Watched::StillHeld if self.spin.is_long_worthwhile() => {}
            Watched::StillHeld | Watched::Queued => {
                self.spin.short_failed();
                return false;
            }
        }
        let taken = self.watch(spin::LONG_NANOSECONDS) == Watched::Taken;
        if taken {
            self.spin.long_succeeded()
        } else {
            self.spin.long_failed()
        }
        taken
    }

    /// Looks at the word for so long, unless it takes the lock or finds that it must queue.
    fn watch(&self, nanoseconds: u32) -> Watched {
        for _ in 0..crate::spin_pause::pauses(nanoseconds) {
            shim::spin_hint();
            let word = self.queue.load();
            if word == FREE {
                if self.try_lock_at(FREE) {
                    return Watched::Taken;
                }
            } else if word != HELD || self.is_unclaimed() {
                return Watched::Queued;
            }
        }
        Watched::StillHeld
    }
}
