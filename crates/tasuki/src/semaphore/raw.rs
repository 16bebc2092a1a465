//! The semaphore without permits as values: its word, its two policies, its transitions.
//!
//! Without waiters the word is the number of free permits, and to acquire or release is one compare-exchange. With waiters the word leads to the first of them, the
//! number moves beside it, and whatever changes it locks the queue (`supply.rs`). Called by `Semaphore` and its futures. It must never run foreign code with the queue locked.
//!
//! ```text
//!   word:    5                  five free, no waiter
//!            head --> [3] [1]   waiters; surplus 2 beside the word, too few for the first
//! ```
//!
//! # States of the word
//!
//! | word            | meaning                                                       |
//! |-----------------|---------------------------------------------------------------|
//! | `count`         | so many permits are free, no waiter                           |
//! | `head`          | waiters; what is free is in `surplus`, beside the word        |
//! | `count·CLOSED`  | closed; so many permits are free                              |
//! | `head·CLOSED`   | closed, and the waiters are being refused                     |
//!
//! Each with `EDIT` while the queue is locked. Neither an acquisition nor a release looks at the word first, where one task at a time has permits: they
//! take it to be what a hint says (`count_hint.rs`).
//!
//! # Transitions
//!
//! | from            | event                         | to                              | duty             | fn |
//! |-----------------|-------------------------------|---------------------------------|------------------|----|
//! | `count`         | acquire, enough               | `count - n`                     | return `Ready`   | [`RawSemaphore::try_take`] |
//! | `head`          | acquire (`Fifo`)              | `head`, waiter enqueued         | return `Pending` | [`RawSemaphore::enqueue_behind`] |
//! | `count`, `head` | acquire, not enough           | `head`, waiter enqueued         | return `Pending` | [`RawSemaphore::enqueue_or_take_slow`] |
//! | `head`          | acquire, within the bound (`Bypass`) | `surplus - n`, overtake counted | return `Ready` | [`Supply::take`] |
//! | `·CLOSED`       | acquire                       | the same                        | return `Closed`  | [`RawSemaphore::try_take`] |
//! | `count`         | release                       | `count + n`                     | none             | [`RawSemaphore::release`] |
//! | `head`          | release                       | `surplus + n`, then grants      | wake the granted | [`RawSemaphore::release_to_waiters`] |
//! | any             | release, too many             | the same                        | panic; in a drop, not while the thread unwinds | [`RawSemaphore::release`] |
//! | `count`         | forget                        | `count - n`, not below 0        | none             | [`RawSemaphore::forget`] |
//! | any             | close                         | `·CLOSED`, waiters refused      | wake them        | [`RawSemaphore::close`] |
//! | `head`, woken   | poll of the head              | head removed, `surplus - n`     | return `Ready`   | [`RawSemaphore::poll_locked`] |
//! | `head`          | drop of the head              | head removed, then grants       | wake the granted | [`RawSemaphore::cancel`] |
//! | `head`          | drop of another               | waiter removed, then grants     | wake the granted | [`RawSemaphore::cancel`] |
//! | any, granted    | drop                          | as release                      | as release       | [`RawSemaphore::cancel`] |
//!
//! *Grants* are one loop, [`Supply::grant_all`]: from the front, as long as what is free covers what the front asks for. It runs whenever permits were added with waiters
//! queued, or the front has changed, so no waiter is stranded behind one that was cancelled. More waiters than a batch holds are granted in steps, with the queue unlocked
//! in between.
//!
//! # Bypass
//!
//! With waiters an acquisition locks the queue, so the bound is a plain number in the front waiter: a newcomer may take free permits while the front has been overtaken fewer
//! than `N` times, and counts itself. For there to be something to take, the *last* waiter that a release could grant is only woken: it stays the front, its permits
//! stay free, and it takes them when it is polled, unless a newcomer was faster. A front that has been overtaken `N` times is granted as with `Fifo`.
//!
//! # Invariants
//! 1. Permits are conserved: free + granted + held = initial + released - forgotten.
//! 2. With the queue unlocked, and no grant loop on its way: with waiters, what is free does not cover the front; or (`Bypass`) it covers the front alone, the front
//!    has been woken, and may still be overtaken.
//! 3. The count in `surplus` means something only with waiters, and is touched only with the queue locked. The hint beside it is an atomic, and any value is right.
//! 4. After `CLOSED` is set no waiter is enqueued and none is granted.
//! 5. A check that fails has changed nothing.
//!
//! # Orderings
//! The word: Release of [`RawSemaphore::release`] pairs with Acquire of [`RawSemaphore::take_at`]; the exchanges in
//! between, whatever their ordering, continue the release sequence. The lock of the queue takes over what came before it with Acquire
//! and passes it on with Release, a grant publishes through the waiter's state. `CLOSED` is read with Acquire where it ends an acquisition or is the answer; the looks that
//! decide whether to lock the queue are Relaxed.

