//! The wheels of deadlines: which worker advances which, and when. The design is in docs/scheduler.md, "Timers".
//!
//! Every worker has a wheel of its own, on which its tasks arm their sleeps without meeting another worker, and advances it between two polls. A worker in
//! a long poll cannot do so. Then another worker advances the wheel when it is overdue: workers that are awake look at all wheels once a millisecond, and of the workers that
//! sleep the timekeeper (`idle.rs`) wakes for it.
//!
//! Between two polls no clock is read while all of this holds: no worker that is awake has a deadline (`armed` is false), the global queue is empty, there are no sockets, and this worker has neither a streak nor a turn to end; but for one reading at a look outside (`picks_before_look`). Otherwise the clock is read once a
//! poll, or not for the next seven if less than 50 µs have passed since it was read last, and none of the 16 (`WARY_POLLS`) readings before that came later: a deadline may be seen seven long polls late. (A worker that has found nothing to do reads it before it sleeps, and the budget of a long poll reads it as well: `budget.rs`.)
//!
//! # Orderings
//! Fence A in `cover`, between the arm and `armed`, pairs with fence A in `disarm`, between the reset of `armed` and the second look at the
//! wheels: a deadline that is armed while `armed` is reset is seen by one of the two threads. Release of `rung` in `Alarm::ring` pairs with Acquire in `cover`.

use super::idle::NEVER;
use super::worker::{GLOBAL_EVERY, Local};
use super::{Remote, Shared};
use crate::context;
use crate::task::contain_panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};
use tasuki::Unparker;
use tasuki::runtime::{Advanced, Timers};

/// How late a wheel must be before another worker than its own advances it: tasks stay with a worker whose polls are short.
const GRACE: Duration = Duration::from_micros(250);
/// How often a worker that is awake looks at the wheels of the others.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How often a worker that always has something to do looks outside: at the global queue, if there is something in it, and at the sockets, if there are any and the tasks have run that it
/// had when it last asked for them (`sockets.rs`). A number of picks alone bounds no time: 64 of them may take a second.
const OUTSIDE_EVERY: Duration = Duration::from_micros(500);
/// How many short polls come between two steps of a wheel on which more is due. As many as a step wakes: then the queue does not grow.
const POLLS_PER_STEP: u32 = 32;
/// How many polls the clock is not read after some that were short, and how short these must be together. A clock costs as much as a short poll.
const SKIP: u32 = 7;
const SHORT: Duration = Duration::from_micros(50);
/// How many polls the clock is read at after one that was not short, however short they are: those that are long may take turns with short ones. It costs less than a hundredth of that poll.
const WARY_POLLS: u32 = 16;
/// How many steps a worker takes that has nothing else to do.
const IDLE_STEPS: u32 = 8;

/// The alarm of a worker's wheel: notes that the worker must ask for cover before its next poll.
pub(super) struct Alarm {
    /// The wheel has an earlier deadline than the worker knows of, or the worker has slept.
    rung: AtomicBool,
    runtime: u32,
    worker: usize,
    unparker: Unparker,
}

impl Alarm {
    pub(super) fn new(runtime: u32, worker: usize, unparker: Unparker) -> Self {
        Self { rung: AtomicBool::new(false), runtime, worker, unparker }
    }

    fn ring(&self) {
        // Release: pairs with Acquire in `cover`: the deadline.
        self.rung.store(true, Ordering::Release);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
        // Its own task armed it: it is awake, and looks before it parks.
        let here = context::with(|context| {
            context.is_some_and(|context| {
                context.shared.id == self.runtime && context.worker() == Some(self.worker)
            })
        });
        if !here {
            self.unparker.unpark();
        }
    }
}

impl Remote {
    /// When another worker should advance its wheel. `None` if there is no deadline, or its worker sleeps and wakes for it.
    fn overdue_at(&self) -> Option<Instant> {
        // Relaxed: after fence T of the timekeeper; the looks of the others are hints.
        if self.asleep.load(Ordering::Relaxed) { None } else { self.timers.due()?.checked_add(GRACE) }
    }
}

impl Shared {
    fn nanos(&self, time: Option<Instant>) -> u64 {
        let nanos = |time: Instant| time.saturating_duration_since(self.epoch).as_nanos();
        time.map_or(NEVER, |time| u64::try_from(nanos(time)).unwrap_or(NEVER))
    }

    pub(super) fn time_of(&self, nanos: u64) -> Option<Instant> {
        if nanos == NEVER { None } else { self.epoch.checked_add(Duration::from_nanos(nanos)) }
    }

    fn has_deadlines(&self) -> bool {
        self.remotes.iter().any(|remote| remote.overdue_at().is_some())
    }

    /// The earliest deadline of all workers, asleep or awake.
    pub(super) fn next_of_all_wheels(&self) -> Option<Instant> {
        self.remotes.iter().filter_map(|remote| remote.timers.due()).min()
    }

