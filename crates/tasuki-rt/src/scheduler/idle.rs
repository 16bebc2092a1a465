//! Which workers sleep, which search for work, and which one a push wakes.
//!
//! A push must wake a worker if all that could take the task sleep, and should not if one searches already: that one will find it. One word counts the workers that are awake and those of them that search; a list names the sleepers.
//!
//! # States
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | awake | nothing to do, room for a searcher | searching | look everywhere | [`Idle::try_search`] |
//! | searching | found work | awake | the last one notifies | [`Idle::found`] |
//! | awake, searching | found nothing | asleep | if told so, look once more; park | [`Idle::sleep`] |
//! | asleep | a push notifies | searching | the notifier unparks it | [`Idle::notify`] |
//! | asleep | anything else | awake | none | [`Idle::rise`] |
//!
//! [`Idle::rest`] is the whole way from awake through sleep to awake, for a worker that found nothing.
//!
//! # The timekeeper
//! Every worker sets its own alarm clock before it parks. While it is awake it looks at its wheel of deadlines between two polls, and a long
//! poll keeps it from that. So one sleeper, the *timekeeper*, also wakes for the deadlines of the workers that are awake, and advances
//! their wheels when they are late.
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | no timekeeper | a worker falls asleep | it is the timekeeper | find the earliest deadline, park until then | [`Idle::sleep`], [`Idle::keep_time`] |
//! | no timekeeper | a deadline that is not covered, sleepers | the first sleeper is the timekeeper | unpark it | [`Idle::cover`] |
//! | timekeeper | a deadline before its own | the same | unpark it: it looks again | [`Idle::cover`] |
//! | timekeeper | it rises | no timekeeper | before it runs anything: `cover` all deadlines | [`Idle::rise`] |
//! | timekeeper | a notifier chooses it, the last sleeper | no timekeeper | none: there is no sleeper left | [`Idle::notify`] |
//!
//! # Invariants
//! 1. searching ≤ awake ≤ workers.
//! 2. A worker is in the list exactly when it is not counted as awake.
//! 3. Word and list change together, under the list's mutex; only the searching count changes without it.
//! 4. The timekeeper is the first in the list, so it is chosen last. `alarm` is written under the mutex, and is [`NEVER`] while there is no
//!    timekeeper, or it has not found the earliest deadline yet.
//!
//! # Orderings
//! A push under the lock of the global queue, then a read of the word (in `notify`), against a change of the word (in `sleep`), then
//! a look under the same lock: whichever has the lock later sees what the other did before. So the word needs no ordering of its own.
//! Fence T in `cover`, between the deadline and the read of `alarm`, pairs with fence T in `keep_time`, and in `cover` by a worker that has kept
//! the time, between the reset of `alarm` and the read of the deadlines: either these see the deadline, or the worker that has it sees that it
//! must ask for cover.
//! The proofs are in docs/scheduler.md.

use crate::shim::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, fence};
use std::sync::PoisonError;

/// One searcher, in the word.
const SEARCHING: usize = 1;
/// One worker that is awake, in the word.
const AWAKE: usize = 1 << 16;
/// More would not fit into the word's halves.
pub(crate) const MAX_WORKERS: usize = AWAKE - 1;

/// The word, read.
#[derive(Clone, Copy)]
struct WorkerCounts(usize);

impl WorkerCounts {
    fn searching(self) -> usize {
        self.0 % AWAKE
    }

    fn awake(self) -> usize {
        self.0 / AWAKE
    }
}

/// No deadline. Others are nanoseconds since the start of the runtime.
pub(crate) const NEVER: u64 = u64::MAX;

/// How a worker left its sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Risen {
    /// A notifier chose it, and counted it as searching. Otherwise it rose by itself, and does not count as searching.
    pub(crate) chosen: bool,
    /// It was the timekeeper while others sleep on: it must [`Idle::cover`] the deadlines of all workers that are awake before it runs anything.
    pub(crate) kept_time: bool,
}

