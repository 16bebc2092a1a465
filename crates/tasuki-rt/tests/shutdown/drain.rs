//! The orderly end of a runtime: its tasks end first (H18).

use crate::kit::{Drops, MS, runtime, scaled, until, watchdog};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::{Barrier, CancellationSource, Condvar, Event, Latch, Mutex, RwLock, Semaphore, WaitGroup};
use tasuki_rt::{
    EventLoop, Handle, LocalRuntime, Runtime, ShutdownError, WorkerId, sleep, spawn, spawn_blocking,
    spawn_local, spawn_on, yield_now,
};

type Count = Arc<AtomicUsize>;

fn add(count: &Count) {
    count.fetch_add(1, Ordering::SeqCst);
}

/// Is a spawn from outside refused?
fn is_refused(runtime: &Runtime) -> bool {
    runtime.block_on(runtime.spawn(async {})).is_err_and(|error| error.is_shut_down())
}

/// A future that takes long to be dropped: until the gate opens.
struct BlocksInDrop(mpsc::Sender<()>, Arc<Event>);

impl Drop for BlocksInDrop {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
        self.1.wait().block();
    }
}

/// Spawns in each way, on threads of their own, what is refused. Returns when all of that is being dropped.
fn refuse_in_each_way(handle: &Handle, gate: &Arc<Event>) -> [thread::JoinHandle<()>; 3] {
    type Spawn = fn(&Handle, BlocksInDrop);
    let spawns: [Spawn; 3] = [
        |handle, held| drop(handle.spawn(async move { drop(held) })),
        |handle, held| drop(handle.spawn_on(WorkerId::new(0), || async move { drop(held) })),
        |handle, held| drop(handle.spawn_blocking(|| drop(held))),
    ];
    let (drops, dropping) = mpsc::channel();
    let threads = spawns.map(|spawn| {
        let (handle, held) = (handle.clone(), BlocksInDrop(drops.clone(), gate.clone()));
        thread::spawn(move || spawn(&handle, held))
    });
    assert_eq!(dropping.iter().take(spawns.len()).count(), spawns.len());
    threads
}

/// Other threads go on spawning while the runtime drains and shuts down, and what is refused takes long to be dropped: no end of the runtime waits for that.
#[test]
fn what_is_refused_keeps_no_end_waiting() {
    let _dog = watchdog(60);
    for drains in [true, false] {
        let (runtime, gate) = (runtime(2), Arc::new(Event::manual()));
        let task = runtime.spawn(pending::<()>());
        assert_eq!(runtime.drain(MS), Err(ShutdownError::TasksLeft));
        let threads = refuse_in_each_way(&runtime.handle(), &gate);
        assert_eq!(runtime.tasks(), 1);
        task.abort();
        let ended = if drains { runtime.drain(30_000 * MS) } else { runtime.shutdown_timeout(30_000 * MS) };
        assert_eq!((ended, runtime.tasks()), (Ok(()), 0));
        gate.set();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(runtime.tasks(), 0);
    }
}

/// The same of the drop of a `LocalRuntime`, while that waits for blocking work.
#[test]
fn what_is_refused_keeps_no_local_runtime_waiting() {
    let _dog = watchdog(60);
    let (local, gate, work) =
        (LocalRuntime::new().unwrap(), Arc::new(Event::manual()), Arc::new(Event::auto()));
    let (handle, goes_on, opens) = (local.handle(), work.clone(), gate.clone());
    drop(local.spawn_blocking(move || goes_on.wait().block()));
    let refused = thread::spawn(move || {
        until(|| handle.is_shut_down());
        let threads = refuse_in_each_way(&handle, &opens);
        work.set();
        threads
    });
    drop(local);
    gate.set();
    refused.join().unwrap().into_iter().for_each(|thread| thread.join().unwrap());
}

/// What a future owns shuts the runtime down, while that drains and refuses the future: an error there, and not a wait for its own end.
#[test]
fn a_refused_future_does_not_wait_for_its_own_end() {
    struct ShutsDown(Arc<Runtime>, Arc<Mutex<Vec<Result<(), ShutdownError>>>>);
    impl Drop for ShutsDown {
        fn drop(&mut self) {
            let results = [self.0.drain(Duration::MAX), self.0.shutdown_timeout(Duration::MAX)];
            self.1.try_lock().unwrap().extend(results);
        }
    }
    let _dog = watchdog(60);
    let (runtime, results) = (Arc::new(runtime(2)), Arc::default());
    drop(runtime.spawn(pending::<()>()));
    assert_eq!(runtime.drain(MS), Err(ShutdownError::TasksLeft));
    let held = || ShutsDown(runtime.clone(), Arc::clone(&results));
    let (first, second, third) = (held(), held(), held());
    drop(runtime.spawn(async move { drop(first) }));
    drop(runtime.spawn_on(WorkerId::new(0), || async move { drop(second) }));
    drop(runtime.spawn_blocking(|| drop(third)));
    assert_eq!(*results.try_lock().unwrap(), [Err(ShutdownError::InsideTask); 6]);
    assert_eq!(runtime.shutdown_timeout(Duration::MAX), Ok(()));
}

