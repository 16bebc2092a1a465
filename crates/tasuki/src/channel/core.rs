//! The channel without handles: a pool of slots and two queues of waiters, under one queue lock.
//!
//! [`Sender`](super::Sender) and [`Receiver`](super::Receiver) are counted handles to one of these, [`Channel`](super::Channel) has one inside. What may
//! happen under the lock is in `locked.rs`; sends are in `send.rs`, receives in `receive.rs`.
//!
//! ```text
//!            free ----send----> pending ----recv----> free
//!             | \                 |  ^
//!        reserve \         grant  |  | put back (the receive was dropped)
//!             v   \ send to a     v  |
//!         reserved -\--waiting--> granted ---claim---> free
//!                      receiver
//! ```
//!
//! # States of a slot
//!
//! | state    | message | in a list     | the message may be touched by        | counts as used |
//! |----------|---------|---------------|--------------------------------------|----------------|
//! | free     | no      | free, or fresh| –                                    | no             |
//! | reserved | no      | – (a number)  | –                                    | yes            |
//! | pending  | yes     | pending       | the holder of the queue lock         | yes            |
//! | granted  | yes     | –             | the receive it was granted to        | yes            |
//!
//! # Transitions
//!
//! | event                           | slot                   | waiter                  | duty           | function |
//! |---------------------------------|------------------------|-------------------------|----------------|----------|
//! | send, room, a receiver waits    | free => granted        | receiver => `Notified`  | wake it        | [`Locked::send`] |
//! | send, room, none waits          | free => pending        | –                       | –              | [`Locked::send`] |
//! | send, no room or senders wait   | –                      | sender enqueued         | `Pending`      | [`Locked::push_sender`] |
//! | recv, a message is pending      | pending => free        | –                       | a step         | [`Locked::pop_available`], [`Locked::finish_freeing`] |
//! | recv, none is pending           | –                      | receiver enqueued       | `Pending`      | `receive.rs` |
//! | poll of a granted receive       | granted => free        | –                       | a step         | [`ChannelCore::claim`] |
//! | drop of a granted receive       | granted => pending, in front (`ticket_heap.rs`) | – | a step         | [`Locked::put_back`] |
//! | a step: message and receiver    | pending => granted     | receiver => `Notified`  | wake it        | `Locked::step` |
//! | a step: room and a sender       | free => pending, the slot that was just freed before others | sender => `Notified` | wake it | `Locked::step` |
//! | a step: room and a reservation  | free => reserved       | sender => `Notified`    | wake it        | `Locked::step` |
//! | a step: closed and a sender     | –                      | sender refused          | wake it        | `Locked::step` |
//! | a step: drained and a receiver  | –                      | receiver refused        | wake it        | `Locked::step` |
//! | a permit sends                  | reserved => pending or granted | as send         | as send        | [`ChannelCore::send_reserved`] |
//! | a permit is dropped             | reserved => free       | –                       | a step         | [`ChannelCore::unreserve`] |
//! | cancel of a queued wait         | –                      | removed                 | a step (senders) | [`ChannelCore::cancel_receive`], `ChannelCore::cancel_send` |
//! | a poll panics after it took a message | a new slot, pending in front or granted again | – | a step    | `receive.rs`: `Undo` |
//! | a cancel panics after it took a message | a new slot, pending in front | –                  | a step         | `receive.rs`: `Undo` |
//! | close                           | –                      | –                       | steps          | [`ChannelCore::close`] |
//! | the last receiver goes          | pending => in no list, not used again; the messages are dropped without the lock | – | steps; the memory of most slots is freed | [`ChannelCore::close_without_receivers`] |
//!
//! Steps are made until there is none left, 32 wakers in one hold of the lock (`queue/grant_loop.rs`), so a close of a million waiters lets others in between. Where there is room
//! and no slot, in an unbounded channel, the store grows between two holds, and the steps go on ([`ChannelCore::lock_with_slots`]).
//!
//! A message gets a ticket when it is granted for the first time, under the lock, so tickets have the order of the messages; it keeps it when it is put back. Pending messages that have none are newer
//! than all that have one.
//!
//! # Invariants
//! 1. Outside the lock, and unless steps are owed: if a receiver waits, no message is pending; if a sender waits, what is free does not cover it; no sender waits
//!    in a closed channel, no receiver in a drained one.
//! 2. `pending` is the number of pending slots, `held` that of granted and reserved ones. Their sum, `used`, exceeds the capacity only by messages that a panicking poll gave back.
//! 3. `SENDERS` is set exactly while the senders' queue has waiters. That queue is changed only under the lock of the receivers' queue.
//! 4. A message is moved under the lock or by the receive that it was granted to; it is dropped by neither.
//! 5. When a receive is refused there is no message: `used` is 0, and no sender can come. Only the panic of a waker after that, in a poll or a cancel that has taken the last message, gives one back.
//!
//! # Orderings
//! The word of the receivers' queue is the lock: Acquire of `WaitQueue::try_lock` pairs with Release in the drop of `LockedQueue`. A granted message is
//! published by the waiter's state. The two counts are Relaxed: exact under the lock, and hints elsewhere; after a hint the next look is under the lock.

