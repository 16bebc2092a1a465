//! The registry: lists of every task that waits. It keeps detached tasks alive, lets a shutdown find them, and has the word by which an abort reaches its task.
//!
//! Called by the polls and drops of tasks (`task/mod.rs`), by handles that abort a task or ask whether it has ended, and by a shutdown. A second registry lists every task for dumps (`notes.rs`).
//!
//! A task is registered by the first poll that leaves it waiting, and until its future is dropped; before, it is in a
//! queue. A task that ends in its first poll is never registered.
//!
//! Nothing is allocated: a task's [`Entry`] is in its own cell, and the registry is lists through these entries. They are cut into
//! shards, two for each worker: one for the tasks pinned to it, and one for others that were first polled by it.
//!
//! # States of an entry
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | new | abort | aborted | none: the task is in a queue, or is being polled | [`abort`] |
//! | new | the first poll leaves the task waiting | registered, in a list | none | [`Registry::insert`] |
//! | aborted | the same | aborted, registered, in a list | wake the task | [`Registry::insert`] |
//! | new | the system gives no thread for blocking work | refused | poll the task, which ends it | [`Entry::refuse`] |
//! | new | the spawn is refused: the runtime drains or has shut down, or its threads for blocking work have | uncounted | drop the future | [`Entry::mark_uncounted`] |
//! | registered | abort | aborted, registered | wake the task | [`abort`] |
//! | in a list | the future is dropped | in no list | none: drops the list's reference to the cell | [`Registry::remove`] |
//! | in a list | shutdown | in no list | none: wakes the task by the list's reference | [`Registry::wake_pinned`], [`Registry::wake_others`] |
//! | in a list | shutdown, while a worker may still poll the task | in a list | none: wakes the task | [`Registry::wake_others_early`] |
//! | any, in no list | the future is gone | ended | none | [`Entry::end`] |
//! | ended | abort | ended, aborted: means nothing | none | [`abort`] |
//!
//! # Invariants
//! 1. Insertion and abort are read-modify-writes of one word, so one of them sees the other, and wakes.
//! 2. An entry in a list owns one reference to its cell: so the cell outlives its time in the list. The thread that takes the entry out of
//!    the list, under the lock of the shard, owns that reference from then on.
//! 3. Lists link cells, not entries: the pointer of a cell is valid for the whole of it, and so gives its entry and its waker
//!    ([`RegisteredCell`]). No entry holds a waker: 16 bytes less in each task, which decide whether a small one is cheap to allocate.
//!    A thread that keeps the cell by other means, as a handle does, may wake it at any time: `async-task` ignores the wake of a
//!    task that has ended.
//! 4. No waker is called or dropped under the lock of a shard.
//!
//! # Orderings
//! Release in `abort` pairs with Acquire in `look`: what the aborter did before. Release in `end` pairs with Acquire in `look`: what the task
//! did. Links are guarded by the lock of the shard.

