//! The mutex with `Bypass`: first come, first served, with a bounded number of exceptions.
//!
//! An unlock within the bound leaves the lock free and wakes the head, which then competes with newcomers. Each such unlock counts against the bound, whether or not a newcomer
//! takes the lock.

use crate::support::{
    LogMutex, Task, at_rest, join, lock_and_sign, log_mutex, model, sign_and_unlock, spawn, try_and_sign,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use tasuki::policy::Bypass;

#[test]
fn three_lockers_with_one_overtake() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let threads = ['a', 'b'].map(|name| spawn(move || lock_and_sign(mutex, name)));
        lock_and_sign(mutex, 'm');
        join(threads);
        assert_eq!(at_rest(mutex).len(), 3);
    });
}

#[test]
fn two_lockers_twice_with_two_overtakes() {
    model(log_mutex::<Bypass<2>>, |mutex| {
        let thread = spawn(move || (0..2).for_each(|_| lock_and_sign(mutex, 'a')));
        (0..2).for_each(|_| lock_and_sign(mutex, 'm'));
        join([thread]);
        assert_eq!(at_rest(mutex).len(), 4);
    });
}

/// The head, woken, finds the lock free and takes it: no other thread may ever come to unlock it.
#[test]
fn the_woken_head_takes_a_free_lock() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let head = Task::waiting(mutex.lock());
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        head.run().sign('a');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "ma");
    });
}

/// The head and a newcomer compete for a free lock; the loser gets it next.
#[test]
fn a_newcomer_races_the_woken_head() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let head = Task::waiting(mutex.lock());
        sign_and_unlock(held, 'm');
        assert_eq!(head.rings(), 1);
        let newcomer = spawn(move || try_and_sign(mutex, 't'));
        head.run().sign('a');
        let overtaken = join([newcomer])[0];
        let log = at_rest(mutex);
        assert!(if overtaken { log == "mta" || log == "mat" } else { log == "ma" }, "{log}");
    });
}

/// A woken head is cancelled while the lock is free: the next must be woken in its place.
#[test]
fn a_woken_head_is_cancelled_while_the_lock_is_free() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        sign_and_unlock(held, 'm');
        assert_eq!((a.rings(), b.rings()), (1, 0));
        let canceller = spawn(move || drop(a));
        b.run().sign('b');
        join([canceller]);
        assert_eq!(at_rest(mutex), "mb");
    });
}

#[test]
fn a_cancel_of_the_head_races_the_release() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        drop(a);
        b.run().sign('b');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "mb");
    });
}

#[test]
fn a_cancel_of_the_second_races_the_release() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b, c] = [(); 3].map(|()| Task::waiting(mutex.lock()));
        let threads = [spawn(move || sign_and_unlock(held, 'm')), spawn(move || drop(b))];
        a.run().sign('a');
        c.run().sign('c');
        join(threads);
        assert_eq!(at_rest(mutex), "mac");
    });
}

/// A woken head is cancelled while a newcomer unlocks: the next in line is not forgotten between the two.
#[test]
fn a_cancel_of_the_woken_head_races_the_unlock_of_a_newcomer() {
    model(log_mutex::<Bypass<2>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        drop(held);
        let newcomer = mutex.try_lock().expect("free");
        let unlocker = spawn(move || sign_and_unlock(newcomer, 't'));
        drop(a);
        b.run().sign('b');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "tb");
    });
}

/// The bound is used up while the head is woken and has not been polled: it is granted the lock all the same.
#[test]
fn the_baton_goes_to_a_woken_head() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        drop(held);
        let newcomer = mutex.try_lock().expect("free");
        let unlocker = spawn(move || sign_and_unlock(newcomer, 't'));
        a.run().sign('a');
        b.run().sign('b');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "tab");
    });
}

/// A woken head that finds the lock taken waits on while the newcomer unlocks: the newcomer either
/// leaves it woken or wakes it again.
#[test]
fn waiting_on_races_the_unlock_of_a_newcomer() {
    model(log_mutex::<Bypass<2>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let head = Task::waiting(mutex.lock());
        drop(held);
        let newcomer = mutex.try_lock().expect("free");
        let unlocker = spawn(move || sign_and_unlock(newcomer, 't'));
        head.run().sign('a');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "ta");
    });
}

