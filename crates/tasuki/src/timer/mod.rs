//! Where deadlines come from: sleeping waiters on a wheel, and whoever turns it.
//!
//! A sleep is a wait like any other: its waiter is in a ring of the wheel, its cancel is a removal. A
//! runtime turns wheels of its own ([`Timers`]); where none is installed, one thread for the whole process does, started by the first
//! wait that needs it and asleep on a parker in between. Under tokio, with the feature of that name, a sleep is one of tokio's (`host.rs`), and on no wheel.
//!
//! # The alarm
//! Whoever turns the wheel sleeps until `alarm_at`. A sleep that is due earlier moves it forward and rings
//! the alarm; one that is due later wakes nobody. Both happen in the edit that changes the wheel, so the alarm cannot be missed: either the
//! turner saw the new waiter, or the waiter saw where the turner stands.
//!
//! # Orderings
//! Everything is under `EDIT`; a release publishes through the waiter's state, as every grant does. `alarm_at` is written under it, and read
//! also without it, as a hint that its readers order themselves.

mod shared;
mod wheel;

use crate::host::HostSleep;
use crate::probe::foreign_code;
use crate::queue::batch::{Panics, WakeBatch};
use crate::queue::waiter::{State, clone_waker, drop_waker};
use crate::queue::word::Word;
use crate::queue::{Editing, Pinned, QueueLock, Removed, WaitQueue};
use crate::runtime;
use crate::shim::{AtomicBool, AtomicU64, Ordering};
use crate::wait::{Op, Seat, Single, Wait};
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::time::Instant;
use wheel::{NEVER, Turned, Wheel};

/// A tick is a millisecond: sleeps end at the first tick that is not before their deadline.
const TICKS_PER_SECOND: u64 = 1_000;
const NANOS_PER_TICK: u32 = 1_000_000;

/// A wheel of deadlines. Part of the contract with runtimes, not of the stable surface.
pub struct Timers {
    /// Nobody waits in its list; its `EDIT` bit guards the wheel.
    lock: WaitQueue,
    state: UnsafeCell<WheelState>,
    /// The tick until which the turner sleeps, [`NEVER`] if only the alarm wakes it. Written under the lock, read without it.
    alarm_at: AtomicU64,
    /// Ring the alarm also when the last sleep is cancelled.
    rings_when_empty: AtomicBool,
    start: Instant,
    alarm: Waker,
}

/// What the lock guards.
struct WheelState {
    wheel: Wheel,
}

/// Where [`Timers::advance_step`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// More sleeps are due: take another step.
    More,
    /// Nothing is due before this time; `None`: before the alarm rings.
    Until(Option<Instant>),
}

/// The evidence of holding the lock of a wheel, and the way to what it guards.
struct Locked<'t> {
    editing: Editing<'t>,
    state: &'t UnsafeCell<WheelState>,
}

impl<'t> Locked<'t> {
    /// The lock and what it guards, for no longer than it is held.
    fn parts(&mut self) -> (&mut Editing<'t>, &mut WheelState) {
        // SAFETY: `Timers::lock` paired the two: `EDIT` of the state's own lock is held, so this is the only `Locked` of it, and it
        // is borrowed for as long as the reference lives.
        (&mut self.editing, unsafe { &mut *self.state.get() })
    }
}

impl QueueLock for Locked<'_> {}

// SAFETY: `state` is touched only through `Locked`, which holds `EDIT`.
unsafe impl Send for Timers {}
// SAFETY: as above.
unsafe impl Sync for Timers {}

impl Timers {
    /// An empty wheel. `alarm` is woken when [`advance`](Self::advance) must be called earlier than it said; before it has been
    /// called once it has said nothing, so call it before you sleep.
    ///
    /// Its time begins here: a deadline before this moment is due at once, also by a clock that is behind it.
    pub fn new(alarm: Waker) -> Self {
        Self::starting_at(Instant::now(), alarm)
    }

    /// The same, for a clock whose first moment is `start`: the ticks of the wheel are whole milliseconds after it.
    pub fn starting_at(start: Instant, alarm: Waker) -> Self {
        Self {
            lock: WaitQueue::new(Word::flags(0)),
            state: UnsafeCell::new(WheelState { wheel: Wheel::new() }),
            alarm_at: AtomicU64::new(0),
            rings_when_empty: AtomicBool::new(false),
            start,
            alarm,
        }
    }

