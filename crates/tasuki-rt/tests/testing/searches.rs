//! Searches through all schedules (`Exhaustive`) of tests that make that hard: a test that changes from run to run is reported, a task that never waits does not stop the search, and a test that does not end is run once.

use crate::kit::watchdog;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tasuki::{Event, Mutex};
use tasuki_rt::testing::Exhaustive;
use tasuki_rt::{JoinSet, spawn, yield_now};

/// A search whose test is another one each time says so, whatever the test does: fewer decisions than before, other ones, or an earlier end.
#[test]
fn a_search_of_a_test_that_changes_says_so() {
    let _dog = watchdog(60);
    for (first, then) in [(3, 1), (1, 3), (3, 0), (2, 3), (4, 2)] {
        let mut runs = 0;
        let searched = catch_unwind(AssertUnwindSafe(|| {
            Exhaustive::new().workers(2).check(|| {
                runs += 1;
                let tasks = if runs % 2 == 1 { first } else { then };
                async move {
                    let mutex = Arc::new(Mutex::new(0));
                    let mut set = JoinSet::new();
                    for _ in 0..tasks {
                        let mutex = mutex.clone();
                        set.spawn(async move { *mutex.lock().await += 1 });
                    }
                    while set.join_next().await.is_some() {}
                }
            })
        }));
        let payload = searched.unwrap_err();
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap();
        assert!(text.contains("something else under the same schedule"), "{first} {then}: {text}");
    }
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
