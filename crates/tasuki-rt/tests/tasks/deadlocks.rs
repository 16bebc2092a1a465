//! Which cycles of real tasks are reported, and which must not be: what `tasuki::inspect` promises of them, beside waits of the runtime's own.

use crate::kit::{runtime, until, watchdog};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tasuki::inspect::{Certainty, PollState, deadlocks, snapshot};
use tasuki::task::TaskId;
use tasuki::{Barrier, CancellationSource, Event, Mutex, OnceCell, RwLock};
use tasuki_rt::{JoinHandle, LocalRuntime, LoopMutex, Runtime, WorkerId, spawn_local, timeout, yield_now};

/// The certainties of the cycles that have one of these tasks.
fn told(tasks: &[TaskId]) -> Vec<Certainty> {
    let has = |id: &TaskId| tasks.contains(id);
    let found = deadlocks().into_iter().filter(|found| found.hops.iter().any(|hop| has(&hop.task)));
    found.map(|found| found.certainty).collect()
}

/// Does each of these wait for a lock that another has?
fn all_wait(tasks: &[TaskId]) -> bool {
    let waits = snapshot().waits;
    tasks.iter().all(|task| waits.iter().any(|wait| wait.task == *task && !wait.behind.is_empty()))
}

/// Two locks and a meeting between the first and the second one of each task.
struct Locks(Mutex<u32>, Mutex<u32>, Barrier);

fn locks() -> Arc<Locks> {
    Arc::new(Locks(Mutex::new(0), Mutex::new(0), Barrier::new(2)))
}

/// The second lock, then the first.
fn opposite(runtime: &Runtime, locks: &Arc<Locks>) -> JoinHandle<()> {
    let locks = locks.clone();
    runtime.spawn(async move {
        let _second = locks.1.lock().await;
        locks.2.arrive_and_wait().await;
        drop(locks.0.lock().await);
    })
}

/// A `select!` of a lock and of another task's end: the task goes on when that ends. It was told as a deadlock.
#[test]
fn a_task_that_also_waits_for_another_one_goes_on() {
    let _dog = watchdog(60);
    let (runtime, locks, end) = (runtime(2), locks(), Arc::new(Event::manual()));
    let (mine, ends) = (locks.clone(), end.clone());
    let one = runtime.spawn(async move {
        let first = mine.0.lock().await;
        let other = tasuki_rt::spawn(async move { ends.wait().await });
        mine.2.arrive_and_wait().await;
        match select(other, pin!(mine.1.lock())).await {
            Either::Left((ended, _)) => ended.unwrap(),
            Either::Right(_) => panic!("the other task has it, and waits for this one"),
        }
        drop(first);
    });
    let two = opposite(&runtime, &locks);
    let tasks = [one.id(), two.id()];
    runtime.start().unwrap();
    until(|| all_wait(&tasks));
    assert_eq!(told(&tasks), [], "the first task goes on when the one that it awaits ends");
    let dump = runtime.dump().to_string();
    assert!(dump.contains(" in `tasuki_rt::JoinHandle`"), "{dump}");
    end.set();
    runtime.block_on(async {
        one.await.unwrap();
        two.await.unwrap();
    });
}

/// A loop of `select!` over a pinned sleep, whose handler locks in the opposite order: when the sleep has fired, and the task does not poll it, it goes on by nothing. It was never told. The same of a handle whose task has ended, and of `timeout` of the
/// runtime with a time that never comes.
#[test]
fn a_select_loop_over_a_wait_whose_end_has_come() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.start().unwrap();
    macro_rules! row {
        ($end:ident => $wait:expr) => {{
            let locks = locks();
            let mine = locks.clone();
            let one = runtime.spawn(async move {
                let mut $end = $wait;
                // In one poll: after a yield on a machine that stands still for a while it might have ended.
                match select(&mut $end, std::future::ready(())).await {
                    Either::Left(_) => panic!("it ends later"),
                    Either::Right(_) => {}
                }
                // The handler.
                let _first = mine.0.lock().await;
                mine.2.arrive_and_wait().await;
                let _second = mine.1.lock().await;
                let _ = $end.await;
            });
            let two = opposite(&runtime, &locks);
            let tasks = [one.id(), two.id()];
            until(|| told(&tasks) == [Certainty::Deadlock]);
            one.abort();
            two.abort();
        }};
    }
    row!(end => pin!(tasuki_rt::sleep(Duration::from_millis(50))));
    row!(end => tasuki_rt::spawn(async { tasuki_rt::sleep(Duration::from_millis(50)).await }));
    row!(end => Box::pin(timeout(Duration::MAX, std::future::pending::<()>())));
}

