//! The simulation: the same seed, the same run; failures that are seen. Its clock is in `clock.rs`, reports of deadlocks in `deadlocks.rs`, what it
//! finds in `planted.rs`, how that is repeated in `replays.rs`, what counts as a failure in `failures.rs`.

use crate::kit::{MS, scaled, watchdog};
use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tasuki::{Event, Semaphore};
use tasuki_rt::testing::{ForeignWakes, Simulation, check, foreign_wakes};
use tasuki_rt::{
    EventLoop, JoinHandle, WorkerId, checkpoint, sleep, spawn, spawn_blocking, spawn_local, spawn_on,
    yield_now,
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
fn posts_keep_their_order() {
    let _dog = watchdog(60);
    for seed in 0..scaled(50, 2) as u64 {
        let order = Simulation::new(seed).workers(2).run(async {
            let there = EventLoop::current().unwrap();
            let log: Arc<std::sync::Mutex<Vec<_>>> = Arc::default();
            for n in 0..5 {
                let log = log.clone();
                there.post(move || log.lock().unwrap().push(n)).unwrap();
                checkpoint().await;
            }
            sleep(MS).await;
            log.lock().unwrap().clone()
        });
        assert_eq!(order, [0, 1, 2, 3, 4], "seed {seed}");
    }
}

/// What has not run when the test ends is dropped where it would have run, as by a worker that leaves: a task on its loop, a closure on that which it was posted to.
#[test]
fn what_is_left_is_dropped_on_its_loop() {
    struct NotesLoop(Arc<std::sync::Mutex<Vec<(usize, usize)>>>, usize);
    impl Drop for NotesLoop {
        fn drop(&mut self) {
            self.0.lock().unwrap().push((self.1, EventLoop::current().unwrap().id().index()));
        }
    }
    for seed in 0..scaled(20, 2) as u64 {
        let dropped: Arc<std::sync::Mutex<Vec<_>>> = Arc::default();
        let of = |worker| NotesLoop(dropped.clone(), worker);
        let left: Vec<_> = (0..4).map(|worker| (worker, [of(worker), of(worker)])).collect();
        Simulation::new(seed).run(async {
            let mut loops = Vec::new();
            for (worker, [posted, owned]) in left {
                let there = spawn_on(WorkerId::new(worker), || async { EventLoop::current().unwrap() });
                loops.push((there.await.unwrap(), posted));
                drop(spawn_on(WorkerId::new(worker), move || async move {
                    let _owned = owned;
                    pending::<()>().await;
                }));
            }
            for (there, posted) in loops {
                there.post(move || std::mem::forget(posted)).unwrap();
            }
        });
        let dropped = dropped.lock().unwrap();
        assert!(dropped.len() >= 4 && dropped.iter().all(|(of, on)| of == on), "seed {seed}: {dropped:?}");
    }
}

/// An error that is looked at is no failure; one that is not is, whenever the handle is dropped.
#[test]
fn a_panic_that_is_not_observed_fails_the_test() {
    let _dog = watchdog(60);
    let fails = |drops: fn(JoinHandle<()>) -> Option<JoinHandle<()>>| {
        let run = catch_unwind(|| {
            check(3, move || async move {
                let kept = drops(spawn(async { panic!("an assertion in a task") }));
                sleep(MS).await;
                drop(kept);
            });
        });
        run.unwrap_err().downcast_ref::<&str>().copied() == Some("an assertion in a task")
    };
    assert!(fails(|handle| {
        drop(handle);
        None
    }));
    assert!(fails(Some), "dropped with the panic inside");
    let posted = catch_unwind(|| {
        check(1, || async {
            EventLoop::current().unwrap().post(|| panic!("in a closure")).unwrap();
            sleep(MS).await;
        });
    });
    assert!(posted.is_err());
    check(3, || async { assert!(spawn(async { panic!("seen") }).await.unwrap_err().is_panic()) });
}

/// So does an assertion in a destructor, also at the end of the test, when tasks and closures are dropped that have not ended.
#[test]
fn a_destructor_that_panics_fails_the_test() {
    struct Asserts;
    impl Drop for Asserts {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "in a destructor");
        }
    }
    async fn holds(_: Asserts) {
        pending::<()>().await;
    }
    let _dog = watchdog(60);
    let fails = |drops: fn()| {
        let run = catch_unwind(|| Simulation::new(1).run(async move { drops() }));
        run.is_err_and(|payload| payload.downcast_ref() == Some(&"in a destructor"))
    };
    assert!(fails(|| drop(spawn(holds(Asserts)))), "not polled");
    assert!(fails(|| {
        let asserts = Asserts;
        EventLoop::current().unwrap().post(move || drop(asserts)).unwrap();
    }));
    let ended = |output: fn()| {
        catch_unwind(|| {
            Simulation::new(1).run(async move {
                output();
                sleep(MS).await;
            });
        })
        .is_err()
    };
    assert!(ended(|| drop(spawn(holds(Asserts)))), "it waits");
    assert!(ended(|| drop(spawn(async { Asserts }))), "an output");
    assert!(!ended(|| drop(spawn(async {}))));
    // The handle of an aborted task gives the panic out.
    Simulation::new(1).run(async {
        let task = spawn(holds(Asserts));
        sleep(MS).await;
        task.abort();
        assert!(task.await.unwrap_err().is_panic());
    });
}

