//! Tests of the wheel with ticks that a real clock seldom reaches: the borders between its levels, and the largest tick.

use super::wheel::LAST_TICK;
use super::*;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use runtime::{Driver, TaskId};

/// A runtime whose clock stands still when its wheel begins, so that every later deadline is put on the wheel.
struct Standing(Arc<Timers>);

impl Driver for Standing {
    fn task(&self) -> Option<TaskId> {
        None
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        Some(self.0.clone())
    }

    fn may_block(&self) -> bool {
        true
    }

    fn now(&self) -> Instant {
        self.0.start
    }
}

impl Standing {
    fn new() -> Self {
        Self(Arc::new(Timers::new(Waker::noop().clone())))
    }

    fn at(&self, tick: u64) -> Instant {
        self.0.start + Duration::from_millis(tick)
    }

    fn arm(&self, sleep: Sleep) -> Pin<Box<Sleep>> {
        let mut sleep = Box::pin(sleep);
        runtime::enter(self, || assert!(!is_over(&mut sleep)));
        sleep
    }

    /// As [`Timers::advance`], in ticks.
    fn advance(&self, tick: u64) -> Option<u64> {
        let next = self.0.advance(self.at(tick))?;
        Some(u64::try_from((next - self.0.start).as_millis()).unwrap())
    }
}

fn is_over(sleep: &mut Pin<Box<Sleep>>) -> bool {
    sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A tick near a border: of a slot of any level, of the present, of the end of time, or far behind it.
    fn tick(&mut self, present: u64) -> u64 {
        let near = self.next() % 5;
        let level = 6 * (self.next() % 11) as u32;
        let border = match self.next() % 5 {
            0 => (1 << level) * (self.next() % 64).min((LAST_TICK >> level) + 2),
            1 => (present >> level << level) + (1 << level),
            2 => LAST_TICK,
            3 => present,
            _ => [LAST_TICK * 2, LAST_TICK * 7][(self.next() % 2) as usize],
        };
        (border + near).saturating_sub(2)
    }
}

/// A deadline is rounded up to a tick, the present down: nothing is early.
#[test]
fn ticks_are_milliseconds() {
    let timers = Timers::new(Waker::noop().clone());
    let ms = |ms, ns| timers.start + Duration::from_millis(ms) + Duration::from_nanos(ns);
    let cases = [(0, 0), (0, 1), (0, 999_999), (1, 0), (999, 999_999), (1_000, 0), (61_234, 1)];
    for (whole, rest) in cases {
        let time = ms(whole, rest);
        assert_eq!(timers.tick_of(time), whole + u64::from(rest > 0), "{whole} {rest}");
        assert_eq!(timers.tick_after(time, Duration::from_millis(5)), timers.tick_of(time) + 5);
        assert_eq!(timers.last_tick_at(time), whole, "{whole} {rest}");
    }
    for now in [timers.start, timers.start - Duration::from_secs(1)] {
        assert_eq!(timers.tick_after(now, Duration::MAX), NEVER);
        assert_eq!(timers.tick_after(now, Duration::from_secs(u64::MAX / 4)), NEVER);
    }
    assert_eq!(timers.tick_of(ms(LAST_TICK, 0)), LAST_TICK);
    assert_eq!(timers.tick_of(ms(LAST_TICK, 1)), NEVER);
    let behind = timers.start - Duration::from_millis(300);
    assert_eq!(timers.tick_after(behind, Duration::from_millis(200)), 0, "due at once");
    assert_eq!(timers.tick_after(behind, Duration::from_millis(500)), 200);
}

