//! The semaphore under `EDIT`: what is free, who is served, and the loop that serves.
//!
//! The states, the transitions and the invariants that are cited here are those of `raw.rs`.

use super::SemaphorePolicy;
use super::raw::{CLOSED, RawSemaphore};
use crate::error::{Closed, TryAcquireError};
use crate::queue::batch::{Panics, WakeBatch};
use crate::queue::waiter::{Verdict, wake};
use crate::queue::{Deferred, LockedQueue, Pinned, QueueGuard, QueueUnlocked, Removed};
use core::task::{Poll, Waker};

/// The queue under `EDIT`, with what is free in plain sight. The evidence that invariant 3 asks for.
#[must_use = "the queue is unlocked when this is dropped"]
pub(super) struct Ledger<'s, P> {
    raw: &'s RawSemaphore<P>,
    pub(super) locked: LockedQueue<'s>,
    pub(super) free: usize,
}

/// What became of the front.
#[must_use = "a served waiter must be woken after the edit"]
enum Served {
    /// Nobody waits, or the front must go on waiting: there is nothing more to do.
    Nobody,
    /// It was granted or refused and is out of the queue; there may be more to serve.
    Front(Deferred<Option<Waker>>),
    /// It was called to take what is free; there is nothing more to do.
    Called(Deferred<Option<Waker>>),
}

impl<'s, P: SemaphorePolicy> Ledger<'s, P> {
    #[inline(always)]
    pub(super) fn new(raw: &'s RawSemaphore<P>, locked: LockedQueue<'s>) -> Self {
        if locked.has_waiters() {
            return Self::queued(raw, locked);
        }
        Self { raw, free: locked.word().count(), locked }
    }

