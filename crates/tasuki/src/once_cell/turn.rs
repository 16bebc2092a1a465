//! The turn to make the value of a cell, and the waits for it or for the value.
//!
//! States, transitions and invariants are in the tables of [`once_cell`](super).

use super::{DONE, OnceCell, RUNNING};
use crate::queue::batch::while_unwinding;
use crate::queue::broadcast::CancelOutcome;
use crate::queue::waiter::{clone_waker, drop_waker, wake};
use crate::queue::{LockedQueue, Pinned, QueueGuard as _};
use crate::shim;
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::task::{Context, Poll};

/// What a waiter wants: the turn, or only the value. Stored in its payload.
const WANTS_TURN: usize = 1;
const WANTS_VALUE: usize = 0;

/// How many waiters one hold of `EDIT` may pass on the way to the first that wants the turn.
const STEP: usize = if shim::MODEL { 1 } else { 64 };

/// The right, and the duty, to make the value. Dropping it passes it on.
pub(super) struct Turn<'a, T> {
    cell: &'a OnceCell<T>,
}

impl<'a, T> Turn<'a, T> {
    /// The caller has just set `RUNNING`, or was granted the turn.
    pub(super) fn new(cell: &'a OnceCell<T>) -> Self {
        Self { cell }
    }

    /// `RUNNING => DONE`.
    pub(super) fn complete(self, value: T) -> &'a T {
        let cell = self.cell;
        core::mem::forget(self);
        // SAFETY: the turn is exclusive, and the value is not read before `DONE`.
        unsafe { (*cell.value.get()).write(value) };
        let mut locked = cell.waiters.queue.lock();
        locked.clear(RUNNING);
        locked.set(DONE);
        cell.count_turn(&locked, |_| 0);
        cell.waiters.release_all(locked);
        // SAFETY: written above, by this thread.
        unsafe { cell.value() }
    }
}

impl<T> Drop for Turn<'_, T> {
    /// The turn goes to the first waiter that wants it; without one, `RUNNING` is cleared.
    fn drop(&mut self) {
        let cell = self.cell;
        loop {
            let mut locked = cell.waiters.queue.lock();
            if cell.turns_wanted(&locked) == 0 {
                locked.clear(RUNNING);
                return;
            }
            for _ in 0..STEP {
                if locked.front().is_some_and(|front| front.wish() == WANTS_TURN) {
                    cell.count_turn(&locked, |wanted| wanted - 1);
                    // SAFETY: there is a front.
                    let next = unsafe { locked.grant_front() };
                    let next = locked.unlock_with(next);
                    return while_unwinding(|| wake(next));
                }
                // Waits for the value only: the order in which these are woken has no meaning.
                locked.rotate();
            }
        }
    }
}

/// What a wait for a turn ends with.
pub(super) enum TurnOutcome<'a, T> {
    /// The value is there.
    Value(&'a T),
    /// It is the waiter's turn.
    Turn(Turn<'a, T>),
}

/// Waits for a turn, or for the value alone.
pub(super) struct TurnOp<'a, T> {
    cell: &'a OnceCell<T>,
    wants: usize,
}

impl<'a, T> TurnOp<'a, T> {
    /// Waits for the turn, or for the value that another initialiser makes.
    pub(super) fn new(cell: &'a OnceCell<T>) -> Self {
        Self { cell, wants: WANTS_TURN }
    }

