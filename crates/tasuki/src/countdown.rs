//! A count to wait for: what `WaitGroup` and `Latch` have in common.
//!
//! The count is a word of its own beside the queue, so that counting does not lock the queue. Two words make a race
//! between "no waiter" and "not zero yet"; here they cannot, because the flag that says "there are waiters"
//! travels in the count: the caller that counts down sees it in the very operation that counts.
//!
//! # States of the count
//!
//! | count           | meaning                                          | left by                   |
//! |-----------------|--------------------------------------------------|---------------------------|
//! | `0`             | zero; nothing waits                              | any caller                |
//! | `n`             | `n` to go; nothing waits                         | any caller                |
//! | `n·AWAITED`     | `n` to go; waiters, or there have been some      | any caller                |
//! | `0·AWAITED`     | a `done` has reached zero, and is about to release the waiters | that `done`, or an `add` |
//! | `n·CLOSING`     | zero is being announced to the waiters; `n` were counted in meanwhile | the holder of the queue lock |
//!
//! Each may be less than zero while a `done` without a member is being taken back, and more than the limit while an `add` that does not fit is: until then others that come as near to the limit are refused as well.
//!
//! # Transitions
//!
//! Counting is one addition or subtraction, without a look before it; what it found decides what is left to do. (An `add` of more than [`SMALL`] looks first: so much might leave the range of the word.)
//!
//! | from            | event         | to              | duty             | fn |
//! |-----------------|---------------|-----------------|------------------|----|
//! | any             | add `k`       | `+ k`           | none             | [`Countdown::add`] |
//! | any             | add, too many | the same        | panic            | [`Countdown::add`] |
//! | `n > 0`         | one less      | `- 1`           | at `0·AWAITED`: [`Countdown::close`] | [`Countdown::take_one`] |
//! | `n <= 0`        | one less      | `- 1`, then `+ 1` | panic          | [`Countdown::take_back`] |
//! | the same, but members came meanwhile | one less | `- 1` | as above       | [`Countdown::take_back`] |
//! | `0·AWAITED`     | the done goes on | `CLOSING`, round released, `0`; one locked section | wake all | [`Countdown::close`] |
//! | `n·AWAITED`     | the done goes on, an add was faster | the same | none     | [`Countdown::close`] |
//! | `0·AWAITED`, `n·CLOSING` | look, wait | waits for the end of it | look again | [`Countdown::settled`] |
//! | `0`             | wait          | the same        | return `Ready`   | [`Countdown::is_zero`] |
//! | `n`, `n·AWAITED`| wait          | `n·AWAITED`, waiter enqueued; one locked section | return `Pending` | [`Countdown::enqueue_or_pass`] |
//! | any             | drop of a wait| waiter removed  | none             | [`Countdown::cancel`] |
//!
//! # Invariants
//! 1. With the queue unlocked: while the list is not empty, the count is `AWAITED` or `CLOSING`. (The last waiter that is dropped leaves
//!    `AWAITED` behind: the next zero then takes the long way, finds no waiter and clears it.)
//! 2. `AWAITED` is cleared only in a locked section that finds zero, and a waiter is enqueued only in one that has
//!    seen `n·AWAITED` or set it. The `done` that makes `0·AWAITED` goes on to such a section. So either the waiter is in the
//!    list then, and is released, or it comes later and finds zero: no wake-up is lost.
//! 3. An `add` that finds `0·AWAITED` comes before the `done` that made it, which has not returned: the count has not
//!    been zero, and the `done`, in its locked section, leaves the waiters to the next one.
//! 4. `CLOSING` lasts for two stores. With `0·AWAITED` it makes zero and the release one step for every caller that looks: none
//!    sees zero while a waiter of that cycle is still held back.
//! 5. A check that fails has changed nothing. A `done` that found no member has subtracted one; it takes that back as long as the
//!    count is below zero. If it is not, members for all outstanding subtractions have come, and the subtraction stands. So
//!    among callers of `done` exactly as many panic as there were too many.
//! 6. With the feature `critical-section` no interrupt handler of this core sees `0·AWAITED`, `n·CLOSING` or a subtraction that is taken back: one section lasts from the subtraction to the
//!    unlock of the queue, before wakers are called. A handler that looks would wait for the code that it has interrupted.
//!
//! # Orderings
//! The count: Release of [`Countdown::take_one`] begins a release sequence that all later changes continue, because all are read-modify-writes;
//! it pairs with Acquire in [`Countdown::settled`] and [`Countdown::announce`] (the waiter that finds zero) and in [`Countdown::close`] (the `done` that
//! releases the waiters through the round and their states). The Release that ends `CLOSING` publishes the round to the callers
//! that find zero.

