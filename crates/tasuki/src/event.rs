//! The event: a flag to wait for, consumed by one waiter or seen by all.
//!
//! It tells tasks that something has happened, without a value and without a lock. Users call it, and with the feature `critical-section` interrupt handlers, so `set` waits for nothing but the queue lock.
//!
//! ```text
//!   auto:    set --> [a] [b] [c]     a is granted, b and c wait; without waiters the flag is kept for the next wait
//!   manual:  set --> [a] [b] [c]     all are released, and so is every later wait until the reset
//! ```
//!
//! # States of the word
//!
//! | word    | meaning                    |
//! |---------|----------------------------|
//! | `0`     | not set, no waiter         |
//! | `SET`   | set; no waiter             |
//! | `head`  | not set, waiters           |
//!
//! Each with `EDIT` while the queue is locked. There is no `head·SET`: a wait that finds `SET` is not enqueued, and a set
//! with waiters either grants the signal to the first (auto) or releases all (manual).
//!
//! # Transitions
//!
//! | from     | event            | to                             | duty         | fn |
//! |----------|------------------|--------------------------------|--------------|----|
//! | `SET`    | wait, auto       | `0`                            | return `Ready` | [`Event::try_consume`] |
//! | `SET`    | wait, manual     | `SET`                          | return `Ready` | [`Event::try_consume`] |
//! | `0`, `head` | wait          | waiter enqueued                | return `Pending` | [`WaitEventOp::enqueue`] |
//! | `0`, `SET` | set            | `SET`                          | none         | [`Event::set`] |
//! | `head`   | set, auto        | first granted                  | wake it      | [`Event::set_slow`] |
//! | `head`   | set, manual      | `SET`, round released          | wake all     | [`Event::set_slow`] |
//! | `SET`    | reset            | `0`                            | none         | [`Event::reset`] |
//! | any      | drop, not granted| waiter removed                 | none         | [`Broadcast::cancel`] |
//! | any      | drop, granted (auto) | as set                     | as set       | [`WaitEventOp::discard`] |
//! | any      | drop, released (manual) | nothing                 | none         | [`WaitEventOp::discard`] |
//!
//! # The hint
//!
//! A set does not look at the word first ([`Hint`]), unless it is likely that it is set already or has waiters: the hint is set when the queue forms, or by a set that
//! found either, and cleared by a set that finds neither.
//!
//! # Orderings
//! The word: Release of [`Event::set`] pairs with Acquire of [`Event::try_consume`]. A set of an event that is set already is a
//! read-modify-write all the same, so that a later wait sees what was done before both sets. Grants and releases publish through the waiter's
//! state; a waiter that no batch has reached finds its round over and locks the queue (`queue/broadcast.rs`).

use crate::queue::broadcast::{Broadcast, CancelOutcome};
use crate::queue::hint::Hint;
use crate::queue::waiter::{clone_waker, drop_spare, wake};
use crate::queue::word::{EDIT, FLAG_A as SET, Word};
use crate::queue::{Pinned, QueueGuard as _};
use crate::shim::{Ordering, const_fn};
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::task::{Context, Poll};

const UNSET: Word = Word::flags(0);
const IS_SET: Word = Word::flags(SET);

/// What a wait does to an [`Event`] that is set.
///
/// # Examples
///
/// ```
/// use tasuki::{Event, Reset};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// let event = Event::new(Reset::Manual, true);
/// event.wait().await;
/// assert!(event.is_set(), "no wait resets it");
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// One wait consumes the signal.
    #[default]
    Auto,
    /// The event stays set until [`Event::reset`].
    Manual,
}