/// The same, one level deeper: the destructor of what one runtime refused has another future refused, by another runtime, whose destructor shuts the first one down.
#[test]
fn a_refused_future_inside_of_another_does_not_wait_for_the_outer_one() {
    struct Calls<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Calls<F> {
        fn drop(&mut self) {
            self.0();
        }
    }
    let _dog = watchdog(60);
    let (first, second) = (Arc::new(runtime(1)), runtime(1).handle());
    drop(first.spawn(pending::<()>()));
    assert_eq!(first.drain(MS), Err(ShutdownError::TasksLeft));
    let results = Arc::new(Mutex::new(Vec::new()));
    let (ends, tell) = (first.clone(), results.clone());
    let outer = Calls(move || {
        let (ends, tell) = (ends.clone(), tell.clone());
        let inner = Calls(move || tell.try_lock().unwrap().push(ends.shutdown_timeout(Duration::MAX)));
        drop(second.spawn(async move { drop(inner) }));
        // The inner one is gone, the outer one is not.
        assert!(second.is_shut_down());
    });
    drop(first.spawn(async move { drop(outer) }));
    assert_eq!(*results.try_lock().unwrap(), [Err(ShutdownError::InsideTask)]);
    assert_eq!(first.shutdown_timeout(Duration::MAX), Ok(()));
}

#[test]
fn tasks_of_every_kind_end_before_the_threads() {
    let _dog = watchdog(60);
    const TASKS: usize = scaled(60, 8);
    let (runtime, ended) = (runtime(2), Count::default());
    for n in 0..TASKS as u64 {
        let ended = ended.clone();
        match n % 4 {
            0 => drop(runtime.spawn(async move {
                sleep(n as u32 / 4 * MS).await;
                add(&ended);
            })),
            1 => drop(runtime.spawn_on(WorkerId::new(n as usize / 4 % 2), move || async move {
                (0..n).for_each(|_| drop(spawn_local(yield_now())));
                sleep(5 * MS).await;
                add(&ended);
            })),
            2 => drop(runtime.spawn_blocking(move || {
                thread::sleep(MS);
                add(&ended);
            })),
            _ => drop(runtime.spawn(async move {
                yield_now().await;
                add(&ended);
                panic!("a panic is an end like any other");
            })),
        }
    }
    runtime.start().unwrap();
    runtime.drain(Duration::MAX).unwrap();
    assert_eq!((ended.load(Ordering::SeqCst), runtime.tasks()), (TASKS, 0));
    // It has shut down.
    assert!(Runtime::new().unwrap().block_on(runtime.spawn(async {})).unwrap_err().is_shut_down());
}

#[test]
fn when_the_time_is_over_tasks_go_on_until_they_are_dropped() {
    let _dog = watchdog(60);
    let (runtime, drops, turns) = (runtime(2), Drops::default(), Count::default());
    for n in 0..10 {
        let (held, turns) = (drops.one(), turns.clone());
        let body = async move {
            let _held = held;
            loop {
                sleep(MS).await;
                add(&turns);
            }
        };
        if n < 9 { drop(runtime.spawn(body)) } else { drop(runtime.spawn_on(WorkerId::new(1), || body)) }
    }
    let start = Instant::now();
    assert_eq!(runtime.drain(20 * MS), Err(ShutdownError::TasksLeft));
    assert!(start.elapsed() >= 20 * MS && drops.count() == 0 && runtime.tasks() == 10);
    // Nothing was stopped.
    let seen = turns.load(Ordering::SeqCst);
    until(|| turns.load(Ordering::SeqCst) > seen + scaled(20, 3));
    // Once more, with no time at all; then the end.
    assert_eq!(runtime.drain(Duration::ZERO), Err(ShutdownError::TasksLeft));
    runtime.shutdown_timeout(Duration::MAX).unwrap();
    assert_eq!((drops.count(), runtime.tasks()), (10, 0));
    runtime.drain(Duration::ZERO).unwrap();
}