use super::SemaphorePolicy;
use super::supply::{Supply, Surplus};
use crate::error::{Closed, TryAcquireError};
use crate::probe::LockProbe;
use crate::queue::batch::while_unwinding;
use crate::queue::waiter::{Payload, Verdict, WaiterState, clone_waker, drop_waker};
use crate::queue::word::{EDIT, FLAG_A, MAX_COUNT, WAITERS, Word};
use crate::queue::{Backoff, Pinned, QueueGuard as _, QueueWaker, WaitQueue};
use crate::shim::{Ordering, const_fn};
use crate::wait::WaiterSlot;
use core::marker::PhantomData;
use core::mem;
use core::panic::RefUnwindSafe;
use core::task::{Context, Poll};

/// No permit can be acquired any more.
pub(super) const CLOSED: usize = FLAG_A;

/// The permits, as a number.
#[derive(Debug)]
pub(crate) struct RawSemaphore<P> {
    queue: WaitQueue,
    /// What is free with waiters queued (invariant 3), and a hint of what is free without.
    pub(super) surplus: Surplus,
    /// Where `inspect/` is active, which tasks hold permits.
    pub(super) probe: LockProbe,
    policy: PhantomData<P>,
}

// A panic leaves nothing half done: the state is complete before any foreign call.
impl<P> RefUnwindSafe for RawSemaphore<P> {}

// SAFETY: the count in `surplus` is touched only with the queue locked (invariant 3), and the hint is an atomic; the queue is `Sync`, a policy is no data.
unsafe impl<P> Sync for RawSemaphore<P> {}

impl<P: SemaphorePolicy> RawSemaphore<P> {
    const_fn! {
        /// So many permits, at most [`MAX_COUNT`].
        #[track_caller]
        pub(crate) const fn new(permits: usize) -> Self {
            Self {
                queue: WaitQueue::new(Word::counted(permits)),
                surplus: Surplus::new(permits),
                probe: LockProbe::semaphore(),
                policy: PhantomData,
            }
        }
    }

    /// `count => count - n`, at the first try, with `n` at most [`MAX_COUNT`]. `false` is inconclusive: take the slow path.
    #[inline(always)]
    pub(crate) fn take_fast(&self, permits: usize) -> bool {
        let Some(word) = self.surplus.count_hint.get() else { return self.take_seen(permits) };
        let Some(less) = word.try_minus(permits) else { return false };
        // Acquire: as in `take_at`.
        self.queue.replace(word, less, Ordering::Acquire).is_ok()
    }

    /// The same after a look at the word.
    #[inline(always)]
    fn take_seen(&self, permits: usize) -> bool {
        // The processor holds the exchange back until every branch before it is decided, so there is one.
        let word = self.queue.load();
        let Some(less) = word.try_minus(permits) else { return false };
        // Acquire: as in `take_at`.
        let taken = self.queue.replace(word, less, Ordering::Acquire).is_ok();
        if taken {
            self.surplus.count_hint.learn(word.count());
        }
        taken
    }

