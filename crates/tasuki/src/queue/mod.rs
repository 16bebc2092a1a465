//! The wait queue: one word, one list, one kind of waiter. Every primitive of the crate is built on it.
//!
//! A mutex, a semaphore or an event has to keep the tasks that wait for it in order, wake them, and cope with waits that are dropped at any moment. All of
//! that is done here, once. A [`WaitQueue`] is one atomic word; while tasks wait, the word points to the first of a list of [`Waiter`]s, which lie inside the
//! pinned futures of those tasks, so that waiting allocates nothing:
//!
//! ```text
//!   WaitQueue                  Waiter A          Waiter B          Waiter C        (each inside a pinned future)
//!  +-----------------------+   +-----------+     +-----------+     +-----------+
//!  | head | flags | W | E  |   | next  ----+---->| next  ----+---->| next      |   the next of the last is not read
//!  +---+-------------------+   | prev --+  |<----+- prev     |<----+- prev     |   the prev of the first is the last
//!      |                       | waker  |  |     | waker     |     | waker     |
//!      +---------------------->| state  |  |     | state     |     | state     |
//!                              +--------+--+     +-----------+     +-----------+
//! ```
//!
//! `E` (`EDIT`) is the *queue lock*: a spin lock that is held for some tens of instructions, in which no foreign code runs. A primitive keeps its own state
//! in the two flags and, without waiters, in the count of the word, or in fields that it touches only while it holds the queue lock. Its fast
//! paths are [`WaitQueue::replace`] on the word. Everything else locks the queue ([`WaitQueue::lock`]), changes the list and the flags through the
//! evidence ([`LockedQueue`]), and drops it: one store publishes the changes and unlocks. Wakers leave the queue as [`Deferred`] values, which only
//! unlocking the queue opens.
//!
//! # Transitions
//!
//! | what                | word                         | waiter              | function                  |
//! |---------------------|------------------------------|---------------------|---------------------------|
//! | fast path           | `w => w'`, no `EDIT` in either | none              | [`WaitQueue::replace`]    |
//! | lock the queue      | `w => w·EDIT`                | none                | [`WaitQueue::try_lock`]   |
//! | enqueue             | under `EDIT`                 | new => `Waiting`    | [`LockedQueue::push_back`], [`LockedQueue::push_front`], [`LockedQueue::insert_before`] |
//! | grant the first     | under `EDIT`                 | `Waiting`, `Woken` => `Notified` | [`LockedQueue::grant_front`], [`LockedQueue::grant_sleeping_front`] |
//! | wake the first      | under `EDIT`                 | `Waiting` => `Woken`| [`LockedQueue::wake_front`]   |
//! | refuse the first    | under `EDIT`                 | `Waiting`, `Woken` => `Notified` | [`LockedQueue::refuse_front`] |
//! | grant all           | under `EDIT`, by batches     | => `Notified`       | [`LockedQueue::grant_all`]    |
//! | cancel, or take     | under `EDIT`                 | => gone             | [`LockedQueue::remove`], [`LockedQueue::remove_as`], [`LockedQueue::remove_sleeping`] |
//! | another waker       | under `EDIT`                 | => `Waiting`        | [`LockedQueue::rearm`]        |
//! | to another queue    | under `EDIT` of both, or of the first for a queue locked under it | stays, or `Notified` => `Waiting` | [`LockedQueue::detach_front`], `LockedQueue::detach_back`, [`LockedQueue::revive`] |
//! | unlock the queue    | `w·EDIT => w'`               | none                | drop of [`LockedQueue`] |
//!
//! # Invariants
//! 1. While `EDIT` is set, only the thread that set it writes the word, the links and the waker slots of
//!    listed waiters.
//! 2. A waiter in the list, or in a snapshot, is alive: its future leaves only after it has taken it out itself ([`LockedQueue::remove`], [`LockedQueue::remove_as`],
//!    [`LockedQueue::remove_sleeping`]), or after it has seen `Notified`.
//! 3. A waiter is in the list, or in a snapshot, exactly while its state is `Waiting` or `Woken`.
//! 4. The waker slot is full exactly while the state is `Waiting`.
//! 5. Nothing is read through the head pointer before `EDIT` is held: a stale head is only compared.
//! 6. No foreign code (clone, wake, drop of a waker; user closures) runs under `EDIT`.
//! 7. `EDIT` is not forgotten: it is cleared when [`LockedQueue`] is dropped, also by a panic.
//!
//! # Orderings
//! The word: Acquire of [`WaitQueue::try_lock`] pairs with Release in the drop of [`LockedQueue`] (the list
//! passes from holder to holder). The pairs of the fast paths are named in each primitive.
//! Proof sketches and the sketch of every primitive: `docs/wait-queue.md`.

