//! The lock of the mutex, without a value: its word, its three policies, its transitions.
//!
//! Without contention to lock and to unlock is one compare-exchange each. A caller that finds the lock held is enqueued; an unlock then grants the lock to the first waiter, which
//! owns it from that moment on. Called by `Mutex`, `ReentrantMutex` and, through `Relock`, by `Condvar`. It must never run foreign code with the queue locked.
//!
//! ```text
//!   lock    0 ------------> LOCKED          unlock   LOCKED -----------------> 0
//!           LOCKED -------> a·LOCKED                 a·LOCKED --> [a] [b] ---> LOCKED (a owns), b the head
//! ```
//!
//! # States of the word
//!
//! | word                   | meaning                                  | policies      |
//! |------------------------|------------------------------------------|---------------|
//! | `0`                    | free, no waiter                          | all           |
//! | `LOCKED`               | held or granted, no waiter               | all           |
//! | `head·LOCKED`          | held or granted, the head is asleep      | all           |
//! | `head·LOCKED·WOKEN`    | held, the head was woken and has not been polled | `Bypass` |
//! | `head·WOKEN`           | free, the head was woken                 | `Bypass`      |
//!
//! Each with `EDIT` while the queue is locked. There is no `head` alone: a free lock with waiters has
//! woken the first of them.
//!
//! # Transitions
//!
//! | from                | event                     | to                         | duty            | fn |
//! |---------------------|---------------------------|----------------------------|-----------------|----|
//! | `0`, `head·WOKEN`   | lock, try_lock            | `+ LOCKED`                 | none            | [`RawMutex::try_lock`] |
//! | `·LOCKED`           | lock                      | waiter enqueued            | return `Pending`| [`RawMutex::enqueue`] |
//! | `LOCKED`            | unlock                    | `0`                        | none            | [`RawMutex::unlock`] |
//! | `head·LOCKED`, with `WOKEN` or not | unlock, no overtakes left | head granted, `LOCKED` stays | wake it | [`RawMutex::grant`] |
//! | `head·LOCKED`       | unlock, overtakes left    | `head·WOKEN`               | wake it         | [`RawMutex::free_and_wake`] |
//! | `head·LOCKED·WOKEN` | unlock, overtakes left    | `head·WOKEN`               | none            | [`RawMutex::free_again`] |
//! | `head·WOKEN`        | poll of the head          | `LOCKED`, head removed     | return `Ready`  | [`RawMutex::compete`] |
//! | `head·LOCKED·WOKEN` | poll of the head          | `head·LOCKED`              | return `Pending`| [`RawMutex::compete`] |
//! | any, `Waiting`      | drop                      | waiter removed             | none            | [`RawMutex::try_cancel_waiting`] |
//! | `head·WOKEN`        | drop of the head          | next head woken            | wake it         | [`RawMutex::cancel_slow`] |
//! | `head·LOCKED·WOKEN` | drop of the head          | `WOKEN` cleared            | none            | [`RawMutex::cancel_slow`] |
//! | any, `Notified`     | drop                      | as unlock                  | as unlock       | [`RawMutex::cancel_slow`] |
//! | any                 | waiters come from a condvar | the first granted if the lock is free, the others enqueued | wake it | [`RawMutex::adopt`] |
//!
//! # Invariants
//! 1. `LOCKED` is set exactly while a task owns the lock or has been granted it.
//! 2. Without `LOCKED` there are no waiters, or `WOKEN` is set and the head's state is `Woken`.
//! 3. `overtakes` counts how often the lock was freed with the present head woken; it is written by the owner, or
//!    under `EDIT`. A racing reset may be lost to the owner's count: then the bound is kept too early,
//!    never too late.
//!
//! # The hint
//!
//! The uncontended pair is two compare-exchanges of constants, without a look at the word ([`Hint`]). The hint is set when the queue forms, or by a
//! try that fails because others wait, and cleared by an unlock that finds the queue empty.
//!
//! # Orderings
//! The word: Acquire of [`RawMutex::try_lock`] pairs with Release of [`RawMutex::unlock`],
//! [`RawMutex::try_unlock_at`] and [`RawMutex::free_again`] (the protected value). A grant publishes the value through the waiter's state. The
//! side bytes are hints or guarded, all Relaxed.

use super::spin::{self, SpinScore};
use crate::policy::{Order, Policy};
use crate::probe::LockProbe;
use crate::queue::hint::Hint;
use crate::queue::waiter::{Payload, WaiterState, clone_waker, drop_spare, drop_waker, wake_owner};
use crate::queue::word::{EDIT, FLAG_A as LOCKED, FLAG_B as WOKEN, WAITERS, Word};
use crate::queue::{Backoff, Deferred, Detached, LockedQueue, Pinned, QueueGuard as _, Removed, WaitQueue};
use crate::shim::{self, AtomicBool, AtomicU32, Ordering, const_fn};
use crate::wait::WaiterSlot;
use core::marker::PhantomData;
use core::task::{Context, Poll, Waker};

