//! Every primitive in small programs with cancels, limits and aborts, under all schedules up to a number of switches: nothing deadlocks, nothing
//! is lost, and at the end everything is at rest.

use crate::kit::{MS, watchdog};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tasuki::{Barrier, CancellationSource, Condvar, Event, Latch, Mutex, OnceCell, RwLock, Semaphore};
use tasuki_rt::testing::Exhaustive;
use tasuki_rt::{JoinSet, LoopMutex, WorkerId, sleep, spawn, spawn_on};

/// All schedules with up to four switches before operations.
fn explore<F: Future<Output = ()> + 'static>(workers: usize, test: impl FnMut() -> F) {
    let _dog = watchdog(240);
    let switches = if cfg!(miri) { 0 } else { 4 };
    let limit = if cfg!(miri) { 3 } else { 200_000 };
    let search = Exhaustive::new().workers(workers).switches(switches).grace(Duration::ZERO).schedules(limit);
    let explored = search.check(test);
    println!("{explored:?}");
    assert!(cfg!(miri) || (explored.is_complete() && explored.schedules() > 3), "{explored:?}");
}

#[test]
fn a_mutex_with_a_limit_and_an_abort() {
    explore(1, || async {
        let mutex = Arc::new(Mutex::new(0));
        let (limited, aborted) = (mutex.clone(), mutex.clone());
        let limited = spawn(async move { limited.lock().timeout(MS).await.map(|mut n| *n += 1).is_ok() });
        let aborted = spawn(async move { *aborted.lock().await += 1 });
        let guard = mutex.lock().await;
        aborted.abort();
        drop(guard);
        let added = usize::from(limited.await.unwrap()) + usize::from(aborted.await.is_ok());
        assert_eq!(*mutex.lock().await, added);
        assert!(!mutex.is_locked());
    });
}

#[test]
fn permits_with_an_abort_and_a_close() {
    explore(1, || async {
        let permits = Arc::new(Semaphore::new(2));
        let (many, one) = (permits.clone(), permits.clone());
        let many = spawn(async move { many.acquire_many(2).await.is_ok() });
        let one = spawn(async move { one.acquire().await.is_ok() });
        let held = permits.acquire().await;
        one.abort();
        drop(held);
        assert!(many.await.unwrap());
        let _ = one.await;
        assert_eq!(permits.available_permits(), 2);
        permits.close();
        assert!(permits.acquire().await.is_err());
    });
}

#[test]
fn a_condvar_with_a_limit() {
    explore(1, || async {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let wait = |shared: Arc<(Mutex<u32>, Condvar)>| async move {
            let mut guard = shared.0.lock().await;
            while *guard == 0 {
                guard = shared.1.wait(guard).await;
            }
            *guard -= 1;
        };
        let (one, two) = (spawn(wait(shared.clone())), spawn(wait(shared.clone())));
        *shared.0.lock().await += 2;
        shared.1.notify_one();
        shared.1.notify_one();
        one.await.unwrap();
        two.await.unwrap();
        assert_eq!(*shared.0.lock().await, 0);
    });
}

#[test]
fn a_lock_for_readers_and_writers() {
    explore(1, || async {
        let lock = Arc::new(RwLock::new(0));
        let (reader, writer) = (lock.clone(), lock.clone());
        let reader = spawn(async move { *reader.read().await });
        let writer = spawn(async move { writer.write().timeout(MS).await.map(|mut n| *n += 1).is_ok() });
        let upgradable = lock.upgradable_read().await;
        writer.abort();
        drop(upgradable);
        assert!(reader.await.unwrap() <= 1);
        let wrote = writer.await.unwrap_or(false);
        // An abort may come after the write.
        assert!(*lock.read().await <= 1 && (!wrote || *lock.read().await == 1));
    });
}