pub(crate) mod batch;
pub(crate) mod broadcast;
pub(crate) mod grant_loop;
pub(crate) mod hint;
pub(crate) mod list;
mod locked_queue;
#[cfg(feature = "std")]
pub(crate) mod nested_wakes;
#[cfg(feature = "alloc")]
pub(crate) mod queue_lock;
mod queue_waker;
#[cfg(feature = "std")]
pub(crate) mod ring;
pub(crate) mod waiter;
mod wake_all;
pub(crate) mod word;

use crate::probe;
use crate::shim::{self, AtomicPtr, Ordering, Section, const_fn};
use crate::spin_pause;
use core::marker::PhantomData;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;
use core::task::{Context, Poll};
use waiter::{Waiter, WaiterState, clone_waker, drop_waker};
use word::{EDIT, WAITERS, Word};

pub(crate) use locked_queue::{Cursor, Deferred, Detached, LockedQueue, QueueGuard, QueueUnlocked, Removed};
pub(crate) use queue_waker::QueueWaker;

/// The first looks at a queue that is locked come after one pause each: the queue lock is held for some tens of instructions, and if two threads have met by chance it is free then.
const SHORT_LOOKS: u32 = if shim::MODEL { 1 } else { 2 };
/// Then a thread looks after each of these pauses, in nanoseconds, and yields after that. Most of what takes longer than some tens of instructions is cut into steps of 32 or 64 waiters, so the holder has lost its processor.
/// A look takes the cache line of the word away from the holder, which mostly comes back for it: where threads contend all the time, one that stays away leaves the line to the other for dozens of operations (decision 28).
const LONG_PAUSES: &[u32] = if shim::MODEL { &[] } else { &[1_600, 3_200, 3_200] };

/// The word and, through it, the list.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    word: AtomicPtr<Waiter>,
}

// A panic leaves no change halfway (invariant 6), so a queue is whole whenever it can be seen.
impl UnwindSafe for WaitQueue {}
impl RefUnwindSafe for WaitQueue {}

impl WaitQueue {
    const_fn! {
        /// A queue without waiters.
        pub(crate) const fn new(word: Word) -> Self {
            Self { word: AtomicPtr::new(word.raw()) }
        }
    }

    /// The word now, to decide what to try. Nothing may be read through it (invariant 5).
    #[inline(always)]
    pub(crate) fn load(&self) -> Word {
        // Relaxed: what acts on it is a compare-exchange.
        Word::from_raw(self.word.load(Ordering::Relaxed))
    }

    /// The word now, with what its writer did before.
    #[inline(always)]
    pub(crate) fn load_with(&self, ordering: Ordering) -> Word {
        Word::from_raw(self.word.load(ordering))
    }

    /// The word while the queue is not locked, with what its writer did before. A waiter can know of its grant before the word does;
    /// this look is as new as what the waiter knows.
    #[inline(always)]
    pub(crate) fn load_settled(&self) -> Word {
        // Acquire: pairs with Release in the drop of `LockedQueue` and in the fast paths of the primitives.
        let word = self.load_with(Ordering::Acquire);
        if word.has(EDIT) { self.load_busy() } else { word }
    }

