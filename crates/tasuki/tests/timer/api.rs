//! Sleeps, and what turns their wheel. S2-65, S3-19, S3-21; B025, B131, B139,
//! H2, H3, H4, H5, H6, H15.

use crate::kit::driver::FakeDriver;
use crate::kit::poll::{panic_of, pending, poll, ready};
use crate::kit::rng::Seed;
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::{watchdog, watchdog_with};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::Waker;
use std::time::{Duration, Instant};
use tasuki::runtime::{self, Advanced, Sleep, Timers};
use tasuki::{Elapsed, Event};

fn wheel() -> (Arc<Timers>, Spy) {
    let alarm = Spy::new();
    let timers = Arc::new(Timers::new(alarm.waker()));
    assert_eq!(timers.advance(Instant::now()), None, "no sleep is armed");
    (timers, alarm)
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn no_time_at_all_is_over_at_once() {
    let _dog = watchdog(30);
    let (timers, alarm) = wheel();
    let driver = FakeDriver::with_timers(&timers);
    runtime::enter(&driver, || {
        ready(&mut Box::pin(runtime::sleep(Duration::ZERO)));
        ready(&mut Box::pin(runtime::sleep_until(driver.now.get())));
        ready(&mut Box::pin(runtime::sleep_until(driver.now.get() - MS)));
    });
    assert_eq!(alarm.wakes(), 0);
    assert_eq!(Arc::strong_count(&timers), 2, "the wheel was not needed");
}

#[test]
fn a_time_that_no_clock_can_say_never_comes() {
    let _dog = watchdog(30);
    let (timers, _alarm) = wheel();
    let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
    let mut sleep = driver.sleep(Duration::MAX, &spy);
    driver.pass(Duration::from_secs(1_000 * 365 * 86_400));
    pending(&mut sleep, &spy);
    assert_eq!(spy.wakes(), 0);
    drop(sleep);
    assert_eq!((spy.alive(), driver.pass(MS)), (0, None));
}

#[test]
fn the_time_begins_with_the_first_poll() {
    let _dog = watchdog(30);
    let (timers, _alarm) = wheel();
    let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
    let mut sleep = Box::pin(runtime::sleep(5 * MS));
    driver.pass(100 * MS);
    runtime::enter(&driver, || pending(&mut sleep, &spy));
    driver.pass(4 * MS);
    assert_eq!(spy.wakes(), 0);
    driver.pass(2 * MS);
    assert_eq!(spy.wakes(), 1);
    ready(&mut sleep);
    assert!(panic_of(|| poll(&mut sleep, &spy).is_ready()).contains("Sleep"), "H5");
}

/// Only a deadline that is earlier than what the turner knows of rings.
#[test]
fn an_armed_deadline_that_is_earlier_keeps_the_alarm_silent() {
    let _dog = watchdog(30);
    let (timers, alarm) = wheel();
    let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
    let _first = driver.sleep(50 * MS, &spy);
    assert_eq!(alarm.wakes(), 1);
    let _later = [(); 100].map(|()| driver.sleep(60 * MS, &spy));
    let _same = driver.sleep(50 * MS, &spy);
    assert_eq!(alarm.wakes(), 1);
    let _earlier = driver.sleep(20 * MS, &spy);
    assert_eq!(alarm.wakes(), 2);
    // The turner looks: it knows of all of them.
    driver.pass(Duration::ZERO).unwrap();
    let _between = driver.sleep(30 * MS, &spy);
    assert_eq!((alarm.wakes(), spy.wakes()), (2, 0));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    NeverPolled,
    Asleep,
    Woken,
    Finished,
}

/// H2: dropped in each state, as the first, middle and last of a slot, in a near slot and in a far one.
#[test]
fn drop_matrix() {
    let _dog = watchdog(10);
    for time in [5 * MS, Duration::from_secs(5_000)] {
        for moment in [Moment::NeverPolled, Moment::Asleep, Moment::Woken, Moment::Finished] {
            for position in 0..3 {
                let context = format!("{moment:?} at {position}, {time:?}");
                let (timers, _alarm) = wheel();
                let (driver, spies) = (FakeDriver::with_timers(&timers), [(); 3].map(|()| Spy::new()));
                let mut sleeps = Vec::new();
                for (number, spy) in spies.iter().enumerate() {
                    let skip = (number, moment) == (position, Moment::NeverPolled);
                    let sleep = if skip { Box::pin(runtime::sleep(time)) } else { driver.sleep(time, spy) };
                    sleeps.push(Some(sleep));
                }
                if matches!(moment, Moment::NeverPolled | Moment::Asleep) {
                    sleeps[position] = None;
                    assert_eq!(spies[position].alive(), 0, "{context}");
                }
                driver.pass(time + MS);
                if moment == Moment::Finished {
                    ready(sleeps[position].as_mut().unwrap());
                }
                sleeps[position] = None;
                for (number, spy) in spies.iter().enumerate() {
                    let woken = number != position || matches!(moment, Moment::Woken | Moment::Finished);
                    assert_eq!((spy.wakes(), spy.alive()), (usize::from(woken), 0), "{context}: {number}");
                }
                sleeps.iter_mut().flatten().for_each(ready);
                assert_eq!(driver.pass(time), None, "{context}: a sleep is left");
            }
        }
    }
}

/// H4, H8: many polls, changing wakers; only the last is woken.
#[test]
fn only_the_last_waker_counts() {
    let _dog = watchdog(30);
    let (timers, _alarm) = wheel();
    let driver = FakeDriver::with_timers(&timers);
    let (first, second) = (Spy::new(), Spy::new());
    let mut sleep = driver.sleep(5 * MS, &first);
    for spy in [&second, &first, &second, &second, &second] {
        pending(&mut sleep, spy);
    }
    pending(&mut sleep, &first);
    driver.pass(6 * MS);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    assert_eq!((first.alive(), second.alive()), (0, 0));
    ready(&mut sleep);
}

/// H15: wakers that panic, in different batches: all others are woken too, and the first panic goes on.
#[test]
fn a_panicking_waker_does_not_stop_the_others() {
    let _dog = watchdog(10);
    let (timers, _alarm) = wheel();
    let (driver, spies) = (FakeDriver::with_timers(&timers), [(); 100].map(|()| Spy::new()));
    let mut sleeps = spies.each_ref().map(|spy| driver.sleep(5 * MS, spy));
    for number in [0, 31, 32, 99] {
        spies[number].on(Call::Wake, move || panic!("waker {number}"));
        spies[number].arm(1);
    }
    assert_eq!(panic_of(|| driver.pass(10 * MS)), "waker 0");
    assert!(spies.iter().all(|spy| (spy.wakes(), spy.alive()) == (1, 0)));
    sleeps.iter_mut().for_each(ready);
    assert_eq!(driver.pass(MS), None);
}

/// A step wakes a bounded number; the wheel is due until the last step, and then at the next deadline.
#[test]
fn a_step_is_bounded_and_due_says_what_is_left() {
    let (timers, _alarm) = wheel();
    let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
    assert_eq!(timers.due(), None);
    let _crowd: Vec<_> = (0..100).map(|_| driver.sleep(5 * MS, &spy)).collect();
    let _later = driver.sleep(50 * MS, &spy);
    let first = timers.due().unwrap();
    let now = driver.now.get() + 7 * MS;
    let mut steps = 0;
    while timers.advance_step(now) == Advanced::More {
        assert!(timers.due() == Some(first) && spy.wakes() <= 32 * (steps + 1));
        steps += 1;
    }
    assert!(steps >= 3 && spy.wakes() == 100);
    assert!(timers.due().is_some_and(|due| due > now && due <= now + 50 * MS));
}

/// For a thread that turns a wheel until it is empty: the cancel of the last sleep rings, once that was asked for.
#[test]
fn the_last_cancel_rings_if_it_was_asked_to() {
    let (timers, alarm) = wheel();
    let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
    drop(driver.sleep(5 * MS, &spy));
    let sleeps = [driver.sleep(5 * MS, &spy), driver.sleep(9 * MS, &spy)];
    timers.ring_when_empty();
    let rung = alarm.wakes();
    let [first, last] = sleeps;
    drop(first);
    assert_eq!(alarm.wakes(), rung);
    drop(last);
    assert_eq!(alarm.wakes(), rung + 1);
    assert_eq!(driver.advance(), None);
}

/// B131: an alarm that panics leaves no sleep on the wheel that is gone.
#[test]
fn a_panicking_alarm_leaves_nothing_behind() {
    let _dog = watchdog(30);
    let (alarm, spy) = (Spy::hostile(Call::WakeByRef, || panic!("the alarm")), Spy::new());
    let timers = Arc::new(Timers::new(alarm.waker()));
    let driver = FakeDriver::with_timers(&timers);
    driver.pass(Duration::ZERO);
    let mut sleep = Box::pin(runtime::sleep(5 * MS));
    alarm.arm(1);
    runtime::enter(&driver, || assert_eq!(panic_of(|| poll(&mut sleep, &spy).is_ready()), "the alarm"));
    // It sleeps all the same, and can be cancelled like any other.
    let mut other = driver.sleep(5 * MS, &spy);
    drop(sleep);
    driver.pass(6 * MS);
    assert_eq!((spy.wakes(), spy.alive()), (1, 0));
    ready(&mut other);
}

/// H3: while the wheel is turned, a waker drops a sleep that is due, in the same batch and in a later one, gives another a new waker,
/// starts a third, and turns the wheel itself.
#[test]
fn wakers_may_call_anything() {
    let _dog = watchdog(10);
    for (dropped, in_the_same_batch) in [(1, true), (40, false), (70, false)] {
        let (timers, _alarm) = wheel();
        let driver = FakeDriver::with_timers(&timers);
        let (calm, hostile, other) = (Spy::new(), Spy::new(), Arc::new(Spy::new()));
        let mut first = driver.sleep(4 * MS, &hostile);
        let mut crowd: Vec<_> = (0..80).map(|_| Some(driver.sleep(5 * MS, &calm))).collect();
        let victims = Arc::new(StdMutex::new((crowd[dropped].take(), crowd[79].take(), None)));
        let (held, inner, wheel) = (victims.clone(), other.clone(), timers.clone());
        hostile.on(Call::Wake, move || {
            let (dropped, polled) = {
                let mut victims = held.lock().unwrap();
                (victims.0.take(), victims.1.take())
            };
            drop(dropped);
            let mut polled = polled.unwrap();
            pending(&mut polled, &inner);
            let now = FakeDriver::with_timers(&wheel);
            let mut victims = held.lock().unwrap();
            victims.1 = Some(polled);
            victims.2 = Some(now.sleep(Duration::from_secs(100_000), &inner));
            wheel.advance(now.now.get());
        });
        hostile.arm(1);
        driver.pass(6 * MS);
        assert!(hostile.fired());
        assert_eq!((calm.wakes(), calm.alive()), (78 + usize::from(in_the_same_batch), 0));
        assert_eq!((other.wakes(), other.alive()), (1, 1));
        ready(&mut first);
        crowd.iter_mut().flatten().for_each(ready);
        ready(victims.lock().unwrap().1.as_mut().unwrap());
        drop(hostile);
        drop(victims.lock().unwrap().2.take());
        assert_eq!((other.alive(), driver.pass(MS)), (0, None));
    }
}

/// H6: a sleep that is forgotten keeps its wheel, and disturbs no other.
#[test]
fn a_forgotten_sleep_keeps_its_wheel() {
    let _dog = watchdog(30);
    /// Leak checkers do not mind what a static points to.
    static FORGOTTEN: AtomicPtr<Sleep> = AtomicPtr::new(std::ptr::null_mut());
    let (timers, _alarm) = wheel();
    let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
    // SAFETY: it is neither moved nor freed.
    let forgotten = Box::into_raw(unsafe { Pin::into_inner_unchecked(driver.sleep(5 * MS, &spy)) });
    FORGOTTEN.store(forgotten, SeqCst);
    let mut sleep = driver.sleep(5 * MS, &spy);
    let weak = Arc::downgrade(&timers);
    driver.pass(6 * MS);
    ready(&mut sleep);
    drop((driver, timers, sleep));
    assert!(weak.upgrade().is_some(), "the forgotten one has it still");
}

/// Armed by a thread whose look at the clock is older than the last turn: the time is over by then, and the next turn says so.
#[test]
fn a_sleep_that_is_late_to_be_armed() {
    let _dog = watchdog(30);
    for ahead in [10, 100, 10_000, 1_000_000] {
        let (timers, alarm) = wheel();
        let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
        timers.advance(driver.now.get() + ahead * MS);
        let mut sleep = driver.sleep(5 * MS, &spy);
        assert_eq!(alarm.wakes(), 1, "the turner must know");
        timers.advance(driver.now.get() + ahead * MS);
        assert_eq!(spy.wakes(), 1, "{ahead} ms ahead");
        ready(&mut sleep);
    }
}

/// A clock that goes back, and a turner that comes late or twice.
#[test]
fn turning_back_changes_nothing() {
    let _dog = watchdog(30);
    let (timers, _alarm) = wheel();
    let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
    let start = driver.now.get();
    let mut sleep = driver.sleep(100 * MS, &spy);
    timers.advance(start + 50 * MS);
    let next = timers.advance(start).unwrap();
    assert!(next > start && next <= start + 101 * MS);
    pending(&mut sleep, &spy);
    timers.advance(start + 200 * MS);
    assert_eq!(timers.advance(start), None);
    assert_eq!(spy.wakes(), 1);
    ready(&mut sleep);
}

/// Two turners, and threads that arm and cancel: every sleep whose time has come is woken, none twice.
#[test]
fn two_turners_and_a_crowd() {
    let seed = Seed::pick();
    let _dog = watchdog_with(60, format!("TASUKI_SEED={}", seed.0));
    let timers = Arc::new(Timers::new(Waker::noop().clone()));
    let (stop, finished) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    timers.advance(Instant::now());
                    std::thread::yield_now();
                }
            });
        }
        let workers: Vec<_> = (0..2_u64)
            .map(|number| {
                let (timers, finished, mut rng) =
                    (&timers, &finished, crate::kit::rng::Rng::new(seed.0 + number));
                scope.spawn(move || {
                    let driver = FakeDriver::with_timers(timers);
                    for _ in 0..scaled(300, 5) {
                        driver.now.set(Instant::now());
                        let spy = Spy::new();
                        let begun = driver.now.get();
                        let time = Duration::from_micros(1 + rng.below(3_000) as u64);
                        let mut sleep = driver.sleep(time, &spy);
                        if rng.below(3) == 0 {
                            drop(sleep);
                        } else {
                            while spy.wakes() == 0 {
                                std::thread::yield_now();
                            }
                            assert!(begun.elapsed() >= time, "early");
                            ready(&mut sleep);
                            finished.fetch_add(1, SeqCst);
                        }
                        // A thread that advances may have the waker of a sleep that was dropped: it is about to wake it.
                        while spy.alive() > 0 {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, SeqCst);
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert!(finished.load(SeqCst) > 0);
    assert_eq!(timers.advance(Instant::now()), None);
}

/// Without a driver there is a thread for all; a waker that panics on it ends no other deadline.
#[test]
#[cfg_attr(miri, ignore = "the timer thread never ends")]
fn the_shared_thread_survives_a_panic() {
    let _dog = watchdog(60);
    let hostile = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    let mut sleep = Box::pin(runtime::sleep(5 * MS));
    // Before the poll: the deadline may have come when that returns.
    hostile.arm(1);
    pending(&mut sleep, &hostile);
    while !hostile.fired() {
        std::thread::sleep(MS);
    }
    ready(&mut sleep);
    let event = Event::auto();
    for _ in 0..3 {
        assert_eq!(event.wait().timeout(5 * MS).block(), Err(Elapsed));
    }
}

/// What the panic of a waker carries panics when it is dropped, and so does what that panic carries.
#[test]
#[cfg_attr(miri, ignore = "the shared thread never ends")]
fn the_shared_thread_survives_what_a_panic_carries() {
    struct Bomb(u8);
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Bomb(self.0.wrapping_add(1)));
        }
    }
    let _dog = watchdog(30);
    for _ in 0..3 {
        let hostile = Spy::hostile(Call::Wake, || std::panic::panic_any(Bomb(0)));
        hostile.arm(1);
        let mut sleep = Box::pin(runtime::sleep(MS));
        pending(&mut sleep, &hostile);
        while !hostile.fired() {
            std::thread::yield_now();
        }
        assert_eq!(Event::auto().wait().timeout(MS).block(), Err(Elapsed), "the thread is there");
    }
}
