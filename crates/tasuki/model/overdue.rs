//! Grants that a task does not claim (`Revocable`, `lock_owned`): the end of a poll, which revokes them, races the grant, the claim on another thread, the cancel, and the other waiters.
//!
//! The task is that of [`task::identify`]; the ends of its further polls are told by hand.

use crate::support::{Log, Task, at_rest, join, log_mutex, model, sign_and_unlock, spawn, try_and_sign};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tasuki::policy::Revocable;
use tasuki::runtime::{TaskId, poll_ended, task_ended};
use tasuki::{Condvar, Mutex, future, task};

/// Without the spin's side bytes, which only add branches.
type Plain = Revocable<false>;
type Shared = Arc<Mutex<Log, Plain>>;
type Lock = future::LockOwned<Log, Plain>;

fn shared() -> Shared {
    Arc::new(log_mutex())
}

/// A future of the lock that was polled once, by a task of its own, which is its number.
fn kept(mutex: &Shared) -> (Task<Lock>, TaskId) {
    let mut kept = Task::new(mutex.clone().lock_owned());
    let mut task = pin!(task::identify(std::future::poll_fn(|_| {
        assert!(kept.poll().is_pending());
        Poll::<()>::Pending
    })));
    let id = task.id();
    assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    (kept, id)
}

/// The task has ended a poll, in which it has not polled what it keeps.
fn poll_of(task: TaskId) {
    poll_ended(task, Waker::noop());
}

/// The grant is claimed on another thread while a poll of the task ends that leaves it unclaimed; another task waits.
#[test]
fn the_end_of_a_poll_races_a_claim() {
    model(shared, |mutex| {
        let held = mutex.try_lock().unwrap();
        let (a, id) = kept(mutex);
        let b = Task::waiting(mutex.lock());
        sign_and_unlock(held, 'm');
        poll_of(id);
        let claimer = spawn(move || a.run().sign('a'));
        poll_of(id);
        b.run().sign('b');
        join([claimer]);
        let log = at_rest(mutex);
        assert!(log == "mab" || log == "mba", "{log}");
    });
}

/// The granted future is dropped, with its hold on the mutex.
#[test]
fn the_end_of_a_poll_races_a_cancel() {
    model(shared, |mutex| {
        let held = mutex.try_lock().unwrap();
        let (a, id) = kept(mutex);
        let b = Task::waiting(mutex.lock());
        drop(held);
        poll_of(id);
        let canceller = spawn(move || drop(a));
        poll_of(id);
        b.run().sign('b');
        join([canceller]);
        assert_eq!(at_rest(mutex), "b");
    });
}

/// The task ends, while the future that it has left behind is claimed on another thread: what is revoked competes again.
#[test]
fn the_end_of_a_task_races_a_claim() {
    model(shared, |mutex| {
        let held = mutex.try_lock().unwrap();
        let (a, id) = kept(mutex);
        let b = Task::waiting(mutex.lock());
        sign_and_unlock(held, 'm');
        let claimer = spawn(move || a.run().sign('a'));
        task_ended(id);
        b.run().sign('b');
        join([claimer]);
        let log = at_rest(mutex);
        assert!(log == "mab" || log == "mba", "{log}");
    });
}

/// The task ends, while the future that it has left behind is dropped, with its hold on the mutex.
#[test]
fn the_end_of_a_task_races_a_cancel() {
    model(shared, |mutex| {
        let held = mutex.try_lock().unwrap();
        let (a, id) = kept(mutex);
        let b = Task::waiting(mutex.lock());
        drop(held);
        let canceller = spawn(move || drop(a));
        task_ended(id);
        b.run().sign('b');
        join([canceller]);
        assert_eq!(at_rest(mutex), "b");
    });
}

/// The unlock that grants: polls of the task that it wakes end behind it, and earlier ones may miss it.
#[test]
fn the_end_of_a_poll_races_the_grant() {
    model(shared, |mutex| {
        let held = mutex.try_lock().unwrap();
        let (a, id) = kept(mutex);
        let b = Task::waiting(mutex.lock());
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        poll_of(id);
        poll_of(id);
        join([unlocker]);
        // What the wake causes, and the wake of the first look.
        poll_of(id);
        poll_of(id);
        b.run().sign('b');
        a.run().sign('a');
        assert_eq!(at_rest(mutex), "mba");
    });
}

/// Two tasks keep a future of the lock each, and end their polls on two threads: the second is granted by the end of the first one's poll.
#[test]
fn two_tasks_end_their_polls() {
    model(shared, |mutex| {
        let held = mutex.try_lock().unwrap();
        let ((a, first), (b, second)) = (kept(mutex), kept(mutex));
        drop(held);
        poll_of(first);
        let thread = spawn(move || poll_of(second));
        poll_of(first);
        join([thread]);
        poll_of(second);
        poll_of(second);
        assert!(try_and_sign(mutex, 't'), "neither has claimed");
        a.run().sign('a');
        b.run().sign('b');
        assert_eq!(at_rest(mutex), "tab");
    });
}

/// Two locks of one task, in one chain: one grant is claimed while the other is revoked.
#[test]
fn two_locks_of_one_task() {
    model(
        || [shared(), shared()],
        |[one, two]| {
            let held = [one, two].map(|mutex| mutex.try_lock().unwrap());
            let mut kept = [one, two].map(|mutex| Task::new(mutex.clone().lock_owned()));
            let mut task = Box::pin(task::identify(std::future::poll_fn(|_| {
                kept.iter_mut().for_each(|kept| assert!(kept.poll().is_pending()));
                Poll::<()>::Pending
            })));
            let id = task.id();
            assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop((task, held));
            poll_of(id);
            let [a, b] = kept;
            let claimer = spawn(move || a.run().sign('a'));
            poll_of(id);
            join([claimer]);
            assert!(try_and_sign(two, 't'));
            b.run().sign('b');
            assert_eq!((at_rest(one), at_rest(two)), ("a".into(), "tb".into()));
        },
    );
}

/// A wait of a condvar that another waiter moves to the mutex's queue, and unlocks for: it is granted there without having been polled, and the ends of polls of its task revoke it.
#[test]
fn a_wait_that_another_has_moved() {
    model(
        || (shared(), Condvar::new()),
        |(mutex, condvar)| {
            let wait = || condvar.wait(mutex.clone().try_lock_owned().unwrap());
            let first = Task::waiting(wait());
            let mut moved = Task::new(wait());
            let mut task = Box::pin(task::identify(std::future::poll_fn(|_| {
                assert!(moved.poll().is_pending());
                Poll::<()>::Pending
            })));
            let id = task.id();
            assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop(task);
            condvar.notify_all();
            let mover = spawn(move || first.run().sign('m'));
            poll_of(id);
            poll_of(id);
            join([mover]);
            // What the wake causes, and the wake of the first look.
            poll_of(id);
            poll_of(id);
            assert!(try_and_sign(mutex, 't'), "it has not claimed");
            moved.run().sign('a');
            assert_eq!(at_rest(mutex), "mta");
        },
    );
}

/// What was revoked is dropped, which locks the queue, while another task tries the lock: it is free all the time.
#[test]
fn the_drop_of_a_revoked_future_races_a_try() {
    model(shared, |mutex| {
        let held = mutex.try_lock().unwrap();
        let (a, id) = kept(mutex);
        drop(held);
        task_ended(id);
        let dropper = spawn(move || drop(a));
        assert!(try_and_sign(mutex, 't'));
        join([dropper]);
        assert_eq!(at_rest(mutex), "t");
    });
}
