//! A channel while its queue is locked: slots, messages, and the steps that grant them.
//!
//! Every change of a channel goes through a [`Locked`], which the holder of the queue lock has; `senders.rs` and `fast_path.rs` have further functions of it. Nothing foreign runs: messages are moved, never dropped, and wakers come out
//! as [`Deferred`]. States, transitions and invariants: `core.rs`.

use super::core::{CLOSED, ChannelCore, SENDERS};
use super::parcel::Content;
use super::store::{MessageSlot, NONE, Numbered, Store, pack};
use super::ticket_heap::{Messages, RECEIVED, TicketHeap};
use crate::queue::batch::WakeBatch;
use crate::queue::grant_loop::{Granter, grant_loop_after};
use crate::queue::waiter::{wake, wake_owner};
use crate::queue::{Deferred, LockedQueue, QueueGuard, QueueWaker};
use ::core::cell::Cell;

/// What the queue lock protects, beside the two counts of the channel, which are also hints.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ChannelState {
    /// The oldest and the newest pending message that was never granted, if there is one.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Free slots, linked.
    pub(super) free: u32,
    /// Slots from here on have never been used.
    pub(super) fresh: u32,
    /// The ticket of the next message that is granted for the first time.
    ticket: i64,
    /// The pending messages that were granted before and put back: they come before the others.
    pub(super) returned: TicketHeap<u32>,
    /// So many slots are reserved.
    pub(super) permits: u32,
    pub(super) allocated: u32,
    /// There is no receiver any more.
    pub(super) has_no_receivers: bool,
}

impl ChannelState {
    pub(super) const fn new(allocated: u32) -> Self {
        Self {
            first: NONE,
            last: NONE,
            free: NONE,
            fresh: 0,
            ticket: 0,
            returned: TicketHeap::new(NONE),
            permits: 0,
            allocated,
            has_no_receivers: false,
        }
    }
}

/// A channel whose queue is locked.
pub(super) struct Locked<'c, T, S: Store<T>> {
    pub(super) core: &'c ChannelCore<T, S>,
    state: *mut ChannelState,
    pub(super) queue: LockedQueue<'c>,
}

/// The waker of a waiter whose wait a step has ended, on its way to be woken.
enum Step {
    Receiver(Deferred<Option<QueueWaker>>),
    Sender(Deferred<Option<QueueWaker>>),
}

/// A message that has left the list of those that are pending.
pub(super) struct Popped<'c, T> {
    pub(super) at: Numbered<'c, T>,
    /// It was granted before, so it has a ticket.
    returned: bool,
}

impl<'c, T, S: Store<T>> Locked<'c, T, S> {
    #[inline(always)]
    pub(super) fn new(core: &'c ChannelCore<T, S>, state: *mut ChannelState, queue: LockedQueue<'c>) -> Self {
        Self { core, state, queue }
    }

    #[inline(always)]
    pub(super) fn state(&self) -> &ChannelState {
        // SAFETY: the holder of the queue lock alone touches it, through this value.
        unsafe { &*self.state }
    }

    #[inline(always)]
    pub(super) fn state_mut(&mut self) -> &mut ChannelState {
        // SAFETY: as above.
        unsafe { &mut *self.state }
    }

