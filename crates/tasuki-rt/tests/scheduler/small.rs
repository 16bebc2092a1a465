//! Small programs, one of each kind, for Miri: tasks and waiters that come and go at the same addresses on two workers, so that
//! a pointer that was seen earlier is the wrong one. `cargo xtask miri --small` runs them with every address reused at once.

use crate::kit::{runtime, scaled, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tasuki::policy::{Bypass, Lifo, Policy};
use tasuki::{Event, Mutex, RwLock, Semaphore};
use tasuki_rt::{EventLoop, JoinSet, LoopMutex, spawn, spawn_local, spawn_on, yield_now};

const ROUNDS: usize = scaled(200, 2);

/// Tasks that end while others are being stolen.
#[test]
fn tasks_come_and_go() {
    let _dog = watchdog(60);
    let ran = Arc::new(AtomicUsize::new(0));
    runtime(2).block_on(async {
        for _ in 0..ROUNDS {
            let mut tasks = JoinSet::new();
            for _ in 0..3 {
                let ran = ran.clone();
                tasks.spawn(async move {
                    let child = ran.clone();
                    let child = spawn(async move { child.fetch_add(1, Ordering::Relaxed) });
                    yield_now().await;
                    child.await.unwrap();
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        }
    });
    assert_eq!(ran.load(Ordering::Relaxed), 6 * ROUNDS);
}

/// A lock that passes between workers; the waiters are in tasks that end.
async fn passes<P: Policy + Send + Sync + 'static>() {
    let mutex = Arc::new(Mutex::<usize, P>::with_policy(0));
    for _ in 0..ROUNDS {
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            let mutex = mutex.clone();
            tasks.spawn(async move {
                for _ in 0..2 {
                    let mut value = mutex.lock().await;
                    *value += 1;
                    yield_now().await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    }
    assert_eq!(*mutex.lock().await, 6 * ROUNDS);
}

#[test]
fn locks_pass_between_workers() {
    let _dog = watchdog(60);
    runtime(2).block_on(async {
        passes::<tasuki::policy::Fifo>().await;
        passes::<Lifo>().await;
        passes::<Bypass<2>>().await;
    });
}

/// Waits that are granted, cancelled by a limit, or dropped with their task.
#[test]
fn waits_end_in_every_way() {
    let _dog = watchdog(60);
    runtime(2).block_on(async {
        let (permits, lock, event) =
            (Arc::new(Semaphore::new(1)), Arc::new(RwLock::new(0)), Arc::new(Event::auto()));
        for round in 0..ROUNDS {
            let mut tasks = JoinSet::new();
            for task in 0..3 {
                let (permits, lock, event) = (permits.clone(), lock.clone(), event.clone());
                tasks.spawn(async move {
                    let permit = permits.acquire().await.unwrap();
                    *lock.write().await += 1;
                    drop(permit);
                    let _ = lock.read().timeout(Duration::from_micros(1)).await;
                    if (round + task) % 2 == 0 {
                        let _ = event.wait().timeout(Duration::from_millis(1)).await;
                    }
                });
            }
            let never = spawn(std::future::pending::<()>());
            event.set();
            never.abort();
            assert!(never.await.is_err());
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        }
        assert_eq!(*lock.read().await, 3 * ROUNDS);
    });
}

/// Pinned tasks, posted closures, and the lock that comes back to its loop.
#[test]
fn loops_keep_what_is_theirs() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let mut workers = Vec::new();
    runtime.for_each_worker(|worker| workers.push(worker));
    let (mutex, posted) = (Arc::new(LoopMutex::new(0)), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        for _ in 0..ROUNDS {
            let mut tasks = JoinSet::new();
            for worker in &workers {
                let (mutex, posted) = (mutex.clone(), posted.clone());
                tasks.insert(spawn_on(*worker, move || async move {
                    let home = EventLoop::current().unwrap();
                    let local = spawn_local(async move {
                        *mutex.lock().await.unwrap() += 1;
                        yield_now().await;
                    });
                    home.post(move || _ = posted.fetch_add(1, Ordering::Relaxed)).unwrap();
                    local.await.unwrap();
                }));
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        }
    });
    runtime.drain(Duration::MAX).unwrap();
    drop(runtime);
    assert_eq!(posted.load(Ordering::Relaxed), 2 * ROUNDS);
    assert_eq!(Arc::into_inner(mutex).unwrap().into_inner(), 2 * ROUNDS);
}
