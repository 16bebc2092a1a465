//! Waits whose end has come and that have not been polled since: a timer has fired, a signal was given, a close has refused it. And limits that have been reached while the wait that they limit was not polled.
//!
//! A task may keep a future without polling it: `select!` in a loop over a pinned sleep does, while its handler runs. Until the sleep fires the task goes on by itself, whatever else it waits for. When it has fired, its task has been woken; if
//! the task then does not poll the sleep, nothing more comes from it. So the releaser notes in the record that the end has come, and a look takes such a wait for none. Of a wait with a limit that has been reached
//! the grant is still to come: a look takes it for one without a limit.
//!
//! ```text
//!   wait.timeout(t).or_cancelled(c):   the wait --limit--> the sleep --limit--> the wait for the token      (ids of records)
//! ```
//!
//! | event | fn |
//! |---|---|
//! | the waiter is about to be notified | [`came`], or [`refused`], with the queue locked |
//! | a wait of a runtime's own future: what it is for has come | [`signal_came`] |
//! | a wait that was notified is enqueued again, in another queue | [`WaitRecord::comes_again`] |
//! | a wait and its limit have been polled, and both wait | [`limited_by`] |
//!
//! # Invariants
//! 1. `over` is the number of a use of the record, or 0: that use has come to its end. A number of another use says nothing; and the note of a use is not replaced by that of an earlier one ([`signal_came`]). (It has the lower half of the count, as the id of a wait has.)
//! 2. `limit` is the id of a wait, or 0, and is read only of a record whose request has a limit. If that wait has ended, it is not found.
//!
//! # Orderings
//! All Relaxed. Each word says something by itself. A look that reads an old value takes the wait for one that may still end by itself: a cycle is then found by a later look. What is confirmed after a second was read twice.
//! Before the waiter is notified its record is not freed (`wait/single.rs`), so [`came`] has the record of the wait; [`signal_came`] has the id of a wait and relies on invariant 1.

use super::looks::is_use;
use super::{WaitRecord, Want, get, id, load, store};
use std::sync::atomic::Ordering;

/// So many limits around one wait are followed.
const LIMITS: usize = 8;

/// The waiter is about to be granted. Of a lock its holder is noted instead. Called with the queue locked.
#[inline]
pub(crate) fn came(number: u32) {
    let record = get(number);
    if matches!(record.request().want(), Want::Signal | Want::Time) {
        record.set_over();
    }
}

/// The waiter is about to be refused: its next poll returns an error. Called with the queue locked.
pub(crate) fn refused(number: u32) {
    get(number).set_over();
}

/// What the wait with this id was for has come, unless that wait is over.
pub(crate) fn signal_came(wait: u64) {
    let record = get(wait as u32);
    let before = load(&record.over);
    if is_use(record.stamp.count(), wait) {
        // Not a store: if the record has become another wait's since, what that one noted stays.
        let over = (wait >> 32) as u32;
        // Relaxed: the word says something by itself.
        let _ = record.over.compare_exchange(before, over, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The id of a wait that goes on. Called by its own future.
pub(crate) fn id_of(number: u32) -> u64 {
    id(get(number).stamp.count(), number)
}

/// Both wait, and the second one ends the first. Called by their own future.
pub(crate) fn limited_by(number: u32, limit: u32) {
    get(number).limit.store(id_of(limit), Ordering::Relaxed);
}

impl WaitRecord {
    fn set_over(&self) {
        store(&self.over, self.stamp.count() as u32);
    }

    /// It is enqueued again.
    pub(super) fn comes_again(&self) {
        store(&self.over, 0);
    }

    /// Has this use of it come to its end?
    pub(super) fn has_come(&self, uses: u64) -> bool {
        let over = load(&self.over);
        over != 0 && over == uses as u32
    }

    /// Has this use of it come to its end, of now?
    pub(super) fn is_over(&self) -> bool {
        self.has_come(self.stamp.count())
    }

    /// Does a limit end it, that has not been reached?
    pub(super) fn ends_by_limit(&self) -> bool {
        self.request().is_limited() && !self.limit_has_come()
    }

    /// Has one of its limits been reached?
    fn limit_has_come(&self) -> bool {
        let mut at = self;
        for _ in 0..LIMITS {
            let limit = at.limit.load(Ordering::Relaxed);
            if !at.request().is_limited() || limit == 0 {
                return false;
            }
            let record = get(limit as u32);
            match record.stamp.look(|uses| (is_use(uses, limit), record.has_come(uses))) {
                Some((true, true)) => return true,
                Some((true, false)) => at = record,
                _ => return false,
            }
        }
        false
    }
}
