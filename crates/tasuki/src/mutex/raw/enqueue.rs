//! A lock that is not free: a newcomer enqueues, a queued waiter is polled, waiters of a condvar come over.
//!
//! The first poll that has to wait makes one attempt, without a loop, and after the clone of the waker without a call ([`RawMutex::enqueue_or_lock`]; decision 6); what that could not do is done by
//! [`RawMutex::enqueue_or_lock_slow`], which may watch the lock first (`watch.rs`).

use super::revoke::AskingTask;
use super::{EDIT, FREE, LOCKED, RawMutex, WOKEN};
use crate::policy::{Order, Policy};
use crate::queue::waiter::{Payload, WaiterState, clone_waker, drop_spare, drop_waker};
use crate::queue::{Backoff, Deferred, Detached, LockedQueue, Pinned, QueueGuard as _, QueueWaker};
use crate::wait::WaiterSlot;
use core::task::{Context, Poll};

impl<P: Policy> RawMutex<P> {
    /// The first poll that has to wait: enqueues, or takes the lock if it has become free. `is_counted`: does the future keep an `Arc` of the mutex?
    ///
    /// One attempt to enqueue is inlined, if there is nothing to spin for: there are waiters already, or the owner has not run yet. It calls nothing after the clone of the waker: whatever is stored
    /// between these two locked operations delays the second.
    #[inline(always)]
    pub(crate) fn enqueue_or_lock(
        &self,
        slot: WaiterSlot<'_>,
        cx: &Context<'_>,
        is_counted: bool,
    ) -> Poll<()> {
        // Looked at before the clone, which usually is a locked operation: a load behind that would have to wait for it.
        let word = self.queue.load();
        let waker = clone_waker(cx.waker());
        if !self.is_worth_a_spin(word) && word.has(LOCKED) {
            let task = Self::task_to_note(is_counted);
            if let Some(locked) = self.queue.try_lock(word) {
                self.enqueue(locked, slot, waker, task);
                return Poll::Pending;
            }
        }
        self.enqueue_or_lock_slow(slot, waker, is_counted)
    }

    /// The holder runs and there is no waiter, or the queue is locked, or the word has changed, or the lock has become free.
    #[cold]
    #[inline(never)]
    fn enqueue_or_lock_slow(&self, slot: WaiterSlot<'_>, waker: QueueWaker, is_counted: bool) -> Poll<()> {
        if self.is_worth_a_spin(self.queue.load()) && self.spin() {
            return self.taken_after_all(waker);
        }
        let task = Self::task_to_note(is_counted);
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
                self.enqueue(locked, slot, waker, task);
                return Poll::Pending;
            }
        }
    }

    /// The lock has become free and was taken: the waker is not needed.
    fn taken_after_all(&self, waker: QueueWaker) -> Poll<()> {
        drop_spare(waker, || {
            self.unlock();
        });
        Poll::Ready(())
    }

    /// The task that runs, if the policy wants to know it. Asked before the queue is locked: a runtime is foreign code.
    #[inline(always)]
    pub(crate) fn task_to_note(is_counted: bool) -> AskingTask {
        if P::REVOCABLE { AskingTask::running(is_counted) } else { AskingTask::UNKNOWN }
    }

    /// A new waiter is enqueued, at the end that the policy names. ([`adopt`](Self::adopt) does the same for waiters of a condvar.)
    #[inline(always)]
    fn enqueue(
        &self,
        mut locked: LockedQueue<'_>,
        slot: WaiterSlot<'_>,
        waker: QueueWaker,
        task: AskingTask,
    ) {
        if !locked.has_waiters() {
            self.hint.look_first();
        }
        let payload = if P::REVOCABLE { self.payload_of(&locked, task, &waker) } else { Payload::NONE };
        let waiter = slot.init(waker, payload);
        match P::ORDER {
            Order::Oldest => locked.push_back(waiter),
            Order::Newest => locked.push_front(waiter),
        };
    }

    /// A later poll; `is_counted` as in [`enqueue_or_lock`](Self::enqueue_or_lock).
    pub(crate) fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>, is_counted: bool) -> Poll<()> {
        if P::REVOCABLE {
            return self.poll_revocable(waiter, cx, is_counted);
        }
        match waiter.get().state() {
            WaiterState::Notified => {
                self.claim();
                Poll::Ready(())
            }
            WaiterState::Waiting if waiter.get().will_wake(cx.waker()) => Poll::Pending,
            WaiterState::Waiting | WaiterState::Woken => self.compete(waiter, cx),
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

    /// Takes over waiters of another queue, which is locked: the first becomes the owner if the lock is free,
    /// the others queue. The owner's waker is to be called after both are unlocked.
    pub(crate) fn adopt(&self, next: &mut dyn FnMut() -> Option<Detached>) -> Deferred<Option<QueueWaker>> {
        let mut locked = self.queue.lock();
        let mut owner = Deferred::none();
        while let Some(waiter) = next() {
            if locked.word() == FREE {
                self.probe.grant_moved(waiter.note());
                owner = if P::REVOCABLE {
                    self.grant_moved(&mut locked, waiter)
                } else {
                    locked.set(LOCKED);
                    self.set_unclaimed();
                    locked.grant(waiter)
                };
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
}
