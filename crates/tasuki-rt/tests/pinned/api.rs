//! Pinned tasks: made, polled and dropped on their own thread, whichever thread wakes or aborts them.

use crate::kit::{Drops, MS, runtime, scaled, until, watchdog};
use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tasuki::Event;
use tasuki_rt::testing::Simulation;
use tasuki_rt::{EventLoop, LoopEnded, Runtime, WorkerId, sleep, spawn, spawn_local, yield_now};

fn thread_of(runtime: &Runtime, worker: usize) -> ThreadId {
    runtime.block_on(runtime.spawn_on(WorkerId::new(worker), || async { thread::current().id() })).unwrap()
}

/// Asserts its thread at every use, and is not `Send`.
struct AtHome {
    home: ThreadId,
    drops: Arc<AtomicUsize>,
    _here: PhantomData<Rc<()>>,
}

impl AtHome {
    fn new(drops: &Arc<AtomicUsize>) -> Self {
        Self { home: thread::current().id(), drops: drops.clone(), _here: PhantomData }
    }

    fn check(&self) {
        assert_eq!(thread::current().id(), self.home);
    }
}

impl Drop for AtHome {
    fn drop(&mut self) {
        if thread::current().id() != self.home {
            eprintln!("a pinned future was dropped on a foreign thread");
            std::process::abort();
        }
        self.drops.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_pinned_task_is_polled_at_home_from_wherever_it_is_woken() {
    let _dog = watchdog(60);
    let runtime = runtime(3);
    let event = Arc::new(Event::auto());
    let drops = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..3)
        .map(|worker| {
            let (event, drops) = (event.clone(), drops.clone());
            runtime.spawn_on(WorkerId::new(worker), move || async move {
                let at_home = AtHome::new(&drops);
                for _ in 0..scaled(200, 3) {
                    event.wait().await;
                    at_home.check();
                    yield_now().await;
                    at_home.check();
                    assert_eq!(EventLoop::current().unwrap().id(), WorkerId::new(worker));
                }
            })
        })
        .collect();
    runtime.start().unwrap();
    // Woken from a foreign thread and from tasks that move about.
    let setter = event.clone();
    let moving = runtime.spawn(async move {
        loop {
            setter.set();
            yield_now().await;
        }
    });
    while tasks.iter().any(|task| !task.is_finished()) {
        event.set();
        thread::yield_now();
    }
    moving.abort();
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(drops.load(Ordering::SeqCst), 3);
}

/// B117: aborted on a foreign thread, dropped at home; before its first poll, while it waits, while it is queued.
#[test]
fn an_abort_from_elsewhere_drops_at_home() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let drops = Arc::new(AtomicUsize::new(0));
    runtime.start().unwrap();
    for round in 0..scaled(300, 4) {
        let made = drops.clone();
        let task = runtime.spawn_on(WorkerId::new(round % 2), move || async move {
            let _at_home = AtHome::new(&made);
            loop {
                yield_now().await;
                if round % 3 == 0 {
                    pending::<()>().await;
                }
            }
        });
        if round % 4 != 0 {
            until(|| Arc::strong_count(&drops) > 2 || task.is_finished());
        }
        thread::spawn(move || {
            task.abort();
            task
        })
        .join()
        .map(|task| {
            let result: Result<(), _> = runtime.block_on(task);
            assert!(result.unwrap_err().is_aborted());
        })
        .unwrap();
    }
    assert_eq!(Arc::strong_count(&drops), 1);
}

