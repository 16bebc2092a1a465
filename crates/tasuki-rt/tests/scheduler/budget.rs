//! How long a task may go on without waiting.

use crate::kit::{MS, runtime, scaled, until, watchdog};
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::{Mutex, Semaphore};
use tasuki_rt::{EventLoop, JoinSet, LoopMutex, WorkerId, checkpoint, spawn, yield_now};

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

fn use_up_budget() {
    let cx = &mut Context::from_waker(Waker::noop());
    while pin!(checkpoint()).poll(cx).is_ready() {}
}

/// A poll that has used up its budget counts as nine picks, so what comes from outside waits for seven of them and not for 63. (If they are slow the clock lets it in sooner.)
#[test]
fn polls_that_use_up_their_budget_let_in_what_is_outside() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let outside = runtime.handle();
    let task = runtime.spawn(async move {
        let mut most = 0;
        for _ in 0..scaled(50, 2) {
            let (has_run, handle) = (Arc::new(AtomicBool::new(false)), outside.clone());
            let runs = has_run.clone();
            let spawn = move || drop(handle.spawn(async move { runs.store(true, Ordering::SeqCst) }));
            thread::spawn(spawn).join().unwrap();
            let mut polls = 0;
            while !has_run.load(Ordering::SeqCst) {
                polls += 1;
                use_up_budget();
                yield_now().await;
            }
            most = most.max(polls);
        }
        most
    });
    let most = runtime.block_on(task).unwrap();
    assert!(most <= 8, "it waited for {most} polls");
}

/// B123: A has used up its budget, however much that was, and B comes later, while the lock is held: A is served first.
#[test]
fn the_budget_keeps_the_order_of_enqueueing() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let order = runtime.block_on(runtime.spawn_on(WorkerId::new(0), || async {
        let (mutex, semaphore) = (Rc::new(Mutex::new(String::new())), Rc::new(Semaphore::new(1)));
        let on_loop = Rc::new(LoopMutex::new(()));
        let held = (mutex.lock().await, semaphore.acquire().await, on_loop.lock().await.unwrap());
        let tasks = ['a', 'b'].map(|name| {
            let (mutex, semaphore, on_loop) = (mutex.clone(), semaphore.clone(), on_loop.clone());
            tasuki_rt::spawn_local(async move {
                // Within this poll: the yields are not taken.
                let exhaust = || {
                    let cx = &mut Context::from_waker(Waker::noop());
                    until(|| name == 'b' || pin!(checkpoint()).poll(cx).is_pending());
                };
                exhaust();
                drop(on_loop.lock().await.unwrap());
                exhaust();
                mutex.lock().await.push(name);
                exhaust();
                let _permit = semaphore.acquire().await.unwrap();
                mutex.try_lock().expect("one permit").push(name);
            })
        });
        let (lock, permit, on_loop) = held;
        for _ in 0..4 {
            yield_now().await;
        }
        drop(on_loop);
        for _ in 0..4 {
            yield_now().await;
        }
        drop(lock);
        for _ in 0..4 {
            yield_now().await;
        }
        drop(permit);
        for task in tasks {
            task.await.unwrap();
        }
        mutex.lock().await.clone()
    }));
    assert_eq!(order.unwrap(), "abab");
}

/// A turn that began then took so long that the worker may have forgotten how long the polls are, which it does after 50 ms without one: the machine has held it up. The most sections that a poll may have take less.
fn is_held_up(begun: Instant) -> bool {
    begun.elapsed() >= 40 * MS
}

/// Sections of a millisecond under a lock that is free: the first poll has at most 17, and one whose yield was the charge; from then on two come before the others have their turn.
#[test]
fn long_sections_under_a_free_lock_let_others_run() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let most = runtime.block_on(runtime.spawn_on(WorkerId::new(0), || async {
        let (mutex, sections) = (Rc::new(Mutex::new(())), Rc::new(Cell::new(0)));
        let stop = Rc::new(Cell::new(false));
        let (counts, ends) = (sections.clone(), stop.clone());
        let busy = tasuki_rt::spawn_local(async move {
            while !ends.get() {
                let _guard = mutex.lock().await;
                counts.set(counts.get() + 1);
                let start = Instant::now();
                while start.elapsed() < MS {}
            }
        });
        let mut most = Vec::new();
        for _ in 0..6 {
            sections.set(0);
            let begun = Instant::now();
            yield_now().await;
            most.push((sections.get(), is_held_up(begun)));
        }
        stop.set(true);
        busy.await.unwrap();
        most
    }));
    let most = most.unwrap();
    let is_short = |turns: &[(u32, bool)]| turns[1].0 <= 2 || turns[0].1 || turns[1].1;
    assert!(most[0].0 <= 18 && most.windows(2).all(is_short), "{most:?}");
}

