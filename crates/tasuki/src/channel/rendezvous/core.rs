//! The rendezvous without handles: three lists of waiters under one queue lock, and no room for a message.
//!
//! A message stays in the future of its send until a receive takes it, and the send ends then. So a sender that finds a receiver waiting can only wake it; the woken
//! receiver takes the message of the *first* sender when it is polled, so messages go in the order of their senders whatever the order of the polls.
//! A sender that is cancelled meanwhile takes its message away; the receiver then waits again, in front of all that have not been woken.
//!
//! | list       | who                                                         | state     |
//! |------------|-------------------------------------------------------------|-----------|
//! | `queue`    | receivers that wait; its lock protects everything            | `Waiting` |
//! | `woken`    | receivers that were woken for a message and not polled since | `Woken`   |
//! | `senders`  | senders that wait                                            | `Waiting` |
//!
//! # Transitions
//!
//! | event                           | what happens                                                   | duty              | function |
//! |---------------------------------|----------------------------------------------------------------|-------------------|----------|
//! | send                            | the sender is enqueued                                          | a step, `Pending` | [`Core::enqueue_sender`] |
//! | recv, more senders than woken   | takes the message of the first sender, which is granted         | wake it           | `Locked::take` |
//! | recv                            | the receiver is enqueued                                        | `Pending`         | `receive` |
//! | a step: more senders than woken, and a receiver waits | `queue` => `woken`                        | wake it           | `Locked::step` |
//! | poll of a woken receiver        | as recv; without a sender: `woken` => front of `queue`          | –                 | [`Core::poll_woken`] |
//! | drop of a woken receiver        | removed                                                         | a step            | [`Core::leave`] |
//! | drop of a queued sender         | removed, with its message                                       | –                 | [`Core::leave_senders`] |
//! | close                           | –                                                               | steps             | [`Core::close`] |
//! | a step: closed                  | a sender is refused, then a receiver                            | wake it           | `Locked::step` |
//!
//! # Invariants
//! 1. Outside the lock, and unless steps are owed: a receiver in `queue` means that there are no more senders than woken receivers; no sender and no receiver in `queue` in a
//!    closed rendezvous.
//! 2. `senders` and `woken` are edited only under the lock of `queue`. A receiver's mark says in which list it is.
//! 3. The message of a queued sender is in its future.
//!
//! # Orderings
//! As in `channel/core.rs`: the lock, and the waiter's state for a sender whose message was taken.

use super::super::error::TryRecvError;
use super::super::parcel::Content;
use crate::error::Closed;
use crate::event::{Event, Reset};
use crate::queue::batch::WakeBatch;
use crate::queue::grant_loop::{Granter, grant_loop_after};
use crate::queue::waiter::{Payload, Verdict, WaiterState as State, clone_waker, drop_waker, wake};
use crate::queue::word::{FLAG_A as CLOSED, Word};
use crate::queue::{Deferred, LockedQueue, Pinned, QueueGuard, Removed, WaitQueue};
use crate::shim::{Ordering, UnsafeCell};
use crate::wait::WaiterSlot;
use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use core::task::{Context, Poll, Waker};

/// The mark of a receiver in `queue`, and of one in `woken`.
const WAITS: u32 = 0;
const WOKEN: u32 = 1;

/// How many there are in two of the lists.
#[derive(Debug)]
struct Counts {
    senders: usize,
    woken: usize,
}

/// A rendezvous, without handles.
pub(super) struct Core<T> {
    queue: WaitQueue,
    woken: WaitQueue,
    senders: WaitQueue,
    counts: UnsafeCell<Counts>,
    /// Set when it is closed.
    pub(super) closed: Event,
    message: PhantomData<fn(T) -> T>,
}

// SAFETY: a message is moved from a sender's thread to a receiver's, never shared; the counts are touched under the lock only.
unsafe impl<T: Send> Sync for Core<T> {}
// SAFETY: as above; there is no message in it.
unsafe impl<T: Send> Send for Core<T> {}

struct Locked<'c, T> {
    core: &'c Core<T>,
    counts: *mut Counts,
    queue: LockedQueue<'c>,
}

enum Step {
    Receiver(Deferred<Option<Waker>>),
    Sender(Deferred<Option<Waker>>),
}

impl<'c, T> Locked<'c, T> {
    fn counts(&mut self) -> &mut Counts {
        // SAFETY: the holder of the lock alone touches it, through this value.
        unsafe { &mut *self.counts }
    }

    fn is_closed(&self) -> bool {
        self.queue.word().has(CLOSED)
    }