#[test]
fn an_event_wakes_one_or_none_is_lost() {
    explore(1, || async {
        let (event, woken) = (Arc::new(Event::auto()), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..2 {
            let (event, woken) = (event.clone(), woken.clone());
            tasks.spawn(async move {
                event.wait().await;
                woken.fetch_add(1, SeqCst);
                event.set();
            });
        }
        event.set();
        while tasks.join_next().await.is_some() {}
        assert_eq!(woken.load(SeqCst), 2);
        assert!(event.is_set());
    });
}

#[test]
fn a_barrier_and_a_latch() {
    explore(1, || async {
        let (barrier, latch) = (Arc::new(Barrier::new(2)), Arc::new(Latch::new(2)));
        let both = |barrier: Arc<Barrier>, latch: Arc<Latch>| async move {
            let led = barrier.arrive_and_wait().await.is_leader();
            latch.count_down();
            led
        };
        let tasks = [(); 2].map(|()| spawn(both(barrier.clone(), latch.clone())));
        latch.wait().await;
        let mut leaders = 0;
        for task in tasks {
            leaders += u32::from(task.await.unwrap());
        }
        assert_eq!(leaders, 1);
    });
}

#[test]
fn a_cell_whose_maker_is_aborted() {
    explore(1, || async {
        let (cell, made) = (Arc::new(OnceCell::new()), Arc::new(AtomicUsize::new(0)));
        let get = |cell: Arc<OnceCell<usize>>, made: Arc<AtomicUsize>| async move {
            let make = || async {
                tasuki_rt::checkpoint().await;
                made.fetch_add(1, SeqCst) + 1
            };
            *cell.get_or_init(make).await
        };
        let aborted = spawn(get(cell.clone(), made.clone()));
        let other = spawn(get(cell.clone(), made.clone()));
        tasuki_rt::checkpoint().await;
        aborted.abort();
        assert_eq!(other.await.unwrap(), 1);
        let _ = aborted.await;
        assert_eq!((made.load(SeqCst), cell.get().copied()), (1, Some(1)));
    });
}

#[test]
fn a_cancel_races_a_grant() {
    explore(1, || async {
        let (source, mutex) = (CancellationSource::new(), Arc::new(Mutex::new(0)));
        let (token, wanted) = (source.token(), mutex.clone());
        let task =
            spawn(async move { wanted.lock().or_cancelled(&token).await.map(|mut n| *n += 1).is_ok() });
        let guard = mutex.lock().await;
        let stop = spawn(async move { source.request_cancel() });
        drop(guard);
        stop.await.unwrap();
        let got = task.await.unwrap();
        assert_eq!(*mutex.lock().await, i32::from(got));
    });
}

#[test]
fn a_lock_of_two_loops() {
    explore(2, || async {
        let mutex = Arc::new(LoopMutex::new(0));
        let add = |worker| {
            let mutex = mutex.clone();
            spawn_on(WorkerId::new(worker), move || async move {
                let mut guard = mutex.lock().await.unwrap();
                assert_eq!(mutex.owner(), Some(WorkerId::new(worker)));
                tasuki_rt::checkpoint().await;
                *guard += 1;
            })
        };
        let (one, two) = (add(0), add(1));
        two.abort();
        one.await.unwrap();
        let added = 1 + i32::from(two.await.is_ok());
        assert_eq!(*mutex.lock().await.unwrap(), added);
        assert!(!mutex.is_locked() && mutex.owner().is_none());
    });
}

#[test]
fn sleeps_and_joins() {
    explore(1, || async {
        let mut tasks = JoinSet::new();
        for n in [2, 1] {
            tasks.spawn(async move {
                sleep(n * MS).await;
                n
            });
        }
        let mut order = Vec::new();
        while let Some(n) = tasks.join_next().await {
            order.push(n.unwrap());
        }
        assert_eq!(order, [1, 2]);
    });
}

/// A limit that is over takes nothing away that is ready, wherever the simulation switches: the limit beside an operation
/// that yields is not judged in the same poll.
#[test]
fn a_limit_of_zero_takes_nothing_away() {
    explore(1, || async {
        let (mutex, past) = (Mutex::new(0), std::time::Instant::now());
        drop(mutex.lock().timeout(Duration::ZERO).await.expect("the lock is free"));
        drop(mutex.lock().deadline(past).timeout(Duration::ZERO).await.unwrap().expect("the lock is free"));
        drop(tasuki_rt::timeout(Duration::ZERO, mutex.lock()).await.expect("the lock is free"));
    });
}
