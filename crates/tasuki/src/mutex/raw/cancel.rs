//! The end of a wait before it is claimed, in every state of its waiter.
//!
//! The usual cancel finds its waiter asleep and the queue unlocked: one attempt ([`RawMutex::try_cancel_waiting`]), apart because it calls nothing and so saves no registers ahead of its compare-exchange (decision 6). All else is
//! [`RawMutex::cancel_slow`]; with `Revocable` that is [`RawMutex::cancel_revocable`], where a granted waiter is in the list.

use super::{LOCKED, RawMutex, WOKEN};
use crate::policy::Policy;
use crate::queue::waiter::{WaiterState, drop_waker, wake_owner};
use crate::queue::{Deferred, Pinned, QueueGuard as _, QueueWaker, Removed};

impl<P: Policy> RawMutex<P> {
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
    fn try_cancel_waiting(&self, waiter: Pinned<'_>) -> Option<QueueWaker> {
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
        if P::REVOCABLE {
            return self.cancel_revocable(waiter);
        }
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
            // Invariant 2: a free lock has woken its first waiter. It counts as in `free`.
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
}