    #[inline(always)]
    fn take_at(&self, word: Word, permits: usize) -> Result<(), Word> {
        // Acquire: pairs with Release in `release`, and in the drop of `LockedQueue`.
        self.queue.replace(word, word.minus(permits), Ordering::Acquire)
    }

    /// Takes permits without waiting.
    #[inline]
    pub(crate) fn try_take(&self, permits: usize) -> Result<(), TryAcquireError> {
        if permits <= MAX_COUNT && self.take_fast(permits) { Ok(()) } else { self.try_take_slow(permits) }
    }

    #[inline(never)]
    fn try_take_slow(&self, permits: usize) -> Result<(), TryAcquireError> {
        self.surplus.count_hint.miss();
        loop {
            let word = self.queue.load_settled();
            if word.has(CLOSED) {
                return Err(TryAcquireError::Closed);
            }
            if permits == 0 {
                return Ok(());
            }
            if word.has(WAITERS) {
                // Here, and in `Supply::take`, it is decided whether a newcomer may pass the queue.
                return if P::OVERTAKES == 0 { Err(TryAcquireError::NoPermits) } else { self.barge(permits) };
            }
            if word.count() < permits {
                return Err(TryAcquireError::NoPermits);
            }
            if self.take_at(word, permits).is_ok() {
                return Ok(());
            }
        }
    }

    /// Takes permits of a semaphore that has waiters.
    fn barge(&self, permits: usize) -> Result<(), TryAcquireError> {
        let mut supply = self.lock();
        supply.take(permits)?;
        let taken = Taken { raw: self, permits };
        supply.grant_all();
        mem::forget(taken);
        Ok(())
    }

    /// Would an acquisition end without waiting, with the permits or because it is closed?
    pub(crate) fn is_ready(&self, permits: usize) -> bool {
        let word = self.queue.load_settled();
        if word.has(CLOSED) || permits == 0 {
            return true;
        }
        if !word.has(WAITERS) {
            return word.count() >= permits;
        }
        if P::OVERTAKES == 0 {
            return false;
        }
        self.lock().may_take(permits)
    }

    /// The first poll, where the permits could not be taken at once: enqueues, or takes them after all.
    #[inline(always)]
    pub(crate) fn enqueue_or_take(
        &self,
        permits: usize,
        slot: WaiterSlot<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Closed>> {
        self.surplus.count_hint.miss();
        // A caller that need not wait clones no waker.
        if !must_queue::<P>(self.queue.load(), permits) {
            match self.try_take_slow(permits) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(TryAcquireError::Closed) => return Poll::Ready(Err(Closed)),
                Err(TryAcquireError::NoPermits) => {}
            }
        }
        self.enqueue_behind(permits, slot, clone_waker(cx.waker()))
    }

    /// Enqueues behind other waiters. Nothing but the list changes: what is free stays what it is, and does not cover the front.
    // Kept out of line: spilled registers would delay the compare-exchange.
    #[inline(never)]
    fn enqueue_behind(
        &self,
        permits: usize,
        slot: WaiterSlot<'_>,
        waker: QueueWaker,
    ) -> Poll<Result<(), Closed>> {
        let word = self.queue.load();
        if must_queue::<P>(word, permits) {
            if let Some(mut locked) = self.queue.try_lock(word) {
                locked.push_back(slot.init(waker, Payload::permits(permits)));
                return Poll::Pending;
            }
        }
        self.enqueue_or_take_slow(permits, slot, waker)
    }

    /// Enqueues, or takes the permits if they have become free.
    #[inline(never)]
    fn enqueue_or_take_slow(
        &self,
        permits: usize,
        slot: WaiterSlot<'_>,
        waker: QueueWaker,
    ) -> Poll<Result<(), Closed>> {
        let mut supply = self.lock();
        let taken = match supply.take(permits) {
            Ok(()) => Taken { raw: self, permits },
            Err(TryAcquireError::Closed) => {
                drop(supply);
                drop_waker(Some(waker));
                return Poll::Ready(Err(Closed));
            }
            Err(TryAcquireError::NoPermits) => {
                let ask = Payload::permits(permits);
                // Invariant 2 holds: what is free does not cover the newcomer, or is kept for the front.
                supply.locked.push_back(slot.init(waker, ask));
                return Poll::Pending;
            }
        };
        supply.grant_all();
        drop_waker(Some(waker));
        mem::forget(taken);
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        match waiter.get().state() {
            WaiterState::Notified => Poll::Ready(outcome(waiter)),
            WaiterState::Waiting if waiter.get().will_wake(cx.waker()) && !self.queue.load().has(CLOSED) => {
                Poll::Pending
            }
            WaiterState::Waiting | WaiterState::Woken => self.poll_locked(waiter, cx),
        }
    }

