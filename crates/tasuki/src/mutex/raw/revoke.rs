//! Grants that can be revoked until they are claimed: the policy [`Revocable`](crate::policy::Revocable).
//!
//! A task that keeps a lock future without polling it, and locks again by another future, waits for itself if a grant is final (*futurelock*). Here a granted waiter
//! stays at the head of the list, and its claim locks the queue. As long as the grant is unclaimed, another future of the same task (a *sibling*) can take the lock over. The revoked waiter is then in no
//! list: only its own future knows it, and enqueues it again at its next poll. Called by the other files of `raw/`, and by the waits that these belong to (`mutex/lock.rs`; `mutex/guards.rs` for a condvar). It does
//! something only where `P::REVOCABLE`: the other policies are not affected.
//!
//! ```text
//!   unlock          a·LOCKED ------> a·LOCKED·WOKEN        a is woken, and is the owner if it is polled
//!   poll of a       a·LOCKED·WOKEN -> b·LOCKED             a has claimed, and is out of the list
//!   polls of b      a·LOCKED·WOKEN -> LOCKED               b, of the same task, is the owner; a is out of the list too, revoked
//! ```
//!
//! # States
//!
//! | word | the head | all other waiters in the list | the lock |
//! |---|---|---|---|
//! | `0`, `LOCKED` | none | none | free, held |
//! | `head·LOCKED` | `Waiting` | `Waiting` | held |
//! | `head·LOCKED·WOKEN` | `Woken` | `Waiting` | granted to the head, and not claimed |
//!
//! | waiter out of the list | meaning |
//! |---|---|
//! | `Notified`, `Granted` | it has claimed, or was cancelled |
//! | `Notified`, `Refused` | its grant was revoked, and it has not been polled since |
//!
//! # Transitions
//!
//! | from | event | to | duty | fn |
//! |---|---|---|---|---|
//! | `head·LOCKED` | unlock | `head·LOCKED·WOKEN` | wake the head | [`RawMutex::grant_revocably`] |
//! | `head·LOCKED·WOKEN` | poll, or cancel, of the head | head out, `LOCKED` | own the lock | [`RawMutex::claim_locked`] |
//! | `head·LOCKED·WOKEN` | enqueue of a sibling, or its first or second poll that finds this grant | the grant noted in the sibling, and how often | wake the own task | [`RawMutex::payload_of`], [`RawMutex::ask`] |
//! | `head·LOCKED·WOKEN` | the third poll in a row of the sibling that finds this grant | head revoked, sibling out, `LOCKED` | own the lock | [`RawMutex::ask`] |
//! | `0` | poll of a revoked waiter | `LOCKED` | own the lock | [`RawMutex::ask_revoked`] |
//! | any other | poll of a revoked waiter | enqueued at the front, behind a granted head; the second time at the end | a sibling's grant: wake the own task | [`RawMutex::ask_revoked`] |
//! | `head·LOCKED·WOKEN` | its task has left it unclaimed for too long, or has ended | head revoked, the next granted, or `0` | wake the next | `overdue.rs` |
//! | any | cancel of a revoked waiter | – | none | [`RawMutex::cancel_revocable`] |
//! | `0` | waiters come from a condvar | the first enqueued and granted | wake it | [`RawMutex::grant_moved`] |
//!
//! # Invariants
//! R1. `WOKEN` is set exactly while the lock is granted and not claimed. Then `LOCKED` is set, and the head is the one waiter in the list that is `Woken`.
//! R2. A grant is claimed or revoked under `EDIT` only, so exactly one of both happens. A revoked waiter is touched by its own future alone.
//! R3. `tally` counts the grants, under `EDIT`. A waiter has noted the number of the grant that it found at its last poll, and whether it was there at the poll before. If it is there at a third poll, its
//!     task has not polled the granted waiter between the first and the third. A task that polls all of its branches each time it is polled has done so, in whatever order: in the poll of the second look. Two looks
//!     are not enough where the order changes from poll to poll (`tokio::join!`).
//! R4. No wake is lost. A revoked waiter was woken by its grant and has not been polled since, so its task owes it a poll; that poll claims, takes a free lock, or enqueues it with a waker. A sibling
//!     that notes a grant wakes its own task, so it is polled again. One that still waits for a condvar, and is polled by the wake of that grant, is not moved behind it by another waiter, but woken to move itself (`condvar`).
//! R5. Which futures are of one task is a guess in both directions (a waker may be shared, a number reused): no transition is wrong if it is wrong. A false yes costs one place in the order, a false
//!     no costs the cure.
//!
//! # Orderings
//! None of its own. Claim, revocation and cancel hold `EDIT`: Acquire of [`WaitQueue::try_lock`](crate::queue::WaitQueue::try_lock) pairs with Release in the drop of `LockedQueue`, which is also the way that the
//! protected value takes. The look at `WOKEN` in [`RawMutex::poll_revocable`] is Relaxed: a poll that the grant's wake has caused comes after it, and any other
//! poll may miss it, because the wake is still to come.

