//! Searches through all schedules (`Exhaustive`) of tests that make that hard: a test that changes from run to run is reported, a task that never waits does not stop the search, a task is interrupted also before an operation that must
//! wait, its branches one by one, and a test that does not end is run once.

use crate::kit::{MS, poll_with, watchdog};
use futures_util::{FutureExt as _, join, select, select_biased};
use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use tasuki::{CancellationSource, Event, Mutex, ReentrantMutex, RwLock, Semaphore, channel};
use tasuki_rt::testing::Exhaustive;
use tasuki_rt::{JoinSet, sleep, spawn, spawn_local, yield_now};

/// What a search says of a test that changes.
fn says_that_it_changes(searched: impl FnOnce()) -> bool {
    let Err(payload) = catch_unwind(AssertUnwindSafe(searched)) else { return false };
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap();
    text.contains("something else under the same schedule") || panic!("{text}")
}

/// A search whose test is another one each time says so, whatever the test does: fewer decisions than before, other ones, more, or an earlier end. So does one whose test is another one from the second run on.
#[test]
fn a_search_of_a_test_that_changes_says_so() {
    let _dog = watchdog(60);
    for (first, then) in [(3, 1), (1, 3), (3, 0), (2, 3), (4, 2)] {
        for (alternates, workers) in [(true, 2), (false, 2), (false, 1)] {
            let mut runs = 0;
            let says_so = says_that_it_changes(|| {
                let _ = Exhaustive::new().workers(workers).check(|| {
                    runs += 1;
                    let is_first = if alternates { runs % 2 == 1 } else { runs == 1 };
                    let tasks = if is_first { first } else { then };
                    async move {
                        let mutex = Arc::new(Mutex::new(0));
                        let mut set = JoinSet::new();
                        for _ in 0..tasks {
                            let mutex = mutex.clone();
                            set.spawn(async move { *mutex.lock().await += 1 });
                        }
                        while set.join_next().await.is_some() {}
                    }
                });
            });
            assert!(says_so, "{first} {then}, alternates: {alternates}, workers: {workers}");
        }
    }
}

/// Also if as many tasks can run as before, but other ones.
#[test]
fn a_search_tells_the_tasks_that_can_run() {
    let _dog = watchdog(60);
    let mut runs = 0;
    let says_so = says_that_it_changes(|| {
        let _ = Exhaustive::new().switches(0).check(|| {
            runs += 1;
            let kept = usize::from(runs > 1);
            async move {
                let gates = [Event::manual(), Event::manual()].map(Arc::new);
                for gate in gates.clone() {
                    drop(spawn(async move { gate.wait().await }));
                }
                sleep(MS).await;
                let other = spawn(async {});
                gates[kept].set();
                other.await.unwrap();
            }
        });
    });
    assert!(says_so);
}

/// A task that never waits yields in a search as well, where no switch is left for it.
#[test]
fn a_search_is_not_stopped_by_a_task_that_never_waits() {
    let _dog = watchdog(60);
    let explored = Exhaustive::new().switches(1).schedules(20).check(|| async {
        let done = Arc::new(Event::manual());
        let told = done.clone();
        drop(spawn(async move { told.set() }));
        let mutex = Mutex::new(0);
        while !done.is_set() {
            *mutex.lock().await += 1;
        }
    });
    assert!(explored.schedules() > 1);
}

/// A test that does not end is not run again to make its schedule smaller: each run would take as long.
#[test]
#[cfg_attr(miri, ignore = "100,000 polls")]
fn a_test_that_does_not_end_is_run_once() {
    let _dog = watchdog(120);
    let mut runs = 0;
    let searched = catch_unwind(AssertUnwindSafe(|| {
        Exhaustive::new().check(|| {
            runs += 1;
            async {
                for task in [(); 3].map(|()| spawn(yield_now())) {
                    task.await.unwrap();
                }
                loop {
                    yield_now().await;
                }
            }
        })
    }));
    let payload = searched.unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().contains("not ended after 100000 polls"));
    assert_eq!(runs, 1);
}