    /// A queued waiter is polled with another waker, was woken, or is about to be refused: its wait ends if that can be done, else it stays in its place with this
    /// waker.
    #[cold]
    fn poll_locked(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        let waker = clone_waker(cx.waker());
        let mut supply = self.lock();
        if waiter.get().state() == WaiterState::Notified {
            drop(supply);
            drop_waker(Some(waker));
            return Poll::Ready(outcome(waiter));
        }
        let ended = supply.claim(waiter);
        if ended.is_pending() {
            // SAFETY: not `Notified`, so it is in this list (invariant 3 of the queue).
            let old = unsafe { supply.locked.rearm(waiter, waker) };
            drop_waker(supply.unlock_with(old));
            return Poll::Pending;
        }
        // Should foreign code panic below, the drop of the future finds the verdict and gives back what was granted.
        let verdict = if ended == Poll::Ready(Ok(())) { Verdict::Granted } else { Verdict::Refused };
        let old = supply.remove(waiter, verdict);
        drop_waker(supply.grant_all_with(old));
        drop_waker(Some(waker));
        ended
    }

    /// Removes the waiter; how the wait had ended, if it had.
    pub(crate) fn cancel(&self, waiter: Pinned<'_>) -> Option<Result<(), Closed>> {
        if waiter.get().state() == WaiterState::Notified {
            return Some(outcome(waiter));
        }
        let mut supply = self.lock();
        if waiter.get().state() == WaiterState::Notified {
            return Some(outcome(waiter));
        }
        let waker = supply.remove(waiter, Verdict::Granted);
        // What was too little for this one may be enough for others.
        drop_waker(supply.grant_all_with(waker));
        None
    }

    /// Adds any number of permits. Panics, with nothing changed, if that were more than [`MAX_COUNT`].
    #[track_caller]
    pub(crate) fn add(&self, permits: usize) {
        if permits > MAX_COUNT {
            too_many(self.available(), permits);
        }
        self.release::<false>(permits);
    }

