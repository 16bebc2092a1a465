//! `select!` and `join!` of the futures crates work over the futures of this crate and of the primitives; so `tasuki-rt` has no such macros of its own.

use crate::kit::{MS, runtime, scaled, watchdog};
use futures_util::{FutureExt as _, future, join, pin_mut, select, select_biased};
use std::sync::Arc;
use tasuki::{Event, Mutex};
use tasuki_rt::{JoinSet, interval, sleep, spawn, testing, timeout};

#[test]
fn join_and_select() {
    let _dog = watchdog(60);
    runtime(2).block_on(async {
        let (mutex, event) = (Mutex::new(1), Event::manual());
        let held = mutex.lock().await;
        let (number, (), slept, ended) = join!(
            async { *mutex.lock().await },
            async {
                drop(held);
                event.set();
            },
            sleep(MS),
            spawn(async { 4 }),
        );
        assert_eq!((number, slept, ended.unwrap()), (1, (), 4));

        let never = Event::manual();
        let mut waits = Box::pin(never.wait().fuse());
        select! {
            () = waits => unreachable!("it is never set"),
            () = event.wait().fuse() => (),
        }
        select_biased! {
            () = waits => unreachable!("it is never set"),
            result = timeout(MS, future::pending::<()>()).fuse() => assert!(result.is_err()),
        }
        let task = spawn(async { 5 }).fuse();
        let (mut ticks, mut set) = (interval(MS), JoinSet::from_iter([async { 6 }]));
        pin_mut!(task);
        let mut seen = Vec::new();
        while seen.len() < 2 {
            select! {
                output = task => seen.push(output.unwrap()),
                output = set.join_next().fuse() => seen.extend(output.map(Result::unwrap)),
                _ = ticks.tick().fuse() => (),
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [5, 6]);
    });
}

/// A branch that loses a `select!` loses no lock: the next in the queue has it.
#[test]
fn a_lost_branch_loses_nothing_in_any_schedule() {
    testing::check(scaled(100, 3) as u64, || async {
        let mutex = Arc::new(Mutex::new(0));
        let tasks: JoinSet<()> = (0..3)
            .map(|_| {
                let mutex = mutex.clone();
                async move {
                    loop {
                        select! {
                            mut guard = mutex.lock().fuse() => {
                                *guard += 1;
                                return;
                            }
                            () = sleep(MS).fuse() => (),
                        }
                    }
                }
            })
            .collect();
        tasks.join_all().await;
        assert_eq!(*mutex.lock().await, 3);
    });
}
