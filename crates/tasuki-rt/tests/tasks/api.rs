//! Spawning, joining, aborting, panicking; and what must be refused with a clear message.

use crate::kit::{Drops, MS, panicking_waker, poll_with, runtime, scaled, until, watchdog};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tasuki::{Event, Mutex};
use tasuki_rt::{JoinSet, Runtime, WorkerId, sleep, spawn, spawn_blocking, yield_now};

fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it should panic");
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).expect("a message")
}

#[test]
fn a_detached_task_without_a_waker_lives_until_shutdown() {
    let _dog = watchdog(30);
    let (runtime, drops) = (runtime(2), Drops::default());
    let held = drops.one();
    drop(runtime.spawn(async move {
        let _held = held;
        pending::<()>().await;
    }));
    runtime.block_on(async {
        for _ in 0..scaled(100, 5) {
            yield_now().await;
        }
        sleep(20 * MS).await;
    });
    assert_eq!((drops.count(), runtime.tasks()), (0, 1));
    drop(runtime);
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_panic_stays_in_its_task() {
    let _dog = watchdog(30);
    let runtime = runtime(2);
    runtime.block_on(async {
        let bad: Vec<_> = (0..scaled(50, 6))
            .map(|n| {
                spawn(async move {
                    if n % 2 == 0 {
                        panic!("task {n}")
                    }
                })
            })
            .collect();
        for (n, task) in bad.into_iter().enumerate() {
            match task.await {
                Ok(()) => assert_eq!(n % 2, 1),
                Err(error) => assert!(error.is_panic() && error.to_string().contains(&format!("task {n}"))),
            }
        }
        assert_eq!(spawn(async { 1 }).await.unwrap(), 1);
    });
    assert_eq!(runtime.tasks(), 0);
}

/// A panic in the destructor of a future, after its end and in an abort, is reported like any other.
#[test]
fn a_destructor_that_panics_ends_only_its_task() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let _dog = watchdog(30);
    let runtime = runtime(1);
    runtime.block_on(async {
        struct Ready(#[allow(dead_code)] Bomb);
        impl std::future::Future for Ready {
            type Output = i32;
            fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<i32> {
                Poll::Ready(1)
            }
        }
        assert!(spawn(Ready(Bomb)).await.unwrap_err().is_panic());
        let waiting = spawn(async {
            let _bomb = Bomb;
            pending::<()>().await;
        });
        yield_now().await;
        waiting.abort();
        let error = waiting.await.unwrap_err();
        assert!(error.is_panic() || error.is_aborted());
        // B119: the output panics when dropped; dropping the handle is silent, before and after the end.
        let task = spawn(async { Bomb });
        while !task.is_finished() {
            yield_now().await;
        }
        drop(task);
        drop(spawn(async { Bomb }));
        for _ in 0..10 {
            sleep(MS).await;
        }
        assert_eq!(spawn(async { 2 }).await.unwrap(), 2);
    });
    drop(runtime.spawn(async {
        let _bomb = Bomb;
        pending::<()>().await;
    }));
    drop(runtime);
}

/// Abort before the first poll, while waiting, while running, after the end; from the inside; twice.
#[test]
fn abort_in_every_state() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    let drops = Drops::default();
    let before = runtime.spawn({
        let held = drops.one();
        async move { drop(held) }
    });
    before.abort();
    let error = runtime.block_on(before).unwrap_err();
    assert!(error.is_aborted() && !error.is_panic() && !error.is_shut_down());
    assert_eq!(drops.count(), 1);

    let waiting = runtime.spawn({
        let held = drops.one();
        async move {
            let _held = held;
            pending::<()>().await
        }
    });
    runtime.block_on(sleep(5 * MS));
    waiting.abort();
    waiting.abort();
    assert!(runtime.block_on(waiting).unwrap_err().is_aborted());
    assert_eq!(drops.count(), 2);

    static ENTERED: Event = Event::auto();
    static ABORTED: AtomicBool = AtomicBool::new(false);
    let running = runtime.spawn({
        let held = drops.one();
        async move {
            ENTERED.set();
            until(|| ABORTED.load(Ordering::SeqCst));
            yield_now().await;
            drop(held);
            unreachable!("it was aborted while it ran");
        }
    });
    ENTERED.wait().block();
    running.abort();
    ABORTED.store(true, Ordering::SeqCst);
    let running: Result<(), _> = runtime.block_on(running);
    assert!(running.unwrap_err().is_aborted());
    assert_eq!(drops.count(), 3);

    let ended = runtime.spawn(async { 7 });
    until(|| ended.is_finished());
    ended.abort();
    assert_eq!(runtime.block_on(ended).unwrap(), 7);
    assert_eq!(runtime.tasks(), 0);
}