use super::{FREE, LOCKED, RawMutex, WOKEN};
use crate::budget::wake_again;
use crate::policy::Policy;
use crate::probe::waits_have_moved;
use crate::queue::waiter::{Payload, Verdict, Waiter, WaiterState, clone_waker, drop_waker};
use crate::queue::{Deferred, Detached, LockedQueue, Pinned, QueueGuard as _, QueueWaker};
use crate::shim::Ordering;
use core::ptr::without_provenance_mut;
use core::task::{Context, Poll, Waker};

/// The mark of a waiter. The four lowest bits are those of a condvar, whose waiters come into this queue with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark(u32);

impl Mark {
    /// The waiter carries the number of its task.
    const HAS_TASK: u32 = 1 << 4;
    /// Its grant was revoked once.
    const WAS_REVOKED: u32 = 1 << 5;
    /// It has found the grant that it has noted at a second poll.
    const SEEN_AGAIN: u32 = 1 << 6;
    /// A runtime says when a poll of its task has ended, and its future keeps an `Arc` of the mutex (`overdue.rs`).
    const IS_WATCHED: u32 = 1 << 7;
    /// The lowest bit of the number of the grant that it has noted.
    const GRANT: u32 = 1 << 8;

    fn of(waiter: &Waiter) -> Self {
        Self(waiter.mark())
    }

    fn has(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    fn with(self, bits: u32, set: bool) -> Self {
        Self(if set { self.0 | bits } else { self.0 & !bits })
    }

    fn of_task(self, task: AskingTask) -> Self {
        self.with(Self::HAS_TASK, task.number != 0).with(Self::IS_WATCHED, task.is_watched)
    }

    /// After a look that has found this grant, or [`NO_GRANT`].
    fn noting(self, grant: u32) -> Self {
        let is_again = grant != NO_GRANT && self.has_noted(grant);
        Self((self.0 % Self::GRANT) | (grant * Self::GRANT)).with(Self::SEEN_AGAIN, is_again)
    }

    /// Would a look that finds this grant be the third?
    fn may_revoke(self, grant: u32) -> bool {
        self.has_noted(grant) && self.has(Self::SEEN_AGAIN)
    }

    fn has_noted(self, grant: u32) -> bool {
        self.0 / Self::GRANT == grant
    }
}

/// The number of no grant.
const NO_GRANT: u32 = 0;

/// The task that asks for the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskingTask {
    /// 0 if it has no identity. A number that does not fit is cut off (R5).
    number: usize,
    is_watched: bool,
}

impl AskingTask {
    pub(super) const UNKNOWN: Self = Self { number: 0, is_watched: false };

    /// The task that runs. `is_counted`: does its future keep an `Arc` of the mutex?
    #[cfg(feature = "std")]
    pub(super) fn running(is_counted: bool) -> Self {
        let number = crate::task::current().map_or(0, |task| task.get() as usize);
        Self { number, is_watched: is_counted && number != 0 && crate::task::ends_of_polls_are_told() }
    }

