//! The scheduler under load, idle, and with tasks that misbehave.

use crate::kit::{MS, runtime, scaled, until, watchdog};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::{Event, Mutex, MutexGuard, Semaphore};
use tasuki_rt::{EventLoop, JoinSet, Resume, Runtime, WorkerId, checkpoint, sleep, spawn, yield_now};

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

/// A worker that always has a task of its own never searches. It takes its share of what another one has all the same.
#[test]
fn a_worker_that_is_never_idle_takes_its_share() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.start().unwrap();
    let (stop, busy, shared) = (flag(), flag(), flag());
    let (stopped, begun) = (stop.clone(), busy.clone());
    let alone = runtime.spawn_on(WorkerId::new(1), move || async move {
        while !stopped.load(Ordering::SeqCst) {
            begun.store(true, Ordering::SeqCst);
            yield_now().await;
        }
    });
    until(|| busy.load(Ordering::SeqCst));
    let (stopped, seen) = (stop.clone(), shared.clone());
    let crowd = runtime.spawn_on(WorkerId::new(0), move || async move {
        let member = || {
            let (stopped, seen) = (stopped.clone(), seen.clone());
            spawn(async move {
                while !stopped.load(Ordering::SeqCst) {
                    if EventLoop::current().expect("a worker").id() == WorkerId::new(1) {
                        seen.store(true, Ordering::SeqCst);
                    }
                    yield_now().await;
                }
            })
        };
        (0..40).map(|_| member()).collect::<Vec<_>>()
    });
    until(|| shared.load(Ordering::SeqCst));
    stop.store(true, Ordering::SeqCst);
    runtime.block_on(async {
        alone.await.unwrap();
        for task in crowd.await.unwrap() {
            task.await.unwrap();
        }
    });
}

fn flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
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
fn locks_are_exclusive_and_nobody_is_forgotten() {
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

/// The new owner sits in the *next* slot of a worker whose poll goes on and on: another one takes it.
#[test]
fn the_next_slot_is_stolen_from_a_long_poll() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    for _ in 0..scaled(5, 1) {
        let (mutex, stop) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (held, other, end) = (mutex.clone(), mutex.clone(), stop.clone());
        runtime.block_on(async {
            let locked = Arc::new(Event::manual());
            let tell = locked.clone();
            let long = spawn(async move {
                let guard = held.lock().await;
                tell.set();
                sleep(10 * MS).await;
                drop(guard);
                // From here on the worker is lost, but for the thief.
                until(|| end.load(Ordering::SeqCst));
            });
            locked.wait().await;
            let owner = spawn(async move { drop(other.lock().await) });
            owner.await.unwrap();
            stop.store(true, Ordering::SeqCst);
            long.await.unwrap();
        });
    }
}

/// The same for one task alone in a local queue.
#[test]
fn a_lonely_task_is_stolen_from_a_long_poll() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.block_on(async {
        for _ in 0..scaled(5, 1) {
            sleep(3 * MS).await;
            spawn(async {
                let ran = Arc::new(AtomicBool::new(false));
                let tell = ran.clone();
                drop(spawn(async move { tell.store(true, Ordering::SeqCst) }));
                until(|| ran.load(Ordering::SeqCst));
            })
            .await
            .unwrap();
        }
    });
}

