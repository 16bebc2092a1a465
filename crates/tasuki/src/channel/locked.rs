//! A channel while its queue is locked: slots, messages, and the steps that grant them.
//!
//! Every change of a channel is made here, by the holder of the queue lock. Nothing foreign runs: messages are moved, never dropped, and wakers come out
//! as [`Deferred`]. States, transitions and invariants: `core.rs`.

use super::core::{CLOSED, Core, SENDERS};
use super::parcel::Parcel;
use super::store::{NONE, Slot, Store};
use crate::queue::batch::WakeBatch;
use crate::queue::grant_loop::{Granter, grant_loop_after};
use crate::queue::waiter::{wake, wake_owner};
use crate::queue::{Deferred, LockedQueue, NewWaiter, Pinned, QueueGuard};
use core::ptr;
use core::task::Waker;

/// What the queue lock protects.
#[derive(Debug)]
pub(super) struct State {
    /// The pending messages, oldest first.
    first: u32,
    last: u32,
    pub(super) pending: u32,
    /// So many of them, at the front, were granted before and put back.
    returned: u32,
    /// The last of those.
    last_returned: u32,
    /// Free slots, linked.
    free: u32,
    /// Slots from here on have never been used.
    fresh: u32,
    pub(super) allocated: u32,
    /// Slots that are not free: pending, granted, reserved.
    pub(super) used: u32,
    /// Those of them that are reserved.
    pub(super) permits: u32,
    pub(super) capacity: u32,
    /// So many slots stay allocated when none is used.
    keep: u32,
    ticket: u32,
    /// There is no receiver any more.
    #[cfg_attr(not(feature = "alloc"), expect(dead_code, reason = "only handles go"))]
    pub(super) deserted: bool,
}

impl State {
    pub(super) const fn new(allocated: u32, capacity: u32, keep: u32) -> Self {
        Self {
            first: NONE,
            last: NONE,
            pending: 0,
            returned: 0,
            last_returned: NONE,
            free: NONE,
            fresh: 0,
            allocated,
            used: 0,
            permits: 0,
            capacity,
            keep,
            ticket: 0,
            deserted: false,
        }
    }
}

/// The lock of a channel.
#[derive(Debug)]
#[must_use = "the queue is unlocked when this is dropped"]
pub(super) struct Locked<'c, T, S: Store<T>> {
    core: &'c Core<T, S>,
    state: *mut State,
    pub(super) queue: LockedQueue<'c>,
}

/// One step that was made, and the waker of the waiter that it ended.
pub(super) enum Step {
    Receiver(Deferred<Option<Waker>>),
    Sender(Deferred<Option<Waker>>),
}

impl<'c, T, S: Store<T>> Locked<'c, T, S> {
    #[inline(always)]
    pub(super) fn new(core: &'c Core<T, S>, state: *mut State, queue: LockedQueue<'c>) -> Self {
        Self { core, state, queue }
    }

    #[inline(always)]
    pub(super) fn state(&self) -> &State {
        // SAFETY: the holder of the queue lock alone touches it, through this value.
        unsafe { &*self.state }
    }

    #[inline(always)]
    pub(super) fn state_mut(&mut self) -> &mut State {
        // SAFETY: as above.
        unsafe { &mut *self.state }
    }