    /// Of a word that has `WAITERS`.
    #[inline(always)]
    pub(super) fn queued(raw: &'s RawSemaphore<P>, locked: LockedQueue<'s>) -> Self {
        debug_assert!(locked.has_waiters(), "nobody waits in {:?}", locked.word());
        // SAFETY: invariant 3: we are the editor.
        let free = raw.surplus.with(|surplus| unsafe { *surplus });
        Self { raw, locked, free }
    }

    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        self.locked.word().has(CLOSED)
    }

    /// A newcomer takes permits, ahead of the queue if the policy lets it.
    #[inline(always)]
    pub(super) fn take(&mut self, permits: usize) -> Result<(), TryAcquireError> {
        if self.is_closed() {
            return Err(TryAcquireError::Closed);
        }
        if permits == 0 {
            return Ok(());
        }
        if !self.covers_newcomer(permits) {
            return Err(TryAcquireError::NoPermits);
        }
        if P::OVERTAKES > 0 {
            self.locked.overtake_front();
        }
        self.free -= permits;
        Ok(())
    }

    /// Are so many free, and not kept for the front?
    #[inline(always)]
    fn covers_newcomer(&self, permits: usize) -> bool {
        self.free >= permits && (!self.locked.has_waiters() || self.front_may_be_overtaken())
    }

    /// Would [`take`](Self::take) end the acquisition, with the permits or because it is closed?
    pub(super) fn may_take(&self, permits: usize) -> bool {
        self.is_closed() || self.covers_newcomer(permits)
    }

    #[inline(always)]
    fn front_may_be_overtaken(&self) -> bool {
        P::OVERTAKES > 0 && self.locked.front_overtaken() < P::OVERTAKES
    }

    /// A listed waiter asks whether its wait can end now. The front must take what it was called for: nobody
    /// else may ever come to grant it.
    pub(super) fn claim(&mut self, waiter: Pinned<'_>) -> Poll<Result<(), Closed>> {
        if self.is_closed() {
            return Poll::Ready(Err(Closed));
        }
        if !self.locked.is_front(waiter) || waiter.get().permits() > self.free {
            return Poll::Pending;
        }
        self.free -= waiter.get().permits();
        Poll::Ready(Ok(()))
    }

    /// Is there a front, and something to do for it?
    #[inline(always)]
    fn covers_front(&self) -> bool {
        // Nobody waits for nothing: mostly that is known without a look at the front.
        if self.free == 0 && !self.is_closed() {
            return false;
        }
        self.locked.front().is_some_and(|front| self.is_closed() || front.permits() <= self.free)
    }

    /// One turn of the serving loop.
    #[inline(always)]
    fn serve_front(&mut self) -> Served {
        let Some(front) = self.locked.front() else { return Served::Nobody };
        if self.is_closed() {
            // SAFETY: there is a front.
            return Served::Front(unsafe { self.locked.refuse_front() });
        }
        let Some(rest) = self.free.checked_sub(front.permits()) else { return Served::Nobody };
        if self.front_may_be_overtaken() && !self.covers_second(rest) {
            // SAFETY: there is a front.
            return Served::Called(unsafe { self.locked.wake_front() });
        }
        self.free = rest;
        if P::OVERTAKES == 0 {
            // SAFETY: there is a front; without overtakes no waiter is ever `Woken`.
            return Served::Front(unsafe { self.locked.grant_sleeping_front() }.some());
        }
        // SAFETY: there is a front.
        Served::Front(unsafe { self.locked.grant_front() })
    }

    /// Would so many serve the waiter after the front?
    fn covers_second(&self, free: usize) -> bool {
        self.locked.second().is_some_and(|second| second.permits() <= free)
    }

    /// Takes a waiter out that has not been granted; by its own future.
    pub(super) fn remove(&mut self, waiter: Pinned<'_>, verdict: Verdict) -> Deferred<Option<Waker>> {
        // SAFETY: the waiters of a semaphore are never moved to another queue.
        match unsafe { self.locked.remove_as(waiter, verdict) } {
            Removed::Waker(waker) => waker,
            Removed::AlreadyGranted => Deferred::none(),
        }
    }

    /// Serves whoever can be served, unlocks the queue, and wakes.
    #[inline(always)]
    pub(super) fn sweep(self) {
        self.sweep_with(Deferred::nothing());
    }

    /// As [`sweep`](Self::sweep), and opens what had come out of the queue.
    #[inline(always)]
    pub(super) fn sweep_with<T>(mut self, deferred: Deferred<T>) -> T {
        // Mostly there is nobody to serve, or one.
        let (waker, is_last) = match self.serve_front() {
            Served::Nobody => return self.unlock_with(deferred),
            Served::Called(waker) => (waker, true),
            Served::Front(waker) => (waker, !self.covers_front()),
        };
        if is_last {
            let (waker, foreign) = self.unlock_with(waker.and(deferred));
            wake(waker);
            return foreign;
        }
        self.grant_rest_after(waker, deferred)
    }

    /// More than one waiter is to be served; the first has been.
    #[inline(never)]
    fn grant_rest_after<T>(mut self, first: Deferred<Option<Waker>>, deferred: Deferred<T>) -> T {
        let mut sweep = Sweep { raw: self.raw, batch: WakeBatch::new(), owed: true };
        let mut panics = Panics::default();
        sweep.batch.push(first);
        sweep.owed = sweep.fill(&mut self);
        let unlocked = self.unlock();
        let foreign = deferred.open(unlocked);
        sweep.run(unlocked, &mut panics);
        drop(sweep);
        panics.resume();
        foreign
    }
}

impl<P> QueueGuard for Ledger<'_, P> {}

impl<P> Drop for Ledger<'_, P> {
    /// Writes back what is free; the queue is unlocked behind it.
    #[inline(always)]
    fn drop(&mut self) {
        if self.locked.has_waiters() {
            let free = self.free;
            // SAFETY: invariant 3: we are the editor.
            self.raw.surplus.with_mut(|surplus| unsafe { *surplus = free });
        } else {
            self.locked.set_count(self.free);
        }
    }
}

/// The serving loop, which outlives panics.
struct Sweep<'s, P: SemaphorePolicy> {
    raw: &'s RawSemaphore<P>,
    batch: WakeBatch,
    owed: bool,
}

impl<P: SemaphorePolicy> Sweep<'_, P> {
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
        let mut ledger = self.raw.open();
        self.owed = self.fill(&mut ledger);
        ledger.unlock()
    }

    /// Serves until the batch is full; false when there is nothing more to do.
    fn fill(&mut self, ledger: &mut Ledger<'_, P>) -> bool {
        while !self.batch.is_full() {
            match ledger.serve_front() {
                Served::Nobody => return false,
                Served::Front(waker) => self.batch.push(waker),
                Served::Called(waker) => {
                    self.batch.push(waker);
                    return false;
                }
            }
        }
        true
    }
}

impl<P: SemaphorePolicy> Drop for Sweep<'_, P> {
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