/// A task that holds a lock and is aborted gives it back; one that waits leaves the queue.
#[test]
fn an_aborted_task_leaves_its_locks_in_order() {
    let _dog = watchdog(30);
    let runtime = runtime(2);
    let mutex = Arc::new(Mutex::new(0));
    runtime.block_on(async {
        for _ in 0..scaled(200, 2) {
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let mutex = mutex.clone();
                    spawn(async move {
                        let mut guard = mutex.lock().await;
                        *guard += 1;
                        yield_now().await;
                    })
                })
                .collect();
            tasks.iter().step_by(2).for_each(|task| task.abort());
            for task in tasks {
                if let Err(error) = task.await {
                    assert!(error.is_aborted());
                }
            }
            assert!(mutex.try_lock().is_some());
        }
    });
}

#[test]
fn join_set_gives_every_result_once() {
    const TASKS: usize = scaled(1000, 30);
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.block_on(async {
        let mut set = JoinSet::new();
        let mut seen = vec![0; TASKS];
        for n in 0..TASKS {
            set.spawn(async move {
                if n % 3 == 0 {
                    yield_now().await;
                }
                n
            });
            if n % 7 == 0 {
                seen[set.join_next().await.unwrap().unwrap()] += 1;
            }
        }
        while let Some(result) = set.join_next().await {
            seen[result.unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| *count == 1));
        // A dropped wait loses nothing; places are used again.
        set.spawn_on(WorkerId::new(0), || async { 5 });
        let mut late = None;
        for _ in 0..3 {
            if let Ok(Some(result)) = tasuki_rt::timeout(Duration::ZERO, set.join_next()).await {
                late = Some(result.unwrap());
            }
        }
        if late.is_none() {
            late = set.join_next().await.map(Result::unwrap);
        }
        assert_eq!((late, set.len()), (Some(5), 0));
    });
    let drops = Drops::default();
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for _ in 0..10 {
            let held = drops.one();
            set.spawn(async move {
                let _held = held;
                pending::<()>().await;
            });
        }
        sleep(5 * MS).await;
    });
    until(|| drops.count() == 10);
}

/// An abort of all: each task has one result, and each output is dropped once, whether its task had ended, was running, waited, or had not begun.
#[test]
fn abort_all_loses_and_doubles_no_output() {
    const TASKS: usize = scaled(400, 12);
    let _dog = watchdog(60);
    for workers in [1, 2] {
        let (runtime, held, outputs) = (runtime(workers), Drops::default(), Drops::default());
        let made = Arc::new(AtomicUsize::new(0));
        let (mut results, mut ended) = (0, 0);
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for n in 0..TASKS {
                let (holds, output, made) = (held.one(), outputs.clone(), made.clone());
                set.spawn(async move {
                    let _holds = holds;
                    match n % 4 {
                        0 => pending().await,
                        1 => yield_now().await,
                        _ => (),
                    }
                    made.fetch_add(1, Ordering::SeqCst);
                    output.one()
                });
            }
            set.abort_all();
            while let Some(result) = set.join_next().await {
                results += 1;
                ended += usize::from(result.is_ok());
            }
        });
        assert_eq!((results, held.count()), (TASKS, TASKS));
        assert_eq!((ended, outputs.count()), (made.load(Ordering::SeqCst), ended));
    }
}

/// B131 and "a panicking waker": the hostile waker's panic goes nowhere, and nothing else is lost.
#[test]
fn hostile_wakers_on_handles_sets_and_sleeps() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    runtime.start().unwrap();
    let (waker, calls) = panicking_waker();
    let gate = Arc::new(Event::manual());
    let wait = |gate: &Arc<Event>| {
        let gate = gate.clone();
        async move { gate.wait().await }
    };
    let mut handle = runtime.spawn(wait(&gate));
    assert!(poll_with(&mut handle, &waker).is_pending());
    let mut set = JoinSet::new();
    set.insert(runtime.spawn(wait(&gate)));
    let mut next = Box::pin(set.join_next());
    assert!(poll_with(&mut next, &waker).is_pending());
    // A sleep on the wheel of the worker, armed there with a foreign waker.
    let hostile = waker.clone();
    let armed = runtime.spawn(async move {
        let mut sleep = Box::pin(sleep(5 * MS));
        assert!(poll_with(&mut sleep, &hostile).is_pending());
        tasuki_rt::sleep(20 * MS).await;
        assert!(poll_with(&mut sleep, &hostile).is_ready());
    });
    gate.set();
    runtime.block_on(armed).unwrap();
    until(|| calls.load(Ordering::SeqCst) >= 3);
    assert!(matches!(poll_with(&mut handle, &waker), Poll::Ready(Ok(()))));
    assert!(matches!(poll_with(&mut next, &waker), Poll::Ready(Some(Ok(())))));
    assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
}

