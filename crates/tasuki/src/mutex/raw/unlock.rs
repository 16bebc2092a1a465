//! The release of the lock: to no waiter, to the first by a grant, or to whichever task comes first (`Bypass`).
//!
//! Two paths, which differ in what they do to the word:
//!
//! | path | when | why it is there |
//! |---|---|---|
//! | [`RawMutex::unlock`] | no waiter | one compare-exchange, inlined, and nothing else |
//! | [`RawMutex::unlock_slow`] | waiters | locks the queue and decides ([`RawMutex::unlock_locked`]); one attempt calls nothing (decision 6), and only if the queue is locked, or the word has changed, [`RawMutex::unlock_busy`] waits for the queue |

use super::{FREE, HELD, LOCKED, RawMutex, WOKEN};
use crate::policy::Policy;
use crate::queue::waiter::wake_owner;
use crate::queue::word::Word;
use crate::queue::{Deferred, LockedQueue, QueueGuard as _, QueueWaker};
use crate::shim::Ordering;

/// What an unlock found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlocked {
    WithoutWaiters,
    WithWaiters,
}

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
    fn unlock_slow(&self, word: Word) -> Option<QueueWaker> {
        debug_assert!(word.has(LOCKED), "unlock of a mutex that is not locked: {word:?}");
        match self.queue.try_lock(word) {
            Some(locked) => self.unlock_locked(locked),
            None => self.unlock_busy(),
        }
    }

    /// The queue is locked, or the word has changed. A call of its own: what it saves would be stored ahead of the one attempt.
    #[cold]
    #[inline(never)]
    fn unlock_busy(&self) -> Option<QueueWaker> {
        self.unlock_locked(self.queue.lock())
    }

    /// The release, with the queue locked. The policy decides here between the baton and the free lock.
    #[inline(always)]
    fn unlock_locked(&self, mut locked: LockedQueue<'_>) -> Option<QueueWaker> {
        // Asked first: here there usually are waiters.
        if !locked.has_waiters() {
            locked.clear(LOCKED);
            return None;
        }
        if P::OVERTAKES > 0 && self.may_be_overtaken() {
            // SAFETY: there is a waiter, asked above.
            return unsafe { self.free(locked) };
        }
        // SAFETY: as above.
        unsafe { self.grant(locked) }
    }

    /// `head·LOCKED => LOCKED` or `next·LOCKED`: the head owns the lock. With `Revocable` `=> head·LOCKED·WOKEN`: it owns the lock if it claims it (`revoke.rs`).
    ///
    /// SAFETY: there is a waiter.
    #[inline(always)]
    unsafe fn grant(&self, mut locked: LockedQueue<'_>) -> Option<QueueWaker> {
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

    /// `head·LOCKED => head·WOKEN`: the lock is free, and the head is woken to compete for it, unless it was woken before and has not been polled.
    ///
    /// SAFETY: there is a waiter.
    unsafe fn free(&self, mut locked: LockedQueue<'_>) -> Option<QueueWaker> {
        self.count_overtake();
        locked.clear(LOCKED);
        let mut waker = Deferred::none();
        if !locked.word().has(WOKEN) {
            // SAFETY: the caller's contract.
            waker = unsafe { locked.wake_front() };
            locked.set(WOKEN);
        }
        locked.unlock_with(waker)
    }
}
