//! Granting waiters until no further one can be granted, in batches, whatever the wakers do.
//!
//! One release can satisfy many waiters: an `RwLock` lets all readers in, a condvar moves all notified waiters to its mutex. The primitive implements
//! [`Granter`] for its locked queue; the loop here does the rest:
//!
//! ```text
//!   lock the queue -> grant until the batch is full -> unlock -> wake the batch --+
//!        ^                                                                        |
//!        +------------------------ as long as there may be more ------------------+
//! ```
//!
//! A waker that panics does not end the loop: waiters that can be granted are granted all the same, and the panic goes on at the end.

use super::batch::{Panics, WakeBatch};
use super::{Deferred, QueueGuard, QueueUnlocked, QueueWaker};

/// A locked queue, with the state of its primitive, from which waiters can be granted.
pub(crate) trait Granter: QueueGuard {
    /// Grants until the batch is full (true: there may be more) or no further waiter can be granted (false).
    fn grant_some(&mut self, batch: &mut WakeBatch) -> bool;

    /// Stores the state of the primitive and unlocks the queue.
    fn close(self) -> QueueUnlocked {
        self.unlock()
    }
}

/// Grants every waiter that can be granted, beginning with this granter; `lock` locks the queue again.
pub(crate) fn grant_loop<G: Granter>(granter: G, lock: impl Fn() -> G) {
    grant_loop_after(Deferred::none(), Deferred::nothing(), granter, lock);
}

/// The same after a waiter has been granted from this granter, which is still to be woken. Opens what else had come out of
/// the queue.
pub(crate) fn grant_loop_after<G: Granter, T>(
    granted: Deferred<Option<QueueWaker>>,
    deferred: Deferred<T>,
    mut granter: G,
    lock: impl Fn() -> G,
) -> T {
    let mut panics = Panics::default();
    let foreign;
    {
        // Dropped in place: it is big.
        let mut grants = GrantLoop { lock, batch: WakeBatch::new(), is_due: true };
        grants.batch.push(granted);
        grants.is_due = granter.grant_some(&mut grants.batch);
        let unlocked = granter.close();
        foreign = deferred.open(unlocked);
        grants.run(unlocked, &mut panics);
    }
    panics.resume();
    foreign
}

struct GrantLoop<G: Granter, F: Fn() -> G> {
    lock: F,
    batch: WakeBatch,
    /// There may be waiters that can be granted.
    is_due: bool,
}

impl<G: Granter, F: Fn() -> G> GrantLoop<G, F> {
    /// Wakes the batch, and grants further ones until there is nothing more to do.
    fn run(&mut self, mut unlocked: QueueUnlocked, panics: &mut Panics) {
        loop {
            self.batch.wake_all(unlocked, panics);
            if !self.is_due {
                return;
            }
            unlocked = self.grant_batch();
        }
    }

    fn grant_batch(&mut self) -> QueueUnlocked {
        let mut granter = (self.lock)();
        self.is_due = granter.grant_some(&mut self.batch);
        granter.close()
    }
}

impl<G: Granter, F: Fn() -> G> Drop for GrantLoop<G, F> {
    /// After a panic that could not be caught, the other waiters are granted here.
    fn drop(&mut self) {
        if self.is_due {
            let mut panics = Panics::default();
            let unlocked = self.grant_batch();
            self.run(unlocked, &mut panics);
            panics.resume();
        }
    }
}
