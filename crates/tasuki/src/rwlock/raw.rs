//! The lock of the reader-writer lock, without a value: its word, its queue, its transitions.
//!
//! Without waiters the word counts the readers and flags the writer and the upgradable reader, and to enter or release is one compare-exchange. With waiters the readers are
//! counted beside the word and every operation locks the queue (`admission.rs`). Called by `RwLock`, its guards and futures. It must never run foreign code with the queue locked.
//!
//! # States of the word
//!
//! | word                | meaning |
//! |---------------------|---------|
//! | `n`                 | `n` readers (0: free), no waiter |
//! | `n·UPGRADABLE`      | the same, and one upgradable reader |
//! | `WRITER`            | a writer, no waiter |
//! | `head·flags`        | the same flags, and waiters; the readers are counted beside the word |
//!
//! Each with `EDIT` while the queue is locked.
//!
//! # Who may enter
//!
//! | kind         | needs                                | is enqueued |
//! |--------------|--------------------------------------|---|
//! | `Read`       | no writer                            | at the end, but before the upgradable readers there |
//! | `Upgradable` | no writer, no other upgradable       | at the end |
//! | `Write`      | no holder                            | at the end |
//! | `Upgrade`    | no readers but the upgradable itself | before all others |
//!
//! Waiters are granted from the front by this table ([`Admission`]) after every change; one that must wait stops all behind it. A newcomer may not pass the queue,
//! with one exception: a reader enters if no writer holds the lock and no writer or upgrade is queued. So readers pass upgradable readers ([`segments`]) and never a
//! writer, and neither side starves.
//!
//! # Transitions
//!
//! | from             | event                | to                          | fn |
//! |------------------|----------------------|-----------------------------|----|
//! | free             | read, write, upgradable | counted or flagged       | [`RawRwLock::try_enter_fast`] |
//! | no waiters, open to it | read, upgradable  | counted or flagged        | [`RawRwLock::try_enter_beside`] |
//! | any other        | the same             | waiter enqueued             | [`RawRwLock::enqueue_or_enter`] |
//! | alone, no waiters | release             | free                        | [`RawRwLock::release_as`] |
//! | no waiters       | release              | uncounted or unflagged      | [`RawRwLock::release_beside`] |
//! | waiters          | release              | the same, then grants       | [`RawRwLock::release_slow`] |
//! | a held kind      | downgrade            | the weaker kind, then grants | [`RawRwLock::downgrade`] |
//! | `UPGRADABLE`     | upgrade              | `WRITER`, or waiter enqueued first | [`RawRwLock::enqueue_or_upgrade`] |
//! | queued           | drop                 | waiter removed, then grants | [`RawRwLock::cancel`] |
//!
//! # Invariants
//! 1. `WRITER` excludes `UPGRADABLE` and readers.
//! 2. With the queue unlocked, and no grant loop on its way, no waiter can be granted by the table.
//! 3. What is beside the word means something only with waiters, and is touched only with the queue locked.
//! 4. `Upgrade` is queued at most once, in front, by the holder of `UPGRADABLE`.
//!
//! # The hint
//!
//! A caller that is alone exchanges constants, without a look at the word ([`Hint`]). The hint is set by an enqueue and by an exchange, of a caller that enters or releases, that fails because others hold
//! the lock or wait for it, and cleared by a holder that releases and finds itself alone.
//!
//! # Orderings
//! The word: Release in [`RawRwLock::release_as`] and [`RawRwLock::release_beside`] pairs with Acquire in [`RawRwLock::try_enter_fast`] and [`RawRwLock::try_enter_beside`]. The
//! exchanges of readers in between continue the release sequence, so a writer sees what every reader did before it released the lock. Locking the queue is Acquire and unlocking it is Release: a downgrade, which locks it, has no
//! other ordering. Grants publish through the waiter's state.

