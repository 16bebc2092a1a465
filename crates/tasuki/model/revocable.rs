//! The mutex whose grants can be revoked until they are claimed: claim, cancel and unlock race with the futures of the same task that ask for the lock.
//!
//! Siblings, the futures of one task, have the same waker (the *alarm* of [`Task`]), by which the mutex knows them. A future that is *snoozed* is not polled, though it was woken.

use crate::support::{
    Task, at_rest, join, lock_and_sign, log_mutex, model, sign_and_unlock, spawn, try_and_sign,
};
use std::future::Future;
use tasuki::policy::Revocable;
use tasuki::{Condvar, MutexGuard};

/// Without the spin's side bytes, which only add branches.
type Plain = Revocable<false>;

/// The next poll that finds the same grant revokes it.
fn look_twice<F: Future>(asker: &mut Task<F>) {
    assert!(asker.poll().is_pending() && asker.poll().is_pending());
}

#[test]
fn three_lockers() {
    model(log_mutex::<Plain>, |mutex| {
        let threads = ['a', 'b'].map(|name| spawn(move || lock_and_sign(mutex, name)));
        lock_and_sign(mutex, 'm');
        join(threads);
        assert_eq!(at_rest(mutex).len(), 3);
    });
}

/// The grant is claimed on one thread while a sibling that has seen it asks again on another: one of both has the lock first, and both have it.
#[test]
fn a_claim_races_a_revocation() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let a = Task::waiting(mutex.lock());
        let mut b = Task::sibling(mutex.lock(), &a);
        sign_and_unlock(held, 'm');
        look_twice(&mut b);
        let claimer = spawn(move || a.run().sign('a'));
        b.run().sign('b');
        join([claimer]);
        let log = at_rest(mutex);
        assert!(log == "mab" || log == "mba", "{log}");
    });
}

/// The granted future is dropped while a sibling asks: by revocation or by the next grant, the sibling has the lock.
#[test]
fn a_cancel_races_a_revocation() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let a = Task::waiting(mutex.lock());
        let mut b = Task::sibling(mutex.lock(), &a);
        sign_and_unlock(held, 'm');
        look_twice(&mut b);
        let canceller = spawn(move || drop(a));
        b.run().sign('b');
        join([canceller]);
        assert_eq!(at_rest(mutex), "mb");
    });
}

/// The lock is granted to a snoozed future while its sibling runs, which may be queued behind it already.
fn unlock_against_sibling(is_queued: bool) {
    model(log_mutex::<Plain>, move |mutex| {
        let held = mutex.try_lock().unwrap();
        let a = Task::waiting(mutex.lock());
        let mut b = Task::sibling(mutex.lock(), &a);
        assert!(!is_queued || b.poll().is_pending());
        let unlocker = spawn(move || sign_and_unlock(held, 'm'));
        b.run().sign('b');
        a.run().sign('a');
        join([unlocker]);
        assert_eq!(at_rest(mutex), "mba");
    });
}

#[test]
fn an_unlock_races_a_sibling_in_the_queue() {
    unlock_against_sibling(true);
}

/// It comes while the lock is granted, or before, or after.
#[test]
fn an_unlock_races_a_sibling_that_comes() {
    unlock_against_sibling(false);
}

/// Two siblings ask for the grant of a third, which is snoozed.
#[test]
fn two_siblings_race() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let a = Task::waiting(mutex.lock());
        let [mut b, mut c] = [(); 2].map(|()| Task::sibling(mutex.lock(), &a));
        sign_and_unlock(held, 'm');
        [&mut b, &mut c].into_iter().for_each(look_twice);
        let thread = spawn(move || b.run().sign('b'));
        c.run().sign('c');
        join([thread]);
        a.run().sign('a');
        let log = at_rest(mutex);
        assert!(log == "mbca" || log == "mcba", "{log}");
    });
}

/// A revoked future comes back while its sibling releases the lock to a stranger.
#[test]
fn a_revoked_future_comes_back() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let a = Task::waiting(mutex.lock());
        let mut b = Task::sibling(mutex.lock(), &a);
        drop(held);
        look_twice(&mut b);
        let log = b.finish();
        let stranger = Task::waiting(mutex.lock());
        let threads = [spawn(move || a.run().sign('a')), spawn(move || stranger.run().sign('s'))];
        sign_and_unlock(log, 'b');
        join(threads);
        let log = at_rest(mutex);
        assert!(log == "bas" || log == "bsa", "{log}");
    });
}

/// A revoked future is dropped while its sibling releases the lock and another thread tries it: nothing waits for it.
#[test]
fn a_revoked_future_is_dropped() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let a = Task::waiting(mutex.lock());
        let mut b = Task::sibling(mutex.lock(), &a);
        drop(held);
        look_twice(&mut b);
        let log = b.finish();
        let threads = [
            spawn(move || {
                drop(a);
                false
            }),
            spawn(move || try_and_sign(mutex, 't')),
        ];
        sign_and_unlock(log, 'b');
        let tried = join(threads)[1];
        assert_eq!(at_rest(mutex), if tried { "bt" } else { "b" });
    });
}

/// The granted future gets another waker, so that it is the sibling of none, while the one that was asks.
#[test]
fn another_waker_races_a_revocation() {
    model(log_mutex::<Plain>, |mutex| {
        let held = mutex.try_lock().unwrap();
        let mut a = Task::waiting(mutex.lock());
        let mut b = Task::sibling(mutex.lock(), &a);
        sign_and_unlock(held, 'm');
        look_twice(&mut b);
        a.change_alarm();
        let claimer = spawn(move || a.run().sign('a'));
        b.run().sign('b');
        join([claimer]);
        let log = at_rest(mutex);
        assert!(log == "mab" || log == "mba", "{log}");
    });
}

/// A wait of a condvar is granted the mutex and claims it, while a lock of the same task asks for it.
#[test]
fn a_wait_of_a_condvar_races_a_revocation() {
    model(
        || (log_mutex::<Plain>(), Condvar::new()),
        |(mutex, condvar)| {
            let mut wait = Task::waiting(condvar.wait(mutex.try_lock().unwrap()));
            let held = mutex.try_lock().unwrap();
            condvar.notify_one();
            assert!(wait.poll().is_pending());
            let mut b = Task::sibling(mutex.lock(), &wait);
            assert!(b.poll().is_pending());
            held.sign('m');
            MutexGuard::unlock(held);
            look_twice(&mut b);
            let claimer = spawn(move || wait.run().sign('a'));
            b.run().sign('b');
            join([claimer]);
            let log = at_rest(mutex);
            assert!(log == "mab" || log == "mba", "{log}");
        },
    );
}

/// A task waits for a condvar and keeps a lock future, which is granted while another waiter moves what was notified: the task is woken, and takes the lock over.
#[test]
fn a_grant_of_its_task_races_the_move_of_a_wait() {
    model(
        || (log_mutex::<Plain>(), Condvar::new()),
        |(mutex, condvar)| {
            let wait = || condvar.wait(mutex.try_lock().unwrap());
            let (first, wait) = (Task::waiting(wait()), Task::waiting(wait()));
            let held = mutex.try_lock().unwrap();
            let mut kept = Task::sibling(mutex.lock(), &wait);
            assert!(kept.poll().is_pending());
            condvar.notify_all();
            let mover = spawn(move || first.run().sign('f'));
            sign_and_unlock(held, 'm');
            wait.run().sign('w');
            join([mover]);
            kept.run().sign('k');
            assert_eq!(at_rest(mutex), "mwfk");
        },
    );
}