/// A foreign thread is waited for: a second without a word, as long as it takes with one.
#[test]
fn a_wait_for_a_foreign_thread_is_no_deadlock() {
    let _dog = watchdog(60);
    fn wakes(told: Arc<Event>, after: Duration, guard: Option<ForeignWakes>) {
        std::thread::spawn(move || {
            std::thread::sleep(after);
            told.set();
            drop(guard);
        });
    }
    Simulation::new(1).run(async {
        let event = Arc::new(Event::manual());
        wakes(event.clone(), 30 * MS, None);
        event.wait().await;
    });
    Simulation::new(1).grace(Duration::ZERO).run(async {
        let event = Arc::new(Event::manual());
        wakes(event.clone(), 30 * MS, Some(foreign_wakes()));
        event.wait().await;
    });
}

#[test]
fn a_test_that_does_not_end_fails() {
    let _dog = watchdog(60);
    let endless = catch_unwind(|| {
        Simulation::new(1).polls(1_000).run(async {
            loop {
                yield_now().await;
            }
        });
    });
    let message = endless.unwrap_err();
    assert!(message.downcast_ref::<String>().unwrap().contains("not ended after 1000 polls"));
}

/// A race that some schedules lose is found, and what is printed repeats it.
#[test]
#[cfg_attr(miri, ignore = "starts a program")]
fn a_race_is_found_and_what_is_printed_repeats_it() {
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
    let run = |told: Option<(&str, &str)>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "testing::api::a_race_is_found_and_what_is_printed_repeats_it", "--nocapture"])
            .env(ASKED, "1");
        command.env_remove("TASUKI_SEED").env_remove("TASUKI_SCHEDULE").envs(told);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "the race must be found");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let first = run(None);
    for name in ["TASUKI_SEED", "TASUKI_SCHEDULE"] {
        let found = first.split(&format!("{name}=")).nth(1).expect("it is printed");
        let found = found.split_whitespace().next().unwrap();
        assert!(run(Some((name, found))).contains(&format!("{name}={found}")));
    }
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

/// Any depth is one: it ended the test with a capacity that overflows, or took the memory of the machine.
#[test]
fn any_depth_is_a_depth() {
    for depth in [0, 1, 4_096, usize::MAX] {
        Simulation::new(7).depth(depth).run(async {
            let tasks: Vec<_> = (0..3).map(|_| tasuki_rt::spawn(tasuki_rt::yield_now())).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}