/// A lock that its user takes again and again is free whenever that task does not run.
#[test]
fn a_lock_is_not_held_during_a_yield() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let held = runtime.block_on(runtime.spawn_on(WorkerId::new(0), || async {
        let (mutex, stop) = (Rc::new(Mutex::new(0_u64)), Rc::new(Cell::new(false)));
        let (user, end) = (mutex.clone(), stop.clone());
        let busy = tasuki_rt::spawn_local(async move {
            while !end.get() {
                *user.lock().await += 1;
            }
        });
        let mut held = 0;
        for _ in 0..scaled(1_000, 3) {
            yield_now().await;
            held += u32::from(mutex.is_locked());
        }
        stop.set(true);
        busy.await.unwrap();
        held
    }));
    assert_eq!(held.unwrap(), 0);
}

/// A yield for want of budget is no wait: a time that is over takes nothing away that is ready.
#[test]
fn no_time_is_enough_for_what_is_ready() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let task = runtime.spawn(async {
        let mutex = Mutex::new(());
        for _ in 0..scaled(1_000, 150) {
            drop(mutex.lock().await);
            assert!(tasuki_rt::timeout(Duration::ZERO, std::future::ready(())).await.is_ok());
            assert!(tasuki_rt::timeout(Duration::ZERO, mutex.lock()).await.is_ok());
            assert!(mutex.lock().timeout(Duration::ZERO).await.is_ok());
            assert!(mutex.lock_for(Duration::ZERO).await.is_ok());
        }
    });
    runtime.block_on(task).unwrap();
}

/// A time that is over ends a future that never waits, though it uses up its budget in every poll.
#[test]
fn a_timeout_ends_a_loop_that_never_waits() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let task = runtime.spawn(async {
        let mutex = Mutex::new(());
        let greedy = async {
            loop {
                drop(mutex.lock().await);
            }
        };
        tasuki_rt::timeout(MS, greedy).await
    });
    assert!(runtime.block_on(task).unwrap().is_err());
}

/// Off an event loop the error is ready at once: a loop over it is charged as every other, and yields.
#[test]
fn a_lock_off_the_loop_is_charged() {
    let _dog = watchdog(60);
    let mutex = LoopMutex::new(0);
    let mut loops = Box::pin(async {
        for _ in 0..scaled(1_000, 300) {
            assert!(mutex.lock().await.is_err());
        }
    });
    let mut polls = 0;
    runtime(1).block_on(std::future::poll_fn(|cx| {
        polls += 1;
        loops.as_mut().poll(cx)
    }));
    assert!(polls > 1, "it has never yielded");
}

/// A task with sections of a millisecond lets another one run after two of them, whatever that one does with its turns: short polls do not make the worker forget how long the others are.
#[test]
fn short_polls_of_others_do_not_end_the_wariness() {
    let _dog = watchdog(60);
    for operations in [0, 1, 2, 8] {
        let sections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = sections.clone();
        let between = runtime(1).block_on(async move {
            let busy = spawn(async move {
                let mutex = Mutex::new(());
                loop {
                    let _guard = mutex.lock().await;
                    let begun = Instant::now();
                    until(|| begun.elapsed() >= MS);
                    counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
            let turns = spawn(async move {
                let (mutex, mut most) = (Mutex::new(()), 0);
                // The first time the worker does not know it yet.
                let mut may_not_know = true;
                for _ in 0..scaled(20, 4) {
                    let (before, begun) =
                        (sections.load(std::sync::atomic::Ordering::Relaxed), Instant::now());
                    yield_now().await;
                    let held_up = is_held_up(begun);
                    if !std::mem::replace(&mut may_not_know, held_up) && !held_up {
                        most = most.max(sections.load(std::sync::atomic::Ordering::Relaxed) - before);
                    }
                    for _ in 0..operations {
                        drop(mutex.lock().await);
                    }
                }
                most
            });
            let most = turns.await.unwrap();
            busy.abort();
            most
        });
        assert!(between <= 2, "{operations} operations a turn: {between} sections before the other task ran");
    }
}

/// The future of `block_on` has branches that wait for each other's polls to end: it is bounded by time, too.
#[test]
fn a_poll_of_block_on_is_bounded_by_time() {
    let _dog = watchdog(60);
    let most = runtime(1).block_on(async {
        let (mutex, sections, mut most) = (Mutex::new(()), Cell::new(0), 0);
        let mut busy = pin!(async {
            loop {
                let _guard = mutex.lock().await;
                let begun = Instant::now();
                until(|| begun.elapsed() >= MS);
                sections.set(sections.get() + 1);
            }
        });
        std::future::poll_fn(|cx| {
            let before = sections.get();
            let _: std::task::Poll<()> = busy.as_mut().poll(cx);
            most = most.max(sections.get() - before);
            if sections.get() < 40 { std::task::Poll::Pending } else { std::task::Poll::Ready(most) }
        })
        .await
    });
    assert!(most <= 18, "{most} sections of a millisecond in one poll");
}
