//! The re-entrant mutex: owner, depth, and guards that leave by another thread.

use crate::support::{Data, Task, join, model, spawn};
use tasuki::ReentrantMutex;
use tasuki::task::identify;

fn mutex() -> ReentrantMutex<Data> {
    ReentrantMutex::new(Data::new())
}

/// At the end it is free, and everything that was done under it is seen.
fn at_rest(mutex: &'static ReentrantMutex<Data>) -> usize {
    Task::new(identify(async { mutex.try_lock().unwrap().expect("free").get() })).run()
}

/// Locks twice, and changes the data at each depth.
async fn twice(mutex: &'static ReentrantMutex<Data>) {
    let outer = mutex.lock().await.unwrap();
    outer.add(1);
    let inner = mutex.lock().await.unwrap();
    inner.add(1);
    drop(outer);
    inner.add(1);
}

/// Two tasks exclude each other, at every depth.
#[test]
fn two_tasks_exclude_each_other() {
    model(mutex, |mutex| {
        let other = spawn(move || Task::new(identify(twice(mutex))).run());
        Task::new(identify(twice(mutex))).run();
        join([other]);
        assert_eq!(at_rest(mutex), 6);
    });
}

/// The last guard is dropped by another thread, while the task locks again: a stale look at the owner.
#[test]
fn the_last_guard_leaves_elsewhere_while_the_owner_returns() {
    model(mutex, |mutex| {
        let mut thread = None;
        Task::new(identify(async {
            let guard = mutex.lock().await.unwrap();
            guard.add(1);
            thread = Some(spawn(move || drop(guard)));
            let again = mutex.lock().await.unwrap();
            again.add(1);
        }))
        .run();
        join(thread);
        assert_eq!(at_rest(mutex), 2);
    });
}

/// The same, with another task that gets the lock in between: its depth may be raised by mistake, and must come back.
#[test]
fn another_owner_comes_between() {
    model(mutex, |mutex| {
        let mut thread = None;
        Task::new(identify(async {
            let guard = mutex.lock().await.unwrap();
            guard.add(1);
            thread = Some(spawn(move || {
                drop(guard);
                Task::new(identify(async { mutex.lock().await.unwrap().add(1) })).run();
            }));
            mutex.lock().await.unwrap().add(1);
        }))
        .run();
        join(thread);
        assert_eq!(at_rest(mutex), 3);
    });
}

/// Two guards of one task leave on two threads; the last one unlocks, and the next task sees both.
#[test]
fn two_guards_leave_on_two_threads() {
    model(mutex, |mutex| {
        let mut thread = None;
        Task::new(identify(async {
            let first = mutex.lock().await.unwrap();
            let second = mutex.lock().await.unwrap();
            first.add(1);
            thread = Some(spawn(move || drop(first)));
            drop(second);
        }))
        .run();
        Task::new(identify(async { mutex.lock().await.unwrap().add(1) })).run();
        join(thread);
        assert_eq!(at_rest(mutex), 2);
    });
}

/// A queued task is cancelled while the owner leaves.
#[test]
fn a_cancel_races_the_last_guard() {
    model(mutex, |mutex| {
        let mut thread = None;
        let mut waiting = None;
        Task::new(identify(async {
            let outer = mutex.lock().await.unwrap();
            let inner = mutex.lock().await.unwrap();
            waiting = Some(Task::waiting(identify(async { drop(mutex.lock().await) })));
            drop(outer);
            thread = Some(spawn(move || drop(inner)));
        }))
        .run();
        drop(waiting);
        join(thread);
        assert_eq!(at_rest(mutex), 0);
    });
}

/// A queued branch finds that another branch of its task has got the lock meanwhile.
#[test]
fn a_branch_joins_its_task_while_the_holder_leaves() {
    model(mutex, |mutex| {
        let mut held = None;
        Task::new(identify(async { held = Some(mutex.lock().await.unwrap()) })).run();
        let mut branches = Task::waiting(identify(async {
            let mut first = Box::pin(mutex.lock());
            let mut second = Box::pin(mutex.lock());
            let (mut one, mut two) = (None, None);
            std::future::poll_fn(|cx| {
                for (wait, guard) in [(&mut first, &mut one), (&mut second, &mut two)] {
                    if guard.is_none() {
                        if let std::task::Poll::Ready(got) = wait.as_mut().poll(cx) {
                            *guard = Some(got.unwrap());
                        }
                    }
                }
                if one.is_some() && two.is_some() {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
            one.unwrap().add(1);
            two.unwrap().add(1);
        }));
        let holder = spawn(move || drop(held));
        branches.finish();
        drop(branches);
        join([holder]);
        assert_eq!(at_rest(mutex), 2);
    });
}

/// The lock is granted to one branch, and the other, which the first then waits for, is polled before it.
#[test]
fn a_branch_is_polled_before_the_one_that_was_granted() {
    model(mutex, |mutex| {
        let mut held = None;
        Task::new(identify(async { held = Some(mutex.lock().await.unwrap()) })).run();
        let mut branches = Task::waiting(identify(async {
            let mut granted = Box::pin(mutex.lock());
            let mut early = Box::pin(mutex.lock());
            let (mut first, mut second) = (None, None);
            let mut is_queued = false;
            std::future::poll_fn(|cx| {
                // In the order of the queue at first, against it from then on.
                for turn in if is_queued { [1, 0] } else { [0, 1] } {
                    let (wait, guard) =
                        if turn == 0 { (&mut granted, &mut first) } else { (&mut early, &mut second) };
                    if guard.is_none() {
                        if let std::task::Poll::Ready(got) = wait.as_mut().poll(cx) {
                            *guard = Some(got.unwrap());
                        }
                    }
                }
                is_queued = true;
                if first.is_some() && second.is_some() {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
            first.unwrap().add(1);
            second.unwrap().add(1);
        }));
        let holder = spawn(move || drop(held));
        branches.finish();
        drop(branches);
        join([holder]);
        assert_eq!(at_rest(mutex), 2);
    });
}
