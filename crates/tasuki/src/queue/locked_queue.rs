//! The locked queue: what may be done with a list while the queue lock (the bit `EDIT`) is held, and what comes out of it.
//!
//! A primitive that has to enqueue, grant, cancel or rearm locks its queue and gets a [`LockedQueue`]. All changes of a list go through it, so there is no way to a list without its
//! lock, and no way to a waker before the unlock.
//!
//! [`LockedQueue`] exists exactly while its thread holds `EDIT`, or, for the second queue of a primitive ([`WaitQueue::lock_under`]), `EDIT` of the first. Its drop publishes the word and
//! unlocks the queue, on every way out of a scope, also by a panic. Wakers leave the queue as [`Deferred`] values, alone or in a
//! [`WakeBatch`](super::batch::WakeBatch). What opens them is [`QueueUnlocked`], which only the end of a `LockedQueue` makes, so
//! code that wakes or drops a waker before it has unlocked the queue does not compile.
//!
//! Transitions and invariants are those of the [module above](super). A function is `unsafe` where it relies on something
//! that the evidence does not show: that there is a waiter, or that a waiter is in this list and in no other.

use super::list;
use super::waiter::{self, Verdict, Waiter, WaiterState};
use super::word::{EDIT, WAITERS, Word};
use super::{NewWaiter, Pinned, QueueWaker, WaitQueue};
use crate::probe::{self, WaitNote};
use crate::shim::{Ordering, Section};
use core::mem::ManuallyDrop;

/// The evidence of holding `EDIT`. Nothing foreign runs while it exists (invariant 6).
#[derive(Debug)]
#[must_use = "the queue is unlocked when this is dropped"]
pub(crate) struct LockedQueue<'q> {
    pub(super) queue: &'q WaitQueue,
    /// What the word will be, without `EDIT`.
    pub(super) word: Word,
    /// Left after the queue was unlocked: fields are dropped after the drop of the whole.
    _section: Section,
}

impl Drop for LockedQueue<'_> {
    /// Unlocks the queue: the word, and with it the list, becomes visible.
    #[inline(always)]
    fn drop(&mut self) {
        probe::queue_unlocked();
        // Release: pairs with Acquire in `WaitQueue::try_lock` and in the fast paths of the primitives.
        self.queue.word.store(self.word.raw(), Ordering::Release);
    }
}

/// Something foreign that left the queue while it was locked, and must not run before the queue is unlocked.
///
/// It has no destructor of its own: what a panic under the lock leaves behind is leaked, not dropped under the lock.
#[derive(Debug)]
#[must_use = "a waker that left the queue must be woken or dropped, after the queue was unlocked"]
pub(crate) struct Deferred<T>(ManuallyDrop<T>);

/// The evidence that the caller has unlocked the queue it held. Made by the end of a [`LockedQueue`], or of what holds one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueUnlocked(());

/// What holds the lock of a queue, and unlocks it when dropped.
pub(crate) trait QueueGuard: Sized {
    /// Unlocks the queue.
    #[inline(always)]
    fn unlock(self) -> QueueUnlocked {
        drop(self);
        QueueUnlocked(())
    }

    /// Unlocks the queue and opens what came out of it.
    #[inline(always)]
    fn unlock_with<T>(self, deferred: Deferred<T>) -> T {
        deferred.open(self.unlock())
    }
}

impl QueueGuard for LockedQueue<'_> {}

impl<T> Deferred<T> {
    #[inline(always)]
    pub(crate) fn new(foreign: T) -> Self {
        Self(ManuallyDrop::new(foreign))
    }

    /// The content, now that the queue has been unlocked.
    #[inline(always)]
    pub(crate) fn open(self, _unlocked: QueueUnlocked) -> T {
        self.into_inner()
    }

    /// The content, for code of the queue that keeps it closed in something else.
    #[inline(always)]
    pub(super) fn into_inner(self) -> T {
        ManuallyDrop::into_inner(self.0)
    }

