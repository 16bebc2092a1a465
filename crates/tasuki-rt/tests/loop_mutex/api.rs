//! `LoopMutex`, row by row: S1-01..31. Most of it in simulations, where every loop is on one thread and every
//! schedule is drawn from a seed; the rest on real threads. Guards and waits on the wrong loop are in `elsewhere.rs`.

use crate::kit::traits::{Both, Neither, SendOnly, SyncOnly, traits};
use crate::kit::{MS, panicking_waker, poll_with, runtime, scaled, until, watchdog};
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use tasuki::{CancellationSource, Elapsed, Event};
use tasuki_rt::{
    EventLoop, JoinSet, LoopLock, LoopLockOwned, LoopMutex, LoopMutexGuard, MappedLoopMutexGuard,
    NotOnEventLoop, OwnedLoopMutexGuard, OwnedMappedLoopMutexGuard, WorkerId, now, sleep, spawn_local,
    spawn_on, testing, yield_now,
};

fn here() -> WorkerId {
    EventLoop::current().expect("on a loop").id()
}

pub(super) fn poll<T>(lock: &mut Pin<Box<LoopLock<'_, T>>>) -> bool {
    lock.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// S1-01, S1-14, S1-16: U -> L0 -> U.
#[test]
fn free_locked_free() {
    testing::check(scaled(20, 2) as u64, || async {
        let mutex = LoopMutex::new(1);
        assert!(!mutex.is_locked() && mutex.owner().is_none());
        let guard = mutex.lock().await.unwrap();
        assert!(mutex.is_locked());
        assert_eq!(mutex.owner(), Some(here()));
        assert!(mutex.try_lock().unwrap().is_none());
        drop(guard);
        assert!(!mutex.is_locked() && mutex.owner().is_none());
    });
}

/// S1-04, S1-15, S1-17, S1-18: L0 -> L1 -> L1, then out in the order they came in, from all loops.
#[test]
fn first_come_first_served_among_all_loops() {
    testing::check(scaled(100, 2) as u64, || async {
        let mutex = Arc::new(LoopMutex::new(Vec::new()));
        let guard = mutex.lock().await.unwrap();
        let mut set = JoinSet::new();
        for n in 0..8 {
            let (mutex, queued) = (mutex.clone(), Arc::new(Event::auto()));
            let tell = queued.clone();
            set.spawn_on(WorkerId::new(n % 4), move || async move {
                let mut lock = Box::pin(mutex.lock());
                assert!(!poll(&mut lock));
                tell.set();
                lock.await.unwrap().push(n);
            });
            queued.wait().await;
        }
        drop(guard);
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
        assert!(mutex.lock().await.unwrap().iter().copied().eq(0..8));
    });
}

/// S1-05, S1-08, S1-09, S1-30: a task that waited on a loop resumes on it, through its queue, and never inside the unlock.
#[test]
fn a_waiter_resumes_on_its_loop() {
    testing::check(scaled(50, 2) as u64, || async {
        let mutex = Arc::new(LoopMutex::new(0));
        let mut set = JoinSet::new();
        for n in 0..12 {
            let mutex = mutex.clone();
            set.spawn_on(WorkerId::new(n % 4), move || async move {
                for _ in 0..5 {
                    let mut guard = mutex.lock().await.unwrap();
                    assert_eq!(here(), WorkerId::new(n % 4));
                    assert_eq!(mutex.owner(), Some(here()));
                    yield_now().await;
                    *guard += 1;
                    let before = *guard;
                    drop(guard);
                    // No task ran inside the unlock.
                    assert!(
                        mutex.is_locked() || mutex.try_lock().unwrap().is_some_and(|value| *value == before)
                    );
                }
            });
        }
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
        assert_eq!(*mutex.lock().await.unwrap(), 60);
    });
}

/// S1-22, S1-23: the new owner is recorded by the unlock, before it runs; no task passes it (S1-24: it resumes once).
#[test]
fn ownership_moves_with_the_unlock() {
    testing::check(scaled(50, 2) as u64, || async {
        let mutex = Arc::new(LoopMutex::new(()));
        let guard = mutex.lock().await.unwrap();
        let (queued, resumed) = (Arc::new(Event::auto()), Arc::new(AtomicUsize::new(0)));
        let (tell, count, there) = (queued.clone(), resumed.clone(), mutex.clone());
        let waiter = spawn_on(WorkerId::new(3), move || async move {
            // Queued with the waker of the task itself.
            let mut lock = Box::pin(there.lock());
            std::future::poll_fn(|cx| {
                assert!(lock.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            tell.set();
            let guard = lock.await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            assert_eq!(there.owner(), Some(WorkerId::new(3)));
            drop(guard);
        });
        queued.wait().await;
        sleep(MS).await;
        drop(guard);
        assert_eq!(mutex.owner(), Some(WorkerId::new(3)), "recorded at the transfer");
        assert!(mutex.is_locked() && mutex.try_lock().unwrap().is_none());
        assert_eq!(resumed.load(Ordering::SeqCst), 0, "posted, not run");
        waiter.await.unwrap();
        assert_eq!((resumed.load(Ordering::SeqCst), mutex.owner()), (1, None));
    });
}

/// S1-19, S1-20, S1-25..28: cancel in each of the four states, with and without a waiter behind.
#[test]
fn cancel_in_every_state() {
    testing::check(scaled(20, 2) as u64, || async {
        for behind in [false, true] {
            let mutex = LoopMutex::new(());
            // Not polled yet: no place, nothing to give up.
            drop(mutex.lock());
            let guard = mutex.lock().await.unwrap();
            // Waiting: leaves the list.
            let mut waiting = Box::pin(mutex.lock());
            assert!(!poll(&mut waiting));
            let mut next = Box::pin(mutex.lock());
            assert!(!behind || !poll(&mut next));
            drop(waiting);
            assert_eq!(mutex.owner(), Some(here()), "the owner did not change");
            // Notified: what was granted goes to the next one, or is free.
            let mut notified = Box::pin(mutex.lock());
            if behind {
                drop(next);
            }
            assert!(!poll(&mut notified));
            let mut last = Box::pin(mutex.lock());
            assert!(!behind || !poll(&mut last));
            drop(guard);
            assert!(mutex.is_locked());
            drop(notified);
            if behind {
                assert!(poll(&mut last), "the next one was given the lock");
            }
            drop(last);
            assert!(!mutex.is_locked() && mutex.owner().is_none());
            // Resumed: the guard has the lock, the future nothing.
            let mut resumed = Box::pin(mutex.lock());
            let guard = resumed.as_mut().await.unwrap();
            drop(resumed);
            assert!(mutex.is_locked());
            assert_eq!(mutex.owner(), Some(here()));
            drop(guard);
            assert!(!mutex.is_locked());
        }
    });
}

/// S1-26: the late post of a cancelled waiter does nothing.
#[test]
fn an_aborted_waiter_that_was_notified_passes_it_on() {
    testing::check(scaled(100, 2) as u64, || async {
        let mutex = Arc::new(LoopMutex::new(0));
        let guard = mutex.lock().await.unwrap();
        let tasks: Vec<_> = (0..4)
            .map(|n| {
                let mutex = mutex.clone();
                spawn_on(WorkerId::new(n), move || async move { *mutex.lock().await.unwrap() += 1 })
            })
            .collect();
        sleep(MS).await;
        drop(guard);
        tasks[0].abort();
        tasks[2].abort();
        let mut done = 0;
        for task in tasks {
            done += u32::from(task.await.is_ok());
        }
        assert!(done >= 2);
        assert_eq!(*mutex.lock().await.unwrap(), done);
        assert!(!mutex.is_locked());
    });
}

/// S1-02, S1-03, S1-10..13: real loops, real threads; nothing is lost, and each task unlocks where it locked.
#[test]
fn many_loops_one_lock() {
    const ROUNDS: usize = scaled(300, 2);
    let _dog = watchdog(120);
    let runtime = runtime(4);
    let mutex = Arc::new(LoopMutex::new(0_usize));
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for n in 0..16 {
            let mutex = mutex.clone();
            set.spawn_on(WorkerId::new(n % 4), move || async move {
                let home = thread::current().id();
                for round in 0..ROUNDS {
                    let mut guard = mutex.lock().await.unwrap();
                    assert_eq!(thread::current().id(), home);
                    *guard += 1;
                    if (n + round) % 5 == 0 {
                        yield_now().await;
                    }
                    drop(guard);
                    if (n + round) % 11 == 0 {
                        let mut given_up = Box::pin(mutex.lock());
                        let _ = std::future::poll_fn(|cx| Poll::Ready(given_up.as_mut().poll(cx).is_ready()))
                            .await;
                    }
                }
            });
        }
        while let Some(result) = set.join_next().await {
            result.unwrap();
        }
    });
    assert!(!mutex.is_locked() && mutex.owner().is_none());
    assert_eq!(Arc::into_inner(mutex).unwrap().into_inner(), 16 * ROUNDS);
}

/// A panic while the lock is held unlocks; a waker that panics loses nothing; the runtime may go with the lock held.
#[test]
fn panics_and_shutdown_unlock() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let mutex = Arc::new(LoopMutex::new(0));
    let held = mutex.clone();
    let task = runtime.spawn_on(WorkerId::new(0), move || async move {
        let _guard = held.lock().await.unwrap();
        panic!("with the lock held");
    });
    let result: Result<(), _> = runtime.block_on(task);
    assert!(result.unwrap_err().is_panic() && !mutex.is_locked());

    let hostile = mutex.clone();
    let task = runtime.spawn_on(WorkerId::new(1), move || async move {
        let guard = hostile.lock().await.unwrap();
        let (waker, calls) = panicking_waker();
        let mut waiting = Box::pin(hostile.lock());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(guard))).is_err());
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        *waiting.await.unwrap() += 1;
    });
    runtime.block_on(task).unwrap();

    let held = mutex.clone();
    drop(runtime.spawn_on(WorkerId::new(1), move || async move {
        let order = Rc::new(RefCell::new(0));
        let _guard = held.lock().await.unwrap();
        let other = held.clone();
        drop(spawn_local(async move { *order.borrow_mut() += *other.lock().await.unwrap() }));
        sleep(Duration::MAX).await;
    }));
    until(|| mutex.is_locked());
    drop(runtime);
    assert!(!mutex.is_locked() && mutex.owner().is_none());
    assert_eq!(Arc::into_inner(mutex).unwrap().into_inner(), 1);
}

