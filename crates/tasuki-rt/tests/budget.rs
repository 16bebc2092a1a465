//! How long a task may go on without waiting.

mod kit;

use kit::{MS, runtime, until, watchdog};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;
use tasuki::{Event, Mutex, RwLock, Semaphore, WaitGroup};
use tasuki_rt::{EventLoop, JoinSet, LoopMutex, WorkerId, checkpoint, sleep, spawn, yield_now};

/// A loop over what is always ready lets others run, on a single worker: everything is charged to the budget.
#[test]
#[cfg_attr(miri, ignore = "dozens of polls, each with 128 operations: eight minutes")]
fn loops_that_never_wait_yield_by_budget() {
    let _dog = watchdog(120);
    let runtime = runtime(1);
    for kind in 0..12 {
        let stop = Arc::new(AtomicBool::new(false));
        let end = stop.clone();
        let greedy = runtime.spawn_on(WorkerId::new(0), move || async move {
            let (own, mutex, rwlock) = (LoopMutex::new(0), Mutex::new(0), RwLock::new(0));
            let (semaphore, event, group) = (Semaphore::new(1), Event::manual(), WaitGroup::new());
            event.set();
            let mut ticks = tasuki_rt::interval(Duration::from_nanos(1));
            while !end.load(Ordering::Relaxed) {
                match kind {
                    0 => *own.lock().await.unwrap() += 1,
                    1 => *mutex.lock().await += 1,
                    2 => drop(rwlock.read().await),
                    3 => *rwlock.write().await += 1,
                    4 => drop(semaphore.acquire().await.unwrap()),
                    5 => event.wait().await,
                    6 => group.wait().await,
                    7 => *mutex.lock().timeout(Duration::from_secs(60)).await.unwrap() += 1,
                    8 => checkpoint().await,
                    9 => _ = ticks.tick().await,
                    10 => {
                        let mut set = JoinSet::new();
                        set.spawn(async {});
                        set.join_next().await.unwrap().unwrap();
                    }
                    _ => {
                        let ended = spawn(async {});
                        while !ended.is_finished() {
                            yield_now().await;
                        }
                        ended.await.unwrap();
                    }
                }
            }
        });
        runtime.block_on(async {
            // One that anybody may run, a pinned one, and a timer.
            spawn(async {}).await.unwrap();
            tasuki_rt::spawn_on(WorkerId::new(0), || sleep(MS)).await.unwrap();
            stop.store(true, Ordering::Relaxed);
            greedy.await.unwrap();
        });
    }
}

/// An operation yields once for want of budget: who polls it again in the same poll of the task, as an executor inside it does, gets on.
#[test]
fn a_loop_inside_a_poll_gets_on_without_budget() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    runtime.block_on(async {
        let mut ended = spawn(async {});
        until(|| ended.is_finished());
        let mut set = JoinSet::new();
        set.spawn(async {});
        until(|| runtime.tasks() == 0);
        let mut ticks = tasuki_rt::interval(Duration::from_secs(60));
        let (mut next, mut tick) = (pin!(set.join_next()), pin!(ticks.tick()));
        let cx = &mut Context::from_waker(Waker::noop());
        until(|| pin!(checkpoint()).poll(cx).is_pending());
        let mut last = pin!(checkpoint());
        assert!(last.as_mut().poll(cx).is_pending() && last.as_mut().poll(cx).is_ready());
        assert!(Pin::new(&mut ended).poll(cx).is_pending() && Pin::new(&mut ended).poll(cx).is_ready());
        assert!(next.as_mut().poll(cx).is_pending() && tick.as_mut().poll(cx).is_pending());
        // `join_next` also waits for an event of the set, which has a turn of its own.
        until(|| next.as_mut().poll(cx).is_ready());
        assert!(tick.as_mut().poll(cx).is_ready());
    });
}

/// A posted closure is no poll, and does not pay for the one before it.
#[test]
fn a_posted_closure_has_no_budget_to_use_up() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let (answer, ready) = std::sync::mpsc::channel();
    let task = runtime.spawn(async move {
        let here = EventLoop::current().unwrap();
        let look = move || {
            let (mutex, cx) = (Mutex::new(()), &mut Context::from_waker(Waker::noop()));
            answer.send(pin!(mutex.lock()).poll(cx).is_ready()).unwrap();
        };
        here.post(look).unwrap();
        let cx = &mut Context::from_waker(Waker::noop());
        until(|| pin!(checkpoint()).poll(cx).is_pending());
    });
    runtime.block_on(task).unwrap();
    assert_eq!(ready.recv(), Ok(true));
}

/// B123 with the locks of `tasuki`: A has used up its budget, and B comes later, while the lock is free and while it is held.
#[test]
fn the_budget_keeps_the_order_of_every_lock() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    for is_held in [false, true] {
        let order = runtime.block_on(runtime.spawn_on(WorkerId::new(0), move || async move {
            let (mutex, semaphore) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(1)));
            let held = if is_held { Some((mutex.lock().await, semaphore.acquire().await)) } else { None };
            let tasks = ['a', 'b'].map(|name| {
                let (mutex, semaphore) = (mutex.clone(), semaphore.clone());
                tasuki_rt::spawn_local(async move {
                    let free = Mutex::new(());
                    for _ in 0..if name == 'a' { 128 } else { 0 } {
                        drop(free.lock().await);
                    }
                    mutex.lock().await.push(name);
                    yield_now().await;
                    let free = Mutex::new(());
                    for _ in 0..if name == 'a' { 128 } else { 0 } {
                        drop(free.lock().await);
                    }
                    let _permit = semaphore.acquire().await.unwrap();
                    mutex.try_lock().expect("one permit").push(name);
                })
            });
            yield_now().await;
            drop(held);
            for task in tasks {
                task.await.unwrap();
            }
            mutex.lock().await.iter().collect::<String>()
        }));
        assert_eq!(order.unwrap(), "abab");
    }
}

/// B123: the budget does not cost a place. A takes the free lock with its budget used up, and B comes later.
#[test]
fn the_budget_keeps_the_order() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let task = runtime.spawn_on(WorkerId::new(0), || async {
        let mutex = std::rc::Rc::new(LoopMutex::new(Vec::new()));
        let first = {
            let mutex = mutex.clone();
            tasuki_rt::spawn_local(async move {
                let free = LoopMutex::new(());
                for _ in 0..128 {
                    drop(free.lock().await.unwrap());
                }
                mutex.lock().await.unwrap().push('a');
            })
        };
        let second = {
            let mutex = mutex.clone();
            tasuki_rt::spawn_local(async move { mutex.lock().await.unwrap().push('b') })
        };
        first.await.unwrap();
        second.await.unwrap();
        mutex.lock().await.unwrap().clone()
    });
    assert_eq!(runtime.block_on(task).unwrap(), ['a', 'b']);
}
