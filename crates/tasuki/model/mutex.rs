//! The mutex, first come, first served.

use crate::support::{
    Data, LogMutex, Task, at_rest, join, lock_and_sign, log_mutex, model, sign_and_unlock, spawn,
    try_and_sign,
};
use loom::alloc::Track;
use std::sync::Arc;
use std::task::Poll;
use tasuki::policy::Fifo;
use tasuki::{Mutex, MutexGuard};

/// Without the spin's side bytes, which only add branches.
type Plain = Fifo<false>;

#[test]
fn three_lockers() {
    model(log_mutex::<Plain>, |mutex| {
        let threads = ['a', 'b'].map(|name| spawn(move || lock_and_sign(mutex, name)));
        lock_and_sign(mutex, 'm');
        join(threads);
        assert_eq!(at_rest(mutex).len(), 3);
    });
}

#[test]
fn two_lockers_twice_with_the_spin() {
    model(log_mutex::<Fifo>, |mutex| {
        let thread = spawn(move || (0..2).for_each(|_| lock_and_sign(mutex, 'a')));
        (0..2).for_each(|_| lock_and_sign(mutex, 'm'));
        join([thread]);
        assert_eq!(at_rest(mutex).len(), 4);
    });
}

/// The lock is held, `waiters` wait in this order, and the one at `cancelled` is cancelled while the lock is passed
/// down the queue. All others are granted it, in order.
fn cancel_races_unlock(mutex: &'static LogMutex<Plain>, waiters: &str, cancelled: usize) {
    let held = mutex.try_lock().unwrap();
    let mut tasks: Vec<_> = waiters.chars().map(|name| (name, Task::waiting(mutex.lock()))).collect();
    let (gone, given_up) = tasks.remove(cancelled);
    let unlocker = spawn(move || sign_and_unlock(held, 'm'));
    let canceller = spawn(move || drop(given_up));
    for (name, task) in tasks {
        task.run().sign(name);
    }
    join([unlocker, canceller]);
    assert_eq!(at_rest(mutex), format!("m{waiters}").replace(gone, ""));
}

#[test]
fn cancel_of_the_head_races_unlock() {
    model(log_mutex, |mutex| cancel_races_unlock(mutex, "abc", 0));
}

#[test]
fn cancel_of_the_middle_races_unlock() {
    model(log_mutex, |mutex| cancel_races_unlock(mutex, "abc", 1));
}

#[test]
fn cancel_of_the_tail_races_unlock() {
    model(log_mutex, |mutex| cancel_races_unlock(mutex, "abc", 2));
}

#[test]
fn cancels_of_two_neighbours_race() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b, c] = [(); 3].map(|()| Task::waiting(mutex.lock()));
        let canceller = spawn(move || drop(a));
        drop(b);
        drop(held);
        c.run().sign('c');
        join([canceller]);
        assert_eq!(at_rest(mutex), "c");
    });
}

/// The only waiter is cancelled while it is being granted the lock: granted or not, the lock is free in the end.
#[test]
fn cancel_at_the_border_of_waiting_and_notified() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let only = Task::waiting(mutex.lock());
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        drop(only);
        let got = try_and_sign(mutex, 't');
        join([unlocker]);
        assert_eq!(at_rest(mutex), if got { "mt" } else { "m" });
    });
}

/// What the owner did is seen by the next holder, also when the unlock had to go round a cancel.
#[test]
fn an_unlock_that_meets_an_edit_publishes() {
    model(log_mutex::<Plain>, |mutex| {
        let canceller = spawn(move || {
            // May take the lock, enqueue and be cancelled, or do so in the midst of the unlock.
            let mut task = Task::new(mutex.lock());
            match task.poll() {
                Poll::Ready(log) => log.sign('a'),
                Poll::Pending => drop(task),
            }
            usize::from(try_and_sign(mutex, 't'))
        });
        lock_and_sign(mutex, 'm');
        let tried = join([canceller])[0];
        let log = at_rest(mutex);
        assert_eq!(log.matches('t').count(), tried);
        assert_eq!(log.matches('m').count(), 1);
    });
}

#[test]
fn a_granted_future_is_dropped_on_another_thread() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        sign_and_unlock(held, 'm');
        assert_eq!(a.rings(), 1);
        let dropper = spawn(move || drop(a));
        b.run().sign('b');
        join([dropper]);
        assert_eq!(at_rest(mutex), "mb");
    });
}

/// From the poll with another waker on, only that one counts.
#[test]
fn another_waker_races_the_grant() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let mut task = Task::waiting(mutex.lock());
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        task.change_alarm();
        task.run().sign('a');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "ma");
    });
}