use crate::shim::{AtomicU32, Mutex, MutexGuard, Ordering, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;
use std::task::{RawWaker, Waker};

/// The task has been asked to end.
const ABORTED: u32 = 1 << 31;
const REGISTERED: u32 = 1 << 30;
/// The future is gone.
const ENDED: u32 = 1 << 29;
/// There is no thread for the task, which is blocking work.
const REFUSED: u32 = 1 << 28;
/// The spawn was refused: there is no task to be counted.
const UNCOUNTED: u32 = 1 << 27;
// The rest of the word is the number of the shard.

/// A task's part of the registry; lives in its cell.
pub(crate) struct Entry {
    word: AtomicU32,
    /// The worker that the task is pinned to, [`ANYWHERE`], or [`BLOCKING`]. Here, where it fills a gap.
    home: u32,
    links: UnsafeCell<EntryLinks>,
}

/// Any worker may run it.
const ANYWHERE: u32 = u32::MAX;
/// It is blocking work, which no worker runs.
const BLOCKING: u32 = u32::MAX - 1;

/// The neighbours, as pointers to their cells. Guarded by the lock of the shard.
struct EntryLinks {
    prev: Option<NonNull<()>>,
    next: Option<NonNull<()>>,
}

/// Cells that can be registered.
///
/// # Safety
///
/// The data of a cell's waker is the pointer of the cell. While a reference to the cell exists, `entry` is its entry, always the
/// same, and `waker` a waker of it.
pub(crate) unsafe trait RegisteredCell {
    /// The entry of a cell.
    ///
    /// # Safety
    ///
    /// The pointer is that of a cell, which outlives the use of the entry.
    unsafe fn entry<'a>(cell: NonNull<()>) -> &'a Entry;

    /// A new waker of a cell, with a reference of its own.
    ///
    /// # Safety
    ///
    /// The pointer is that of a cell, to which a reference exists.
    unsafe fn waker(cell: NonNull<()>) -> Waker;
}

/// The word of an entry, read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryWord(u32);

impl EntryWord {
    #[inline]
    pub(crate) fn is_aborted(self) -> bool {
        self.0 & ABORTED != 0
    }

    /// Does the next poll end the task, and leave its future alone?
    #[inline]
    pub(crate) fn ends_unpolled(self) -> bool {
        self.0 & (ABORTED | REFUSED) != 0
    }

    #[inline]
    pub(crate) fn is_registered(self) -> bool {
        self.0 & REGISTERED != 0
    }

    pub(crate) fn is_ended(self) -> bool {
        self.0 & ENDED != 0
    }

    /// Is there no task to be counted as ended?
    #[inline]
    pub(crate) fn is_uncounted(self) -> bool {
        self.0 & UNCOUNTED != 0
    }
}

// SAFETY: the word is atomic; the links have a lock.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

impl Entry {
    pub(crate) fn new(home: Option<usize>) -> Self {
        Self::with_home(home.map_or(ANYWHERE, |home| home as u32))
    }

    pub(crate) fn of_blocking_work() -> Self {
        Self::with_home(BLOCKING)
    }

    fn with_home(home: u32) -> Self {
        Self { word: AtomicU32::new(0), home, links: UnsafeCell::new(EntryLinks { prev: None, next: None }) }
    }

    /// The worker that the task is pinned to.
    #[inline]
    pub(crate) fn home(&self) -> Option<usize> {
        (self.home < BLOCKING).then_some(self.home as usize)
    }

    pub(crate) fn is_blocking_work(&self) -> bool {
        self.home == BLOCKING
    }

    /// new => refused. By the thread that polls the task next.
    pub(crate) fn refuse(&self) {
        // Relaxed: read by the same thread.
        self.word.fetch_or(REFUSED, Ordering::Relaxed);
    }

    /// new => uncounted. By the thread that drops the task next.
    #[cold]
    pub(crate) fn mark_uncounted(&self) {
        // Relaxed: read by the same thread.
        self.word.fetch_or(UNCOUNTED, Ordering::Relaxed);
    }

    /// any => ended. After the task has been removed from its list.
    #[inline]
    pub(crate) fn end(&self) {
        // A store, not an exchange: a request to end that comes at the same moment, and is lost by it, means nothing any more.
        // Release: pairs with Acquire in `look`.
        self.word.store(ENDED, Ordering::Release);
    }

    /// For the poll, and for a caller that asks whether it has ended.
    #[inline]
    pub(crate) fn look(&self) -> EntryWord {
        // Acquire: pairs with Release in `abort`, and in `end`.
        EntryWord(self.word.load(Ordering::Acquire))
    }
}

/// Asks a task to end, and wakes it if it needs that.
///
/// # Safety
///
/// The caller keeps the cell, whatever the task does.
pub(crate) unsafe fn abort<C: RegisteredCell>(cell: NonNull<()>) {
    // SAFETY: promised by the caller.
    let entry = unsafe { C::entry(cell) };
    // Release: pairs with Acquire in `look`. Nothing is read because of the bit that was there, so no Acquire.
    let before = EntryWord(entry.word.fetch_or(ABORTED, Ordering::Release));
    // If it is not registered it is in a queue, or `insert` sees the bit, or it has ended.
    if before.is_registered() {
        // SAFETY: promised by the caller.
        unsafe { C::waker(cell) }.wake();
    }
}

/// Is the future of a task gone?
///
/// # Safety
///
/// The caller keeps the cell, whatever the task does.
pub(crate) unsafe fn is_ended<C: RegisteredCell>(cell: NonNull<()>) -> bool {
    // SAFETY: promised by the caller.
    unsafe { C::entry(cell) }.look().is_ended()
}

/// The reference of a list to a cell, as a waker.
///
/// # Safety
///
/// The caller has taken the cell out of its list, and calls this once.
unsafe fn reference<C: RegisteredCell>(cell: NonNull<()>) -> Waker {
    // SAFETY: the list's reference exists.
    let another = unsafe { C::waker(cell) };
    // SAFETY: `insert` forgot a waker of this cell, which had this data and this table; the caller calls this once.
    unsafe { Waker::from_raw(RawWaker::new(another.data(), another.vtable())) }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look().fmt(f)
    }
}

