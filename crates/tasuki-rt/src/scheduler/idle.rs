//! Which workers sleep, which search for work, and which one a push wakes.
//!
//! A push must wake a worker if all workers that could take the task sleep. It should not wake one if a worker searches already, for that one will find the task. One word counts the workers that are awake, and of those the
//! ones that search; a list under a mutex names the sleepers. Called by the other files of the scheduler; it parks and unparks no thread itself: functions return the worker to unpark, and [`IdleWorker::sleep`] parks.
//!
//! # States
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | awake | nothing to do, room for a searcher | searching | look everywhere | [`Idle::try_search`] |
//! | searching | found work | awake | the last one notifies, unless all others sleep, there is nothing more, and no sockets are used | [`Idle::found`] |
//! | awake, searching | found nothing | asleep | if told so, look once more; park | [`Idle::sleep`] |
//! | asleep | a push notifies, the first socket is registered, or a worker leaves the poll slot | searching | the notifier unparks it | [`Idle::notify`], [`Idle::open_poll_slot`], [`Idle::end_poll`] |
//! | asleep | anything else | awake | none | [`Idle::rise`] |
//!
//! [`Idle::sleep_until_woken`] is the whole way from awake through sleep to awake, for a worker that found nothing.
//!
//! One sleeper at a time is the *watcher*: it sleeps for at most a millisecond and then looks whether a task that others hold for themselves must be taken over
//! (docs/scheduler.md, "Watching").
//!
//! # The timekeeper
//! A worker that sleeps wakes for its own deadlines. A worker that is awake looks at its wheel of deadlines between two polls, so a long
//! poll makes it late. So one of the sleepers, the *timekeeper*, also wakes for the deadlines of the workers that are awake, and advances
//! their wheels when they are late.
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | no timekeeper | a worker falls asleep | that worker is the timekeeper | find the earliest deadline, park until then | [`Idle::sleep`], [`Idle::keep_time`] |
//! | no timekeeper | a deadline that is not covered, sleepers | a sleeper is the timekeeper | unpark it | [`Idle::cover`] |
//! | timekeeper | a deadline before its own | the same | unpark it: it looks again | [`Idle::cover`] |
//! | timekeeper | it rises, by itself or chosen by a notifier | no timekeeper | before it runs anything: `cover` all deadlines | [`Idle::rise`] |
//!
//! # The poller
//! One worker at a time waits for all sockets, in one call of the operating system: the worker that has the *poll slot*. It has nothing else to do and sleeps in that call; the
//! other sleepers park. While all workers are busy they poll now and then, without waiting.
//!
//! | from | event | to | duty of the caller | fn |
//! |---|---|---|---|---|
//! | absent | the first socket is registered | free | unpark a sleeper, also if one searches | [`Idle::open_poll_slot`] |
//! | free | a worker falls asleep, not as the watcher | taken by it | wait for sockets instead of parking | [`Idle::sleep`] |
//! | free | a worker that is awake polls | taken by it | poll without waiting, then `end_poll` | [`Idle::try_poll`] |
//! | taken | its worker rises | free | before it runs anything: `hand_over_poll_slot`, if told so | [`Idle::rise`], [`Idle::hand_over_poll_slot`] |
//! | free | the watcher rises, and none watches any more | free | the same | [`Idle::rise`] |
//! | taken | its worker has polled | free | unpark a sleeper, if told so | [`Idle::end_poll`] |
//!
//! A worker that rises from the poll with a task to run leaves the slot free for as long as that task runs. So it makes sure that another worker is awake or watches, if others sleep:
//! that worker takes the slot when it falls asleep in its turn. The watcher itself does not take the slot. If it did, a worker with short tasks would find the slot
//! taken each time it comes back, and the two would wake each other for every event.
//!
//! # Invariants
//! 1. searching ≤ awake ≤ workers.
//! 2. A worker is in the list exactly when it is not counted as awake.
//! 3. Word and list change together, under the list's mutex; only the searching count changes without it.
//! 4. A notifier chooses the timekeeper after the other sleepers, and the poller last. A worker that was chosen stays the timekeeper, or the poller, until it rises. `alarm` is written under the mutex, and is
//!    [`NEVER`] while there is no timekeeper, or while one that has fallen asleep has not found the earliest deadline yet; a sleeper that [`Idle::cover`] makes the timekeeper has the deadline that it is to cover.
//! 5. The poll slot changes under the mutex. Only its worker waits in the system's poll, or delivers what that returned.
//! 6. If the slot is free and a worker sleeps, then one of these holds: a worker watches; a worker searches; a worker that is awake has run nothing since it left the slot; a worker is about to fall asleep without watching.
//!
//! # Orderings
//! * The word is Relaxed. A pusher pushes under the lock of the global queue and then reads the word (in `notify`); a worker that falls asleep changes the word (in `sleep`) and then looks
//!   under the same lock. The later of the two to have the lock sees what the other did before.
//! * Fence T in `cover`, between the deadline and the read of `alarm`, pairs with fence T in `keep_time`, and in `cover` by a worker that has kept
//!   the time, between the reset of `alarm` and the read of the deadlines: either the timekeeper sees the deadline, or the worker that has the deadline sees that it
//!   must ask for cover.
//! * The poll slot is guarded by the mutex: a worker that falls asleep takes the slot, or is in the list when the worker that leaves the slot looks.
//!
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
    /// The poll slot is free, while others sleep on and none watches: it must [`Idle::hand_over_poll_slot`] before it runs anything.
    pub(crate) owes_poll_slot: bool,
}