#[test]
fn blocking_work_and_its_panics() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    runtime.block_on(async {
        let work: Vec<_> = (0..4)
            .map(|n| {
                spawn_blocking(move || {
                    std::thread::sleep(20 * MS);
                    n
                })
            })
            .collect();
        let mut sum = 0;
        for work in work {
            sum += work.await.unwrap();
        }
        assert_eq!(sum, 6);
        assert!(spawn_blocking(|| panic!("blocked")).await.unwrap_err().to_string().contains("blocked"));
    });
}

#[test]
fn identity_and_blocking_are_the_drivers_business() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    runtime.block_on(async {
        let task = spawn(async { (tasuki::task::current(), yield_now().await, tasuki::task::current()) });
        let id = Some(task.id());
        assert_eq!(task.await.unwrap(), (id, (), id));
        let blocked = spawn(async { *Mutex::new(1_i32).lock().block() });
        assert!(blocked.await.unwrap_err().to_string().contains("`.await` the wait instead"));
        assert!(tasuki::task::current().is_some());
    });
}

#[test]
fn bad_input_is_a_clear_error() {
    let _dog = watchdog(30);
    let none = Runtime::builder().workers(0).build().unwrap_err();
    assert_eq!(none.kind(), std::io::ErrorKind::InvalidInput);
    assert!(none.to_string().contains("at least one worker"));
    assert!(Runtime::builder().workers(usize::MAX).build().unwrap_err().to_string().contains("at most"));
    assert!(Runtime::builder().thread_name("a\0b").build().is_err());

    let runtime = Arc::new(runtime(2));
    let outside = message(|| drop(runtime.spawn_on(WorkerId::new(2), || async {})));
    assert!(outside.contains("there is no worker 2"), "{outside}");
    assert_eq!(runtime.tasks(), 0);
    assert!(message(|| drop(spawn(async {}))).contains("no runtime on this thread"));
    assert!(message(|| drop(runtime.spawn_local(async {}))).contains("spawn_on"));
    assert!(message(|| _ = tasuki_rt::interval(Duration::ZERO)).contains("period"));

    let inner = runtime.clone();
    let nested = runtime.spawn(async move { inner.block_on(async {}) });
    let error = runtime.block_on(nested).unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("`block_on` inside a task"), "{error}");
    let local = runtime.block_on(async { catch_unwind(|| drop(tasuki_rt::spawn_local(async {}))).is_err() });
    assert!(local, "the thread in block_on is not an event loop");

    runtime.shutdown_timeout(Duration::MAX).unwrap();
    let drops = Drops::default();
    let held = drops.one();
    let late = runtime.spawn(async move { drop(held) });
    assert_eq!(drops.count(), 1);
    let error = runtime.block_on(late).unwrap_err();
    assert!(error.is_shut_down() && error.to_string().contains("shut down"), "{error}");
    let late = runtime.spawn_on(WorkerId::new(0), || async {});
    assert!(runtime.block_on(late).unwrap_err().is_shut_down());
}

#[test]
fn a_panic_in_block_on_leaves_the_runtime_usable() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    let text = message(|| runtime.block_on(async { panic!("from the main future") }));
    assert_eq!(text, "from the main future");
    static DONE: AtomicUsize = AtomicUsize::new(0);
    runtime.block_on(async { spawn(async { DONE.fetch_add(1, Ordering::SeqCst) }).await }).unwrap();
    assert_eq!(DONE.load(Ordering::SeqCst), 1);
}

/// What a panic carries may panic when it is dropped.
#[test]
fn a_payload_that_panics_stops_nothing() {
    struct Twice(Arc<AtomicUsize>);
    impl Drop for Twice {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("the second panic");
        }
    }
    let _dog = watchdog(30);
    let (runtime, count) = (runtime(1), Arc::new(AtomicUsize::new(0)));
    let payload = Twice(count.clone());
    drop(runtime.spawn(async move { std::panic::panic_any(payload) }));
    let payload = Twice(count.clone());
    let there = runtime.block_on(runtime.spawn(async { tasuki_rt::EventLoop::current().unwrap() })).unwrap();
    there.post(move || std::panic::panic_any(payload)).unwrap();
    until(|| count.load(Ordering::SeqCst) == 2);
    assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
}
