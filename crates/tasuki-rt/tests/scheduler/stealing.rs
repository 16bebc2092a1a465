//! What a worker that has nothing to do, or less than another, takes from the others: also from a poll that goes on and on.

use crate::kit::{MS, runtime, scaled, until, watchdog};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::{Event, Mutex};
use tasuki_rt::{EventLoop, Resume, Runtime, WorkerId, sleep, spawn, spawn_local, yield_now};

fn flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
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

/// Both, while the other worker is never idle, so that none watches: a poll that ends only when the task has run, which is a new one, or one that was given a message. Also if the other has so many tasks that it does not
/// compare itself.
#[test]
fn a_worker_that_is_never_idle_takes_what_waits_for_a_long_poll() {
    let _dog = watchdog(60);
    for many in [0, scaled(400, 300)] {
        beside_a_long_poll(many);
    }
}

fn beside_a_long_poll(many: usize) {
    let runtime = runtime(2);
    let stop = flag();
    let stopped = stop.clone();
    let busy = runtime.spawn_on(WorkerId::new(1), move || async move {
        let yields = || {
            let stopped = stopped.clone();
            async move {
                while !stopped.load(Ordering::SeqCst) {
                    yield_now().await;
                }
            }
        };
        let all: Vec<_> = (0..many).map(|_| spawn(yields())).collect();
        yields().await;
        for task in all {
            task.await.unwrap();
        }
    });
    runtime.block_on(async {
        for is_message in [false, true] {
            let (ran, waits) = (flag(), flag());
            let (told, tell) = (waits.clone(), ran.clone());
            let (sender, receiver) = tasuki::channel::bounded(1);
            let task = async move {
                told.store(true, Ordering::SeqCst);
                receiver.recv().await.unwrap();
                tell.store(true, Ordering::SeqCst);
            };
            let long = tasuki_rt::spawn_on(WorkerId::new(0), move || async move {
                if is_message {
                    drop(spawn(task));
                    // It is in the queue of the channel when its poll has ended: that of this worker, or of the other one some time after it said so.
                    while !waits.load(Ordering::SeqCst) {
                        yield_now().await;
                    }
                    sleep(5 * MS).await;
                    sender.try_send(()).unwrap();
                } else {
                    sender.try_send(()).unwrap();
                    drop(spawn(task));
                }
                until(|| ran.load(Ordering::SeqCst));
            });
            long.await.unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        busy.await.unwrap();
    });
}

/// What waits for a worker that is stuck in a poll waits for few polls of one that is never idle, however long these are, and not for those of all the tasks that this one has.
#[test]
fn what_waits_for_a_stuck_worker_waits_for_few_polls_of_another() {
    let _dog = watchdog(120);
    for (pinned, length, most) in [(1, 2 * MS, 16), (100, 2 * MS, 16), (scaled(2_000, 20), MS / 50, 1_000)] {
        let polls = polls_beside_a_stuck_worker(pinned, length);
        assert!(polls <= scaled(most, usize::MAX), "{polls} polls of {length:?} of {pinned} tasks");
    }
}

fn polls_beside_a_stuck_worker(pinned: usize, length: Duration) -> usize {
    let (runtime, stop, polls) = (runtime(2), flag(), Arc::new(AtomicUsize::new(0)));
    let (stopped, counted) = (stop.clone(), polls.clone());
    let busy = runtime.spawn_on(WorkerId::new(1), move || async move {
        for _ in 0..pinned {
            let (stopped, counted) = (stopped.clone(), counted.clone());
            drop(spawn_local(async move {
                while !stopped.load(Ordering::SeqCst) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let start = Instant::now();
                    while start.elapsed() < length {}
                    // At real-time priority it would keep its processor.
                    thread::yield_now();
                    yield_now().await;
                }
            }));
        }
    });
    let rounds = (0..scaled(3, 1)).map(|_| {
        let polls = polls.clone();
        let stuck = runtime.spawn_on(WorkerId::new(0), move || async move {
            let count = || polls.load(Ordering::SeqCst);
            // By then the other worker knows how long they are.
            while count() < scaled(100, 5) {
                sleep(MS).await;
            }
            let (ran_at, start) = (Arc::new(AtomicUsize::new(0)), count());
            let (tells, counts) = (ran_at.clone(), polls.clone());
            drop(spawn(async move { tells.store(counts.load(Ordering::SeqCst), Ordering::SeqCst) }));
            until(|| ran_at.load(Ordering::SeqCst) > 0);
            ran_at.load(Ordering::SeqCst) - start
        });
        runtime.block_on(stuck).unwrap()
    });
    let most = rounds.max().expect("at least one round");
    stop.store(true, Ordering::SeqCst);
    runtime.block_on(busy).unwrap();
    most
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

/// With `Resume::Global` another worker runs the new owner of a lock while the releaser's poll goes on, which waits for that. (It would with the other
/// settings, too, after a look of the watcher: in which queue the owner is, the test below says.)
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

/// S0-20: which queue the new owner of a lock is in while the poll of its releaser goes on. There is one worker, so that none takes it out.
#[test]
fn resume_says_in_which_queue_the_owner_is() {
    let _dog = watchdog(30);
    for (resume, is_global) in [(Resume::Next, false), (Resume::Local, false), (Resume::Global, true)] {
        let runtime = Runtime::builder().workers(1).resume(resume).build().unwrap();
        let handle = runtime.handle();
        let in_global = runtime.block_on(runtime.spawn(async move {
            let mutex = Arc::new(Mutex::new(()));
            let guard = mutex.clone().lock_owned().await;
            let waits = flag();
            let told = waits.clone();
            let waiter = spawn(async move {
                told.store(true, Ordering::SeqCst); // and is enqueued in the same poll
                drop(mutex.lock().await);
            });
            while !waits.load(Ordering::SeqCst) {
                yield_now().await;
            }
            let queued = || (handle.metrics().queued(), handle.metrics().workers()[0].queued());
            let before = queued();
            drop(guard);
            let after = queued();
            waiter.await.unwrap();
            (before, after)
        }));
        let ((global, local), after) = in_global.unwrap();
        let expected = if is_global { (global + 1, local) } else { (global, local + 1) };
        assert_eq!(after, expected, "{resume:?}");
    }
}