use super::admission::{Admission, FirstGrant, Kind, SideState, is_full, too_many_readers, too_many_writers};
use super::segments;
use crate::probe::{Held, LockProbe, Site};
use crate::queue::grant_loop::grant_loop_after;
use crate::queue::hint::Hint;
use crate::queue::waiter::{WaiterState, clone_waker, drop_spare, drop_waker, wake_owner};
use crate::queue::word::{EDIT, FLAG_A as WRITER, FLAG_B as UPGRADABLE, WAITERS, Word};
use crate::queue::{Deferred, Pinned, QueueGuard as _, Removed, WaitQueue};
use crate::shim::{self, Ordering, UnsafeCell, const_fn};
use crate::wait::WaiterSlot;
use core::panic::RefUnwindSafe;
use core::task::{Context, Poll};

const FREE: Word = Word::flags(0);

/// How long a caller that lost a compare-exchange stands back before it looks again. If it tried at once, two readers would take the cache
/// line from each other at every step; while one stands back, the other comes and goes several times with the line in its hands.
/// Two threads that only read took 58 ns a read without it and 15 with it, where a line bounces in 30 ns; an addition instead of a
/// compare-exchange took 33, and would have to be taken back where a writer waits.
const PAUSES: u32 = if shim::MODEL { 1 } else { 8 };

/// The lock without the value.
#[doc(hidden)]
#[derive(Debug)]
pub struct RawRwLock {
    queue: WaitQueue,
    /// See invariant 3.
    beside: UnsafeCell<SideState>,
    hint: Hint,
    /// Where `inspect/` is active, which tasks hold it.
    pub(crate) probe: LockProbe,
}

// SAFETY: `beside` is touched only by the holder of the queue lock (invariant 3).
unsafe impl Sync for RawRwLock {}
impl RefUnwindSafe for RawRwLock {}

impl RawRwLock {
    const_fn! {
        #[track_caller]
        pub(crate) const fn new() -> Self {
            Self {
                queue: WaitQueue::new(FREE),
                beside: UnsafeCell::new(SideState::EMPTY),
                hint: Hint::new(),
                probe: LockProbe::rwlock(),
            }
        }
    }

    /// The word after a newcomer of this kind entered a lock without waiters; `None` if it must not.
    #[inline(always)]
    fn entered(word: Word, kind: Kind) -> Option<Word> {
        match kind {
            Kind::Read if !word.has(EDIT | WAITERS | WRITER) && !is_full(word.count()) => Some(word.plus(1)),
            Kind::Upgradable if !word.has(EDIT | WAITERS | WRITER | UPGRADABLE) && !is_full(word.count()) => {
                Some(word.with(UPGRADABLE))
            }
            Kind::Write if word == FREE => Some(Word::flags(WRITER)),
            _ => None,
        }
    }

    /// The word of a lock that has one holder, of this kind, and no waiter.
    #[inline(always)]
    fn alone(kind: Kind) -> Word {
        match kind {
            Kind::Read => Word::counted(1),
            Kind::Upgradable => Word::flags(UPGRADABLE),
            Kind::Write | Kind::Upgrade => Word::flags(WRITER),
        }
    }

    /// Enters without waiting and without the queue lock; false if that cannot be done. Another reader that was faster is
    /// no reason to give up.
    #[inline(always)]
    pub(crate) fn try_enter_fast(&self, kind: Kind) -> bool {
        let looked = self.hint.says_look();
        let mut word = if looked { self.queue.load() } else { FREE };
        if word == FREE {
            // Acquire: pairs with Release in `release_as`, `release_beside` and the drop of `LockedQueue`.
            match self.queue.replace(FREE, Self::alone(kind), Ordering::Acquire) {
                Ok(()) => return true,
                Err(now) => word = self.lost(looked, now),
            }
        }
        kind != Kind::Write && self.try_enter_beside(kind, word)
    }

    /// Enters a lock that others hold; `word` is what it was.
    #[inline(never)]
    fn try_enter_beside(&self, kind: Kind, mut word: Word) -> bool {
        while let Some(to) = Self::entered(word, kind) {
            // Acquire: as in `try_enter_fast`.
            if self.queue.replace(word, to, Ordering::Acquire).is_ok() {
                return true;
            }
            word = self.stand_back();
        }
        false
    }

    /// A compare-exchange has failed; the word now. Without a look before it the lock may have been like that for long, and the hint was
    /// wrong; after a look another caller was faster.
    #[cold]
    fn lost(&self, looked: bool, now: Word) -> Word {
        self.hint.look_first();
        if looked { self.stand_back() } else { now }
    }

