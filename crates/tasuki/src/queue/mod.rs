//! The wait queue: one word, one list, one waiter. Every primitive stands on it.
//!
//! A primitive keeps its own state in the two flags and the idle count of the word, or in fields of its
//! own that it touches only while it holds [`Editing`]. Its fast paths are [`WaitQueue::replace`] on the
//! word; everything else begins with [`WaitQueue::edit`], changes the list and the flags through the
//! evidence, and ends with a store that publishes all of it at once. Wakers come out of an edit and are
//! called after it.
//!
//! # Transitions
//!
//! | what                | word                         | waiter              | function                  |
//! |---------------------|------------------------------|---------------------|---------------------------|
//! | fast path           | `w => w'`, no `EDIT` in either | none              | [`WaitQueue::replace`]    |
//! | begin an edit       | `w => w·EDIT`                | none                | [`WaitQueue::try_edit`]   |
//! | enqueue             | under `EDIT`                 | new => `Waiting`    | [`Editing::push_back`], [`Editing::push_front`] |
//! | grant the first     | under `EDIT`                 | `Waiting`, `Woken` => `Notified` | [`Editing::grant_front`] |
//! | call the first      | under `EDIT`                 | `Waiting` => `Woken`| [`Editing::wake_front`]   |
//! | refuse the first    | under `EDIT`                 | `Waiting`, `Woken` => `Notified` | [`Editing::refuse_front`] |
//! | grant all           | under `EDIT`, by batches     | => `Notified`       | [`Editing::grant_all`]    |
//! | cancel, or take     | under `EDIT`                 | => gone             | [`Editing::remove`], [`Editing::remove_sleeping`] |
//! | another waker       | under `EDIT`                 | => `Waiting`        | [`Editing::rearm`]        |
//! | to another queue    | under `EDIT` of both         | stays, or `Notified` => `Waiting` | [`Editing::take_front`], [`Editing::revive`] |
//! | end an edit         | `w·EDIT => w'`               | none                | [`Editing::finish`]       |
//!
//! # Invariants
//! 1. While `EDIT` is set, only the thread that set it writes the word, the links and the waker slots of
//!    listed waiters.
//! 2. A waiter in the list, or in a snapshot, is alive: its future leaves only through [`Editing::remove`]
//!    or [`Editing::remove_sleeping`], or after it has seen `Notified`.
//! 3. A waiter is in the list, or in a snapshot, exactly while its state is `Waiting` or `Woken`.
//! 4. The waker slot is full exactly while the state is `Waiting`.
//! 5. Nothing is read through the head pointer before `EDIT` is held: a stale head is only compared.
//! 6. No foreign code (clone, wake, drop of a waker; user closures) runs under `EDIT`.
//!
//! # Orderings
//! The word: Acquire of [`WaitQueue::try_edit`] pairs with Release of [`Editing::finish`] (the list passes
//! from editor to editor). The pairs of the fast paths are named in each primitive.
//! Proof sketches and the sketch of every primitive: `docs/wait-queue.md`.

pub(crate) mod batch;
pub(crate) mod broadcast;
pub(crate) mod list;
#[cfg(feature = "std")]
pub(crate) mod ring;
mod snapshot;
pub(crate) mod sweep;
pub(crate) mod waiter;
pub(crate) mod word;

use crate::probe;
use crate::shim::{self, AtomicPtr, Ordering, const_fn};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::task::Waker;
use waiter::{State, Verdict, Waiter};
use word::{EDIT, WAITERS, Word};

/// Looks at a word that is being edited this often before the thread yields. An edit is about fifteen instructions, so
/// more looks than this, with the pauses between them, mean that the editor has lost its processor.
const LOOKS_BEFORE_YIELD: u32 = if shim::MODEL { 1 } else { 8 };
/// The pauses before the looks double up to two to this power. A look takes the word's cache line away from the editor,
/// and whoever comes back later leaves the editor time for more than one edit on lines that it has.
const LONGEST_PAUSE: u32 = 5;