/// The grant is seen by a poll without a wake; the future is gone before the wake-up is sent.
#[test]
fn a_poll_races_the_grant() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let mut task = Task::waiting(mutex.lock());
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        let log = match task.poll() {
            Poll::Ready(log) => log,
            Poll::Pending => task.finish(),
        };
        drop(task);
        sign_and_unlock(log, 'a');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "ma");
    });
}

#[test]
fn try_lock_never_passes_the_queue() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let task = Task::waiting(mutex.lock());
        let threads = [
            spawn(move || {
                sign_and_unlock(held, 'm');
                false
            }),
            spawn(move || try_and_sign(mutex, 't')),
        ];
        assert!(!try_and_sign(mutex, 't'), "the waiter has not run yet");
        assert_eq!(join(threads), [false, false]);
        task.run().sign('a');
        assert_eq!(at_rest(mutex), "ma");
    });
}

#[test]
fn try_lock_races_lock_and_unlock() {
    model(log_mutex::<Fifo>, |mutex| {
        let threads = [
            spawn(move || {
                lock_and_sign(mutex, 'a');
                true
            }),
            spawn(move || try_and_sign(mutex, 't')),
        ];
        let mine = usize::from(try_and_sign(mutex, 'm'));
        let tried = usize::from(join(threads)[1]);
        let log = at_rest(mutex);
        assert_eq!(log.len(), 1 + mine + tried);
        assert_eq!(log.matches('a').count(), 1);
    });
}

#[test]
fn try_lock_races_cancel_and_unlock() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let task = Task::waiting(mutex.lock());
        let threads = [
            spawn(move || {
                drop(task);
                false
            }),
            spawn(move || try_and_sign(mutex, 't')),
        ];
        sign_and_unlock(held, 'm');
        let tried = join(threads)[1];
        assert_eq!(at_rest(mutex), if tried { "mt" } else { "m" });
    });
}

/// The mutex goes with its last guard or future, whichever thread has it, and is not touched after.
#[test]
fn the_last_owner_frees_the_mutex() {
    model(
        || (),
        |()| {
            let mutex = Arc::new(Mutex::<_, Plain>::with_policy(Track::new(Data::new())));
            let watch = Arc::downgrade(&mutex);
            let held = mutex.clone().try_lock_owned().unwrap();
            let [a, b] = [(); 2].map(|()| Task::waiting(mutex.clone().lock_owned()));
            drop(mutex);
            let threads = [
                spawn(move || {
                    held.get_ref().add(1);
                    drop(held);
                }),
                spawn(move || drop(a)),
            ];
            let value = b.run();
            value.get_ref().add(1);
            assert_eq!(value.get_ref().get(), 2);
            drop(value);
            join(threads);
            assert_eq!(watch.strong_count(), 0);
        },
    );
}

/// A hand-off yields exactly if it found a waiter, and that one runs without further help.
#[test]
fn hand_off_races_a_newcomer() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let newcomer = spawn(move || {
            let mut task = Task::new(mutex.lock());
            let poll = task.poll();
            let queued = poll.is_pending();
            let log = match poll {
                Poll::Ready(log) => log,
                Poll::Pending => task.finish(),
            };
            log.sign('a');
            queued
        });
        held.sign('m');
        let mut hand_off = Task::new(MutexGuard::hand_off(held));
        let yielded = hand_off.poll().is_pending();
        if yielded {
            assert_eq!(hand_off.rings(), 1);
            assert!(hand_off.poll().is_ready());
        }
        assert_eq!(join([newcomer]), [yielded]);
        assert_eq!(at_rest(mutex), "ma");
    });
}

/// A thread that blocks stands in the same queue as tasks.
#[test]
fn a_thread_and_a_task_in_one_queue() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let first = Task::waiting(mutex.lock());
        let thread = spawn(move || mutex.lock().block().sign('b'));
        drop(held);
        first.run().sign('a');
        join([thread]);
        assert_eq!(at_rest(mutex), "ab");
    });
}

#[test]
fn two_threads_block() {
    model(log_mutex::<Plain>, |mutex| {
        let thread = spawn(move || mutex.lock().block().sign('a'));
        mutex.lock().block().sign('m');
        join([thread]);
        assert_eq!(at_rest(mutex).len(), 2);
    });
}

/// Two newcomers enter the queue while the lock is passed on; no waiter is lost and none is granted it twice.
#[test]
fn newcomers_race_the_pass() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let first = Task::waiting(mutex.lock());
        let threads = [spawn(move || lock_and_sign(mutex, 'b')), spawn(move || first.run().sign('a'))];
        sign_and_unlock(held, 'm');
        join(threads);
        assert_eq!(at_rest(mutex), "mab");
    });
}