    #[cfg(not(feature = "std"))]
    pub(super) const fn running(_is_counted: bool) -> Self {
        Self::UNKNOWN
    }

    /// What a waiter of this task brings into the queue of a condvar, from which it may come here.
    pub(crate) fn payload(self) -> Payload {
        Payload::task(Mark(0).of_task(self).0, self.number)
    }

    /// The waiter is of this task from now on.
    ///
    /// SAFETY: the queue is locked in whose list the waiter is.
    pub(crate) unsafe fn note_in(self, waiter: &Waiter) {
        waiter.set_mark(Mark::of(waiter).of_task(self).0);
        // SAFETY: the caller's contract.
        unsafe { waiter.set_pointer(without_provenance_mut(self.number)) };
    }
}

/// The number of a waiter's task, 0 if it is not known. Asked by its own future, or under `EDIT`.
fn task_of(waiter: &Waiter) -> usize {
    if Mark::of(waiter).has(Mark::HAS_TASK) { waiter.task() } else { 0 }
}

/// A future that asks for the lock: its task, and the waker that it is polled with.
#[derive(Clone, Copy, Debug)]
struct Asker<'w> {
    task: AskingTask,
    waker: &'w Waker,
}

impl Asker<'_> {
    /// Is the waiter, which is in the list, of the same task? By the numbers, if both are known; else by the wakers, unless they say nothing.
    fn is_sibling_of(self, waiter: &Waiter) -> bool {
        match task_of(waiter) {
            0 => self.has_same_waker(waiter),
            _ if self.task.number == 0 => self.has_same_waker(waiter),
            task => task == self.task.number,
        }
    }

    fn has_same_waker(self, waiter: &Waiter) -> bool {
        !self.waker.data().is_null() && waiter.will_wake(self.waker)
    }
}

impl<P: Policy> RawMutex<P> {
    /// Is there a grant that has not been claimed? A look.
    #[inline(always)]
    pub(crate) fn has_unclaimed_grant(&self) -> bool {
        P::REVOCABLE && self.queue.load().has(WOKEN)
    }

    /// The number of the present grant: not 0, and few enough bits for a mark.
    fn grant_number(&self) -> u32 {
        // Relaxed: R3.
        (self.tally.load(Ordering::Relaxed) % (u32::MAX / Mark::GRANT)) + 1
    }