/// The word and, through it, the list.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    word: AtomicPtr<Waiter>,
}

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
        // Relaxed: whoever acts on it does so by a compare-exchange.
        Word::from_raw(self.word.load(Ordering::Relaxed))
    }

    /// The word now, with what its writer did before.
    #[inline(always)]
    pub(crate) fn load_with(&self, ordering: Ordering) -> Word {
        Word::from_raw(self.word.load(ordering))
    }

    /// The word when nobody edits it, with what its writer did before. A waiter can know of its grant before the word does;
    /// this look is as new as what the waiter knows.
    #[inline(always)]
    pub(crate) fn load_settled(&self) -> Word {
        // Acquire: pairs with Release in `Editing::finish` and in the fast paths of the primitives.
        let word = self.load_with(Ordering::Acquire);
        if word.has(EDIT) { self.load_busy() } else { word }
    }

    /// Waits for the end of an edit.
    #[cold]
    #[inline(never)]
    fn load_busy(&self) -> Word {
        let mut patience = Patience::new();
        loop {
            patience.wait();
            // Acquire: as in `load_settled`.
            let word = self.load_with(Ordering::Acquire);
            if !word.has(EDIT) {
                return word;
            }
        }
    }

    /// A fast path of the primitive: `from => to` if the word still is `from`. Neither has waiters, or the caller
    /// knows that the head cannot have changed: a pointer that was seen earlier must not be stored for another waiter at the same
    /// address.
    #[inline(always)]
    pub(crate) fn replace(&self, from: Word, to: Word, ordering: Ordering) -> Result<(), Word> {
        debug_assert!(!from.has(EDIT) && !to.has(EDIT), "{from:?} => {to:?} needs the edit bit");
        // Relaxed on failure: the caller only looks at the value and tries again.
        match self.word.compare_exchange(from.raw(), to.raw(), ordering, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(now) => Err(Word::from_raw(now)),
        }
    }

    /// `seen => seen·EDIT`, if the word still is `seen` and nobody is editing.
    #[inline(always)]
    pub(crate) fn try_edit(&self, seen: Word) -> Option<Editing<'_>> {
        if seen.has(EDIT) {
            return None;
        }
        let edited = seen.with(EDIT);
        // Acquire: pairs with Release in `Editing::finish` (list, slots), and with the Release of whoever
        // unlocked, so that what an owner did is passed on through an edit by somebody else.
        let was = self
            .word
            .compare_exchange(seen.raw(), edited.raw(), Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        probe::edit_begins();
        // Not `seen`: that one may be of an earlier waiter at the same address, whose memory is gone.
        Some(Editing { queue: self, word: Word::from_raw(was) })
    }

    /// Waits for the end of other edits, then begins one.
    #[inline(always)]
    pub(crate) fn edit(&self) -> Editing<'_> {
        match self.try_edit(self.load()) {
            Some(editing) => editing,
            None => self.edit_busy(),
        }
    }

    /// Somebody else is editing, or was faster.
    #[cold]
    #[inline(never)]
    fn edit_busy(&self) -> Editing<'_> {
        let mut patience = Patience::new();
        loop {
            let word = self.load();
            if word.has(EDIT) {
                patience.wait();
            } else if let Some(editing) = self.try_edit(word) {
                return editing;
            }
        }
    }
}

/// A short bounded spin, then yields of the thread.
#[derive(Debug)]
pub(crate) struct Patience {
    looks: u32,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { looks: 0 }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wait(&mut self) {
        if self.looks < LOOKS_BEFORE_YIELD {
            for _ in 0..1 << self.looks.min(LONGEST_PAUSE) {
                shim::spin_hint();
            }
            self.looks += 1;
        } else {
            shim::yield_thread();
        }
    }
}

/// A waiter inside a pinned future: the evidence that makes the queue's functions safe to call.
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

/// The evidence of holding `EDIT`. Nothing foreign runs while it exists (invariant 6).
#[derive(Debug)]
#[must_use = "an edit must be finished"]
pub(crate) struct Editing<'q> {
    queue: &'q WaitQueue,
    /// What the word will be, without `EDIT`.
    word: Word,
}

impl<'q> Editing<'q> {
    /// The word as it will be stored.
    #[inline(always)]
    pub(crate) fn word(&self) -> Word {
        self.word
    }

    /// Sets the flags in `bits`.
    #[inline(always)]
    pub(crate) fn set(&mut self, bits: usize) {
        self.word = self.word.with(bits);
    }

    /// Clears the flags in `bits`.
    #[inline(always)]
    pub(crate) fn clear(&mut self, bits: usize) {
        self.word = self.word.without(bits);
    }

    /// Does anybody wait (snapshots not counted)?
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
    pub(crate) fn front_overtaken(&self) -> u32 {
        // SAFETY: we hold `EDIT`; the caller's primitive has no rounds.
        self.front().map_or(0, |front| unsafe { front.overtaken() })
    }

    /// Counts that the first waiter has been overtaken. For primitives without rounds.
    pub(crate) fn overtake_front(&mut self) {
        if let Some(front) = self.front() {
            // SAFETY: we hold `EDIT`; the caller's primitive has no rounds.
            unsafe { front.count_overtake() };
        }
    }

    /// The word will have this count; nobody waits.
    #[inline(always)]
    pub(crate) fn set_count(&mut self, count: usize) {
        debug_assert!(!self.has_waiters(), "the count has no room in {:?}", self.word);
        self.word = self.word.with_count(count);
    }

