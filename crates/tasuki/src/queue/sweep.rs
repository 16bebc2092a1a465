//! Serving a queue until nobody more can be served, in batches, whatever the wakers do.
//!
//! A primitive whose release can satisfy many waiters keeps a *ledger*: the edit, with its own books open beside it. A
//! sweep serves from the ledger until a batch is full, closes it, wakes the batch, opens it again, and so
//! on. What is still owed when a waker panics is served all the same.

use super::batch::{Panics, WakeBatch};
use super::{Deferred, QueueLock, QueueUnlocked};
use core::task::Waker;

/// The lock of a queue, with the state of the primitive open beside it.
pub(crate) trait Ledger: QueueLock {
    /// Serves until the batch is full (true: there may be more to do) or nobody more can be served (false).
    fn serve(&mut self, batch: &mut WakeBatch) -> bool;

    /// Closes the books and unlocks the queue.
    fn close(self) -> QueueUnlocked {
        self.unlock()
    }
}

/// Serves every waiter that can be served, beginning with this ledger; `open` locks the queue again.
pub(crate) fn sweep<L: Ledger>(ledger: L, open: impl Fn() -> L) {
    sweep_on(Deferred::none(), Deferred::nothing(), ledger, open);
}

/// The same after a waiter has been served from this ledger, which is still to be woken. Opens what else had come out of
/// the queue.
pub(crate) fn sweep_on<L: Ledger, T>(
    served: Deferred<Option<Waker>>,
    deferred: Deferred<T>,
    mut ledger: L,
    open: impl Fn() -> L,
) -> T {
    let mut panics = Panics::default();
    let foreign;
    {
        // Dropped in place: it is big.
        let mut sweep = Sweep { open, batch: WakeBatch::new(), owed: true };
        sweep.batch.push(served);
        sweep.owed = ledger.serve(&mut sweep.batch);
        let unlocked = ledger.close();
        foreign = deferred.open(unlocked);
        sweep.run(unlocked, &mut panics);
    }
    panics.resume();
    foreign
}

struct Sweep<L: Ledger, F: Fn() -> L> {
    open: F,
    batch: WakeBatch,
    owed: bool,
}

impl<L: Ledger, F: Fn() -> L> Sweep<L, F> {
    /// Wakes the batch, and serves further ones until there is nothing more to do.
    fn run(&mut self, mut unlocked: QueueUnlocked, panics: &mut Panics) {
        loop {
            self.batch.wake_all(unlocked, panics);
            if !self.owed {
                return;
            }
            unlocked = self.serve();
        }
    }

    /// One batch is served.
    fn serve(&mut self) -> QueueUnlocked {
        let mut ledger = (self.open)();
        self.owed = ledger.serve(&mut self.batch);
        ledger.close()
    }
}

impl<L: Ledger, F: Fn() -> L> Drop for Sweep<L, F> {
    /// After a panic that could not be caught, the rest is served here.
    fn drop(&mut self) {
        if self.owed {
            let mut panics = Panics::default();
            let unlocked = self.serve();
            self.run(unlocked, &mut panics);
            panics.resume();
        }
    }
}
