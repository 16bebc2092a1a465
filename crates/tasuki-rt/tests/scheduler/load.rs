//! The scheduler under load, and with workers that sleep: every task is run, once, and none is forgotten.

use crate::kit::{MS, runtime, scaled, until, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tasuki::{Event, Mutex, MutexGuard, Semaphore};
use tasuki_rt::{JoinSet, Resume, Runtime, WorkerId, sleep, spawn, yield_now};

const EACH: [Resume; 3] = [Resume::Next, Resume::Local, Resume::Global];

/// B115: spawned by a thread that never runs anything, run by the workers.
#[test]
fn a_spawn_from_a_thread_that_never_runs_tasks_is_run() {
    let _dog = watchdog(30);
    let runtime = Arc::new(runtime(1));
    runtime.start().unwrap();
    for _ in 0..scaled(200, 5) {
        let there = runtime.clone();
        let task = thread::spawn(move || there.spawn(async { 1 })).join().unwrap();
        until(|| task.is_finished());
    }
}

/// B137: the local queue is a ring. Tasks that keep it nearly full go round it hundreds of times, each in its turn; with more than it
/// holds, what overflows comes back, and no task is lost or run twice.
#[test]
#[cfg_attr(miri, ignore = "thousands of polls, or the ring is not full")]
fn the_local_queue_goes_round_and_round() {
    let _dog = watchdog(200);
    let laps = 300;
    for tasks in [1000, 1500] {
        let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let (runtime, inside) = (runtime(1), counts.clone());
        let spawns = runtime.spawn(async move {
            for n in 0..tasks {
                let counts = inside.clone();
                drop(spawn(async move {
                    let [polls, out_of_turn] = &*counts;
                    for lap in 0..laps {
                        let turn = polls.fetch_add(1, Ordering::Relaxed) == lap * tasks + n;
                        out_of_turn.fetch_add(usize::from(!turn), Ordering::Relaxed);
                        yield_now().await;
                    }
                }));
            }
        });
        runtime.block_on(spawns).unwrap();
        runtime.drain(Duration::MAX).unwrap();
        let [polls, out_of_turn] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(polls, laps * tasks);
        assert!(tasks > 1024 || out_of_turn == 0, "{out_of_turn} of {polls} polls");
    }
}

/// B125: every task is run exactly once, spawned from outside and inside, stolen and overflowed.
#[test]
fn a_million_tasks_each_run_once() {
    let _dog = watchdog(400);
    let tasks = scaled(if cfg!(debug_assertions) { 200_000 } else { 1_000_000 }, 120);
    let runs: Arc<Vec<AtomicU8>> = Arc::new((0..tasks).map(|_| AtomicU8::new(0)).collect());
    let runtime = runtime(4);
    let done = Arc::new(AtomicUsize::new(0));
    let batch = scaled(1000, 40);
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for start in (0..tasks).step_by(batch) {
            let (runs, done) = (runs.clone(), done.clone());
            set.spawn(async move {
                for id in start..start + batch {
                    let (runs, done) = (runs.clone(), done.clone());
                    drop(spawn(async move {
                        if id % 16 == 0 {
                            yield_now().await;
                        }
                        runs[id].fetch_add(1, Ordering::Relaxed);
                        done.fetch_add(1, Ordering::Relaxed);
                    }));
                    if id % 64 == 0 {
                        yield_now().await;
                    }
                }
            });
        }
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
        while done.load(Ordering::Relaxed) < tasks {
            sleep(MS).await;
        }
    });
    assert!(runs.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    // A detached task has counted itself just before its end.
    until(|| runtime.tasks() == 0);
}

/// S0-01, S0-02: contended locks under every policy of resuming, with tasks that move.
#[test]
fn locks_are_exclusive_and_no_task_is_forgotten() {
    const TASKS: usize = scaled(24, 6);
    const ROUNDS: usize = scaled(300, 3);
    let _dog = watchdog(200);
    for resume in EACH {
        let runtime = Runtime::builder().workers(3).resume(resume).build().unwrap();
        let (mutex, permits) = (Arc::new(Mutex::new(0_usize)), Arc::new(Semaphore::new(2)));
        let inside = Arc::new(AtomicBool::new(false));
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for n in 0..TASKS {
                let (mutex, permits, inside) = (mutex.clone(), permits.clone(), inside.clone());
                set.spawn(async move {
                    for round in 0..ROUNDS {
                        let mut guard = mutex.lock().await;
                        assert!(!inside.swap(true, Ordering::Relaxed));
                        *guard += 1;
                        if (n + round) % 7 == 0 {
                            yield_now().await;
                        }
                        inside.store(false, Ordering::Relaxed);
                        if n % 2 == 0 {
                            MutexGuard::hand_off(guard).await;
                        } else {
                            drop(guard);
                        }
                        drop(permits.acquire().await.unwrap());
                    }
                });
            }
            while let Some(result) = set.join_next().await {
                result.unwrap();
            }
        });
        assert_eq!(*mutex.try_lock().unwrap(), TASKS * ROUNDS);
    }
}

