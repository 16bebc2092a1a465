//! Sleeps, timeouts, intervals, on the wheels of the workers.

mod kit;

use kit::{MS, runtime, scaled, until, watchdog};
use std::future::{Future, pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tasuki::{Mutex, Semaphore};
use tasuki_rt::{Interval, interval, sleep, sleep_until, spawn, testing, timeout, yield_now};

#[test]
fn sleeps_end_not_before_their_time_and_soon_after() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..scaled(200, 10) as u32)
            .map(|n| {
                spawn(async move {
                    let (start, time) = (Instant::now(), n % 23 * MS);
                    sleep(time).await;
                    let took = start.elapsed();
                    assert!(took >= time, "{took:?} for {time:?}");
                    took - time
                })
            })
            .collect();
        let mut worst = Duration::ZERO;
        for task in tasks {
            worst = worst.max(task.await.unwrap());
        }
        println!("the latest sleep was {worst:?} late");
        assert!(worst < Duration::from_secs(10));
        let start = Instant::now();
        sleep_until(start + 3 * MS).await;
        assert!(start.elapsed() >= 3 * MS);
        sleep(Duration::ZERO).await;
    });
}

#[test]
fn for_ever_is_for_ever() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    runtime.block_on(async {
        let task = spawn(async { timeout(5 * MS, sleep(Duration::MAX)).await.is_err() });
        assert!(task.await.unwrap());
        assert!(timeout(Duration::MAX, async { 1 }).await.is_ok());
        let task = spawn(async { Mutex::new(1).lock().timeout(Duration::MAX).await.is_ok() });
        assert!(task.await.unwrap());
        let mut rare = interval(Duration::MAX);
        rare.tick().await;
        assert!(timeout(5 * MS, rare.tick()).await.is_err());
    });
}

#[test]
fn primitives_give_up_in_time_on_workers() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let (mutex, permits) = (Arc::new(Mutex::new(())), Arc::new(Semaphore::new(0)));
    runtime.block_on(async {
        let guard = mutex.lock().await;
        let mut tasks = Vec::new();
        for n in 0..scaled(100, 6) as u32 {
            let (mutex, permits) = (mutex.clone(), permits.clone());
            tasks.push(spawn(async move {
                let start = Instant::now();
                let time = (1 + n % 10) * MS;
                if n % 2 == 0 {
                    assert!(mutex.lock().timeout(time).await.is_err());
                } else {
                    assert!(permits.acquire().timeout(time).await.is_err());
                }
                assert!(start.elapsed() >= time);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        drop(guard);
        assert!(mutex.try_lock().is_some());
    });
}

/// A sleep armed for an earlier time, from another thread's poll and from its own, moves the alarm forward.
#[test]
fn an_earlier_sleep_rings_the_worker() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    runtime.block_on(async {
        let far = spawn(sleep(Duration::from_secs(3600)));
        sleep(5 * MS).await;
        let start = Instant::now();
        spawn(sleep(5 * MS)).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(20));
        far.abort();
        assert!(far.await.unwrap_err().is_aborted());
    });
}

#[test]
fn intervals_keep_their_rhythm_and_skip_what_was_missed() {
    async fn ticks(interval: &mut Interval) -> Instant {
        interval.tick().await
    }
    let _dog = watchdog(30);
    testing::check(scaled(20, 2) as u64, || async {
        let mut every = interval(4 * MS);
        let first = ticks(&mut every).await;
        // A dropped wait takes no tick.
        assert!(timeout(MS, ticks(&mut every)).await.is_err());
        assert_eq!(ticks(&mut every).await, first + 4 * MS);
        sleep(30 * MS).await;
        let late = ticks(&mut every).await;
        let next = ticks(&mut every).await;
        assert_eq!(late, first + 8 * MS);
        assert_eq!(next, first + 36 * MS, "missed ticks are left out");
    });
}

/// A sleep that was begun on a worker, and carried to another runtime, ends although its worker has gone.
#[test]
fn a_sleep_outlives_its_runtime() {
    let _dog = watchdog(30);
    let first = runtime(1);
    let carried = first.spawn(async {
        let mut sleep = Box::pin(sleep(scaled(100, 3_000) as u32 * MS));
        assert!(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await.is_pending());
        (sleep,)
    });
    let (mut carried,) = first.block_on(carried).unwrap();
    drop(first);
    let start = Instant::now();
    runtime(1).block_on(spawn_and_wait(&mut carried));
    assert!(start.elapsed() < Duration::from_secs(20));
}

async fn spawn_and_wait(sleep: &mut (impl Future<Output = ()> + Unpin)) {
    spawn(yield_now()).await.unwrap();
    sleep.await;
}

#[test]
fn a_hundred_thousand_timers_are_armed_and_dropped() {
    let _dog = watchdog(120);
    let runtime = runtime(2);
    let ended = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let (count, all) = (ended.clone(), scaled(100_000, 30));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..all)
            .map(|n| {
                let count = count.clone();
                spawn(async move {
                    let limit = Duration::from_millis(1000 + n as u64 % 50_000);
                    assert!(timeout(limit, yield_now()).await.is_ok());
                    count.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    println!("{all} timers armed and dropped, each in a task: {:?}", start.elapsed());
    until(|| ended.load(Ordering::Relaxed) == all);
    drop(runtime.spawn(pending::<()>()));
}