/// S1-23: a waiter that was about to run for another reason is the owner from the moment of the grant, too.
#[test]
fn the_owner_is_known_when_the_waiter_was_already_scheduled() {
    let _dog = watchdog(30);
    let runtime = runtime(1);
    let task = runtime.spawn_on(WorkerId::new(0), || async {
        let (mutex, event) = (Rc::new(LoopMutex::new(())), Rc::new(Event::auto()));
        let guard = mutex.lock().await.unwrap();
        let (wanted, other) = (mutex.clone(), event.clone());
        let waiter = spawn_local(async move {
            let (mut event, mut lock) = (Box::pin(other.wait()), Box::pin(wanted.lock()));
            let both = std::future::poll_fn(|cx| {
                let _ = event.as_mut().poll(cx);
                lock.as_mut().poll(cx)
            });
            drop(both.await.unwrap());
        });
        yield_now().await;
        yield_now().await;
        event.set();
        drop(guard);
        assert_eq!((mutex.is_locked(), mutex.owner()), (true, Some(here())));
        waiter.await.unwrap();
        assert_eq!(mutex.owner(), None);
    });
    runtime.block_on(task).unwrap();
}

thread_local! {
    static LOCK: RefCell<Option<Pin<Box<LoopLock<'static, i32>>>>> = const { RefCell::new(None) };
    static GUARD: RefCell<Option<LoopMutexGuard<'static, i32>>> = const { RefCell::new(None) };
}

