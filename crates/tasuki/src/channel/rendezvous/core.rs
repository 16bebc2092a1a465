//! The rendezvous without handles: three lists of waiters under one queue lock, and no room for a message.
//!
//! A message stays in the future of its send until a receive takes it, and the send ends then. So a sender that finds a receiver waiting can only wake it; the woken
//! receiver takes the message of the *first* sender when it is polled, so messages go in the order of their senders whatever the order of the polls.
//!
//! Receivers are in the order of their first polls, in one row of two lists. For the first of them, as many as there are senders, a message is reserved (`reserved`); the others follow (`queue`). A sender that comes moves the
//! border by one receiver, which it wakes. A sender that is cancelled takes its message away, and the last receiver before the border, whichever sender woke it, is the first behind it again: no receiver changes its place, and
//! one that was woken and not polled since need not be woken again.
//!
//! A `try_send` has no future for its message. It hands it, in a box, to the first receiver for which none is reserved, as its own; a receive that is dropped with it puts it back, for the next
//! receiver, before the messages of all senders, and in the order of the grants (`boxed_message.rs`).
//!
//! ```text
//!   first poll first      border
//!   reserved: [a] [b] [c]   |   queue: [d] [e]            senders: [1] [2] [3]
//! ```
//!
//! | list       | holds                                                       | state     |
//! |------------|-------------------------------------------------------------|-----------|
//! | `queue`    | receivers for which no message is reserved; its lock protects everything | `Waiting`, or `Woken` for a sender that was cancelled |
//! | `reserved` | receivers for which one is, and which have not been polled since | `Woken` |
//! | `senders`  | senders that wait                                            | `Waiting` |
//! | `put_back` | messages that were handed over and put back, by ticket       | –         |
//!
//! # Transitions
//!
//! | event                           | what happens                                                   | duty              | function |
//! |---------------------------------|----------------------------------------------------------------|-------------------|----------|
//! | send                            | the sender is enqueued                                          | a step, `Pending` | [`RendezvousCore::enqueue_sender`] |
//! | `try_send`, a receiver in `queue` | it is granted the box                                         | wake it           | [`RendezvousCore::try_send`] |
//! | recv, a message was put back      | takes it                                                        | steps             | `LockedRendezvous::take` |
//! | recv, more senders than `reserved` | takes the message of the first sender, which is granted      | wake it           | `LockedRendezvous::take` |
//! | recv                            | the receiver is enqueued                                        | `Pending`         | `receive` |
//! | a step: a message was put back, and a receiver in `queue` | the first is granted the box              | wake it           | `LockedRendezvous::step` |
//! | a step: more senders than `reserved`, and a receiver in `queue` | the first => back of `reserved`     | wake it           | `LockedRendezvous::step` |
//! | poll of a receiver in `reserved` | as recv                                                        | steps             | [`RendezvousCore::claim`] |
//! | poll of a receiver in `queue`   | rearmed, in its place                                           | `Pending`         | [`RendezvousCore::poll_listed`] |
//! | poll of a granted receiver      | takes its box                                                   | steps, if closed  | [`RendezvousCore::claim_handed`] |
//! | drop of a granted receiver      | its box => `put_back`                                           | steps             | [`RendezvousCore::cancel_dropped`] |
//! | drop of a receiver in `reserved` | removed                                                        | a step            | [`RendezvousCore::cancel_dropped`] |
//! | drop or refusal of a queued sender | removed, with its message; the last of `reserved` => front of `queue`, if it has more than there are senders | steps | [`RendezvousCore::cancel_send`], `LockedRendezvous::sender_gone` |
//! | a poll panics after it took a message | in a box: granted to that receive, or put back in its place | steps             | [`UndoRendezvous`] |
//! | close                           | –                                                               | steps             | [`RendezvousCore::close`] |
//! | a step: closed                  | a sender is refused; without boxes also a receiver              | wake it           | `LockedRendezvous::step` |
//! | the last receiver goes          | closed, `put_back` is dropped                                   | steps             | [`RendezvousCore::close_without_receivers`] |
//!
//! # Invariants
//! 1. Outside the lock, and unless steps are owed: a receiver in `queue` means that no message was put back, and that there are as many receivers in `reserved` as senders; no sender waits in a
//!    closed rendezvous, and no receiver in `queue` in a closed one without boxes.
//! 2. `senders`, `reserved` and `put_back` are changed only under the lock of `queue`. A receiver's mark says in which list it is.
//! 3. The message of a queued sender is in its future.
//! 4. `reserved`, then `queue`, is the order of the first polls. There are never more receivers in `reserved` than senders.
//! 5. `handed` is the number of boxes, granted or put back. A receiver that is `Notified` and granted carries its box, or null once it has taken it.
//!
//! # Orderings
//! As in `channel/core.rs`: the lock, and the waiter's state for a sender whose message was taken and for a receiver that was granted a box.

