//! Where deadlines come from: sleeping waiters on a wheel, and the thread that turns it.
//!
//! `.timeout`, `.deadline` and the sleeps of a runtime all end here. A sleep is a wait like any other: its waiter is in a ring of the wheel, its cancel is a
//! removal. A runtime turns wheels of its own ([`Timers`]); where none is installed, one thread for the whole process does, started by the first
//! wait that needs it and parked in between.
//!
//! ```text
//!   SleepOp --- arm, cancel ---> Timers: QueueLock<Wheel> <--- advance --- the turner: a worker of a runtime,
//!      ^                            | rings of waiters, by due tick            or the thread of the process
//!      +---- grant, when due -------+---- alarm: a sleep is due earlier than the turner parks until ---> wake
//! ```
//!
//! Under tokio, with the feature of that name, a sleep is one of tokio's (`host_executor.rs`), and on no wheel.
//!
//! # The alarm
//! The thread that turns the wheel, the *turner*, parks until `alarm_at`. A sleep that is due earlier moves that forward and wakes
//! the turner; one that is due later does not. `alarm_at` is compared and written in the hold of the lock that changes the wheel, so the alarm cannot be missed: either the
//! turner saw the new waiter, or the waiter saw until when the turner parks. The waker of the turner is foreign code, and is called after the unlock.
//!
//! # Orderings
//! Everything is under `EDIT`; a release publishes through the waiter's state, as every grant does. `alarm_at` is written under it, and read
//! also without it, as a hint that its readers order themselves.

mod shared;
mod wheel;

pub(crate) use shared::is_timer_thread;

use crate::host_executor::HostSleep;
use crate::probe::{Target, foreign_code};
use crate::queue::batch::{Panics, WakeBatch, while_unwinding};
use crate::queue::queue_lock::QueueLock;
use crate::queue::waiter::{Payload, WaiterState, clone_waker, drop_waker};
use crate::queue::{Pinned, QueueGuard as _, QueueWaker, Removed};
use crate::runtime;
use crate::shim::{AtomicBool, AtomicU64, Ordering};
use crate::wait::{Awaitable as _, Op, Single, Wait, WaiterSlot};
use alloc::sync::Arc;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::time::Instant;
use wheel::{NEVER, Turned, Wheel};

/// A tick is a millisecond: sleeps end at the first tick that is not before their deadline.
const TICKS_PER_SECOND: u64 = 1_000;
const NANOS_PER_TICK: u32 = 1_000_000;

/// A wheel of deadlines, for a runtime that keeps those of its tasks.
pub struct Timers {
    wheel: QueueLock<Wheel>,
    /// The tick until which the turner sleeps, [`NEVER`] if only the alarm wakes it. Written under the lock, read without it.
    alarm_at: AtomicU64,
    /// Ring the alarm also when the last sleep is cancelled.
    rings_when_empty: AtomicBool,
    start: Instant,
    /// A sleep that is due at this tick or later is never due.
    end: u64,
    alarm: Waker,
}

/// Where [`Timers::advance_step`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// More sleeps are due: take another step.
    More,
    /// Nothing is due before this time; `None`: before the alarm rings.
    Until(Option<Instant>),
}

impl Timers {
    /// Creates an empty wheel. `alarm` is woken when [`advance`](Self::advance) has to be called earlier than its last call said. So call `advance` once before the thread sleeps for the first time.
    ///
    /// The time of the wheel begins here: a deadline before this moment is due at once.
    pub fn new(alarm: Waker) -> Self {
        Self::starting_at(Instant::now(), alarm)
    }

    /// As [`new`](Self::new), for a clock whose first moment is `start`: the ticks of the wheel are whole milliseconds after it.
    pub fn starting_at(start: Instant, alarm: Waker) -> Self {
        Self {
            wheel: QueueLock::new(Wheel::new()),
            alarm_at: AtomicU64::new(0),
            rings_when_empty: AtomicBool::new(false),
            start,
            end: NEVER,
            alarm,
        }
    }

    /// Sets the end of the clock, so long after its start: a sleep until then or longer is never due, and [`advance`](Self::advance) never returns its time.
    #[must_use]
    pub fn ending_after(self, time: Duration) -> Self {
        Self { end: ticks(time), ..self }
    }

