//! Tour stop: the runtime: many tasks, many sleeps, pinned tasks, tasks that panic or are aborted.

use super::tasks::LIMIT;
use super::{Guide, grouped, note_wait, rate, resident, until};
use crate::alloc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::Event;
use tasuki_rt::{WorkerId, spawn, yield_now};

/// Most bytes of a task beyond its future. Debug builds also have a record of its wait, in memory that grows by doubling.
const TASK_BYTES: usize = if cfg!(debug_assertions) { 600 } else { 200 };
/// The longest sleep.
const SLEEP_MS: usize = 100;

/// Shows what a runtime has to do.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(1_000_000, 20_000);
    idle(guide, tasks)?;
    sleeping(guide, tasks)?;
    at_home(guide)?;
    ended_badly(guide)?;
    shut_down(guide, tasks / 10)
}

/// So many tasks exist at once, and weigh little.
fn idle(guide: &Guide, tasks: usize) -> Result<(), String> {
    let (end, waiting) = (Arc::new(Event::manual()), Arc::new(AtomicUsize::new(0)));
    let seen = waiting.clone();
    let work = async move {
        let wait = |me: usize| {
            let (end, waiting) = (end.clone(), waiting.clone());
            async move {
                note_wait(end.wait(), &waiting).await;
                me
            }
        };
        let future_bytes = size_of_val(&wait(0));
        let mut handles = Vec::with_capacity(tasks);
        let watch = alloc::Watch::start();
        let (start, before) = (Instant::now(), alloc::of_workers().1);
        handles.extend((0..tasks).map(|me| spawn(wait(me))));
        // Acquire: pairs with Release in `note_wait`.
        until(|| waiting.load(Ordering::Acquire) == tasks).await;
        let (taken, bytes) = (start.elapsed(), alloc::of_workers().1 - before);
        drop(watch);
        let beyond = (bytes as f64 / tasks as f64).ceil() - future_bytes as f64;
        let memory = resident();
        end.set();
        let mut sum = 0;
        for handle in handles {
            sum += handle.await.unwrap_or_default();
        }
        (taken, beyond, memory, sum)
    };
    let progress = || format!("   {} tasks of {tasks} wait", seen.load(Ordering::Relaxed));
    let (taken, beyond, memory, sum) = guide.run(work, progress)?;
    guide.check(
        sum == tasks * (tasks - 1) / 2,
        format_args!("{} tasks waited at once, and all returned what they should", grouped(tasks)),
    )?;
    guide.say(format_args!("       spawned and queued: {}; {memory}", rate(tasks, taken)));
    guide.check(beyond <= TASK_BYTES as f64, format_args!("a task weighs {beyond} bytes beyond its future"))
}

/// As many sleep, for different times.
fn sleeping(guide: &Guide, tasks: usize) -> Result<(), String> {
    let awake = Arc::new(AtomicUsize::new(0));
    let seen = awake.clone();
    let work = async move {
        let start = Instant::now();
        let doze = |me: usize| {
            let awake = awake.clone();
            async move {
                let time = Duration::from_millis((me * 7 % SLEEP_MS) as u64);
                let begin = Instant::now();
                tasuki_rt::sleep(time).await;
                awake.fetch_add(1, Ordering::Relaxed);
                begin.elapsed() < time
            }
        };
        let handles: Vec<_> = (0..tasks).map(|me| spawn(doze(me))).collect();
        let mut early = 0;
        for handle in handles {
            early += usize::from(handle.await.unwrap_or(true));
        }
        (early, start.elapsed())
    };
    let progress = || format!("   {} tasks of {tasks} are awake again", seen.load(Ordering::Relaxed));
    let (early, taken) = guide.run(work, progress)?;
    guide.check(
        early == 0,
        format_args!("{} tasks slept for 0 to {SLEEP_MS} ms, none woke early", grouped(tasks)),
    )?;
    guide.say(format_args!("       {} ms in all; {}", taken.as_millis(), rate(tasks, taken)));
    Ok(())
}

/// A pinned task stays on the thread of its worker.
fn at_home(guide: &Guide) -> Result<(), String> {
    let runtime = &guide.runtime;
    let stay = |id: WorkerId| {
        runtime.spawn_on(id, || async {
            let home = thread::current().id();
            let mut away = 0;
            for turn in 0..100 {
                if turn % 10 == 0 {
                    tasuki_rt::sleep(Duration::from_millis(1)).await
                } else {
                    yield_now().await
                }
                away += usize::from(thread::current().id() != home);
            }
            (home, away)
        })
    };
    let mut tasks = Vec::new();
    runtime.for_each_worker(|id| tasks.push(stay(id)));
    let work = async move {
        let mut homes = Vec::new();
        for task in tasks {
            homes.extend(task.await.ok());
        }
        homes
    };
    let homes = guide.run(work, || "   pinned tasks go round")?;
    let mut threads: Vec<_> = homes.iter().map(|(home, _)| format!("{home:?}")).collect();
    threads.sort();
    threads.dedup();
    guide.check(
        threads.len() == runtime.workers() && homes.iter().all(|(_, away)| *away == 0),
        "a task pinned to each worker: each has its own thread, and never left it",
    )
}

/// A panic and an abort are reported, and hurt no other task.
fn ended_badly(guide: &Guide) -> Result<(), String> {
    let work = async {
        // Unlike `panic!`, prints nothing.
        let panics = spawn(async { std::panic::resume_unwind(Box::new("on purpose")) });
        let aborted = spawn(std::future::pending::<()>());
        let fine = spawn(async { 42 });
        aborted.abort();
        let panicked: Result<(), _> = panics.await;
        let (panicked, aborted) = (panicked.err(), aborted.await.err());
        panicked.is_some_and(|error| error.is_panic())
            && aborted.is_some_and(|error| error.is_aborted())
            && fine.await.ok() == Some(42)
    };
    let told = guide.run(work, || "   tasks end badly")?;
    guide.check(told, "a task that panics and one that is aborted say so; the third returns 42")
}

/// A runtime that shuts down drops its tasks, wherever they wait.
fn shut_down(guide: &Guide, tasks: usize) -> Result<(), String> {
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    let runtime = super::runtime(guide.args).map_err(|error| error.to_string())?;
    let (alive, mutex) = (Arc::new(AtomicUsize::new(0)), Arc::new(tasuki::Mutex::new(0)));
    let held = mutex.try_lock().ok_or("a new mutex is free")?;
    let waiting = Arc::new(AtomicUsize::new(0));
    for _ in 0..tasks {
        alive.fetch_add(1, Ordering::Relaxed);
        let (alive, mutex, waiting) = (Alive(alive.clone()), mutex.clone(), waiting.clone());
        drop(runtime.spawn(async move {
            let _alive = alive;
            *note_wait(mutex.lock(), &waiting).await += 1;
        }));
    }
    runtime.start().map_err(|error| error.to_string())?;
    // Until the first of them wait; the others may have been polled or not, and are dropped all the same.
    while waiting.load(Ordering::Relaxed) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    runtime.shutdown_timeout(LIMIT).map_err(|error| error.to_string())?;
    let taken = start.elapsed();
    drop(held);
    let unharmed = mutex.try_lock().is_some_and(|value| *value == 0);
    guide.check(
        alive.load(Ordering::Relaxed) == 0 && unharmed,
        format_args!("a shutdown drops {} tasks that wait for a lock, and the lock is free", grouped(tasks)),
    )?;
    guide.say(format_args!("       {}", rate(tasks, taken)));
    Ok(())
}
