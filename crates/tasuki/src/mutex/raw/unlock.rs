//! The release of the lock: to no waiter, to the first by a grant, or to whichever task comes first (`Bypass`).
//!
//! Without waiters it is the one compare-exchange of [`RawMutex::unlock`]. With waiters one attempt calls nothing ([`RawMutex::unlock_slow`]; decision 6); only a queue that is locked, or a
//! word that has changed, makes it loop.

use super::{EDIT, FREE, HELD, LOCKED, RawMutex, WAITERS, WOKEN};
use crate::policy::Policy;
use crate::queue::waiter::wake_owner;
use crate::queue::word::Word;
use crate::queue::{Backoff, LockedQueue, QueueGuard as _};
use crate::shim::Ordering;
use core::task::Waker;

/// What an unlock found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlocked {
    WithoutWaiters,
    WithWaiters,
}

/// The word was not what it had been seen to be; look again.
struct Moved;

impl<P: Policy> RawMutex<P> {
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

    /// `head·LOCKED => LOCKED` or `next·LOCKED`: the head owns the lock.
    ///
    /// SAFETY: there is a waiter.
    #[inline(always)]
    unsafe fn grant(&self, mut locked: LockedQueue<'_>) -> Option<Waker> {
        self.probe.grant(locked.front_note());
        if P::REVOCABLE {
            // SAFETY: the caller's contract.
            let waker = unsafe { self.grant_revocably(&mut locked) };
            return locked.unlock_with(waker);
        }
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
}