/// What [`Idle::sleep`] asks of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Asleep {
    /// No worker searches now: look once more before parking.
    pub(crate) look: bool,
    /// It is the timekeeper.
    pub(crate) keeps_time: bool,
    /// It has the poll slot.
    pub(crate) polls: bool,
}

/// Where a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepPlace {
    /// On its parker.
    Parker,
    /// In the system's wait for sockets.
    Poll,
}

/// Where and how long a worker sleeps, if it is not unparked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SleepPlan {
    pub(crate) place: SleepPlace,
    /// At most a millisecond, as the watcher.
    pub(crate) watch: bool,
    /// Until this deadline, for the others; [`NEVER`] if it is not the timekeeper.
    pub(crate) until: u64,
}

/// A worker that found nothing to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SleepRequest {
    pub(crate) worker: usize,
    /// It counts as searching.
    pub(crate) searching: bool,
    /// It should watch, if no other worker does; for [`Idle::sleep`]: it does.
    pub(crate) watch: bool,
}

impl SleepRequest {
    /// A worker that neither searches nor watches.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the models"))]
    pub(crate) fn of(worker: usize) -> Self {
        Self { worker, searching: false, watch: false }
    }
}

/// What a worker does on its way to sleep.
pub(crate) trait IdleWorker {
    /// The second look for work. `alone`: also tasks that their workers will run soon; pushes of such may have relied on our search, and
    /// no worker watches them.
    fn sees_work(&self, alone: bool) -> bool;

    /// The earliest deadline of all workers that are awake, and its own.
    fn earliest_deadline(&self) -> u64;

    /// Sleeps until it is unparked, or the plan or its own deadline ends, or, in the poll, a socket is ready.
    fn sleep(&self, plan: SleepPlan);
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
    timekeeper: Option<usize>,
    poll_slot: PollSlot,
}

/// Which worker polls the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollSlot {
    /// There is nothing to poll.
    Absent,
    Free,
    Taken(usize),
}

impl Sleepers {
    /// Removes the sleeper to wake for work: the timekeeper after the others, the poller last.
    fn remove_next(&mut self) -> Option<usize> {
        let rank =
            |worker: usize| (self.poll_slot == PollSlot::Taken(worker), self.timekeeper == Some(worker));
        // The newest: its cache is warm. At most two are passed over, so the search is short.
        let mut best: Option<usize> = None;
        for at in (0..self.list.len()).rev() {
            if best.is_none_or(|best| rank(self.list[at]) < rank(self.list[best])) {
                best = Some(at);
            }
            if best.is_some_and(|best| rank(self.list[best]) == (false, false)) {
                break;
            }
        }
        best.map(|at| self.list.swap_remove(at))
    }

    fn try_take_poll_slot(&mut self, worker: usize) -> bool {
        let free = self.poll_slot == PollSlot::Free;
        if free {
            self.poll_slot = PollSlot::Taken(worker);
        }
        free
    }

