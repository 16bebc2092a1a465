//! Divides the polls of a worker between its local queue, whose tasks any worker may run, and its home queue, from which it alone takes.
//!
//! If both have tasks, they have turns. A turn is as many polls as the queue had tasks when the turn began, so each task is polled once before any is polled twice, in whichever queue they are: two tasks that
//! yield for ever do not hold up two hundred that were woken at home. A turn has at most [`MOST`] polls and lasts about [`LONGEST`], so that a very long queue does not hold up the other one.
//!
//! Between two turns, and before every pick while only one of the queues has tasks, the inbox is emptied into the home queue. So a task that another thread has woken, or a closure that it has posted,
//! gets its place in the home queue after one turn at most.

use super::worker::Local;
use super::{Item, LOCAL_CAPACITY, Shared};
use std::time::{Duration, Instant};

/// How many polls a turn has at most.
pub(super) const MOST: usize = 256;
/// How long a turn lasts at most; it ends at the first look at the clock after that.
const LONGEST: Duration = Duration::from_micros(500);

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueTurn {
    /// The home queue's, or else the local queue's.
    home: bool,
    /// How many polls of it are left. 0 while only one of the queues has something.
    left: usize,
    /// When it is over; known at the first look at the clock.
    ends: Option<Instant>,
}

impl Local {
    /// From the local or the home queue.
    #[inline]
    pub(super) fn pick_by_turns(&self, shared: &Shared) -> Option<Item> {
        let turn = self.turn.get();
        if turn.left > 0 {
            if let Some(item) = self.pick_from(turn.home) {
                self.turn.set(QueueTurn { left: turn.left - 1, ..turn });
                return Some(item);
            }
            // A thief has been there.
        }
        self.take_inbox(shared);
        let (home, local) = (self.home.borrow().len(), LOCAL_CAPACITY - self.queue.spare_capacity());
        let next = if home > 0 && local > 0 {
            let len = if turn.home { local } else { home };
            QueueTurn { home: !turn.home, left: len.min(MOST) - 1, ends: None }
        } else {
            QueueTurn { home: home > 0, ..QueueTurn::default() }
        };
        self.turn.set(next);
        // The other one, if a thief has been there.
        self.pick_from(next.home).or_else(|| self.pick_from(!next.home))
    }

    #[inline]
    fn pick_from(&self, home: bool) -> Option<Item> {
        if home { self.home.borrow_mut().pop() } else { self.queue.pop().map(Item::Task) }
    }

    /// Everything in the inbox goes to the end of the home queue.
    #[inline]
    pub(crate) fn take_inbox(&self, shared: &Shared) {
        let inbox = &shared.remotes[self.index].inbox;
        if !inbox.looks_empty() {
            self.home.borrow_mut().append(inbox.take_all());
        }
    }

    #[inline]
    pub(super) fn has_turn(&self) -> bool {
        self.turn.get().left > 0
    }

    /// A turn that has lasted so long is over.
    pub(super) fn limit_turn(&self, now: Instant) {
        let turn = self.turn.get();
        if turn.left > 0 {
            let ends = turn.ends.unwrap_or(now + LONGEST);
            let left = if now >= ends { 0 } else { turn.left };
            self.turn.set(QueueTurn { left, ends: Some(ends), ..turn });
        }
    }
}