/// Whatever the clock says, and wherever sleeps are: those that are due end with the next turn, no other does, and the turner
/// is told to come back before the next one is due, or not at all.
#[test]
fn the_wheel_is_right_at_every_border() {
    let rounds = if cfg!(miri) { 2 } else { 2_000 };
    for seed in 0..rounds {
        let mut rng = Rng(seed);
        let world = Standing::new();
        let (mut present, mut sleeps) = (0, Vec::new());
        for step in 0..if cfg!(miri) { 12 } else { 40 } {
            match rng.next() % 4 {
                0 | 1 => {
                    let due = rng.tick(present).max(1);
                    sleeps.push((due, world.arm(sleep_until(world.at(due)))));
                }
                2 if !sleeps.is_empty() => {
                    let _cancelled = sleeps.swap_remove(rng.next() as usize % sleeps.len());
                }
                _ => {
                    let to = rng.tick(present);
                    let next = world.advance(to);
                    present = present.max(to.min(LAST_TICK));
                    sleeps.retain_mut(|(due, sleep)| {
                        let over = is_over(sleep);
                        assert_eq!(over, *due <= present, "due {due:#x}, now {present:#x}; {seed} {step}");
                        !over
                    });
                    let first = sleeps.iter().map(|(due, _)| *due).filter(|due| *due <= LAST_TICK).min();
                    assert_eq!(next.is_some(), first.is_some(), "now {present:#x}; {seed} {step}");
                    if let (Some(next), Some(first)) = (next, first) {
                        assert!(present < next && next <= first, "{present:#x} {next:#x} {first:#x}");
                    }
                }
            }
        }
    }
}

/// What is due after the last tick never is, also when the clock is there; and wakes no turner.
#[test]
fn for_ever_is_no_tick() {
    let world = Standing::new();
    let mut forever = [Duration::MAX, Duration::from_millis(NEVER)].map(|time| world.arm(sleep(time)));
    assert_eq!(world.advance(5), None);
    let mut last = world.arm(sleep(Duration::from_millis(LAST_TICK)));
    assert!(world.advance(LAST_TICK - 1).is_some() && !is_over(&mut last));
    assert_eq!(world.advance(LAST_TICK), None);
    assert!(is_over(&mut last));
    assert_eq!(world.advance(NEVER + 1_000), None);
    assert!(!forever.iter_mut().any(is_over));
    let mut past = world.arm(sleep(Duration::from_secs(1)));
    assert_eq!(world.advance(0), None, "time does not go back, and this is due");
    assert!(is_over(&mut past));
}

/// The owner of a wheel without sleeps may move it, and its rings find themselves again. Miri knows.
#[test]
fn a_wheel_that_was_used_can_be_moved() {
    #[inline(never)]
    fn moved(timers: Timers) -> Timers {
        core::hint::black_box(timers)
    }
    let mut world = Standing::new();
    for _ in 0..3 {
        let sleeps = [1, 1, 70, LAST_TICK, NEVER].map(|due| world.arm(sleep(Duration::from_millis(due))));
        world.advance(3);
        drop(sleeps);
        let timers = Arc::try_unwrap(world.0).expect("no sleep holds it");
        world = Standing(Arc::new(moved(*Box::new(timers))));
    }
}

/// Behind the end of its clock a sleep is for ever: the wheel does not ask to be turned for it, at whatever border of its levels the end is.
#[test]
fn a_clock_that_ends() {
    for end in [1, 63, 64, 65, 4_096, 4_097, 1 << 48, (1 << 48) + 1] {
        let timers = Timers::new(Waker::noop().clone()).ending_after(Duration::from_millis(end));
        let clock = Standing(Arc::new(timers));
        let mut last = (end > 1).then(|| clock.arm(sleep_until(clock.at(end - 1))));
        let mut never = [end, end + 1, 2 * end, 100 * end].map(|tick| clock.arm(sleep_until(clock.at(tick))));
        let mut now = 0;
        while let Some(next) = clock.advance(now) {
            assert!(now < next && next < end, "{now} {next} {end}");
            now = next;
        }
        assert!(last.iter_mut().all(is_over), "{end}");
        assert_eq!(clock.advance(200 * end), None);
        assert!(!never.iter_mut().any(is_over), "{end}");
    }
}
