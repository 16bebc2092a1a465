//! How a runtime ends: H18, B075, B121, B139.

use crate::kit::{Drops, MS, panicking_waker, poll_with, runtime, scaled, until, watchdog};
use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::{Barrier, CancellationSource, Condvar, Event, Latch, Mutex, RwLock, Semaphore, WaitGroup};
use tasuki_rt::{EventLoop, Runtime, ShutdownError, WorkerId, sleep, spawn, yield_now};

/// Everything that a task can be queued on, none of it free.
#[derive(Default)]
struct Places {
    mutex: Mutex<()>,
    rwlock: RwLock<()>,
    event: Event,
    condvar: Condvar,
    beside: Mutex<()>,
    source: CancellationSource,
}

#[test]
fn tasks_queued_on_every_primitive_are_dropped_cleanly() {
    const TASKS: usize = scaled(90, 9);
    let _dog = watchdog(60);
    for pinned in [false, true] {
        let runtime = runtime(2);
        let places = Arc::new(Places::default());
        let (semaphore, group) = (Arc::new(Semaphore::new(0)), Arc::new(WaitGroup::new()));
        let (latch, barrier) = (Arc::new(Latch::new(1)), Arc::new(Barrier::new(100)));
        group.add(1);
        let (write, lock) = (places.rwlock.try_write().unwrap(), places.mutex.try_lock().unwrap());
        let (drops, queued) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
        for n in 0..TASKS {
            let (places, held, queued) = (places.clone(), drops.one(), queued.clone());
            let (semaphore, group, latch, barrier) =
                (semaphore.clone(), group.clone(), latch.clone(), barrier.clone());
            let body = async move {
                let _held = held;
                queued.fetch_add(1, Ordering::SeqCst);
                match n % 9 {
                    0 => drop(places.mutex.lock().await),
                    1 => drop(places.rwlock.read().await),
                    2 => places.event.wait().await,
                    3 => drop(places.condvar.wait(places.beside.lock().await).await),
                    4 => places.source.token().on_cancel().await,
                    5 => drop(semaphore.acquire().await),
                    6 => group.wait().await,
                    7 => latch.wait().await,
                    _ => drop(barrier.arrive_and_wait().await),
                }
            };
            if pinned {
                drop(runtime.spawn_on(WorkerId::new(n % 2), || body));
            } else {
                drop(runtime.spawn(body));
            }
        }
        runtime.start().unwrap();
        until(|| queued.load(Ordering::SeqCst) == TASKS);
        runtime.shutdown_timeout(Duration::MAX).unwrap();
        assert_eq!((drops.count(), runtime.tasks()), (TASKS, 0));
        drop((write, lock));
        assert!(places.mutex.try_lock().is_some() && places.rwlock.try_write().is_some());
        assert_eq!(Arc::strong_count(&places), 1);
    }
}

/// B075: wakes on foreign threads against the end of the runtime, and long after it.
#[test]
fn wakers_on_foreign_threads_stay_harmless() {
    let _dog = watchdog(120);
    for round in 0..scaled(200, 2) {
        let runtime = runtime(2);
        let kept: Arc<StdMutex<Vec<Waker>>> = Arc::default();
        let drops = Drops::default();
        for n in 0..8 {
            let (kept, held) = (kept.clone(), drops.one());
            let wait = async move {
                let _held = held;
                poll_fn(|cx| {
                    kept.lock().unwrap().push(cx.waker().clone());
                    Poll::<()>::Pending
                })
                .await;
            };
            if n % 2 == 0 {
                drop(runtime.spawn(wait));
            } else {
                drop(runtime.spawn_on(WorkerId::new(n / 2 % 2), || wait));
            }
        }
        runtime.start().unwrap();
        until(|| kept.lock().unwrap().len() >= 8);
        let go = Arc::new(AtomicBool::new(false));
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let (go, wakers) = (go.clone(), kept.lock().unwrap().clone());
                thread::spawn(move || {
                    while !go.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                    wakers.iter().for_each(Waker::wake_by_ref);
                    wakers.into_iter().for_each(Waker::wake);
                })
            })
            .collect();
        if round % 2 == 0 {
            go.store(true, Ordering::SeqCst);
        }
        let ending = thread::spawn(move || drop(runtime));
        go.store(true, Ordering::SeqCst);
        ending.join().unwrap();
        assert_eq!(drops.count(), 8, "B121: every task is dropped when the runtime is gone");
        wakers.into_iter().for_each(|thread| thread.join().unwrap());
        kept.lock().unwrap().drain(..).for_each(Waker::wake);
    }
}

