//! What a simulation reports: the first failure, and every panic that no part of the test has seen.

use crate::kit::{MS, watchdog};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tasuki::inspect::is_active;
use tasuki::{Mutex, channel};
use tasuki_rt::testing::{Exhaustive, Simulation, check, foreign_wakes};
use tasuki_rt::{Handle, JoinHandle, JoinSet, sleep, spawn, spawn_local, yield_now};

struct Asserts;

impl Drop for Asserts {
    fn drop(&mut self) {
        panic!("in a destructor, at the end");
    }
}

/// What the run fails with.
fn failure(run: impl FnOnce() + UnwindSafe) -> Option<String> {
    let payload = catch_unwind(run).err()?;
    let text = payload.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).into()))
}

/// Tasks that are left are dropped when the run has failed: what their destructors panic with is not why it failed.
#[test]
fn the_first_failure_is_the_one_that_is_reported() {
    let _dog = watchdog(60);
    let simulation = || Simulation::new(1).grace(Duration::ZERO).polls(100);
    async fn holds_on(_: Asserts) {
        pending::<()>().await;
    }
    let panics = failure(move || {
        simulation().run(async {
            drop(spawn(holds_on(Asserts)));
            sleep(MS).await;
            panic!("first");
        });
    });
    assert_eq!(panics.as_deref(), Some("first"));
    let deadlock = failure(move || {
        simulation().run(async {
            let mutex = Arc::new(Mutex::new(()));
            let (_guard, other) = (mutex.lock().await, mutex.clone());
            let waits = async move {
                let _asserts = Asserts;
                drop(other.lock().await);
            };
            spawn(waits).await.unwrap();
        });
    });
    assert!(deadlock.unwrap().starts_with("deadlock: 2 tasks wait"));
    let endless = failure(move || {
        simulation().run(async {
            drop(spawn(holds_on(Asserts)));
            loop {
                yield_now().await;
            }
        });
    });
    assert_eq!(endless.as_deref(), Some("the test has not ended after 100 polls"));
    // Without another failure it is the destructor's; so it is if the output of the test has one too.
    for output in [false, true] {
        let only = failure(move || {
            simulation().run(async move {
                drop(spawn(holds_on(Asserts)));
                sleep(MS).await;
                output.then_some(Asserts)
            });
        });
        assert_eq!(only.as_deref(), Some("in a destructor, at the end"));
    }
}

/// A task that has panicked.
async fn panicked() -> JoinHandle<()> {
    let task = spawn(async { panic!("in a task") });
    while !task.is_finished() {
        yield_now().await;
    }
    task
}

/// A panic fails the test wherever the handle is when the run ends; one that any thread has taken out does not.
#[test]
fn a_panic_that_no_handle_reports_fails_the_test() {
    static KEPT: std::sync::Mutex<Vec<JoinHandle<()>>> = std::sync::Mutex::new(Vec::new());
    let _dog = watchdog(60);
    let runs: [(&str, fn()); 3] = [
        ("kept", || {
            Simulation::new(1).run(async {
                let task = panicked().await;
                KEPT.lock().unwrap().push(task);
            });
        }),
        ("forgotten", || Simulation::new(1).run(async { std::mem::forget(panicked().await) })),
        ("returned", || drop(Simulation::new(1).run(async { [panicked().await] }))),
    ];
    for (what, run) in runs {
        assert_eq!(failure(run).as_deref(), Some("in a task"), "{what}");
    }
    assert!(KEPT.lock().unwrap().drain(..).all(|handle| handle.is_finished()));
    let elsewhere = failure(|| {
        Simulation::new(1).run(async {
            let task = panicked().await;
            let error = std::thread::spawn(move || tasuki_rt::run(task).unwrap_err());
            assert!(error.join().unwrap().is_panic());
        });
    });
    assert_eq!(elsewhere, None);
}

