//! Blocking work: when it begins, what it may do, how it is aborted, and what waits for it.

use crate::kit::{Drops, MS, runtime, scaled, until, watchdog};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use tasuki_rt::{JoinSet, Runtime, ShutdownError, WorkerId, spawn, spawn_blocking};

/// A closure that runs until it is told to go on, and the way to tell it; it says when it has begun.
fn gate() -> (impl FnOnce() + Send + 'static, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let ((open, opened), (begins, begun)) = (mpsc::channel(), mpsc::channel());
    let work = move || {
        begins.send(()).unwrap();
        // An error is as good: the test has ended.
        let _ = opened.recv();
    };
    (work, open, begun)
}

#[test]
fn it_has_the_runtime_it_belongs_to() {
    let _dog = watchdog(60);
    let runtime = Arc::new(runtime(1));
    let outer = runtime.clone();
    let work = runtime.spawn_blocking(move || {
        let task = spawn(async { 1 });
        let pinned = tasuki_rt::spawn_on(WorkerId::new(0), || async { 2 });
        let more = spawn_blocking(|| spawn_blocking(|| 3));
        outer.block_on(async {
            task.await.unwrap() + pinned.await.unwrap() + more.await.unwrap().await.unwrap()
        })
    });
    assert_eq!(runtime.block_on(work).unwrap(), 6);
}

/// More operations than a task may do in one poll, and its own identity.
#[test]
fn it_has_no_budget_and_an_identity() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let work = runtime.spawn_blocking(|| {
        let mutex = tasuki::Mutex::new(0);
        (0..scaled(1000, 200)).for_each(|_| *mutex.lock().block() += 1);
        tasuki::task::current()
    });
    let id = work.id();
    assert_eq!(runtime.block_on(work).unwrap(), Some(id));
}

/// Not before a start, and not while all workers are busy: it needs none of them.
#[test]
fn it_begins_without_a_worker() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let (work, open, begun) = gate();
    let work = runtime.spawn_blocking(work);
    begun.recv().unwrap();
    open.send(()).unwrap();
    until(|| work.is_finished());

    runtime.start().unwrap();
    let (hog, release, busy) = gate();
    drop(runtime.spawn(async move { hog() }));
    busy.recv().unwrap();
    let work = runtime.spawn_blocking(|| ());
    until(|| work.is_finished());
    release.send(()).unwrap();
}

#[test]
fn abort_drops_what_has_not_begun_and_leaves_alone_what_has() {
    let _dog = watchdog(60);
    let runtime = Runtime::builder().workers(1).max_blocking_threads(1).build().unwrap();
    let (work, open, begun) = gate();
    let first = runtime.spawn_blocking(move || {
        work();
        7
    });
    let (drops, ran) = (Drops::default(), Arc::new(AtomicBool::new(false)));
    let (held, runs) = (drops.one(), ran.clone());
    let second = runtime.spawn_blocking(move || {
        let _held = held;
        runs.store(true, Ordering::SeqCst);
    });
    begun.recv().unwrap();
    first.abort();
    second.abort();
    assert!(!first.is_finished(), "it runs on");
    open.send(()).unwrap();
    runtime.block_on(async {
        assert_eq!(first.await.unwrap(), 7, "it has ended, not been aborted");
        assert!(second.await.unwrap_err().is_aborted());
    });
    assert!(drops.count() == 1 && !ran.load(Ordering::SeqCst));
}

#[test]
fn a_panic_ends_the_work_and_not_its_thread() {
    let _dog = watchdog(60);
    let runtime = Runtime::builder().workers(1).max_blocking_threads(1).build().unwrap();
    let panics = runtime.spawn_blocking(|| -> () { panic!("in the work") });
    let after = runtime.spawn_blocking(|| 1);
    runtime.block_on(async {
        let error = panics.await.unwrap_err();
        assert!(error.is_panic() && error.to_string().contains("in the work"));
        assert_eq!(after.await.unwrap(), 1);
    });
}

/// The drop of a runtime waits for what runs, and drops what has not begun.
#[test]
fn the_end_of_a_runtime_waits_for_it() {
    let _dog = watchdog(60);
    let runtime = Runtime::builder().workers(2).max_blocking_threads(1).build().unwrap();
    runtime.start().unwrap();
    let (work, open, begun) = gate();
    let (ended, drops) = (Arc::new(AtomicBool::new(false)), Drops::default());
    let (ends, held) = (ended.clone(), drops.one());
    let running = runtime.spawn_blocking(move || {
        work();
        ends.store(true, Ordering::SeqCst);
    });
    let queued = runtime.spawn_blocking(move || drop(held));
    begun.recv().unwrap();
    assert_eq!(runtime.shutdown_timeout(MS), Err(ShutdownError::TimedOut));
    // A task that is dropped without having run counts as finished a moment before its closure is gone, or after: both are awaited.
    until(|| queued.is_finished() && drops.count() == 1);
    assert!(!running.is_finished());
    let opens = thread::spawn(move || open.send(()).unwrap());
    drop(runtime);
    assert!(ended.load(Ordering::SeqCst) && running.is_finished());
    opens.join().unwrap();
}