use crate::queue::broadcast::{Broadcast, CancelOutcome};
use crate::queue::waiter::{clone_waker, drop_waker};
use crate::queue::word::Word;
use crate::queue::{Backoff, LockedQueue, Pinned};
use crate::shim::{AtomicUsize, Ordering, Section, const_fn};
use crate::wait::WaiterSlot;
use core::task::{Context, Poll};

/// Waiters wait for zero, or have waited.
const AWAITED: usize = 0b01;
/// Zero is being announced.
const CLOSING: usize = 0b10;
/// The count begins above the flags.
const SHIFT: u32 = 2;
const ONE: usize = 1 << SHIFT;

/// What is added without checking first that there is room; an addition that was too much is taken back. No system has so many threads that
/// their additions leave the range of the word meanwhile.
const SMALL: usize = Countdown::MAX >> 16;

/// One value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count(usize);

impl Count {
    /// How many are to go; less than none while a `done` without a member is being taken back.
    #[inline(always)]
    fn number(self) -> isize {
        // The sign is the highest bit of the word.
        self.0 as isize >> SHIFT
    }

    #[inline(always)]
    fn has(self, flag: usize) -> bool {
        self.0 & flag != 0
    }

    /// Zero has been reached, and the waiters are not released yet.
    #[inline(always)]
    fn is_unsettled(self) -> bool {
        self.has(CLOSING) || self.has(AWAITED) && self.number() <= 0
    }

    /// Is there room for `k` more, which is at most [`Countdown::MAX`]?
    #[inline(always)]
    fn has_room(self, k: usize) -> bool {
        self.number() <= (Countdown::MAX - k) as isize
    }
}

/// A count would leave its range; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange;

/// What a caller that wants to wait found, with the queue locked.
enum Announced {
    /// The count is not zero, and says that it is waited for.
    Awaited,
    Zero,
    /// Zero has been reached, and the waiters are not released yet.
    Unsettled,
}

/// A count, and the waiters for it to be zero.
#[derive(Debug)]
pub(crate) struct Countdown {
    waiters: Broadcast,
    /// A [`Count`].
    count: AtomicUsize,
}

impl Countdown {
    /// The largest count: a bit below the sign is left for additions that are being taken back.
    pub(crate) const MAX: usize = usize::MAX >> (SHIFT + 2);

    const_fn! {
        /// `n` to go. Panics if that is more than [`Self::MAX`].
        #[track_caller]
        pub(crate) const fn new(n: usize) -> Self {
            assert!(n <= Self::MAX, "the count is limited to usize::MAX / 16");
            Self { waiters: Broadcast::new(Word::flags(0)), count: AtomicUsize::new(n << SHIFT) }
        }
    }

    /// The count now; while zero is being announced, waits for the end of that (invariant 4).
    #[inline]
    fn settled(&self) -> Count {
        // Acquire: pairs with Release in `take_one` and `close`: a caller that finds zero sees what was done before.
        let count = Count(self.count.load(Ordering::Acquire));
        if count.is_unsettled() { self.settled_slow() } else { count }
    }

