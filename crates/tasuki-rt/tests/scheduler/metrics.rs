//! Metrics: what is counted is what happened, as far as it cannot be otherwise.

use crate::kit::{MS, runtime, scaled, until, watchdog};
use std::future::pending;
use std::sync::Arc;
use tasuki::Event;
use tasuki_rt::testing::Simulation;
use tasuki_rt::{EventLoop, Handle, Runtime, WorkerId, sleep, spawn, yield_now};

/// Before the start nothing moves, so every number is known.
#[test]
fn queues_of_a_runtime_that_was_not_started() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    for _ in 0..3 {
        drop(runtime.spawn(async {}));
    }
    drop(runtime.spawn_on(WorkerId::new(1), || async {}));
    let metrics = runtime.metrics();
    assert_eq!((metrics.tasks(), metrics.queued(), metrics.workers().len()), (4, 3, 2));
    assert_eq!(metrics.workers().iter().map(|worker| worker.inbox()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((metrics.polls(), metrics.steals(), metrics.parks(), metrics.timers()), (0, 0, 0, 0));
    assert!(metrics.poll_times().is_none());
    runtime.start().unwrap();
    until(|| runtime.metrics().tasks() == 0);
    let metrics = runtime.metrics();
    assert_eq!((metrics.queued(), metrics.polls()), (0, 4));
}

/// One worker: every poll is counted once, and a task that is being polled sees the queues as they are.
#[test]
fn polls_queues_and_deadlines_of_one_worker() {
    let _dog = watchdog(60);
    const YIELDS: u64 = scaled(500, 10) as u64;
    let runtime = runtime(1);
    let task = runtime.spawn(async {
        for _ in 0..YIELDS {
            yield_now().await;
        }
        let handle = Handle::current();
        let others: Vec<_> = (0..5).map(|_| spawn(pending::<()>())).collect();
        let queued = handle.metrics().workers()[0].queued();
        let sleeps: Vec<_> = (0..7).map(|_| spawn(sleep(3_600_000 * MS))).collect();
        yield_now().await;
        let metrics = handle.metrics();
        others.iter().chain(&sleeps).for_each(|task| task.abort());
        (queued, metrics.timers(), metrics.workers()[0].queued(), metrics.tasks())
    });
    assert_eq!(runtime.block_on(task).unwrap(), (5, 7, 0, 13));
    until(|| runtime.tasks() == 0);
    let metrics = runtime.metrics();
    assert_eq!((metrics.timers(), metrics.steals()), (0, 0));
    // The task, those that waited, and their aborts.
    assert_eq!(metrics.polls(), YIELDS + 2 + 12 + 12);
    until(|| runtime.metrics().parks() > 0);
    let closure = runtime.block_on(runtime.spawn(async { EventLoop::current().unwrap() })).unwrap();
    closure.post(|| ()).unwrap();
    until(|| runtime.metrics().polls() == YIELDS + 28);
}

/// A worker that is kept in a poll does not take its own tasks: what runs meanwhile was stolen.
#[test]
fn steals_are_counted() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let task = runtime.spawn(async {
        let done: Vec<_> = (0..4).map(|_| spawn(async { EventLoop::current().unwrap().id() })).collect();
        until(|| done.iter().all(|task| task.is_finished()));
        Handle::current().metrics().steals()
    });
    assert!(runtime.block_on(task).unwrap() >= 1);
}

#[test]
fn threads_for_blocking_work() {
    let _dog = watchdog(60);
    let runtime = Runtime::builder().workers(1).max_blocking_threads(1).build().unwrap();
    let (began, go_on) = (Arc::new(Event::auto()), Arc::new(Event::auto()));
    let (begins, goes_on) = (began.clone(), go_on.clone());
    let first = runtime.spawn_blocking(move || {
        begins.set();
        goes_on.wait().block();
    });
    let second = runtime.spawn_blocking(|| ());
    began.wait().block();
    let metrics = runtime.metrics();
    assert_eq!((metrics.num_blocking_threads(), metrics.num_idle_blocking_threads()), (1, 0));
    assert_eq!((metrics.queued_blocking_work(), metrics.tasks()), (1, 2));
    go_on.set();
    runtime.block_on(async { (first.await.unwrap(), second.await.unwrap()) });
    until(|| runtime.metrics().num_idle_blocking_threads() == 1);
}

/// As many times as polls; a poll that waited for the clock is in a bucket that its time is in.
#[test]
fn times_of_polls() {
    let _dog = watchdog(60);
    let runtime = Runtime::builder().workers(2).time_polls(true).build().unwrap();
    let task = runtime.spawn(async {
        yield_now().await;
        std::thread::sleep(3 * MS);
    });
    runtime.block_on(task).unwrap();
    runtime.block_on(async { spawn(async {}).await.unwrap() });
    until(|| runtime.metrics().poll_times().unwrap().count() == 3);
    let metrics = runtime.metrics();
    let times = metrics.poll_times().unwrap();
    assert_eq!(times.count(), metrics.polls());
    assert!(times.quantile(1.0) > 3 * MS && times.quantile(0.0) > std::time::Duration::ZERO);
    let slow: u64 = times.buckets().filter(|(time, _)| time.end > 3 * MS).map(|(_, polls)| polls).sum();
    assert!(slow >= 1);
    let workers: u64 = metrics.workers().iter().map(|worker| worker.poll_times().unwrap().count()).sum();
    assert_eq!(workers, 3);
}

/// The future of a local runtime's `block_on` is polled by its worker: each poll is counted and measured once, its drop with the last.
#[test]
fn polls_of_a_local_runtime() {
    let _dog = watchdog(60);
    let runtime = Runtime::builder().time_polls(true).build_local().unwrap();
    let handle = runtime.handle();
    for round in 1..=3 {
        runtime.block_on(async {
            // The main future twice, the task once.
            drop(spawn(async {}));
            yield_now().await;
        });
        let metrics = handle.metrics();
        assert_eq!((metrics.polls(), metrics.poll_times().unwrap().count()), (3 * round, 3 * round));
    }
}

#[test]
fn in_a_simulation_tasks_are_counted() {
    Simulation::new(1).run(async {
        let task = spawn(async {});
        assert_eq!(Handle::current().metrics().tasks(), 2);
        task.await.unwrap();
        assert_eq!(Handle::current().metrics().tasks(), 1);
    });
}