    /// Ends every sleep that is due, and returns when to call it again; `None`: when the alarm is woken.
    ///
    /// Time that was advanced does not go back. It ends after 2^60 ms, thirty-six million years: a later `now` is that end, and a
    /// sleep until then or longer is never due.
    pub fn advance(&self, now: Instant) -> Option<Instant> {
        let mut panics = Panics::default();
        loop {
            if let Advanced::Until(next) = self.step(now, &mut panics) {
                panics.resume();
                return next;
            }
        }
    }

    /// As [`advance`](Self::advance), for a bounded number of sleeps: wakes at most 32. Any thread may call it, also while others do.
    pub fn advance_step(&self, now: Instant) -> Advanced {
        let mut panics = Panics::default();
        let advanced = self.step(now, &mut panics);
        panics.resume();
        advanced
    }

    fn step(&self, now: Instant, panics: &mut Panics) -> Advanced {
        let to = self.last_tick_at(now);
        let mut batch = WakeBatch::new();
        let mut guard = self.wheel.lock();
        let (locked, wheel) = guard.parts();
        let turned = wheel.turn(locked, to, &mut batch);
        if let Turned::Done(next) = turned {
            // Relaxed: see `due`.
            self.alarm_at.store(next.unwrap_or(NEVER), Ordering::Relaxed);
        }
        batch.wake_all(guard.unlock(), panics);
        match turned {
            Turned::More => Advanced::More,
            Turned::Done(next) => Advanced::Until(next.and_then(|tick| self.time_of(tick))),
        }
    }

    /// Returns when to advance: what the last call of `advance` returned, or an earlier deadline that was armed since. Takes no lock, for runtimes
    /// whose threads look after each other's wheels.
    pub fn due(&self) -> Option<Instant> {
        // Relaxed: written under the lock; a thread that relies on seeing an arm orders the two itself, by a fence or the alarm.
        let tick = self.alarm_at.load(Ordering::Relaxed);
        if tick >= NEVER { None } else { self.time_of(tick) }
    }

    /// Returns how many sleeps are on the wheel; those that are never due are not counted.
    #[expect(clippy::len_without_is_empty, reason = "for metrics")]
    pub fn len(&self) -> usize {
        self.wheel.lock().parts().1.len()
    }

    /// Asks for the alarm to be woken also when the last sleep is cancelled: for a thread that advances the wheel until it is empty. Call it
    /// before the first `advance` of that thread.
    pub fn ring_when_empty(&self) {
        // Relaxed: the lock orders it, which the caller's `advance` takes next.
        self.rings_when_empty.store(true, Ordering::Relaxed);
    }

    /// The first tick that is not before `deadline`.
    fn tick_of(&self, deadline: Instant) -> u64 {
        ticks(deadline.saturating_duration_since(self.start))
    }

    /// The first tick that is not before `now` and this duration; [`NEVER`] for what no clock can say.
    fn tick_after(&self, now: Instant, duration: Duration) -> u64 {
        match now.checked_duration_since(self.start) {
            Some(since) => since.checked_add(duration).map_or(NEVER, ticks),
            // A clock that is behind the wheel.
            None => now.checked_add(duration).map_or(NEVER, |deadline| self.tick_of(deadline)),
        }
    }

    /// The last tick that is not after `now`.
    fn last_tick_at(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.start);
        let ticks = u64::from(since.subsec_nanos() / NANOS_PER_TICK);
        since.as_secs().saturating_mul(TICKS_PER_SECOND).saturating_add(ticks)
    }

    /// `None` beyond what the clock can say.
    fn time_of(&self, tick: u64) -> Option<Instant> {
        let since = Duration::from_millis(tick);
        self.start.checked_add(since)
    }

    /// Puts a new waiter on the wheel; true if the turner sleeps too long for it, so that the alarm must be rung.
    #[must_use = "the alarm must be rung"]
    fn arm(&self, slot: WaiterSlot<'_>, waker: QueueWaker, tick: u64) -> bool {
        let tick = if tick < self.end { tick } else { NEVER };
        let mut guard = self.wheel.lock();
        let waiter = slot.init(waker, Payload::due(tick)).into_pinned();
        let (locked, wheel) = guard.parts();
        wheel.insert(locked, waiter);
        // Relaxed: written under the lock, which is held.
        let rings = tick < self.alarm_at.load(Ordering::Relaxed);
        if rings {
            // Relaxed: see `due`.
            self.alarm_at.store(tick, Ordering::Relaxed);
        }
        rings
    }

    /// Takes a waiter off the wheel; false if it had been released.
    fn cancel(&self, waiter: Pinned<'_>) -> bool {
        let mut guard = self.wheel.lock();
        let (locked, wheel) = guard.parts();
        // SAFETY: a waiter of this wheel is in one of its rings, or was released.
        let Removed::Waker(waker) = (unsafe { locked.remove(waiter) }) else { return false };
        let empty = wheel.forget(waiter);
        // Relaxed: ordered by the lock, see `ring_when_empty`.
        let rings = empty && self.rings_when_empty.load(Ordering::Relaxed);
        let waker = guard.unlock_with(waker);
        // Before the drop: a waker that panics in it must not cost the alarm.
        if rings {
            foreign_code();
            while_unwinding(|| self.alarm.wake_by_ref());
        }
        drop_waker(waker);
        true
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}