/// A future is never dropped inside the `wake` of another.
#[test]
fn no_task_is_dropped_inside_a_wake() {
    thread_local!(static WAKING: RefCell<bool> = const { RefCell::new(false) });
    struct NotInWake(Arc<AtomicUsize>);
    impl Drop for NotInWake {
        fn drop(&mut self) {
            if WAKING.with_borrow(|waking| *waking) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    let _dog = watchdog(60);
    let wrong = Arc::new(AtomicUsize::new(0));
    for _ in 0..scaled(100, 2) {
        let runtime = runtime(1);
        let kept: Arc<StdMutex<Vec<Waker>>> = Arc::default();
        for _ in 0..4 {
            let (kept, held) = (kept.clone(), NotInWake(wrong.clone()));
            drop(runtime.spawn(async move {
                let _held = held;
                poll_fn(|cx| {
                    kept.lock().unwrap().push(cx.waker().clone());
                    Poll::<()>::Pending
                })
                .await;
            }));
        }
        runtime.start().unwrap();
        until(|| kept.lock().unwrap().len() >= 4);
        let waking = thread::spawn(move || {
            WAKING.set(true);
            for _ in 0..scaled(20, 3) {
                let wakers = kept.lock().unwrap().clone();
                wakers.into_iter().for_each(Waker::wake);
            }
            drop(std::mem::take(&mut *kept.lock().unwrap()));
        });
        drop(runtime);
        waking.join().unwrap();
    }
    assert_eq!(wrong.load(Ordering::SeqCst), 0);
}

#[test]
fn from_inside_a_task_it_is_an_error_and_twice_it_is_fine() {
    let _dog = watchdog(30);
    let runtime = Arc::new(runtime(2));
    let inner = runtime.clone();
    let inside = runtime.spawn(async move { inner.shutdown_timeout(Duration::MAX) });
    assert_eq!(runtime.block_on(inside).unwrap(), Err(ShutdownError::InsideTask));
    // Nothing has been done.
    assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
    let both: Vec<_> = (0..2)
        .map(|_| {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.shutdown_timeout(Duration::MAX))
        })
        .collect();
    both.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    runtime.shutdown_timeout(Duration::ZERO).unwrap();
}

/// The last handle to the runtime is dropped by one of its own tasks.
#[test]
fn dropped_by_its_own_task() {
    let _dog = watchdog(30);
    let drops = Drops::default();
    let runtime = Arc::new(runtime(2));
    let (inner, held) = (runtime.clone(), drops.one());
    let other = drops.one();
    drop(runtime.spawn(async move {
        let _other = other;
        pending::<()>().await;
    }));
    drop(runtime.spawn(async move {
        let _held = held;
        until(|| Arc::strong_count(&inner) == 1);
        drop(inner);
        pending::<()>().await;
    }));
    runtime.start().unwrap();
    drop(runtime);
    until(|| drops.count() == 2);
}

#[test]
fn from_the_destructor_of_a_thread() {
    struct Last(RefCell<Option<Runtime>>);
    impl Drop for Last {
        fn drop(&mut self) {
            drop(self.0.take());
        }
    }
    thread_local!(static LAST: Last = const { Last(RefCell::new(None)) });
    let _dog = watchdog(30);
    let drops = Drops::default();
    let held = drops.one();
    thread::spawn(move || {
        LAST.with(|last| {
            let runtime = runtime(2);
            runtime.block_on(async move {
                drop(spawn(async move {
                    let _held = held;
                    sleep(Duration::MAX).await;
                }));
                sleep(2 * MS).await;
            });
            last.0.replace(Some(runtime));
        });
    })
    .join()
    .unwrap();
    assert_eq!(drops.count(), 1);
}

/// Each caller waits for the destructors of thread-local variables, of workers and of threads for blocking work; the first one joins the threads, and the others wait for that.
#[test]
fn destructors_of_threads_are_waited_for_by_all_callers() {
    struct Waits(mpsc::Sender<()>, mpsc::Receiver<()>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let _ = self.0.send(());
            let _ = self.1.recv();
        }
    }
    thread_local!(static LAST: RefCell<Option<Waits>> = const { RefCell::new(None) });
    let _dog = watchdog(30);
    for blocking in [false, true] {
        let runtime = Arc::new(runtime(2));
        let ((begins, begun), (go_on, wait)) = (mpsc::channel(), mpsc::channel());
        let put = move || LAST.with(|last| *last.borrow_mut() = Some(Waits(begins, wait)));
        let task = if blocking { runtime.spawn_blocking(put) } else { runtime.spawn(async { put() }) };
        runtime.block_on(task).unwrap();
        let callers = [(); 2].map(|()| {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.shutdown_timeout(Duration::MAX))
        });
        begun.recv().unwrap();
        // Time for both to come to their wait.
        thread::sleep(100 * MS);
        assert!(callers.iter().all(|caller| !caller.is_finished()), "{blocking}");
        // On a machine that gives the callers no turn this call is the one that joins, and has no limit: not before they go on.
        let late = {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.shutdown_timeout(20 * MS))
        };
        thread::sleep(100 * MS);
        go_on.send(()).unwrap();
        assert!(matches!(late.join().unwrap(), Ok(()) | Err(ShutdownError::TimedOut)));
        for caller in callers {
            assert_eq!(caller.join().unwrap(), Ok(()));
        }
        assert_eq!(runtime.shutdown_timeout(MS), Ok(()));
    }
}