use super::super::error::TryRecvError;
use super::super::parcel::Content;
use super::super::receive::AfterPanic;
use super::super::ticket_heap::RECEIVED;
use super::boxed_message::{BoxedMessage, Message, PutBack};
use crate::error::Closed;
use crate::event::{Event, Reset};
use crate::queue::batch::{WakeBatch, while_unwinding};
use crate::queue::grant_loop::{Granter, grant_loop_after};
use crate::queue::waiter::{Payload, Verdict, WaiterState, clone_waker, drop_waker, wake};
use crate::queue::word::{FLAG_A as CLOSED, Word};
use crate::queue::{Deferred, LockedQueue, Pinned, QueueGuard, QueueWaker, Removed, WaitQueue};
use crate::shim::{Ordering, UnsafeCell};
use crate::wait::WaiterSlot;
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, replace};
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr;
use core::task::{Context, Poll};

/// The mark of a receiver in `queue`, and of one in `reserved`.
pub(super) const WAITS: u32 = 0;
const RESERVED: u32 = 1;

/// How many steps are made in one hold of the lock, also if they wake none: as many as a batch has room for wakers.
const STEPS: usize = if crate::shim::MODEL { 2 } else { 32 };

/// How many there are in two of the lists, and the messages without a sender.
#[derive(Debug)]
pub(super) struct Counts<T> {
    pub(super) senders: usize,
    reserved: usize,
    /// Boxes that are granted or put back.
    pub(super) handed: usize,
    put_back: PutBack<T>,
    /// Of the next message that is granted for the first time.
    ticket: i64,
}

impl<T> Counts<T> {
    /// A message is granted, or taken from its sender: a later one gets a greater ticket.
    pub(super) fn issue_ticket(&mut self) -> i64 {
        self.ticket += 1;
        self.ticket
    }
}

/// A rendezvous, without handles.
pub(super) struct RendezvousCore<T> {
    pub(super) queue: WaitQueue,
    reserved: WaitQueue,
    senders: WaitQueue,
    counts: UnsafeCell<Counts<T>>,
    /// Set when it is closed.
    pub(super) closed: Event,
    message: PhantomData<fn(T) -> T>,
}

// SAFETY: a message is moved from a sender's thread to a receiver's, never shared; the counts are touched under the lock only.
unsafe impl<T: Send> Sync for RendezvousCore<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for RendezvousCore<T> {}
// As every other channel, and as those of std: a panic leaves whole messages.
impl<T> UnwindSafe for RendezvousCore<T> {}
impl<T> RefUnwindSafe for RendezvousCore<T> {}

pub(super) struct LockedRendezvous<'c, T> {
    core: &'c RendezvousCore<T>,
    counts: *mut Counts<T>,
    pub(super) queue: LockedQueue<'c>,
}

enum RendezvousStep {
    Receiver(Deferred<Option<QueueWaker>>),
    Sender(Deferred<Option<QueueWaker>>),
}

impl<'c, T> LockedRendezvous<'c, T> {
    pub(super) fn counts(&mut self) -> &mut Counts<T> {
        // SAFETY: the holder of the lock alone touches it, through this value.
        unsafe { &mut *self.counts }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue.word().has(CLOSED)
    }

