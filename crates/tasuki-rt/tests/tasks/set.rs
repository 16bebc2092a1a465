//! `JoinSet` beyond `join_next`, and tasks that a `WaitGroup` counts.

use crate::kit::traits::{Both, Neither, SendOnly, SyncOnly, traits};
use crate::kit::{Drops, runtime, scaled, until, watchdog};
use std::collections::BTreeMap;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use tasuki::{Event, WaitGroup};
use tasuki_rt::{Handle, JoinHandle, JoinSet, WaitGroupExt, WorkerId, spawn, testing, yield_now};

/// A shared set gives no output, nor does a shared handle: both may be shared if the output may be sent.
#[test]
fn auto_traits() {
    assert_eq!([traits!(JoinSet<Both>), traits!(JoinHandle<Both>)], ["SYU"; 2]);
    assert_eq!([traits!(JoinSet<SendOnly>), traits!(JoinHandle<SendOnly>)], ["SYU"; 2]);
    assert_eq!([traits!(JoinSet<SyncOnly>), traits!(JoinHandle<SyncOnly>)], ["--U"; 2]);
    assert_eq!([traits!(JoinSet<Neither>), traits!(JoinHandle<Neither>)], ["--U"; 2]);
}

/// Every way to put a task into a set; each result comes once, with the identity that the handle had.
#[test]
fn ids_belong_to_results() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let task = runtime.spawn_on(WorkerId::new(0), || async {
        let (mut set, mut sent) = (JoinSet::new(), BTreeMap::new());
        for n in 0..scaled(40, 6) {
            let handle = match n % 4 {
                0 => set.spawn(async move { n }),
                1 => set.spawn_on(WorkerId::new(1), move || async move { n }),
                2 => set.spawn_local(async move { n }),
                _ => set.spawn_blocking(move || n),
            };
            sent.insert(handle.id(), n);
        }
        let ended = spawn(async { 1_000 });
        sent.insert(ended.id(), 1_000);
        while !ended.is_finished() {
            yield_now().await;
        }
        set.insert(ended);
        let failed = set.spawn(async { panic!("one of them") });
        let mut failures = 0;
        while let Some(result) = set.join_next_with_id().await {
            match result {
                Ok((id, output)) => assert_eq!(sent.remove(&id), Some(output)),
                Err(error) => {
                    assert!(error.id() == failed.id() && error.is_panic());
                    failures += 1;
                }
            }
        }
        (sent.len(), failures)
    });
    assert_eq!(runtime.block_on(task).unwrap(), (0, 1));
}

/// Results come in the order in which members ended; one that had ended before counts from its insertion.
#[test]
fn a_task_that_had_ended_counts_from_its_insertion() {
    let _dog = watchdog(60);
    testing::Simulation::new(1).run(async {
        let first = spawn(async { 'a' });
        while !first.is_finished() {
            yield_now().await;
        }
        let mut set = JoinSet::new();
        let second = set.spawn(async { 'b' });
        while !second.is_finished() {
            yield_now().await;
        }
        set.insert(first);
        assert_eq!(set.join_all().await, ['b', 'a']);
    });
}

/// Not ended: nothing, and the member stays. Ended: the result, once.
#[test]
fn try_join_next_takes_what_there_is() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    runtime.block_on(async {
        let (mut set, gate) = (JoinSet::new(), Arc::new(Event::manual()));
        assert!(set.try_join_next().is_none());
        let wait = gate.clone();
        let first = set.spawn(async move {
            wait.wait().await;
            1
        });
        assert!(set.try_join_next().is_none() && set.len() == 1);
        gate.set();
        let (id, output) = loop {
            match set.try_join_next_with_id() {
                Some(result) => break result.unwrap(),
                None => yield_now().await,
            }
        };
        assert!(id == first.id() && output == 1 && set.is_empty());
        assert!(set.try_join_next().is_none());
        // A member joined without waiting leaves no wake-up behind that a later wait would take for its own.
        set.spawn(async { 2 });
        assert_eq!(set.join_next().await.unwrap().unwrap(), 2);
        assert!(set.join_next().await.is_none());
    });
}