/// The shards.
pub(crate) struct Registry<C> {
    shards: Box<[Shard]>,
    homes: usize,
    _cells: PhantomData<fn() -> C>,
}

/// On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<List>);

/// What a shard's mutex guards: its cells, the youngest first.
#[derive(Default)]
struct List(Option<NonNull<()>>);

// SAFETY: entries are `Sync`, and live while they are in the list.
unsafe impl Send for List {}

/// The links of a cell.
///
/// # Safety
///
/// The cell is in the list whose lock the caller holds, or enters or leaves it, and `change` keeps the links to itself.
unsafe fn links<C: RegisteredCell, R>(cell: NonNull<()>, change: impl FnOnce(&mut EntryLinks) -> R) -> R {
    // SAFETY: what is in the list lives.
    let entry = unsafe { C::entry(cell) };
    // SAFETY: the lock is held.
    entry.links.with_mut(|links| change(unsafe { &mut *links }))
}

impl List {
    /// # Safety
    ///
    /// The lock is held; the cell is in no list, and a reference to it goes to the list.
    unsafe fn push<C: RegisteredCell>(&mut self, cell: NonNull<()>) {
        let next = self.0.replace(cell);
        // SAFETY: promised by the caller.
        unsafe { links::<C, _>(cell, |links| *links = EntryLinks { prev: None, next }) };
        if let Some(next) = next {
            // SAFETY: it is in the list.
            unsafe { links::<C, _>(next, |links| links.prev = Some(cell)) };
        }
    }

    /// Takes an entry out; its cell, or `None` if it is in the list no more.
    ///
    /// # Safety
    ///
    /// The lock is held; the entry is that of a cell that is or was in this list.
    unsafe fn remove<C: RegisteredCell>(&mut self, entry: &Entry) -> Option<NonNull<()>> {
        let none = EntryLinks { prev: None, next: None };
        // SAFETY: the lock is held.
        let EntryLinks { prev, next } = entry.links.with_mut(|links| unsafe { ptr::replace(links, none) });
        // The pointer that was put, which is valid for the cell: the entry's own is not.
        let cell = match prev {
            // SAFETY: it is in the list.
            Some(prev) => unsafe { links::<C, _>(prev, |links| std::mem::replace(&mut links.next, next)) },
            // SAFETY: what is in the list lives.
            None if self.0.is_some_and(|first| ptr::eq(unsafe { C::entry(first) }, entry)) => {
                std::mem::replace(&mut self.0, next)
            }
            None => None,
        };
        if let Some(next) = next {
            // SAFETY: it is in the list.
            unsafe { links::<C, _>(next, |links| links.prev = prev) };
        }
        cell
    }
}

impl<C: RegisteredCell> Registry<C> {
    pub(crate) fn new(workers: usize) -> Self {
        assert!(2 * workers < UNCOUNTED as usize, "fewer than 2^26 workers");
        let shards = (0..2 * workers).map(|_| Shard::default()).collect();
        Self { shards, homes: workers, _cells: PhantomData }
    }