/// So long in ticks, rounded up; [`NEVER`] beyond the last.
fn ticks(time: Duration) -> u64 {
    // The seconds apart from the rest, so that nothing is divided that does not fit into a register.
    let rest = u64::from(time.subsec_nanos().div_ceil(NANOS_PER_TICK));
    time.as_secs().saturating_mul(TICKS_PER_SECOND).saturating_add(rest).min(NEVER)
}

/// The future of a deadline: ready when it is past.
pub type Sleep = Wait<Single<SleepOp>>;

/// What a sleep can do besides what every wait can: say when it ends, and be set to another time.
impl Wait<Single<SleepOp>> {
    /// Returns when the sleep ends. `None` of a sleep that was given a duration and has not begun to wait, for its time begins with the poll that does; a sleep of no time never waits. And always if no clock can reach that time.
    ///
    /// (Not to be confused with [`deadline`](Wait::deadline), which gives a wait a limit.)
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    /// use tasuki::runtime::sleep_until;
    ///
    /// let now = Instant::now();
    /// assert_eq!(sleep_until(now).wakes_at(), Some(now));
    /// ```
    #[doc(alias = "deadline")]
    pub fn wakes_at(&self) -> Option<Instant> {
        match self.op().when {
            When::In(_) => None,
            When::At(deadline) => Some(deadline),
            When::Armed(at) | When::ToRing(at) => at,
        }
    }

    /// Returns true if the time of the sleep is past, polled or not. Its future is ready from the first whole millisecond on that is not before that time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tasuki::runtime::sleep_until;
    ///
    /// assert!(sleep_until(Instant::now()).is_elapsed());
    /// assert!(!sleep_until(Instant::now() + Duration::from_secs(3600)).is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        self.has_ended() || self.wakes_at().is_some_and(|at| runtime::now() >= at)
    }

    /// Sets the sleep to another time, also if it has ended: it sleeps again. The old time no longer wakes the task; the new one does after the task has polled the sleep again.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::{Duration, Instant};
    /// use tasuki::runtime::sleep_until;
    ///
    /// let now = Instant::now();
    /// let mut sleep = pin!(sleep_until(now + Duration::from_secs(3600)));
    /// sleep.as_mut().reset(now);
    /// assert!(sleep.is_elapsed());
    /// ```
    #[track_caller]
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.set(sleep_until(deadline));
    }
}

/// Waits until `deadline`, on the timers of the current runtime, or else of the process.
#[track_caller]
pub(crate) fn sleep_until(deadline: Instant) -> Sleep {
    Wait::new(SleepOp { when: When::At(deadline), home: Home::Nowhere })
}

/// Waits for a time that begins with the first poll.
#[track_caller]
pub(crate) fn sleep(duration: Duration) -> Sleep {
    Wait::new(SleepOp { when: When::In(duration), home: Home::Nowhere })
}

/// Until when.
#[derive(Clone, Copy, Debug)]
enum When {
    /// From the first poll on.
    In(Duration),
    At(Instant),
    /// The wheel, or the host, knows; for the caller too, if a clock can say it.
    Armed(Option<Instant>),
    /// The same, and the alarm of the wheel is still to be rung.
    ToRing(Option<Instant>),
}

/// Whose wheel a sleep is on.
#[derive(Debug)]
enum Home {
    /// Not decided before the first poll that must wait.
    Nowhere,
    Process(&'static Timers),
    Runtime(Arc<Timers>),
    /// On no wheel of ours: the host's own sleep.
    Host(HostSleep),
}

impl Home {
    /// The timers of the current runtime, or else the host's, or else those of the process.
    fn until(deadline: impl FnOnce() -> Option<Instant>) -> Self {
        if let Some(timers) = runtime::timers() {
            return Self::Runtime(timers);
        }
        HostSleep::until(deadline).map_or_else(|| Self::Process(shared::timers()), Self::Host)
    }
}

/// The operation of a [`Sleep`].
#[derive(Debug)]
pub struct SleepOp {
    when: When,
    home: Home,
}

impl SleepOp {
    /// Does its time never come? It is so long that no clock can say when, as `Duration::MAX` is.
    pub(crate) fn is_never(&self) -> bool {
        matches!(self.when, When::In(Duration::MAX) | When::Armed(None) | When::ToRing(None))
    }