/// The same after the handle was dropped, and while another task has it: then it is a deadlock. An abort of one of them ends it.
#[test]
fn a_handle_that_is_dropped_or_elsewhere_keeps_no_task_out() {
    let _dog = watchdog(60);
    let (runtime, locks) = (runtime(2), locks());
    let (mine, third) = (locks.clone(), runtime.spawn(std::future::pending::<()>()));
    let one = runtime.spawn(async move {
        let mut third = Some(third);
        let first = mine.0.lock().await;
        // Polled once, and given to another task, which polls it.
        assert!(futures_util::poll!(third.as_mut().unwrap()).is_pending());
        let elsewhere = tasuki_rt::spawn(third.take().unwrap());
        mine.2.arrive_and_wait().await;
        let mut elsewhere = Some(elsewhere);
        assert!(futures_util::poll!(elsewhere.as_mut().unwrap()).is_pending());
        drop(elsewhere.take());
        drop(mine.1.lock().await);
        drop(first);
    });
    let two = opposite(&runtime, &locks);
    let tasks = [one.id(), two.id()];
    runtime.start().unwrap();
    until(|| all_wait(&tasks));
    until(|| told(&tasks) == [Certainty::Deadlock]);
    one.abort();
    assert!(runtime.block_on(one).unwrap_err().is_aborted());
    runtime.block_on(two).unwrap();
    assert_eq!(told(&tasks), []);
}

/// A guard that a task gave as its output is the user's: in no cycle before it is used, and in one after.
#[test]
fn a_guard_that_outlives_its_task() {
    let _dog = watchdog(60);
    let (runtime, lock) = (runtime(2), Arc::new(RwLock::new(0)));
    let (mine, used, use_it) = (lock.clone(), Arc::new(Event::manual()), Arc::new(Event::manual()));
    let (tells, told_to) = (used.clone(), use_it.clone());
    let one = runtime.spawn(async move {
        let mut guard = tasuki_rt::spawn(mine.clone().write_owned()).await.unwrap();
        let mut wait = pin!(mine.read());
        assert!(futures_util::poll!(wait.as_mut()).is_pending());
        tells.set();
        told_to.wait().await;
        *guard += 1;
        drop(wait.await);
    });
    let me = [one.id()];
    runtime.start().unwrap();
    runtime.block_on(used.wait());
    assert_eq!(told(&me), [], "the guard is in the name of a task that has ended");
    use_it.set();
    until(|| told(&me) == [Certainty::Deadlock]);
    one.abort();
    assert!(runtime.block_on(one).unwrap_err().is_aborted());
}

/// A wait for a loop mutex names the lock, or says where it was made: by every constructor in this file. `Debug` of the mutex names the holder, and counts the wait.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "noted with debug assertions only")]
fn loop_mutexes_have_names_and_places() {
    let _dog = watchdog(60);
    let made =
        [LoopMutex::new(0), LoopMutex::from(0), LoopMutex::default(), LoopMutex::new(0).named("journal")];
    for (number, mutex) in made.into_iter().enumerate() {
        let (runtime, mutex) = (runtime(1), Arc::new(mutex));
        let waits = mutex.clone();
        let (made_at, name) = runtime
            .block_on(runtime.spawn_on(WorkerId::new(0), move || async move {
                let guard = mutex.clone().lock_owned().await.unwrap();
                let shown = waits.clone();
                let waiter = spawn_local(async move { drop(waits.lock().await) });
                yield_now().await;
                let shown = format!("{shown:?}");
                let named = format!("value: <locked by {} at ", tasuki::task::current().unwrap());
                assert!(shown.contains(&named) && shown.contains("deadlocks.rs:"), "{shown}");
                assert!(shown.contains(", 1 waits, for "), "{shown}");
                let label = snapshot().waits.into_iter().find(|wait| wait.task == waiter.id());
                drop(guard);
                waiter.await.unwrap();
                label.and_then(|wait| wait.lock).map(|(_, label)| (label.made_at, label.name)).unwrap()
            }))
            .unwrap();
        match number {
            3 => assert_eq!(name, Some("journal")),
            _ => assert!(made_at.unwrap().file().ends_with("deadlocks.rs"), "made at {made_at:?}"),
        }
    }
}