    /// Another caller was faster: gives way for a moment, then looks.
    #[cold]
    fn stand_back(&self) -> Word {
        for _ in 0..PAUSES {
            shim::spin_hint();
        }
        self.queue.load()
    }

    /// Enters without waiting.
    #[track_caller]
    #[inline]
    pub(crate) fn try_enter(&self, kind: Kind, site: Site) -> Option<Held> {
        let entered = self.try_enter_fast(kind) || self.try_enter_slow(kind);
        entered.then(|| self.probe.add(kind.mode(), site))
    }

    #[cold]
    #[track_caller]
    fn try_enter_slow(&self, kind: Kind) -> bool {
        self.try_admit(kind).1
    }

    /// Enters as a reader without waiting, for `Debug`: too many readers are no reason to panic there.
    pub(crate) fn try_enter_to_show(&self, site: Site) -> Option<Held> {
        let entered = self.try_enter_fast(Kind::Read) || self.lock().try_admit(Kind::Read);
        entered.then(|| self.probe.add(Kind::Read.mode(), site))
    }

    /// Locks the queue, and admits a newcomer if it may enter; panics if it may not because there are too many.
    #[track_caller]
    fn try_admit(&self, kind: Kind) -> (Admission<'_>, bool) {
        let mut admission = self.lock();
        let entered = admission.try_admit(kind);
        if !entered && admission.is_over_limit(kind) {
            drop(admission);
            too_many_readers();
        }
        (admission, entered)
    }

    /// Would a newcomer of this kind enter, or be refused, or an upgrade succeed, without waiting?
    #[cold]
    pub(crate) fn is_ready(&self, kind: Kind) -> bool {
        let admission = self.lock();
        admission.may_enter(kind) || admission.is_over_limit(kind)
    }

    /// The first poll that could not enter at once.
    pub(crate) fn enqueue_or_enter(
        &self,
        kind: Kind,
        slot: WaiterSlot<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        let (mut admission, entered) = self.try_admit(kind);
        if entered {
            drop(admission);
            drop_spare(waker, || {
                self.release_as(kind);
            });
            return Poll::Ready(());
        }
        if kind.stops_readers() && !admission.stoppers.has_room() {
            drop(admission);
            too_many_writers();
        }
        self.hint.look_first();
        segments::enqueue(&mut admission.locked, kind, slot.init(waker, kind.payload()));
        admission.stoppers.enqueued(kind);
        Poll::Pending
    }

    /// The first poll of an upgrade: becomes the writer if it is the only one, else waits before all others.
    pub(crate) fn enqueue_or_upgrade(&self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        let mut admission = self.lock_settled();
        if admission.try_upgrade() {
            drop(admission);
            // On a panic the caller still believes that it holds an upgradable read.
            drop_spare(waker, || self.downgrade(Kind::Write, Kind::Upgradable));
            return Poll::Ready(());
        }
        self.hint.look_first();
        admission.locked.push_front(slot.init(waker, Kind::Upgrade.payload()));
        admission.stoppers.enqueued(Kind::Upgrade);
        Poll::Pending
    }

    /// `UPGRADABLE => WRITER`, if there are no readers.
    pub(crate) fn try_upgrade(&self) -> bool {
        // Between the batches of a grant loop there are readers: the loop goes on when one releases.
        self.lock().try_upgrade()
    }