/// A set that was emptied, by whatever way there is, is as a new one: what is put into it afterwards is joined.
#[test]
fn an_emptied_set_is_used_again() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for round in 0..8 {
            let gate = Arc::new(Event::manual());
            for _ in 0..3 {
                let gate = gate.clone();
                set.spawn(async move {
                    gate.wait().await;
                    0
                });
            }
            if round >= 4 {
                gate.set();
            }
            match round % 4 {
                0 => set.detach_all(),
                1 => set.shutdown().await,
                2 => {
                    set.abort_all();
                    while set.join_next().await.is_some() {}
                }
                _ => {
                    gate.set();
                    while !set.is_empty() {
                        if set.try_join_next().is_none() {
                            yield_now().await;
                        }
                    }
                }
            }
            assert!(set.is_empty() && set.join_next().await.is_none());
            set.spawn(async move { round });
            assert_eq!(set.join_next().await.unwrap().unwrap(), round);
            // Also one that has ended when it is put in.
            let ended = spawn(async move { round });
            while !ended.is_finished() {
                yield_now().await;
            }
            set.insert(ended);
            assert_eq!(set.join_next().await.unwrap().unwrap(), round);
        }
    });
}

/// A result whose destructor panics.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("a result that is dropped");
    }
}

/// Results that were not taken panic when they are dropped, several of them: the panics go no further, and the set is empty.
#[test]
fn results_that_panic_when_they_are_dropped() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.start().unwrap();
    let ended = || {
        let handle = runtime.spawn(async { PanicsWhenDropped });
        until(|| handle.is_finished());
        handle
    };
    let mut set = JoinSet::new();
    for _ in 0..2 {
        (0..3).for_each(|_| set.insert(ended()));
        set.detach_all();
        assert!(set.is_empty());
    }
    (0..3).for_each(|_| set.insert(ended()));
    runtime.block_on(set.shutdown());
    assert!(set.is_empty());
    (0..3).for_each(|_| set.insert(ended()));
    drop(set);

    // Two outputs have been taken when a task panics.
    let mut set = JoinSet::new();
    (0..2).for_each(|_| set.insert(ended()));
    let last = runtime.spawn(async { panic!("the last") });
    until(|| last.is_finished());
    set.insert(last);
    let payload = catch_unwind(AssertUnwindSafe(|| runtime.block_on(set.join_all()))).err().unwrap();
    assert_eq!(payload.downcast_ref(), Some(&"the last"));
}

/// A handle that has given its result is refused, and the set is as it was.
#[test]
fn a_refused_handle_leaves_no_member() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let mut set = JoinSet::new();
    for members in 0..2 {
        let mut handle = runtime.spawn(async { 1 });
        runtime.block_on(&mut handle).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| set.insert(handle))).is_err());
        assert_eq!(set.len(), members);
        set.insert(runtime.spawn(async { 2 }));
    }
    assert_eq!(runtime.block_on(set.join_all()), [2, 2]);
}

#[test]
fn join_all_gives_all_or_panics() {
    let _dog = watchdog(60);
    let (runtime, drops) = (runtime(2), Drops::default());
    runtime.block_on(async {
        let set: JoinSet<usize> = (0..20).map(|n| async move { n }).collect();
        let mut outputs = set.join_all().await;
        outputs.sort_unstable();
        assert!(outputs.into_iter().eq(0..20));
        assert!(JoinSet::<()>::new().join_all().await.is_empty());
    });
    let failing = |aborts: bool| {
        let held = drops.one();
        runtime.block_on(async move {
            let mut set = JoinSet::new();
            set.extend([async move {
                let _held = held;
                pending::<()>().await;
            }]);
            let other = set.spawn(async move {
                assert!(aborts, "what it panicked with");
                pending::<()>().await;
            });
            if aborts {
                other.abort();
            }
            set.join_all().await
        })
    };
    let payload = catch_unwind(AssertUnwindSafe(|| failing(false))).unwrap_err();
    assert_eq!(*payload.downcast::<&str>().unwrap(), "what it panicked with");
    let payload = catch_unwind(AssertUnwindSafe(|| failing(true))).unwrap_err();
    assert!(payload.downcast::<String>().unwrap().contains("was aborted"));
    // The others were aborted with the set.
    until(|| drops.count() == 2);
}

