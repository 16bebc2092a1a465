//! A channel while its queue is locked: slots, messages, and the steps that grant them.
//!
//! Every change of a channel is made here, by the holder of the queue lock. Nothing foreign runs: messages are moved, never dropped, and wakers come out
//! as [`Deferred`]. States, transitions and invariants: `core.rs`.

use super::core::{CLOSED, Core, SENDERS};
use super::parcel::Content;
use super::store::{NONE, Numbered, Slot, Store, pack};
use crate::queue::batch::WakeBatch;
use crate::queue::grant_loop::{Granter, grant_loop_after};
use crate::queue::waiter::{wake, wake_owner};
use crate::queue::{Deferred, LockedQueue, NewWaiter, Pinned, QueueGuard};
use core::task::Waker;

/// What the queue lock protects, beside the two counts of the channel, which are also hints.
#[derive(Debug)]
pub(super) struct State {
    /// The oldest and the newest pending message, if there is one.
    first: u32,
    last: u32,
    /// So many of the pending messages, at the front, were granted before and put back.
    returned: u32,
    /// The last of those.
    last_returned: u32,
    /// Free slots, linked.
    free: u32,
    /// Slots from here on have never been used.
    fresh: u32,
    pub(super) allocated: u32,
    /// So many slots stay allocated when none is used.
    keep: u32,
    /// So many slots are reserved.
    pub(super) permits: u32,
    /// The ticket of the next message that is granted for the first time.
    ticket: u32,
    /// There is no receiver any more.
    #[cfg_attr(not(feature = "alloc"), expect(dead_code, reason = "only handles go"))]
    pub(super) deserted: bool,
}

impl State {
    pub(super) const fn new(allocated: u32, keep: u32) -> Self {
        Self {
            first: NONE,
            last: NONE,
            returned: 0,
            last_returned: NONE,
            free: NONE,
            fresh: 0,
            allocated,
            keep,
            permits: 0,
            ticket: 0,
            deserted: false,
        }
    }
}

/// A channel whose queue is locked.
pub(super) struct Locked<'c, T, S: Store<T>> {
    core: &'c Core<T, S>,
    state: *mut State,
    pub(super) queue: LockedQueue<'c>,
}

/// A waiter that a step has served, on its way to be woken.
enum Step {
    Receiver(Deferred<Option<Waker>>),
    Sender(Deferred<Option<Waker>>),
}