    fn senders(&self) -> LockedQueue<'c> {
        // SAFETY: invariant 2.
        unsafe { self.core.senders.lock_under(&self.queue) }
    }

    fn woken(&self) -> LockedQueue<'c> {
        // SAFETY: invariant 2.
        unsafe { self.core.woken.lock_under(&self.queue) }
    }

    /// Is there a message that is not reserved for a woken receiver?
    fn has_message(&mut self) -> bool {
        let counts = self.counts();
        counts.senders > counts.woken && !self.is_closed()
    }

    /// Takes the message of the first sender, which there is, and grants it.
    fn take(&mut self) -> (T, Deferred<Option<Waker>>) {
        self.counts().senders -= 1;
        let mut senders = self.senders();
        let payload = senders.front().expect("a sender waits").pointer();
        // SAFETY: a sender carries its message, which is pinned in its future while that is queued.
        let content = unsafe { &*payload.cast::<Content<T>>() };
        // SAFETY: invariant 3; the lock is held, and the sender leaves the queue below.
        let message = unsafe { content.take() };
        // SAFETY: there is a waiter; senders are never woken without a grant.
        (message, unsafe { senders.grant_sleeping_front() }.some())
    }

    /// One step towards a state in which no waiter can be served.
    fn step(&mut self) -> Option<Step> {
        if self.is_closed() {
            if self.counts().senders > 0 {
                self.counts().senders -= 1;
                // SAFETY: there is a waiter.
                return Some(Step::Sender(unsafe { self.senders().refuse_front() }));
            }
            if self.queue.has_waiters() {
                // SAFETY: there is a waiter.
                return Some(Step::Receiver(unsafe { self.queue.refuse_front() }));
            }
            return None;
        }
        if !self.has_message() || !self.queue.has_waiters() {
            return None;
        }
        // SAFETY: there is a waiter.
        let waker = unsafe { self.queue.wake_front() };
        let detached = self.queue.detach_front(WOKEN).expect("a receiver waits");
        self.woken().push_back_detached(detached);
        self.counts().woken += 1;
        Some(Step::Receiver(waker))
    }

    /// Makes all steps, unlocks the queue, wakes, and opens what had come out of it.
    fn finish_with<D>(mut self, deferred: Deferred<D>) -> D {
        let Some(first) = self.step() else { return self.unlock_with(deferred) };
        let (Step::Receiver(waker) | Step::Sender(waker)) = first;
        let core = self.core;
        grant_loop_after(waker, deferred, self, || core.lock())
    }
}

impl<T> QueueGuard for Locked<'_, T> {}

impl<T> Granter for Locked<'_, T> {
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

impl<T> Core<T> {
    pub(super) fn new() -> Self {
        Self {
            queue: WaitQueue::new(Word::flags(0)),
            woken: WaitQueue::new(Word::flags(0)),
            senders: WaitQueue::new(Word::flags(0)),
            counts: UnsafeCell::new(Counts { senders: 0, woken: 0 }),
            closed: Event::new(Reset::Manual, false),
            message: PhantomData,
        }
    }