/// When a shutdown ends, the futures of all members are gone, and the set is usable.
#[test]
fn shutdown_waits_for_the_last_one() {
    let _dog = watchdog(60);
    let (runtime, drops) = (runtime(2), Drops::default());
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for n in 0..scaled(100, 8) {
            let held = drops.one();
            set.spawn(async move {
                let _held = held;
                if n % 2 == 0 {
                    yield_now().await;
                }
                pending::<()>().await;
            });
        }
        set.shutdown().await;
        assert!(set.is_empty() && drops.count() == scaled(100, 8));
        set.spawn(async {});
        set.join_next().await.unwrap().unwrap();
    });
}

/// The count falls when a future is gone: ended, panicked, aborted before and after its first poll, refused.
#[test]
fn a_group_counts_until_the_future_is_gone() {
    let _dog = watchdog(60);
    let (runtime, drops) = (runtime(2), Drops::default());
    let group = Arc::new(WaitGroup::new());
    let hold = |waits: bool, panics: bool| {
        let held = drops.one();
        async move {
            let _held = held;
            assert!(!panics, "as it should");
            if waits {
                pending::<()>().await;
            }
            yield_now().await;
        }
    };
    let handle = runtime.handle();
    let guard = handle.enter();
    // Never polled: the workers have not been started.
    let aborted = group.spawn(hold(true, false));
    aborted.abort();
    drop(guard);
    runtime.block_on(async {
        group.wait().await;
        assert_eq!(drops.count(), 1);
        let waits = group.spawn(hold(true, false));
        group.spawn(hold(false, false));
        group.spawn(hold(false, true));
        let held = drops.one();
        group.spawn_on(WorkerId::new(1), move || async move { drop((held, Rc::new(1))) });
        let held = drops.one();
        group.spawn_blocking(move || drop(held));
        while drops.count() < 5 {
            yield_now().await;
        }
        assert!(group.count() >= 1);
        waits.abort();
        group.wait().await;
        assert_eq!((drops.count(), group.count()), (6, 0));
    });
    drop(runtime);
    let guard = handle.enter();
    let refused = group.spawn(hold(true, false));
    let blocking = group.spawn_blocking(|| ());
    drop(guard);
    assert_eq!((drops.count(), group.count()), (7, 0));
    assert!(handle.block_on(async { refused.await.is_err() && blocking.await.is_err() }));
}

/// All of it under many schedules.
#[test]
fn in_a_simulation() {
    testing::check(scaled(50, 2) as u64, || async {
        let group = Arc::new(WaitGroup::new());
        let mut set: JoinSet<u32> = (0..3)
            .map(|n| async move {
                yield_now().await;
                n
            })
            .collect();
        set.spawn_local(async { *Rc::new(3) });
        set.spawn_blocking(|| 4);
        let counted = group.spawn_local(async { Rc::new(5) });
        group.spawn(async { yield_now().await });
        group.wait().await;
        assert!(Handle::current().tasks() <= 1 + set.len());
        let mut sum = *counted.await.unwrap();
        if let Some(first) = set.try_join_next() {
            sum += first.unwrap();
        }
        sum += set.join_all().await.into_iter().sum::<u32>();
        assert_eq!(sum, 15);
        let mut left = JoinSet::new();
        left.spawn(pending::<()>());
        left.shutdown().await;
    });
}