/// Also where no worker was started, which would wait for it: the caller goes away when its time is over.
#[test]
fn a_shutdown_waits_for_it_no_longer_than_it_may() {
    let _dog = watchdog(60);
    for started in [false, true] {
        let runtime = runtime(2);
        let (work, go_on, begun) = gate();
        let work = runtime.spawn_blocking(work);
        if started {
            runtime.start().unwrap();
        }
        begun.recv().unwrap();
        assert_eq!(runtime.shutdown_timeout(MS), Err(ShutdownError::TimedOut));
        assert!(!work.is_finished());
        go_on.send(()).unwrap();
        assert_eq!(runtime.shutdown_timeout(Duration::MAX), Ok(()));
        assert!(work.is_finished());
    }
}

/// The last handle of a runtime is dropped by its own blocking work, which cannot wait for itself.
#[test]
fn a_runtime_may_be_dropped_inside_it() {
    let _dog = watchdog(60);
    for started in [false, true] {
        let runtime = Arc::new(runtime(1));
        if started {
            runtime.start().unwrap();
        }
        let (send, receive) = mpsc::channel::<Arc<Runtime>>();
        let work = runtime.spawn_blocking(move || {
            let runtime = receive.recv().unwrap();
            assert_eq!(runtime.shutdown_timeout(Duration::MAX), Err(ShutdownError::InsideTask));
            drop(runtime);
            5
        });
        send.send(runtime).unwrap();
        until(|| work.is_finished());
        assert_eq!(crate::kit::runtime(1).block_on(work).unwrap(), 5);
    }
}

/// Threads spawn, tasks spawn, and work spawns, while the runtime shuts down: each closure is run to its end, or dropped, once.
#[test]
fn a_storm_against_a_shutdown() {
    let _dog = watchdog(120);
    for round in 0..scaled(20, 2) {
        let runtime =
            Arc::new(Runtime::builder().workers(2).max_blocking_threads(1 + round % 4).build().unwrap());
        runtime.start().unwrap();
        let (drops, ran, made) =
            (Drops::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let closure = {
            let (drops, ran, made) = (drops.clone(), ran.clone(), made.clone());
            move || {
                let (held, ran) = (drops.one(), ran.clone());
                made.fetch_add(1, Ordering::SeqCst);
                move || {
                    ran.fetch_add(1, Ordering::SeqCst);
                    drop(held);
                }
            }
        };
        let has_ended = Arc::new(AtomicBool::new(false));
        let spawners: Vec<_> = (0..2)
            .map(|_| {
                let (runtime, closure, has_ended) = (runtime.clone(), closure.clone(), has_ended.clone());
                thread::spawn(move || {
                    let mut results = Vec::new();
                    while !has_ended.load(Ordering::SeqCst) {
                        let (inner, work) = (closure(), closure());
                        results.push(runtime.spawn_blocking(move || {
                            drop(spawn_blocking(inner));
                            work();
                        }));
                        // What was spawned may need this processor: at real-time priority it is not taken from a busy thread.
                        thread::yield_now();
                    }
                    results
                })
            })
            .collect();
        until(|| ran.load(Ordering::SeqCst) > round);
        runtime.shutdown_timeout(Duration::MAX).unwrap();
        has_ended.store(true, Ordering::SeqCst);
        let results: Vec<_> = spawners.into_iter().flat_map(|spawner| spawner.join().unwrap()).collect();
        // Not before the spawners have ended: a spawn that is about to be refused is counted until then.
        assert_eq!(runtime.tasks(), 0);
        let mut set = JoinSet::new();
        results.into_iter().for_each(|handle| set.insert(handle));
        crate::kit::runtime(1).block_on(async {
            while let Some(result) = set.join_next().await {
                assert!(result.is_ok() || result.unwrap_err().is_shut_down());
            }
        });
        assert_eq!(drops.count(), made.load(Ordering::SeqCst), "each is dropped");
        assert!(ran.load(Ordering::SeqCst) <= drops.count());
    }
}