/// A handle or a set that a foreign thread drops, as one that was moved there: the run that is going on knows nothing of that, and fails at its end. It passed.
#[test]
fn a_panic_that_a_foreign_thread_drops_fails_the_test() {
    fn elsewhere<T: Send + 'static>(value: T, drops: fn(T)) {
        std::thread::spawn(move || drops(value)).join().unwrap();
    }
    let _dog = watchdog(60);
    let runs: [(&str, fn()); 4] = [
        ("a handle", || Simulation::new(1).run(async { elsewhere(panicked().await, drop) })),
        ("a set", || Simulation::new(1).run(async { elsewhere(set_with_a_panic(false).await, drop) })),
        ("a result in a set", || {
            Simulation::new(1).run(async { elsewhere(set_with_a_panic(true).await, drop) });
        }),
        ("a set that is shut down", || {
            Simulation::new(1).run(async {
                let shut_down = |mut set: JoinSet<()>| tasuki_rt::run(async { set.shutdown().await });
                elsewhere(set_with_a_panic(false).await, shut_down);
            });
        }),
    ];
    for (what, run) in runs {
        assert_eq!(failure(run).as_deref(), Some("in a task"), "{what}");
    }
}

/// Four tasks end in some order. Says which of two bugs of a test this order shows, the second of which needs one decision less.
async fn bug_of_an_order() -> Option<u8> {
    let log = Rc::new(RefCell::new(Vec::new()));
    let ends = |n: usize| {
        let log = log.clone();
        spawn_local(async move {
            yield_now().await;
            log.borrow_mut().push(n);
        })
    };
    let tasks: Vec<_> = (0..4).map(ends).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let at = |n| log.borrow().iter().position(|other| *other == n);
    match (at(1) < at(0), at(3) < at(2)) {
        (true, true) => Some(1),
        (true, false) => Some(2),
        _ => None,
    }
}

/// The schedule that is reported fails at the place where the first run failed, also if another place has the same message, or another deadlock. It ended in the bug that needs the fewest decisions.
#[test]
#[cfg_attr(miri, ignore = "thousands of runs")]
fn a_smaller_schedule_fails_at_the_same_place() {
    async fn panics() -> u8 {
        let bug = bug_of_an_order().await;
        SHOWN.with_borrow_mut(|shown| shown.extend(bug));
        let nothing = bug.filter(|bug| *bug > 2);
        match bug {
            Some(1) => nothing.unwrap(),
            Some(2) => nothing.unwrap(),
            _ => 0,
        }
    }
    async fn locks_twice() {
        let (mutex, bug) = (Mutex::new(()), bug_of_an_order().await);
        SHOWN.with_borrow_mut(|shown| shown.extend(bug));
        let _guard = mutex.lock().await;
        match bug {
            Some(1) => drop(mutex.lock().await),
            Some(2) => drop(mutex.lock().await),
            _ => {}
        }
    }
    thread_local! { static SHOWN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) }; }
    fn repeats<F: Future<Output = ()> + 'static>(test: fn() -> F) {
        let mut found = [0, 0];
        for _ in 0..1_000 {
            SHOWN.take();
            let by_seed = failure(move || check(1, test));
            let shown = SHOWN.take();
            if by_seed.is_some() {
                assert!(shown.len() > 1 && shown.first() == shown.last(), "{shown:?}");
                found[usize::from(shown[0]) - 1] += 1;
                if found.iter().all(|found| *found >= 3) {
                    return;
                }
            }
        }
        panic!("not found: {found:?}");
    }
    let _dog = watchdog(120);
    repeats(|| async { assert_eq!(panics().await, 0) });
    // Where the tasks of a deadlock wait is noted in these builds only.
    if is_active() {
        repeats(locks_twice);
    }
}

/// What a test panics with may panic when it is dropped, as in each run that makes the schedule smaller: the process goes on, and the test fails with it.
#[test]
fn a_test_that_panics_with_what_panics_fails() {
    let _dog = watchdog(60);
    let failed = catch_unwind(|| {
        check(3, || async {
            spawn(yield_now()).await.unwrap();
            std::panic::panic_any(Asserts);
        });
    });
    let payload = failed.expect_err("it panics");
    assert!(payload.is::<Asserts>());
    std::mem::forget(payload);
}