    pub(crate) fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the waiters of a lock are never moved to another queue.
        unsafe { self.queue.poll_queued(waiter, cx) }
    }

    /// Cancels a wait; true if it had been granted, so that the caller holds the lock.
    pub(crate) fn cancel(&self, waiter: Pinned<'_>) -> bool {
        if waiter.get().state() == WaiterState::Notified {
            return true;
        }
        let mut admission = self.lock();
        // SAFETY: the waiters of a lock are never moved to another queue.
        let Removed::Waker(waker) = (unsafe { segments::remove(&mut admission.locked, waiter) }) else {
            return true;
        };
        admission.stoppers.removed(Kind::of(waiter.get()));
        // The waiters that it stopped may enter now.
        drop_waker(self.grant_all_with(admission, waker));
        false
    }

    /// The word after a holder of this kind released a lock without waiters; `None` if the queue must be locked for that.
    #[inline(always)]
    fn released(word: Word, kind: Kind) -> Option<Word> {
        if word.has(EDIT | WAITERS) {
            return None;
        }
        Some(match kind {
            Kind::Read => word.minus(1),
            Kind::Upgradable => word.without(UPGRADABLE),
            Kind::Write | Kind::Upgrade => word.without(WRITER),
        })
    }

    /// Releases what a guard holds; true if there were waiters.
    #[inline(always)]
    pub(crate) fn release(&self, kind: Kind, held: Held) -> bool {
        self.probe.remove(held);
        self.release_as(kind)
    }

    /// Releases what is held; true if there were waiters.
    #[inline(always)]
    pub(crate) fn release_as(&self, kind: Kind) -> bool {
        let alone = Self::alone(kind);
        let looked = self.hint.says_look();
        let mut word = alone;
        if looked {
            word = self.queue.load();
            if word == alone {
                self.hint.try_first();
            }
        }
        if word == alone {
            // Release: pairs with Acquire in `try_enter_fast` and in `WaitQueue::try_lock`.
            match self.queue.replace(alone, FREE, Ordering::Release) {
                Ok(()) => return false,
                Err(now) => word = self.lost(looked, now),
            }
        }
        self.release_beside(kind, word)
    }

    /// Releases a lock that others hold, or wait for; `word` is what it was.
    #[inline(never)]
    fn release_beside(&self, kind: Kind, mut word: Word) -> bool {
        while let Some(to) = Self::released(word, kind) {
            // Release: as in `release_as`.
            if self.queue.replace(word, to, Ordering::Release).is_ok() {
                return false;
            }
            word = self.stand_back();
        }
        self.release_slow(kind)
    }

    #[inline(never)]
    fn release_slow(&self, kind: Kind) -> bool {
        let mut admission = self.lock();
        let has_waiters = admission.locked.has_waiters();
        admission.remove_holder(kind);
        self.grant_all(admission);
        has_waiters
    }

    /// Goes on with a weaker kind; no writer comes in between.
    pub(crate) fn downgrade(&self, held: Kind, weaker: Kind) {
        let mut admission = self.lock();
        admission.remove_holder(held);
        admission.add_holder(weaker);
        self.grant_all(admission);
    }

    pub(super) fn lock(&self) -> Admission<'_> {
        Admission::new(&self.beside, self.queue.lock(), self.probe.grants())
    }

    /// Locks the queue when no further waiter can be granted. An upgrade goes before all others; it must not come between the batches of
    /// a grant loop, or some readers would wait for others that were granted together with them.
    fn lock_settled(&self) -> Admission<'_> {
        loop {
            let admission = self.lock();
            if !admission.can_grant() {
                return admission;
            }
            self.grant_all(admission);
        }
    }

    /// Grants every waiter that can be granted, and unlocks the queue.
    fn grant_all(&self, admission: Admission<'_>) {
        self.grant_all_with(admission, Deferred::nothing());
    }

    /// As [`grant_all`](Self::grant_all), and opens what had come out of the queue.
    fn grant_all_with<T>(&self, mut admission: Admission<'_>, deferred: Deferred<T>) -> T {
        match admission.grant_first() {
            FirstGrant::None => admission.unlock_with(deferred),
            FirstGrant::Alone(waker) => {
                let (waker, foreign) = admission.unlock_with(waker.and(deferred));
                wake_owner(Some(waker));
                foreign
            }
            FirstGrant::Among(waker) => grant_loop_after(waker, deferred, admission, || self.lock()),
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::super::admission::MAX_READERS;
    use super::*;
    use crate::panic_place::line_of_panic;
    use core::future::Future as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A lock with so many readers.
    fn lock_with(readers: usize) -> RawRwLock {
        RawRwLock { queue: WaitQueue::new(Word::counted(readers)), ..RawRwLock::new() }
    }

    fn refuses(lock: &RawRwLock, kind: Kind) -> bool {
        let before = lock.queue.load();
        let refused =
            catch_unwind(AssertUnwindSafe(|| lock.try_enter(kind, Site::here()).is_some())).is_err();
        assert!(!refused || lock.queue.load() == before, "a refusal changes nothing");
        refused
    }

    /// One reader too many panics, and changes nothing; a downgrade always has room.
    #[test]
    fn there_are_only_so_many_readers() {
        let lock = lock_with(MAX_READERS - 2);
        assert!(lock.try_enter(Kind::Upgradable, Site::here()).is_some());
        assert!(lock.try_enter(Kind::Read, Site::here()).is_some());
        assert!(refuses(&lock, Kind::Read));
        lock.downgrade(Kind::Upgradable, Kind::Read);
        assert_eq!(lock.queue.load().count(), MAX_READERS);
        assert!(refuses(&lock, Kind::Read) && refuses(&lock, Kind::Upgradable));
        assert!(
            lock.try_enter(Kind::Write, Site::here()).is_none(),
            "a writer is not let in, but not for this reason"
        );
        lock.release_as(Kind::Read);
        assert!(refuses(&lock, Kind::Read) && refuses(&lock, Kind::Upgradable));
        lock.release_as(Kind::Read);
        assert!(lock.try_enter(Kind::Read, Site::here()).is_some());
    }

    /// `Debug` of a lock with as many readers as it can have does not read the value, and does not panic.
    #[test]
    fn a_full_lock_can_be_shown() {
        let full = crate::RwLock { raw: lock_with(MAX_READERS), value: core::cell::UnsafeCell::new(7) };
        assert!(!format!("{full:?}").contains('7'));
        full.raw.release_as(Kind::Read);
        full.raw.release_as(Kind::Read);
        assert!(format!("{full:?}").contains('7'));
        assert_eq!(full.raw.queue.load().count(), MAX_READERS - 2, "what was shown is released");
    }

    /// A refusal points to the line of the caller, in every function that enters without waiting.
    #[test]
    fn a_refusal_names_its_caller() {
        let full = || crate::RwLock { raw: lock_with(MAX_READERS), value: core::cell::UnsafeCell::new(()) };
        let (lock, shared) = (full(), std::sync::Arc::new(full()));
        let place = (
            line!(),
            line_of_panic(|| drop(lock.try_read())),
            line_of_panic(|| drop(lock.try_upgradable_read())),
            line_of_panic(|| drop(shared.clone().try_read_owned())),
            line_of_panic(|| drop(shared.clone().try_upgradable_read_owned())),
        );
        let line = place.0;
        assert_eq!(place, (line, line + 1, line + 2, line + 3, line + 4));
    }

    /// One writer too many in the queue panics, and changes nothing. Readers of both kinds, which are counted elsewhere, wait behind the others, and so does an upgrade.
    #[test]
    fn there_are_only_so_many_writers() {
        let lock = crate::RwLock::new(());
        let holder = lock.try_upgradable_read().unwrap();
        let reader = lock.try_read().unwrap();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut first = std::pin::pin!(lock.write());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        // SAFETY: one thread.
        let before = lock.raw.beside.with_mut(|beside| unsafe { beside.replace((*beside).crowded()) });
        let word = lock.raw.queue.load();
        let mut second = std::pin::pin!(lock.write());
        assert!(catch_unwind(AssertUnwindSafe(|| second.as_mut().poll(&mut cx))).is_err());
        assert_eq!(lock.raw.queue.load(), word, "a refusal changes nothing");
        let mut read = std::pin::pin!(lock.read());
        let mut upgradable = std::pin::pin!(lock.upgradable_read());
        assert!(read.as_mut().poll(&mut cx).is_pending() && upgradable.as_mut().poll(&mut cx).is_pending());
        let mut upgrade = std::pin::pin!(crate::RwLockUpgradableReadGuard::upgrade(holder));
        assert!(upgrade.as_mut().poll(&mut cx).is_pending());
        // SAFETY: one thread.
        lock.raw.beside.with_mut(|beside| unsafe { *beside = before.with_another_stopper() });
        assert!(second.as_mut().poll(&mut cx).is_pending());
        drop(reader);
        assert!(upgrade.as_mut().poll(&mut cx).is_ready());
        assert!(first.as_mut().poll(&mut cx).is_ready());
        assert!(read.as_mut().poll(&mut cx).is_ready());
        assert!(upgradable.as_mut().poll(&mut cx).is_ready());
        assert!(second.as_mut().poll(&mut cx).is_ready());
    }
}