    /// Two at once, for one unlock.
    #[inline(always)]
    pub(crate) fn and<U>(self, other: Deferred<U>) -> Deferred<(T, U)> {
        Deferred::new((self.into_inner(), other.into_inner()))
    }
}

impl Deferred<QueueWaker> {
    /// The same as an `Option`.
    #[inline(always)]
    pub(crate) fn some(self) -> Deferred<Option<QueueWaker>> {
        Deferred::new(Some(self.into_inner()))
    }
}

impl Deferred<()> {
    /// Nothing to open.
    #[inline(always)]
    pub(crate) fn nothing() -> Self {
        Self::new(())
    }
}

impl Deferred<Option<QueueWaker>> {
    /// No waker.
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Self::new(None)
    }
}

impl<'q> LockedQueue<'q> {
    /// The caller has just set `EDIT`, in this section; `word` is what the word was.
    #[inline(always)]
    pub(super) fn new(queue: &'q WaitQueue, word: Word, section: Section) -> Self {
        Self { queue, word, _section: section }
    }

    /// The queue was locked inside of this section, which lasts until the queue is unlocked; the inner one, of the lock, ends here.
    #[inline(always)]
    pub(crate) fn extend_section(&mut self, outer: Section) {
        self._section = outer;
    }

    /// The word as it will be stored.
    #[inline(always)]
    pub(crate) fn word(&self) -> Word {
        self.word
    }

    /// Sets the flags in `bits`.
    #[inline(always)]
    pub(crate) fn set(&mut self, bits: usize) {
        debug_assert_eq!(bits & (EDIT | WAITERS), 0, "not a flag of the primitive");
        self.word = self.word.with(bits);
    }

    /// Clears the flags in `bits`.
    #[inline(always)]
    pub(crate) fn clear(&mut self, bits: usize) {
        debug_assert_eq!(bits & (EDIT | WAITERS), 0, "not a flag of the primitive");
        self.word = self.word.without(bits);
    }

    /// Is there a waiter (snapshots not counted)?
    #[inline(always)]
    pub(crate) fn has_waiters(&self) -> bool {
        self.word.has(WAITERS)
    }

    /// Is this waiter the first?
    #[inline]
    pub(crate) fn is_front(&self, waiter: Pinned<'_>) -> bool {
        self.word.head() == waiter.as_ptr()
    }

    /// The first waiter.
    #[inline(always)]
    pub(crate) fn front(&self) -> Option<&Waiter> {
        // SAFETY: we hold `EDIT`, and the borrow of the evidence keeps it; a listed waiter is alive (invariant 2).
        self.has_waiters().then(|| unsafe { &*self.word.some_head() })
    }

    /// The waiter after the first.
    #[inline]
    pub(crate) fn second(&self) -> Option<&Waiter> {
        let front = self.word.head();
        if front.is_null() {
            return None;
        }
        // SAFETY: we hold `EDIT`; the head is in the list.
        let second = unsafe { list::after(front, front) };
        // SAFETY: as in `front`.
        unsafe { second.as_ref() }
    }

    /// How often the first waiter has been overtaken while it was the first; 0 if there is none. For primitives
    /// without rounds.
    #[inline]
    pub(crate) fn front_overtaken(&self) -> u32 {
        self.front().map_or(0, Waiter::overtaken)
    }

    /// Counts that the first waiter has been overtaken. For primitives without rounds.
    #[inline]
    pub(crate) fn overtake_front(&mut self) {
        if let Some(front) = self.front() {
            front.count_overtake();
        }
    }

    /// The word will have this count; there is no waiter.
    #[inline(always)]
    pub(crate) fn set_count(&mut self, count: usize) {
        debug_assert!(!self.has_waiters(), "the count has no room in {:?}", self.word);
        self.word = self.word.with_count(count);
    }

