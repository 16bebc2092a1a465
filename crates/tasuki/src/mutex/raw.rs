//! The lock of the mutex, without a value: its word, its four policies, its transitions.
//!
//! Without contention to lock and to unlock is one compare-exchange each. A caller that finds the lock held is enqueued; an unlock then grants the lock to the first waiter, which
//! owns it from that moment on. Called by `Mutex`, `ReentrantMutex` and, through `Relock`, by `Condvar`. It must never run foreign code with the queue locked.
//!
//! This file has the word and what takes a free lock; `raw/enqueue.rs` waits, `raw/watch.rs` spins, `raw/unlock.rs` releases, `raw/cancel.rs` ends a wait, and
//! `raw/revoke.rs` has what is different with `Revocable`: its transitions are in a table there; `raw/overdue.rs` revokes what a task does not claim, which it finds by `raw/grant_tree.rs`.
//!
//! ```text
//!   lock    0 ------------> LOCKED          unlock   LOCKED -----------------> 0
//!           LOCKED -------> a·LOCKED                 a·LOCKED --> [a] [b] ---> LOCKED (a owns), b the head
//! ```
//!
//! # States of the word
//!
//! | word                   | meaning                                  | policies      |
//! |------------------------|------------------------------------------|---------------|
//! | `0`                    | free, no waiter                          | all           |
//! | `LOCKED`               | held or granted, no waiter               | all           |
//! | `head·LOCKED`          | held or granted, the head is asleep      | all           |
//! | `head·LOCKED·WOKEN`    | held, the head was woken and has not been polled | `Bypass` |
//! | `head·LOCKED·WOKEN`    | granted to the head, which has not claimed it | `Revocable` |
//! | `head·WOKEN`           | free, the head was woken                 | `Bypass`      |
//!
//! Each with `EDIT` while the queue is locked. There is no `head` alone: a free lock with waiters has
//! woken the first of them.
//!
//! # Transitions
//!
//! | from                | event                     | to                         | duty            | fn |
//! |---------------------|---------------------------|----------------------------|-----------------|----|
//! | `0`, `head·WOKEN`   | lock, try_lock            | `+ LOCKED`                 | none            | [`RawMutex::try_lock`] |
//! | `·LOCKED`           | lock                      | waiter enqueued            | return `Pending`| [`RawMutex::enqueue`] |
//! | `LOCKED`            | unlock                    | `0`                        | none            | [`RawMutex::unlock`] |
//! | `head·LOCKED`, with `WOKEN` or not | unlock, no overtakes left | head granted, `LOCKED` stays | wake it | [`RawMutex::grant`] |
//! | `head·LOCKED`       | unlock, overtakes left    | `head·WOKEN`               | wake it         | [`RawMutex::free`] |
//! | `head·LOCKED·WOKEN` | unlock, overtakes left    | `head·WOKEN`               | none            | [`RawMutex::free`] |
//! | `head·WOKEN`        | poll of the head          | `LOCKED`, head removed     | return `Ready`  | [`RawMutex::compete`] |
//! | `head·LOCKED·WOKEN` | poll of the head          | `head·LOCKED`              | return `Pending`| [`RawMutex::compete`] |
//! | any, `Waiting`      | drop                      | waiter removed             | none            | [`RawMutex::try_cancel_waiting`] |
//! | `head·WOKEN`        | drop of the head          | next head woken            | wake it         | [`RawMutex::cancel_slow`] |
//! | `head·LOCKED·WOKEN` | drop of the head          | `WOKEN` cleared            | none            | [`RawMutex::cancel_slow`] |
//! | any, `Notified`     | drop                      | as unlock                  | as unlock       | [`RawMutex::cancel_slow`] |
//! | any                 | waiters come from a condvar | the first granted if the lock is free, the others enqueued | wake it | [`RawMutex::adopt`] |
//!
//! # Invariants
//! 1. `LOCKED` is set exactly while a task owns the lock or has been granted it.
//! 2. Without `LOCKED` there are no waiters, or (`Bypass`) `WOKEN` is set and the head's state is `Woken`.
//! 3. `tally` counts, with `Bypass`, how often the lock was freed with the present head woken. It is read and written under `EDIT` only.
//!
//! # The hint
//!
//! The uncontended pair is two compare-exchanges of constants, without a look at the word ([`Hint`]). The hint is set when the queue forms, or by an
//! exchange, of a caller that locks or unlocks, that fails because others wait, and cleared by an unlock that finds the queue empty.
//!
//! # Orderings
//! The word: Acquire of [`RawMutex::try_lock`] pairs with Release of [`RawMutex::unlock`]
//! and of the drop of `LockedQueue` (the protected value). A grant publishes the value through the waiter's state. The
//! side bytes are hints or guarded, all Relaxed.