const FREE: Word = Word::flags(0);
const HELD: Word = Word::flags(LOCKED);

/// The lock without the value.
#[doc(hidden)]
#[derive(Debug)]
pub struct RawMutex<P> {
    queue: WaitQueue,
    /// How often the present head has been passed over; see invariant 3.
    overtakes: AtomicU32,
    /// The lock was granted and its new owner has not run yet: it makes no sense to spin.
    unclaimed: AtomicBool,
    hint: Hint,
    spin: SpinScore,
    /// Where `inspect/` is active, which task holds it.
    pub(crate) probe: LockProbe,
    policy: PhantomData<P>,
}

/// What an unlock found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlocked {
    WithoutWaiters,
    WithWaiters,
}

/// The word was not what it had been seen to be; look again.
struct Moved;

/// What came of watching a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Taken,
    StillHeld,
    /// A queue has formed, or the lock was granted to a waiter.
    Queued,
}

impl<P: Policy> RawMutex<P> {
    const_fn! {
        #[track_caller]
        pub(crate) const fn new() -> Self {
            Self {
                queue: WaitQueue::new(FREE),
                overtakes: AtomicU32::new(0),
                unclaimed: AtomicBool::new(false),
                hint: Hint::new(),
                spin: SpinScore::new(),
                probe: LockProbe::mutex(),
                policy: PhantomData,
            }
        }
    }

    /// May a newcomer take the lock while this is the word? The one place where barging is decided.
    #[inline(always)]
    fn is_open(word: Word) -> bool {
        if P::OVERTAKES == 0 { word == FREE } else { !word.has(LOCKED | EDIT) }
    }