    fn lock(&self) -> Locked<'_, T> {
        let queue = self.queue.lock();
        Locked { core: self, counts: self.counts.with_mut(|counts| counts), queue }
    }

    /// No message can be handed over any more; false if that was so.
    pub(super) fn close(&self) -> bool {
        struct SetClosed<'c>(&'c Event);
        impl Drop for SetClosed<'_> {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        let mut locked = self.lock();
        if locked.is_closed() {
            return false;
        }
        locked.queue.set(CLOSED);
        let _told = SetClosed(&self.closed);
        locked.finish_with(Deferred::nothing());
        true
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with Release in the drop of `LockedQueue` by the close.
        self.queue.load_with(Ordering::Acquire).has(CLOSED)
    }

    /// Enqueues a sender; the waker if it is closed. A step is owed.
    pub(super) fn enqueue_sender(
        &self,
        slot: WaiterSlot<'_>,
        waker: Waker,
        content: &Content<T>,
    ) -> Option<Waker> {
        let mut locked = self.lock();
        if locked.is_closed() {
            return Some(waker);
        }
        let payload = ptr::from_ref(content).cast_mut().cast::<()>();
        locked.senders().push_back(slot.init(waker, Payload::carrying(WAITS, payload)));
        locked.counts().senders += 1;
        None
    }

    /// Makes the steps that are owed.
    pub(super) fn settle(&self) {
        self.lock().finish_with(Deferred::nothing());
    }

    /// A queued sender is polled.
    pub(super) fn poll_sender(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Verdict> {
        if waiter.get().state() != State::Notified {
            if waiter.get().will_wake(cx.waker()) {
                return Poll::Pending;
            }
            let waker = clone_waker(cx.waker());
            let locked = self.lock();
            if waiter.get().state() != State::Notified {
                // SAFETY: not `Notified`, so it is in the list of senders.
                let old = unsafe { locked.senders().rearm(waiter, waker) };
                drop_waker(locked.unlock_with(old));
                return Poll::Pending;
            }
            drop(locked);
            drop_waker(Some(waker));
        }
        Poll::Ready(waiter.get().verdict())
    }

    /// A queued sender ends: how its wait had ended, if it had; else it has left, with its message.
    pub(super) fn leave_senders(&self, waiter: Pinned<'_>) -> Option<Verdict> {
        let mut locked = self.lock();
        if waiter.get().state() == State::Notified {
            return Some(waiter.get().verdict());
        }
        locked.counts().senders -= 1;
        // SAFETY: `Waiting`, asked under the lock, so it is in the list of senders.
        let waker = unsafe { locked.senders().remove_sleeping(waiter) };
        drop_waker(Some(locked.unlock_with(waker)));
        None
    }

    /// The message of the first sender, if none is woken for it.
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut locked = self.lock();
        if locked.has_message() {
            let (message, sender) = locked.take();
            wake(locked.unlock_with(sender));
            return Ok(message);
        }
        Err(if locked.is_closed() { TryRecvError::Closed } else { TryRecvError::Empty })
    }

    pub(super) fn may_recv(&self) -> bool {
        let mut locked = self.lock();
        locked.has_message() || locked.is_closed()
    }

    /// Enqueues a receiver, or has a message after all.
    pub(super) fn receive(&self, slot: WaiterSlot<'_>, cx: &Context<'_>) -> Poll<Result<T, Closed>> {
        loop {
            let waker = clone_waker(cx.waker());
            let mut locked = self.lock();
            if !locked.is_closed() && !locked.has_message() {
                locked.queue.push_back(slot.init(waker, Payload::NONE));
                return Poll::Pending;
            }
            drop(locked);
            // Dropped first: a panic loses no message then.
            drop_waker(Some(waker));
            match self.try_recv() {
                Ok(message) => return Poll::Ready(Ok(message)),
                Err(TryRecvError::Closed) => return Poll::Ready(Err(Closed)),
                // Another receiver was faster.
                Err(TryRecvError::Empty) => {}
            }
        }
    }

    /// A queued receiver is polled.
    pub(super) fn poll_receiver(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        match waiter.get().state() {
            State::Notified => Poll::Ready(Err(Closed)),
            State::Waiting if waiter.get().will_wake(cx.waker()) => Poll::Pending,
            State::Waiting | State::Woken => loop {
                if let Some(ended) = self.poll_woken(waiter, cx) {
                    break ended;
                }
            },
        }
    }

    /// `woken => gone`, with a message; or to the front of those that wait, with this waker. `None`: the message has gone meanwhile, look again.
    fn poll_woken(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Option<Poll<Result<T, Closed>>> {
        let waker = clone_waker(cx.waker());
        let mut locked = self.lock();
        match waiter.get().state() {
            State::Notified => {
                drop(locked);
                drop_waker(Some(waker));
                return Some(Poll::Ready(Err(Closed)));
            }
            State::Waiting => {
                // SAFETY: `Waiting`, so it is in this list.
                let old = unsafe { locked.queue.rearm(waiter, waker) };
                drop_waker(locked.unlock_with(old));
                return Some(Poll::Pending);
            }
            State::Woken => {}
        }
        if locked.is_closed() {
            self.remove_woken(&mut locked, waiter);
            drop(locked);
            drop_waker(Some(waker));
            return Some(Poll::Ready(Err(Closed)));
        }
        if locked.counts().senders == 0 {
            self.remove_woken(&mut locked, waiter);
            // SAFETY: it was taken out, which has made it `Notified`.
            let detached = unsafe { locked.queue.revive(waiter, waker, WAITS) };
            locked.queue.push_front_detached(detached);
            return Some(Poll::Pending);
        }
        drop(locked);
        // Dropped first: a panic loses no message then, and the receiver is still woken.
        drop_waker(Some(waker));
        self.claim(waiter).map(Poll::Ready)
    }

    /// A woken receiver takes its message, if there is one.
    fn claim(&self, waiter: Pinned<'_>) -> Option<Result<T, Closed>> {
        let mut locked = self.lock();
        if waiter.get().state() != State::Woken || locked.counts().senders == 0 || locked.is_closed() {
            return None;
        }
        self.remove_woken(&mut locked, waiter);
        let (message, sender) = locked.take();
        wake(locked.unlock_with(sender));
        Some(Ok(message))
    }

    fn remove_woken(&self, locked: &mut Locked<'_, T>, waiter: Pinned<'_>) {
        locked.counts().woken -= 1;
        // SAFETY: `Woken`, so it is in that list. Its slot is empty.
        let _ = unsafe { locked.woken().remove_as(waiter, Verdict::Refused) };
    }

    /// A queued receiver ends by a limit: what it was woken for, if that is still there.
    pub(super) fn cancel(&self, waiter: Pinned<'_>) -> Option<Result<T, Closed>> {
        if let Some(output) = self.claim(waiter) {
            return Some(output);
        }
        self.leave(waiter).then_some(Err(Closed))
    }

    /// A queued receiver leaves; true if it had been refused. The message that it was woken for goes to the next.
    pub(super) fn leave(&self, waiter: Pinned<'_>) -> bool {
        let mut locked = self.lock();
        match waiter.get().state() {
            State::Notified => return true,
            State::Woken => {
                self.remove_woken(&mut locked, waiter);
                locked.finish_with(Deferred::nothing());
            }
            State::Waiting => {
                // SAFETY: `Waiting`, so it is in this list.
                let Removed::Waker(waker) = (unsafe { locked.queue.remove(waiter) }) else { return true };
                drop_waker(locked.unlock_with(waker));
            }
        }
        false
    }
}

impl<T> fmt::Debug for Core<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendezvous").field("closed", &self.is_closed()).finish()
    }
}
