//! The virtual time that busy loops of a simulation use up: a poll that only yields costs 1 µs at first, and more the longer nothing else becomes ready.
//!
//! The clock of a simulation stands still while a task can run. A loop that waits for a deadline in this way can always run, so without this it would never end. A switch at an operation that is
//! ready may be such a loop as well, or one that gets on with its work: so the first [`FREE_SWITCHES`] in a row cost nothing. So may polls of a task that is woken during them, by a grant to another of its futures or by a clone of its own waker: the
//! first [`FREE_SELF_WAKES`] cost nothing.

use std::cell::Cell;
use std::time::Duration;

/// What a poll that only yields costs at first, and after how many of them in a row it costs twice as much.
const YIELD_COSTS: Duration = Duration::from_micros(1);
const YIELDS_DOUBLE: u32 = 1_000;
/// How many polls in a row may switch at an operation that is ready before such a poll costs as much as a yield.
const FREE_SWITCHES: u32 = 10_000;
/// How many polls in a row may wake their own task.
const FREE_SELF_WAKES: u32 = 65_536;

/// Polls in a row in which nothing else became ready, and the time that they have used up.
#[derive(Debug, Default)]
pub(super) struct SpinClock {
    yields: Cell<u32>,
    switches: Cell<u32>,
    self_wakes: Cell<u32>,
    used: Cell<Duration>,
}

impl SpinClock {
    /// Something else has happened.
    pub(super) fn reset(&self) {
        self.yields.set(0);
        self.switches.set(0);
        self.self_wakes.set(0);
        self.used.set(Duration::ZERO);
    }

    /// A task was woken during its own poll, mostly by a grant: the switches before were work.
    pub(super) fn self_woken(&self) {
        self.switches.set(0);
    }

    /// A poll ended and left nothing ready but tasks that yielded, switched (`switched`) or woke themselves (`woke_itself`). Returns the time that has been used up, in whole ticks.
    pub(super) fn count(&self, switched: bool, woke_itself: bool) -> Duration {
        let is_free = |counts: bool, polls: &Cell<u32>, free: u32| {
            if counts {
                polls.set(polls.get().saturating_add(1));
            }
            counts && polls.get() <= free
        };
        if is_free(switched, &self.switches, FREE_SWITCHES)
            || is_free(woke_itself, &self.self_wakes, FREE_SELF_WAKES)
        {
            return Duration::ZERO;
        }
        let yields = self.yields.get();
        self.yields.set(yields.saturating_add(1));
        let doubled = (yields / YIELDS_DOUBLE).min(30);
        self.used.set(self.used.get().saturating_add(YIELD_COSTS * (1 << doubled)));
        // The clock moves by whole ticks of the wheel, of 1 ms.
        Duration::from_millis(self.used.get().as_millis() as u64)
    }

    /// The clock has moved by so much of it.
    pub(super) fn spend(&self, time: Duration) {
        self.used.set(self.used.get().saturating_sub(time));
    }
}