    /// Adds permits, at most [`MAX_COUNT`]. Panics, with nothing changed, if there were more than that; `IN_DROP` not while the thread unwinds.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn release<const IN_DROP: bool>(&self, permits: usize) {
        let word = self.surplus.count_hint.after(permits).unwrap_or_else(|| self.queue.load());
        // One test, as in `take_seen`.
        if let Some(more) = word.try_plus(permits) {
            // Release: as in `put_at`.
            if self.queue.replace(word, more, Ordering::Release).is_ok() {
                return;
            }
        }
        self.release_slow::<IN_DROP>(word, permits);
    }

    #[inline(always)]
    fn put_at(&self, word: Word, permits: usize) -> Result<(), Word> {
        // Release: pairs with Acquire in `take_at`.
        self.queue.replace(word, word.plus(permits), Ordering::Release)
    }

    /// Most of the time there are waiters.
    #[track_caller]
    #[inline(never)]
    fn release_slow<const IN_DROP: bool>(&self, word: Word, permits: usize) {
        if word.has(WAITERS) {
            if let Some(locked) = self.queue.try_lock(word) {
                return self.release_to_waiters::<IN_DROP>(Supply::queued(self, locked), permits);
            }
        }
        self.release_busy::<IN_DROP>(permits);
    }

    /// The queue was locked, the word has changed, or it is not what the hint said.
    #[cold]
    #[track_caller]
    #[inline(never)]
    fn release_busy<const IN_DROP: bool>(&self, permits: usize) {
        self.surplus.count_hint.miss();
        let mut backoff = Backoff::new();
        loop {
            let word = self.queue.load();
            if word.has(EDIT) {
                backoff.wait();
            } else if word.has(WAITERS) {
                if let Some(locked) = self.queue.try_lock(word) {
                    return self.release_to_waiters::<IN_DROP>(Supply::queued(self, locked), permits);
                }
            } else if !has_room(word.count(), permits) {
                return refuse::<IN_DROP>(word.count(), permits);
            } else if self.put_at(word, permits).is_ok() {
                return;
            }
        }
    }

    /// Adds permits with waiters queued, and grants.
    #[inline(always)]
    #[track_caller]
    fn release_to_waiters<const IN_DROP: bool>(&self, mut supply: Supply<'_, P>, permits: usize) {
        let free = supply.free;
        if !has_room(free, permits) {
            // A panic runs foreign code (its hook), so the queue is unlocked first.
            drop(supply);
            return refuse::<IN_DROP>(free, permits);
        }
        supply.free += permits;
        supply.grant_all();
    }

    /// Removes up to so many free permits; how many it were.
    pub(crate) fn forget(&self, permits: usize) -> usize {
        loop {
            let word = self.queue.load_settled();
            if word.has(WAITERS) {
                return 0;
            }
            let forgotten = permits.min(word.count());
            // Acquire: pairs with Release in `release`, as any other taking does. The flag is carried along.
            if forgotten == 0 || self.take_at(word, forgotten).is_ok() {
                return forgotten;
            }
        }
    }

    /// `· => ·CLOSED`. False if it was closed.
    pub(crate) fn close(&self) -> bool {
        let mut supply = self.lock();
        let was_open = !supply.locked.word().has(CLOSED);
        supply.locked.set(CLOSED);
        supply.grant_all();
        was_open
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue.load_settled().has(CLOSED)
    }

    /// How many are free to be taken; 0 with waiters queued.
    pub(crate) fn available(&self) -> usize {
        let word = self.queue.load_settled();
        if word.has(WAITERS) { 0 } else { word.count() }
    }

    /// Locks the queue.
    #[inline(always)]
    pub(super) fn lock(&self) -> Supply<'_, P> {
        Supply::new(self, self.queue.lock())
    }
}

/// Permits that were taken and have no `Permit` yet: a panic releases them.
struct Taken<'s, P: SemaphorePolicy> {
    raw: &'s RawSemaphore<P>,
    permits: usize,
}

impl<P: SemaphorePolicy> Drop for Taken<'_, P> {
    fn drop(&mut self) {
        while_unwinding(|| self.raw.release::<true>(self.permits));
    }
}

/// Is it clear from the word that so many must be waited for, behind others?
#[inline(always)]
fn must_queue<P: SemaphorePolicy>(word: Word, permits: usize) -> bool {
    P::OVERTAKES == 0 && permits > 0 && word.has(WAITERS) && !word.has(CLOSED)
}

#[inline(always)]
fn has_room(free: usize, permits: usize) -> bool {
    permits <= MAX_COUNT - free
}

/// The permits are too many. A task that panics drops its permits too: a second panic would end the process.
#[cold]
#[inline(never)]
#[track_caller]
fn refuse<const IN_DROP: bool>(free: usize, permits: usize) {
    if IN_DROP {
        return while_unwinding(|| too_many(free, permits));
    }
    too_many(free, permits);
}

#[cold]
#[inline(never)]
#[track_caller]
fn too_many(free: usize, permits: usize) -> ! {
    panic!(
        "{free} free permits and {permits} more are too many: a semaphore holds at most `MAX_PERMITS` ({MAX_COUNT})"
    );
}

/// How the wait of a notified waiter has ended.
fn outcome(waiter: Pinned<'_>) -> Result<(), Closed> {
    match waiter.get().verdict() {
        Verdict::Granted => Ok(()),
        Verdict::Refused => Err(Closed),
    }
}