    /// Waits until the queue is unlocked.
    #[cold]
    #[inline(never)]
    fn load_busy(&self) -> Word {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            // Acquire: as in `load_settled`.
            let word = self.load_with(Ordering::Acquire);
            if !word.has(EDIT) {
                return word;
            }
        }
    }

    /// A fast path of the primitive: `from => to` if the word still is `from`. Neither has waiters: a pointer that was seen earlier
    /// must not be stored for another waiter at the same address, which it is not valid for.
    #[inline(always)]
    pub(crate) fn replace(&self, from: Word, to: Word, ordering: Ordering) -> Result<(), Word> {
        debug_assert!(
            !from.has(WAITERS) && !to.has(WAITERS),
            "{from:?} => {to:?} stores a pointer that was seen"
        );
        debug_assert!(!from.has(EDIT) && !to.has(EDIT), "{from:?} => {to:?} needs the queue lock");
        // Relaxed on failure: the caller only looks at the value and tries again.
        match self.word.compare_exchange(from.raw(), to.raw(), ordering, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(now) => Err(Word::from_raw(now)),
        }
    }

    /// `seen => seen·EDIT`, if the word still is `seen` and the queue is not locked.
    #[inline(always)]
    pub(crate) fn try_lock(&self, seen: Word) -> Option<LockedQueue<'_>> {
        if seen.has(EDIT) {
            return None;
        }
        let edited = seen.with(EDIT);
        let section = Section::enter();
        // Acquire: pairs with Release in the drop of `LockedQueue` (list, slots), and with the Release of the
        // fast paths, so that what an owner did is passed on through a hold of the queue lock by another thread.
        let was = self
            .word
            .compare_exchange(seen.raw(), edited.raw(), Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        probe::queue_locked();
        // Not `seen`: that one may be of an earlier waiter at the same address, whose memory is gone.
        Some(LockedQueue::new(self, Word::from_raw(was), section))
    }

    /// Locks a queue that has neither waiters nor flags. The word of the evidence is a constant then, so the compiler leaves out what asks for either.
    #[inline(always)]
    pub(crate) fn try_lock_idle(&self) -> Option<LockedQueue<'_>> {
        const IDLE: Word = Word::flags(0);
        if self.load() != IDLE {
            return None;
        }
        let section = Section::enter();
        // Acquire: as in `try_lock`.
        self.word
            .compare_exchange(IDLE.raw(), IDLE.with(EDIT).raw(), Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        probe::queue_locked();
        Some(LockedQueue::new(self, IDLE, section))
    }

    /// Locks the queue; spins while another thread holds its lock.
    #[inline(always)]
    pub(crate) fn lock(&self) -> LockedQueue<'_> {
        match self.try_lock(self.load()) {
            Some(locked) => locked,
            None => self.lock_busy(),
        }
    }

    /// Locks a second queue of the same primitive, which is locked only by the holder of the first: that needs no exchange.
    ///
    /// SAFETY: this queue is locked through this function only, with the lock of the same first queue.
    #[inline(always)]
    pub(crate) unsafe fn lock_under<'q>(&'q self, _first: &LockedQueue<'_>) -> LockedQueue<'q> {
        let section = Section::enter();
        probe::queue_locked();
        // What the last holder did is ordered by the lock of the first queue.
        LockedQueue::new(self, self.load(), section)
    }

    /// Unlocked, without waiters and flags, whatever it was.
    ///
    /// SAFETY: no other thread uses the queue meanwhile, and no waiter in its list is still to be granted.
    #[cfg(feature = "std")]
    pub(crate) unsafe fn reset(&self) {
        // Relaxed: the caller publishes it.
        self.word.store(Word::flags(0).raw(), Ordering::Relaxed);
    }

    /// Another thread holds the queue lock, or was faster.
    #[cold]
    #[inline(never)]
    fn lock_busy(&self) -> LockedQueue<'_> {
        let mut backoff = Backoff::new();
        loop {
            let word = self.load();
            if word.has(EDIT) {
                backoff.wait();
            } else if let Some(locked) = self.try_lock(word) {
                return locked;
            }
        }
    }
}