/// The closure that makes a test may panic when it is called again, beside what the first run has left: the test fails with what it failed with.
#[test]
fn a_test_that_cannot_be_made_again_fails_as_it_did() {
    let _dog = watchdog(60);
    for made in 1..4 {
        let mut left = made;
        let failed = failure(AssertUnwindSafe(|| {
            check(1, || {
                assert!(left > 0, "it cannot be made again");
                left -= 1;
                async { panic!("in the test") }
            });
        }));
        assert_eq!(failed.as_deref(), Some("in the test"), "made {made} times");
        let mut left = made;
        let failed = failure(AssertUnwindSafe(|| {
            let _ = Exhaustive::new().check(|| {
                assert!(left > 0, "it cannot be made again");
                left -= 1;
                async { panic!("in the test") }
            });
        }));
        assert_eq!(failed.as_deref(), Some("in the test"), "made {made} times, in a search");
    }
}

/// A set in which a task has panicked: spawned there, or inserted after it had ended.
async fn set_with_a_panic(inserted: bool) -> JoinSet<()> {
    let mut set = JoinSet::new();
    if inserted {
        set.insert(panicked().await);
    } else {
        let task = set.spawn(async { panic!("in a task") });
        while !task.is_finished() {
            yield_now().await;
        }
    }
    set
}

/// What becomes of a set, and a run in which it does.
type WhatAndRun = (&'static str, fn(bool));

/// Whatever becomes of a set: a panic in it that is not joined fails the test.
#[test]
fn a_panic_in_a_set_that_is_not_joined_fails_the_test() {
    static KEPT: std::sync::Mutex<Vec<JoinSet<()>>> = std::sync::Mutex::new(Vec::new());
    let _dog = watchdog(60);
    for inserted in [false, true] {
        let runs: [WhatAndRun; 7] = [
            ("kept", |inserted| {
                Simulation::new(1).run(async move {
                    let set = set_with_a_panic(inserted).await;
                    KEPT.lock().unwrap().push(set);
                });
            }),
            ("forgotten", |inserted| {
                Simulation::new(1).run(async move { std::mem::forget(set_with_a_panic(inserted).await) });
            }),
            ("returned", |inserted| {
                drop(Simulation::new(1).run(async move { [set_with_a_panic(inserted).await] }));
            }),
            ("dropped", |inserted| {
                Simulation::new(1).run(async move { drop(set_with_a_panic(inserted).await) });
            }),
            ("detached", |inserted| {
                Simulation::new(1).run(async move { set_with_a_panic(inserted).await.detach_all() });
            }),
            ("shut down", |inserted| {
                Simulation::new(1).run(async move { set_with_a_panic(inserted).await.shutdown().await });
            }),
            ("left", |inserted| {
                Simulation::new(1).run(async move {
                    let left = async move {
                        let _set = set_with_a_panic(inserted).await;
                        pending::<()>().await;
                    };
                    drop(spawn(left));
                    sleep(MS).await;
                });
            }),
        ];
        for (what, run) in runs {
            assert_eq!(failure(|| run(inserted)).as_deref(), Some("in a task"), "{what}, {inserted}");
        }
        let joined = failure(|| {
            Simulation::new(1).run(async move {
                let mut set = set_with_a_panic(inserted).await;
                assert!(set.join_next().await.unwrap().unwrap_err().is_panic());
                set.spawn(pending());
                set.shutdown().await;
            });
        });
        assert_eq!(joined, None, "seen: {inserted}");
    }
}

/// Threads for blocking work, which only a foreign thread can start, end with the run.
#[test]
fn no_thread_for_blocking_work_outlives_the_run() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    struct Ends(Cell<bool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            ENDED.fetch_add(usize::from(self.0.get()), SeqCst);
        }
    }
    thread_local!(static ENDS: Ends = const { Ends(Cell::new(false)) });
    let _dog = watchdog(60);
    for seed in 0..3 {
        Simulation::new(seed).run(async {
            let (handle, guard) = (Handle::current(), foreign_wakes());
            let (sender, receiver) = channel::oneshot();
            std::thread::spawn(move || {
                let work = handle.spawn_blocking(|| ENDS.with(|ends| ends.0.set(true)));
                let _ = sender.send(handle.block_on(work).is_ok());
                drop(guard);
            });
            assert!(receiver.recv().await.unwrap());
        });
        assert_eq!(ENDED.load(SeqCst), seed as usize + 1);
    }
}