mod cancel;
mod enqueue;
#[cfg(feature = "std")]
mod grant_tree;
#[cfg(feature = "std")]
pub(crate) mod overdue;
mod revoke;
mod unlock;
mod watch;

pub(crate) use grant_record::{GrantRecord, UnclaimedGrant};
pub(crate) use revoke::AskingTask;
pub(crate) use unlock::Unlocked;

use super::spin::SpinScore;
use crate::policy::Policy;
use crate::probe::LockProbe;
use crate::queue::WaitQueue;
use crate::queue::hint::Hint;
use crate::queue::word::{EDIT, FLAG_A as LOCKED, FLAG_B as WOKEN, WAITERS, Word};
use crate::shim::{AtomicBool, AtomicU32, Ordering, const_fn};
use core::marker::PhantomData;

/// What a lock with revocable grants keeps of its grant.
#[cfg(feature = "std")]
mod grant_record {
    pub(crate) use super::overdue::UnclaimedGrant;
    pub(crate) use UnclaimedGrant as GrantRecord;
}

/// Nothing: no runtime says when a poll has ended.
#[cfg(not(feature = "std"))]
mod grant_record {
    #[derive(Debug)]
    pub struct GrantRecord;
    pub(crate) use core::convert::Infallible as UnclaimedGrant;

    impl GrantRecord {
        pub(crate) const NEW: Self = Self;
    }

    impl<P: super::Policy> super::RawMutex<P> {
        pub(super) const fn watch_grant(&self, _task: usize) {}
        pub(super) const fn unwatch_grant(&self) {}
    }
}

const FREE: Word = Word::flags(0);
const HELD: Word = Word::flags(LOCKED);

/// The lock without the value.
#[doc(hidden)]
#[derive(Debug)]
pub struct RawMutex<P: Policy> {
    queue: WaitQueue,
    /// `Bypass`: how often the present head has been passed over (invariant 3). `Revocable`: how many grants there were (invariant R3 of `revoke.rs`).
    tally: AtomicU32,
    /// The lock was granted and its new owner has not run yet: it makes no sense to spin.
    unclaimed: AtomicBool,
    hint: Hint,
    spin: SpinScore,
    /// `Revocable`: the grant, for the end of a poll (`overdue.rs`).
    #[cfg_attr(not(feature = "std"), expect(dead_code, reason = "no runtime says when a poll has ended"))]
    record: P::Record,
    /// Where `inspect/` is active, which task holds it.
    pub(crate) probe: LockProbe,
    policy: PhantomData<P>,
}

impl<P: Policy> RawMutex<P> {
    const_fn! {
        #[track_caller]
        pub(crate) const fn new() -> Self {
            Self {
                queue: WaitQueue::new(FREE),
                tally: AtomicU32::new(0),
                unclaimed: AtomicBool::new(false),
                hint: Hint::new(),
                spin: SpinScore::new(),
                record: P::RECORD,
                probe: LockProbe::mutex(),
                policy: PhantomData,
            }
        }
    }