    /// True if the worker had the slot.
    fn leave_poll_slot(&mut self, worker: usize) -> bool {
        let taken = self.poll_slot == PollSlot::Taken(worker);
        if taken {
            self.poll_slot = PollSlot::Free;
        }
        taken
    }
}

impl Idle {
    /// All workers are awake, and none searches.
    pub(crate) fn new(workers: usize) -> Self {
        assert!(workers <= MAX_WORKERS, "at most {MAX_WORKERS} workers");
        Self {
            word: AtomicUsize::new(workers * AWAKE),
            sleepers: Mutex::new(Sleepers {
                list: Vec::with_capacity(workers),
                timekeeper: None,
                poll_slot: PollSlot::Absent,
            }),
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

    /// searching => awake. True if it must notify in its place: it was the last searcher, and other workers are awake, which may have pushed since it looked at their queues; or there is more to do. If all others sleep, only the
    /// global queue can have been pushed to by relying on this search; `sees_more` looks there, under the lock, and into the worker's own places; where sockets are used it is always true, so that another worker is awake to take the poll slot.
    #[must_use]
    pub(crate) fn found(&self, sees_more: impl FnOnce() -> bool) -> bool {
        // Relaxed: a push that relied on this search is found by the one that follows, or seen by the look, which is ordered by the lock of the global queue.
        let before = WorkerCounts(self.word.fetch_sub(SEARCHING, Ordering::Relaxed));
        debug_assert!(before.searching() > 0, "only a searcher finds");
        before.searching() == 1 && (before.awake() > 1 || sees_more())
    }

    /// awake | searching => asleep. The watcher leaves the poll slot to others.
    pub(crate) fn sleep(&self, SleepRequest { worker, searching, watch }: SleepRequest) -> Asleep {
        let leaving = AWAKE + if searching { SEARCHING } else { 0 };
        self.sleepers(|sleepers| {
            sleepers.list.push(worker);
            let keeps_time = *sleepers.timekeeper.get_or_insert(worker) == worker;
            let polls = !watch && sleepers.try_take_poll_slot(worker);
            // Relaxed: ordered by the lock of the global queue, which the look takes.
            let before = self.word.fetch_sub(leaving, Ordering::Relaxed);
            Asleep { look: WorkerCounts(before - leaving).searching() == 0, keeps_time, polls }
        })
    }

    /// asleep => awake, by itself; or it learns that a notifier was faster.
    pub(crate) fn rise(&self, worker: usize) -> Risen {
        self.sleepers(|sleepers| {
            let at = sleepers.list.iter().position(|sleeper| *sleeper == worker);
            if let Some(at) = at {
                sleepers.list.swap_remove(at);
                // Relaxed: a worker that is awake publishes nothing by it.
                self.word.fetch_add(AWAKE, Ordering::Relaxed);
            }
            let others = !sleepers.list.is_empty();
            let kept_time = self.dismiss_timekeeper(sleepers, worker);
            sleepers.leave_poll_slot(worker);
            // Also for a watcher, on which the worker that left the slot relied.
            let is_free = sleepers.poll_slot == PollSlot::Free;
            Risen {
                chosen: at.is_none(),
                kept_time: kept_time && others,
                owes_poll_slot: is_free && others && !self.is_watched(),
            }
        })
    }

    /// True if this worker was the timekeeper.
    fn dismiss_timekeeper(&self, sleepers: &mut Sleepers, worker: usize) -> bool {
        let kept_time = sleepers.timekeeper == Some(worker);
        if kept_time {
            sleepers.timekeeper = None;
            // Relaxed: see fence T in `keep_time`.
            self.alarm.store(NEVER, Ordering::Relaxed);
        }
        kept_time
    }

    /// absent => free: from now on a worker that falls asleep polls. The worker to unpark for that, if any.
    #[allow(dead_code, reason = "without sockets it stays absent")]
    #[must_use]
    pub(crate) fn open_poll_slot(&self) -> Option<usize> {
        self.sleepers(|sleepers| {
            if sleepers.poll_slot == PollSlot::Absent {
                sleepers.poll_slot = PollSlot::Free;
                // Also if one searches: it may find a task, and does not know yet that another must be awake to take the slot.
                self.choose_next(sleepers)
            } else {
                self.choose_of(sleepers)
            }
        })
    }

    /// free => taken, for a worker that is awake, and polls without waiting.
    #[must_use]
    pub(crate) fn try_poll(&self, worker: usize) -> bool {
        self.sleepers(|sleepers| sleepers.try_take_poll_slot(worker))
    }

    /// taken => free, after `try_poll`. The worker to unpark, if any: a worker that fell asleep meanwhile found the slot taken.
    #[must_use]
    pub(crate) fn end_poll(&self, worker: usize) -> Option<usize> {
        self.sleepers(|sleepers| {
            sleepers.leave_poll_slot(worker);
            if self.is_watched() { None } else { self.choose_of(sleepers) }
        })
    }

    /// A worker that left the poll slot is about to run something: another must be awake to take the slot. The worker to unpark, if any.
    #[must_use]
    pub(crate) fn hand_over_poll_slot(&self) -> Option<usize> {
        self.notify()
    }

    /// Exact under the mutex, elsewhere a hint.
    fn is_watched(&self) -> bool {
        // Relaxed: a stale answer delays the watcher, never the task's own worker. Under the mutex it is that of a watcher which has yet to rise.
        self.watched.load(Ordering::Relaxed)
    }

    /// For the timekeeper, before it parks: finds and publishes the deadline to wake for.
    fn keep_time(&self, worker: usize, sleeper: &impl IdleWorker) -> u64 {
        // Fence T: SeqCst, pairs with fence T in `cover`.
        fence(Ordering::SeqCst);
        let until = sleeper.earliest_deadline();
        self.sleepers(|sleepers| {
            // A notifier that has chosen us meanwhile, or a worker that asked for cover, has left a token: then we do not sleep, and look again.
            if sleepers.timekeeper == Some(worker) {
                // Relaxed: the mutex orders it for threads that take it, and the others ask for more cover than they need.
                self.alarm.store(until, Ordering::Relaxed);
            }
        });
        until
    }

    /// For a worker that is awake: the timekeeper must wake for this deadline, which is on the wheel of that worker; or, of a worker that has kept the time,
    /// for the earliest of all. The worker to unpark, if any.
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
            let poller = |worker: &usize| sleepers.poll_slot == PollSlot::Taken(*worker);
            let sleeper = || sleepers.list.iter().find(|worker| !poller(worker)).or(sleepers.list.first());
            let timekeeper = sleepers.timekeeper.or_else(|| sleeper().copied())?;
            sleepers.timekeeper = Some(timekeeper);
            // Relaxed: as above; under the mutex.
            self.alarm.store(deadline, Ordering::Relaxed);
            Some(timekeeper)
        })
    }

    /// awake | searching => asleep => awake | searching.
    pub(crate) fn sleep_until_woken(&self, request: SleepRequest, sleeper: &impl IdleWorker) -> Risen {
        let watch = request.watch && self.try_watch();
        let asleep = self.sleep(SleepRequest { watch, ..request });
        if !(asleep.look && sleeper.sees_work(!watch && !self.is_watched())) {
            let until = if asleep.keeps_time { self.keep_time(request.worker, sleeper) } else { NEVER };
            let place = if asleep.polls { SleepPlace::Poll } else { SleepPlace::Parker };
            sleeper.sleep(SleepPlan { place, watch, until });
        }
        if watch {
            self.end_watch();
        }
        self.rise(request.worker)
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
        if self.is_watched() { None } else { self.notify() }
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
        self.sleepers(|sleepers| self.choose_of(sleepers))
    }

    /// asleep => searching, for one worker, if none searches.
    fn choose_of(&self, sleepers: &mut Sleepers) -> Option<usize> {
        if self.counts().searching() > 0 { None } else { self.choose_next(sleepers) }
    }

    /// asleep => searching, for one worker.
    fn choose_next(&self, sleepers: &mut Sleepers) -> Option<usize> {
        let worker = sleepers.remove_next()?;
        // Relaxed: the unpark publishes to the worker.
        self.word.fetch_add(AWAKE + SEARCHING, Ordering::Relaxed);
        Some(worker)
    }
}