    /// A slot that has been used before.
    #[inline(always)]
    fn slot(&self, number: u32) -> &'c Slot<T> {
        debug_assert!(number < self.state().fresh, "slot {number} was never used");
        // SAFETY: made when it was first used; slots live as long as the channel, or until no slot is used.
        unsafe { &*self.core.store.slot(number) }
    }

    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        self.queue.word().has(CLOSED)
    }

    /// Closed, and nothing can come any more: neither a message that is granted nor one that a permit will bring.
    #[inline(always)]
    pub(super) fn is_drained(&self) -> bool {
        self.is_closed() && self.state().used == 0
    }

    /// Is there room for so many more, and no sender waits for it?
    #[inline(always)]
    pub(super) fn has_room(&self, slots: u32) -> bool {
        !self.queue.word().has(SENDERS) && self.covers(slots)
    }

    #[inline(always)]
    fn covers(&self, slots: u32) -> bool {
        self.state().capacity.saturating_sub(self.state().used) >= slots
    }

    /// Takes a slot from the free ones. `None`: there is no memory for it, the store has to grow.
    #[inline(always)]
    fn take_slot(&mut self) -> Option<u32> {
        let free = self.state().free;
        if free != NONE {
            self.state_mut().free = self.slot(free).next.get();
            return Some(free);
        }
        let fresh = self.state().fresh;
        if fresh == self.state().allocated {
            return None;
        }
        // SAFETY: memory of the store, not used before.
        unsafe { self.core.store.slot(fresh).write(Slot::new()) };
        self.state_mut().fresh = fresh + 1;
        Some(fresh)
    }

    /// `free => full`: takes a slot, and the message of a parcel into it. `None`, with nothing changed: the store has to grow.
    ///
    /// SAFETY: the parcel is full, and the caller's, or of a waiter in the queue.
    #[inline(always)]
    unsafe fn fill_slot(&mut self, parcel: &Parcel<T>) -> Option<u32> {
        let number = self.take_slot()?;
        // SAFETY: the caller's contract.
        let message = unsafe { parcel.take() };
        // SAFETY: the slot was free: no message is overwritten, and no other side looks at it.
        self.slot(number).value.with_mut(|value| unsafe { (*value).write(message) });
        let ticket = self.state().ticket;
        self.slot(number).ticket.set(ticket);
        self.state_mut().ticket = ticket.wrapping_add(1);
        self.state_mut().used += 1;
        Some(number)
    }

    /// Sends a message for which there is room: grants it to the first receiver, or makes it pending. `None`, with nothing changed: the store has to grow.
    ///
    /// SAFETY: as `fill_slot`.
    #[inline(always)]
    pub(super) unsafe fn send(&mut self, parcel: &Parcel<T>) -> Option<Deferred<Option<Waker>>> {
        // SAFETY: the caller's contract.
        let number = unsafe { self.fill_slot(parcel) }?;
        if self.queue.has_waiters() {
            return Some(self.grant(number));
        }
        self.append(number);
        Some(Deferred::none())
    }

    /// Makes a message the last of those that are pending.
    #[inline(always)]
    fn append(&mut self, number: u32) {
        self.slot(number).next.set(NONE);
        let last = self.state().last;
        if last == NONE {
            self.state_mut().first = number;
        } else {
            self.slot(last).next.set(number);
        }
        let state = self.state_mut();
        state.last = number;
        state.pending += 1;
    }

    /// Grants a message to the first receiver, which there is.
    #[inline(always)]
    fn grant(&mut self, number: u32) -> Deferred<Option<Waker>> {
        let front = self.queue.front().expect("a receiver waits");
        // SAFETY: the queue is locked, and it is in the list.
        unsafe { front.set_pointer(pack(number)) };
        // SAFETY: there is a waiter; receivers are never woken without a grant.
        unsafe { self.queue.grant_sleeping_front() }.some()
    }

    /// Takes the oldest pending message out of the list.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let number = self.state().first;
        if number == NONE {
            return None;
        }
        let next = self.slot(number).next.get();
        let state = self.state_mut();
        state.first = next;
        if next == NONE {
            state.last = NONE;
        }
        state.pending -= 1;
        state.returned = state.returned.saturating_sub(1);
        Some(number)
    }

    /// A granted message becomes pending again, before all that have not been granted; among those that were put back, the older comes first.
    pub(super) fn attach_back(&mut self, number: u32) {
        let ticket = self.slot(number).ticket.get();
        let (first, last_returned) = (self.state().first, self.state().last_returned);
        let older = |this: &Self, other: u32| this.slot(other).ticket.get().wrapping_sub(ticket) as i32 <= 0;
        let mut before = NONE;
        if self.state().returned > 0 {
            if older(self, last_returned) {
                before = last_returned;
            } else {
                let mut next = first;
                while older(self, next) {
                    before = next;
                    next = self.slot(next).next.get();
                }
            }
        }
        self.insert_after(before, number);
        let state = self.state_mut();
        if state.returned == 0 || before == last_returned {
            state.last_returned = number;
        }
        state.returned += 1;
    }

    /// Puts a message behind this one, or before all others.
    fn insert_after(&mut self, before: u32, number: u32) {
        let next = if before == NONE { self.state().first } else { self.slot(before).next.get() };
        self.slot(number).next.set(next);
        if before == NONE {
            self.state_mut().first = number;
        } else {
            self.slot(before).next.set(number);
        }
        let state = self.state_mut();
        if next == NONE {
            state.last = number;
        }
        state.pending += 1;
    }

    /// The slot of a message that has been taken becomes free.
    #[inline(always)]
    pub(super) fn free_slot(&mut self, number: u32) {
        self.slot(number).next.set(self.state().free);
        let state = self.state_mut();
        state.free = number;
        state.used -= 1;
    }

    /// Takes the message out of a slot that is in no list.
    ///
    /// SAFETY: there is a message, and it is the caller's.
    #[inline(always)]
    pub(super) unsafe fn read(&self, number: u32) -> (T, u32) {
        // SAFETY: the caller's contract.
        unsafe { self.core.read(number) }
    }

    /// A message that had been taken gets a slot again, beyond the capacity if need be. Gives it back if there is no memory for that.
    pub(super) fn restore(&mut self, message: T, ticket: u32) -> Result<u32, T> {
        let Some(number) = self.take_slot() else { return Err(message) };
        // SAFETY: as in `fill_slot`.
        self.slot(number).value.with_mut(|value| unsafe { (*value).write(message) });
        self.slot(number).ticket.set(ticket);
        self.state_mut().used += 1;
        Ok(number)
    }

    /// Detaches all pending messages, in constant time: the first of the chain. Their slots are not used again: there is no receiver.
    pub(super) fn detach(&mut self) -> u32 {
        let state = self.state_mut();
        let first = state.first;
        state.used -= state.pending;
        (state.first, state.last, state.pending, state.returned) = (NONE, NONE, 0, 0);
        first
    }

    /// Reserves slots for which there is room.
    #[inline]
    pub(super) fn reserve(&mut self, slots: u32) {
        let state = self.state_mut();
        state.used += slots;
        state.permits += slots;
    }

    /// Gives reserved slots back.
    #[inline]
    pub(super) fn unreserve(&mut self, slots: u32) {
        let state = self.state_mut();
        state.used -= slots;
        state.permits -= slots;
    }

    /// Unlocks the queue. A channel without a message gives the memory of most of its slots back.
    #[inline(always)]
    pub(super) fn unlock_smaller(self) {
        if self.state().used == 0 && self.state().allocated > self.state().keep {
            self.shrink();
        }
    }

    #[cold]
    #[inline(never)]
    fn shrink(mut self) {
        let state = self.state_mut();
        (state.free, state.fresh, state.allocated) = (NONE, 0, state.keep);
        let freed = self.core.store.release(self.state().keep);
        self.unlock();
        drop(freed);
    }

    /// A ticket before those of all that were put back.
    pub(super) fn oldest_ticket(&self) -> u32 {
        let state = self.state();
        if state.returned > 0 { self.slot(state.first).ticket.get().wrapping_sub(1) } else { state.ticket }
    }

    /// Enqueues a sender.
    pub(super) fn push_sender(&mut self, waiter: NewWaiter<'_>) {
        // SAFETY: the senders' queue is edited only here and below, under this lock.
        let mut senders = unsafe { self.core.senders.lock_under(&self.queue) };
        senders.push_back(waiter);
        drop(senders);
        self.queue.set(SENDERS);
    }

    /// Takes a sender out that is `Waiting`; by its own future.
    ///
    /// SAFETY: it is in the senders' queue of this channel, and `Waiting`.
    pub(super) unsafe fn remove_sender(&mut self, waiter: Pinned<'_>) -> Deferred<Waker> {
        // SAFETY: as in `push_sender`.
        let mut senders = unsafe { self.core.senders.lock_under(&self.queue) };
        // SAFETY: the caller's contract.
        let waker = unsafe { senders.remove_sleeping(waiter) };
        let waits = senders.has_waiters();
        drop(senders);
        self.senders_wait(waits);
        waker
    }

    #[inline(always)]
    fn senders_wait(&mut self, waits: bool) {
        if !waits {
            self.queue.clear(SENDERS);
        }
    }

    /// Ends the wait of the first sender if that can be done: refuses it if the channel is closed, makes its message pending, or reserves for it.
    #[inline]
    fn serve_sender(&mut self) -> Option<Deferred<Option<Waker>>> {
        if !self.queue.word().has(SENDERS) {
            return None;
        }
        // SAFETY: as in `push_sender`. It does not borrow this value: the lock is held all the time.
        let mut senders = unsafe { self.core.senders.lock_under(&self.queue) };
        let front = senders.front().expect("a sender waits");
        let waker = if self.is_closed() {
            // SAFETY: there is a waiter.
            unsafe { senders.refuse_front() }
        } else {
            let (slots, payload) = (front.mark(), front.pointer());
            if !self.covers(slots.max(1)) {
                return None;
            }
            if slots == 0 {
                // SAFETY: a sender without a number of slots carries its parcel, which is pinned in its future while that is queued.
                let parcel = unsafe { &*payload.cast::<Parcel<T>>() };
                // SAFETY: a queued parcel is full.
                let number = unsafe { self.fill_slot(parcel) }?;
                self.append(number);
            } else {
                self.reserve(slots);
            }
            // SAFETY: there is a waiter; senders are never woken without a grant.
            unsafe { senders.grant_sleeping_front() }.some()
        };
        let waits = senders.has_waiters();
        drop(senders);
        self.senders_wait(waits);
        Some(waker)
    }

    /// One step towards a state in which no waiter can be served; `None` if it is that.
    #[inline]
    fn step(&mut self) -> Option<Step> {
        if self.queue.has_waiters() {
            if let Some(number) = self.pop() {
                return Some(Step::Receiver(self.grant(number)));
            }
        }
        if let Some(waker) = self.serve_sender() {
            return Some(Step::Sender(waker));
        }
        if self.queue.has_waiters() && self.is_drained() {
            // SAFETY: there is a waiter.
            return Some(Step::Receiver(unsafe { self.queue.refuse_front() }));
        }
        None
    }

    /// May there be a step to make? `false` is certain.
    #[inline(always)]
    pub(super) fn owes_a_step(&self) -> bool {
        self.queue.word().has(SENDERS)
            || self.queue.has_waiters() && (self.state().pending > 0 || self.is_drained())
    }

    /// Makes all steps, unlocks the queue, and wakes.
    #[inline]
    pub(super) fn finish(self) {
        self.finish_with(Deferred::nothing());
    }

    /// As [`finish`](Self::finish), and opens what had come out of the queue. If it panics, that is dropped.
    #[inline]
    pub(super) fn finish_with<D>(mut self, deferred: Deferred<D>) -> D {
        let Some(step) = self.step() else { return self.unlock_with(deferred) };
        // Mostly it is one.
        if self.owes_a_step() {
            let (Step::Receiver(waker) | Step::Sender(waker)) = step;
            let core = self.core;
            return grant_loop_after(waker, deferred, self, || core.lock());
        }
        match step {
            Step::Receiver(waker) => {
                let (waker, foreign) = self.unlock_with(waker.and(deferred));
                wake_owner(waker);
                foreign
            }
            Step::Sender(waker) => {
                let (waker, foreign) = self.unlock_with(waker.and(deferred));
                wake(waker);
                foreign
            }
        }
    }
}

impl<T, S: Store<T>> QueueGuard for Locked<'_, T, S> {}

impl<T, S: Store<T>> Granter for Locked<'_, T, S> {
    fn grant_some(&mut self, batch: &mut WakeBatch) -> bool {
        while !batch.is_full() {
            match self.step() {
                Some(Step::Receiver(waker) | Step::Sender(waker)) => batch.push(waker),
                None => return false,
            }
        }
        true
    }
}

impl<T, S: Store<T>> Drop for Locked<'_, T, S> {
    /// Stores the hints; the queue is unlocked behind it.
    #[inline(always)]
    fn drop(&mut self) {
        self.core.empty.set(self.state().pending == 0);
        self.core.full.set(!self.has_room(1));
    }
}

/// The number of a slot as the payload of a waiter.
pub(super) fn pack(number: u32) -> *mut () {
    ptr::without_provenance_mut(number as usize)
}

/// The number of a slot that was granted to a waiter.
pub(super) fn unpack(payload: *mut ()) -> u32 {
    payload.addr() as u32
}
