//! The wheel against a list: sleeps come, are cancelled and change their wakers, the clock goes on in steps and in leaps.
//! No sleep ends early, every one that is due has ended, and a turner that sleeps until the wheel said misses nothing.
//! S3-19, S2-65; H9, H14. `TASUKI_SEED` repeats a run.

use crate::kit::driver::FakeDriver;
use crate::kit::poll::{pending, ready};
use crate::kit::rng::{Rng, Seed};
use crate::kit::scaled;
use crate::kit::waker::Spy;
use crate::kit::watchdog::{watchdog, watchdog_with};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tasuki::runtime::{self, Sleep, Timers};

/// What a sleep may be late: it ends with the first tick that is not before its deadline.
const TICK: Duration = Duration::from_millis(1);

/// A sleeping waiter.
struct Sleeper {
    sleep: Pin<Box<Sleep>>,
    spy: Spy,
    deadline: Instant,
}

/// The wheel, and what it should do.
struct World {
    clock: FakeDriver,
    alarm: Spy,
    sleepers: Vec<Sleeper>,
    /// When the wheel said to come back; none: when the alarm rings.
    promised: Option<Instant>,
    /// By how much it may be less: after a ring the wheel wants to be turned at a tick that is not told.
    vague: Duration,
    rung: usize,
}

impl World {
    fn new() -> Self {
        let alarm = Spy::new();
        let timers = Arc::new(Timers::new(alarm.waker()));
        let clock = FakeDriver::with_timers(&timers);
        let mut world =
            Self { clock, alarm, sleepers: Vec::new(), promised: None, vague: Duration::ZERO, rung: 0 };
        world.advance(Duration::ZERO);
        world
    }

    fn sleep_for(&mut self, time: Duration) {
        let deadline = self.clock.now.get() + time;
        let mut sleep = Box::pin(runtime::sleep_until(deadline));
        let spy = Spy::new();
        let armed = runtime::enter(&self.clock, || crate::kit::poll::poll(&mut sleep, &spy).is_pending());
        assert_eq!(armed, time > Duration::ZERO, "what is past needs no wheel");
        if armed {
            self.check_alarm(deadline);
            self.sleepers.push(Sleeper { sleep, spy, deadline });
        }
    }

    /// It rings if the wheel must be turned earlier than it said, and only then.
    fn check_alarm(&mut self, deadline: Instant) {
        let rung = self.alarm.wakes() - std::mem::replace(&mut self.rung, self.alarm.wakes());
        match self.promised {
            Some(promised) if promised <= deadline => assert_eq!(rung, 0, "the turner is woken for nothing"),
            Some(promised) if promised - self.vague < deadline + TICK => {}
            _ => assert_eq!(rung, 1, "the turner comes too late"),
        }
        if rung > 0 {
            (self.promised, self.vague) = (Some(deadline + TICK), TICK);
        }
    }

    fn cancel(&mut self, at: usize) {
        let Sleeper { sleep, spy, .. } = self.sleepers.swap_remove(at);
        drop(sleep);
        assert_eq!((spy.wakes(), spy.alive()), (0, 0), "cancelled in time");
    }

    /// Another waker, which is then the one that counts.
    fn change_waker(&mut self, at: usize) {
        let sleeper = &mut self.sleepers[at];
        let spy = Spy::new();
        pending(&mut sleeper.sleep, &spy);
        let old = std::mem::replace(&mut sleeper.spy, spy);
        assert_eq!((old.wakes(), old.alive()), (0, 0));
    }

    /// The clock goes on, and the wheel is turned.
    fn advance(&mut self, by: Duration) {
        let promised = self.clock.pass(by);
        let now = self.clock.now.get();
        let mut earliest = None;
        self.sleepers.retain_mut(|sleeper| {
            let woken = sleeper.spy.wakes();
            assert!(woken <= 1, "woken {woken} times");
            assert!(woken == 0 || sleeper.deadline <= now, "early by {:?}", sleeper.deadline - now);
            assert!(woken == 1 || now < sleeper.deadline + TICK, "late by {:?}", now - sleeper.deadline);
            if woken == 1 {
                ready(&mut sleeper.sleep);
                assert_eq!(sleeper.spy.alive(), 0);
                return false;
            }
            let deadline = sleeper.deadline;
            earliest = Some(earliest.map_or(deadline, |first: Instant| first.min(deadline)));
            true
        });
        if let Some(earliest) = earliest {
            let promised = promised.expect("a sleep is armed");
            assert!(promised > now, "it would be turned without an end");
            assert!(promised <= earliest + TICK, "it would be turned too late, by {:?}", promised - earliest);
        }
        (self.promised, self.vague) = (promised, Duration::ZERO);
    }