type Step = Pin<Box<dyn Future<Output = ()>>>;

/// What two tasks wait for and get in the order in which they were enqueued, and what lets the next one go on.
type Queue = (Arc<dyn Fn() -> Step>, Box<dyn FnMut()>);

fn queue<T: 'static, W: Future<Output = ()> + 'static>(
    of: T,
    wait: impl Fn(Arc<T>) -> W + 'static,
    release: impl FnMut() + 'static,
) -> Queue {
    let of = Arc::new(of);
    (Arc::new(move || Box::pin(wait(of.clone()))), Box::new(release))
}

/// A lock that is held, and released by the drop of the guard.
fn lock<T: 'static, G: 'static, W: Future<Output = ()> + 'static>(
    of: Arc<T>,
    hold: fn(Arc<T>) -> Option<G>,
    wait: impl Fn(Arc<T>) -> W + 'static,
) -> Queue {
    let mut held = Some(hold(of.clone()).expect("it is free"));
    (Arc::new(move || Box::pin(wait(of.clone()))), Box::new(move || drop(held.take())))
}

/// The name of an operation, and what makes its queue.
type Row = (&'static str, fn() -> Queue);

fn queues() -> Vec<Row> {
    vec![
        ("Mutex", || {
            lock(Arc::new(Mutex::new(())), Mutex::try_lock_owned, async |of: Arc<Mutex<()>>| {
                drop(of.lock().await)
            })
        }),
        ("ReentrantMutex", || {
            let hold = |of: Arc<ReentrantMutex<()>>| of.try_lock_owned().unwrap();
            lock(Arc::new(ReentrantMutex::new(())), hold, async |of| drop(of.lock().await))
        }),
        ("write", || {
            lock(Arc::new(RwLock::new(())), RwLock::try_write_owned, async |of| drop(of.write().await))
        }),
        ("upgradable_read", || {
            let hold = RwLock::try_upgradable_read_owned;
            lock(Arc::new(RwLock::new(())), hold, async |of| drop(of.upgradable_read().await))
        }),
        ("Semaphore", || {
            let hold = |of: Arc<Semaphore>| of.try_acquire_owned().ok();
            lock(Arc::new(Semaphore::new(1)), hold, async |of| drop(of.acquire().await))
        }),
        ("Event", || {
            let event = Arc::new(Event::auto());
            queue(event.clone(), async |of| of.wait().await, move || event.set())
        }),
        ("recv", || {
            let (send, recv) = channel::bounded(1);
            queue(recv, async |of| of.recv().await.unwrap(), move || send.try_send(()).unwrap())
        }),
        ("send", || {
            let (send, recv) = channel::bounded(1);
            send.try_send(()).unwrap();
            queue(send, async |of| of.send(()).await.unwrap(), move || recv.try_recv().unwrap())
        }),
    ]
}

/// A task makes another one that waits for the same thing, and then waits itself. The other one comes before it only if the first is interrupted before it is enqueued.
#[test]
fn a_task_is_interrupted_also_before_an_operation_that_must_wait() {
    let _dog = watchdog(60);
    for (name, make) in queues() {
        let orders = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
        let explored = Exhaustive::new().switches(1).check(|| {
            let orders = orders.clone();
            async move {
                let (wait, mut release) = make();
                let log = Arc::new(std::sync::Mutex::new(String::new()));
                let task = |name| {
                    let (wait, log) = (wait.clone(), log.clone());
                    async move {
                        wait().await;
                        log.lock().unwrap().push(name);
                    }
                };
                let (one, other) = (task('A'), task('B'));
                let one = spawn_local(async {
                    let other = spawn_local(other);
                    one.await;
                    other.await.unwrap();
                });
                for _ in 0..2 {
                    sleep(MS).await;
                    release();
                }
                one.await.unwrap();
                orders.lock().unwrap().insert(log.lock().unwrap().clone());
            }
        });
        assert!(explored.is_complete(), "{name}: {explored:?}");
        assert_eq!(*orders.lock().unwrap(), BTreeSet::from(["AB", "BA"].map(String::from)), "{name}");
    }
}

/// Of a wait that is polled with another waker than its task's: nothing says that it is polled again when that one is called.
#[test]
fn a_wait_that_is_polled_by_hand_has_its_place_at_the_first_poll() {
    let _dog = watchdog(60);
    // A re-entrant lock is held by the task that polls.
    for (name, make) in queues().into_iter().filter(|(name, _)| *name != "ReentrantMutex") {
        let explored = Exhaustive::new().switches(2).check(|| async move {
            let (wait, mut release) = make();
            let mut first = wait();
            assert!(poll_with(&mut first, Waker::noop()).is_pending());
            let other = spawn_local(wait());
            yield_now().await;
            release();
            assert!(poll_with(&mut first, Waker::noop()).is_ready(), "{name}");
            release();
            other.await.unwrap();
        });
        assert!(explored.is_complete(), "{name}: {explored:?}");
    }
}

/// Which of two branches of one task is first, in all schedules with so many switches.
fn first_branches<F: Future<Output = u32> + 'static>(switches: u32, program: fn() -> F) -> BTreeSet<u32> {
    let seen = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let explored = Exhaustive::new().switches(switches).check(|| {
        let seen = seen.clone();
        async move {
            let first = program().await;
            seen.lock().unwrap().insert(first);
        }
    });
    assert!(explored.is_complete(), "{explored:?}");
    seen.lock().unwrap().clone()
}

