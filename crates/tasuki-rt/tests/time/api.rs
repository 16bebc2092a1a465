//! Sleeps, timeouts, intervals, on the wheels of the workers.

use crate::kit::{MS, runtime, scaled, until, watchdog};
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tasuki::{Event, Mutex, Semaphore};
use tasuki_rt::{
    EventLoop, Interval, JoinHandle, LocalRuntime, MissedTickBehavior, Runtime, WorkerId, testing,
};
use tasuki_rt::{interval, interval_at, now, sleep, sleep_until, spawn, spawn_local, timeout, yield_now};

#[test]
fn sleeps_end_not_before_their_time() {
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

/// A task that keeps this worker in one poll until `so`.
fn keep_worker_busy(runtime: &Runtime, worker: usize, so: &Arc<AtomicBool>) -> JoinHandle<()> {
    let so = so.clone();
    runtime.spawn_on(WorkerId::new(worker), move || async move { until(|| so.load(Ordering::SeqCst)) })
}

/// Begins `wait` on worker 0, in a task that any worker may run, which then says that it has ended.
fn begin_on_worker_0<F>(runtime: &Runtime, wait: F) -> (JoinHandle<()>, Arc<AtomicBool>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, ends) = (begun.clone(), ended.clone());
    let task = runtime.spawn(async move {
        while EventLoop::current().unwrap().id() != WorkerId::new(0) {
            yield_now().await;
        }
        begins.store(true, Ordering::SeqCst);
        wait.await;
        ends.store(true, Ordering::SeqCst);
    });
    until(|| begun.load(Ordering::SeqCst));
    (task, ended)
}

/// What waits for a time, each on a runtime with one worker in a poll that ends only after the wait: another worker wakes for it, in
/// whatever state that one is.
#[test]
fn no_deadline_waits_for_the_poll_of_a_stranger() {
    let _dog = watchdog(60);
    type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;
    let waits: [fn() -> Wait; 4] = [
        || Box::pin(sleep(3 * MS)),
        || Box::pin(async { assert!(timeout(3 * MS, pending::<()>()).await.is_err()) }),
        || Box::pin(async { assert!(Event::auto().wait().timeout(3 * MS).await.is_err()) }),
        || {
            Box::pin(async {
                let mut ticks = interval(3 * MS);
                ticks.tick().await;
                ticks.tick().await;
            })
        },
    ];
    for (others, wait) in [(1, 0), (1, 1), (1, 2), (1, 3), (3, 0), (2, 1)].map(|(n, wait)| (n, waits[wait])) {
        let runtime = runtime(1 + others);
        runtime.start().unwrap();
        let (task, ended) = begin_on_worker_0(&runtime, wait());
        // All but the last are busy, one after the other, so that the duty is passed on.
        let busy: Vec<_> = (0..others).map(|worker| keep_worker_busy(&runtime, worker, &ended)).collect();
        runtime.block_on(async {
            task.await.unwrap();
            for hog in busy {
                hog.await.unwrap();
            }
        });
    }
}

/// No worker is idle: the one with short polls wakes for the deadline of the other. A round counts if the long poll began before the
/// deadline: otherwise worker 0 has advanced its own wheel, and the task waits in its queue, where a busy worker does not look.
#[test]
fn a_busy_worker_minds_the_deadlines_of_another() {
    let _dog = watchdog(120);
    let runtime = runtime(2);
    runtime.start().unwrap();
    let mut wait = 3 * MS;
    loop {
        let due = Instant::now() + wait;
        let (task, ended) = begin_on_worker_0(&runtime, sleep_until(due));
        let (stop, hogged) = (ended.clone(), ended.clone());
        let yields = runtime.spawn_on(WorkerId::new(1), || async move {
            while !stop.load(Ordering::SeqCst) {
                yield_now().await;
            }
        });
        let hog = runtime.spawn_on(WorkerId::new(0), move || async move {
            let counts = Instant::now() < due;
            if counts {
                until(|| hogged.load(Ordering::SeqCst));
            }
            counts
        });
        let counts = runtime.block_on(async {
            task.await.unwrap();
            yields.await.unwrap();
            hog.await.unwrap()
        });
        if counts {
            return;
        }
        wait *= 2;
    }
}

