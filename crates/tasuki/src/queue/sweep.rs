//! Serving a queue until nobody more can be served, in batches, whatever the wakers do.
//!
//! A primitive whose release can satisfy many waiters keeps a *ledger*: the edit, with its own books open beside it. A
//! sweep serves from the ledger until a batch is full, closes it, wakes the batch, opens it again, and so
//! on. What is still owed when a waker panics is served all the same.

use super::batch::{Panics, WakeBatch};
use core::task::Waker;

/// An edit with the primitive's books open.
pub(crate) trait Ledger: Sized {
    /// Serves until the batch is full (true: there may be more to do) or nobody more can be served (false).
    fn serve(&mut self, batch: &mut WakeBatch) -> bool;

    /// Closes the books and ends the edit.
    fn close(self);
}

/// Serves whoever can be served, beginning with this ledger; `open` begins another edit.
pub(crate) fn sweep<L: Ledger>(ledger: L, open: impl Fn() -> L) {
    sweep_on(None, ledger, open);
}

/// The same after somebody has been served from this ledger, who is still to be woken.
pub(crate) fn sweep_on<L: Ledger>(served: Option<Waker>, ledger: L, open: impl Fn() -> L) {
    let mut panics = Panics::default();
    {
        // Dropped in place: it is big.
        let mut sweep = Sweep { open, batch: WakeBatch::new(), owed: true };
        sweep.batch.push(served);
        sweep.run(ledger, &mut panics);
    }
    panics.resume();
}

struct Sweep<L: Ledger, F: Fn() -> L> {
    open: F,
    batch: WakeBatch,
    owed: bool,
}

impl<L: Ledger, F: Fn() -> L> Sweep<L, F> {
    fn run(&mut self, mut ledger: L, panics: &mut Panics) {
        loop {
            self.owed = ledger.serve(&mut self.batch);
            ledger.close();
            self.batch.wake_all(panics);
            if !self.owed {
                return;
            }
            ledger = (self.open)();
        }
    }
}

impl<L: Ledger, F: Fn() -> L> Drop for Sweep<L, F> {
    /// After a panic that could not be caught, the rest is served here.
    fn drop(&mut self) {
        if self.owed {
            let mut panics = Panics::default();
            self.run((self.open)(), &mut panics);
            panics.resume();
        }
    }
}
