//! One wait on a condvar: its operation, and the moves of notified waiters to the queue of the mutex.
//!
//! The states of a waiter, its marks and the transitions are in the table of [`condvar`](super). A wait locks the condvar's queue first, then the mutex's, and is polled by one of them at a
//! time: its mark says by which.

use super::{BY_ONE, Condvar, MOVED, MOVER, MOVES_ITSELF};
use crate::guard::{Guard, Holder};
use crate::mutex::Relock;
use crate::probe::{Site, waits_have_moved};
use crate::queue::batch::{WakeBatch, while_unwinding};
use crate::queue::grant_loop::{Granter, grant_loop};
use crate::queue::waiter::{WaiterState, clone_waker, drop_waker, wake};
use crate::queue::{Cursor, Deferred, LockedQueue, Pinned, QueueGuard, QueueUnlocked, QueueWaker, Removed};
use crate::shim;
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::task::{Context, Poll};

/// The future of [`Condvar::wait`].
pub type WaitNotified<'a, H> = Wait<Single<CondvarOp<'a, H>>>;

/// How many waiters one hold of both `EDIT` bits may move; in the first hold the mover beside them.
const STEP: usize = if shim::MODEL { 2 } else { 32 };

/// One step of a mover: the locked queue, and where its waiters move.
struct Moves<'e, H> {
    locked: LockedQueue<'e>,
    condvar: &'e Condvar,
    holder: &'e H,
    /// The mover goes first, with its new waker and mark.
    me: Option<(Pinned<'e>, QueueWaker, u32)>,
    /// The waker of the mover, if it owns the mutex at once and does not need it.
    spare: Deferred<Option<QueueWaker>>,
}

impl<H> QueueGuard for Moves<'_, H> {}

impl<H: Relock> Granter for Moves<'_, H> {
    fn grant_some(&mut self, batch: &mut WakeBatch) -> bool {
        let (condvar, mutex, is_first) = (self.condvar, self.holder.address(), self.me.is_some());
        let (locked, me) = (&mut self.locked, &mut self.me);
        // No more than the batch has room for.
        let mut left = STEP;
        let mut next = || match me.take() {
            // SAFETY: it is the mover, so it is `Notified`.
            Some((waiter, waker, mark)) => Some(unsafe { locked.revive(waiter, waker, mark) }),
            None => condvar.take_notified(locked, mutex, &mut left, batch),
        };
        let owner = self.holder.adopt(&mut next);
        if is_first {
            self.spare = owner;
        } else {
            batch.push(owner);
        }
        self.condvar.has_notified(&self.locked, mutex)
    }

    fn close(self) -> QueueUnlocked {
        let unlocked = self.locked.unlock();
        waits_have_moved();
        drop_waker(self.spare.open(unlocked));
        unlocked
    }
}

/// The operation of [`Condvar::wait`].
pub struct CondvarOp<'a, H: Relock> {
    condvar: &'a Condvar,
    hold: GuardState<H>,
    /// The wait has come to its end, or to a cancel, with a `notify_one`.
    by_one: bool,
    site: Site,
}

/// What the wait has of the mutex.
enum GuardState<H: Holder> {
    /// The lock: not polled yet.
    Guard(Guard<H>),
    /// Only the reference, while it waits.
    Reference(H),
    /// Nothing: it has been given back.
    Nothing,
}

impl<'a, H: Relock> CondvarOp<'a, H> {
    pub(super) fn new(condvar: &'a Condvar, guard: Guard<H>, site: Site) -> Self {
        Self { condvar, hold: GuardState::Guard(guard), by_one: false, site }
    }

    fn holder(&self) -> &H {
        match &self.hold {
            GuardState::Guard(guard) => guard.holder(),
            GuardState::Reference(holder) => holder,
            GuardState::Nothing => unreachable!("the wait is over"),
        }
    }

    /// The lock has been granted again.
    fn guard(&mut self) -> Guard<H> {
        match core::mem::replace(&mut self.hold, GuardState::Nothing) {
            GuardState::Reference(holder) => {
                holder.acquired(self.site);
                Guard::new(holder)
            }
            GuardState::Guard(guard) => guard,
            GuardState::Nothing => unreachable!("the wait is over"),
        }
    }

    /// The mover: moves to the mutex's queue, or owns the mutex at once, and moves all notified waiters.
    fn move_notified(&self, waiter: Pinned<'_>, mark: u32, cx: &mut Context<'_>) {
        let waker = clone_waker(cx.waker());
        let (condvar, holder) = (self.condvar, self.holder());
        let moves = |me| Moves { locked: condvar.queue.lock(), condvar, holder, me, spare: Deferred::none() };
        grant_loop(moves(Some((waiter, waker, mark & !MOVER | MOVED))), || moves(None));
    }

