//! Wake-all: all waiters that are queued now are granted, in order, and none that is enqueued later.
//!
//! ```text
//!   lock, list off the word, grant 32 | unlock, wake 32 | lock, grant 32 | unlock, wake 32 | ...
//!                                      \______ a waiter that was not reached may cancel itself ______/
//! ```
//!
//! The list leaves the word at once. A list that fits into one batch is granted in the same hold of the queue lock. What is left of a
//! longer one becomes a ring through a sentinel on this stack, from whose front each later hold takes a batch; the
//! wakers run between them (decision 15, *Wake-all takes two passes*). A waiter that has not been reached can still be removed from the ring by its future.
//!
//! A batch is one run from the front: its waiters are notified on the way, and the links are repaired once, behind the
//! last of them. Until then they lead to waiters that may be gone; only the holder of `EDIT` would follow them, and that is this thread.

use super::batch::{Panics, WakeBatch};
use super::list;
use super::waiter::{self, Waiter};
use super::{LockedQueue, QueueGuard as _, QueueUnlocked, WaitQueue};
use core::ptr;

impl LockedQueue<'_> {
    /// Grants all waiters that are queued now, in order; unlocks the queue. For a primitive that never wakes a waiter without a grant, so that every
    /// slot is full.
    pub(crate) fn grant_all(mut self) {
        let first = self.word.head();
        if first.is_null() {
            return;
        }
        self.word = self.word.with_head(ptr::null_mut());
        // SAFETY: we hold `EDIT`; the head is in the list. Asked now, since the first may be gone after the run.
        let last = unsafe { list::prev(first) };
        // SAFETY: we hold `EDIT`; the last is in the list.
        unsafe { list::seal(last) };
        let mut batch = WakeBatch::new();
        // SAFETY: we hold `EDIT`; the list is out of the word, and has been sealed.
        let rest = unsafe { notify_run(first, last, ptr::null_mut(), &mut batch) };
        let mut panics = Panics::default();
        if rest.is_null() {
            batch.wake_all(self.unlock(), &mut panics);
        } else {
            self.grant_rest(rest, last, &mut batch, &mut panics);
        }
        panics.resume();
    }

    /// More than a batch: the first is full, and `rest..=last` are still to be notified.
    #[cold]
    fn grant_rest(self, rest: *mut Waiter, last: *mut Waiter, batch: &mut WakeBatch, panics: &mut Panics) {
        let sentinel = core::pin::pin!(Waiter::sentinel());
        let sentinel: *mut Waiter = (&raw const *sentinel).cast_mut();
        // SAFETY: we hold `EDIT`; the sentinel stays on this stack until the ring is empty, which
        // `WakeAllSnapshot` sees to, also when a waker panics.
        unsafe { list::close_ring(sentinel, rest, last) };
        let mut snapshot = WakeAllSnapshot { queue: self.queue, sentinel, batch, drained: false };
        snapshot.release(self.unlock(), panics);
    }
}

/// Notifies from `first` on, until `end` or until the batch is full; returns the first waiter that was not notified.
///
/// Waiters of other threads are in other caches, and the link to the next is in the waiter. So a prefetch cursor walks from the
/// other end, and two cache lines are on their way at a time; it only reads.
///
/// SAFETY: the caller holds `EDIT`; `first` is `end`, or the list that begins there leads to `end`, has `prefetch` in it, and belongs
/// to the caller; all its waiters are `Waiting`.
// Not inlined: the compiler would unroll it for the first batch.
#[inline(never)]
unsafe fn notify_run(
    first: *mut Waiter,
    mut prefetch: *mut Waiter,
    end: *mut Waiter,
    batch: &mut WakeBatch,
) -> *mut Waiter {
    let mut waiter = first;
    batch.fill(|| {
        if waiter == end {
            return None;
        }
        if prefetch != waiter {
            // SAFETY: the caller's contract; it is behind the waiter, so it has not been notified.
            prefetch = unsafe { list::prev(prefetch) };
        }
        // SAFETY: the caller's contract; the link is read before the waiter is notified, and may be gone.
        let next = unsafe { list::next(waiter) };
        // SAFETY: the caller's contract: it is out of the list of the word, and its links are ours alone.
        let waker = unsafe { waiter::notify_waiting(waiter) };
        if prefetch == waiter {
            // They have met.
            prefetch = next;
        }
        waiter = next;
        Some(waker)
    });
    waiter
}

/// A detached ring of waiters that are being released, and the batch that has just left it.
#[derive(Debug)]
struct WakeAllSnapshot<'s> {
    queue: &'s WaitQueue,
    sentinel: *mut Waiter,
    batch: &'s mut WakeBatch,
    drained: bool,
}

impl WakeAllSnapshot<'_> {
    /// Wakes the batch, then takes further ones until the ring is empty.
    fn release(&mut self, unlocked: QueueUnlocked, panics: &mut Panics) {
        self.batch.wake_all(unlocked, panics);
        while !self.drained {
            let locked = self.queue.lock();
            self.drained = self.take(&locked);
            self.batch.wake_all(locked.unlock(), panics);
        }
    }

    /// Notifies until the batch is full; true when the ring is empty.
    fn take(&mut self, _locked: &LockedQueue<'_>) -> bool {
        // SAFETY: the evidence: the caller holds `EDIT` of this queue.
        let first = unsafe { list::next(self.sentinel) };
        // SAFETY: the caller holds `EDIT`; the ring leads back to the sentinel, and no other thread takes from its front.
        let rest = unsafe { notify_run(first, first, self.sentinel, self.batch) };
        // SAFETY: as above; all between the sentinel and `rest` have been notified.
        unsafe { list::join(self.sentinel, rest) };
        rest == self.sentinel
    }
}

impl Drop for WakeAllSnapshot<'_> {
    /// The sentinel must not die before the ring: after a panic that could not be caught, the rest is
    /// released here.
    fn drop(&mut self) {
        if !self.drained {
            let mut panics = Panics::default();
            let unlocked = self.queue.lock().unlock();
            self.release(unlocked, &mut panics);
            panics.resume();
        }
    }
}
