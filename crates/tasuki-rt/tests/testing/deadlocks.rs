//! The report of a deadlock in a simulation: which tasks wait, where, for what, and which task has it.

use crate::kit::{MS, runtime, watchdog};
use futures_util::poll;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tasuki::{Event, Mutex};
use tasuki_rt::testing::Simulation;
use tasuki_rt::{Handle, JoinSet, sleep, spawn, timeout, yield_now};

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