/// A signal between tasks: wait until it is set.
///
/// An *auto* event releases exactly one waiter for each [`set`](Self::set); without waiters the signal is
/// kept for the next wait, and more sets change nothing. A `set` of a *manual* event releases all waiters, and
/// every later wait is ready at once until [`reset`](Self::reset).
///
/// # Examples
///
/// ```
/// use tasuki::Event;
///
/// static READY: Event = Event::manual();
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let waiter = tokio::spawn(async { READY.wait().await });
/// READY.set();
/// waiter.await.unwrap();
/// # }
/// ```
///
/// # Order
///
/// Auto: first come, first served. Manual: all waiters at once; those that begin after a `reset` wait for the
/// next `set`, also while the last one is still waking its waiters.
///
/// # Cancel
///
/// Dropping the future of an auto event that has been given the signal passes it to the next waiter, or back to the
/// event. No signal is lost, none is doubled.
///
/// # Panic
///
/// Never by itself. A waker that panics does so in `set`, after all other waiters have been woken ([Wakers](crate#wakers)).
///
/// # Memory ordering
///
/// What was done before a `set` happens before what follows a wait that it ended, coalesced sets included.
///
/// # Re-entrancy
///
/// Wakers may call anything on the event.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// None on the number of waiters.
///
/// # Futurelock
///
/// A wait on an auto event that was polled and is then neither polled nor dropped can be granted a signal that no task sees.
///
/// # When to use something else
///
/// * To wait for several things to finish: a [`WaitGroup`](crate::WaitGroup).
/// * To stop tasks: a `CancellationToken`.
/// * To wait for a condition on a value: a [`Condvar`](crate::Condvar).
/// * To pass a value: a [`channel`](crate::channel).
#[doc(alias = "AsyncEvent")]
#[doc(alias = "Notify")]
pub struct Event {
    waiters: Broadcast<Note>,
}

/// What has room beside the round.
#[derive(Debug)]
struct Note {
    reset: Reset,
    hint: Hint,
}

/// The future of [`Event::wait`].
pub type WaitEvent<'a> = Wait<Single<WaitEventOp<'a>>>;

impl Event {
    const_fn! {
        /// Creates an event that resets in this way, set or not.
        ///
        /// # Examples
        ///
        /// ```
        /// use tasuki::{Event, Reset};
        ///
        /// static STARTED: Event = Event::new(Reset::Manual, false);
        /// assert!(!STARTED.is_set());
        /// ```
        pub const fn new(reset: Reset, set: bool) -> Self {
            Self { waiters: Broadcast::with_note(if set { IS_SET } else { UNSET }, Note { reset, hint: Hint::new() }) }
        }
    }