    /// A poll of a waiter that belongs to the mutex.
    fn poll_moved(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Guard<H>> {
        let poll = self.holder().poll_moved(waiter, cx);
        poll.map(|()| {
            self.by_one = waiter.get().last_mark().is_some_and(|mark| mark & BY_ONE != 0);
            self.guard()
        })
    }

    /// A waiter that must be touched: it gets another waker where it is, or is with the mutex already, or is the mover.
    #[cold]
    fn poll_in_place(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Guard<H>> {
        let waker = clone_waker(cx.waker());
        let task = self.holder().asking_task();
        let mut locked = self.condvar.queue.lock();
        let mark = waiter.get().mark();
        if mark & (MOVER | MOVED) == 0 {
            if H::IS_REVOCABLE {
                // SAFETY: the queue is locked, and the waiter is in its list.
                unsafe { task.note_in(waiter.get()) };
                let moves_itself = if self.holder().has_unclaimed_grant() { MOVES_ITSELF } else { 0 };
                waiter.get().set_mark(waiter.get().mark() & !MOVES_ITSELF | moves_itself);
            }
            // SAFETY: neither the mover nor moved, so it is in this list.
            let old = unsafe { locked.rearm(waiter, waker) };
            drop_waker(locked.unlock_with(old));
            return Poll::Pending;
        }
        drop(locked);
        drop_waker(Some(waker));
        if mark & MOVER != 0 {
            self.move_notified(waiter, mark, cx);
        }
        self.poll_moved(waiter, cx)
    }

    /// Did it end with a `notify_one`?
    pub(super) fn was_notified_by_one(&self) -> bool {
        self.by_one
    }

    /// The notification of this wait, which goes to another when this is dropped.
    fn pass_on(&self) -> PassOn<'a> {
        PassOn(self.by_one.then_some(self.condvar))
    }

    /// Leaves the mutex's queue.
    fn cancel_moved(&mut self, waiter: Pinned<'_>) -> Option<Guard<H>> {
        let mut pass_on = self.pass_on();
        if !self.holder().cancel_moved(waiter) {
            return None;
        }
        pass_on.0 = None;
        drop(pass_on);
        Some(self.guard())
    }

    /// Leaves the condvar: the list, or its role as the mover.
    fn cancel_here(&self, mut locked: LockedQueue<'_>, waiter: Pinned<'_>, mark: u32) {
        let mut mine = Deferred::none();
        if mark & MOVER == 0 {
            let mut place = self.condvar.notified_until(&locked);
            if place == Cursor::of(waiter) {
                // SAFETY: it is in this list: not the mover, and its cancel says that it was not moved.
                unsafe { locked.advance(&mut place) };
                self.condvar.set_notified_until(&locked, place);
            }
            // SAFETY: as above.
            if let Removed::Waker(waker) = unsafe { locked.remove(waiter) } {
                mine = waker;
            }
        }
        let passes_on = mark & BY_ONE != 0 && self.condvar.notified_until(&locked) != Cursor::END;
        let mover = if passes_on {
            self.condvar.notify_next(&mut locked)
        } else if mark & MOVER != 0 {
            self.condvar.replace_mover(&mut locked)
        } else {
            Deferred::none()
        };
        let (mover, mine) = locked.unlock_with(mover.and(mine));
        wake(mover);
        drop_waker(mine);
    }
}

/// A notification that goes to the next when this is dropped; also when a waker panics.
pub(super) struct PassOn<'a>(pub(super) Option<&'a Condvar>);

impl Drop for PassOn<'_> {
    fn drop(&mut self) {
        if let Some(condvar) = self.0 {
            while_unwinding(|| condvar.notify_one());
        }
    }
}

impl<H: Relock> fmt::Debug for CondvarOp<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CondvarOp")
    }
}

impl<H: Relock> Op for CondvarOp<'_, H> {
    type Output = Guard<H>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::WaitNotified";
    const IS_REVOCABLE: bool = H::IS_REVOCABLE;

    fn try_now(&mut self) -> Option<Guard<H>> {
        None
    }

    /// A notification comes after the mutex was released, so there is always a wait.
    fn is_ready(&self) -> bool {
        false
    }

    /// The mover has been notified, and has still to lock the mutex.
    fn shown_notified(&self, mark: u32) -> &'static str {
        if mark & MOVED == 0 { "Notified" } else { "Granted" }
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Guard<H>> {
        let waker = clone_waker(cx.waker());
        let (mutex, task) = (self.holder().address(), self.holder().asking_task());
        let mut locked = self.condvar.queue.lock();
        if locked.has_waiters() && self.condvar.mutex(&locked) != mutex {
            // The panic hook is foreign code.
            drop(locked);
            panic!("a condvar can be used with one mutex at a time: there is a waiter with another");
        }
        self.condvar.set_mutex(&locked, mutex);
        let waiter = locked.push_back(slot.init(waker, task.payload()));
        if self.condvar.notified_until(&locked) == Cursor::END {
            self.condvar.set_notified_until(&locked, Cursor::of(waiter));
        }
        Poll::Pending
    }

    fn enqueued(&mut self, _waiter: Pinned<'_>, _cx: &Context<'_>) {
        if let GuardState::Guard(guard) = core::mem::replace(&mut self.hold, GuardState::Nothing) {
            self.hold = GuardState::Reference(guard.into_holder());
            self.holder().release();
        }
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Guard<H>> {
        match waiter.get().last_mark() {
            Some(mark) => {
                if mark & MOVER != 0 {
                    self.move_notified(waiter, mark, cx);
                }
                self.poll_moved(waiter, cx)
            }
            None if waiter.get().state() == WaiterState::Waiting
                && waiter.get().will_wake(cx.waker())
                && !self.holder().has_unclaimed_grant() =>
            {
                Poll::Pending
            }
            None => self.poll_in_place(waiter, cx),
        }
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Guard<H>> {
        let locked = self.condvar.queue.lock();
        let mark = waiter.get().mark();
        if mark & MOVED == 0 {
            self.cancel_here(locked, waiter, mark);
            return None;
        }
        drop(locked);
        self.by_one = mark & BY_ONE != 0;
        self.cancel_moved(waiter)
    }

    /// The mutex was released, and locking it again would be another wait: there is no guard to give back.
    fn unfinished<E>(&mut self, limit: E) -> E {
        self.hold = GuardState::Nothing;
        limit
    }

    fn discard(&mut self, guard: Guard<H>) {
        let _pass_on = self.pass_on();
        drop(guard);
    }
}