    fn timers(&self) -> &Timers {
        match &self.home {
            Home::Process(timers) => timers,
            Home::Runtime(timers) => timers,
            Home::Nowhere | Home::Host(_) => unreachable!("a queued sleep is on a wheel"),
        }
    }

    /// Is it on the wheel of another process, which the child of a fork leaves alone?
    fn is_inherited(&self) -> bool {
        matches!(self.home, Home::Process(timers) if shared::is_inherited(timers))
    }

    /// The host's sleep, if it is one.
    fn host_sleep(&mut self) -> Option<Pin<&mut HostSleep>> {
        let Home::Host(sleep) = &mut self.home else { return None };
        // SAFETY: it is put there by `enqueue`, from which on an operation is not moved until it is dropped (`Op`).
        Some(unsafe { Pin::new_unchecked(sleep) })
    }
}

impl Op for SleepOp {
    type Output = ();
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::Sleep";

    fn try_now(&mut self) -> Option<()> {
        self.is_ready().then_some(())
    }

    fn target(&self) -> Target<'_> {
        if self.is_never() { Target::NEVER } else { Target::TIME }
    }

    fn is_ready(&self) -> bool {
        match self.when {
            // To look at the clock once is enough, and that is when the sleep is armed.
            When::In(duration) => duration.is_zero(),
            When::At(deadline) => runtime::now() >= deadline,
            When::Armed(_) | When::ToRing(_) => unreachable!("an armed sleep is queued"),
        }
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let (when, mut at) = (self.when, None);
        self.home = Home::until(|| {
            at = match when {
                When::In(duration) => runtime::now().checked_add(duration),
                When::At(deadline) => Some(deadline),
                When::Armed(_) | When::ToRing(_) => unreachable!("an armed sleep is queued"),
            };
            at
        });
        if let Some(sleep) = self.host_sleep() {
            // In no queue: `poll_queued` and `cancel` ask the host. A waiter that is never published, with a waker that keeps nothing.
            let poll = sleep.poll(cx);
            let _ = slot.init(clone_waker(Waker::noop()), Payload::due(0));
            self.when = When::Armed(at);
            return poll;
        }
        let timers = self.timers();
        let (tick, at) = match when {
            When::In(duration) => {
                let now = runtime::now();
                (timers.tick_after(now, duration), now.checked_add(duration))
            }
            When::At(deadline) => (timers.tick_of(deadline), Some(deadline)),
            When::Armed(_) | When::ToRing(_) => unreachable!("an armed sleep is queued"),
        };
        let rings = timers.arm(slot, clone_waker(cx.waker()), tick);
        self.when = if rings { When::ToRing(at) } else { When::Armed(at) };
        Poll::Pending
    }

    fn enqueued(&mut self, _waiter: Pinned<'_>, cx: &Context<'_>) {
        if let When::ToRing(_) = self.when {
            foreign_code();
            self.timers().alarm.wake_by_ref();
        }
        // Also if it did not ring: what rang before, in the same poll, may still be known to that poll's thread alone.
        runtime::deadline_armed(cx.waker());
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = self.host_sleep() {
            return sleep.poll(cx);
        }
        if self.is_inherited() {
            return if waiter.get().state() == WaiterState::Notified {
                Poll::Ready(())
            } else {
                Poll::Pending
            };
        }
        // SAFETY: a waiter of this wheel is in one of its rings, or was released.
        let poll = unsafe { self.timers().wheel.poll_queued(waiter, cx) };
        if poll.is_pending() {
            // Perhaps armed earlier in the same poll, with the waker of that poll, and polled by another executor now.
            runtime::deadline_armed(cx.waker());
        }
        poll
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<()> {
        if let Home::Host(_) = self.home {
            // Dropped here and not with the future: a limit must not wake a task that has gone on.
            self.home = Home::Nowhere;
            return None;
        }
        if self.is_inherited() {
            return (waiter.get().state() == WaiterState::Notified).then_some(());
        }
        (!self.timers().cancel(waiter)).then_some(())
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

#[cfg(test)]
mod tests;
