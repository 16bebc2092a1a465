//! No task keeps the others of its worker from running: neither the new owners of locks, which go first, nor a flood of tasks.

use crate::kit::{MS, runtime, scaled, until, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use tasuki::{Mutex, MutexGuard};
use tasuki_rt::{Resume, Runtime, WorkerId, checkpoint, sleep, spawn, yield_now};

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
                // Without a waiter a hand-off is mostly ready at once.
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

/// Tasks that hand a lock off take short turns, also when none of them is queued for it: on one worker each finds the lock free.
#[test]
fn turns_with_a_lock_that_is_handed_off_are_short() {
    /// Operations of an instalment of the budget, two a turn.
    const LONGEST: usize = 8;
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let owners = Arc::new(Mutex::new(Vec::new()));
    let take_turns = |me: usize| {
        let owners = owners.clone();
        async move {
            for _ in 0..scaled(1_000, 50) {
                let mut guard = owners.lock().await;
                guard.push(me);
                MutexGuard::hand_off(guard).await;
            }
        }
    };
    runtime.block_on(async {
        // Spawned by a task: all are there before the first runs.
        let tasks = spawn({
            let tasks: Vec<_> = (0..3).map(take_turns).collect();
            async { tasks.into_iter().map(spawn).collect::<Vec<_>>() }
        });
        for task in tasks.await.unwrap() {
            task.await.unwrap();
        }
    });
    let owners = owners.try_lock().unwrap();
    // The last to end is alone.
    let all_there = owners.len() - owners.len() / 3;
    let longest = owners[..all_there].chunk_by(|a, b| a == b).map(<[usize]>::len).max();
    assert!(longest <= Some(LONGEST), "{longest:?} turns in a row");
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
fn a_flooded_worker_runs_every_task() {
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

/// Short polls between long ones do not make the worker look at its clock more seldom. Counted in polls: a machine that is held up makes them fewer.
#[test]
fn a_deadline_is_seen_after_a_long_poll_beside_short_ones() {
    let _dog = watchdog(60);
    let (runtime, longs) = (runtime(1), Arc::new(AtomicUsize::new(0)));
    for is_long in [true, false] {
        let longs = longs.clone();
        drop(runtime.spawn(async move {
            loop {
                if is_long {
                    longs.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(5 * MS);
                }
                yield_now().await;
            }
        }));
    }
    let task = runtime.spawn(async move {
        for _ in 0..scaled(20, 2) {
            let before = longs.load(Ordering::SeqCst);
            sleep(MS).await;
            // The one in which it ends, and one that is before it in the queue.
            let passed = longs.load(Ordering::SeqCst) - before;
            assert!(passed <= 3, "{passed} long polls in a sleep that one of them is longer than");
        }
    });
    runtime.block_on(task).unwrap();
}