    /// For a thread that is no worker, while a shutdown drops tasks beside a long poll: advances all wheels that are due. It looks again after `pause`, and ends when this is over, or nothing is left on them: nothing is armed
    /// on them any more.
    pub(super) fn advance_all_until(&self, pause: Duration, is_over: impl Fn() -> bool) {
        while !is_over() {
            let Some(next) = self.next_of_all_wheels() else { return };
            let now = Instant::now();
            if next > now {
                thread::park_timeout((next - now).min(pause));
                continue;
            }
            for remote in &self.remotes {
                if remote.timers.due().is_some_and(|due| due <= now) {
                    advance(&remote.timers, now, IDLE_STEPS);
                }
            }
        }
    }

    /// No wheel of a worker that is awake had a deadline: they need no clock.
    fn disarm(&self) {
        // Relaxed: see fence A.
        self.armed.store(false, Ordering::Relaxed);
        // Fence A: SeqCst, pairs with fence A in `cover`.
        fence(Ordering::SeqCst);
        if self.has_deadlines() {
            // Relaxed: the next poll of each worker sees it, or the one after that.
            self.armed.store(true, Ordering::Relaxed);
        }
    }
}

impl Local {
    /// Before each pick: if a worker that is awake has a deadline, advances the wheels that are due; and ends a streak or a turn that takes long. True if what comes from outside has
    /// waited for long.
    #[inline]
    pub(super) fn check_clock(&self, shared: &Shared) -> bool {
        // Relaxed: a hint; what it delays is bounded by the next poll.
        let armed = shared.armed.load(Ordering::Relaxed);
        let outside = !shared.global.looks_empty() || shared.sockets.are_used();
        if armed || outside || self.has_streak() || self.has_turn() {
            if let Some(now) = self.read_clock() {
                self.limit_streak(now);
                self.limit_turn(now);
                if armed {
                    self.look_at_wheels(shared, now);
                }
                return outside && self.is_outside_late(now);
            }
        }
        false
    }

    /// Is it time to look at what comes from outside? Then the caller does.
    fn is_outside_late(&self, now: Instant) -> bool {
        let late = now.saturating_duration_since(self.looked_outside.get()) >= OUTSIDE_EVERY;
        if late {
            self.looked_outside.set(now);
        }
        late
    }

    /// It looks outside. How many picks come before the next look, unless it is late before: if there are other workers, one of which may be stuck in a poll, as many as take [`OUTSIDE_EVERY`] at the pace of those since the last look.
    pub(super) fn picks_before_look(&self, shared: &Shared) -> u32 {
        if shared.workers() == 1 {
            return GLOBAL_EVERY;
        }
        let (tick, now) = (self.tick.get(), Instant::now());
        let (then, since) = self.last_look.replace((tick, now));
        let one = now.saturating_duration_since(since) / tick.wrapping_sub(then).max(1);
        (OUTSIDE_EVERY.as_nanos() / one.as_nanos().max(1)).clamp(1, GLOBAL_EVERY.into()) as u32
    }

    /// The time, at most once a poll. `None` if the polls have been so short that the last reading will do.
    #[inline]
    fn read_clock(&self) -> Option<Instant> {
        let skip = self.skip.get();
        if skip > 0 {
            self.skip.set(skip - 1);
            return None;
        }
        let now = Instant::now();
        let short = now.saturating_duration_since(self.now.replace(now)) < SHORT;
        // A sleep is no poll.
        let (wary, has_slept) = (self.wary.get(), self.has_slept.take());
        self.wary.set(if short || has_slept { wary.saturating_sub(1) } else { WARY_POLLS });
        self.skip.set(if short && wary == 0 { SKIP } else { 0 });
        Some(now)
    }

    fn look_at_wheels(&self, shared: &Shared, now: Instant) {
        let pause = self.pause.get();
        if pause > 0 {
            self.pause.set(pause - 1);
        } else if now >= self.look_at.get() {
            self.advance(shared, now, 1);
        }
    }

    /// Nothing else to do: advances all wheels that are due. True if more is due.
    pub(super) fn advance_idle(&self, shared: &Shared) -> bool {
        self.advance(shared, Instant::now(), IDLE_STEPS)
    }

    /// For a worker that leaves, and waits: advances all wheels that are due, for a sleep on them may have been carried out of the runtime, and a poll that goes on may wait for one. For how long it may sleep, at most
    /// `limit`. What it has woken is in its own places.
    pub(super) fn advance_leaving(&self, shared: &Shared, limit: Duration) -> Duration {
        if self.advance_idle(shared) {
            return Duration::ZERO;
        }
        let next = shared.time_of(self.earliest_deadline(shared));
        next.map_or(limit, |next| next.saturating_duration_since(Instant::now()).min(limit))
    }