/// A waker that polls the wait inside the wake: the new owner has claimed the lock before the unlock returns.
#[test]
fn a_waiter_that_is_polled_by_its_waker_may_unlock() {
    static MUTEX: LoopMutex<i32> = LoopMutex::new(0);
    struct AtOnce;
    impl std::task::Wake for AtOnce {
        fn wake(self: Arc<Self>) {
            let mut lock = LOCK.take().expect("on its own loop");
            let Poll::Ready(guard) = lock.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("it was granted")
            };
            GUARD.set(Some(guard.unwrap()));
        }
    }
    let _dog = watchdog(30);
    let runtime = runtime(1);
    let task = runtime.spawn_on(WorkerId::new(0), || async {
        let first = MUTEX.lock().await.unwrap();
        let mut lock = Box::pin(MUTEX.lock());
        let waker = Waker::from(Arc::new(AtOnce));
        assert!(lock.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        LOCK.set(Some(lock));
        drop(first);
        let second = GUARD.take().expect("the waker has got it");
        assert_eq!(MUTEX.owner(), Some(here()));
        drop(second);
        assert!(!MUTEX.is_locked() && MUTEX.owner().is_none());
    });
    runtime.block_on(task).unwrap();
}

/// The limits of every wait, as the last word and inside each other; a grant that was faster is kept.
#[test]
fn limits() {
    testing::check(scaled(20, 2) as u64, || async {
        let (source, mutex) = (CancellationSource::new(), LoopMutex::new(1));
        let token = source.token();
        let guard = mutex.lock().await.unwrap();
        let start = now();
        assert_eq!(mutex.lock().timeout(5 * MS).await.err(), Some(Elapsed));
        assert_eq!(mutex.lock().deadline(start + 7 * MS).await.err(), Some(Elapsed));
        assert_eq!(now() - start, 7 * MS);
        let mut cancelled = Box::pin(mutex.lock().or_cancelled(&token));
        assert!(poll_with(&mut cancelled, Waker::noop()).is_pending());
        source.request_cancel();
        assert!(cancelled.await.is_err());
        drop(guard);
        assert!(!mutex.is_locked());
        assert_eq!(*mutex.lock().timeout(MS).await.unwrap().unwrap(), 1);
        assert!(!mutex.is_locked() && mutex.owner().is_none());
    });
    let mutex = LoopMutex::new(1);
    assert_eq!(mutex.lock().block().err(), Some(NotOnEventLoop), "a bare thread is no loop");
    assert!(matches!(mutex.lock().timeout(MS).block(), Ok(Err(NotOnEventLoop))));
}

