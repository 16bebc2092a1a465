//! A task keeps a lock future and never polls it again, and *another* task waits for the lock: with `Revocable` and `lock_owned` that one gets it when the first task has ended a whole poll without
//! a claim. With any other policy the program hangs, which a simulation tells.

use crate::kit::{runtime, watchdog};
use futures_util::stream::{FuturesUnordered, Stream as _};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::Poll;
use tasuki::future::LockOwned;
use tasuki::policy::{Fifo, Policy, Revocable};
use tasuki::{Event, Mutex};
use tasuki_rt::testing::Simulation;
use tasuki_rt::{AbortHandle, LocalRuntime, spawn, yield_now};

/// How a task keeps a future that it has polled once.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    /// The branch of a `select!` that lost.
    Branch,
    /// One of a set of futures, of which none is polled any more.
    Set,
}

struct Stage<P: Policy> {
    mutex: Arc<Mutex<u32, P>>,
    is_queued: Event,
    is_over: Event,
}

/// Queues for the lock, and then waits for something else.
async fn keep<P: Policy>(stage: Arc<Stage<P>>, keeps: Keeps) {
    match keeps {
        Keeps::Branch => {
            let mut kept = pin!(stage.mutex.clone().lock_owned());
            assert!(poll_fn(|cx| Poll::Ready(kept.as_mut().poll(cx).is_pending())).await);
            stage.is_queued.set();
            stage.is_over.wait().await;
            *kept.await += 1;
        }
        Keeps::Set => {
            let mut set: FuturesUnordered<_> = (0..3).map(|_| stage.mutex.clone().lock_owned()).collect();
            assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut set).poll_next(cx).is_pending())).await);
            stage.is_queued.set();
            stage.is_over.wait().await;
            let mut left = 3;
            poll_fn(|cx| {
                while let Poll::Ready(Some(mut guard)) = Pin::new(&mut set).poll_next(cx) {
                    *guard += 1;
                    left -= 1;
                }
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }
}

/// A holder, the task that keeps futures of the lock, and a third that waits for it.
async fn program<P: Policy>(keeps: Keeps) {
    let stage = Arc::new(Stage::<P> {
        mutex: Arc::new(Mutex::with_policy(0)),
        is_queued: Event::manual(),
        is_over: Event::manual(),
    });
    let held = stage.mutex.clone().lock_owned().await;
    let keeper = spawn(keep(stage.clone(), keeps));
    stage.is_queued.wait().await;
    let third = stage.clone();
    let third = spawn(async move {
        *third.mutex.lock().await += 10;
        third.is_over.set();
    });
    yield_now().await;
    drop(held);
    third.await.unwrap();
    keeper.await.unwrap();
    let expected = match keeps {
        Keeps::Branch => 11,
        Keeps::Set => 13,
    };
    assert_eq!(*stage.mutex.lock().await, expected);
}

const ALL: [Keeps; 2] = [Keeps::Branch, Keeps::Set];

#[test]
fn another_task_goes_on() {
    let _dog = watchdog(60);
    for keeps in ALL {
        for workers in [1, 2, 3] {
            runtime(workers).block_on(program::<Revocable>(keeps));
        }
        LocalRuntime::new().unwrap().block_on(program::<Revocable>(keeps));
    }
}

/// The task that keeps the future is the one in `block_on`, of either runtime.
#[test]
fn in_block_on() {
    let _dog = watchdog(60);
    async fn keeper(keeps: Keeps) {
        let stage = Arc::new(Stage::<Revocable> {
            mutex: Arc::new(Mutex::with_policy(0)),
            is_queued: Event::manual(),
            is_over: Event::manual(),
        });
        let held = stage.mutex.clone().lock_owned().await;
        let third = stage.clone();
        spawn(async move {
            third.is_queued.wait().await;
            drop(held);
            *third.mutex.lock().await += 10;
            third.is_over.set();
        });
        keep(stage, keeps).await;
    }
    for keeps in ALL {
        runtime(1).block_on(keeper(keeps));
        LocalRuntime::new().unwrap().block_on(keeper(keeps));
    }
}

/// In every schedule that a simulation tries; and with `Fifo` in none.
#[test]
fn in_a_simulation() {
    let _dog = watchdog(120);
    for keeps in ALL {
        for seed in 0..if cfg!(miri) { 2 } else { 200 } {
            Simulation::new(seed).run(program::<Revocable>(keeps));
        }
        let hangs = catch_unwind(AssertUnwindSafe(|| Simulation::new(1).run(program::<Fifo>(keeps))));
        let message = hangs.expect_err("`Fifo` cannot go on");
        let message = message.downcast_ref::<String>().expect("a report");
        assert!(message.contains("deadlock"), "{message}");
    }
}