impl WaitQueue {
    /// A poll of a queued waiter, of a primitive that never wakes a waiter without a grant: `Ready` once it is `Notified`; else the waiter keeps its
    /// position, with this waker.
    ///
    /// SAFETY: the waiter was enqueued in this queue, or in one that is locked under it, and is in none that this lock does not guard.
    #[inline]
    pub(crate) unsafe fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        if waiter.get().state() == WaiterState::Notified {
            return Poll::Ready(());
        }
        if waiter.get().will_wake(cx.waker()) {
            return Poll::Pending;
        }
        // SAFETY: the caller's contract.
        unsafe { self.rearm(waiter, cx) }
    }

    /// `Waiting => Waiting` with another waker, unless the waiter is `Notified` by now.
    ///
    /// SAFETY: as [`poll_queued`](Self::poll_queued).
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn rearm(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        let mut locked = self.lock();
        if waiter.get().state() == WaiterState::Notified {
            drop(locked);
            drop_waker(Some(waker));
            return Poll::Ready(());
        }
        // SAFETY: not `Notified`, so it is in a list that this lock guards, or in a snapshot (invariant 3).
        let old = unsafe { locked.rearm(waiter, waker) };
        drop_waker(locked.unlock_with(old));
        Poll::Pending
    }
}

/// A bounded spin, then yields of the thread.
#[derive(Debug)]
pub(crate) struct Backoff {
    looks: u32,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { looks: 0 }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wait(&mut self) {
        let pauses = match self.looks.checked_sub(SHORT_LOOKS) {
            None => 1,
            Some(long) => match LONG_PAUSES.get(long as usize) {
                Some(&pause) => spin_pause::pauses(pause),
                None => return shim::yield_thread(),
            },
        };
        self.looks += 1;
        for _ in 0..pauses {
            shim::spin_hint();
        }
    }
}

/// A new waiter inside a pinned future, in no list yet. Not `Copy`: a waiter is enqueued once.
#[derive(Debug)]
#[must_use = "a new waiter is to be enqueued"]
pub(crate) struct NewWaiter<'f>(Pinned<'f>);

impl<'f> NewWaiter<'f> {
    /// SAFETY: as [`Pinned::new`], and the waiter has just been made.
    #[inline(always)]
    pub(crate) unsafe fn new(waiter: NonNull<Waiter>) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { Pinned::new(waiter) })
    }

    /// The waiter, for a list that is not that of the queue's word.
    #[inline(always)]
    pub(crate) fn into_pinned(self) -> Pinned<'f> {
        self.0
    }
}

/// A waiter inside a pinned future: the evidence that its memory is valid, and that its own future asks.
#[derive(Clone, Copy, Debug)]
pub struct Pinned<'f> {
    waiter: NonNull<Waiter>,
    future: PhantomData<&'f Waiter>,
}

impl<'f> Pinned<'f> {
    /// SAFETY: the waiter is initialised, its memory stays valid until its future has seen it granted or
    /// has removed it, and only that future makes this evidence.
    pub(crate) unsafe fn new(waiter: NonNull<Waiter>) -> Self {
        Self { waiter, future: PhantomData }
    }

    pub(crate) fn get(&self) -> &'f Waiter {
        // SAFETY: valid by the contract of `new`; all fields that change are cells or atomics.
        unsafe { self.waiter.as_ref() }
    }

    fn as_ptr(self) -> *mut Waiter {
        self.waiter.as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It pauses a few times, and yields from then on: a thread that waits for one that does not run must not spin for ever.
    #[test]
    fn a_backoff_ends_in_yields() {
        let mut backoff = Backoff::new();
        let looks = [(); 10].map(|()| {
            backoff.wait();
            backoff.looks
        });
        assert_eq!(looks, [1, 2, 3, 4, 5, 5, 5, 5, 5, 5], "each pause is a look, a yield is none");
    }
}