    /// Enqueues at the end.
    #[inline(always)]
    pub(crate) fn push_back<'f>(&mut self, waiter: NewWaiter<'f>) -> Pinned<'f> {
        let waiter = waiter.into_pinned();
        self.link_back(waiter.as_ptr());
        waiter
    }

    /// A waiter that is in no list, and stays alive while it is in this one (invariant 2), becomes the last.
    #[inline(always)]
    fn link_back(&mut self, waiter: *mut Waiter) {
        if self.has_waiters() {
            // SAFETY: we hold `EDIT`; the head is in the list, the waiter in none.
            unsafe { list::append(self.word.some_head(), waiter) };
        } else {
            // SAFETY: we hold `EDIT`; the waiter is in no list.
            unsafe { list::begin(waiter) };
            self.word = self.word.with_some_head(waiter);
        }
    }

    /// Enqueues before all others.
    #[inline(always)]
    pub(crate) fn push_front<'f>(&mut self, waiter: NewWaiter<'f>) -> Pinned<'f> {
        let waiter = waiter.into_pinned();
        // SAFETY: we hold `EDIT`; the head, if there is one, is in the list, the waiter in none.
        let head = unsafe { list::push_front(self.word.head(), waiter.as_ptr()) };
        self.word = self.word.with_head(head);
        waiter
    }

    /// What `inspect/` knows of the first wait.
    #[inline(always)]
    pub(crate) fn front_note(&self) -> WaitNote {
        self.front().map_or(WaitNote::NONE, Waiter::note)
    }

    /// Takes the first waiter out and grants it.
    ///
    /// SAFETY: there is a waiter.
    #[inline(always)]
    pub(crate) unsafe fn grant_front(&mut self) -> Deferred<Option<QueueWaker>> {
        // SAFETY: the caller's contract.
        unsafe { self.notify_front(Verdict::Granted) }
    }

    /// As [`grant_front`](Self::grant_front), for a primitive that never wakes a waiter without a grant, so that every
    /// slot is full.
    ///
    /// SAFETY: there is a waiter, and it is `Waiting`.
    #[inline(always)]
    pub(crate) unsafe fn grant_sleeping_front(&mut self) -> Deferred<QueueWaker> {
        // SAFETY: the caller's contract.
        let front = unsafe { self.pop_front() };
        // SAFETY: we hold `EDIT` and have just taken it out of the list; it is `Waiting`.
        Deferred::new(unsafe { waiter::notify_waiting(front) })
    }

    /// Takes the first waiter out and refuses it.
    ///
    /// SAFETY: there is a waiter.
    #[inline]
    pub(crate) unsafe fn refuse_front(&mut self) -> Deferred<Option<QueueWaker>> {
        // SAFETY: the caller's contract.
        unsafe { self.notify_front(Verdict::Refused) }
    }

    /// SAFETY: there is a waiter.
    #[inline(always)]
    unsafe fn notify_front(&mut self, verdict: Verdict) -> Deferred<Option<QueueWaker>> {
        // SAFETY: the caller's contract.
        let front = unsafe { self.pop_front() };
        // SAFETY: we hold `EDIT` and have just taken it out of the list.
        Deferred::new(unsafe { waiter::notify(front, verdict) })
    }

    /// The first waiter, out of the list.
    ///
    /// SAFETY: there is a waiter.
    #[inline(always)]
    unsafe fn pop_front(&mut self) -> *mut Waiter {
        debug_assert!(self.has_waiters(), "no waiter in {:?}", self.word);
        let front = self.word.some_head();
        // SAFETY: we hold `EDIT`; the head is in the list.
        let head = unsafe { list::pop_front(front) };
        self.word = if head.is_null() { self.word.without_waiters() } else { self.word.with_next_head(head) };
        front
    }

    /// The first waiter, if there is one, becomes the last.
    pub(crate) fn rotate(&mut self) {
        if self.has_waiters() {
            // SAFETY: there is a waiter.
            let front = unsafe { self.pop_front() };
            self.link_back(front);
        }
    }

    /// A cursor at the first waiter.
    pub(crate) fn cursor_front(&self) -> Cursor {
        Cursor(self.word.head())
    }

    /// The waiter at the cursor; `None` at the end of the list.
    ///
    /// SAFETY: the cursor is at the end, or at a waiter in the list of this queue.
    #[inline]
    pub(crate) unsafe fn get(&self, cursor: Cursor) -> Option<&Waiter> {
        // SAFETY: the caller's contract; a listed waiter is alive, and the borrow of the evidence keeps it so.
        unsafe { cursor.0.as_ref() }
    }

    /// Moves the cursor to the next waiter, or to the end.
    ///
    /// SAFETY: the cursor is at a waiter in the list of this queue.
    #[inline]
    pub(crate) unsafe fn advance(&self, cursor: &mut Cursor) {
        // SAFETY: we hold `EDIT`; the caller's contract.
        cursor.0 = unsafe { list::after(self.word.head(), cursor.0) };
    }

    /// A cursor at the last waiter; at the end without waiters.
    pub(crate) fn cursor_back(&self) -> Cursor {
        let head = self.word.head();
        // SAFETY: we hold `EDIT`; the head is in the list.
        if head.is_null() { Cursor::END } else { Cursor(unsafe { list::prev(head) }) }
    }

    /// The cursor one before; at the end if there is none.
    ///
    /// SAFETY: the cursor is at a waiter in the list of this queue.
    pub(crate) unsafe fn before(&self, cursor: Cursor) -> Cursor {
        // SAFETY: we hold `EDIT`; the caller's contract.
        if cursor.0 == self.word.head() { Cursor::END } else { Cursor(unsafe { list::prev(cursor.0) }) }
    }

    /// Enqueues before the waiter at the cursor.
    ///
    /// SAFETY: the cursor is at a waiter in the list of this queue.
    pub(crate) unsafe fn insert_before<'f>(&mut self, cursor: Cursor, waiter: NewWaiter<'f>) -> Pinned<'f> {
        let waiter = waiter.into_pinned();
        // SAFETY: we hold `EDIT`; the caller's contract.
        let head = unsafe { list::insert_before(self.word.head(), cursor.0, waiter.as_ptr()) };
        self.word = self.word.with_head(head);
        waiter
    }

    /// The waiters from `a` to the one before `b` change places with those from `b` to `b_last`.
    ///
    /// SAFETY: all are at waiters in the list of this queue, in this order, `a` before `b`.
    pub(crate) unsafe fn swap_runs(&mut self, a: Cursor, b: Cursor, b_last: Cursor) {
        // SAFETY: we hold `EDIT`; the caller's contract.
        let head = unsafe { list::swap_runs(self.word.head(), a.0, b.0, b_last.0) };
        self.word = self.word.with_head(head);
    }

    /// Wakes the first waiter without a grant; it stays in its place.
    ///
    /// SAFETY: there is a waiter.
    #[inline]
    pub(crate) unsafe fn wake_front(&mut self) -> Deferred<Option<QueueWaker>> {
        debug_assert!(self.has_waiters(), "no waiter in {:?}", self.word);
        // SAFETY: we hold `EDIT`; the head is in the list.
        Deferred::new(unsafe { waiter::wake_only(self.word.head()) })
    }

    /// Takes a waiter out, unless it has been granted; by its own future.
    ///
    /// SAFETY: the waiter was enqueued in this queue, and has not been moved to another.
    #[inline]
    pub(crate) unsafe fn remove(&mut self, waiter: Pinned<'_>) -> Removed {
        // SAFETY: the caller's contract.
        unsafe { self.remove_as(waiter, Verdict::Granted) }
    }

    /// As [`remove`](Self::remove); if the poll that does it panics, the drop of the future finds this verdict.
    ///
    /// SAFETY: as [`remove`](Self::remove).
    #[inline]
    pub(crate) unsafe fn remove_as(&mut self, waiter: Pinned<'_>, verdict: Verdict) -> Removed {
        if waiter.get().state() == WaiterState::Notified {
            return Removed::AlreadyGranted;
        }
        // SAFETY: we hold `EDIT`; not `Notified`, so it is in the list or in a snapshot (invariant 3).
        let head = unsafe { list::remove(self.word.head(), waiter.as_ptr()) };
        self.word = self.word.with_head(head);
        // `Notified`, as everything that is out of the list (invariant 3): if the waker's drop panics in a poll,
        // the drop of the future must not take the waiter out a second time.
        // SAFETY: we hold `EDIT` and have just taken it out of the list.
        Removed::Waker(Deferred::new(unsafe { waiter::notify(waiter.as_ptr(), verdict) }))
    }

    /// Takes out a waiter that is `Waiting`; by its own future. For a primitive without rounds, so that it is in the list.
    /// Unless it is the first the word stays as it is, and the next holder of the lock need not wait for it to be computed.
    ///
    /// SAFETY: the waiter is `Waiting` and in the list of this queue.
    #[inline(always)]
    pub(crate) unsafe fn remove_sleeping(&mut self, waiter: Pinned<'_>) -> Deferred<QueueWaker> {
        let node = waiter.as_ptr();
        let head = self.word.some_head();
        if node == head {
            // SAFETY: we hold `EDIT`; the head is in the list.
            self.word = self.word.with_head(unsafe { list::pop_front(node) });
        } else {
            // SAFETY: we hold `EDIT`; `Waiting`, so it is in the list (invariant 3), and not the first.
            unsafe { list::unlink(head, node) };
        }
        // SAFETY: we hold `EDIT` and have just taken it out of the list; it is `Waiting`.
        Deferred::new(unsafe { waiter::notify_waiting(node) })
    }

    /// Changes the waker of a waiter that has not been granted; by its own future.
    ///
    /// SAFETY: the waiter is in the list of this queue, in a snapshot of it, or in the list of a queue that is locked under it.
    #[inline]
    pub(crate) unsafe fn rearm(
        &mut self,
        waiter: Pinned<'_>,
        waker: QueueWaker,
    ) -> Deferred<Option<QueueWaker>> {
        debug_assert_ne!(waiter.get().state(), WaiterState::Notified);
        // SAFETY: we hold `EDIT`; the waiter is in the list, and its own future asks.
        Deferred::new(unsafe { waiter.get().rearm(waker) })
    }

    /// Takes the first waiter out, to be put into another queue, and marks it; `None` if there is none.
    pub(crate) fn detach_front(&mut self, mark: u32) -> Option<Detached> {
        self.front()?.set_mark(mark);
        // SAFETY: there is a waiter, asked above.
        Some(Detached(unsafe { self.pop_front() }))
    }

    /// Takes the last waiter out, to be put into another queue, and marks it; `None` if there is none.
    #[cfg(feature = "alloc")]
    pub(crate) fn detach_back(&mut self, mark: u32) -> Option<Detached> {
        let back = self.cursor_back();
        // SAFETY: at a waiter of this list, or at the end.
        unsafe { self.get(back) }?.set_mark(mark);
        // SAFETY: we hold `EDIT`; the last waiter is in the list.
        let head = unsafe { list::remove(self.word.head(), back.0) };
        self.word = self.word.with_head(head);
        Some(Detached(back.0))
    }

    /// `Notified => Waiting`, with another waker and a new mark: a waiter that was notified here goes on to another queue, or comes back into this one after its grant was revoked. By its own future.
    ///
    /// SAFETY: the waiter is `Notified`.
    pub(crate) unsafe fn revive(&mut self, waiter: Pinned<'_>, waker: QueueWaker, mark: u32) -> Detached {
        // SAFETY: it was notified, so only its future knows it; and that is the caller.
        unsafe { waiter.get().revive(waker, mark) };
        Detached(waiter.as_ptr())
    }

    /// Enqueues a detached waiter at the end.
    pub(crate) fn push_back_detached(&mut self, waiter: Detached) {
        self.link_back(waiter.0);
    }

    /// Enqueues a detached waiter before all others.
    pub(crate) fn push_front_detached(&mut self, waiter: Detached) {
        // SAFETY: we hold `EDIT`; the head, if there is one, is in the list; a detached waiter is in none.
        let head = unsafe { list::push_front(self.word.head(), waiter.0) };
        self.word = self.word.with_head(head);
    }

    /// Enqueues a detached waiter behind the first.
    ///
    /// SAFETY: there is a waiter.
    pub(crate) unsafe fn push_second_detached(&mut self, waiter: Detached) {
        let front = self.word.some_head();
        // SAFETY: we hold `EDIT`; the head is in the list.
        let second = unsafe { list::after(front, front) };
        if second.is_null() {
            self.link_back(waiter.0);
        } else {
            // SAFETY: we hold `EDIT`; the second is in the list and not its head, which therefore stays.
            unsafe { list::insert_before(front, second, waiter.0) };
        }
    }

    /// Grants a detached waiter, without its having been in this queue.
    pub(crate) fn grant(&mut self, waiter: Detached) -> Deferred<Option<QueueWaker>> {
        // SAFETY: the caller has locked this queue, and the one that the waiter comes from, unless its own future is the caller; the waiter is in no list.
        Deferred::new(unsafe { waiter::notify(waiter.0, Verdict::Granted) })
    }
}