    /// `head·LOCKED => head·LOCKED·WOKEN`: the head owns the lock if it is polled before it is revoked.
    ///
    /// SAFETY: there is a waiter.
    #[inline(always)]
    pub(super) unsafe fn grant_revocably(
        &self,
        locked: &mut LockedQueue<'_>,
    ) -> Deferred<Option<QueueWaker>> {
        debug_assert!(!locked.word().has(WOKEN), "a lock that is granted has no holder: {:?}", locked.word());
        // Relaxed, and not one operation: R3.
        self.tally.store(self.tally.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        locked.set(WOKEN);
        if let Some(front) = locked.front().filter(|front| Mark::of(front).has(Mark::IS_WATCHED)) {
            self.watch_grant(front.task());
        }
        // SAFETY: the caller's contract.
        unsafe { locked.wake_front() }
    }

    /// `0 => head·LOCKED·WOKEN`, with a waiter that comes from a condvar.
    pub(super) fn grant_moved(
        &self,
        locked: &mut LockedQueue<'_>,
        waiter: Detached,
    ) -> Deferred<Option<QueueWaker>> {
        self.hint.look_first();
        locked.set(LOCKED);
        locked.push_front_detached(waiter);
        // SAFETY: it has just been enqueued.
        unsafe { self.grant_revocably(locked) }
    }

    /// What a newcomer brings into the queue: its task, and the grant that it has seen there, if that is a sibling's.
    pub(super) fn payload_of(&self, locked: &LockedQueue<'_>, task: AskingTask, waker: &Waker) -> Payload {
        let is_sibling = self.is_granted_to_sibling(locked, Asker { task, waker });
        let mark = Mark(0).noting(if is_sibling { self.grant_number() } else { NO_GRANT });
        Payload::task(mark.of_task(task).0, task.number)
    }

    /// The newcomer has been enqueued: if it has noted a grant, its task is to poll it again.
    pub(crate) fn enqueued(&self, waiter: Pinned<'_>, cx: &Context<'_>) {
        if !Mark::of(waiter.get()).has_noted(NO_GRANT) {
            wake_again(cx);
        }
    }

    fn is_granted_to_sibling(&self, locked: &LockedQueue<'_>, asker: Asker<'_>) -> bool {
        locked.word().has(WOKEN) && locked.front().is_some_and(|front| asker.is_sibling_of(front))
    }

    /// A poll of a waiter that is in the list, or whose grant was revoked.
    pub(super) fn poll_revocable(
        &self,
        waiter: Pinned<'_>,
        cx: &mut Context<'_>,
        is_counted: bool,
    ) -> Poll<()> {
        let node = waiter.get();
        let state = node.state();
        if state == WaiterState::Woken && self.claim_grant(waiter) {
            return Poll::Ready(());
        }
        let asker = Asker { task: AskingTask::running(is_counted), waker: cx.waker() };
        let is_known = state == WaiterState::Waiting
            && node.will_wake(asker.waker)
            && (asker.task.number == 0 || asker.task.number == task_of(node));
        if is_known && !self.has_unclaimed_grant() { Poll::Pending } else { self.ask(waiter, asker, cx) }
    }

    /// The head, which was granted the lock, owns it; false if its grant was revoked.
    #[inline]
    fn claim_grant(&self, waiter: Pinned<'_>) -> bool {
        let mut locked = self.queue.lock();
        let is_granted = waiter.get().state() == WaiterState::Woken;
        if is_granted {
            self.claim_locked(&mut locked, waiter);
        }
        is_granted
    }

    /// `head·LOCKED·WOKEN => LOCKED` or `next·LOCKED`; the waiter is `Woken`.
    #[inline]
    fn claim_locked(&self, locked: &mut LockedQueue<'_>, waiter: Pinned<'_>) {
        debug_assert!(locked.word().has(WOKEN) && locked.is_front(waiter), "R1: {:?}", locked.word());
        self.unwatch_grant();
        locked.clear(WOKEN);
        // SAFETY: R1: it is the head. Its slot is empty.
        let _ = unsafe { locked.grant_front() };
    }

    /// `head·LOCKED·WOKEN => LOCKED` or `next·LOCKED`: the head is revoked, and the caller owns the lock.
    pub(super) fn revoke(&self, locked: &mut LockedQueue<'_>) {
        debug_assert!(locked.word().has(WOKEN), "no grant to revoke: {:?}", locked.word());
        self.unwatch_grant();
        self.probe.revoke(locked.front_note());
        locked.clear(WOKEN);
        // SAFETY: R1: there is a head. Its slot is empty.
        let _ = unsafe { locked.refuse_front() };
    }

    /// A waiter is polled, and there is something to do: its waker or its task is another, there is an unclaimed grant, or its own was revoked.
    #[cold]
    #[inline(never)]
    fn ask(&self, waiter: Pinned<'_>, asker: Asker<'_>, cx: &Context<'_>) -> Poll<()> {
        let waker = clone_waker(asker.waker);
        let mut locked = self.queue.lock();
        let node = waiter.get();
        let sees_sibling = self.is_granted_to_sibling(&locked, asker);
        let (poll, old, spare) = match (node.state(), node.verdict()) {
            (WaiterState::Woken, _) => {
                self.claim_locked(&mut locked, waiter);
                (Poll::Ready(()), Deferred::none(), Some(waker))
            }
            // Claimed by a poll that then panicked.
            (WaiterState::Notified, Verdict::Granted) => (Poll::Ready(()), Deferred::none(), Some(waker)),
            (WaiterState::Notified, Verdict::Refused) => {
                let (poll, old) = self.ask_revoked(&mut locked, waiter, waker, asker);
                (poll, old, None)
            }
            (WaiterState::Waiting, _) if sees_sibling && Mark::of(node).may_revoke(self.grant_number()) => {
                self.revoke(&mut locked);
                // SAFETY: `Waiting`, so it is in this list.
                let old = unsafe { locked.remove_sleeping(waiter) };
                (Poll::Ready(()), old.some(), Some(waker))
            }
            (WaiterState::Waiting, _) => {
                node.set_mark(self.noted(&locked, node, asker).0);
                // SAFETY: `EDIT` is held, and the waiter is in the list.
                unsafe { node.set_pointer(without_provenance_mut(asker.task.number)) };
                // SAFETY: `Waiting`, so it is in this list.
                (Poll::Pending, unsafe { locked.rearm(waiter, waker) }, None)
            }
        };
        let old = locked.unlock_with(old);
        if poll.is_pending() {
            // If it was revoked, it waits for the lock again.
            waits_have_moved();
            // Before the old waker is dropped, which may panic: nothing else wakes the task (R4).
            if sees_sibling {
                wake_again(cx);
            }
        }
        drop_waker(old);
        drop_waker(spare);
        poll
    }

    /// The mark of a waiter that stays in the queue, or is enqueued again.
    fn noted(&self, locked: &LockedQueue<'_>, waiter: &Waiter, asker: Asker<'_>) -> Mark {
        let grant = if self.is_granted_to_sibling(locked, asker) { self.grant_number() } else { NO_GRANT };
        Mark::of(waiter).of_task(asker.task).noting(grant)
    }

    /// A revoked waiter is polled: it takes a lock that is free, or is enqueued again, in its place. What is left of its waker.
    fn ask_revoked(
        &self,
        locked: &mut LockedQueue<'_>,
        waiter: Pinned<'_>,
        waker: QueueWaker,
        asker: Asker<'_>,
    ) -> (Poll<()>, Deferred<Option<QueueWaker>>) {
        let node = waiter.get();
        let mark = self.noted(locked, node, asker);
        let is_second_time = mark.has(Mark::WAS_REVOKED);
        // SAFETY: `Notified`, as its own future has seen.
        unsafe { node.set_pointer(without_provenance_mut(asker.task.number)) };
        // SAFETY: as above.
        let back = unsafe { locked.revive(waiter, waker, mark.with(Mark::WAS_REVOKED, !is_second_time).0) };
        if locked.word() == FREE {
            locked.set(LOCKED);
            return (Poll::Ready(()), locked.grant(back));
        }
        if !locked.has_waiters() {
            self.hint.look_first();
        }
        self.probe.adopt(back.note());
        if is_second_time {
            locked.push_back_detached(back);
        } else if locked.word().has(WOKEN) {
            // SAFETY: R1: there is a head.
            unsafe { locked.push_second_detached(back) };
        } else {
            locked.push_front_detached(back);
        }
        (Poll::Pending, Deferred::none())
    }

    /// Ends the wait of a waiter, whatever its state; true if the lock had been granted to it, so that the caller owns it.
    pub(super) fn cancel_revocable(&self, waiter: Pinned<'_>) -> bool {
        let mut locked = self.queue.lock();
        match waiter.get().state() {
            WaiterState::Notified => waiter.get().verdict() == Verdict::Granted,
            WaiterState::Woken => {
                self.claim_locked(&mut locked, waiter);
                true
            }
            WaiterState::Waiting => {
                // SAFETY: `Waiting`, so it is in this list.
                let waker = unsafe { locked.remove_sleeping(waiter) };
                drop_waker(Some(locked.unlock_with(waker)));
                false
            }
        }
    }
}
