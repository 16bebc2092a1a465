//! What a crowd of tasks leaves behind when it has gone: nothing. Each test counts every byte of its process.

use crate::kit::alloc::live;
use crate::kit::process::alone;
use crate::kit::{runtime, scaled, until, watchdog};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tasuki::Event;
use tasuki_rt::{JoinSet, Runtime, WorkerId, spawn};

/// So many tasks wait at once, spawned from outside, inside, or pinned; then all are woken at once, and end.
fn crowd(runtime: &Runtime, tasks: usize, kind: usize) {
    let shared = Arc::new((Event::manual(), AtomicUsize::new(0)));
    let waits = {
        let shared = shared.clone();
        move || {
            let shared = shared.clone();
            async move {
                shared.1.fetch_add(1, Ordering::SeqCst);
                shared.0.wait().await;
            }
        }
    };
    match kind {
        0 => (0..tasks).for_each(|_| drop(runtime.spawn(waits()))),
        1 => (0..tasks).for_each(|n| drop(runtime.spawn_on(WorkerId::new(n % 2), waits.clone()))),
        _ => drop(runtime.spawn(async move { (0..tasks).for_each(|_| drop(spawn(waits()))) })),
    }
    until(|| shared.1.load(Ordering::SeqCst) == tasks);
    shared.0.set();
    until(|| runtime.tasks() == 0);
}

#[test]
fn memory_is_given_back_when_a_crowd_has_left() {
    // More than any list, table or pool of a runtime begins with.
    const TASKS: usize = scaled(if cfg!(debug_assertions) { 20_000 } else { 100_000 }, 50);
    alone(|| {
        let _dog = watchdog(300);
        let runtime = runtime(2);
        runtime.start().unwrap();
        // What threads allocate once; in debug builds also the records of as many waits, which are kept for the next.
        let first = if cfg!(debug_assertions) { TASKS } else { 10 };
        (0..3).for_each(|kind| crowd(&runtime, first, kind));
        let before = live();
        for round in 0..scaled(6, 3) {
            crowd(&runtime, TASKS, round % 3);
            // A cell is freed just after its task has ended.
            until(|| live() <= before);
        }
    });
}

/// What a task costs beyond its future: its cell, its place in the registry, and its span where tasks have one.
#[test]
#[cfg_attr(miri, ignore = "65,536 tasks, or the share of the registry is not theirs")]
fn an_idle_task_is_small() {
    alone(|| {
        let _dog = watchdog(60);
        let runtime = runtime(1);
        let tasks = 65_536;
        let polled = Arc::new(AtomicUsize::new(0));
        let task = |polled: Arc<AtomicUsize>| async move {
            polled.fetch_add(1, Ordering::Relaxed);
            pending::<()>().await;
        };
        let future = std::mem::size_of_val(&task(polled.clone()));
        let before = live();
        for _ in 0..tasks {
            drop(runtime.spawn(task(polled.clone())));
        }
        runtime.start().unwrap();
        until(|| polled.load(Ordering::Relaxed) == tasks);
        let each = live().saturating_sub(before) / tasks;
        println!("an idle task: {each} bytes, {future} of them its future");
        #[cfg(feature = "tracing")]
        let future = future + size_of::<tracing::Span>();
        assert!(each - future <= 200, "{each} bytes");
    });
}

/// Threads that block come and go by the hundred: nothing is kept for each of them, also not where waits are recorded.
#[test]
fn threads_that_waited_leave_nothing_behind() {
    const THREADS: usize = scaled(200, 20);
    // What the process keeps for the next wait, whatever the number of threads.
    const KEPT: usize = 512 << 10;
    alone(|| {
        let _dog = watchdog(60);
        let before = live();
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let shared = Arc::new((Event::manual(), AtomicUsize::new(0)));
        for _ in 0..THREADS {
            let shared = shared.clone();
            drop(runtime.spawn_blocking(move || {
                shared.1.fetch_add(1, Ordering::SeqCst);
                shared.0.wait().block();
            }));
        }
        until(|| shared.1.load(Ordering::SeqCst) == THREADS);
        shared.0.set();
        drop(runtime);
        until(|| Arc::strong_count(&shared) == 1);
        let kept = || live().saturating_sub(before);
        println!("{} bytes are kept", kept());
        until(|| kept() <= KEPT);
    });
}

/// A set that was emptied, and a queue of blocking work, keep the memory of some hundred members, not of the most that there were.
#[test]
fn sets_and_queues_that_are_empty_again_are_small() {
    const MANY: usize = scaled(20_000, 2_000);
    const KEPT: usize = 128 << 10;
    alone(|| {
        let _dog = watchdog(120);
        let runtime = Runtime::builder().workers(1).max_blocking_threads(1).build().unwrap();
        runtime.start().unwrap();
        let mut set = JoinSet::new();
        let round = |set: &mut JoinSet<()>, members: usize| {
            runtime.block_on(async {
                (0..members).for_each(|_| drop(set.spawn_blocking(|| ())));
                (0..members).for_each(|_| drop(set.spawn(async {})));
                while let Some(joined) = set.join_next().await {
                    joined.unwrap();
                }
            });
        };
        round(&mut set, 10);
        let before = live();
        round(&mut set, MANY);
        until(|| live() <= before + KEPT);
    });
}
