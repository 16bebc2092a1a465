//! Every task that waits: what keeps detached tasks alive, and lets shutdown find them; and how an abort reaches its task.
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
//! | new | abort | aborted | none: the task is in a queue, or is being polled | [`Entry::abort`] |
//! | new | the first poll leaves the task waiting | registered, in a list | none | [`Registry::insert`] |
//! | aborted | the same | aborted, registered, in a list | wake the task | [`Registry::insert`] |
//! | registered | abort | aborted, registered | wake the task | [`Entry::abort`] |
//! | in a list | the future is dropped | in no list | none: drops the list's reference to the cell | [`Registry::remove`] |
//! | in a list | shutdown | in no list | none: wakes the task by the list's reference | [`Registry::wake_pinned`], [`Registry::wake_others`] |
//!
//! # Invariants
//! 1. Insertion and abort are read-modify-writes of one word, so one of them sees the other, and wakes.
//! 2. An entry in a list owns one reference to its cell, by its waker: so the cell outlives its place in the list. The thread that
//!    takes the entry out of the list, under the lock of the shard, owns that reference from then on.
//! 3. The waker is written once, before the entry is registered, and its bits stay until the cell is freed. A thread that keeps the cell by
//!    other means, as a handle does, may wake by them at any time: `async-task` ignores the wake of a task that has ended.
//! 4. No waker is called or dropped under the lock of a shard.
//!
//! # Orderings
//! Release in `abort` pairs with Acquire in `look`: what the aborter did before. Release in `insert` pairs with Acquire in `abort`: the
//! waker. Links are guarded by the lock of the shard.

use crate::shim::{AtomicU32, Mutex, MutexGuard, Ordering, UnsafeCell};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;
use std::task::Waker;

/// The task has been asked to end.
const ABORTED: u32 = 1 << 31;
/// The waker is there, and the rest of the word is the number of the shard.
const REGISTERED: u32 = 1 << 30;

/// A task's part of the registry; lives in its cell.
pub(crate) struct Entry {
    word: AtomicU32,
    waker: UnsafeCell<MaybeUninit<Waker>>,
    links: UnsafeCell<Links>,
}

/// Guarded by the lock of the shard.
struct Links {
    prev: Option<NonNull<Entry>>,
    next: Option<NonNull<Entry>>,
}

/// The word of an entry, read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look(u32);

impl Look {
    #[inline]
    pub(crate) fn is_aborted(self) -> bool {
        self.0 & ABORTED != 0
    }

    #[inline]
    pub(crate) fn is_registered(self) -> bool {
        self.0 & REGISTERED != 0
    }
}

// SAFETY: the word is atomic; the waker is written before it is published, and read-only afterwards; the links have a lock.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

impl Entry {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            links: UnsafeCell::new(Links { prev: None, next: None }),
        }
    }

    /// For the poll.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        // Acquire: pairs with Release in `abort`.
        Look(self.word.load(Ordering::Acquire))
    }

    /// Asks the task to end, and wakes it if it needs that.
    ///
    /// # Safety
    ///
    /// The caller keeps the cell, whatever the task does.
    pub(crate) unsafe fn abort(&self) {
        // Release: pairs with Acquire in `look`. Acquire: pairs with Release in `insert`.
        let before = Look(self.word.fetch_or(ABORTED, Ordering::AcqRel));
        // Without the waker it is in a queue, or `insert` sees the bit, or it has ended.
        if before.is_registered() {
            // SAFETY: written before it was registered, and not changed since; the cell is there, so the waker has something to wake.
            self.waker.with(|waker| unsafe { (*waker).assume_init_ref() }.wake_by_ref());
        }
    }

    /// The reference of the list, as a waker.
    ///
    /// # Safety
    ///
    /// The caller has taken the entry out of its list, and calls this once.
    unsafe fn reference(&self) -> Waker {
        // SAFETY: written before the entry came into a list; the reference is the caller's.
        self.waker.with(|waker| unsafe { (*waker).assume_init_read() })
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look().fmt(f)
    }
}

