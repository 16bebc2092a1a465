//! A count to wait for: what `WaitGroup` and `Latch` have in common.
//!
//! The count is a word of its own beside the queue, so that counting needs no edit. Two words make a race
//! between "nobody waits" and "not zero yet"; here they cannot, because the flag that says "somebody waits"
//! travels in the count: whoever counts down sees it in the very operation that counts.
//!
//! # States of the count
//!
//! | count           | meaning                                          | changed by                |
//! |-----------------|--------------------------------------------------|---------------------------|
//! | `0`             | zero; nobody waits                               | anybody                   |
//! | `n`             | `n` to go; nobody waits                          | anybody                   |
//! | `n·AWAITED`     | `n` to go; somebody waits, or has waited         | anybody; away from `1·AWAITED` downwards only under `EDIT` |
//! | `CLOSING`       | zero is being announced to the waiters           | only the editor that set it |
//!
//! # Transitions
//!
//! | from            | event         | to              | duty             | fn |
//! |-----------------|---------------|-----------------|------------------|----|
//! | `0`, `n`, `n·AWAITED` | add `k` | `+ k`           | none             | [`Countdown::add`] |
//! | any             | add, too many | the same        | panic            | [`Countdown::add`] |
//! | `n`, `n·AWAITED` with `n > 1`, `1` | one less | `- 1`   | none             | [`Countdown::take_one`] |
//! | `1·AWAITED`     | one less      | `CLOSING`, round released, `0`; one edit | wake all | [`Countdown::close`] |
//! | `0`             | one less      | the same        | panic            | [`Countdown::take_one`] |
//! | `CLOSING`       | add, one less, look | waits for `0` | try again      | [`Countdown::settled`] |
//! | `0`             | wait          | the same        | return `Ready`   | [`Countdown::is_zero`] |
//! | `n`, `n·AWAITED`| wait          | `n·AWAITED`, waiter appended; one edit | return `Pending` | [`Countdown::start`] |
//! | any             | drop of a wait| waiter removed  | none             | [`Countdown::cancel`] |
//!
//! # Invariants
//! 1. While the list is not empty, the count is `n·AWAITED` or `CLOSING`. (The last waiter that is dropped leaves
//!    `AWAITED` behind: the next zero then takes the long way, finds nobody and clears it.)
//! 2. With `AWAITED` the count falls to zero only in an edit, and a waiter is appended only in an edit that has
//!    seen `AWAITED` or set it. So either the waiter is in the list when the count falls, and is released, or it
//!    comes later and finds zero: no wake-up is lost.
//! 3. `CLOSING` lasts for two stores. It makes zero and the release one step for everybody who looks: nobody
//!    sees zero, or begins the next cycle, while a waiter of this one is still held back.
//! 4. A check that fails has changed nothing.
//!
//! # Orderings
//! The count: Release of [`Countdown::take_one`] begins a release sequence that all later read-modify-writes
//! continue, whatever their ordering; it pairs with Acquire in [`Countdown::settled`] and [`Countdown::announce`]
//! (the waiter that finds zero) and with Acquire in [`Countdown::close`] (the last one, who goes on to release the
//! waiters through the round and their states). The plain store that ends `CLOSING` breaks the sequence, so it is
//! a Release of its own, after that Acquire.

use crate::queue::broadcast::{Broadcast, Withdrawn};
use crate::queue::waiter::{clone_waker, drop_waker};
use crate::queue::word::Word;
use crate::queue::{Editing, Patience, Pinned};
use crate::shim::{AtomicUsize, Ordering, const_fn};
use crate::wait::Seat;
use core::task::{Context, Poll};

/// Somebody waits for zero, or has waited.
const AWAITED: usize = 0b1;
/// The count begins above the flag.
const SHIFT: u32 = 1;

/// One value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count(usize);

impl Count {
    const ZERO: Self = Self(0);
    /// One to go, and somebody waits for it.
    const LAST_AWAITED: Self = Self(1 << SHIFT | AWAITED);
    /// Zero with the flag: no other state uses it.
    const CLOSING: Self = Self(AWAITED);

    fn number(self) -> usize {
        self.0 >> SHIFT
    }

    fn is_awaited(self) -> bool {
        self.0 & AWAITED != 0
    }

    fn awaited(self) -> Self {
        Self(self.0 | AWAITED)
    }

    /// `k` more, with the same flag; `None` if that is too many.
    fn plus(self, k: usize) -> Option<Self> {
        if k > Countdown::MAX - self.number() { None } else { Some(Self(self.0 + (k << SHIFT))) }
    }

    /// One less, with the same flag; `None` at zero.
    fn less_one(self) -> Option<Self> {
        if self.number() == 0 { None } else { Some(Self(self.0 - (1 << SHIFT))) }
    }
}

/// A count would leave its range; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange;

/// A count and those who wait for it to be zero.
#[derive(Debug)]
pub(crate) struct Countdown {
    waiters: Broadcast,
    /// A [`Count`].
    count: AtomicUsize,
}