    /// Enqueues at the end.
    #[inline(always)]
    pub(crate) fn push_back(&mut self, waiter: Pinned<'_>) {
        self.link_back(waiter.as_ptr());
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
    pub(crate) fn push_front(&mut self, waiter: Pinned<'_>) {
        // SAFETY: as in `push_back`.
        let head = unsafe { list::push_front(self.word.head(), waiter.as_ptr()) };
        self.word = self.word.with_head(head);
    }

    /// Takes the first waiter out and notifies it. There must be one.
    #[inline(always)]
    #[must_use = "the waiter must be woken after `finish`"]
    pub(crate) fn grant_front(&mut self) -> Option<Waker> {
        self.notify_front(Verdict::Granted)
    }

    /// As [`grant_front`](Self::grant_front), for a primitive that never calls a waiter, so that every slot is full.
    #[inline(always)]
    #[must_use = "the waiter must be woken after `finish`"]
    pub(crate) fn grant_sleeping_front(&mut self) -> Waker {
        let front = self.pop_front();
        // SAFETY: we hold `EDIT` and have just taken it out of the list; it has not been called.
        unsafe { waiter::notify_waiting(front) }
    }

    /// Takes the first waiter out and refuses it. There must be one.
    #[must_use = "the waiter must be woken after `finish`"]
    pub(crate) fn refuse_front(&mut self) -> Option<Waker> {
        self.notify_front(Verdict::Refused)
    }

    #[inline(always)]
    fn notify_front(&mut self, verdict: Verdict) -> Option<Waker> {
        let front = self.pop_front();
        // SAFETY: we hold `EDIT` and have just taken it out of the list.
        unsafe { waiter::notify(front, verdict) }
    }

    /// The first waiter, out of the list. There must be one.
    #[inline(always)]
    fn pop_front(&mut self) -> *mut Waiter {
        debug_assert!(self.has_waiters(), "nobody waits in {:?}", self.word);
        let front = self.word.some_head();
        // SAFETY: we hold `EDIT`; the head is in the list.
        let head = unsafe { list::pop_front(front) };
        self.word = if head.is_null() { self.word.without_waiters() } else { self.word.with_next_head(head) };
        front
    }

    /// The place of the first waiter.
    pub(crate) fn first(&self) -> Place {
        Place(self.word.head())
    }

    /// The waiter at this place; `None` at the end of the list.
    pub(crate) fn at(&self, place: Place) -> Option<&Waiter> {
        // SAFETY: as in `front`; a place belongs to this edit, and is kept up to date by whoever changes the list.
        unsafe { place.0.as_ref() }
    }

    /// Goes on to the next place. There must be a waiter at this one.
    pub(crate) fn pass(&self, place: &mut Place) {
        // SAFETY: we hold `EDIT`; the waiter is in the list.
        place.0 = unsafe { list::after(self.word.head(), place.0) };
    }

    /// Takes the waiter at this place out, notifies it, and goes on to the next place. There must be one.
    #[must_use = "the waiter must be woken after `finish`"]
    pub(crate) fn grant_at(&mut self, place: &mut Place) -> Option<Waker> {
        let granted = place.0;
        self.pass(place);
        // SAFETY: we hold `EDIT`; the waiter is in the list.
        let head = unsafe { list::remove(self.word.head(), granted) };
        self.word = self.word.with_head(head);
        // SAFETY: we hold `EDIT` and have just taken it out of the list.
        unsafe { waiter::notify(granted, Verdict::Granted) }
    }

    /// Calls the first waiter, which stays in its place. There must be one.
    #[must_use = "the waiter must be woken after `finish`"]
    pub(crate) fn wake_front(&mut self) -> Option<Waker> {
        debug_assert!(self.has_waiters(), "nobody waits in {:?}", self.word);
        // SAFETY: we hold `EDIT`; the head is in the list.
        unsafe { waiter::wake_only(self.word.head()) }
    }

    /// Takes a waiter out, unless it has been granted; by its own future.
    pub(crate) fn remove(&mut self, waiter: Pinned<'_>) -> Removed {
        self.remove_as(waiter, Verdict::Granted)
    }

    /// As [`remove`](Self::remove); if the poll that does it panics, the drop of the future finds this verdict.
    pub(crate) fn remove_as(&mut self, waiter: Pinned<'_>, verdict: Verdict) -> Removed {
        if waiter.get().state() == State::Notified {
            return Removed::AlreadyGranted;
        }
        // SAFETY: we hold `EDIT`; not `Notified`, so it is in the list or in a snapshot (invariant 3).
        let head = unsafe { list::remove(self.word.head(), waiter.as_ptr()) };
        self.word = self.word.with_head(head);
        // `Notified`, as everything that is out of the list (invariant 3): if the waker's drop panics in a poll,
        // the drop of the future must not take the waiter out a second time.
        // SAFETY: we hold `EDIT` and have just taken it out of the list.
        Removed::Waker(unsafe { waiter::notify(waiter.as_ptr(), verdict) })
    }

    /// Takes out a waiter that is `Waiting`; by its own future. For a primitive without rounds, so that it is in the list.
    /// Unless it is the first the word stays as it is, and the next editor need not wait for it to be made.
    #[inline(always)]
    pub(crate) fn remove_sleeping(&mut self, waiter: Pinned<'_>) -> Waker {
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
        unsafe { waiter::notify_waiting(node) }
    }

    /// Changes the waker of a waiter that has not been granted; by its own future.
    pub(crate) fn rearm(&mut self, waiter: Pinned<'_>, waker: Waker) -> Option<Waker> {
        debug_assert_ne!(waiter.get().state(), State::Notified);
        // SAFETY: we hold `EDIT`; the waiter is in the list (invariant 3) and ours.
        unsafe { waiter.get().rearm(waker) }
    }

    /// Takes the first waiter out, to be put into another queue, and marks it; `None` if nobody waits.
    pub(crate) fn take_front(&mut self, mark: u32) -> Option<Moving> {
        if !self.set_mark(self.first(), mark) {
            return None;
        }
        let front = self.word.some_head();
        // SAFETY: we hold `EDIT`; the head is in the list.
        let head = unsafe { list::pop_front(front) };
        self.word = self.word.with_head(head);
        Some(Moving(front))
    }

    /// Marks the waiter at this place; false at the end of the list. For a primitive without rounds that counts no overtakes.
    pub(crate) fn set_mark(&mut self, place: Place, mark: u32) -> bool {
        let Some(waiter) = self.at(place) else { return false };
        // SAFETY: we hold `EDIT` of the queue that marks: its future must edit this queue to find out where it is.
        unsafe { waiter.set_mark(mark) };
        true
    }

    /// How the waiter at this place was marked last, 0 if it was not or at the end of the list; also after it was moved,
    /// if the future itself asks.
    pub(crate) fn mark(&self, place: Place) -> u32 {
        // SAFETY: we hold `EDIT` of the queue that marks.
        self.at(place).map_or(0, |waiter| unsafe { waiter.mark() })
    }

    /// A waiter that was notified here goes on to another queue, with another waker and a new mark; by its own future.
    pub(crate) fn revive(&mut self, waiter: Pinned<'_>, waker: Waker, mark: u32) -> Moving {
        // SAFETY: it was notified, so nobody but its future knows it; and that is the caller.
        unsafe { waiter.get().revive(waker, mark) };
        Moving(waiter.as_ptr())
    }

    /// Enqueues a waiter that comes from another queue at the end.
    pub(crate) fn put_back(&mut self, waiter: Moving) {
        self.link_back(waiter.0);
    }

    /// Enqueues a waiter that comes from another queue before all others.
    pub(crate) fn put_front(&mut self, waiter: Moving) {
        // SAFETY: as in `put_back`.
        let head = unsafe { list::push_front(self.word.head(), waiter.0) };
        self.word = self.word.with_head(head);
    }

    /// Notifies a waiter that comes from another queue, without its having been in this one.
    #[must_use = "the waiter must be woken after `finish`"]
    pub(crate) fn grant(&mut self, waiter: Moving) -> Option<Waker> {
        // SAFETY: both queues are being edited, and it is out of the list.
        unsafe { waiter::notify(waiter.0, Verdict::Granted) }
    }

    /// Ends the edit: the word, and with it the list, becomes visible.
    #[inline(always)]
    pub(crate) fn finish(self) {
        probe::edit_ends();
        // Release: pairs with Acquire in `WaitQueue::try_edit` and in the fast paths of the primitives.
        self.queue.word.store(self.word.raw(), Ordering::Release);
    }
}

/// A waiter between two queues. Both are being edited while this exists, the one it comes from first.
#[derive(Debug)]
#[must_use = "a waiter must be put somewhere, or granted"]
pub(crate) struct Moving(*mut Waiter);

/// A place in the list of an edit. A primitive may keep one between edits, as long as it knows that the waiter is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(*mut Waiter);

impl Place {
    /// Behind the last waiter.
    pub(crate) const END: Self = Self(core::ptr::null_mut());

    /// Where this waiter is.
    pub(crate) fn of(waiter: Pinned<'_>) -> Self {
        Self(waiter.as_ptr())
    }
}

/// What became of a waiter that its future wanted to remove.
#[derive(Debug)]
#[must_use = "a grant must be used or passed on, a waker dropped after `finish`"]
pub(crate) enum Removed {
    /// It was granted before; it is not in the list.
    AlreadyGranted,
    /// It is out of the list, and this was in its slot.
    Waker(Option<Waker>),
}