/// A waker that outlives its task, and one that is the last to know it, on foreign threads.
#[test]
fn the_last_waker_may_go_anywhere() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let drops = Arc::new(AtomicUsize::new(0));
    let (made, kept) = (drops.clone(), Arc::new(Mutex::new(None::<Waker>)));
    let keep = kept.clone();
    drop(runtime.spawn_on(WorkerId::new(1), move || async move {
        let at_home = AtHome::new(&made);
        poll_fn(|cx| {
            at_home.check();
            *keep.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    }));
    runtime.start().unwrap();
    until(|| kept.lock().unwrap().is_some());
    for _ in 0..scaled(100, 3) {
        let waker = kept.lock().unwrap().clone();
        thread::spawn(move || waker.map(Waker::wake)).join().unwrap();
    }
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    drop(runtime);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    let late = kept.lock().unwrap().take();
    thread::spawn(move || late.map(Waker::wake)).join().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn shutdown_drops_pinned_tasks_at_home() {
    const TASKS: usize = scaled(300, 15);
    let _dog = watchdog(60);
    let runtime = runtime(3);
    let drops = Arc::new(AtomicUsize::new(0));
    let (event, started) = (Arc::new(Event::manual()), Arc::new(AtomicUsize::new(0)));
    for n in 0..TASKS {
        let (drops, event, started) = (drops.clone(), event.clone(), started.clone());
        drop(runtime.spawn_on(WorkerId::new(n % 3), move || async move {
            let _at_home = AtHome::new(&drops);
            let _local = (n % 5 == 0).then(|| {
                let nested = AtHome::new(&drops);
                spawn_local(async move {
                    let _nested = nested;
                    pending::<()>().await;
                })
            });
            started.fetch_add(1, Ordering::SeqCst);
            event.wait().await;
            pending::<()>().await;
        }));
    }
    runtime.start().unwrap();
    until(|| started.load(Ordering::SeqCst) == TASKS);
    // Some are being woken while the runtime goes.
    let setter = thread::spawn(move || event.set());
    drop(runtime);
    setter.join().unwrap();
    assert_eq!(drops.load(Ordering::SeqCst), TASKS + TASKS / 5);
}

/// S2-74: into the inbox before the start, and after it.
#[test]
fn static_spawns_before_and_after_the_start() {
    let _dog = watchdog(60);
    let runtime = runtime(4);
    let mut early = Vec::new();
    runtime.for_each_worker(|id| {
        early.push((id, runtime.spawn_on(id, || async { EventLoop::current().unwrap().id() })));
    });
    assert!(early.iter().all(|(_, task)| !task.is_finished()));
    runtime.start().unwrap();
    runtime.start().unwrap();
    let mut late = Vec::new();
    runtime.for_each_worker(|id| {
        late.push((id, runtime.spawn_on(id, || async { EventLoop::current().unwrap().id() })));
    });
    runtime.block_on(async {
        for (id, task) in early.into_iter().chain(late) {
            assert_eq!(task.await.unwrap(), id);
        }
    });
    let threads: Vec<_> = (0..4).map(|worker| thread_of(&runtime, worker)).collect();
    assert!((0..4).all(|a| (0..a).all(|b| threads[a] != threads[b])));
}

#[test]
fn a_runtime_that_was_never_started_drops_what_it_was_given() {
    let _dog = watchdog(30);
    let (runtime, drops) = (runtime(2), Drops::default());
    for worker in 0..2 {
        let (pinned, free) = (drops.one(), drops.one());
        drop(runtime.spawn_on(WorkerId::new(worker), move || async move { drop(pinned) }));
        drop(runtime.spawn(async move { drop(free) }));
    }
    assert_eq!((runtime.tasks(), drops.count()), (4, 0));
    drop(runtime);
    assert_eq!(drops.count(), 4);
}

/// S1-31: posted closures run on the loop, in order, never inside the call; a panic in one stops nothing.
#[test]
fn posts_run_on_their_loop_in_order() {
    const POSTS: usize = scaled(100, 10);
    let _dog = watchdog(30);
    let runtime = runtime(2);
    let home = thread_of(&runtime, 1);
    let there = runtime
        .block_on(runtime.spawn_on(WorkerId::new(1), || async { EventLoop::current().unwrap() }))
        .unwrap();
    assert_eq!(there.id(), WorkerId::new(1));
    assert!(!there.is_current() && EventLoop::current().is_none());
    let log = Arc::new(Mutex::new(Vec::new()));
    for n in 0..POSTS {
        let (log, same) = (log.clone(), there.clone());
        there
            .post(move || {
                assert!(same.is_current() && thread::current().id() == home);
                log.lock().unwrap().push(n);
                assert_ne!(n, POSTS / 2, "one of them panics");
            })
            .unwrap();
    }
    until(|| log.lock().unwrap().len() == POSTS);
    assert!(log.lock().unwrap().iter().copied().eq(0..POSTS));
    let inside = runtime.spawn_on(WorkerId::new(1), move || async move {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        EventLoop::current().unwrap().post(move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
        let at_once = ran.load(Ordering::SeqCst);
        sleep(5 * MS).await;
        (at_once, ran.load(Ordering::SeqCst))
    });
    assert_eq!(runtime.block_on(inside).unwrap(), (0, 1));
    runtime.shutdown_timeout(Duration::MAX).unwrap();
    assert!(there.post(|| ()).is_err());
}

#[test]
fn local_tasks_share_what_is_not_send() {
    const TASKS: usize = scaled(100, 8);
    let _dog = watchdog(30);
    let runtime = runtime(2);
    let task = runtime.spawn_on(WorkerId::new(0), || async {
        let cell = Rc::new(Cell::new(0));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let cell = cell.clone();
                spawn_local(async move {
                    yield_now().await;
                    cell.set(cell.get() + 1);
                    cell
                })
            })
            .collect();
        // Work for the others, so that there is something to steal.
        let moving: Vec<_> = (0..TASKS).map(|_| spawn(yield_now())).collect();
        for task in tasks {
            drop(task.await.unwrap());
        }
        for task in moving {
            task.await.unwrap();
        }
        cell.get()
    });
    assert_eq!(runtime.block_on(task).unwrap(), TASKS);
}

/// Counts its polls until it is told to stop.
async fn yields(polls: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        polls.fetch_add(1, Ordering::SeqCst);
        yield_now().await;
    }
}