    /// So many steps of the own wheel, and of those of others that are overdue. True if more is due.
    fn advance(&self, shared: &Shared, now: Instant, steps: u32) -> bool {
        let (mut more, mut armed) = (false, false);
        for (index, remote) in shared.remotes.iter().enumerate() {
            let due = if index == self.index { self.timers.due() } else { remote.overdue_at() };
            armed |= due.is_some();
            if due.is_some_and(|due| due <= now) {
                more |= advance(&remote.timers, now, steps);
            }
        }
        if !armed {
            shared.disarm();
        }
        self.pause.set(if more { POLLS_PER_STEP / (SKIP + 1) } else { 0 });
        let others = if shared.workers() > 1 { Some(now + LOOK_EVERY) } else { None };
        let next = [self.timers.due(), others].into_iter().flatten().min();
        self.look_at.set(if more { now } else { next.unwrap_or(now + LOOK_EVERY) });
        more
    }

    /// Before a poll, which may be long, or within one that waits for a deadline by another executor: sees to it that another worker wakes for the deadlines of this one, if they have changed.
    #[inline]
    pub(crate) fn cover_deadlines(&self, shared: &Shared) {
        // Relaxed: our own tasks ring it, on this thread; what another thread rings in this moment comes with an unpark.
        if shared.remotes[self.index].alarm.rung.load(Ordering::Relaxed) {
            self.cover(shared);
        }
    }

    #[cold]
    fn cover(&self, shared: &Shared) {
        // Acquire: pairs with Release in `Alarm::ring`.
        shared.remotes[self.index].alarm.rung.swap(false, Ordering::Acquire);
        let own = self.timers.due();
        if let Some(due) = own {
            self.look_at.set(self.look_at.get().min(due));
            // Fence A: SeqCst, pairs with fence A in `disarm`.
            fence(Ordering::SeqCst);
            // Relaxed: see fence A.
            if !shared.armed.load(Ordering::Relaxed) {
                shared.armed.store(true, Ordering::Relaxed);
            }
        }
        if shared.workers() == 1 {
            return;
        }
        let timekeeper = if self.kept_time.take() {
            shared.idle.cover(|| shared.nanos(self.earliest_deadline_of_all(shared)))
        } else {
            shared.idle.cover(|| shared.nanos(own.and_then(|due| due.checked_add(GRACE))))
        };
        if let Some(worker) = timekeeper {
            shared.remotes[worker].unparker.unpark();
        }
    }

    /// The earliest time at which a wheel of a worker that is awake is overdue.
    fn earliest_deadline_of_all(&self, shared: &Shared) -> Option<Instant> {
        shared.remotes.iter().filter_map(Remote::overdue_at).min()
    }

    /// The earliest deadline of all workers that are awake, and our own.
    pub(super) fn earliest_deadline(&self, shared: &Shared) -> u64 {
        let times = [self.earliest_deadline_of_all(shared), self.timers.due()];
        shared.nanos(times.into_iter().flatten().min())
    }

    /// Calls the hooks of the user: this worker is about to sleep. True if that has given it something to do: then it does not sleep, and the hook of its end is called too.
    pub(super) fn announce_sleep(&self, shared: &Shared) -> bool {
        let settings = &shared.threads.settings;
        settings.on_park.call();
        let has_work = self.has_work(shared);
        if has_work {
            settings.on_unpark.call();
        }
        has_work
    }

    /// From now on, until `rises`, it wakes for its own deadlines.
    pub(super) fn falls_asleep(&self, shared: &Shared) {
        shared.remotes[self.index].counters.parks.count();
        // Relaxed: the timekeeper wakes once in vain if it does not see it.
        shared.remotes[self.index].asleep.store(true, Ordering::Relaxed);
    }

    /// Awake: asks for cover before its next poll. `kept_time`: for the deadlines of all.
    pub(super) fn rises(&self, shared: &Shared, kept_time: bool) {
        let remote = &shared.remotes[self.index];
        // Relaxed: `cover` comes before the next poll, with fence T.
        remote.asleep.store(false, Ordering::Relaxed);
        self.kept_time.set(kept_time);
        remote.alarm.ring();
        if self.timers.due().is_some() {
            // Relaxed: a hint for the next pick; `cover` repeats it with fence A.
            shared.armed.store(true, Ordering::Relaxed);
        }
        self.pause.set(0);
        self.skip.set(0);
        self.has_slept.set(true);
        self.last_look.set((self.tick.get(), Instant::now()));
        self.look_at.set(shared.epoch);
        shared.threads.settings.on_unpark.call();
    }
}

/// So many steps of a wheel. True if more is due.
fn advance(timers: &Timers, now: Instant, steps: u32) -> bool {
    (0..steps).all(|_| {
        // A waker that panics is its owner's mistake; come back for the others.
        let mut advanced = Advanced::More;
        contain_panic(|| advanced = timers.advance_step(now));
        advanced == Advanced::More
    })
}
