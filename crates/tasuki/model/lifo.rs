//! The mutex, newest first.

use crate::support::{
    LogMutex, Task, at_rest, join, lock_and_sign, log_mutex, model, sign_and_unlock, spawn, try_and_sign,
};
use std::task::Poll;
use tasuki::policy::Lifo;

#[test]
fn three_lockers() {
    model(log_mutex::<Lifo>, |mutex| {
        let threads = ['a', 'b'].map(|name| spawn(move || lock_and_sign(mutex, name)));
        lock_and_sign(mutex, 'm');
        join(threads);
        assert_eq!(at_rest(mutex).len(), 3);
    });
}

#[test]
fn the_newest_is_served_first() {
    model(log_mutex::<Lifo>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b, c] = [(); 3].map(|()| Task::waiting(mutex.lock()));
        let threads = [spawn(move || a.run().sign('a')), spawn(move || b.run().sign('b'))];
        sign_and_unlock(held, 'm');
        c.run().sign('c');
        join(threads);
        assert_eq!(at_rest(mutex), "mcba");
    });
}

/// A newcomer before the unlock is granted the lock before an older waiter, one after it is not.
#[test]
fn a_newcomer_races_unlock() {
    model(log_mutex::<Lifo>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let older = Task::waiting(mutex.lock());
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        let mut newer = Task::new(mutex.lock());
        assert!(newer.poll().is_pending(), "the older waiter has not run yet");
        let older = spawn(move || older.run().sign('a'));
        newer.run().sign('b');
        join([unlocker, older]);
        assert!(["mab", "mba"].contains(&at_rest(mutex).as_str()));
    });
}

/// As in the models of the first-come order, from the other end.
fn cancel_races_unlock(mutex: &'static LogMutex<Lifo>, waiters: &str, cancelled: usize) {
    let held = mutex.try_lock().unwrap();
    let mut tasks: Vec<_> = waiters.chars().map(|name| (name, Task::waiting(mutex.lock()))).collect();
    let (gone, given_up) = tasks.remove(cancelled);
    let unlocker = spawn(move || sign_and_unlock(held, 'm'));
    let canceller = spawn(move || drop(given_up));
    for (name, task) in tasks.into_iter().rev() {
        task.run().sign(name);
    }
    join([unlocker, canceller]);
    let newest_first: String = waiters.chars().rev().filter(|name| *name != gone).collect();
    assert_eq!(at_rest(mutex), format!("m{newest_first}"));
}

#[test]
fn cancel_of_the_newest_races_unlock() {
    model(log_mutex, |mutex| cancel_races_unlock(mutex, "abc", 2));
}

#[test]
fn cancel_of_the_middle_races_unlock() {
    model(log_mutex, |mutex| cancel_races_unlock(mutex, "abc", 1));
}

#[test]
fn cancel_of_the_oldest_races_unlock() {
    model(log_mutex, |mutex| cancel_races_unlock(mutex, "abc", 0));
}

#[test]
fn a_granted_future_is_dropped_on_another_thread() {
    model(log_mutex::<Lifo>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        sign_and_unlock(held, 'm');
        assert_eq!((a.rings(), b.rings()), (0, 1));
        let dropper = spawn(move || drop(b));
        a.run().sign('a');
        join([dropper]);
        assert_eq!(at_rest(mutex), "ma");
    });
}

#[test]
fn try_lock_never_passes_the_queue() {
    model(log_mutex::<Lifo>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        assert!(!try_and_sign(mutex, 't'), "the waiters have not run yet");
        join([unlocker]);
        b.run().sign('b');
        a.run().sign('a');
        assert_eq!(at_rest(mutex), "mba");
    });
}

#[test]
fn another_waker_races_the_grant() {
    model(log_mutex::<Lifo>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, mut b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        b.change_alarm();
        match b.poll() {
            Poll::Ready(log) => log.sign('b'),
            Poll::Pending => b.finish().sign('b'),
        }
        a.run().sign('a');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "mba");
    });
}