#[test]
fn a_poll_that_does_not_return_is_waited_for_only_so_long() {
    let _dog = watchdog(30);
    let (runtime, drops) = (runtime(2), Drops::default());
    let (entered, leave) = (Arc::new(Event::manual()), Arc::new(AtomicBool::new(false)));
    let (inside, go, held) = (entered.clone(), leave.clone(), drops.one());
    drop(runtime.spawn(async move {
        let _held = held;
        inside.set();
        until(|| go.load(Ordering::SeqCst));
        pending::<()>().await;
    }));
    runtime.start().unwrap();
    entered.wait().block();
    let start = Instant::now();
    assert_eq!(runtime.shutdown_timeout(20 * MS), Err(ShutdownError::TimedOut));
    assert!(start.elapsed() >= 20 * MS && drops.count() == 0);
    leave.store(true, Ordering::SeqCst);
    runtime.shutdown_timeout(Duration::MAX).unwrap();
    assert_eq!(drops.count(), 1);
}

/// A destructor that spawns, wakes and posts while everything goes.
#[test]
fn destructors_may_use_the_runtime_that_ends() {
    struct Busy(Arc<AtomicUsize>);
    impl Drop for Busy {
        fn drop(&mut self) {
            let refused = self.0.clone();
            let task = spawn(async move { refused.fetch_add(1000, Ordering::SeqCst) });
            drop(task);
            drop(tasuki_rt::spawn_local(async {}));
            let here = tasuki_rt::EventLoop::current().expect("dropped on a loop");
            assert!(here.post(|| ()).is_err());
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let _dog = watchdog(30);
    let (runtime, count) = (runtime(2), Arc::new(AtomicUsize::new(0)));
    for n in 0..20 {
        let busy = Busy(count.clone());
        let body = async move {
            let _busy = busy;
            pending::<()>().await;
        };
        if n % 2 == 0 { drop(runtime.spawn(body)) } else { drop(runtime.spawn_on(WorkerId::new(0), || body)) }
    }
    runtime.block_on(sleep(10 * MS));
    drop(runtime);
    assert_eq!(count.load(Ordering::SeqCst), 20);
}

/// B139: a shutdown drops the tasks that sleep, and does not turn the wheels for them: no sleep ends. How long it takes is told by
/// the soak.
#[test]
fn a_shutdown_ends_no_sleep() {
    let _dog = watchdog(120);
    let timers = scaled(100_000, 30);
    let (runtime, drops) = (runtime(2), Drops::default());
    let [armed, ended] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    for n in 0..timers {
        let (armed, ended, counted) = (armed.clone(), ended.clone(), drops.one());
        drop(runtime.spawn(async move {
            let _counted = counted;
            let mut sleep = Box::pin(sleep(Duration::from_secs(3_600 + n as u64)));
            assert!(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await.is_pending());
            armed.fetch_add(1, Ordering::Relaxed);
            sleep.await;
            ended.fetch_add(1, Ordering::Relaxed);
        }));
    }
    runtime.start().unwrap();
    until(|| armed.load(Ordering::Relaxed) == timers);
    drop(runtime);
    assert_eq!((ended.load(Ordering::Relaxed), drops.count()), (0, timers));
}

#[test]
fn a_runtime_is_built_on_a_small_stack() {
    let _dog = watchdog(30);
    let small = thread::Builder::new().stack_size(64 * 1024).spawn(|| {
        let runtime = Runtime::builder().workers(8).build().unwrap();
        let sum = runtime.block_on(async {
            let task = spawn(async {
                yield_now().await;
                2
            });
            task.await.unwrap() + 1
        });
        drop(runtime);
        sum
    });
    assert_eq!(small.unwrap().join().unwrap(), 3);
}

/// A sleep was begun on a worker with a waker that panics, carried away, and is due when the worker leaves.
#[test]
fn a_waker_that_panics_when_its_worker_leaves() {
    let _dog = watchdog(60);
    let (runtime, (waker, calls)) = (runtime(1), panicking_waker());
    let kept = Arc::new(StdMutex::new(None));
    let keep = kept.clone();
    drop(runtime.spawn(async move {
        let mut carried = Box::pin(sleep(MS));
        assert!(poll_with(&mut carried, &waker).is_pending());
        *keep.lock().unwrap() = Some(carried);
        // In this poll until the shutdown has begun and the sleep is due.
        let here = EventLoop::current().unwrap();
        until(|| here.post(|| ()).is_err());
        thread::sleep(5 * MS);
    }));
    runtime.start().unwrap();
    until(|| kept.lock().unwrap().is_some());
    drop(runtime);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