/// A sleep armed for an earlier time, from another thread's poll and from its own, moves the alarm forward.
#[test]
fn an_earlier_sleep_rings_the_worker() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    runtime.block_on(async {
        let far = spawn(sleep(Duration::from_secs(3600)));
        sleep(5 * MS).await;
        spawn(sleep(5 * MS)).await.unwrap();
        assert!(!far.is_finished());
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
    runtime(1).block_on(spawn_and_wait(&mut carried));
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

/// A sleep that is set to another time is woken by that one only; it can be asked before, in and after its wait.
#[test]
fn a_sleep_is_reset() {
    testing::Simulation::new(1).run(async {
        let start = now();
        let mut sleep = pin!(sleep(10 * MS));
        assert_eq!((sleep.wakes_at(), sleep.is_elapsed()), (None, false));
        assert!(tasuki_rt::timeout(4 * MS, sleep.as_mut()).await.is_err());
        assert_eq!((sleep.wakes_at(), sleep.is_elapsed()), (Some(start + 10 * MS), false));
        sleep.as_mut().reset(start + 30 * MS);
        assert_eq!(sleep.wakes_at(), Some(start + 30 * MS));
        sleep.as_mut().await;
        assert_eq!(now() - start, 30 * MS);
        assert!(sleep.is_elapsed());
        // Over, and used again.
        sleep.as_mut().reset(start + 35 * MS);
        assert!(!sleep.is_elapsed());
        // Earlier than it was, and past: ready at once.
        assert!(tasuki_rt::timeout(MS, sleep.as_mut()).await.is_err());
        sleep.as_mut().reset(start);
        assert!(sleep.is_elapsed());
        sleep.as_mut().await;
        assert_eq!(now() - start, 31 * MS);
        let mut never = pin!(tasuki_rt::sleep(Duration::MAX));
        assert!(tasuki_rt::timeout(MS, never.as_mut()).await.is_err());
        assert_eq!((never.wakes_at(), never.is_elapsed()), (None, false));
        never.as_mut().reset(now() + MS);
        never.await;
    });
}

#[test]
fn an_interval_begins_and_is_reset_when_it_is_told() {
    testing::Simulation::new(1).run(async {
        let start = now();
        let at = |ms: u32| start + ms * MS;
        let mut ticks = interval_at(at(7), 10 * MS);
        assert_eq!((ticks.tick().await, now()), (at(7), at(7)));
        assert_eq!((ticks.tick().await, now()), (at(17), at(17)));
        sleep(4 * MS).await;
        ticks.reset();
        assert_eq!((ticks.tick().await, now()), (at(31), at(31)));
        ticks.reset_at(at(33));
        assert_eq!((ticks.tick().await, now()), (at(33), at(33)));
        assert_eq!((ticks.tick().await, now()), (at(43), at(43)));
        ticks.reset_at(at(1));
        // Past: at once, and the rhythm of that time.
        assert_eq!((ticks.tick().await, now()), (at(1), at(43)));
        assert_eq!((ticks.tick().await, now()), (at(51), at(51)));
        assert_eq!(ticks.period(), 10 * MS);
    });
}

/// Late by less than a period is not missed; by one or more, each behaviour has its own times. So has a mixture.
#[test]
fn missed_ticks() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    async fn run(behaviour: MissedTickBehavior, late: Duration) -> Vec<(u128, u128)> {
        let (start, mut ticks) = (now(), interval(10 * MS));
        ticks.set_missed_tick_behavior(behaviour);
        assert_eq!(ticks.missed_tick_behavior(), behaviour);
        ticks.tick().await;
        sleep(late).await;
        let mut seen = Vec::new();
        for _ in 0..4 {
            let due = ticks.tick().await;
            seen.push(((due - start).as_millis(), (now() - start).as_millis()));
        }
        seen
    }
    testing::Simulation::new(1).run(async {
        for behaviour in [Burst, Delay, Skip] {
            let punctual = [(10, 10), (20, 20), (30, 30), (40, 40)];
            assert_eq!(run(behaviour, 9 * MS).await, punctual);
            assert_eq!(run(behaviour, 19 * MS).await, [(10, 19), (20, 20), (30, 30), (40, 40)]);
        }
        assert_eq!(run(Burst, 35 * MS).await, [(10, 35), (20, 35), (30, 35), (40, 40)]);
        assert_eq!(run(Delay, 35 * MS).await, [(10, 35), (45, 45), (55, 55), (65, 65)]);
        assert_eq!(run(Skip, 35 * MS).await, [(10, 35), (40, 40), (50, 50), (60, 60)]);
        // A period so short that no number counts what was missed.
        let mut ticks = interval(Duration::from_nanos(1));
        let first = ticks.tick().await;
        sleep(3_600_000 * MS).await;
        assert!(ticks.tick().await <= now());
        assert!(ticks.tick().await >= first + 3_600_000 * MS);
        // More were missed than 32 bits count: the rhythm stays all the same.
        let (period, late) = (Duration::from_nanos(1_300), 7_200_000 * MS);
        let mut ticks = interval(period);
        let first = ticks.tick().await;
        sleep(late).await;
        ticks.tick().await;
        let next = ticks.tick().await - first;
        assert_eq!(next.as_nanos() % period.as_nanos(), 0, "{next:?}");
        assert!(next > late && next <= late + period, "{next:?}");
    });
}

/// Also a tick that was awaited in time is late if its task is polled late: here its thread is kept by another task.
#[test]
fn a_tick_whose_task_is_polled_late_is_late() {
    let _dog = watchdog(30);
    LocalRuntime::new().unwrap().block_on(async {
        let mut ticks = interval(10 * MS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (first, late, busy) = loop {
            let first = ticks.tick().await;
            let mut second = pin!(ticks.tick());
            // Ready: this thread was held up, and the tick was not awaited in time.
            if poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx))).await.is_pending() {
                let busy = spawn_local(async { std::thread::sleep(35 * MS) });
                break (first, second.await, busy);
            }
        };
        assert!(late > first);
        assert!(ticks.tick().await >= first + 45 * MS, "the rhythm has begun anew");
        busy.await.unwrap();
    });
}

/// The time of `timeout` begins before the first poll of its future: what that poll takes is a part of it.
#[test]
fn a_long_first_poll_counts_for_a_timeout() {
    let _dog = watchdog(30);
    let limit = 60 * MS;
    let polls = runtime(1).block_on(async move {
        let mut polls = 0;
        let long = poll_fn(|cx| {
            polls += 1;
            // From the poll on: the limit has begun by then.
            let begun = Instant::now();
            until(|| begun.elapsed() >= limit);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(timeout(limit, long).await.is_err());
        polls
    });
    assert_eq!(polls, 1, "the time was over in the first poll");
}