/// The orders that the page says are seen in a simulation alone; and what to write instead.
#[test]
fn branches_of_a_task_are_switched_one_by_one() {
    async fn biased_select() -> u32 {
        let event = Event::manual();
        event.set();
        select_biased! {
            () = event.wait().fuse() => 1,
            () = event.wait().fuse() => 2,
        }
    }
    async fn two_waits() -> u32 {
        let (permits, first) = (Semaphore::new(0), std::cell::Cell::new(0));
        let wait = async |branch| {
            drop(permits.acquire().await.unwrap());
            first.set(if first.get() == 0 { branch } else { first.get() });
        };
        // The permit comes when both have their places.
        join!(wait(1), wait(2), async {
            yield_now().await;
            permits.release(1);
        });
        first.get()
    }
    async fn free_lock() -> u32 {
        if Mutex::new(0).lock().now_or_never().is_some() { 1 } else { 2 }
    }
    async fn token_first() -> u32 {
        let (source, (sender, receiver)) = (CancellationSource::new(), channel::bounded(1));
        let token = source.token();
        let task = spawn_local(async move {
            while let Some(Ok(())) = token.run_until_cancelled(receiver.recv()).await {
                if token.stop_requested() {
                    return 2;
                }
            }
            1
        });
        sender.send(()).await.unwrap();
        source.request_cancel();
        task.await.unwrap()
    }
    let _dog = watchdog(60);
    let both = BTreeSet::from([1, 2]);
    assert_eq!(
        (first_branches(0, biased_select), first_branches(1, biased_select)),
        ([1].into(), both.clone())
    );
    // Waits keep the order of the branches.
    assert_eq!(first_branches(3, two_waits), [1].into());
    assert_eq!((first_branches(0, free_lock), first_branches(1, free_lock)), ([1].into(), both));
    assert_eq!(first_branches(3, token_first), [1].into());
}

/// The `select!` of `futures` begins with a random branch, also under the same schedule. A search refuses it where that changes what there is to decide, and nowhere else.
#[test]
fn a_search_refuses_a_random_select() {
    let _dog = watchdog(60);
    async fn rounds(differ: bool) {
        let event = Event::manual();
        event.set();
        for _ in 0..8 {
            let second = select! {
                () = event.wait().fuse() => false,
                () = event.wait().fuse() => true,
            };
            if second && differ {
                drop(Mutex::new(0).lock().await);
            } else if differ {
                yield_now().await;
            }
        }
    }
    assert!(says_that_it_changes(|| {
        let _ = Exhaustive::new().check(|| rounds(true));
    }));
    assert!(Exhaustive::new().check(|| rounds(false)).is_complete());
}