/// What a newcomer did is seen by the next newcomer, when its unlock left the woken head as it was.
#[test]
fn a_newcomer_publishes_to_the_next_newcomer() {
    model(log_mutex::<Bypass<2>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let head = Task::waiting(mutex.lock());
        drop(held);
        let threads = ['t', 'u'].map(|name| spawn(move || try_and_sign(mutex, name)));
        let overtaken = join(threads).into_iter().filter(|got| *got).count();
        assert!(overtaken >= 1, "the head has not run yet, so the lock was free for one of them");
        head.run().sign('a');
        let log = at_rest(mutex);
        assert!(log.len() == overtaken + 1 && log.ends_with('a'), "{log}");
    });
}

/// Another waker of a waiter that is not the head changes nothing else, whatever the head does.
#[test]
fn another_waker_of_the_second_races_the_release() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, mut b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        let threads = [spawn(move || sign_and_unlock(held, 'm')), spawn(move || a.run().sign('a'))];
        b.change_alarm();
        b.run().sign('b');
        join(threads);
        assert_eq!(at_rest(mutex), "mab");
    });
}

/// The lock was just freed, and a new head woken: the overtakes of its predecessor do not count against it.
fn assert_free_for_one_more(mutex: &'static LogMutex<Bypass<1>>) {
    assert!(try_and_sign(mutex, 'u'), "the new head has not been overtaken yet");
    assert!(mutex.try_lock().is_none(), "and now it has");
}

#[test]
fn a_new_head_counts_from_zero_after_the_baton() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        drop(held);
        let newcomer = mutex.try_lock().expect("free");
        let unlocker = spawn(move || drop(newcomer));
        a.run().sign('a');
        join([unlocker]);
        assert_free_for_one_more(mutex);
        b.run().sign('b');
        assert_eq!(at_rest(mutex), "aub");
    });
}

#[test]
fn a_new_head_counts_from_zero_after_a_free_lock() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        let unlocker = spawn(move || drop(held));
        a.run().sign('a');
        join([unlocker]);
        assert_free_for_one_more(mutex);
        b.run().sign('b');
        assert_eq!(at_rest(mutex), "aub");
    });
}

/// Two newcomers try for a lock that is free, with its head woken; returns how many got it before the head.
fn overtakes<const N: u32>(mutex: &'static LogMutex<Bypass<N>>) -> usize {
    let held = mutex.try_lock().unwrap();
    let head = Task::waiting(mutex.lock());
    drop(held);
    let newcomers = ['t', 'u'].map(|name| {
        spawn(move || {
            for _ in 0..2 {
                try_and_sign(mutex, name);
            }
        })
    });
    head.run().sign('a');
    join(newcomers);
    at_rest(mutex).find('a').expect("the head had the lock")
}

/// The bound is kept in every execution, and reached in some.
#[test]
fn the_bound_of_one() {
    static WORST: AtomicUsize = AtomicUsize::new(0);
    model(log_mutex::<Bypass<1>>, |mutex| {
        let overtakes = overtakes(mutex);
        assert!(overtakes <= 1, "overtaken {overtakes} times");
        WORST.fetch_max(overtakes, Ordering::Relaxed);
    });
    assert_eq!(WORST.load(Ordering::Relaxed), 1);
}

#[test]
fn the_bound_of_two() {
    static WORST: AtomicUsize = AtomicUsize::new(0);
    model(log_mutex::<Bypass<2>>, |mutex| {
        let overtakes = overtakes(mutex);
        assert!(overtakes <= 2, "overtaken {overtakes} times");
        WORST.fetch_max(overtakes, Ordering::Relaxed);
    });
    assert_eq!(WORST.load(Ordering::Relaxed), 2);
}

/// A cancel that wakes the next head of a free lock counts as an unlock does.
#[test]
fn a_new_head_counts_its_own_wake_after_a_cancel() {
    model(log_mutex::<Bypass<1>>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let [a, b] = [(); 2].map(|()| Task::waiting(mutex.lock()));
        let unlocker = spawn(move || drop(held));
        drop(a);
        join([unlocker]);
        assert_free_for_one_more(mutex);
        b.run().sign('b');
        assert_eq!(at_rest(mutex), "ub");
    });
}
