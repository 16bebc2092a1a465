//! Who sleeps, who searches, and whom to wake for a new task.
//!
//! One word counts the workers that are awake and those of them that search; a list names the sleepers.
//!
//! # States
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | awake | nothing to do, room for a searcher | searching | look everywhere | [`Idle::try_search`] |
//! | searching | found work | awake | the last one notifies | [`Idle::found`] |
//! | awake, searching | found nothing | asleep | if told so, look once more; park | [`Idle::sleep`] |
//! | asleep | somebody notifies | searching | the notifier unparks it | [`Idle::notify`] |
//! | asleep | anything else | awake | none | [`Idle::rise`] |
//!
//! [`Idle::rest`] is the whole way from awake through sleep to awake, for a worker that found nothing.
//!
//! # Invariants
//! 1. searching ≤ awake ≤ workers.
//! 2. A worker is in the list exactly when it is not counted as awake.
//! 3. Word and list change together, under the list's mutex; only the searching count changes without it.
//!
//! # Orderings
//! A push under the lock of the global queue, then a read of the word (in `notify`), against a change of the word (in `sleep`), then
//! a look under the same lock: whichever has the lock later sees what the other did before. So the word needs no ordering of its own.
//! The proof is in docs/scheduler.md.

use crate::shim::{AtomicBool, AtomicUsize, Mutex, Ordering};
use std::sync::PoisonError;

/// One searcher, in the word.
const SEARCHING: usize = 1;
/// One worker that is awake, in the word.
const AWAKE: usize = 1 << 16;
/// More would not fit into the word's halves.
pub(crate) const MAX_WORKERS: usize = AWAKE - 1;

/// The word, read.
#[derive(Clone, Copy)]
struct Counts(usize);

impl Counts {
    fn searching(self) -> usize {
        self.0 % AWAKE
    }

    fn awake(self) -> usize {
        self.0 / AWAKE
    }
}

/// How a worker left its sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Risen {
    /// It rose by itself, and does not count as searching.
    Alone,
    /// A notifier chose it, and counted it as searching.
    Chosen,
}

/// Sleeping and searching workers.
#[derive(Debug)]
pub(crate) struct Idle {
    word: AtomicUsize,
    sleepers: Mutex<Vec<usize>>,
    /// Somebody sleeps with one eye open: looks again within a millisecond.
    watched: AtomicBool,
    workers: usize,
}

impl Idle {
    /// All are awake, and nobody searches.
    pub(crate) fn new(workers: usize) -> Self {
        assert!(workers <= MAX_WORKERS, "at most {MAX_WORKERS} workers");
        Self {
            word: AtomicUsize::new(workers * AWAKE),
            sleepers: Mutex::new(Vec::with_capacity(workers)),
            watched: AtomicBool::new(false),
            workers,
        }
    }

    fn counts(&self) -> Counts {
        // Relaxed: the lock of the global queue orders it against pushes, the mutex against the list.
        Counts(self.word.load(Ordering::Relaxed))
    }

    fn sleepers<R>(&self, edit: impl FnOnce(&mut Vec<usize>) -> R) -> R {
        edit(&mut self.sleepers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// awake => searching, while at most half of the workers search.
    pub(crate) fn try_search(&self) -> bool {
        let limit = (self.workers / 2).max(1);
        let mut counts = self.counts();
        while counts.searching() < limit {
            // Relaxed: what a search misses is seen by the look that follows `sleep`.
            let (order, next) = (Ordering::Relaxed, counts.0 + SEARCHING);
            match self.word.compare_exchange_weak(counts.0, next, order, order) {
                Ok(_) => return true,
                Err(now) => counts = Counts(now),
            }
        }
        false
    }

    /// searching => awake. True for the last searcher, who must notify in its place.
    #[must_use]
    pub(crate) fn found(&self) -> bool {
        // Relaxed: whoever relied on this search is served by the one that follows.
        let before = Counts(self.word.fetch_sub(SEARCHING, Ordering::Relaxed));
        debug_assert!(before.searching() > 0, "only a searcher finds");
        before.searching() == 1
    }

    /// awake | searching => asleep. True if nobody searches now: look once more before parking.
    #[must_use]
    pub(crate) fn sleep(&self, worker: usize, searching: bool) -> bool {
        let leaving = AWAKE + if searching { SEARCHING } else { 0 };
        let before = self.sleepers(|sleepers| {
            sleepers.push(worker);
            // Relaxed: ordered by the lock of the global queue, which the look takes.
            self.word.fetch_sub(leaving, Ordering::Relaxed)
        });
        Counts(before - leaving).searching() == 0
    }

    /// asleep => awake, by itself; or it learns that a notifier was faster.
    pub(crate) fn rise(&self, worker: usize) -> Risen {
        self.sleepers(|sleepers| {
            let Some(at) = sleepers.iter().position(|sleeper| *sleeper == worker) else {
                return Risen::Chosen;
            };
            sleepers.swap_remove(at);
            // Relaxed: a worker that is awake publishes nothing by it.
            self.word.fetch_add(AWAKE, Ordering::Relaxed);
            Risen::Alone
        })
    }

    /// awake | searching => asleep => awake | searching. `park` sleeps, and is told whether only for a short time, as the
    /// watcher: that is so if `watch` is wanted and there is none. `look` is the second look, and is told whether to mind tasks
    /// that their workers will run soon: pushes of such may have relied on our search, and nobody watches them.
    pub(crate) fn rest(
        &self,
        worker: usize,
        searching: bool,
        watch: bool,
        look: impl FnOnce(bool) -> bool,
        park: impl FnOnce(bool),
    ) -> Risen {
        let watch = watch && self.try_watch();
        // Relaxed: a hint, as in `want_watcher`.
        if !(self.sleep(worker, searching) && look(!watch && !self.watched.load(Ordering::Relaxed))) {
            park(watch);
        }
        if watch {
            self.end_watch();
        }
        self.rise(worker)
    }

    /// asleep => searching, for one worker, after a push: whom to unpark, if anybody.
    ///
    /// After a push to the global queue it is exact. After one to a local queue it may miss that the last searcher went to sleep just now:
    /// then the task waits for its own worker, or for the watcher.
    #[inline]
    #[must_use]
    pub(crate) fn notify(&self) -> Option<usize> {
        let counts = self.counts();
        if counts.searching() > 0 || counts.awake() == self.workers {
            return None;
        }
        self.choose()
    }

    /// As [`notify`](Self::notify) for one task alone, which its own worker will run soon: somebody should watch.
    #[inline]
    #[must_use]
    pub(crate) fn want_watcher(&self) -> Option<usize> {
        // Relaxed: a hint; a stale answer delays the watcher, never the task's own worker.
        if self.watched.load(Ordering::Relaxed) { None } else { self.notify() }
    }

    /// Becomes the watcher, if nobody is and there is somebody to watch. For a worker that is still awake.
    #[must_use]
    fn try_watch(&self) -> bool {
        // Relaxed: a hint, as above; the swap lets one in.
        self.counts().awake() > 1 && !self.watched.swap(true, Ordering::Relaxed)
    }

    /// The watcher is awake again.
    fn end_watch(&self) {
        // Relaxed: as above.
        self.watched.store(false, Ordering::Relaxed);
    }

    #[cold]
    fn choose(&self) -> Option<usize> {
        self.sleepers(|sleepers| {
            if self.counts().searching() > 0 {
                return None;
            }
            let worker = sleepers.pop()?;
            // Relaxed: the unpark publishes to the worker.
            self.word.fetch_add(AWAKE + SEARCHING, Ordering::Relaxed);
            Some(worker)
        })
    }
}