/// A dropped runtime drops what a drain has left, pinned tasks at home.
#[test]
fn dropping_a_runtime_that_drains() {
    let _dog = watchdog(60);
    let (runtime, drops) = (runtime(2), Drops::default());
    let held = drops.one();
    let home = runtime.spawn_on(WorkerId::new(1), || async move {
        drop(spawn_local(async move {
            let _held = held;
            pending::<()>().await;
        }));
        thread::current().id()
    });
    let home = runtime.block_on(home).unwrap();
    assert_eq!(runtime.drain(MS), Err(ShutdownError::TasksLeft));
    drop(runtime);
    assert_eq!((drops.count(), drops.thread()), (1, Some(home)));
}

/// From inside everything may still be spawned that is needed to end, from outside nothing.
#[test]
fn tasks_spawned_during_the_drain() {
    let _dog = watchdog(60);
    let (runtime, go, ended) = (Arc::new(runtime(2)), Arc::new(Event::manual()), Count::default());
    let (wait, count, outside) = (go.clone(), ended.clone(), runtime.clone());
    let task = runtime.spawn(async move {
        wait.wait().await;
        let inner = [count.clone(), count.clone(), count.clone()];
        let [a, b, c] = inner;
        let own = spawn(async move { add(&a) });
        let pinned = spawn_on(WorkerId::new(1), move || async move {
            spawn_local(async move { add(&b) }).await.unwrap();
        });
        // Blocking work is waited for, and so is what it spawns.
        let blocking = spawn_blocking(move || drop(outside.spawn(async move { add(&c) })));
        own.await.unwrap();
        pinned.await.unwrap();
        blocking.await.unwrap();
        // Only the drain waits for this one.
        drop(spawn(async move {
            sleep(10 * MS).await;
            add(&count);
        }));
    });
    runtime.start().unwrap();
    let draining = thread::spawn({
        let runtime = runtime.clone();
        move || runtime.drain(Duration::MAX)
    });
    until(|| is_refused(&runtime));
    let late = runtime.block_on(async { spawn(async {}).await });
    assert!(late.unwrap_err().is_shut_down());
    assert!(!task.is_finished() && !draining.is_finished());
    go.set();
    draining.join().unwrap().unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 4);
}

/// A task that spawns the next and ends, from shard to shard: the drain passes none of them by.
#[test]
fn a_chain_of_spawns_is_waited_for_to_its_end() {
    fn link(left: usize, ended: Count) {
        if left == 0 {
            return add(&ended);
        }
        match left % 3 {
            0 => drop(spawn(async move { link(left - 1, ended) })),
            1 => drop(spawn_local(async move { link(left - 1, ended) })),
            _ => drop(spawn_on(WorkerId::new(left / 3 % 2), move || async move { link(left - 1, ended) })),
        }
    }
    let _dog = watchdog(120);
    for round in 0..scaled(30, 2) {
        let (runtime, ended) = (runtime(2), Count::default());
        let count = ended.clone();
        // Long, so that the drain looks while they hop.
        drop(runtime.spawn(async move { link(scaled(3_000, 20) + round, count) }));
        runtime.start().unwrap();
        runtime.drain(Duration::MAX).unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }
}

/// Everything that a task can wait for, released by a foreign thread while the runtime drains.
#[test]
fn tasks_queued_on_every_primitive_are_served_during_the_drain() {
    const EACH: usize = scaled(10, 1);
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let (mutex, rwlock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(())));
    let (event, condvar) = (Arc::new(Event::manual()), Arc::new((Condvar::new(), Mutex::new(false))));
    let (semaphore, group) = (Arc::new(Semaphore::new(0)), Arc::new(WaitGroup::new()));
    let (latch, barrier, source) =
        (Arc::new(Latch::new(1)), Arc::new(Barrier::new(EACH + 1)), CancellationSource::new());
    group.add(1);
    let (held, write) = (mutex.clone().try_lock_owned().unwrap(), rwlock.try_write().unwrap());
    let (begun, ended) = (Count::default(), Count::default());
    for n in 0..9 * EACH {
        let (mutex, rwlock, event, condvar) = (mutex.clone(), rwlock.clone(), event.clone(), condvar.clone());
        let (semaphore, group, latch, barrier) =
            (semaphore.clone(), group.clone(), latch.clone(), barrier.clone());
        let (token, begun, ended) = (source.token(), begun.clone(), ended.clone());
        drop(runtime.spawn(async move {
            add(&begun);
            match n % 9 {
                0 => *mutex.lock().await += 1,
                1 => drop(rwlock.read().await),
                2 => event.wait().await,
                3 => drop(condvar.0.wait_while(condvar.1.lock().await, |set| !*set).await),
                4 => token.on_cancel().await,
                5 => drop(semaphore.acquire().await),
                6 => group.wait().await,
                7 => latch.wait().await,
                _ => drop(barrier.arrive_and_wait().await),
            }
            add(&ended);
        }));
    }
    runtime.start().unwrap();
    until(|| begun.load(Ordering::SeqCst) == 9 * EACH);
    assert_eq!(runtime.drain(2 * MS), Err(ShutdownError::TasksLeft));
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    thread::scope(|scope| {
        let draining = scope.spawn(|| runtime.drain(Duration::MAX));
        drop((held, write));
        event.set();
        *condvar.1.lock().block() = true;
        condvar.0.notify_all();
        source.request_cancel();
        semaphore.release(1);
        group.done();
        latch.count_down();
        assert!(!draining.is_finished(), "some are at the barrier");
        let _ = barrier.arrive_and_wait().block();
        draining.join().unwrap().unwrap();
    });
    assert_eq!((ended.load(Ordering::SeqCst), *mutex.try_lock().unwrap()), (9 * EACH, EACH));
}