/// Two tasks whose polls are neither short nor very long do not share one worker while the other sleeps.
#[test]
fn middling_polls_use_both_workers() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let (apart, settled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let places: Arc<[AtomicUsize; 2]> = Arc::default();
    let worker = |n: usize| {
        let (apart, places, settled) = (apart.clone(), places.clone(), settled.clone());
        async move {
            while !apart.load(Ordering::Relaxed) {
                let here = tasuki_rt::EventLoop::current().unwrap().id().index() + 1;
                places[n].store(here, Ordering::Relaxed);
                let start = Instant::now();
                while start.elapsed() < MS / 3 {
                    std::hint::spin_loop();
                }
                let there = places[1 - n].load(Ordering::Relaxed);
                if settled.load(Ordering::Relaxed) && there != 0 && there != here {
                    apart.store(true, Ordering::Relaxed);
                }
                yield_now().await;
            }
        }
    };
    let (one, two) = (worker(0), worker(1));
    runtime.block_on(async {
        // Both settle on one worker, because the other one is busy for a while.
        let entered = Arc::new(Event::manual());
        let tell = entered.clone();
        let busy = tasuki_rt::spawn_on(WorkerId::new(1), move || async move {
            tell.set();
            thread::sleep(20 * MS);
            settled.store(true, Ordering::Relaxed);
        });
        entered.wait().await;
        let both = tasuki_rt::spawn_on(WorkerId::new(0), || async move { (spawn(one), spawn(two)) });
        let (one, two) = both.await.unwrap();
        busy.await.unwrap();
        one.await.unwrap();
        two.await.unwrap();
    });
    assert!(apart.load(Ordering::Relaxed));
}

/// Batons that go round and round do not starve the queue, the inbox or the timers of their worker.
#[test]
fn batons_do_not_starve_others() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let (mutex, stop) = (Arc::new(Mutex::new(0_u64)), Arc::new(AtomicBool::new(false)));
    let mut chain = Vec::new();
    for n in 0..2 {
        let (mutex, stop) = (mutex.clone(), stop.clone());
        let body = async move {
            while !stop.load(Ordering::Relaxed) {
                let mut guard = mutex.lock().await;
                *guard += 1;
                MutexGuard::hand_off(guard).await;
                // Without a waiter a hand-off is ready at once, and no lock of tasuki is charged.
                checkpoint().await;
            }
        };
        chain.push(if n == 0 { runtime.spawn(body) } else { runtime.spawn_on(WorkerId::new(0), || body) });
    }
    runtime.block_on(async {
        for _ in 0..scaled(20, 1) {
            spawn(yield_now()).await.unwrap();
            tasuki_rt::spawn_on(WorkerId::new(0), yield_now).await.unwrap();
            spawn(sleep(MS)).await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        for task in chain {
            task.await.unwrap();
        }
    });
    assert!(*mutex.try_lock().unwrap() > 0);
}

/// A message that is handed to a receiver that waits makes its task run next, before those that are queued already.
#[test]
fn a_message_makes_its_receiver_next() {
    let _dog = watchdog(60);
    for (resume, is_next) in [(Resume::Next, true), (Resume::Local, false)] {
        let runtime = Runtime::builder().workers(1).resume(resume).build().unwrap();
        let log = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (inside, waits) = (log.clone(), Arc::new(AtomicBool::new(false)));
        // All on the one worker.
        let tasks = runtime.spawn(async move {
            let (sender, receiver) = tasuki::channel::bounded(1);
            let (told, logged) = (waits.clone(), inside.clone());
            let receives = spawn(async move {
                told.store(true, Ordering::Relaxed);
                receiver.recv().await.unwrap();
                logged.lock().unwrap().push("receiver");
            });
            while !waits.load(Ordering::Relaxed) {
                yield_now().await;
            }
            let others: Vec<_> = (0..4)
                .map(|_| {
                    let logged = inside.clone();
                    spawn(async move { logged.lock().unwrap().push("other") })
                })
                .collect();
            sender.try_send(1).unwrap();
            receives.await.unwrap();
            for other in others {
                other.await.unwrap();
            }
        });
        runtime.block_on(tasks).unwrap();
        let log = log.lock().unwrap();
        assert_eq!((log.len(), log[0] == "receiver"), (5, is_next), "{resume:?}: {log:?}");
    }
}