/// Tasks that are woken at home together.
const WOKEN: usize = scaled(200, 10);

/// What another thread wakes at home does not wait behind two tasks that yield for ever. A turn at home is as many polls as there are tasks, so two of the others come for a turn and not for a poll. A turn
/// also ends by time: where the worker is slow there are several, each of which has a poll at least.
#[test]
fn what_is_woken_at_home_has_its_turn() {
    let _dog = watchdog(60);
    let mut least = usize::MAX;
    for _ in 0..scaled(10, 1) {
        let between = polls_of_others_while_home_is_woken();
        assert!(between <= 3 * WOKEN, "{between} polls of others for {WOKEN} tasks at home");
        least = least.min(between);
    }
    assert!(cfg!(miri) || least <= WOKEN / 4, "at least {least} polls of others for {WOKEN} tasks at home");
}

/// How often two tasks that yield are polled from a wake of the tasks at home until all of these have been polled.
fn polls_of_others_while_home_is_woken() -> usize {
    let runtime = runtime(1);
    let here = runtime.block_on(runtime.spawn(async { EventLoop::current().unwrap() })).unwrap();
    let (polls, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let gate = Arc::new(Event::manual());
    let [waiting, done, before, after]: [Arc<AtomicUsize>; 4] = Default::default();
    let woken = |_| {
        let (gate, waiting, done) = (gate.clone(), waiting.clone(), done.clone());
        let (polls, after) = (polls.clone(), after.clone());
        runtime.spawn_on(WorkerId::new(0), move || async move {
            waiting.fetch_add(1, Ordering::SeqCst);
            gate.wait().await;
            if done.fetch_add(1, Ordering::SeqCst) + 1 == WOKEN {
                after.store(polls.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        })
    };
    let tasks: Vec<_> = (0..WOKEN).map(woken).collect();
    until(|| waiting.load(Ordering::SeqCst) == WOKEN);
    let hogs = [(); 2].map(|()| runtime.spawn(yields(polls.clone(), stop.clone())));
    until(|| polls.load(Ordering::SeqCst) > 10);
    // The worker is held while all are woken: from then on only the order counts.
    let (go, held) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (goes, holds, counted, noted) = (go.clone(), held.clone(), polls.clone(), before.clone());
    let hold = move || {
        noted.store(counted.load(Ordering::SeqCst), Ordering::SeqCst);
        holds.store(true, Ordering::SeqCst);
        until(|| goes.load(Ordering::SeqCst));
    };
    here.post(hold).unwrap();
    until(|| held.load(Ordering::SeqCst));
    gate.set();
    go.store(true, Ordering::SeqCst);
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    let between = after.load(Ordering::SeqCst) - before.load(Ordering::SeqCst);
    stop.store(true, Ordering::SeqCst);
    hogs.into_iter().for_each(|hog| runtime.block_on(hog).unwrap());
    between
}

/// More tasks at home than a turn has, which yield for ever, do not hold up one that any worker may run.
#[test]
fn what_is_not_at_home_has_its_turn() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let (polls, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let hog = |_| {
        let (polls, stop) = (polls.clone(), stop.clone());
        runtime.spawn_on(WorkerId::new(0), || yields(polls, stop))
    };
    let hogs: Vec<_> = (0..scaled(1_000, 300)).map(hog).collect();
    let counted = polls.clone();
    let polite = runtime.spawn(async move {
        let mut most = 0;
        for _ in 0..scaled(50, 2) {
            let before = counted.load(Ordering::SeqCst);
            yield_now().await;
            most = most.max(counted.load(Ordering::SeqCst) - before);
        }
        most
    });
    let most = runtime.block_on(polite).unwrap();
    stop.store(true, Ordering::SeqCst);
    assert!(most <= 256, "{most} polls at home between two of a task that is not");
    hogs.into_iter().for_each(|hog| runtime.block_on(hog).unwrap());
}

/// A closure that a foreign thread has posted to a simulated loop, after its last step, is dropped with the simulation.
#[test]
fn what_is_posted_at_the_end_of_a_simulation_is_dropped() {
    let (drops, ended) = (Drops::default(), Drops::default());
    let (held, held_by_task) = (drops.one(), ended.one());
    let there = Simulation::new(1).run(async move {
        let there = EventLoop::current().unwrap();
        let (poster, keeps) = (there.clone(), there.clone());
        drop(spawn(async move {
            let _held = held_by_task;
            pending::<()>().await;
        }));
        let post = move || poster.post(move || drop((held, keeps)));
        thread::spawn(post).join().unwrap().unwrap();
        there
    });
    assert_eq!((drops.count(), ended.count()), (1, 1));
    assert_eq!(there.post(|| ()), Err(LoopEnded));
}