use super::locked::{ChannelState, DetachedMessages, Locked};
use super::store::{MAX_SLOTS, Store};
use crate::event::{Event, Reset};
use crate::queue::batch::call_each;
use crate::queue::hint::Gauge;
use crate::queue::word::{FLAG_A, FLAG_B, Word};
use crate::queue::{LockedQueue, WaitQueue};
use crate::shim::{Ordering, UnsafeCell, const_fn};
use core::fmt;
use core::marker::PhantomData;
use core::panic::{RefUnwindSafe, UnwindSafe};

/// No message may be sent any more, but by permits.
pub(super) const CLOSED: usize = FLAG_A;
/// A sender waits.
pub(super) const SENDERS: usize = FLAG_B;

/// A channel, without handles.
// In this order: what every operation writes has 64 bytes, which is one cache line where handles share a channel (`handle.rs`), and what is only read is behind that. A thread that gets
// the lock from another processor waits for one line with the word, not for three.
#[repr(C)]
pub struct ChannelCore<T, S: Store<T>> {
    /// The receivers; its lock protects everything.
    pub(super) queue: WaitQueue,
    pub(super) senders: WaitQueue,
    /// How many messages are pending.
    pub(super) pending: Gauge,
    /// How many slots are granted or reserved.
    pub(super) held: Gauge,
    state: UnsafeCell<ChannelState>,
    pub(super) capacity: u32,
    /// So many slots stay allocated when none is used.
    pub(super) keep: u32,
    /// Set when the channel is closed.
    pub(super) closed: Event,
    pub(super) store: S,
    message: PhantomData<T>,
}

// SAFETY: messages are moved from thread to thread, never shared; the state is touched under the queue lock only.
unsafe impl<T: Send, S: Store<T>> Send for ChannelCore<T, S> {}
// SAFETY: as above.
unsafe impl<T: Send, S: Store<T>> Sync for ChannelCore<T, S> {}
// A panic leaves nothing half done: the state is complete before any foreign call.
impl<T, S: Store<T>> UnwindSafe for ChannelCore<T, S> {}
impl<T, S: Store<T>> RefUnwindSafe for ChannelCore<T, S> {}

impl<T, S: Store<T>> ChannelCore<T, S> {
    const_fn! {
        /// With memory for `allocated` messages and room for `capacity`, both at most [`MAX_SLOTS`]; memory for `keep` is kept when there is no message.
        pub(super) const fn new(store: S, allocated: u32, capacity: u32, keep: u32) -> Self {
            Self {
                queue: WaitQueue::new(Word::flags(0)),
                senders: WaitQueue::new(Word::flags(0)),
                pending: Gauge::new(0),
                held: Gauge::new(0),
                state: UnsafeCell::new(ChannelState::new(allocated)),
                capacity,
                keep,
                closed: Event::new(Reset::Manual, false),
                store,
                message: PhantomData,
            }
        }
    }

    /// So many bytes at the beginning are what operations write.
    #[cfg(all(test, feature = "std", target_pointer_width = "64"))]
    pub(super) const WRITTEN: usize =
        core::mem::offset_of!(Self, state) + core::mem::offset_of!(ChannelState, permits) + size_of::<u32>();

    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_, T, S> {
        self.locked(self.queue.lock())
    }