/// Tasks that claim what they are granted, in every poll: the ends of their polls, which come while grants are on their way, take nothing from them for good.
#[test]
fn honest_tasks() {
    let _dog = watchdog(60);
    let (tasks, rounds) = if cfg!(miri) { (3, 3) } else { (16, 500) };
    let mutex = Arc::new(Mutex::<u32, Revocable>::with_policy(0));
    runtime(2).block_on(async {
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let mutex = mutex.clone();
                spawn(async move {
                    for _ in 0..rounds {
                        let mut count = mutex.clone().lock_owned().await;
                        *count += 1;
                        yield_now().await;
                        drop(count);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*mutex.try_lock().unwrap(), tasks * rounds);
}

/// How a task ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Ready,
    Panic,
    Aborted,
    /// With its runtime, before it is polled again.
    Dropped,
}

type Shared = Arc<Mutex<u32, Revocable>>;
/// A future that outlives the task that has polled it.
type LeftBehind = Arc<StdMutex<Option<Pin<Box<LockOwned<u32, Revocable>>>>>>;

/// Polls a future of the lock once, and leaves it behind; the grant is what the task is woken by.
async fn leave_behind(mutex: &Shared, left: &LeftBehind) {
    let mut lock = Box::pin(mutex.clone().lock_owned());
    assert!(poll_fn(|cx| Poll::Ready(lock.as_mut().poll(cx).is_pending())).await);
    *left.lock().unwrap() = Some(lock);
}

/// A task that is spawned, and ends in the poll that the grant has woken it for.
async fn ends(end: End, mutex: Shared, left: LeftBehind) {
    let (held, is_queued) = (mutex.clone().try_lock_owned().unwrap(), Arc::new(Event::auto()));
    let (me, queued) = (Arc::new(StdMutex::new(None::<AbortHandle>)), is_queued.clone());
    let mine = me.clone();
    let task = spawn(async move {
        leave_behind(&mutex, &left).await;
        queued.set();
        let mut polls = 0;
        poll_fn(|_| {
            polls += 1;
            if polls == 1 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        match end {
            End::Ready => {}
            End::Panic => panic!("mine"),
            End::Aborted | End::Dropped => {
                mine.lock().unwrap().take().expect("it is there before the grant").abort();
                std::future::pending().await
            }
        }
    });
    *me.lock().unwrap() = Some(task.abort_handle());
    is_queued.wait().await;
    drop(held);
    match end {
        End::Ready => task.await.unwrap(),
        End::Panic => assert!(task.await.unwrap_err().is_panic()),
        End::Aborted => assert!(task.await.unwrap_err().is_aborted()),
        End::Dropped => {}
    }
}

/// The lock is free, and what was left behind competes again.
fn is_free(end: End, mutex: &Shared, left: &LeftBehind) {
    assert!(!mutex.is_locked(), "{end:?}");
    let lock = left.lock().unwrap().take().expect("it was left");
    *runtime(1).block_on(lock) += 1;
    assert_eq!(*mutex.try_lock().unwrap(), 1);
}

/// A task ends with a grant that it has not claimed, to a future that lives on elsewhere.
#[test]
fn a_task_that_ends() {
    let _dog = watchdog(60);
    for end in [End::Ready, End::Panic, End::Aborted, End::Dropped] {
        let (mutex, left) = (Shared::new(Mutex::with_policy(0)), LeftBehind::default());
        let local = LocalRuntime::new().unwrap();
        local.block_on(ends(end, mutex.clone(), left.clone()));
        drop(local);
        is_free(end, &mutex, &left);
        for workers in [1, 2] {
            let (mutex, left) = (Shared::new(Mutex::with_policy(0)), LeftBehind::default());
            let runtime = runtime(workers);
            runtime.block_on(ends(end, mutex.clone(), left.clone()));
            drop(runtime);
            is_free(end, &mutex, &left);
        }
    }
}

/// The same of the task in `block_on`, of either runtime.
#[test]
fn a_block_on_that_ends() {
    let _dog = watchdog(60);
    for end in [End::Ready, End::Panic] {
        for is_local in [true, false] {
            let (mutex, left) = (Shared::new(Mutex::with_policy(0)), LeftBehind::default());
            let main = async {
                let held = mutex.clone().try_lock_owned().unwrap();
                leave_behind(&mutex, &left).await;
                drop(held);
                assert!(matches!(end, End::Ready), "mine");
            };
            let run = AssertUnwindSafe(|| {
                if is_local { LocalRuntime::new().unwrap().block_on(main) } else { runtime(1).block_on(main) }
            });
            assert_eq!(catch_unwind(run).is_ok(), matches!(end, End::Ready));
            is_free(end, &mutex, &left);
        }
    }
}