    /// A slot that has been used before.
    #[inline(always)]
    fn slot(&self, number: u32) -> &'c MessageSlot<T> {
        debug_assert!(number < self.state().fresh, "slot {number} was never used");
        // SAFETY: made when it was first used; slots live as long as the channel, or until no slot is used.
        unsafe { &*self.core.store.slot(number) }
    }

    #[inline(always)]
    pub(super) fn numbered(&self, number: u32) -> Numbered<'c, T> {
        Numbered::new(number, self.slot(number))
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
    pub(super) fn covers(&self, slots: u32) -> bool {
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
        // SAFETY: a free slot, under the lock.
        self.state_mut().free = unsafe { taken.slot() }.next.get();
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
        unsafe { self.core.store.slot(fresh).write(MessageSlot::new()) };
        self.state_mut().fresh = fresh + 1;
        Some(self.numbered(fresh))
    }

    /// Takes a free slot, and a message into it, which is then to be made pending or granted. `None`, with nothing changed: the store has to grow.
    ///
    /// SAFETY: as [`Content::take`]. If a slot is returned, the message has been taken.
    #[inline(always)]
    pub(super) unsafe fn fill_slot(&mut self, content: &Content<T>) -> Option<Numbered<'c, T>> {
        let taken = self.take_slot()?;
        // SAFETY: it has just been taken, under the lock.
        let slot = unsafe { taken.slot() };
        // SAFETY: the caller's contract; the slot was free.
        unsafe { slot.fill(content) };
        Some(taken)
    }

    /// Sends a message for which there is room: grants it to the first receiver, or makes it pending. `None`, with nothing changed: the store has to grow.
    ///
    /// SAFETY: as `fill_slot`.
    #[inline(always)]
    pub(super) unsafe fn send(&mut self, content: &Content<T>) -> Option<Deferred<Option<QueueWaker>>> {
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
    pub(super) fn append(&mut self, number: u32) {
        let pending = self.core.pending.get();
        if pending == self.state().returned.len() {
            self.state_mut().first = number;
        } else {
            self.slot(self.state().last).next.set(number);
        }
        self.state_mut().last = number;
        self.core.pending.set(pending + 1);
    }

    /// A message is granted for the first time: a later one gets a greater ticket.
    #[inline(always)]
    fn issue_ticket(&mut self, at: Numbered<'c, T>) -> i64 {
        let ticket = self.state().ticket;
        self.state_mut().ticket = ticket + 1;
        // SAFETY: a slot with a message, under the lock.
        unsafe { at.slot() }.ticket.set(ticket);
        ticket
    }

    /// The ticket of a message that leaves the channel, should it have to come back.
    #[inline(always)]
    pub(super) fn ticket(&mut self, popped: &Popped<'c, T>) -> i64 {
        if popped.returned {
            // SAFETY: a slot with a message, under the lock.
            unsafe { popped.at.slot() }.ticket.get()
        } else {
            self.issue_ticket(popped.at)
        }
    }

    /// Grants a message to the first receiver, which there is.
    #[inline(always)]
    fn grant(&mut self, number: u32) -> Deferred<Option<QueueWaker>> {
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
        self.core.pending.set(pending - 1);
        let returned = self.state().returned.len() > 0;
        let core = self.core;
        let number = if returned { pop_returned(core, self.state_mut()) } else { self.state().first };
        let at = self.numbered(number);
        if !returned {
            // Behind the last one it is anything, and so is then the first of no messages.
            // SAFETY: a slot with a message, under the lock.
            self.state_mut().first = unsafe { at.slot() }.next.get();
        }
        Some(Popped { at, returned })
    }

    /// The same for a receiver that does not wait: `None` also if another one waits for the message.
    #[inline(always)]
    pub(super) fn pop_available(&mut self) -> Option<Popped<'c, T>> {
        if self.queue.has_waiters() { None } else { self.pop() }
    }

    /// A granted message becomes pending again, before all that have not been granted; among those that were put back, the older comes first.
    pub(super) fn put_back(&mut self, number: u32) {
        let core = self.core;
        self.release(1);
        self.state_mut().returned.insert(number, core);
        core.pending.set(core.pending.get() + 1);
    }

    /// The slot of a message that was pending and has been taken becomes free.
    #[inline(always)]
    pub(super) fn free_slot(&mut self, at: Numbered<'c, T>) {
        // SAFETY: its message has been taken in this hold of the lock, in which no memory was given back.
        unsafe { at.slot() }.next.set(self.state().free);
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
        // SAFETY: a slot with a message, under the lock.
        let slot = unsafe { at.slot() };
        // SAFETY: the caller's contract.
        unsafe { slot.read() }
    }

    /// A message that had been taken is granted again, in a new slot, beyond the capacity if need be. Gives it back if there is no memory for that.
    pub(super) fn restore(&mut self, message: T, ticket: i64) -> Result<u32, T> {
        let content = Content::new(message);
        // SAFETY: the message is there.
        let Some(filled) = (unsafe { self.fill_slot(&content) }) else {
            // SAFETY: it has not been taken.
            return Err(unsafe { content.take() });
        };
        // SAFETY: a slot with a message, under the lock.
        unsafe { filled.slot() }.ticket.set(ticket);
        self.hold(1);
        Ok(filled.number)
    }

    /// Detaches all pending messages, in constant time. Their slots are not used again: there is no receiver.
    pub(super) fn detach(&mut self) -> DetachedMessages {
        let pending = self.core.pending.get();
        let returned = self.state_mut().returned.take::<ChannelCore<T, S>>();
        self.core.pending.set(0);
        DetachedMessages { first: self.state().first, len: pending - returned.len(), returned }
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

    /// Frees a slot and unlocks the queue; there is no step to make.
    #[inline(always)]
    pub(super) fn free_and_unlock(mut self, at: Numbered<'c, T>) {
        self.free_slot(at);
        self.unlock_idle();
    }

    /// Unlocks the queue; there is no step to make. A channel without a message gives the memory of most of its slots back.
    #[inline(always)]
    pub(super) fn unlock_idle(self) {
        if self.may_shrink_with(0) {
            self.shrink();
        }
    }

    /// Is there memory to be given back, and has no slot a message but so many that are pending? Room that is reserved has no slot.
    #[inline(always)]
    pub(super) fn may_shrink_with(&self, pending: u32) -> bool {
        self.state().allocated > self.core.keep
            && self.core.pending.get() == pending
            && self.core.held.get() == self.state().permits
    }

    #[cold]
    #[inline(never)]
    fn shrink(mut self) {
        let freed = self.release_memory();
        drop(self.unlock_with(freed));
    }

    /// No slot has a message: all but the first are given up. They are freed after the unlock.
    fn release_memory(&mut self) -> Deferred<S::Released> {
        let keep = self.core.keep;
        let state = self.state_mut();
        (state.free, state.fresh, state.allocated) = (NONE, 0, keep);
        Deferred::new(self.core.store.release(keep))
    }

    /// A ticket for a message that was received in the first poll, so that its own was not kept, and that comes back: before those of all messages in the channel, and behind that of the last that came back so.
    pub(super) fn ticket_of_a_received_message(&mut self) -> i64 {
        let ticket = self.state().ticket;
        self.state_mut().ticket = ticket + 1;
        ticket - RECEIVED
    }

    /// One step towards a state in which no wait can be ended; `None` if it is that. A slot that the caller has emptied becomes free, or has the message of the first sender then.
    #[inline(always)]
    fn step(&mut self, emptied: Option<Numbered<'c, T>>) -> Option<Step> {
        if self.queue.has_waiters() && self.core.pending.get() > 0 {
            if let Some(at) = emptied {
                self.free_slot(at);
            }
            if let Some(popped) = self.pop() {
                self.ticket(&popped);
                return Some(Step::Receiver(self.grant(popped.at.number)));
            }
            return None;
        }
        if let Some(waker) = self.end_first_send(emptied) {
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
    pub(super) fn finish_with<D>(self, deferred: Deferred<D>) -> D {
        self.finish_after(None, deferred)
    }

    /// As [`finish`](Self::finish), after the message in this slot, which was pending or granted, has been taken.
    #[inline(always)]
    pub(super) fn finish_freeing(self, emptied: Numbered<'c, T>) {
        if self.may_shrink_with(0) {
            return self.finish_shrinking();
        }
        self.finish_after(Some(emptied), Deferred::nothing());
    }

    /// As [`finish`](Self::finish), after messages have been taken whose slots are free.
    #[cfg(feature = "alloc")]
    pub(super) fn finish_freed(self) {
        if self.may_shrink_with(0) {
            return self.finish_shrinking();
        }
        self.finish();
    }

    /// The last message has been taken, and there may be steps to make: before that, the memory of most slots is given back, as by [`unlock_idle`](Self::unlock_idle). A sender that waits gets a slot of those that are left.
    #[cold]
    #[inline(never)]
    fn finish_shrinking(mut self) {
        let freed = self.release_memory();
        drop(self.finish_with(freed));
    }

    #[inline(always)]
    fn finish_after<D>(mut self, emptied: Option<Numbered<'c, T>>, deferred: Deferred<D>) -> D {
        let core = self.core;
        let Some(step) = self.step(emptied) else {
            if self.lacks_a_slot() {
                return grant_loop_after(Deferred::none(), deferred, self, || core.lock_with_slots());
            }
            return self.unlock_with(deferred);
        };
        // Mostly it is one.
        if self.owes_a_step() {
            let (Step::Receiver(waker) | Step::Sender(waker)) = step;
            return grant_loop_after(waker, deferred, self, || core.lock_with_slots());
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
            match self.step(None) {
                Some(Step::Receiver(waker) | Step::Sender(waker)) => batch.push(waker),
                None => return self.lacks_a_slot(),
            }
        }
        true
    }
}

/// Messages that have left the channel: those that had been put back, and the first of a chain of slots, and how many there are in it.
#[derive(Debug)]
pub(super) struct DetachedMessages {
    returned: TicketHeap<u32>,
    first: u32,
    len: u32,
}

impl DetachedMessages {
    /// The next of them.
    ///
    /// SAFETY: they were detached from this channel, and are the caller's alone.
    pub(super) unsafe fn next<T, S: Store<T>>(&mut self, core: &ChannelCore<T, S>) -> Option<T> {
        let at = match self.returned.pop(core) {
            Some(number) => used_slot(core, number),
            None => {
                self.len = self.len.checked_sub(1)?;
                let at = used_slot(core, self.first);
                self.first = at.next.get();
                at
            }
        };
        // SAFETY: the caller's contract; a pending slot has a message.
        Some(unsafe { at.read() })
    }
}

/// The oldest of the messages that were put back, of which there is one. Takes and returns what fits into registers: a locked channel that is passed by reference has to be stored.
#[cold]
#[inline(never)]
fn pop_returned<T, S: Store<T>>(core: &ChannelCore<T, S>, state: &mut ChannelState) -> u32 {
    state.returned.pop(core).expect("a message was put back")
}

/// A slot of a channel that has been used.
fn used_slot<T, S: Store<T>>(core: &ChannelCore<T, S>, number: u32) -> &MessageSlot<T> {
    // SAFETY: made when it was first used; slots live as long as the channel, or until no slot is used.
    unsafe { &*core.store.slot(number) }
}

/// The messages that were put back are linked through their slots, which are in no other list then.
impl<T, S: Store<T>> Messages for ChannelCore<T, S> {
    type Link = u32;
    const NONE: u32 = NONE;

    fn ticket(&self, number: u32) -> i64 {
        used_slot(self, number).ticket.get()
    }

    fn below(&self, number: u32) -> [&Cell<u32>; 2] {
        let slot = used_slot(self, number);
        [&slot.next, &slot.right]
    }
}