    /// As [`lock`](Self::lock), with a slot for the first sender if there is room for its message.
    pub(super) fn lock_with_slots(&self) -> Locked<'_, T, S> {
        loop {
            let locked = self.lock();
            if !locked.lacks_a_slot() {
                return locked;
            }
            let allocated = locked.state().allocated;
            drop(locked);
            self.grow_for_room(allocated);
        }
    }

    /// There is room, and there were so many slots, none of them free: the store grows.
    #[cold]
    pub(super) fn grow_for_room(&self, allocated: u32) {
        let grown = self.grow(allocated);
        assert!(grown, "a channel has slots for its capacity");
    }

    /// As [`lock`](Self::lock), of a channel that is open and in which none waits: the fast path.
    #[inline(always)]
    pub(super) fn try_lock_idle(&self) -> Option<Locked<'_, T, S>> {
        Some(self.locked(self.queue.try_lock_idle()?))
    }

    #[inline(always)]
    fn locked<'c>(&'c self, queue: LockedQueue<'c>) -> Locked<'c, T, S> {
        Locked::new(self, self.state.with_mut(|state| state), queue)
    }

    /// The store gets more slots, unless another thread was faster; false if there can be no more.
    #[cold]
    pub(super) fn grow(&self, allocated: u32) -> bool {
        let Some(segment) = self.store.allocate(allocated) else { return false };
        let mut locked = self.lock();
        if locked.state().allocated != allocated {
            drop(locked);
            drop(segment);
            return true;
        }
        let allocated = self.store.install(segment);
        locked.state_mut().allocated = allocated.min(MAX_SLOTS);
        true
    }

    /// No message can be sent any more; false if that was so.
    pub(super) fn close(&self) -> bool {
        let mut locked = self.lock();
        if locked.is_closed() {
            return false;
        }
        locked.queue.set(CLOSED);
        // Made before the steps, and sets the event after them, also while a waker's panic unwinds.
        let told = SetClosed(self);
        locked.finish();
        drop(told);
        true
    }

    /// Is it closed?
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with Release in the drop of `LockedQueue` by the close.
        self.queue.load_with(Ordering::Acquire).has(CLOSED)
    }

    /// The last receiver was dropped: closes, and drops the pending messages.
    #[cfg(feature = "alloc")]
    pub(super) fn close_without_receivers(&self) {
        let mut locked = self.lock();
        locked.queue.set(CLOSED);
        locked.state_mut().has_no_receivers = true;
        // Dropped last, also while a waker's panic unwinds: a destructor that asks finds the channel closed, and its event set.
        let _messages = DropMessages { core: self, rest: locked.detach() };
        let told = SetClosed(self);
        locked.finish();
        drop(told);
    }

    /// How many slots are not free: pending, granted, reserved. Exact under the lock.
    #[inline(always)]
    pub(super) fn used(&self) -> u32 {
        self.pending.get() + self.held.get()
    }

    /// How many messages there are that have not been claimed.
    pub(super) fn len(&self) -> usize {
        let locked = self.lock();
        (self.used() - locked.state().permits) as usize
    }

    /// For how many messages there is room.
    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }
}

/// Wakes the waiters for the close; a waker that panics does not keep the others from being woken.
struct SetClosed<'c, T, S: Store<T>>(&'c ChannelCore<T, S>);

impl<T, S: Store<T>> Drop for SetClosed<'_, T, S> {
    fn drop(&mut self) {
        self.0.closed.set();
    }
}

/// Messages that were detached, to be dropped without the lock, one by one, whatever panics.
struct DropMessages<'c, T, S: Store<T>> {
    core: &'c ChannelCore<T, S>,
    rest: DetachedMessages,
}

impl<T, S: Store<T>> Drop for DropMessages<'_, T, S> {
    fn drop(&mut self) {
        call_each(|| {
            // SAFETY: detached from this channel by the caller that made the chain.
            let Some(message) = (unsafe { self.rest.next(self.core) }) else {
                // Now, and not with the last handle: a sender may live on for long.
                self.core.lock().unlock_idle();
                return false;
            };
            crate::probe::foreign_code();
            drop(message);
            true
        });
    }
}

impl<T, S: Store<T>> Drop for ChannelCore<T, S> {
    /// What was sent and not received is dropped. What was granted to a receive that was forgotten is leaked.
    fn drop(&mut self) {
        let mut locked = self.lock();
        let rest = locked.detach();
        drop(locked);
        drop(DropMessages { core: self, rest });
    }
}

impl<T, S: Store<T>> fmt::Debug for ChannelCore<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, capacity) = (self.len(), self.capacity());
        f.debug_struct("Channel")
            .field("len", &len)
            .field("capacity", &capacity)
            .field("closed", &self.is_closed())
            .finish()
    }
}