/// A waiter that is in no list, on its way into a queue. It comes from another queue, and both are locked while this exists (or one is, under which the other is changed); or its grant was revoked, and its own future puts it back.
#[derive(Debug)]
#[must_use = "a waiter must be put somewhere, or granted"]
pub(crate) struct Detached(*mut Waiter);

impl Detached {
    /// What `inspect/` knows of the wait.
    #[inline(always)]
    pub(crate) fn note(&self) -> WaitNote {
        // SAFETY: the queue that it comes from is locked, or its own future is the caller: the waiter is alive.
        unsafe { (*self.0).note() }
    }
}

/// A position in the list of a queue. A primitive may keep one while the queue is not locked, as long as it knows that the
/// waiter is in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor(*mut Waiter);

impl Cursor {
    /// Behind the last waiter.
    pub(crate) const END: Self = Self(core::ptr::null_mut());

    /// At this waiter.
    pub(crate) fn of(waiter: Pinned<'_>) -> Self {
        Self(waiter.as_ptr())
    }

    /// The cursor that another waiter carries ([`Payload::carrying`](super::waiter::Payload::carrying)).
    pub(crate) fn from_pointer(pointer: *mut ()) -> Self {
        Self(pointer.cast())
    }

    /// As what a waiter can carry.
    pub(crate) fn as_pointer(self) -> *mut () {
        self.0.cast()
    }
}

/// What became of a waiter that its future wanted to remove.
#[derive(Debug)]
#[must_use = "a grant must be used or passed on, a waker dropped after the queue was unlocked"]
pub(crate) enum Removed {
    /// It was granted before; it is not in the list.
    AlreadyGranted,
    /// It is out of the list, and this was in its slot.
    Waker(Deferred<Option<QueueWaker>>),
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A panic while the queue is locked unlocks it, with what had been changed.
    #[test]
    fn a_panic_unlocks_the_queue() {
        let queue = WaitQueue::new(Word::flags(0));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut locked = queue.lock();
            locked.set(super::super::word::FLAG_A);
            panic!("under the lock");
        }));
        assert!(panicked.is_err());
        assert_eq!(queue.load(), Word::flags(super::super::word::FLAG_A));
        drop(queue.lock());
    }
}