/// New owners of a lock go first, but not for long: with sections of a millisecond others run after a few of them.
#[test]
fn long_sections_do_not_starve_others() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let (mutex, stop) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let sections = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (mutex, stop, sections) = (mutex.clone(), stop.clone(), sections.clone());
        drop(runtime.spawn(async move {
            let guard = mutex.lock().await;
            // The others enqueue: from now on each release grants.
            yield_now().await;
            drop(guard);
            while !stop.load(Ordering::SeqCst) {
                let _guard = mutex.lock().await;
                sections.fetch_add(1, Ordering::SeqCst);
                thread::sleep(MS);
            }
        }));
    }
    let yields = runtime.spawn(async move {
        let mut longest = 0;
        while sections.load(Ordering::SeqCst) < scaled(300, 30) {
            let before = sections.load(Ordering::SeqCst);
            yield_now().await;
            longest = longest.max(sections.load(Ordering::SeqCst) - before);
        }
        stop.store(true, Ordering::SeqCst);
        longest
    });
    let longest = runtime.block_on(yields).unwrap();
    println!("at most {longest} sections between two turns");
    assert!(longest <= 12, "{longest} sections while a task yields");
}

/// Two pinned tasks hand a lock to and fro, so that one of them is always next; a task that is next and not pinned has its turn all
/// the same.
#[test]
fn both_next_slots_are_served() {
    let _dog = watchdog(60);
    let (runtime, mutex, other) = (runtime(1), Arc::new(Mutex::new(0_u64)), Arc::new(Mutex::new(())));
    let (rounds, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for _ in 0..2 {
        let (mutex, rounds, end) = (mutex.clone(), rounds.clone(), served.clone());
        drop(runtime.spawn_on(WorkerId::new(0), move || async move {
            let mut guard = mutex.lock().await;
            yield_now().await;
            while !end.load(Ordering::SeqCst) {
                rounds.fetch_add(1, Ordering::SeqCst);
                drop(guard);
                guard = mutex.lock().await;
            }
        }));
    }
    let done = served.clone();
    drop(runtime.spawn(async move {
        let guard = other.lock().await;
        let wanted = other.clone();
        drop(spawn(async move {
            let _guard = wanted.lock().await;
            done.store(true, Ordering::SeqCst);
        }));
        // By then the other waits for the lock.
        let seen = rounds.load(Ordering::SeqCst);
        while rounds.load(Ordering::SeqCst) < seen + scaled(1000, 20) {
            yield_now().await;
        }
        drop(guard);
    }));
    runtime.start().unwrap();
    until(|| served.load(Ordering::SeqCst));
}

/// A worker that is flooded by its own tasks still serves its inbox, the global queue and its timers.
#[test]
fn a_flooded_worker_serves_everybody() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let stop = Arc::new(AtomicBool::new(false));
    let flood: Vec<_> = (0..scaled(600, 12))
        .map(|_| {
            let stop = stop.clone();
            runtime.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    yield_now().await;
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for _ in 0..scaled(10, 1) {
            spawn(async {}).await.unwrap();
            tasuki_rt::spawn_on(WorkerId::new(0), || async {}).await.unwrap();
            spawn(sleep(MS)).await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        for task in flood {
            task.await.unwrap();
        }
    });
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

/// S0-20: with `Resume::Global` the new owner of a lock is in the queue that all workers share: another worker runs it while the
/// releaser's poll goes on, which waits for that.
#[test]
fn resume_global_lets_another_worker_run_the_owner() {
    let _dog = watchdog(30);
    let runtime = Runtime::builder().workers(2).resume(Resume::Global).build().unwrap();
    let (mutex, states) = (Arc::new(Mutex::new(())), Arc::new([const { AtomicBool::new(false) }; 2]));
    let guard = runtime.block_on(mutex.clone().lock_owned());
    let told = states.clone();
    let waiter = runtime.spawn(async move {
        let mut lock = pin!(mutex.lock());
        let _guard = poll_fn(|cx| {
            let poll = lock.as_mut().poll(cx);
            told[usize::from(poll.is_ready())].store(true, Ordering::SeqCst);
            poll
        })
        .await;
    });
    let releaser = runtime.spawn(async move {
        let [queued, owned] = &*states;
        until(|| queued.load(Ordering::SeqCst));
        drop(guard);
        until(|| owned.load(Ordering::SeqCst)); // in the same poll
    });
    runtime.block_on(async {
        releaser.await.unwrap();
        waiter.await.unwrap();
    });
}