    fn list(&self, shard: usize) -> MutexGuard<'_, List> {
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a task that is being polled by this worker, its home if it has one; true if it was asked to end before, and is to be woken.
    ///
    /// # Safety
    ///
    /// The waker is one of the cell that the entry is in; it is inserted once, and removed when the future is dropped.
    #[must_use]
    pub(crate) unsafe fn insert(&self, worker: usize, entry: &Entry, waker: Waker) -> bool {
        let shard = entry.home().unwrap_or(self.homes + worker);
        let cell = NonNull::new(waker.data().cast_mut()).expect("a cell has an address");
        // Its reference goes to the list.
        std::mem::forget(waker);
        // SAFETY: the lock is held; promised by the caller.
        unsafe { self.list(shard).push::<C>(cell) };
        // Relaxed: publishes nothing, and what an aborter did before is read by the poll that follows.
        EntryWord(entry.word.fetch_or(REGISTERED | shard as u32, Ordering::Relaxed)).is_aborted()
    }

    /// The future is dropped: takes the task out, if it was registered.
    #[inline]
    pub(crate) fn remove(&self, entry: &Entry) {
        // Relaxed: written by a poll, which came before in the life of the task.
        let word = entry.word.load(Ordering::Relaxed);
        if EntryWord(word).is_registered() {
            self.remove_from((word & !(ABORTED | REGISTERED)) as usize, entry);
        }
    }

    fn remove_from(&self, shard: usize, entry: &Entry) {
        // SAFETY: the lock is held; the word says that it was put into this list.
        let removed = unsafe { self.list(shard).remove::<C>(entry) };
        if let Some(cell) = removed {
            // SAFETY: just taken out.
            drop(unsafe { reference::<C>(cell) });
        }
    }

    /// Takes all cells out of a shard, one at a time, and wakes their tasks.
    fn wake(&self, shard: usize) {
        let pop = || {
            let mut list = self.list(shard);
            let first = list.0?;
            // SAFETY: the lock is held, and it is in this list.
            unsafe { list.remove::<C>(C::entry(first)) }
        };
        while let Some(cell) = pop() {
            // SAFETY: just taken out.
            unsafe { reference::<C>(cell) }.wake();
        }
    }

    /// Every registered cell, shard by shard. `see` runs under the lock of the shard: it only looks.
    ///
    /// The list has a reference to the cell, so the cell is valid for as long as `see` runs (invariant 2).
    #[allow(dead_code, reason = "only the dumps of noted tasks use it")]
    pub(crate) fn each(&self, mut see: impl FnMut(NonNull<()>)) {
        (0..self.shards.len()).for_each(|shard| self.each_of(shard, &mut see));
    }

    /// The same for one shard.
    fn each_of(&self, shard: usize, mut see: impl FnMut(NonNull<()>)) {
        let list = self.list(shard);
        let mut next = list.0;
        while let Some(cell) = next {
            see(cell);
            // SAFETY: the lock is held, and it is in this list.
            next = unsafe { links::<C, _>(cell, |links| links.next) };
        }
    }

    /// Shutdown: wakes every task pinned to this worker that waits.
    pub(crate) fn wake_pinned(&self, home: usize) {
        self.wake(home);
    }

    /// Shutdown: wakes every task that is not pinned and waits.
    pub(crate) fn wake_others(&self) {
        (self.homes..self.shards.len()).for_each(|shard| self.wake(shard));
    }

    /// The same while workers may still poll: each task stays in its list. One that is polled once more, by a worker that has not seen the shutdown, waits again; it is found when that worker has left.
    pub(crate) fn wake_others_early(&self) {
        for shard in self.homes..self.shards.len() {
            let mut wakers = Vec::new();
            // SAFETY: the list has a reference to the cell (invariant 2).
            self.each_of(shard, |cell| wakers.push(unsafe { C::waker(cell) }));
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl<C> fmt::Debug for Registry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}