/// The shards.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[Shard]>,
    homes: usize,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<List>);

/// What a shard's mutex guards: its entries, the youngest first.
#[derive(Debug, Default)]
struct List(Option<NonNull<Entry>>);

// SAFETY: entries are `Sync`, and live while they are in the list.
unsafe impl Send for List {}

impl List {
    fn push(&mut self, entry: &Entry) {
        let (this, next) = (NonNull::from(entry), self.0.replace(NonNull::from(entry)));
        // SAFETY: the lock of the shard is held, and the entry is in no other list.
        entry.links.with_mut(|links| unsafe { *links = Links { prev: None, next } });
        if let Some(next) = next {
            // SAFETY: what is in the list lives, and the lock is held.
            unsafe { next.as_ref() }.links.with_mut(|links| unsafe { (*links).prev = Some(this) });
        }
    }

    /// Takes an entry out; false if it is in the list no more.
    fn remove(&mut self, entry: &Entry) -> bool {
        // SAFETY: the lock of the shard is held.
        let Links { prev, next } =
            entry.links.with_mut(|links| unsafe { ptr::replace(links, Links { prev: None, next: None }) });
        match prev {
            // SAFETY: as in `push`.
            Some(prev) => unsafe { prev.as_ref() }.links.with_mut(|links| unsafe { (*links).next = next }),
            None if self.0 == Some(NonNull::from(entry)) => self.0 = next,
            None => return false,
        }
        if let Some(next) = next {
            // SAFETY: as in `push`.
            unsafe { next.as_ref() }.links.with_mut(|links| unsafe { (*links).prev = prev });
        }
        true
    }
}

impl Registry {
    pub(crate) fn new(workers: usize) -> Self {
        assert!(2 * workers < REGISTERED as usize, "fewer than 2^29 workers");
        Self { shards: (0..2 * workers).map(|_| Shard::default()).collect(), homes: workers }
    }

    fn list(&self, shard: usize) -> MutexGuard<'_, List> {
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a task that is being polled by this worker; true if it was asked to end before, and is to be woken.
    ///
    /// # Safety
    ///
    /// The waker holds the cell that the entry is in; it is inserted once, and removed when the future is dropped.
    #[must_use]
    pub(crate) unsafe fn insert(&self, worker: usize, pinned: bool, entry: &Entry, waker: Waker) -> bool {
        let shard = if pinned { worker } else { self.homes + worker };
        // SAFETY: not registered yet, so nothing else looks at it.
        entry.waker.with_mut(|place| unsafe { (*place).write(waker) });
        self.list(shard).push(entry);
        // Release: pairs with Acquire in `abort`.
        Look(entry.word.fetch_or(REGISTERED | shard as u32, Ordering::Release)).is_aborted()
    }

    /// The future is dropped: takes the task out, if it was registered.
    pub(crate) fn remove(&self, entry: &Entry) {
        // Relaxed: written by a poll, which came before in the life of the task.
        let word = entry.word.load(Ordering::Relaxed);
        if Look(word).is_registered() {
            let shard = (word & !(ABORTED | REGISTERED)) as usize;
            let removed = self.list(shard).remove(entry);
            if removed {
                // SAFETY: just taken out.
                drop(unsafe { entry.reference() });
            }
        }
    }

    /// Takes all entries out of a shard, one at a time, and wakes their tasks.
    fn wake(&self, shard: usize) {
        let pop = || {
            let mut list = self.list(shard);
            let first = list.0?;
            // SAFETY: it lives while it is in the list, and the lock is held.
            list.remove(unsafe { first.as_ref() });
            Some(first)
        };
        while let Some(entry) = pop() {
            // SAFETY: just taken out, with the reference that keeps its cell.
            unsafe { entry.as_ref().reference() }.wake();
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
}
