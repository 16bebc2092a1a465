//! The deterministic mode: the same seed, the same run; time that jumps; deadlocks that are seen.

mod kit;

use kit::{scaled, watchdog};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tasuki::{Event, Mutex, Semaphore};
use tasuki_rt::testing::{Simulation, check};
use tasuki_rt::{
    EventLoop, WorkerId, now, sleep, spawn, spawn_blocking, spawn_local, spawn_on, timeout, yield_now,
};

/// What happened, in order.
fn history(seed: u64) -> Vec<(usize, usize)> {
    Simulation::new(seed).run(async {
        let log: Arc<std::sync::Mutex<Vec<_>>> = Arc::default();
        let tasks: Vec<_> = (0..6)
            .map(|n| {
                let log = log.clone();
                spawn(async move {
                    for _ in 0..3 {
                        let here = EventLoop::current().unwrap().id().index();
                        log.lock().unwrap().push((n, here));
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        Arc::into_inner(log).unwrap().into_inner().unwrap()
    })
}

#[test]
fn the_same_seed_is_the_same_run() {
    let _dog = watchdog(60);
    const RUNS: u64 = scaled(50, 3) as u64;
    let runs: Vec<_> = (0..RUNS).map(history).collect();
    assert!((0..RUNS).all(|seed| runs[seed as usize] == history(seed)));
    let mut different = runs.clone();
    different.sort();
    different.dedup();
    assert!(different.len() > scaled(40, 1), "only {} different runs of {RUNS}", different.len());
}

#[test]
fn time_passes_only_when_everybody_waits() {
    let _dog = watchdog(60);
    let start = Instant::now();
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
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_deadlock_is_a_failure_with_a_seed() {
    let _dog = watchdog(60);
    let stuck = catch_unwind(|| {
        Simulation::new(7).run(async {
            let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let (c, d) = (a.clone(), b.clone());
            let guard = a.lock().await;
            let other = spawn(async move {
                let _second = d.lock().await;
                let _first = c.lock().await;
            });
            sleep(Duration::from_secs(1)).await;
            let _second = b.lock().await;
            drop(guard);
            other.await.unwrap();
        });
    });
    let message = stuck.unwrap_err();
    assert!(message.downcast_ref::<String>().unwrap().contains("deadlock: 2 tasks wait"));
}

/// A race that some schedules lose is found, and what is printed repeats it.
#[test]
#[cfg_attr(miri, ignore = "starts a program")]
fn a_race_is_found_and_its_seed_is_printed() {
    const ASKED: &str = "TASUKI_TESTING_RACE";
    let _dog = watchdog(120);
    if std::env::var_os(ASKED).is_some() {
        check(500, || async {
            let count = Arc::new(std::sync::Mutex::new(0));
            let add = |count: Arc<std::sync::Mutex<i32>>| async move {
                let read = *count.lock().unwrap();
                yield_now().await;
                *count.lock().unwrap() = read + 1;
            };
            let (one, two) = (spawn(add(count.clone())), spawn(add(count.clone())));
            one.await.unwrap();
            two.await.unwrap();
            assert_eq!(*count.lock().unwrap(), 2);
        });
        return;
    }
    let run = |seed: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_race_is_found_and_its_seed_is_printed", "--nocapture"]).env(ASKED, "1");
        command.env_remove("TASUKI_SEED").envs(seed.map(|seed| ("TASUKI_SEED", seed)));
        let output = command.output().unwrap();
        assert!(!output.status.success(), "the race must be found");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let first = run(None);
    let seed =
        first.split("TASUKI_SEED=").nth(1).expect("the seed is printed").split_whitespace().next().unwrap();
    assert!(run(Some(seed)).contains(&format!("TASUKI_SEED={seed}")));
}

#[test]
fn everything_works_in_a_simulation() {
    let _dog = watchdog(60);
    check(scaled(30, 2) as u64, || async {
        let shared = Rc::new(RefCell::new(0));
        let inner = shared.clone();
        spawn_local(async move { *inner.borrow_mut() += 1 }).await.unwrap();
        assert_eq!(*shared.borrow(), 1);
        let there = spawn_on(WorkerId::new(2), || async { EventLoop::current().unwrap() }).await.unwrap();
        assert_eq!(there.id(), WorkerId::new(2));
        let posted = Arc::new(Event::auto());
        let tell = posted.clone();
        there
            .post(move || {
                assert_eq!(EventLoop::current().unwrap().id(), WorkerId::new(2));
                tell.set();
            })
            .unwrap();
        posted.wait().await;
        assert_eq!(spawn_blocking(|| 4).await.unwrap(), 4);
        let permits = Semaphore::new(1);
        let _permit = permits.acquire().await.unwrap();
        assert!(permits.acquire().timeout(Duration::from_secs(1)).await.is_err());
        assert!(spawn(async { panic!("in a simulation") }).await.is_err());
        // Left behind, and dropped with the simulation.
        drop(spawn(std::future::pending::<()>()));
    });
    let nested =
        catch_unwind(AssertUnwindSafe(|| Simulation::new(1).run(async { Simulation::new(2).run(async {}) })));
    assert!(nested.is_err());
}