/// What [`Idle::sleep`] asks of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Asleep {
    /// No worker searches now: look once more before parking.
    pub(crate) look: bool,
    /// It is the timekeeper.
    pub(crate) keeps_time: bool,
}

/// How long a worker parks, if it is not unparked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nap {
    /// At most a millisecond, as the watcher.
    pub(crate) watch: bool,
    /// Until this deadline, for the others; [`NEVER`] if it is not the timekeeper.
    pub(crate) until: u64,
}

/// A worker that found nothing to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) worker: usize,
    /// It counts as searching.
    pub(crate) searching: bool,
    /// It should watch, if no other worker does.
    pub(crate) watch: bool,
}

/// What a worker does on its way to sleep.
pub(crate) trait Sleeper {
    /// The second look for work. `alone`: also tasks that their workers will run soon; pushes of such may have relied on our search, and
    /// no worker watches them.
    fn sees_work(&self, alone: bool) -> bool;

    /// The earliest deadline of all workers that are awake, and its own.
    fn earliest_deadline(&self) -> u64;

    /// Sleeps until it is unparked, or the nap or its own deadline ends.
    fn park(&self, nap: Nap);
}

/// Sleeping and searching workers.
#[derive(Debug)]
pub(crate) struct Idle {
    word: AtomicUsize,
    sleepers: Mutex<Sleepers>,
    /// When the timekeeper wakes.
    alarm: AtomicU64,
    /// A watcher looks again within a millisecond.
    watched: AtomicBool,
    workers: usize,
}

/// The workers that sleep.
#[derive(Debug)]
struct Sleepers {
    list: Vec<usize>,
    /// The first of the list is the timekeeper.
    timekeeper: bool,
}

impl Idle {
    /// All workers are awake, and none searches.
    pub(crate) fn new(workers: usize) -> Self {
        assert!(workers <= MAX_WORKERS, "at most {MAX_WORKERS} workers");
        Self {
            word: AtomicUsize::new(workers * AWAKE),
            sleepers: Mutex::new(Sleepers { list: Vec::with_capacity(workers), timekeeper: false }),
            alarm: AtomicU64::new(NEVER),
            watched: AtomicBool::new(false),
            workers,
        }
    }

    fn counts(&self) -> WorkerCounts {
        // Relaxed: the lock of the global queue orders it against pushes, the mutex against the list.
        WorkerCounts(self.word.load(Ordering::Relaxed))
    }