    /// As a turner does: sleeps until the wheel said, and turns it, until no sleep is armed; how often.
    fn turn_until_empty(&mut self) -> usize {
        let mut turns = 0;
        while !self.sleepers.is_empty() {
            let promised = self.promised.expect("a sleep is armed");
            self.advance(promised - self.clock.now.get());
            turns += 1;
        }
        turns
    }
}

/// Times of every size, with a preference for borders of the wheel.
fn some_time(rng: &mut Rng) -> Duration {
    let millis = match rng.below(8) {
        0 => rng.below(3) as u64,
        1 | 2 => rng.below(130) as u64,
        3 | 4 => rng.below(10_000) as u64,
        5 => rng.below(100_000_000) as u64,
        6 => (1_u64 << (6 * rng.below(6))).saturating_sub(1) + rng.below(3) as u64,
        _ => rng.next() % (100 * 365 * 86_400_000),
    };
    Duration::from_millis(millis) + Duration::from_nanos(rng.below(1_000_000) as u64 * (rng.below(2) as u64))
}

#[test]
fn the_wheel_is_a_list() {
    let seed = Seed::pick();
    let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
    let mut rng = seed.rng();
    for _ in 0..scaled(200, 1) {
        let mut world = World::new();
        for _ in 0..scaled(1_000, 60) {
            match rng.below(10) {
                0..4 => world.sleep_for(some_time(&mut rng)),
                4 if !world.sleepers.is_empty() => world.cancel(rng.below(world.sleepers.len())),
                5 if !world.sleepers.is_empty() => world.change_waker(rng.below(world.sleepers.len())),
                6 => {
                    if let Some(promised) = world.promised {
                        world.advance(promised.saturating_duration_since(world.clock.now.get()));
                    }
                }
                7 => world.advance(some_time(&mut rng)),
                _ => world.advance(Duration::from_micros(rng.below(3_000) as u64)),
            }
        }
        world.turn_until_empty();
    }
}

/// Two sleeps of one slot of a higher level, the later first: when they move down, the earlier is not forgotten.
#[test]
fn neighbours_in_a_coarse_slot_keep_their_times() {
    let _dog = watchdog(10);
    for (later, earlier) in [(114, 69), (64 * 64 + 50, 64 * 64 + 5), (64 * 65 + 1, 64 * 64 + 1)] {
        let mut world = World::new();
        world.sleep_for(Duration::from_millis(later));
        world.sleep_for(Duration::from_millis(earlier));
        world.turn_until_empty();
    }
}

/// Each is moved at most once a level, so that the turns are few however far away the deadline is.
#[test]
fn a_far_deadline_costs_few_turns() {
    let _dog = watchdog(10);
    for years in [1, 100, 10_000] {
        let mut world = World::new();
        world.sleep_for(Duration::from_secs(years * 365 * 86_400 + 12_345));
        let turns = world.turn_until_empty();
        assert!(turns <= 12, "{turns} turns");
    }
}

/// Deadlines that are cancelled leave marks in the wheel; they do no harm, and cost at most a turn each.
#[test]
fn marks_of_the_cancelled_do_no_harm() {
    let _dog = watchdog(10);
    let mut world = World::new();
    for round in 0..20 {
        for time in 0..50 {
            world.sleep_for(Duration::from_millis(1 + time * 37 % (60 + round)));
        }
        world.sleep_for(Duration::from_millis(500));
        while world.sleepers.len() > 1 {
            world.cancel(0);
        }
        let turns = world.turn_until_empty();
        assert!(turns <= 64 + 12, "{turns} turns");
    }
}

/// 100,000 at once: in, half of them out again, and the others to their ends.
#[test]
fn a_hundred_thousand() {
    let _dog = watchdog(60);
    let count = scaled(100_000, 100) as u64;
    let mut world = World::new();
    for number in 0..count {
        world.sleep_for(Duration::from_millis(1 + number * 7919 % 500_000));
    }
    assert!(world.alarm.wakes() < 64, "{} rings for {count} sleeps", world.alarm.wakes());
    for _ in 0..count / 2 {
        world.cancel(world.sleepers.len() / 2);
    }
    // In leaps: the list that checks it is slow.
    while !world.sleepers.is_empty() {
        world.advance(Duration::from_millis(20_000));
    }
}