    #[cold]
    fn settled_slow(&self) -> Count {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            // Acquire: as in `settled`.
            let count = Count(self.count.load(Ordering::Acquire));
            if !count.is_unsettled() {
                return count;
            }
        }
    }

    /// How many are to go.
    pub(crate) fn number(&self) -> usize {
        // What is being taken back is not shown below zero or above the limit.
        usize::try_from(self.settled().number()).unwrap_or(0).min(Self::MAX)
    }

    /// Is it zero, so that there is nothing to wait for?
    #[inline]
    pub(crate) fn is_zero(&self) -> bool {
        self.settled().number() <= 0
    }

    /// `n => n + k`.
    #[inline]
    pub(crate) fn add(&self, k: usize) -> Result<(), OutOfRange> {
        if k > SMALL {
            return self.add_many(k);
        }
        // Relaxed: adding publishes nothing, and continues the release sequence of the callers that counted down.
        let before = Count(self.count.fetch_add(k << SHIFT, Ordering::Relaxed));
        if before.has_room(k) { Ok(()) } else { self.take_out(k) }
    }

    /// The addition was too much.
    #[cold]
    fn take_out(&self, k: usize) -> Result<(), OutOfRange> {
        // Relaxed: as in `add`.
        self.count.fetch_sub(k << SHIFT, Ordering::Relaxed);
        Err(OutOfRange)
    }

    /// Asks before it adds: so much might leave the range of the word.
    #[cold]
    fn add_many(&self, k: usize) -> Result<(), OutOfRange> {
        if k > Self::MAX {
            return Err(OutOfRange);
        }
        let more = |count: usize| Count(count).has_room(k).then(|| count.wrapping_add(k << SHIFT));
        // Relaxed: as in `add`.
        match self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) => Err(OutOfRange),
        }
    }

    /// `n => n - 1`; the last one releases the waiters.
    #[inline]
    pub(crate) fn take_one(&self) -> Result<(), OutOfRange> {
        // Left at the end of the locked section of `close` (invariant 6).
        let section = Section::enter();
        // Release: pairs with Acquire in `settled`, `announce` and `close`, through a release sequence.
        let before = Count(self.count.fetch_sub(ONE, Ordering::Release));
        if before.number() > 1 || before == Count(ONE) {
            return Ok(());
        }
        self.took_last(before, section)
    }

    /// The subtraction has reached zero with waiters, or found no member.
    #[cold]
    fn took_last(&self, before: Count, section: Section) -> Result<(), OutOfRange> {
        if before.number() <= 0 {
            self.take_back()?;
        }
        self.close(section);
        Ok(())
    }

    /// There was no member: takes the subtraction back, unless members have come for all subtractions (invariant 5).
    fn take_back(&self) -> Result<(), OutOfRange> {
        let more = |count: usize| (Count(count).number() < 0).then(|| count.wrapping_add(ONE));
        // Relaxed: nothing is published, and the release sequences go on.
        match self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Err(OutOfRange),
            Err(_) => Ok(()),
        }
    }

    /// `0·AWAITED => CLOSING => 0` and the release of the round, if that is still the count.
    fn close(&self, section: Section) {
        let mut locked = self.waiters.queue.lock();
        locked.extend_section(section);
        let closing = |count: usize| {
            let is_zero = Count(count).has(AWAITED) && Count(count).number() <= 0;
            is_zero.then_some(count & !AWAITED | CLOSING)
        };
        // Acquire: pairs with Release in `take_one`: what the others did goes on to the waiters. Relaxed on failure:
        // there is nothing to do.
        if self.count.fetch_update(Ordering::Acquire, Ordering::Relaxed, closing).is_err() {
            return;
        }
        self.waiters.begin_round(&locked);
        // Release: pairs with Acquire in `settled` and `announce`: a caller that finds zero sees the round.
        self.count.fetch_sub(CLOSING, Ordering::Release);
        locked.grant_all();
    }

    /// `n => n·AWAITED`. The caller enqueues a waiter in the same locked section.
    fn announce(&self, _locked: &LockedQueue<'_>) -> Announced {
        loop {
            // Acquire: pairs with Release in `take_one` and `close`, for the wait that ends here.
            let count = Count(self.count.load(Ordering::Acquire));
            debug_assert!(!count.has(CLOSING), "only the holder of the queue lock closes, and that is us");
            if count.is_unsettled() {
                return Announced::Unsettled;
            }
            if count.number() <= 0 {
                return Announced::Zero;
            }
            if count.has(AWAITED) {
                return Announced::Awaited;
            }
            // Relaxed: the flag publishes nothing; the caller that sees it locks the queue, which publishes the list.
            let told = self.count.compare_exchange_weak(
                count.0,
                count.0 | AWAITED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if told.is_ok() {
                return Announced::Awaited;
            }
        }
    }

    /// The first poll of a wait: enqueues, unless the count is zero.
    pub(crate) fn enqueue_or_pass(&self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        loop {
            let mut locked = self.waiters.queue.lock();
            match self.announce(&locked) {
                Announced::Awaited => {
                    let payload = self.waiters.payload(&locked);
                    locked.push_back(slot.init(waker, payload));
                    return Poll::Pending;
                }
                Announced::Zero => {
                    drop(locked);
                    drop_waker(Some(waker));
                    return Poll::Ready(());
                }
                // The `done` that reached zero needs the queue.
                Announced::Unsettled => {
                    drop(locked);
                    self.settled();
                }
            }
        }
    }

    /// A later poll of a wait.
    pub(crate) fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.waiters.poll_queued(waiter, cx)
    }

    /// Takes a wait back; the output, if it had been released.
    pub(crate) fn cancel(&self, waiter: Pinned<'_>) -> Option<()> {
        match self.waiters.cancel(waiter, |_| {}) {
            CancelOutcome::Cancelled => None,
            CancelOutcome::AlreadyGranted => Some(()),
        }
    }
}