/// What keeps a task that computes in a branch beside its wait out of the reports: whether it has been polled, and is being polled. Not said of blocking work, which waits in the middle of its poll.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "noted with debug assertions only")]
fn reports_know_which_tasks_are_polled() {
    let _dog = watchdog(60);
    let (runtime, mutex) = (runtime(2), Arc::new(Mutex::new(0)));
    let label = |task: TaskId| snapshot().tasks.into_iter().find(|label| label.task == task);
    let (mine, is_seen, computes) =
        (mutex.clone(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (sees, tells) = (is_seen.clone(), computes.clone());
    let held = mutex.try_lock().unwrap();
    let task = runtime.spawn(async move {
        let mut wait = pin!(mine.lock());
        assert!(futures_util::poll!(wait.as_mut()).is_pending());
        yield_now().await;
        tells.store(true, Ordering::Release);
        while !sees.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        drop(wait.await);
    });
    let id = task.id();
    let blocks = mutex.clone();
    let blocking = runtime.spawn_blocking(move || drop(blocks.lock().block()));
    runtime.start().unwrap();
    until(|| computes.load(Ordering::Acquire));
    let found = label(id).expect("it waits beside");
    assert_eq!((found.polls, found.state), (Some(2), Some(PollState::Running)));
    is_seen.store(true, Ordering::Release);
    until(|| label(id).is_some_and(|found| found.state == Some(PollState::Waiting)));
    until(|| label(blocking.id()).is_some());
    assert!(label(blocking.id()).is_some_and(|found| found.polls.is_none() && found.state.is_none()));
    drop(held);
    runtime.block_on(async {
        task.await.unwrap();
        blocking.await.unwrap();
    });
}

/// A task whose poll runs may go on: what is asked for suspects it, as the reports do. It was called a deadlock.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "noted with debug assertions only")]
fn a_task_that_is_polled_is_suspected() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let task = runtime.spawn(async {
        let mutex = Mutex::new(0);
        let _held = mutex.lock().await;
        let mut again = pin!(mutex.lock());
        assert!(futures_util::poll!(again.as_mut()).is_pending());
        let me = tasuki::task::current().unwrap();
        let listed = snapshot().deadlocks.into_iter().find(|found| found.hops[0].task == me);
        (told(&[me]), listed.map(|found| found.certainty))
    });
    let suspected = Certainty::Suspected;
    assert_eq!(runtime.block_on(task).unwrap(), (vec![suspected], Some(suspected)));
}

/// A future that `timeout` borrowed is kept, and granted: its wait has no limit any more.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "noted with debug assertions only")]
fn a_future_that_outlives_its_timeout_is_a_futurelock() {
    let _dog = watchdog(60);
    let (runtime, mutex) = (runtime(2), Arc::new(Mutex::new(0)));
    let (mine, is_over) = (mutex.clone(), Arc::new(Event::manual()));
    let (held, tells) = (mutex.clone().try_lock_owned().unwrap(), is_over.clone());
    let task = runtime.spawn(async move {
        let mut kept = pin!(mine.lock());
        assert!(timeout(Duration::from_millis(1), kept.as_mut()).await.is_err());
        tells.set();
        drop(mine.lock().await);
    });
    let me = [task.id()];
    runtime.block_on(is_over.wait());
    drop(held);
    until(|| told(&me) == [Certainty::Futurelock]);
    task.abort();
    assert!(runtime.block_on(task).unwrap_err().is_aborted());
}

/// `block_on` inside of a poll that has a limit, on a thread of the program: that poll does not end before, so the limit does not end the waits of what runs there.
#[test]
fn a_limit_around_block_on_hides_no_deadlock() {
    async fn waits_for_itself() {
        let mutex = Mutex::new(0);
        let _held = mutex.lock().await;
        let mut again = pin!(mutex.lock());
        assert!(futures_util::poll!(again.as_mut()).is_pending());
        assert_eq!(told(&[tasuki::task::current().unwrap()]).len(), 1);
    }
    let _dog = watchdog(60);
    let token = CancellationSource::new().token();
    for is_local in [false, true] {
        let run = || async move {
            match is_local {
                true => LocalRuntime::new().unwrap().block_on(waits_for_itself()),
                false => runtime(1).block_on(waits_for_itself()),
            }
        };
        assert!(OnceCell::new().get_or_init(run).or_cancelled(&token).block().is_ok());
    }
}