impl Countdown {
    /// The largest count.
    pub(crate) const MAX: usize = usize::MAX >> SHIFT;

    const_fn! {
        /// `n` to go. Panics if that is more than [`Self::MAX`].
        pub(crate) const fn new(n: usize) -> Self {
            assert!(n <= Self::MAX, "the count is limited to usize::MAX / 2");
            Self { waiters: Broadcast::new(Word::flags(0)), count: AtomicUsize::new(n << SHIFT) }
        }
    }

    /// The count now; while zero is being announced, waits for the end of that (invariant 3).
    #[inline]
    fn settled(&self) -> Count {
        // Acquire: pairs with Release in `take_one` and `close`: who finds zero sees what was done before.
        let count = Count(self.count.load(Ordering::Acquire));
        if count == Count::CLOSING { self.settled_slow() } else { count }
    }

    #[cold]
    fn settled_slow(&self) -> Count {
        let mut patience = Patience::new();
        loop {
            patience.wait();
            // Acquire: as in `settled`.
            let count = Count(self.count.load(Ordering::Acquire));
            if count != Count::CLOSING {
                return count;
            }
        }
    }

    /// How many are to go.
    pub(crate) fn number(&self) -> usize {
        self.settled().number()
    }

    /// Is it zero, so that nobody need wait?
    #[inline]
    pub(crate) fn is_zero(&self) -> bool {
        self.settled() == Count::ZERO
    }

    /// `n => n + k`.
    #[inline]
    pub(crate) fn add(&self, k: usize) -> Result<(), OutOfRange> {
        loop {
            let count = self.settled();
            let more = count.plus(k).ok_or(OutOfRange)?;
            // Relaxed: adding publishes nothing, and continues the release sequence of those who counted down.
            let added =
                self.count.compare_exchange_weak(count.0, more.0, Ordering::Relaxed, Ordering::Relaxed);
            if added.is_ok() {
                return Ok(());
            }
        }
    }

    /// `n => n - 1`; the last one releases those who wait.
    #[inline]
    pub(crate) fn take_one(&self) -> Result<(), OutOfRange> {
        loop {
            let count = self.settled();
            let less = count.less_one().ok_or(OutOfRange)?;
            if count == Count::LAST_AWAITED {
                if self.close() {
                    return Ok(());
                }
                continue;
            }
            // Release: pairs with Acquire in `settled`, `announce` and `close`, directly or through a release sequence.
            let taken =
                self.count.compare_exchange_weak(count.0, less.0, Ordering::Release, Ordering::Relaxed);
            if taken.is_ok() {
                return Ok(());
            }
        }
    }

    /// `1·AWAITED => CLOSING => 0` and the release of the round; false if the count is another by now.
    #[cold]
    fn close(&self) -> bool {
        let editing = self.waiters.queue.edit();
        // Acquire: pairs with Release in `take_one`: what the others did goes on to the waiters. Relaxed on failure:
        // the caller looks again.
        let closing = self.count.compare_exchange(
            Count::LAST_AWAITED.0,
            Count::CLOSING.0,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if closing.is_err() {
            return false;
        }
        self.waiters.begin_round(&editing);
        // Release: pairs with Acquire in `settled` and `announce`; a store ends the release sequences of the others.
        self.count.store(Count::ZERO.0, Ordering::Release);
        editing.grant_all();
        true
    }

    /// `n => n·AWAITED`; false if it is zero. The caller appends a waiter in the same edit.
    fn announce(&self, _editing: &Editing<'_>) -> bool {
        loop {
            // Acquire: pairs with Release in `take_one` and `close`, for the wait that ends here.
            let count = Count(self.count.load(Ordering::Acquire));
            debug_assert_ne!(count, Count::CLOSING, "closed by an editor, and we are the editor");
            if count.number() == 0 {
                return false;
            }
            if count.is_awaited() {
                return true;
            }
            // Relaxed: the flag publishes nothing; whoever sees it takes `EDIT`, which publishes the list.
            let told = self.count.compare_exchange_weak(
                count.0,
                count.awaited().0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if told.is_ok() {
                return true;
            }
        }
    }

    /// The first poll of a wait: takes a place, unless it is zero.
    pub(crate) fn start(&self, seat: Seat<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        let mut editing = self.waiters.queue.edit();
        if !self.announce(&editing) {
            drop(editing);
            drop_waker(Some(waker));
            return Poll::Ready(());
        }
        let ask = self.waiters.ask(&editing);
        editing.push_back(seat.sit(waker, ask));
        Poll::Pending
    }

    /// A later poll of a wait.
    pub(crate) fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.waiters.poll_queued(waiter, cx)
    }

    /// Takes a wait back; the output, if it had been released.
    pub(crate) fn cancel(&self, waiter: Pinned<'_>) -> Option<()> {
        match self.waiters.withdraw(waiter, |_| {}) {
            Withdrawn::InTime => None,
            Withdrawn::Given => Some(()),
        }
    }
}