#[test]
fn from_inside_it_is_an_error_and_many_times_it_is_fine() {
    let _dog = watchdog(60);
    let runtime = Arc::new(runtime(2));
    let inner = runtime.clone();
    let inside = runtime.spawn(async move { inner.drain(Duration::MAX) });
    let error = runtime.block_on(inside).unwrap().unwrap_err();
    assert_eq!(error, ShutdownError::InsideTask);
    assert!(error.to_string().contains("shut down from the thread"), "{error}");
    // Nothing has been done.
    assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
    drop(runtime.spawn(sleep(20 * MS)));
    let both: Vec<_> = (0..3)
        .map(|_| {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.drain(Duration::MAX))
        })
        .collect();
    both.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    runtime.drain(Duration::ZERO).unwrap();
    runtime.shutdown_timeout(Duration::ZERO).unwrap();
    assert!(ShutdownError::TasksLeft.to_string().contains("shutdown_timeout"));
}

/// It would wait for itself. Another runtime can be waited for.
#[test]
fn inside_blocking_work_it_is_an_error() {
    let _dog = watchdog(60);
    let (own, other) = (Arc::new(runtime(1)), Arc::new(runtime(1)));
    let (inner, foreign) = (own.clone(), other.clone());
    let work = own.spawn_blocking(move || {
        drop(foreign.spawn(yield_now()));
        let in_block_on = foreign.block_on(async { inner.drain(Duration::MAX) });
        (inner.drain(Duration::MAX), in_block_on, foreign.drain(Duration::MAX))
    });
    let refused = Err(ShutdownError::InsideTask);
    assert_eq!(own.block_on(work).unwrap(), (refused, refused, Ok(())));
    // Nothing has been done, and the thread is free again.
    assert_eq!(own.block_on(own.spawn_blocking(|| 1)).unwrap(), 1);
    own.drain(Duration::MAX).unwrap();
}

#[test]
fn a_shutdown_ends_a_drain() {
    let _dog = watchdog(60);
    let runtime = Arc::new(runtime(2));
    drop(runtime.spawn(pending::<()>()));
    let draining = thread::spawn({
        let runtime = runtime.clone();
        move || runtime.drain(Duration::MAX)
    });
    until(|| is_refused(&runtime));
    assert!(!draining.is_finished());
    runtime.shutdown_timeout(Duration::MAX).unwrap();
    draining.join().unwrap().unwrap();
}

#[test]
fn a_runtime_that_was_not_started_runs_its_tasks() {
    let _dog = watchdog(60);
    let (idle, busy, ended) = (runtime(2), runtime(2), Count::default());
    idle.drain(Duration::ZERO).unwrap();
    for n in 0..10 {
        let ended = ended.clone();
        drop(busy.spawn_on(WorkerId::new(n % 2), move || async move { add(&ended) }));
    }
    busy.drain(Duration::MAX).unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 10);
}

/// A closure that does not return keeps its thread, not the caller.
#[test]
fn posted_closures_are_not_waited_for() {
    let _dog = watchdog(60);
    let (runtime, leave) = (runtime(1), Arc::new(Event::manual()));
    let (here, go, entered) = (EventLoop::current, leave.clone(), Arc::new(Event::manual()));
    let inside = entered.clone();
    let post = runtime.spawn(async move {
        here().unwrap().post(move || {
            inside.set();
            until(|| go.is_set());
        })
    });
    runtime.block_on(post).unwrap().unwrap();
    entered.wait().block();
    runtime.drain(10 * MS).unwrap();
    leave.set();
    runtime.shutdown_timeout(Duration::MAX).unwrap();
}