    pub(super) fn senders(&self) -> LockedQueue<'c> {
        // SAFETY: invariant 2.
        unsafe { self.core.senders.lock_under(&self.queue) }
    }

    fn reserved(&self) -> LockedQueue<'c> {
        // SAFETY: invariant 2.
        unsafe { self.core.reserved.lock_under(&self.queue) }
    }

    /// Closed, and no message can come any more, also not by a receive that is dropped.
    fn is_drained(&mut self) -> bool {
        self.is_closed() && self.counts().handed == 0
    }

    /// Is there a message that is not reserved for a receiver?
    pub(super) fn has_message(&mut self) -> bool {
        let counts = self.counts();
        !counts.put_back.is_empty() || counts.senders > counts.reserved && !self.is_closed()
    }

    /// Is there a message for a receiver that is not queued? While steps are owed one may be there beside a receiver that waits, which comes first.
    fn has_message_for_newcomer(&mut self) -> bool {
        !self.queue.has_waiters() && self.has_message()
    }

    /// Takes the first message, which there is: one that was put back, or that of the first sender, which is granted.
    fn take(&mut self) -> (Message<T>, Deferred<Option<QueueWaker>>) {
        if let Some(handed) = self.counts().put_back.pop() {
            self.counts().handed -= 1;
            return (Message::Boxed(handed), Deferred::none());
        }
        self.counts().senders -= 1;
        let ticket = self.counts().issue_ticket();
        let mut senders = self.senders();
        let payload = senders.front().expect("a sender waits").pointer();
        // SAFETY: a sender carries its message, which is pinned in its future while that is queued.
        let content = unsafe { &*payload.cast::<Content<T>>() };
        // SAFETY: invariant 3; the lock is held, and the sender leaves the queue below.
        let message = unsafe { content.take() };
        // SAFETY: there is a waiter; senders are never woken without a grant.
        (Message::Moved(message, ticket), unsafe { senders.grant_sleeping_front() }.some())
    }

    /// Grants a box to the first receiver, which there is.
    pub(super) fn hand(&mut self, handed: Box<BoxedMessage<T>>) -> Deferred<Option<QueueWaker>> {
        let front = self.queue.front().expect("a receiver waits");
        // SAFETY: the queue is locked, and it is in the list.
        unsafe { front.set_pointer(handed.into_pointer()) };
        // SAFETY: there is a waiter.
        unsafe { self.queue.grant_front() }
    }

    /// A sender has left its list, and no receive has its message: if it was reserved, the last receiver of those for which one is has none now, and is the first of the others.
    pub(super) fn sender_gone(&mut self) {
        self.counts().senders -= 1;
        if self.counts().reserved > self.counts().senders {
            self.counts().reserved -= 1;
            let last =
                self.reserved().detach_back(WAITS).expect("a receiver is there for each that is counted");
            self.queue.push_front_detached(last);
        }
    }

    /// One step towards a state in which no wait can be ended.
    fn step(&mut self) -> Option<RendezvousStep> {
        if self.queue.has_waiters() {
            if let Some(handed) = self.counts().put_back.pop() {
                return Some(RendezvousStep::Receiver(self.hand(handed)));
            }
        }
        if self.is_closed() {
            if self.counts().senders > 0 {
                // SAFETY: there is a waiter.
                let waker = unsafe { self.senders().refuse_front() };
                self.sender_gone();
                return Some(RendezvousStep::Sender(waker));
            }
            if self.queue.has_waiters() && self.is_drained() {
                // SAFETY: there is a waiter.
                return Some(RendezvousStep::Receiver(unsafe { self.queue.refuse_front() }));
            }
            return None;
        }
        if !self.has_message() || !self.queue.has_waiters() {
            return None;
        }
        // SAFETY: there is a waiter. None if it was woken for another sender, and not polled since.
        let waker = unsafe { self.queue.wake_front() };
        let detached = self.queue.detach_front(RESERVED).expect("a receiver waits");
        self.reserved().push_back_detached(detached);
        self.counts().reserved += 1;
        Some(RendezvousStep::Receiver(waker))
    }

    /// May there be a step to make? `false` is certain.
    fn owes_a_step(&mut self) -> bool {
        self.is_closed() || self.queue.has_waiters() && self.has_message()
    }

    /// Makes all steps, unlocks the queue, and wakes: first the sender that was granted, and all others also if a waker panics.
    fn finish_after(mut self, sender: Deferred<Option<QueueWaker>>) {
        let core = self.core;
        if self.owes_a_step() {
            return grant_loop_after(sender, Deferred::nothing(), self, || core.lock());
        }
        wake(self.unlock_with(sender));
    }

    /// Makes all steps, unlocks the queue, wakes, and opens what had come out of it.
    pub(super) fn finish_with<D>(mut self, deferred: Deferred<D>) -> D {
        let Some(first) = self.step() else { return self.unlock_with(deferred) };
        let (RendezvousStep::Receiver(waker) | RendezvousStep::Sender(waker)) = first;
        let core = self.core;
        grant_loop_after(waker, deferred, self, || core.lock())
    }
}