/// Owned guards keep the mutex; mapped ones keep the lock, and unlock as the whole does.
#[test]
fn owned_and_mapped_guards() {
    testing::check(scaled(20, 2) as u64, || async {
        let mutex = Arc::new(LoopMutex::new((1, Some("two"))));
        let weak = Arc::downgrade(&mutex);
        let guard = mutex.clone().try_lock_owned().unwrap().unwrap();
        assert!(mutex.clone().try_lock_owned().unwrap().is_none());
        drop(mutex);
        let part = OwnedLoopMutexGuard::filter_map(guard, |pair| pair.1.as_mut());
        let Ok(mut part) = part else { panic!("there is one") };
        *part = "three";
        let mutex = weak.upgrade().expect("the guard keeps it");
        assert_eq!(mutex.owner(), Some(here()));
        drop(part);
        assert!(!mutex.is_locked());
        let guard = LoopMutexGuard::filter_map(mutex.lock().await.unwrap(), |pair| {
            if pair.0 == 0 { Some(&mut pair.0) } else { None }
        });
        let guard = guard.expect_err("comes back");
        assert_eq!(guard.1, Some("three"));
        LoopMutexGuard::unlock(guard);
        assert!(!mutex.is_locked());
        assert_eq!(format!("{mutex:?}"), r#"LoopMutex { value: (1, Some("three")) }"#);
    });
    let mutex = LoopMutex::new(1);
    assert_eq!(
        format!("{mutex:?}"),
        "LoopMutex { owner: None, .. }",
        "off its loops the value is not looked at"
    );
}

/// Neither futures nor guards cross threads, whatever is inside; the mutex does, if the value is `Send`.
#[test]
fn auto_traits() {
    assert_eq!(traits!(LoopMutex<Both>), "SYU");
    assert_eq!(traits!(LoopMutex<SendOnly>), "SYU");
    assert_eq!(traits!(LoopMutex<SyncOnly>), "--U");
    assert_eq!(traits!(LoopMutex<Neither>), "--U");
    assert_eq!(traits!(LoopMutex<[SendOnly]>), "SYU");
    assert_eq!(traits!(LoopLock<'static, Both>), "---");
    assert_eq!(traits!(LoopLockOwned<Both>), "---");
    assert_eq!(traits!(LoopMutexGuard<'static, Both>), "--U");
    assert_eq!(traits!(OwnedLoopMutexGuard<Both>), "--U");
    assert_eq!(traits!(MappedLoopMutexGuard<'static, Both, Both>), "--U");
    assert_eq!(traits!(OwnedMappedLoopMutexGuard<Both, Both>), "--U");
}