    /// `0 => LOCKED`, and for `Bypass` also `head·WOKEN => head·LOCKED·WOKEN`.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        if self.hint.says_look() {
            return self.try_lock_looking();
        }
        // Acquire: pairs with Release in `unlock`, `try_unlock_at` and `free_again`.
        match self.queue.replace(FREE, HELD, Ordering::Acquire) {
            Ok(()) => true,
            Err(now) => self.try_lock_late(now),
        }
    }

    /// A try without a look has failed; the word was `now`.
    #[cold]
    fn try_lock_late(&self, now: Word) -> bool {
        if now.has(WAITERS) {
            self.hint.look_first();
        }
        P::OVERTAKES > 0 && Self::is_open(now) && self.try_lock_at(now)
    }

    /// A look saves a compare-exchange that cannot succeed: half of the price of queueing.
    #[inline(always)]
    fn try_lock_looking(&self) -> bool {
        let word = self.queue.load();
        Self::is_open(word) && self.try_lock_at(word)
    }

    #[inline(always)]
    fn try_lock_at(&self, word: Word) -> bool {
        if P::OVERTAKES > 0 && word.has(WAITERS) {
            // By an edit: a compare-exchange would store the pointer that was seen, see `WaitQueue::replace`.
            return match self.queue.try_lock(word) {
                Some(mut locked) => {
                    locked.set(LOCKED);
                    true
                }
                None => false,
            };
        }
        // Acquire: pairs with Release in `unlock`, `try_unlock_at` and `free_again`.
        self.queue.replace(word, word.with(LOCKED), Ordering::Acquire).is_ok()
    }

    /// Enqueues, or takes the lock if it has become free.
    #[cfg(feature = "std")]
    pub(crate) fn enqueue_or_lock(&self, slot: WaiterSlot<'_>, waker: Waker) -> Poll<()> {
        match self.try_enqueue(self.look(), slot, waker) {
            Ok(()) => Poll::Pending,
            Err((slot, waker)) => self.enqueue_or_lock_slow(slot, waker),
        }
    }

    /// The word now, for [`try_enqueue`](Self::try_enqueue).
    #[inline(always)]
    pub(crate) fn look(&self) -> Word {
        self.queue.load()
    }

    /// One attempt to enqueue, if the word still is what was seen and there is nothing to spin for: there are waiters
    /// already, or the owner has not run yet. Otherwise gives everything back.
    #[inline(always)]
    pub(crate) fn try_enqueue<'f>(
        &self,
        word: Word,
        slot: WaiterSlot<'f>,
        waker: Waker,
    ) -> Result<(), (WaiterSlot<'f>, Waker)> {
        if !self.is_worth_a_spin(word) && word.has(LOCKED) {
            if let Some(locked) = self.queue.try_lock(word) {
                self.enqueue(locked, slot, waker);
                return Ok(());
            }
        }
        Err((slot, waker))
    }

    /// The holder runs and there is no waiter, or the word is changing, or the lock has become free.
    #[cold]
    #[inline(never)]
    pub(crate) fn enqueue_or_lock_slow(&self, slot: WaiterSlot<'_>, waker: Waker) -> Poll<()> {
        if self.is_worth_a_spin(self.look()) && self.spin() {
            return self.taken_after_all(waker);
        }
        self.enqueue_or_lock_busy(slot, waker)
    }

    /// The lock was to be had, and the waker is not needed.
    fn taken_after_all(&self, waker: Waker) -> Poll<()> {
        drop_spare(waker, || {
            self.unlock();
        });
        Poll::Ready(())
    }

    /// Could a newcomer take the lock?
    pub(crate) fn is_ready(&self) -> bool {
        Self::is_open(self.queue.load_settled())
    }

    /// The queue is locked, the word has changed, or the lock has become free.
    fn enqueue_or_lock_busy(&self, slot: WaiterSlot<'_>, waker: Waker) -> Poll<()> {
        let mut backoff = Backoff::new();
        loop {
            let word = self.queue.load();
            if word.has(EDIT) {
                backoff.wait();
            } else if Self::is_open(word) {
                if self.try_lock_at(word) {
                    return self.taken_after_all(waker);
                }
            } else if let Some(locked) = self.queue.try_lock(word) {
                self.enqueue(locked, slot, waker);
                return Poll::Pending;
            }
        }
    }

    /// A new waiter is enqueued, at the end that the policy names. ([`adopt`](Self::adopt) does the same for waiters of a condvar.)
    #[inline(always)]
    fn enqueue(&self, mut locked: LockedQueue<'_>, slot: WaiterSlot<'_>, waker: Waker) {
        if !locked.has_waiters() {
            self.hint.look_first();
        }
        let waiter = slot.init(waker, Payload::NONE);
        match P::ORDER {
            Order::Oldest => locked.push_back(waiter),
            Order::Newest => locked.push_front(waiter),
        };
    }

    pub(crate) fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        match waiter.get().state() {
            WaiterState::Notified => {
                self.claim();
                Poll::Ready(())
            }
            WaiterState::Waiting if waiter.get().will_wake(cx.waker()) => Poll::Pending,
            WaiterState::Waiting | WaiterState::Woken => self.compete(waiter, cx),
        }
    }

    /// The lock has an owner that has not run yet.
    #[inline(always)]
    fn set_unclaimed(&self) {
        if P::SPIN {
            // Relaxed: a hint.
            self.unclaimed.store(true, Ordering::Relaxed);
        }
    }

    /// The new owner runs.
    #[inline(always)]
    fn claim(&self) {
        // A look instead of a store each time: it is seldom set.
        if P::SPIN && self.is_unclaimed() {
            // Relaxed: a hint.
            self.unclaimed.store(false, Ordering::Relaxed);
        }
    }

    /// A queued waiter is polled with another waker, or was woken to compete: takes the lock if it was woken and
    /// the lock is free, else stays in its place with this waker.
    #[cold]
    fn compete(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        let mut locked = self.queue.lock();
        let state = waiter.get().state();
        if state == WaiterState::Notified {
            drop(locked);
            drop_waker(Some(waker));
            self.claim();
            return Poll::Ready(());
        }
        if state == WaiterState::Woken {
            locked.clear(WOKEN);
            if !locked.word().has(LOCKED) {
                // The head must take a free lock: there may never be another unlock to grant it.
                // SAFETY: `Woken`, so it is in this list. Its slot is empty.
                let _ = unsafe { locked.remove(waiter) };
                locked.set(LOCKED);
                self.reset_overtakes();
                drop(locked);
                drop_waker(Some(waker));
                return Poll::Ready(());
            }
        }
        // SAFETY: not `Notified`, so it is in this list (invariant 3 of the queue).
        let old = unsafe { locked.rearm(waiter, waker) };
        drop_waker(locked.unlock_with(old));
        Poll::Pending
    }

    /// Removes the waiter; true if the lock had been granted, so that the caller owns it.
    ///
    /// Calls nothing in the usual case but the drop of the waker, at the end, so it saves no registers.
    pub(crate) fn cancel(&self, waiter: Pinned<'_>) -> bool {
        match self.try_cancel_waiting(waiter) {
            Some(waker) => {
                drop_waker(Some(waker));
                false
            }
            None => self.cancel_slow(waiter),
        }
    }

    /// One attempt to remove a waiter that is `Waiting`. `None`: it is not, or the queue is locked;
    /// nothing has changed.
    #[inline(always)]
    fn try_cancel_waiting(&self, waiter: Pinned<'_>) -> Option<Waker> {
        if waiter.get().state() != WaiterState::Waiting {
            return None;
        }
        let mut locked = self.queue.try_lock(self.queue.load())?;
        if waiter.get().state() != WaiterState::Waiting {
            return None;
        }
        // If it is the first, the lock is held and no waiter has been woken (invariant 2): there is none to wake instead.
        if P::OVERTAKES > 0 && locked.is_front(waiter) {
            self.reset_overtakes();
        }
        // SAFETY: `Waiting`, asked under the lock, so it is in this list (invariant 3 of the queue).
        let waker = unsafe { locked.remove_sleeping(waiter) };
        Some(locked.unlock_with(waker))
    }

    /// Removes the waiter, whatever its state.
    #[cold]
    #[inline(never)]
    fn cancel_slow(&self, waiter: Pinned<'_>) -> bool {
        if waiter.get().state() == WaiterState::Notified {
            self.claim();
            return true;
        }
        let mut locked = self.queue.lock();
        let was_front = P::OVERTAKES > 0 && locked.is_front(waiter);
        // SAFETY: it is in this list, or was granted: a waiter that comes here from a condvar stays.
        let Removed::Waker(waker) = (unsafe { locked.remove(waiter) }) else {
            drop(locked);
            self.claim();
            return true;
        };
        let mut next = Deferred::none();
        if was_front {
            locked.clear(WOKEN);
            self.reset_overtakes();
            // Invariant 2: a free lock has woken its first waiter. It counts as in `free_and_wake`.
            if !locked.word().has(LOCKED) && locked.has_waiters() {
                self.count_overtake();
                // SAFETY: there is a waiter, asked above.
                next = unsafe { locked.wake_front() };
                locked.set(WOKEN);
            }
        }
        let (next, waker) = locked.unlock_with(next.and(waker));
        wake_owner(next);
        drop_waker(waker);
        false
    }

    /// Takes over waiters of another queue, which is being edited: the first becomes the owner if the lock is free,
    /// the others queue. The owner's waker is to be called after both edits.
    pub(crate) fn adopt(&self, next: &mut dyn FnMut() -> Option<Detached>) -> Deferred<Option<Waker>> {
        let mut locked = self.queue.lock();
        let mut owner = Deferred::none();
        while let Some(waiter) = next() {
            if locked.word() == FREE {
                locked.set(LOCKED);
                self.set_unclaimed();
                self.probe.adopt(waiter.note());
                self.probe.grant(waiter.note());
                owner = locked.grant(waiter);
            } else {
                self.hint.look_first();
                self.probe.adopt(waiter.note());
                match P::ORDER {
                    Order::Oldest => locked.push_back_detached(waiter),
                    Order::Newest => locked.push_front_detached(waiter),
                }
            }
        }
        owner
    }

    /// Is it held, or granted?
    pub(crate) fn is_locked(&self) -> bool {
        self.queue.load().has(LOCKED)
    }

    /// Releases the lock.
    #[inline(always)]
    pub(crate) fn unlock(&self) -> Unlocked {
        self.probe.clear();
        let mut word = HELD;
        if self.hint.says_look() {
            word = self.queue.load();
            if word == HELD {
                self.hint.try_first();
            }
        }
        if word == HELD {
            // Release: pairs with Acquire in `try_lock` and `try_lock_at`.
            match self.queue.replace(HELD, FREE, Ordering::Release) {
                Ok(()) => return Unlocked::WithoutWaiters,
                Err(now) => {
                    self.hint.look_first();
                    word = now;
                }
            }
        }
        wake_owner(self.unlock_slow(word));
        Unlocked::WithWaiters
    }

    /// Unlocks a word that was not just `LOCKED`. Calls nothing in the usual case, so it saves no registers; the
    /// caller wakes.
    #[inline(never)]
    #[must_use = "the waiter must be woken"]
    fn unlock_slow(&self, word: Word) -> Option<Waker> {
        self.try_unlock_at(word).unwrap_or_else(|Moved| self.unlock_busy())
    }

    /// The queue is locked, or the word has changed.
    #[cold]
    #[inline(never)]
    fn unlock_busy(&self) -> Option<Waker> {
        let mut backoff = Backoff::new();
        loop {
            let word = self.queue.load();
            if word.has(EDIT) {
                backoff.wait();
            } else if let Ok(waker) = self.try_unlock_at(word) {
                return waker;
            }
        }
    }

    /// One attempt to unlock. The policy decides here between the baton and the free lock.
    #[inline(always)]
    fn try_unlock_at(&self, word: Word) -> Result<Option<Waker>, Moved> {
        debug_assert!(word.has(LOCKED), "unlock of a mutex that is not locked: {word:?}");
        // Asked first: here there usually are waiters.
        if !word.has(WAITERS) {
            // Release: pairs with Acquire in `try_lock_at`.
            return self.queue.replace(HELD, FREE, Ordering::Release).map(|()| None).map_err(|_| Moved);
        }
        if P::OVERTAKES > 0 && !word.has(EDIT) && self.may_be_overtaken() {
            if word.has(WOKEN) {
                return self.free_again(word);
            }
            // SAFETY: the word has `WAITERS`, asked above.
            return unsafe { self.free_and_wake(word) };
        }
        let locked = self.queue.try_lock(word).ok_or(Moved)?;
        // SAFETY: the word that was exchanged has waiters.
        Ok(unsafe { self.grant(locked) })
    }

    /// Does the holder run, and is there no waiter?
    #[inline(always)]
    fn is_worth_a_spin(&self, word: Word) -> bool {
        P::SPIN && word == HELD && !self.is_unclaimed()
    }

    /// Watches a lock that is held and that has no queue; true if it got it. A waiter that is enqueued meanwhile ends it, so no waiter is ever
    /// overtaken.
    fn spin(&self) -> bool {
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
        for _ in 0..crate::spin::pauses(nanoseconds) {
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

    /// Granted to an owner that has not run yet: it may be in the spinner's own run queue.
    fn is_unclaimed(&self) -> bool {
        // Relaxed: a hint.
        self.unclaimed.load(Ordering::Relaxed)
    }

    /// `head·LOCKED => LOCKED` or `next·LOCKED`: the head owns the lock.
    ///
    /// SAFETY: there is a waiter.
    #[inline(always)]
    unsafe fn grant(&self, mut locked: LockedQueue<'_>) -> Option<Waker> {
        self.probe.grant(locked.front_note());
        let waker = if P::OVERTAKES == 0 {
            // SAFETY: the caller's contract; without overtakes no waiter is ever `Woken`.
            unsafe { locked.grant_sleeping_front() }.some()
        } else {
            locked.clear(WOKEN);
            self.reset_overtakes();
            // SAFETY: the caller's contract.
            unsafe { locked.grant_front() }
        };
        // With waiters no caller spins.
        if locked.word() == HELD {
            self.set_unclaimed();
        }
        locked.unlock_with(waker)
    }

    /// `head·LOCKED => head·WOKEN`: the lock is free, and the head is woken to compete for it.
    ///
    /// SAFETY: the word has `WAITERS`.
    unsafe fn free_and_wake(&self, word: Word) -> Result<Option<Waker>, Moved> {
        let mut locked = self.queue.try_lock(word).ok_or(Moved)?;
        self.count_overtake();
        // SAFETY: the caller's contract: the word that was exchanged has waiters.
        let waker = unsafe { locked.wake_front() };
        locked.clear(LOCKED);
        locked.set(WOKEN);
        Ok(locked.unlock_with(waker))
    }

    /// `head·LOCKED·WOKEN => head·WOKEN`: the head has been woken already, and will be polled.
    #[inline(always)]
    fn free_again(&self, word: Word) -> Result<Option<Waker>, Moved> {
        self.count_overtake();
        // The head is the one that was seen: only an owner sets `WOKEN` beside `LOCKED`, so this word does not come back
        // with another head while the lock is ours.
        // Release: pairs with Acquire in `try_lock_at` and, for the head, in `WaitQueue::try_lock`.
        if self.queue.replace_beside(word, word.without(LOCKED), Ordering::Release).is_ok() {
            return Ok(None);
        }
        self.uncount_overtake();
        Err(Moved)
    }

    fn may_be_overtaken(&self) -> bool {
        // Relaxed: invariant 3.
        self.overtakes.load(Ordering::Relaxed) < P::OVERTAKES
    }

    fn count_overtake(&self) {
        // Relaxed, and not one operation: only the owner counts, or the editor of a free lock (invariant 3).
        self.overtakes.store(self.overtakes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn uncount_overtake(&self) {
        // Relaxed: as in `count_overtake`. Saturating: the head, and the count with it, may have changed.
        self.overtakes.store(self.overtakes.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }

    fn reset_overtakes(&self) {
        // Relaxed: under `EDIT`, or by the owner.
        self.overtakes.store(0, Ordering::Relaxed);
    }
}