impl<T> QueueGuard for LockedRendezvous<'_, T> {}

impl<T> Granter for LockedRendezvous<'_, T> {
    fn grant_some(&mut self, batch: &mut WakeBatch) -> bool {
        for _ in 0..STEPS {
            if batch.is_full() {
                break;
            }
            match self.step() {
                Some(RendezvousStep::Receiver(waker) | RendezvousStep::Sender(waker)) => batch.push(waker),
                None => return false,
            }
        }
        true
    }
}

impl<T> RendezvousCore<T> {
    pub(super) fn new() -> Self {
        Self {
            queue: WaitQueue::new(Word::flags(0)),
            reserved: WaitQueue::new(Word::flags(0)),
            senders: WaitQueue::new(Word::flags(0)),
            counts: UnsafeCell::new(Counts {
                senders: 0,
                reserved: 0,
                handed: 0,
                put_back: PutBack::new(),
                ticket: 0,
            }),
            closed: Event::new(Reset::Manual, false),
            message: PhantomData,
        }
    }

    pub(super) fn lock(&self) -> LockedRendezvous<'_, T> {
        let queue = self.queue.lock();
        LockedRendezvous { core: self, counts: self.counts.with_mut(|counts| counts), queue }
    }

    /// No message can be handed over any more; false if that was so.
    pub(super) fn close(&self) -> bool {
        let locked = self.lock();
        !locked.is_closed() && {
            self.close_locked(locked);
            true
        }
    }

    fn close_locked(&self, mut locked: LockedRendezvous<'_, T>) {
        struct SetClosedEvent<'c>(&'c Event);
        impl Drop for SetClosedEvent<'_> {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        locked.queue.set(CLOSED);
        let _told = SetClosedEvent(&self.closed);
        locked.finish_with(Deferred::nothing());
    }

    /// The last receiver was dropped: closes, and drops what no receiver can take any more, without the lock.
    pub(super) fn close_without_receivers(&self) {
        let mut locked = self.lock();
        let counts = locked.counts();
        counts.handed = 0;
        let _put_back = replace(&mut counts.put_back, PutBack::new());
        self.close_locked(locked);
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with Release in the drop of `LockedQueue` by the close.
        self.queue.load_with(Ordering::Acquire).has(CLOSED)
    }

    /// The first message, if none is reserved for a receiver.
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.try_take().map(|(message, _)| message)
    }

    /// The same, with its ticket, should it have to come back.
    fn try_take(&self) -> Result<(T, i64), TryRecvError> {
        let mut locked = self.lock();
        if locked.has_message_for_newcomer() {
            return Ok(self.deliver(locked, None));
        }
        Err(if locked.is_drained() { TryRecvError::Closed } else { TryRecvError::Empty })
    }

    /// Takes the first message, which there is, and wakes what it lets go on. Should that panic, the message is that of this receive again, which is in no list, or
    /// put back in its place.
    fn deliver(&self, mut locked: LockedRendezvous<'_, T>, waiter: Option<Pinned<'_>>) -> (T, i64) {
        let (message, sender) = locked.take();
        let ticket = message.ticket();
        let undo = UndoRendezvous { core: self, message: ManuallyDrop::new(message), waiter };
        locked.finish_after(sender);
        (undo.disarm(), ticket)
    }

    pub(super) fn may_recv(&self) -> bool {
        let mut locked = self.lock();
        locked.has_message_for_newcomer() || locked.is_drained()
    }

    /// Enqueues a receiver, or has a message after all.
    pub(super) fn receive(&self, slot: WaiterSlot<'_>, cx: &Context<'_>) -> Poll<Result<T, Closed>> {
        loop {
            let waker = clone_waker(cx.waker());
            let mut locked = self.lock();
            if !locked.is_drained() && !locked.has_message_for_newcomer() {
                locked.queue.push_back(slot.init(waker, Payload::NONE));
                return Poll::Pending;
            }
            drop(locked);
            // Dropped first: a panic loses no message then.
            drop_waker(Some(waker));
            match self.try_take() {
                Ok((message, ticket)) => {
                    slot.claimed(ticket);
                    return Poll::Ready(Ok(message));
                }
                Err(TryRecvError::Closed) => return Poll::Ready(Err(Closed)),
                // Another receiver was faster.
                Err(TryRecvError::Empty) => {}
            }
        }
    }

    /// A queued receiver is polled.
    pub(super) fn poll_receiver(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        match waiter.get().state() {
            WaiterState::Notified => Poll::Ready(self.claim_handed(waiter, AfterPanic::GoesOn)),
            WaiterState::Waiting if waiter.get().will_wake(cx.waker()) => Poll::Pending,
            WaiterState::Waiting | WaiterState::Woken => loop {
                if let Some(ended) = self.poll_listed(waiter, cx) {
                    break ended;
                }
            },
        }
    }

    /// `reserved => gone`, with a message; or it waits on in its place, with this waker. `None`: the message has gone meanwhile, look again.
    fn poll_listed(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Option<Poll<Result<T, Closed>>> {
        let waker = clone_waker(cx.waker());
        let mut locked = self.lock();
        if waiter.get().state() == WaiterState::Notified {
            drop(locked);
            drop_waker(Some(waker));
            return Some(Poll::Ready(self.claim_handed(waiter, AfterPanic::GoesOn)));
        }
        if waiter.get().mark() == RESERVED {
            drop(locked);
            // Dropped first: a panic loses no message then, and the receiver keeps its place.
            drop_waker(Some(waker));
            return self.claim(waiter, AfterPanic::GoesOn).map(|message| Poll::Ready(Ok(message)));
        }
        // SAFETY: not `Notified`, and not marked, so it is in this list (invariant 2).
        let old = unsafe { locked.queue.rearm(waiter, waker) };
        drop_waker(locked.unlock_with(old));
        Some(Poll::Pending)
    }

    /// A receiver for which a message is reserved takes the first one.
    fn claim(&self, waiter: Pinned<'_>, wait: AfterPanic) -> Option<T> {
        let mut locked = self.lock();
        if waiter.get().state() == WaiterState::Notified || waiter.get().mark() != RESERVED {
            return None;
        }
        // Granted, and it carries nothing: what it gets back after a panic is its own.
        self.remove_reserved(&mut locked, waiter, Verdict::Granted);
        let (message, ticket) = self.deliver(locked, wait.waiter(waiter));
        // SAFETY: its own future, which has made it `Notified`.
        unsafe { waiter.get().set_ticket(ticket) };
        Some(message)
    }

    /// A receiver that is `Notified` takes the box that it was granted; `Closed` if it was refused.
    fn claim_handed(&self, waiter: Pinned<'_>, wait: AfterPanic) -> Result<T, Closed> {
        let handed = self.take_box(waiter).ok_or(Closed)?;
        // SAFETY: its own future, which has seen `Notified`.
        unsafe { waiter.get().set_ticket(handed.ticket) };
        let mut locked = self.lock();
        locked.counts().handed -= 1;
        let message = ManuallyDrop::new(Message::Boxed(handed));
        let undo = UndoRendezvous { core: self, message, waiter: wait.waiter(waiter) };
        locked.finish_with(Deferred::nothing());
        Ok(undo.disarm())
    }

    /// The box of a receiver that is `Notified`, if it was granted one and has not taken it.
    fn take_box(&self, waiter: Pinned<'_>) -> Option<Box<BoxedMessage<T>>> {
        let pointer = waiter.get().pointer();
        if waiter.get().verdict() == Verdict::Refused || pointer.is_null() {
            return None;
        }
        // SAFETY: its own future, which has seen `Notified`.
        unsafe { waiter.get().set_pointer(ptr::null_mut()) };
        // SAFETY: invariant 5; it is not taken again.
        Some(unsafe { BoxedMessage::from_pointer(pointer) })
    }

    fn remove_reserved(&self, locked: &mut LockedRendezvous<'_, T>, waiter: Pinned<'_>, verdict: Verdict) {
        locked.counts().reserved -= 1;
        // SAFETY: marked, so it is in that list (invariant 2). `Woken`: its slot is empty.
        let _ = unsafe { locked.reserved().remove_as(waiter, verdict) };
    }

    /// A queued receiver ends by a limit: what it was granted, or what is reserved for it.
    pub(super) fn cancel(&self, waiter: Pinned<'_>) -> Option<Result<T, Closed>> {
        if let Some(message) = self.claim(waiter, AfterPanic::IsOver) {
            return Some(Ok(message));
        }
        self.take_out(waiter).then(|| self.claim_handed(waiter, AfterPanic::IsOver))
    }

    /// A queued receiver is dropped: what it was granted, or what was reserved for it, goes to the next.
    pub(super) fn cancel_dropped(&self, waiter: Pinned<'_>) {
        if self.take_out(waiter) {
            if let Some(handed) = self.take_box(waiter) {
                let mut locked = self.lock();
                locked.counts().put_back.insert(handed);
                locked.finish_with(Deferred::nothing());
            }
        }
    }

    /// Takes a queued receiver out of its list; true if it was granted or refused before, and is in none.
    fn take_out(&self, waiter: Pinned<'_>) -> bool {
        let mut locked = self.lock();
        if waiter.get().state() == WaiterState::Notified {
            return true;
        }
        if waiter.get().mark() == RESERVED {
            self.remove_reserved(&mut locked, waiter, Verdict::Refused);
            locked.finish_with(Deferred::nothing());
        } else {
            // SAFETY: not `Notified`, and not marked, so it is in this list (invariant 2).
            let Removed::Waker(waker) = (unsafe { locked.queue.remove(waiter) }) else { return true };
            drop_waker(locked.unlock_with(waker));
        }
        false
    }

    /// As [`Locked::ticket_of_a_received_message`](super::super::locked::Locked::ticket_of_a_received_message).
    pub(super) fn ticket_of_a_received_message(&self) -> i64 {
        self.lock().counts().issue_ticket() - RECEIVED
    }

    /// A message that was received is not wanted after all: it has its place among those that come back.
    pub(super) fn put_back(&self, message: T, ticket: i64) {
        drop(UndoRendezvous {
            core: self,
            message: ManuallyDrop::new(Message::Moved(message, ticket)),
            waiter: None,
        });
    }
}

/// A message that is being received. If foreign code panics meanwhile, the message is moved to a box, which is granted to the receive if that still waits, or put back in order.
struct UndoRendezvous<'a, T> {
    core: &'a RendezvousCore<T>,
    message: ManuallyDrop<Message<T>>,
    /// `Notified`, granted, and without a box.
    waiter: Option<Pinned<'a>>,
}

impl<T> UndoRendezvous<'_, T> {
    fn disarm(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: the drop does not run.
        unsafe { ManuallyDrop::take(&mut this.message) }.open()
    }
}

impl<T> Drop for UndoRendezvous<'_, T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: not disarmed, so it is there; not used again.
        let handed = unsafe { ManuallyDrop::take(&mut self.message) }.into_box();
        let mut locked = self.core.lock();
        locked.counts().handed += 1;
        match self.waiter {
            // SAFETY: its own future, which has seen `Notified`.
            Some(waiter) => unsafe { waiter.get().set_pointer(handed.into_pointer()) },
            None => {
                locked.counts().put_back.insert(handed);
                while_unwinding(|| locked.finish_with(Deferred::nothing()));
            }
        }
    }
}

impl<T> fmt::Debug for RendezvousCore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendezvous").field("closed", &self.is_closed()).finish()
    }
}