    const_fn! {
        /// Creates an auto event, not set.
        ///
        /// # Examples
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() {
        /// static NEXT: tasuki::Event = tasuki::Event::auto();
        /// NEXT.set();
        /// NEXT.wait().await;
        /// assert!(!NEXT.is_set());
        /// # }
        /// ```
        pub const fn auto() -> Self {
            Self::new(Reset::Auto, false)
        }
    }

    const_fn! {
        /// Creates a manual event, not set.
        ///
        /// # Examples
        ///
        /// ```
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() {
        /// static READY: tasuki::Event = tasuki::Event::manual();
        /// READY.set();
        /// READY.wait().await;
        /// assert!(READY.is_set());
        /// # }
        /// ```
        pub const fn manual() -> Self {
            Self::new(Reset::Manual, false)
        }
    }

    /// Waits for the event to be set; an auto event is then no longer set.
    ///
    /// # Cancel safety
    ///
    /// No signal is lost: one that had been granted to a dropped future goes to the next waiter, or the event is set again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let event = tasuki::Event::auto();
    /// event.set();
    /// event.wait().await;
    /// # }
    /// ```
    #[doc(alias = "notified")]
    #[doc(alias = "listen")]
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> WaitEvent<'_> {
        Wait::new(WaitEventOp { event: self })
    }

    /// Sets the event: releases one waiter (auto) or all (manual), and is kept if no waiter consumed it.
    ///
    /// # Examples
    ///
    /// ```
    /// let event = tasuki::Event::auto();
    /// event.set();
    /// event.set();
    /// assert!(event.is_set());
    /// ```
    #[doc(alias = "notify_one")]
    #[doc(alias = "notify_waiters")]
    pub fn set(&self) {
        let hint = &self.waiters.note.hint;
        let mut word = UNSET;
        if hint.says_look() {
            word = self.waiters.queue.load();
            if word == UNSET {
                hint.try_first();
            }
        }
        while word == UNSET || word == IS_SET {
            // Release: pairs with Acquire in `try_consume`; also `SET => SET`, see the header.
            match self.waiters.queue.replace(word, IS_SET, Ordering::Release) {
                Ok(()) => return,
                Err(now) => {
                    hint.look_first();
                    word = now;
                }
            }
        }
        self.set_slow();
    }

    /// Sets an event that has waiters, or whose queue is locked.
    #[inline(never)]
    fn set_slow(&self) {
        let mut locked = self.waiters.queue.lock();
        if !locked.has_waiters() {
            locked.set(SET);
            return;
        }
        match self.waiters.note.reset {
            Reset::Auto => {
                // SAFETY: there are waiters, asked above.
                let waker = unsafe { locked.grant_front() };
                wake(locked.unlock_with(waker));
            }
            Reset::Manual => {
                locked.set(SET);
                self.waiters.release_all(locked);
            }
        }
    }

    /// Removes a signal that no wait has consumed. Does nothing if the event is not set.
    ///
    /// # Examples
    ///
    /// ```
    /// let event = tasuki::Event::manual();
    /// event.set();
    /// event.reset();
    /// assert!(!event.is_set());
    /// ```
    pub fn reset(&self) {
        if self.waiters.queue.load() == UNSET {
            return;
        }
        let mut locked = self.waiters.queue.lock();
        locked.clear(SET);
    }

    /// Returns true if the event is set. The answer may be outdated when it is returned.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(tasuki::Event::new(tasuki::Reset::Auto, true).is_set());
    /// ```
    pub fn is_set(&self) -> bool {
        self.waiters.queue.load_settled().has(SET)
    }

    /// Tries to wait: returns true if the event is set, and consumes the signal of an auto event; false if it is not set.
    ///
    /// [`is_set`](Self::is_set) only looks, and of two tasks that look at an auto event both may see the same signal; of two that try one gets it.
    ///
    /// # Examples
    ///
    /// ```
    /// let event = tasuki::Event::new(tasuki::Reset::Auto, true);
    /// assert!(event.try_wait());
    /// assert!(!event.try_wait(), "the signal was consumed");
    /// ```
    pub fn try_wait(&self) -> bool {
        loop {
            match self.try_consume() {
                Ok(()) => return true,
                // The queue may be locked by a set that found it locked, while the event was set by another: it stays set.
                Err(now) if now.has(EDIT) => {
                    self.waiters.queue.load_settled();
                }
                Err(_) => return false,
            }
        }
    }

    /// `SET => 0` (auto), `SET => SET` (manual); the word if it is not set, or of an auto event whose queue is locked.
    #[inline]
    fn try_consume(&self) -> Result<(), Word> {
        match self.waiters.note.reset {
            // Acquire: pairs with Release in `set`. The queue may be locked just now: the callers look again.
            Reset::Auto => self.waiters.queue.replace(IS_SET, UNSET, Ordering::Acquire),
            Reset::Manual if self.is_set() => Ok(()),
            Reset::Manual => Err(UNSET),
        }
    }
}

impl Default for Event {
    /// An auto event, not set.
    fn default() -> Self {
        Self::auto()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("reset", &self.waiters.note.reset).field("set", &self.is_set()).finish()
    }
}

/// The operation of [`Event::wait`].
#[derive(Debug)]
pub struct WaitEventOp<'a> {
    event: &'a Event,
}

