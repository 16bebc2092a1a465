//! The semaphore with its queue locked: what is free, which waiter can be granted, and the grants themselves.
//!
//! Called by `raw.rs` wherever waiters are involved. A [`Supply`] takes the number of free permits out of the word, or from beside it, and puts it back when it is
//! dropped, which unlocks the queue. It must never run foreign code: what it takes out of the queue is woken and dropped after the unlock.
//!
//! ```text
//!   release 3:   free 3   queue [2] [1] [4]      grant_all:  [2] granted, free 1
//!                                                            [1] granted, free 0
//!                                                            [4] waits, and all behind it
//! ```
//!
//! The states, the transitions and the invariants that are cited here are those of `raw.rs`.

use super::SemaphorePolicy;
use super::count_hint::CountHint;
use super::raw::{CLOSED, RawSemaphore};
use crate::error::{Closed, TryAcquireError};
use crate::probe::LockMode;
use crate::queue::batch::WakeBatch;
use crate::queue::grant_loop::{Granter, grant_loop_after};
use crate::queue::waiter::{Verdict, wake};
use crate::queue::word::MAX_COUNT;
use crate::queue::{Deferred, LockedQueue, Pinned, QueueGuard, QueueWaker, Removed};
use crate::shim::{UnsafeCell, const_fn};
use core::task::Poll;

/// The locked queue, and the permits that are free. The evidence that invariant 3 asks for.
#[must_use = "the queue is unlocked when this is dropped"]
pub(super) struct Supply<'s, P> {
    raw: &'s RawSemaphore<P>,
    pub(super) locked: LockedQueue<'s>,
    pub(super) free: usize,
}

/// What is free with waiters queued, in six bytes: the other two of the word are the hint. The count is touched only with the queue locked (invariant 3), the hint is an atomic.
#[derive(Debug)]
pub(super) struct Surplus {
    low: UnsafeCell<u32>,
    high: UnsafeCell<u16>,
    /// Here, because two structures would not share a word.
    pub(super) count_hint: CountHint,
}

// A count has room in it.
const _: () = assert!(MAX_COUNT as u64 >> 48 == 0);

impl Surplus {
    const_fn! {
        /// No surplus, in a semaphore that begins with so many permits.
        pub(super) const fn new(permits: usize) -> Self {
            Self { low: UnsafeCell::new(0), high: UnsafeCell::new(0), count_hint: CountHint::new(permits) }
        }
    }

    #[inline(always)]
    fn get(&self, _locked: &LockedQueue<'_>) -> usize {
        // SAFETY: invariant 3, by the evidence.
        let low = self.low.with(|low| unsafe { *low });
        // SAFETY: as above.
        let high = self.high.with(|high| unsafe { *high });
        (u64::from(low) | u64::from(high) << 32) as usize
    }

    #[inline(always)]
    fn set(&self, _locked: &LockedQueue<'_>, permits: usize) {
        let permits = permits as u64;
        debug_assert!(permits <= MAX_COUNT as u64, "more permits than there can be");
        // SAFETY: invariant 3, by the evidence.
        self.low.with_mut(|low| unsafe { *low = permits as u32 });
        // SAFETY: as above.
        self.high.with_mut(|high| unsafe { *high = (permits >> 32) as u16 });
    }
}

/// What became of the front.
#[must_use = "a granted waiter must be woken after the queue is unlocked"]
enum FrontGrant {
    /// There is no waiter, or the front must go on waiting: no further waiter can be granted.
    None,
    /// It was granted or refused, and is out of the queue; there may be more to grant.
    Removed(Deferred<Option<QueueWaker>>),
    /// It was woken to take what is free, and keeps its place; no further waiter can be granted.
    Woken(Deferred<Option<QueueWaker>>),
}

impl<'s, P: SemaphorePolicy> Supply<'s, P> {
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
        debug_assert!(locked.has_waiters(), "no waiter in {:?}", locked.word());
        let free = raw.surplus.get(&locked);
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