    /// Releases every sleep that is due, and says when to come back. `None`: when the alarm rings.
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
        let mut locked = self.lock();
        let (editing, state) = locked.parts();
        let turned = state.wheel.turn(editing, to, &mut batch);
        if let Turned::Done(next) = turned {
            // Relaxed: see `due`.
            self.alarm_at.store(next.unwrap_or(NEVER), Ordering::Relaxed);
        }
        batch.wake_all(locked.unlock(), panics);
        match turned {
            Turned::More => Advanced::More,
            Turned::Done(next) => Advanced::Until(next.and_then(|tick| self.time_of(tick))),
        }
    }

    /// When to advance: what the last call of `advance` said, or an earlier deadline that was armed since. Without the lock, for runtimes
    /// whose threads look after each other's wheels.
    pub fn due(&self) -> Option<Instant> {
        // Relaxed: written under the lock; a thread that relies on seeing an arm orders the two itself, by a fence or the alarm.
        let tick = self.alarm_at.load(Ordering::Relaxed);
        if tick >= NEVER { None } else { self.time_of(tick) }
    }

    /// From now on the alarm is also rung when the last sleep is cancelled: for a thread that turns the wheel until it is empty. Call it
    /// before the first `advance` of that thread.
    pub fn ring_when_empty(&self) {
        // Relaxed: the lock orders it, which the caller's `advance` takes next.
        self.rings_when_empty.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> Locked<'_> {
        Locked { editing: self.lock.edit(), state: &self.state }
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

    /// Puts a new waiter on the wheel; true if the turner sleeps too long for it, and must be rung for.
    #[must_use = "the alarm must be rung"]
    fn arm(&self, seat: Seat<'_>, waker: Waker, tick: u64) -> bool {
        let mut locked = self.lock();
        let waiter = seat.sit(waker, wheel::ask_for(tick)).into_pinned();
        let (editing, state) = locked.parts();
        state.wheel.insert(editing, waiter);
        // Relaxed: written under the lock, which is held.
        let rings = tick < self.alarm_at.load(Ordering::Relaxed);
        if rings {
            // Relaxed: see `due`.
            self.alarm_at.store(tick, Ordering::Relaxed);
        }
        rings
    }

    /// Takes a waiter off the wheel; false if it had been released.
    fn disarm(&self, waiter: Pinned<'_>) -> bool {
        let mut locked = self.lock();
        let (editing, state) = locked.parts();
        // SAFETY: a waiter of this wheel is in one of its rings, or was released.
        let Removed::Waker(waker) = (unsafe { editing.remove(waiter) }) else { return false };
        let empty = state.wheel.forget(waiter);
        // Relaxed: ordered by the lock, see `ring_when_empty`.
        let rings = empty && self.rings_when_empty.load(Ordering::Relaxed);
        let waker = locked.unlock_with(waker);
        // Before the drop: a waker that panics in it must not cost the alarm.
        if rings {
            foreign_code();
            self.alarm.wake_by_ref();
        }
        drop_waker(waker);
        true
    }

    /// Gives the waiter another waker; false if it had been released.
    fn rearm(&self, waiter: Pinned<'_>, waker: Waker) -> bool {
        let mut editing = self.lock.edit();
        if waiter.get().state() == State::Notified {
            drop(editing);
            drop_waker(Some(waker));
            return false;
        }
        // SAFETY: not `Notified`, so it is in one of the rings of this wheel.
        let old = unsafe { editing.rearm(waiter, waker) };
        drop_waker(editing.unlock_with(old));
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

/// Waits until `deadline`, on the timers of the current runtime, or else of the process.
pub(crate) fn sleep_until(deadline: Instant) -> Sleep {
    Wait::new(SleepOp { when: When::At(deadline), home: Home::Nowhere })
}

/// Waits for a time that begins with the first poll.
pub(crate) fn sleep(duration: Duration) -> Sleep {
    Wait::new(SleepOp { when: When::In(duration), home: Home::Nowhere })
}

/// Until when.
#[derive(Clone, Copy, Debug)]
enum When {
    /// From the first poll on.
    In(Duration),
    At(Instant),
    /// The wheel knows.
    Armed,
    /// The wheel knows, and its alarm is still to be rung.
    ToRing,
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
    fn timers(&self) -> &Timers {
        match &self.home {
            Home::Process(timers) => timers,
            Home::Runtime(timers) => timers,
            Home::Nowhere | Home::Host(_) => unreachable!("a queued sleep is on a wheel"),
        }
    }
}

impl SleepOp {
    /// The host's sleep, if it is one.
    fn host_sleep(&mut self) -> Option<Pin<&mut HostSleep>> {
        let Home::Host(sleep) = &mut self.home else { return None };
        // SAFETY: it is put there by `start`, from which on an operation is not moved until it is dropped (`Op`).
        Some(unsafe { Pin::new_unchecked(sleep) })
    }
}

impl Op for SleepOp {
    type Output = ();
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::Sleep";

    fn try_now(&mut self) -> Option<()> {
        self.is_ready().then_some(())
    }

    fn is_ready(&self) -> bool {
        match self.when {
            // To look at the clock once is enough, and that is when the sleep is armed.
            When::In(duration) => duration.is_zero(),
            When::At(deadline) => runtime::now() >= deadline,
            When::Armed | When::ToRing => unreachable!("an armed sleep is queued"),
        }
    }

    fn start(&mut self, seat: Seat<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let when = self.when;
        self.home = Home::until(|| match when {
            When::In(duration) => runtime::now().checked_add(duration),
            When::At(deadline) => Some(deadline),
            When::Armed | When::ToRing => unreachable!("an armed sleep is queued"),
        });
        if let Some(sleep) = self.host_sleep() {
            // In no queue: `poll_queued` and `cancel` ask the host. A waiter that is never published, with a waker that keeps nothing.
            let poll = sleep.poll(cx);
            let _ = seat.sit(Waker::noop().clone(), wheel::ask_for(0));
            self.when = When::Armed;
            return poll;
        }
        let timers = self.timers();
        let tick = match self.when {
            When::In(duration) => timers.tick_after(runtime::now(), duration),
            When::At(deadline) => timers.tick_of(deadline),
            When::Armed | When::ToRing => unreachable!("an armed sleep is queued"),
        };
        let rings = timers.arm(seat, clone_waker(cx.waker()), tick);
        self.when = if rings { When::ToRing } else { When::Armed };
        Poll::Pending
    }

    fn queued(&mut self) {
        if let When::ToRing = self.when {
            foreign_code();
            self.timers().alarm.wake_by_ref();
        }
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = self.host_sleep() {
            return sleep.poll(cx);
        }
        if waiter.get().state() == State::Notified {
            return Poll::Ready(());
        }
        if waiter.get().will_wake(cx.waker()) || self.timers().rearm(waiter, clone_waker(cx.waker())) {
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<()> {
        if let Home::Host(_) = self.home {
            // Dropped here and not with the future: a limit must not wake a task that has gone on.
            self.home = Home::Nowhere;
            return None;
        }
        (!self.timers().disarm(waiter)).then_some(())
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

#[cfg(test)]
mod tests;