impl Op for WaitEventOp<'_> {
    type Output = ();
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::WaitEvent";

    #[inline]
    fn try_now(&mut self) -> Option<()> {
        self.event.try_consume().ok()
    }

    fn is_ready(&self) -> bool {
        self.event.is_set()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        let mut locked = self.event.waiters.queue.lock();
        if locked.word().has(SET) {
            if self.event.waiters.note.reset == Reset::Auto {
                locked.clear(SET);
            }
            drop(locked);
            drop_spare(waker, || self.discard(()));
            return Poll::Ready(());
        }
        if !locked.has_waiters() {
            self.event.waiters.note.hint.look_first();
        }
        let payload = self.event.waiters.payload(&locked);
        locked.push_back(slot.init(waker, payload));
        Poll::Pending
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.event.waiters.poll_queued(waiter, cx)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<()> {
        match self.event.waiters.cancel(waiter, |_| {}) {
            CancelOutcome::Cancelled => None,
            CancelOutcome::AlreadyGranted => Some(()),
        }
    }

    /// The signal of an auto event goes on; a manual event stays as it is.
    fn discard(&mut self, (): ()) {
        if self.event.waiters.note.reset == Reset::Auto {
            self.event.set();
        }
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::future::Future;
    use core::pin::Pin;
    use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use core::task::{Context, Poll, Waker};
    use std::sync::Mutex;
    use std::task::Wake;

    type Waits = Vec<Pin<Box<WaitEvent<'static>>>>;

    fn poll(wait: &mut Pin<Box<WaitEvent<'static>>>, waker: &Waker) -> Poll<()> {
        wait.as_mut().poll(&mut Context::from_waker(waker))
    }

    /// In the middle of a release, at its first wake, resets the event, polls a waiter that was not reached, and waits anew.
    struct Meddler {
        event: &'static Event,
        waits: Mutex<(Waits, Waits)>,
        wakes: AtomicUsize,
    }

    impl Wake for Meddler {
        fn wake(self: Arc<Self>) {
            if self.wakes.fetch_add(1, SeqCst) > 0 {
                return;
            }
            let waker = Waker::noop();
            self.event.reset();
            let (old, new) = &mut *self.waits.lock().unwrap();
            assert!(
                old.iter_mut().rev().step_by(2).all(|wait| poll(wait, waker).is_ready()),
                "their round is over"
            );
            *new = (0..40).map(|_| Box::pin(self.event.wait())).collect();
            assert!(new.iter_mut().all(|wait| poll(wait, waker).is_pending()), "theirs has begun");
        }
    }

    /// A round that ends at the wrap of its number is over for its waiters, whether or not their batch has come, and has not
    /// begun for the next.
    #[test]
    fn the_round_wraps_in_the_middle_of_a_release() {
        static EVENTS: [Event; 3] = [const { Event::manual() }; 3];
        for (event, round) in EVENTS.iter().zip([u32::MAX - 1, u32::MAX, 0]) {
            event.waiters.start_at(round);
            let meddler = Arc::new(Meddler { event, waits: Mutex::default(), wakes: AtomicUsize::new(0) });
            let waker = Waker::from(meddler.clone());
            let mut waits: Waits = (0..100).map(|_| Box::pin(event.wait())).collect();
            assert!(waits.iter_mut().all(|wait| poll(wait, &waker).is_pending()));
            meddler.waits.lock().unwrap().0 = waits;
            event.set();
            let (old, new) = core::mem::take(&mut *meddler.waits.lock().unwrap());
            let mut left = old;
            // The others of the old round, which the release reached after the meddling.
            let mut at = 0;
            left.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            assert!(left.iter_mut().all(|wait| poll(wait, Waker::noop()).is_ready()));
            let mut new = new;
            assert!(
                new.iter_mut().all(|wait| poll(wait, Waker::noop()).is_pending()),
                "it was not set since"
            );
            event.set();
            assert!(new.iter_mut().all(|wait| poll(wait, Waker::noop()).is_ready()));
        }
    }
}
