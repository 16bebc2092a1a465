//! The simulation: the same seed, the same run; failures that are seen, named, repeated and made smaller. Its clock is in `clock.rs`, what it
//! finds in `planted.rs`, how that is repeated in `replays.rs`, what counts as a failure in `failures.rs`.

use crate::kit::{MS, runtime, scaled, watchdog};
use futures_util::poll;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::cell::RefCell;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tasuki::{Event, Mutex, Semaphore};
use tasuki_rt::testing::{ForeignWakes, Simulation, check, foreign_wakes};
use tasuki_rt::{
    EventLoop, Handle, JoinHandle, JoinSet, WorkerId, checkpoint, sleep, spawn, spawn_blocking, spawn_local,
    spawn_on, timeout, yield_now,
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
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("deadlock: 2 tasks wait"), "{message}");
    let line = |task| message.lines().find(|line| line.contains(task)).unwrap();
    // With debug assertions the locks and their holders are known too.
    let holder = |text| !cfg!(debug_assertions) || line(text).contains("for the mutex made at");
    assert!(holder("task 0 (the test) waits") && holder("task 1 (spawned at"), "{message}");
    assert!(line("task 1 (spawned at").contains(file!()), "{message}");
    // The same report as outside of a simulation.
    let cycle = message.contains("\ndeadlock: 2 tasks wait for each other\n  task 0 (the test) waits at ");
    assert!(!cfg!(debug_assertions) || cycle, "{message}");
}

/// The report of a test that hangs.
fn deadlock<F: Future<Output: 'static> + 'static>(test: F) -> String {
    let run = AssertUnwindSafe(|| Simulation::new(7).grace(Duration::ZERO).run(test));
    let stuck = catch_unwind(run).map(drop).expect_err("it hangs");
    stuck.downcast_ref::<String>().expect("a report").clone()
}

/// What a task waits for that is no lock.
#[test]
fn a_deadlock_names_the_task_that_is_joined() {
    let _dog = watchdog(60);
    let message = deadlock(async { spawn(pending::<()>()).await.unwrap() });
    assert!(message.contains("task 0 (the test) waits for task 1 to end"), "{message}");
}

/// All members that have not ended, and nothing of the wait inside.
#[test]
fn a_deadlock_names_the_tasks_of_a_set_that_is_waited_for() {
    let _dog = watchdog(60);
    let message = deadlock(async {
        let mut set = JoinSet::new();
        set.spawn(pending::<()>());
        set.spawn(async {});
        set.spawn(pending::<()>());
        while set.join_next().await.is_some() {}
    });
    let mut lines: Vec<_> = message.lines().filter(|line| line.contains("task 0 (the test)")).collect();
    lines.sort_unstable();
    let waits = [1, 3].map(|task| format!("  task 0 (the test) waits for task {task} to end"));
    assert_eq!(lines, waits, "{message}");
}

/// A handle that was dropped, or a set, is waited for no more: also if the task has not returned since.
#[test]
fn a_deadlock_names_no_task_that_was_joined_before() {
    let _dog = watchdog(60);
    async fn waits_for_an_event() {
        let event = Event::auto();
        event.wait().await;
    }
    let handle = deadlock(async {
        timeout(MS, spawn(pending::<()>())).await.unwrap_err();
        waits_for_an_event().await;
    });
    let set = deadlock(async {
        let mut set = JoinSet::new();
        set.spawn(pending::<()>());
        timeout(MS, set.join_next()).await.unwrap_err();
        waits_for_an_event().await;
    });
    for message in [handle, set] {
        assert!(message.contains("2 tasks wait") && !message.contains(" to end"), "{message}");
    }
}