    /// A queued waiter asks whether its wait can end now. The front must take what it was woken for: there may never
    /// be another release to grant it.
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
        // Every waiter asks for a permit at least: mostly that is known without a look at the front.
        if self.free == 0 && !self.is_closed() {
            return false;
        }
        self.locked.front().is_some_and(|front| self.is_closed() || front.permits() <= self.free)
    }

    /// Grants or refuses the front, or wakes it, if that can be done.
    #[inline(always)]
    fn grant_front(&mut self) -> FrontGrant {
        let Some(front) = self.locked.front() else { return FrontGrant::None };
        if self.is_closed() {
            // SAFETY: there is a front.
            return FrontGrant::Removed(unsafe { self.locked.refuse_front() });
        }
        let Some(rest) = self.free.checked_sub(front.permits()) else { return FrontGrant::None };
        if self.front_may_be_overtaken() && !self.covers_second(rest) {
            // SAFETY: there is a front.
            return FrontGrant::Woken(unsafe { self.locked.wake_front() });
        }
        self.free = rest;
        self.raw.probe.grants().grant(LockMode::Permits, front.note());
        if P::OVERTAKES == 0 {
            // SAFETY: there is a front; without overtakes no waiter is ever `Woken`.
            return FrontGrant::Removed(unsafe { self.locked.grant_sleeping_front() }.some());
        }
        // SAFETY: there is a front.
        FrontGrant::Removed(unsafe { self.locked.grant_front() })
    }

    /// Are so many enough for the waiter after the front?
    fn covers_second(&self, free: usize) -> bool {
        self.locked.second().is_some_and(|second| second.permits() <= free)
    }

    /// Removes a waiter that has not been granted; by its own future.
    pub(super) fn remove(&mut self, waiter: Pinned<'_>, verdict: Verdict) -> Deferred<Option<QueueWaker>> {
        // SAFETY: the waiters of a semaphore are never moved to another queue.
        match unsafe { self.locked.remove_as(waiter, verdict) } {
            Removed::Waker(waker) => waker,
            Removed::AlreadyGranted => Deferred::none(),
        }
    }

    /// Grants every waiter that can be granted, unlocks the queue, and wakes them.
    #[inline(always)]
    pub(super) fn grant_all(self) {
        self.grant_all_with(Deferred::nothing());
    }

    /// As [`grant_all`](Self::grant_all), and opens what had come out of the queue.
    #[inline(always)]
    pub(super) fn grant_all_with<T>(mut self, deferred: Deferred<T>) -> T {
        // Mostly no waiter can be granted, or one.
        let (waker, is_last) = match self.grant_front() {
            FrontGrant::None => return self.unlock_with(deferred),
            FrontGrant::Woken(waker) => (waker, true),
            FrontGrant::Removed(waker) => (waker, !self.covers_front()),
        };
        if is_last {
            let (waker, foreign) = self.unlock_with(waker.and(deferred));
            wake(waker);
            return foreign;
        }
        self.grant_rest_after(waker, deferred)
    }

    /// More than one waiter can be granted; the first has been.
    #[inline(never)]
    fn grant_rest_after<T>(self, first: Deferred<Option<QueueWaker>>, deferred: Deferred<T>) -> T {
        let raw = self.raw;
        grant_loop_after(first, deferred, self, || raw.lock())
    }
}

impl<P: SemaphorePolicy> Granter for Supply<'_, P> {
    fn grant_some(&mut self, batch: &mut WakeBatch) -> bool {
        while !batch.is_full() {
            match self.grant_front() {
                FrontGrant::None => return false,
                FrontGrant::Removed(waker) => batch.push(waker),
                FrontGrant::Woken(waker) => {
                    batch.push(waker);
                    return false;
                }
            }
        }
        true
    }
}

impl<P> QueueGuard for Supply<'_, P> {}

impl<P> Drop for Supply<'_, P> {
    /// Writes back what is free; the queue is unlocked behind it.
    #[inline(always)]
    fn drop(&mut self) {
        if self.locked.has_waiters() {
            self.raw.surplus.set(&self.locked, self.free);
            self.raw.probe.set_free_permits(self.free);
        } else {
            self.locked.set_count(self.free);
        }
    }
}