    fn try_now(&self) -> Option<TurnOutcome<'a, T>> {
        if let Some(value) = self.cell.get() {
            return Some(TurnOutcome::Value(value));
        }
        if self.wants == WANTS_TURN { self.cell.try_turn().map(TurnOutcome::Turn) } else { None }
    }

    fn enqueue(&self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<TurnOutcome<'a, T>> {
        let waker = clone_waker(cx.waker());
        let mut locked = self.cell.waiters.queue.lock();
        if locked.word().has(DONE) {
            drop(locked);
            drop_waker(Some(waker));
            // SAFETY: `DONE`, seen under `EDIT`: the value is there.
            return Poll::Ready(TurnOutcome::Value(unsafe { self.cell.value() }));
        }
        if self.wants == WANTS_TURN && !locked.word().has(RUNNING) {
            locked.set(RUNNING);
            drop(locked);
            // Before the foreign code: if that panics, the turn passes on.
            let turn = Turn { cell: self.cell };
            drop_waker(Some(waker));
            return Poll::Ready(TurnOutcome::Turn(turn));
        }
        let payload = self.cell.waiters.payload(&locked).wishing(self.wants);
        if self.wants != WANTS_TURN {
            locked.push_back(slot.init(waker, payload));
            return Poll::Pending;
        }
        let wanted = self.cell.turns_wanted(&locked);
        if wanted == u32::MAX {
            drop(locked);
            panic!("too many initialisers wait for one cell");
        }
        self.cell.count_turn(&locked, |wanted| wanted + 1);
        // The first of its kind goes before the waiters for the value only, so that it is found at once.
        if wanted == 0 {
            locked.push_front(slot.init(waker, payload));
        } else {
            locked.push_back(slot.init(waker, payload));
        }
        Poll::Pending
    }

    /// The wait has ended: with the value, or else by a grant of the turn. The round tells which: a waiter can know of its end
    /// before the word says `DONE`, and only the owner of a turn ends a round.
    fn outcome(&self, waiter: Pinned<'_>) -> TurnOutcome<'a, T> {
        if self.cell.waiters.is_released(waiter.get()) {
            // SAFETY: the round ended after the value was written; the poll or cancel that found the wait ended has seen
            // `Notified` with Acquire, or has locked the queue after the section that ended the round.
            TurnOutcome::Value(unsafe { self.cell.value() })
        } else {
            TurnOutcome::Turn(Turn { cell: self.cell })
        }
    }

    fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<TurnOutcome<'a, T>> {
        self.cell.waiters.poll_queued(waiter, cx).map(|()| self.outcome(waiter))
    }

    fn cancel(&self, waiter: Pinned<'_>) -> Option<TurnOutcome<'a, T>> {
        let uncount = |locked: &mut LockedQueue<'_>| {
            if self.wants == WANTS_TURN {
                self.cell.count_turn(locked, |wanted| wanted - 1);
            }
        };
        match self.cell.waiters.cancel(waiter, uncount) {
            CancelOutcome::Cancelled => None,
            CancelOutcome::AlreadyGranted => Some(self.outcome(waiter)),
        }
    }
}

/// The operation of [`OnceCell::wait`].
pub struct ValueOp<'a, T> {
    op: TurnOp<'a, T>,
}

/// The future of [`OnceCell::wait`].
pub type WaitValue<'a, T> = Wait<Single<ValueOp<'a, T>>>;

impl<'a, T> ValueOp<'a, T> {
    #[track_caller]
    pub(super) fn wait(cell: &'a OnceCell<T>) -> WaitValue<'a, T> {
        Wait::new(Self { op: TurnOp { cell, wants: WANTS_VALUE } })
    }

    fn value(outcome: TurnOutcome<'a, T>) -> &'a T {
        match outcome {
            TurnOutcome::Value(value) => value,
            TurnOutcome::Turn(_) => unreachable!("a turn is granted to a waiter that wants it"),
        }
    }
}

impl<T> fmt::Debug for ValueOp<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueOp")
    }
}

impl<'a, T> Op for ValueOp<'a, T> {
    type Output = &'a T;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::WaitValue";

    fn try_now(&mut self) -> Option<&'a T> {
        self.op.cell.get()
    }

    fn is_ready(&self) -> bool {
        self.op.cell.get().is_some()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<&'a T> {
        self.op.enqueue(slot, cx).map(Self::value)
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<&'a T> {
        self.op.poll_queued(waiter, cx).map(Self::value)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<&'a T> {
        self.op.cancel(waiter).map(Self::value)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

impl<'a, T> Op for TurnOp<'a, T> {
    type Output = TurnOutcome<'a, T>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::GetOrInit";

    fn try_now(&mut self) -> Option<TurnOutcome<'a, T>> {
        TurnOp::try_now(self)
    }

    fn is_ready(&self) -> bool {
        // With a value, and also without one if the turn is free.
        !self.cell.waiters.queue.load_settled().has(RUNNING)
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<TurnOutcome<'a, T>> {
        TurnOp::enqueue(self, slot, cx)
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<TurnOutcome<'a, T>> {
        TurnOp::poll_queued(self, waiter, cx)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<TurnOutcome<'a, T>> {
        TurnOp::cancel(self, waiter)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}