/// S0-18, S0-19: a chain of hand-offs is a chain of turns, not of stack frames.
#[test]
fn a_long_chain_of_unlocks_needs_no_stack() {
    const TASKS: usize = scaled(50_000, 30);
    let _dog = watchdog(120);
    let runtime = runtime(1);
    let mutex = Arc::new(Mutex::new(0));
    runtime.block_on(async {
        let guard = mutex.lock().await;
        let mut set = JoinSet::new();
        for _ in 0..TASKS {
            let mutex = mutex.clone();
            set.spawn(async move { *mutex.lock().await += 1 });
        }
        sleep(50 * MS).await;
        drop(guard);
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
    });
    assert_eq!(*mutex.try_lock().unwrap(), TASKS);
}

/// Sleeping workers are woken by each kind of push: many short rounds with pauses in between.
#[test]
fn no_wake_up_is_lost_between_sleep_and_push() {
    let _dog = watchdog(120);
    for workers in [1, 2, 4] {
        let runtime = Arc::new(runtime(workers));
        let rounds = scaled(if cfg!(debug_assertions) { 2_000 } else { 10_000 }, 5);
        let from_outside = runtime.clone();
        let outside = thread::spawn(move || {
            for n in 0..rounds {
                let task = from_outside.spawn(async move { n });
                while !task.is_finished() {
                    thread::yield_now();
                }
            }
        });
        runtime.block_on(async {
            for n in 0..rounds {
                let pinned = tasuki_rt::spawn_on(WorkerId::new(n % workers), yield_now);
                let moving = spawn(yield_now());
                pinned.await.unwrap();
                moving.await.unwrap();
            }
        });
        outside.join().unwrap();
    }
}

/// Many tasks come from outside at once, and wait in the global queue: what a task spawns or wakes meanwhile is among the next of the local queue, and not behind all of them.
#[test]
fn what_a_task_wakes_does_not_go_behind_a_crowd() {
    /// How many polls come before what has been spawned or woken is ready, and its parent again: as many as a local queue holds, each time.
    const AHEAD: usize = 2 * 1_024;
    const CROWD: usize = scaled(50_000, 4_000);
    const CHILDREN: usize = 3;

    /// Waits for its children until the crowd has had so many polls. How many of these came at most meanwhile.
    async fn parent(run: Arc<AtomicUsize>, polls: usize, wakes: bool) -> usize {
        let mut most = 0;
        while run.load(Ordering::Relaxed) < polls {
            let gate = Arc::new(Event::manual());
            let child = || {
                spawn({
                    let gate = gate.clone();
                    async move {
                        if wakes {
                            gate.wait().await
                        }
                    }
                })
            };
            let mut before = run.load(Ordering::Relaxed);
            let children: Vec<_> = (0..CHILDREN).map(|_| child()).collect();
            if wakes {
                yield_now().await;
                before = run.load(Ordering::Relaxed);
                gate.set();
            }
            for child in children {
                child.await.unwrap();
            }
            most = most.max(run.load(Ordering::Relaxed) - before);
        }
        most
    }

    /// One of the crowd, which another one wakes before each of its polls but the first, if they are woken at all; else it yields.
    async fn one_of_the_crowd(run: Arc<AtomicUsize>, polls: usize, pair: Option<[Arc<Event>; 2]>) {
        run.fetch_add(1, Ordering::Relaxed);
        for _ in 1..polls {
            match &pair {
                Some([own, other]) => {
                    other.set();
                    own.wait().await;
                }
                None => yield_now().await,
            }
            run.fetch_add(1, Ordering::Relaxed);
        }
        if let Some([_, other]) = pair {
            other.set();
        }
    }

    let _dog = watchdog(60);
    // Of the crowd: a task that is polled once, and those that stay where they were taken to.
    for (polls, pairs) in [(1, false), (3, false), (6, false), (6, true)] {
        for wakes in [false, true] {
            let (runtime, run) = (runtime(1), Arc::new(AtomicUsize::new(0)));
            let parent = runtime.spawn(parent(run.clone(), CROWD * polls, wakes));
            for _ in 0..CROWD / 2 {
                let [a, b] = [(); 2].map(|()| Arc::new(Event::auto()));
                for pair in [[a.clone(), b.clone()], [b, a]] {
                    let pair = if pairs { Some(pair) } else { None };
                    drop(runtime.spawn(one_of_the_crowd(run.clone(), polls, pair)));
                }
            }
            let most = runtime.block_on(parent).unwrap();
            assert!(most <= AHEAD, "{most} of {} came first: pairs {pairs}, wakes {wakes}", CROWD * polls);
        }
    }
}

/// More tasks are ready than a local queue holds: those that wait in the global queue have their turns, too.
#[test]
#[cfg_attr(miri, ignore = "thousands of polls, or the ring is not full")]
fn more_tasks_than_a_local_queue_holds_have_their_turns() {
    const TURNS: usize = 60;
    let _dog = watchdog(200);
    for tasks in [1_100, 2_000] {
        let (runtime, total) = (runtime(1), Arc::new(AtomicUsize::new(0)));
        let turns = move || {
            let total = total.clone();
            async move {
                let mut turns = 0;
                while total.fetch_add(1, Ordering::Relaxed) < tasks * TURNS {
                    turns += 1;
                    yield_now().await;
                }
                turns
            }
        };
        let spawned = runtime.spawn(async move { (0..tasks).map(|_| spawn(turns())).collect::<Vec<_>>() });
        let least = runtime.block_on(async {
            let mut least = usize::MAX;
            for task in spawned.await.unwrap() {
                least = least.min(task.await.unwrap());
            }
            least
        });
        assert!(least >= TURNS / 6, "{least} turns of {TURNS}, of {tasks} tasks");
    }
}