    /// May a newcomer take the lock while this is the word? The one place where barging is decided.
    #[inline(always)]
    fn is_open(word: Word) -> bool {
        if P::OVERTAKES == 0 { word == FREE } else { !word.has(LOCKED | EDIT) }
    }

    /// `0 => LOCKED`, and for `Bypass` also `head·WOKEN => head·LOCKED·WOKEN`.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        if self.hint.says_look() {
            return self.try_lock_looking();
        }
        // Acquire: pairs with Release in `unlock` and in the drop of `LockedQueue`.
        match self.queue.replace(FREE, HELD, Ordering::Acquire) {
            Ok(()) => true,
            Err(now) => self.try_lock_late(now),
        }
    }

    /// A try without a look has failed; the word was `now`.
    #[cold]
    fn try_lock_late(&self, now: Word) -> bool {
        if now.has(WAITERS) {
            self.hint.look_first();
        }
        if P::OVERTAKES > 0 {
            return Self::is_open(now) && self.try_lock_at(now);
        }
        P::REVOCABLE && !now.has(LOCKED) && self.try_lock_settled()
    }

    /// `Revocable`: the lock is free, and the queue is locked, by the cancel of a waiter whose grant was revoked. Waits for the end of that: a try of a free lock does not fail.
    #[cold]
    #[inline(never)]
    fn try_lock_settled(&self) -> bool {
        while self.queue.load_settled() == FREE {
            if self.try_lock_at(FREE) {
                return true;
            }
        }
        false
    }

    /// A look saves a compare-exchange that cannot succeed: half of the price of queueing.
    #[inline(always)]
    fn try_lock_looking(&self) -> bool {
        let word = self.queue.load();
        if Self::is_open(word) && self.try_lock_at(word) {
            return true;
        }
        P::REVOCABLE && !word.has(LOCKED) && self.try_lock_settled()
    }

    #[inline(always)]
    fn try_lock_at(&self, word: Word) -> bool {
        if P::OVERTAKES > 0 && word.has(WAITERS) {
            // With the queue locked: a compare-exchange would store the pointer that was seen, see `WaitQueue::replace`.
            return match self.queue.try_lock(word) {
                Some(mut locked) => {
                    locked.set(LOCKED);
                    true
                }
                None => false,
            };
        }
        // Acquire: pairs with Release in `unlock` and in the drop of `LockedQueue`.
        self.queue.replace(word, word.with(LOCKED), Ordering::Acquire).is_ok()
    }

    /// Could a newcomer take the lock?
    pub(crate) fn is_ready(&self) -> bool {
        Self::is_open(self.queue.load_settled())
    }

    /// The lock has an owner that has not run yet.
    #[inline(always)]
    fn set_unclaimed(&self) {
        if P::SPIN {
            // Relaxed: a hint.
            self.unclaimed.store(true, Ordering::Relaxed);
        }
    }

    /// The new owner runs.
    #[inline(always)]
    fn claim(&self) {
        // A look instead of a store each time: it is seldom set.
        if P::SPIN && self.is_unclaimed() {
            // Relaxed: a hint.
            self.unclaimed.store(false, Ordering::Relaxed);
        }
    }

    /// Is it held, or granted to a waiter? A look.
    pub(crate) fn is_locked(&self) -> bool {
        self.queue.load().has(LOCKED)
    }

    /// Granted to an owner that has not run yet: it may be in the spinner's own run queue.
    fn is_unclaimed(&self) -> bool {
        // Relaxed: a hint.
        self.unclaimed.load(Ordering::Relaxed)
    }

    fn may_be_overtaken(&self) -> bool {
        // Relaxed: invariant 3.
        self.tally.load(Ordering::Relaxed) < P::OVERTAKES
    }

    fn count_overtake(&self) {
        // Relaxed, and not one operation: under `EDIT` (invariant 3).
        self.tally.store(self.tally.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn reset_overtakes(&self) {
        // Relaxed: under `EDIT` (invariant 3).
        self.tally.store(0, Ordering::Relaxed);
    }
}