    fn sleepers<R>(&self, edit: impl FnOnce(&mut Sleepers) -> R) -> R {
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
                Err(now) => counts = WorkerCounts(now),
            }
        }
        false
    }

    /// searching => awake. True for the last searcher, who must notify in its place.
    #[must_use]
    pub(crate) fn found(&self) -> bool {
        // Relaxed: a push that relied on this search is served by the one that follows.
        let before = WorkerCounts(self.word.fetch_sub(SEARCHING, Ordering::Relaxed));
        debug_assert!(before.searching() > 0, "only a searcher finds");
        before.searching() == 1
    }

    /// awake | searching => asleep.
    pub(crate) fn sleep(&self, worker: usize, searching: bool) -> Asleep {
        let leaving = AWAKE + if searching { SEARCHING } else { 0 };
        self.sleepers(|sleepers| {
            sleepers.list.push(worker);
            let keeps_time = !std::mem::replace(&mut sleepers.timekeeper, true);
            if keeps_time {
                let last = sleepers.list.len() - 1;
                sleepers.list.swap(0, last);
            }
            // Relaxed: ordered by the lock of the global queue, which the look takes.
            let before = self.word.fetch_sub(leaving, Ordering::Relaxed);
            Asleep { look: WorkerCounts(before - leaving).searching() == 0, keeps_time }
        })
    }

    /// asleep => awake, by itself; or it learns that a notifier was faster.
    pub(crate) fn rise(&self, worker: usize) -> Risen {
        self.sleepers(|sleepers| {
            let Some(at) = sleepers.list.iter().position(|sleeper| *sleeper == worker) else {
                return Risen { chosen: true, kept_time: false };
            };
            sleepers.list.swap_remove(at);
            // Relaxed: a worker that is awake publishes nothing by it.
            self.word.fetch_add(AWAKE, Ordering::Relaxed);
            let kept_time = at == 0 && self.dismiss_timekeeper(sleepers) && !sleepers.list.is_empty();
            Risen { chosen: false, kept_time }
        })
    }

    /// The first of the list has left it. True if it was the timekeeper.
    fn dismiss_timekeeper(&self, sleepers: &mut Sleepers) -> bool {
        // Relaxed: see fence T in `keep_time`.
        self.alarm.store(NEVER, Ordering::Relaxed);
        std::mem::take(&mut sleepers.timekeeper)
    }

    /// For the timekeeper, before it parks: finds and publishes the deadline to wake for.
    fn keep_time(&self, worker: usize, sleeper: &impl Sleeper) -> u64 {
        // Fence T: SeqCst, pairs with fence T in `cover`.
        fence(Ordering::SeqCst);
        let until = sleeper.earliest_deadline();
        self.sleepers(|sleepers| {
            // Not if a notifier has chosen us meanwhile, or another worker asked for cover: then there is a token, and we look again.
            if sleepers.timekeeper && sleepers.list.first() == Some(&worker) {
                // Relaxed: the mutex orders it for threads that take it, and the others ask for more cover than they need.
                self.alarm.store(until, Ordering::Relaxed);
            }
        });
        until
    }

    /// For a worker that is awake: the timekeeper must wake for this deadline, which is on its wheel; or, of a worker that has kept the time,
    /// for the earliest of all. Whom to unpark, if any.
    #[must_use]
    pub(crate) fn cover(&self, earliest_deadline: impl FnOnce() -> u64) -> Option<usize> {
        // Fence T: SeqCst, pairs with fence T in `keep_time`, and in `cover` by a worker that was the timekeeper.
        fence(Ordering::SeqCst);
        let deadline = earliest_deadline();
        // Relaxed: by the fence we see the reset of the alarm, or its timekeeper sees our deadline.
        if deadline >= self.alarm.load(Ordering::Relaxed) {
            return None;
        }
        self.sleepers(|sleepers| {
            let timekeeper = *sleepers.list.first()?;
            sleepers.timekeeper = true;
            // Relaxed: as above; under the mutex.
            self.alarm.store(deadline, Ordering::Relaxed);
            Some(timekeeper)
        })
    }

    /// awake | searching => asleep => awake | searching.
    pub(crate) fn rest(&self, rest: Rest, sleeper: &impl Sleeper) -> Risen {
        let watch = rest.watch && self.try_watch();
        let asleep = self.sleep(rest.worker, rest.searching);
        // Relaxed: a hint, as in `want_watcher`.
        if !(asleep.look && sleeper.sees_work(!watch && !self.watched.load(Ordering::Relaxed))) {
            let until = if asleep.keeps_time { self.keep_time(rest.worker, sleeper) } else { NEVER };
            sleeper.park(Nap { watch, until });
        }
        if watch {
            self.end_watch();
        }
        self.rise(rest.worker)
    }

    /// asleep => searching, for one worker, after a push: the worker to unpark, if any.
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

    /// As [`notify`](Self::notify) for one task alone, which its own worker will run soon: another one should watch.
    #[inline]
    #[must_use]
    pub(crate) fn want_watcher(&self) -> Option<usize> {
        // Relaxed: a hint; a stale answer delays the watcher, never the task's own worker.
        if self.watched.load(Ordering::Relaxed) { None } else { self.notify() }
    }

    /// Becomes the watcher, if there is none and another worker is awake to be watched. For a worker that is still awake.
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
            let worker = sleepers.list.pop()?;
            if sleepers.list.is_empty() {
                self.dismiss_timekeeper(sleepers);
            }
            // Relaxed: the unpark publishes to the worker.
            self.word.fetch_add(AWAKE + SEARCHING, Ordering::Relaxed);
            Some(worker)
        })
    }
}