/// Handles that a set of futures has polled before its last poll: the report said that their task waits for something unknown.
#[test]
fn a_deadlock_names_the_tasks_that_a_set_of_futures_joins() {
    let _dog = watchdog(60);
    let message = deadlock(async {
        let tasks = [spawn(pending::<()>()), spawn(yield_now()), spawn(pending())];
        let mut tasks: FuturesUnordered<_> = tasks.into_iter().collect();
        while tasks.next().await.is_some() {}
    });
    let lines: Vec<_> = message.lines().filter(|line| line.contains("task 0 (the test)")).collect();
    let waits = [1, 3].map(|task| format!("  task 0 (the test) waits for task {task} to end"));
    assert_eq!(lines, waits, "{message}");
}

/// The last task that has polled a handle waits for its task, and no other one.
#[test]
fn a_deadlock_names_the_task_that_has_the_handle_now() {
    let _dog = watchdog(60);
    let message = deadlock(async {
        let mut handle = spawn(pending::<()>());
        assert!(poll!(&mut handle).is_pending());
        spawn(async { handle.await.unwrap() }).await.unwrap();
    });
    assert!(!message.contains("task 0 (the test) waits for task 1 to end"), "{message}");
    assert!(
        message.lines().any(|line| line.contains("task 2 ") && line.contains("for task 1 to end")),
        "{message}"
    );
}

/// The task that took a lock, though it has ended and left its guard to another one.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "told with debug assertions only")]
fn a_deadlock_names_a_holder_that_has_ended() {
    let _dog = watchdog(60);
    let message = deadlock(async {
        let lock = Arc::new(Mutex::new(()));
        let _guard = spawn(lock.clone().lock_owned()).await.unwrap();
        drop(lock.lock().await);
    });
    let line = message.lines().find(|line| line.contains("task 0 (the test) waits at ")).unwrap();
    assert!(
        line.contains(", which task 1 (spawned at ") && line.contains("), now ended, took at "),
        "{message}"
    );
}

/// Where a task was spawned, also by a foreign thread; and of one that is not of the simulation, that it is none.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "told with debug assertions only")]
fn a_deadlock_names_the_tasks_of_foreign_threads() {
    let _dog = watchdog(60);
    let message = deadlock(async {
        let handle = Handle::current();
        let spawns = std::thread::spawn(move || handle.spawn(pending::<()>()));
        spawns.join().unwrap().await.unwrap();
    });
    assert!(message.contains("\n  task 1 (spawned at ") && message.contains(file!()), "{message}");
    let elsewhere = runtime(1);
    let message = deadlock(elsewhere.spawn(pending::<()>()));
    assert!(message.contains("waits for a task that no virtual worker runs to end"), "{message}");
}

/// What a task waits for that is neither, by its name; several things at once; and not what it has got meanwhile.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "told with debug assertions only")]
fn a_deadlock_names_everything_that_a_task_waits_for() {
    let _dog = watchdog(60);
    let stuck = catch_unwind(|| {
        Simulation::new(7).grace(Duration::ZERO).run(async {
            let (event, held, free) = (Event::auto(), Mutex::new(()), Mutex::new(()));
            let _guard = held.lock().await;
            let first = free.lock().await;
            let mut waits = [Box::pin(held.lock()), Box::pin(free.lock())];
            let mut signal = Box::pin(event.wait());
            let mut first = Some(first);
            std::future::poll_fn(|cx| {
                let _ = signal.as_mut().poll(cx);
                for wait in &mut waits {
                    if let Poll::Ready(guard) = wait.as_mut().poll(cx) {
                        std::mem::forget(guard);
                    }
                }
                first = None;
                Poll::<()>::Pending
            })
            .await;
        });
    });
    let message = stuck.unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    let lines: Vec<&str> =
        message.lines().filter(|line| line.contains("task 0 (the test) waits at ")).collect();
    // In the order of their places.
    assert!(lines.len() == 2 && lines[0].contains("which this task took at "), "{message}");
    assert!(lines[1].ends_with("in `tasuki::future::WaitEvent`"), "{message}");
    assert!(lines.iter().all(|line| line.contains(file!())), "{message}");
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