/// A message that has left the list of those that are pending.
pub(super) struct Popped<'c, T> {
    pub(super) at: Numbered<'c, T>,
    /// It was granted before, so it has a ticket.
    returned: bool,
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
    pub(super) fn numbered(&self, number: u32) -> Numbered<'c, T> {
        Numbered { number, slot: self.slot(number) }
    }

    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        self.queue.word().has(CLOSED)
    }

    /// Closed, and nothing can come any more: neither a message that is granted nor one that a permit will bring.
    #[inline(always)]
    pub(super) fn is_drained(&self) -> bool {
        self.is_closed() && self.core.used() == 0
    }

    /// Is there room for so many more, and no sender waits for it?
    #[inline(always)]
    pub(super) fn has_room(&self, slots: u32) -> bool {
        !self.queue.word().has(SENDERS) && self.covers(slots)
    }

    #[inline(always)]
    fn covers(&self, slots: u32) -> bool {
        self.core.capacity.saturating_sub(self.core.used()) >= slots
    }

    /// How many pending messages a receiver may take that does not wait: none while one waits for them.
    #[inline(always)]
    pub(super) fn available(&self) -> u32 {
        if self.queue.has_waiters() { 0 } else { self.core.pending.get() }
    }

    /// Takes a slot from the free ones. `None`: there is no memory for it, the store has to grow.
    #[inline(always)]
    fn take_slot(&mut self) -> Option<Numbered<'c, T>> {
        let free = self.state().free;
        if free == NONE {
            return self.take_fresh_slot();
        }
        let taken = self.numbered(free);
        self.state_mut().free = taken.slot.next.get();
        Some(taken)
    }

    /// Takes a slot that has never been used.
    #[inline]
    fn take_fresh_slot(&mut self) -> Option<Numbered<'c, T>> {
        let fresh = self.state().fresh;
        if fresh == self.state().allocated {
            return None;
        }
        // SAFETY: memory of the store, not used before.
        unsafe { self.core.store.slot(fresh).write(Slot::new()) };
        self.state_mut().fresh = fresh + 1;
        Some(self.numbered(fresh))
    }

    /// Takes a free slot, and a message into it, which is then to be made pending or granted. `None`, with nothing changed: the store has to grow.
    ///
    /// SAFETY: as [`Content::take`]. If a slot is returned, the message has been taken.
    #[inline(always)]
    unsafe fn fill_slot(&mut self, content: &Content<T>) -> Option<Numbered<'c, T>> {
        let taken = self.take_slot()?;
        // SAFETY: the caller's contract.
        let message = unsafe { content.take() };
        // SAFETY: the slot was free: no message is overwritten, and no other side looks at it.
        taken.slot.value.with_mut(|value| unsafe { (*value).write(message) });
        Some(taken)
    }

    /// Sends a message for which there is room: grants it to the first receiver, or makes it pending. `None`, with nothing changed: the store has to grow.
    ///
    /// SAFETY: as `fill_slot`.
    #[inline(always)]
    pub(super) unsafe fn send(&mut self, content: &Content<T>) -> Option<Deferred<Option<Waker>>> {
        // SAFETY: the caller's contract.
        let filled = unsafe { self.fill_slot(content) }?;
        // While steps are owed a message may be pending beside a receiver that waits: it comes first.
        if self.queue.has_waiters() && self.core.pending.get() == 0 {
            self.issue_ticket(filled);
            return Some(self.grant(filled.number));
        }
        self.append(filled.number);
        Some(Deferred::none())
    }

    /// Makes a message the last of those that are pending.
    #[inline(always)]
    fn append(&mut self, number: u32) {
        let pending = self.core.pending.get();
        if pending == 0 {
            self.state_mut().first = number;
        } else {
            self.slot(self.state().last).next.set(number);
        }
        self.state_mut().last = number;
        self.core.pending.set(pending + 1);
    }

    /// A message is granted for the first time: a later one gets a greater ticket.
    #[inline(always)]
    fn issue_ticket(&mut self, at: Numbered<'c, T>) -> u32 {
        let ticket = self.state().ticket;
        self.state_mut().ticket = ticket.wrapping_add(1);
        at.slot.ticket.set(ticket);
        ticket
    }

    /// The ticket of a message that leaves the channel, should it have to come back.
    #[inline(always)]
    pub(super) fn ticket(&mut self, popped: &Popped<'c, T>) -> u32 {
        if popped.returned { popped.at.slot.ticket.get() } else { self.issue_ticket(popped.at) }
    }

    /// Grants a message to the first receiver, which there is.
    #[inline(always)]
    fn grant(&mut self, number: u32) -> Deferred<Option<Waker>> {
        let front = self.queue.front().expect("a receiver waits");
        // SAFETY: the queue is locked, and it is in the list.
        unsafe { front.set_pointer(pack(number)) };
        self.hold(1);
        // SAFETY: there is a waiter; receivers are never woken without a grant.
        unsafe { self.queue.grant_sleeping_front() }.some()
    }

    /// Takes the oldest pending message out of the list.
    #[inline(always)]
    fn pop(&mut self) -> Option<Popped<'c, T>> {
        let pending = self.core.pending.get();
        if pending == 0 {
            return None;
        }
        let at = self.numbered(self.state().first);
        if pending > 1 {
            self.state_mut().first = at.slot.next.get();
        }
        self.core.pending.set(pending - 1);
        let returned = self.state().returned;
        if returned > 0 {
            self.state_mut().returned = returned - 1;
        }
        Some(Popped { at, returned: returned > 0 })
    }

    /// The same for a receiver that does not wait: `None` also if another one waits for the message.
    #[inline(always)]
    pub(super) fn pop_available(&mut self) -> Option<Popped<'c, T>> {
        if self.queue.has_waiters() { None } else { self.pop() }
    }

    /// A granted message becomes pending again, before all that have not been granted; among those that were put back, the older comes first.
    pub(super) fn attach_back(&mut self, number: u32) {
        self.release(1);
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
        let pending = self.core.pending.get();
        let (first, last) = (self.state().first, self.state().last);
        if pending == 0 || before == last {
            self.state_mut().last = number;
        } else {
            let next = if before == NONE { first } else { self.slot(before).next.get() };
            self.slot(number).next.set(next);
        }
        if before == NONE {
            self.state_mut().first = number;
        } else {
            self.slot(before).next.set(number);
        }
        self.core.pending.set(pending + 1);
    }

    /// The slot of a message that was pending and has been taken becomes free.
    #[inline(always)]
    pub(super) fn free_slot(&mut self, at: Numbered<'c, T>) {
        at.slot.next.set(self.state().free);
        self.state_mut().free = at.number;
    }

    /// So many slots more are granted or reserved.
    #[inline(always)]
    pub(super) fn hold(&mut self, slots: u32) {
        self.core.held.set(self.core.held.get() + slots);
    }

    /// So many slots less are granted or reserved.
    #[inline(always)]
    pub(super) fn release(&mut self, slots: u32) {
        self.core.held.set(self.core.held.get() - slots);
    }

    /// Takes the message out of a slot that is in no list.
    ///
    /// SAFETY: there is a message, and it is the caller's.
    #[inline(always)]
    pub(super) unsafe fn read(&self, at: Numbered<'c, T>) -> T {
        // SAFETY: the caller's contract.
        unsafe { at.slot.read() }
    }

    /// A message that had been taken is granted again, in a new slot, beyond the capacity if need be. Gives it back if there is no memory for that.
    pub(super) fn restore(&mut self, message: T, ticket: u32) -> Result<u32, T> {
        let content = Content::new(message);
        // SAFETY: the message is there.
        let Some(filled) = (unsafe { self.fill_slot(&content) }) else {
            // SAFETY: it has not been taken.
            return Err(unsafe { content.take() });
        };
        filled.slot.ticket.set(ticket);
        self.hold(1);
        Ok(filled.number)
    }

    /// Detaches all pending messages, in constant time. Their slots are not used again: there is no receiver.
    pub(super) fn detach(&mut self) -> Detached {
        let pending = self.core.pending.get();
        let chain = Detached { first: self.state().first, len: pending };
        self.core.pending.set(0);
        self.state_mut().returned = 0;
        chain
    }

    /// Reserves slots for which there is room.
    #[inline]
    pub(super) fn reserve(&mut self, slots: u32) {
        self.hold(slots);
        self.state_mut().permits += slots;
    }

    /// Gives reserved slots back.
    #[inline]
    pub(super) fn unreserve(&mut self, slots: u32) {
        self.release(slots);
        self.state_mut().permits -= slots;
    }

    /// Frees a slot and unlocks the queue; there is no step to make. A channel without a message gives the memory of most of its slots back.
    #[inline(always)]
    pub(super) fn free_and_unlock(mut self, at: Numbered<'c, T>) {
        self.free_slot(at);
        if self.state().allocated > self.state().keep && self.core.used() == 0 {
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

    /// A ticket before those of all that were put back, and of all that are granted later.
    pub(super) fn oldest_ticket(&mut self) -> u32 {
        if self.state().returned > 0 {
            return self.slot(self.state().first).ticket.get().wrapping_sub(1);
        }
        let ticket = self.state().ticket;
        self.state_mut().ticket = ticket.wrapping_add(1);
        ticket
    }

    /// Enqueues a sender.
    pub(super) fn push_sender(&mut self, waiter: NewWaiter<'_>) {
        // SAFETY: the senders' queue is edited only here and below, under this lock.
        let mut senders = unsafe { self.core.senders.lock_under(&self.queue) };
        senders.push_back(waiter);
        drop(senders);
        self.queue.set(SENDERS);
    }

    /// Takes a sender out that is `Waiting`; by its own future. Its waker, and whether it was the first: what was too little for it may be enough for the next.
    ///
    /// SAFETY: it is in the senders' queue of this channel, and `Waiting`.
    #[inline(always)]
    pub(super) unsafe fn remove_sender(&mut self, waiter: Pinned<'_>) -> (Deferred<Waker>, bool) {
        // SAFETY: as in `push_sender`.
        let mut senders = unsafe { self.core.senders.lock_under(&self.queue) };
        let was_first = senders.is_front(waiter);
        // SAFETY: the caller's contract.
        let waker = unsafe { senders.remove_sleeping(waiter) };
        if was_first {
            self.senders_wait(senders.has_waiters());
        }
        (waker, was_first)
    }

    #[inline(always)]
    fn senders_wait(&mut self, waits: bool) {
        if !waits {
            self.queue.clear(SENDERS);
        }
    }

    /// Ends the wait of the first sender if that can be done: refuses it if the channel is closed, makes its message pending, or reserves for it.
    #[inline(always)]
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
                // SAFETY: a sender without a number of slots carries its message, which is pinned in its future while that is queued.
                let content = unsafe { &*payload.cast::<Content<T>>() };
                // SAFETY: the lock is held; the message of a sender in the queue is there, and the sender leaves the queue below.
                let filled = unsafe { self.fill_slot(content) }?;
                self.append(filled.number);
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
    #[inline(always)]
    fn step(&mut self) -> Option<Step> {
        if self.queue.has_waiters() {
            if let Some(popped) = self.pop() {
                self.ticket(&popped);
                return Some(Step::Receiver(self.grant(popped.at.number)));
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
            || self.queue.has_waiters() && (self.core.pending.get() > 0 || self.is_drained())
    }

    /// Makes all steps, unlocks the queue, and wakes.
    #[inline(always)]
    pub(super) fn finish(self) {
        self.finish_with(Deferred::nothing());
    }

    /// As [`finish`](Self::finish), and opens what had come out of the queue. If it panics, that is dropped.
    #[inline(always)]
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

/// Messages that have left the channel: the first of a chain of slots, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detached {
    pub(super) first: u32,
    pub(super) len: u32,
}
