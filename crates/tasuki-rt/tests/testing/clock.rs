//! The clock of a simulation: it stands still while a task can run, jumps to the next deadline when none can, and has nothing of the real clock.

use crate::kit::{MS, scaled, watchdog};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tasuki::{Event, Mutex};
use tasuki_rt::testing::{Simulation, check, foreign_wakes};
use tasuki_rt::{JoinSet, checkpoint, interval, now, sleep, spawn, timeout, yield_now};

#[test]
fn time_passes_only_when_every_task_waits() {
    // Days of the simulation's clock; of this one's, what the dog allows.
    let _dog = watchdog(60);
    check(scaled(20, 2) as u64, || async {
        let day = Duration::from_secs(86_400);
        let begin = now();
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.clone();
        let long = spawn(async move {
            let _guard = held.lock().await;
            sleep(10 * day).await;
        });
        sleep(day).await;
        assert!(mutex.lock().timeout(2 * day).await.is_err());
        assert!(timeout(day, std::future::pending::<()>()).await.is_err());
        assert!(now() - begin >= 4 * day && now() - begin < 5 * day);
        long.await.unwrap();
        assert!(now() - begin >= 10 * day && now() - begin < 11 * day);
    });
}

/// Nothing of the real clock is in a run: sleeps that end in the same tick, or nearly, end in the same order each time.
#[test]
fn the_same_seed_is_the_same_run_with_short_sleeps() {
    let _dog = watchdog(60);
    let history = |seed| {
        Simulation::new(seed).run(async {
            let log: Arc<std::sync::Mutex<Vec<_>>> = Arc::default();
            let mut tasks = JoinSet::new();
            for n in 0..16 {
                let log = log.clone();
                tasks.spawn(async move {
                    sleep(Duration::from_nanos(1_000_000 - 20 * n)).await;
                    log.lock().unwrap().push(n);
                });
            }
            while tasks.join_next().await.is_some() {}
            log.lock().unwrap().clone()
        })
    };
    let first = history(7);
    assert!((0..scaled(500, 2)).all(|_| history(7) == first));
}

/// Whole milliseconds take exactly as long; what is less is rounded up, as in a runtime.
#[test]
fn time_is_exact() {
    let _dog = watchdog(60);
    check(scaled(50, 2) as u64, || async {
        let start = now();
        let elapsed = || now() - start;
        sleep(10 * MS).await;
        assert_eq!(elapsed(), 10 * MS);
        sleep(MS / 4).await;
        assert_eq!(elapsed(), 11 * MS);
        assert!(timeout(7 * MS, std::future::pending::<()>()).await.is_err());
        assert_eq!(elapsed(), 18 * MS);
        let mut ticks = interval(3 * MS);
        for _ in 0..4 {
            ticks.tick().await;
        }
        assert_eq!(elapsed(), 27 * MS);
    });
}

#[test]
fn time_passes_beside_a_task_that_yields() {
    let _dog = watchdog(60);
    for wait in [MS, Duration::from_secs(3600)] {
        Simulation::new(1).polls(scaled(100_000, 50_000) as u64).run(async move {
            let woken = Arc::new(Event::manual());
            let told = woken.clone();
            let start = now();
            drop(spawn(async move {
                sleep(wait).await;
                told.set();
            }));
            while !woken.is_set() {
                yield_now().await;
            }
            assert_eq!(now() - start, wait);
        });
    }
}

/// So it does beside one that is switched away again and again, at an operation that is ready: under every seed, whatever the loop awaits.
#[test]
#[cfg_attr(miri, ignore = "more than 10,000 polls")]
fn time_passes_beside_a_task_that_is_switched_away() {
    let _dog = watchdog(120);
    for (seed, locks) in (0..16).flat_map(|seed| [(seed, false), (seed, true)]) {
        Simulation::new(seed).polls(200_000).run(async move {
            let (flag, mutex, start) = (Arc::new(AtomicBool::new(false)), Mutex::new(()), now());
            let set = flag.clone();
            drop(spawn(async move {
                sleep(10 * MS).await;
                set.store(true, SeqCst);
            }));
            while !flag.load(SeqCst) {
                if locks {
                    drop(mutex.lock().await);
                } else {
                    checkpoint().await;
                }
            }
            assert_eq!(now() - start, 10 * MS);
        });
    }
}

/// A task that looks at the clock and yields sees it move, by whole milliseconds, whether a timer is armed or not.
#[test]
fn the_clock_moves_for_a_task_that_looks_at_it() {
    let _dog = watchdog(60);
    for (seed, sleeps) in (0..scaled(20, 1) as u64).flat_map(|seed| [(seed, false), (seed, true)]) {
        Simulation::new(seed).polls(100_000).run(async move {
            let other = sleeps.then(|| spawn(sleep(Duration::from_secs(3600))));
            let (start, wait) = (now(), MS * scaled(5, 1) as u32);
            while now() - start < wait {
                assert_eq!((now() - start).subsec_nanos() % 1_000_000, 0);
                yield_now().await;
            }
            assert_eq!(now() - start, wait);
            // The deadlines are where they were.
            sleep(10 * MS).await;
            assert_eq!(now() - start, wait + 10 * MS);
            other.into_iter().for_each(|other| other.abort());
        });
    }
}

/// A task that gets on with its work needs no time for it, wherever it is switched away.
#[test]
fn operations_that_are_ready_cost_no_time() {
    let _dog = watchdog(60);
    for seed in 0..scaled(40, 2) as u64 {
        Simulation::new(seed).run(async {
            let (mutex, start) = (Mutex::new(0), now());
            let work = async {
                for _ in 0..scaled(8_000, 200) {
                    *mutex.lock().await += 1;
                }
            };
            timeout(10 * MS, work).await.expect("nothing sleeps");
            assert_eq!(now(), start);
        });
    }
}

/// What is never is no deadline: a wait with `Duration::MAX` is a deadlock all the same, after any time.
#[test]
fn for_ever_does_not_end() {
    let _dog = watchdog(60);
    let waits = |before: Duration| {
        let run = catch_unwind(|| {
            Simulation::new(1).grace(Duration::ZERO).run(async move {
                sleep(before).await;
                let event = Event::auto();
                event.wait().timeout(Duration::MAX).await.unwrap();
            });
        });
        let message = run.unwrap_err();
        assert!(message.downcast_ref::<String>().unwrap().contains("deadlock: 1 task waits"), "{before:?}");
    };
    waits(Duration::ZERO);
    waits(Duration::from_secs(1_000 * 365 * 86_400));
}

/// The wheel says a time before the deadline where it must look again, and after a cancelled sleep: a deadline that never comes moves the clock to none of them, while a foreign thread is waited for.
#[test]
fn a_deadline_that_never_comes_does_not_move_the_clock() {
    let _dog = watchdog(60);
    let year = Duration::from_secs(365 * 86_400);
    for far in [10_000 * year, 10_000 * year + MS, 10_001 * year, 17_000 * year, 1_000_000 * year] {
        let passed = Simulation::new(1).run(async move {
            let start = now();
            drop(spawn(sleep(far)));
            assert!(timeout(year, yield_now()).await.is_ok());
            let told = Arc::new(Event::manual());
            let (tells, foreign) = (told.clone(), foreign_wakes());
            std::thread::spawn(move || {
                // Long enough for the simulation to find nothing that can run.
                std::thread::sleep(20 * MS);
                tells.set();
                drop(foreign);
            });
            told.wait().await;
            now() - start
        });
        assert_eq!(passed, Duration::ZERO, "{far:?}");
    }
}
