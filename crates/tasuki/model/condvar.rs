//! The condvar: no notification is lost, kept or doubled, wherever the waiter is when it is cancelled.

use crate::support::{Log, LogMutex, Task, at_rest, join, lock_and_sign, log_mutex, spawn};
use crate::versus::{Versus, race};
use std::sync::Arc;
use std::task::Poll;
use tasuki::future::WaitNotified;
use tasuki::policy::{Bypass, Fifo, Policy};
use tasuki::{CancellationSource, CancellationToken, Condvar, Mutex, MutexGuard, OwnedMutexGuard};

/// A condvar, its mutex, and what ends a wait.
struct Site<P: Policy = Fifo> {
    mutex: LogMutex<P>,
    condvar: Condvar,
    source: CancellationSource,
    token: CancellationToken,
}

fn site<P: Policy>() -> Site<P> {
    let source = CancellationSource::new();
    Site { mutex: log_mutex(), condvar: Condvar::new(), token: source.token(), source }
}

type Waits<P> = Task<WaitNotified<'static, &'static LogMutex<P>>>;

impl<P: Policy> Site<P> {
    fn lock(&self) -> MutexGuard<'_, Log, P> {
        self.mutex.try_lock().expect("no task holds it")
    }

    /// A waiter that is queued.
    fn waiting(&'static self) -> Waits<P> {
        Task::waiting(self.condvar.wait(self.lock()))
    }

    /// Signs, without waiting for the condvar, and notifies with or without the lock.
    fn sign_and_notify(&self, name: char, locked: bool) {
        let guard = Task::new(self.mutex.lock()).run();
        guard.sign(name);
        if locked {
            self.condvar.notify_one();
            drop(guard);
        } else {
            drop(guard);
            self.condvar.notify_one();
        }
    }

    fn at_rest(&self) -> String {
        at_rest(&self.mutex)
    }
}

/// B031: a wait that checks under the lock, and a notifier that changes under the lock: the change is seen, or the notification.
#[test]
fn a_notification_after_the_wait_is_not_missed() {
    race(site::<Fifo>, |site, versus| {
        let waiting = || {
            let guard = Task::new(site.mutex.lock()).run();
            let condition = |log: &mut Log| log.read().is_empty();
            let guard = Task::new(site.condvar.wait_while(guard, condition)).run();
            guard.sign('w');
        };
        versus.run(waiting, || site.sign_and_notify('n', false));
        assert_eq!(site.at_rest(), "nw");
    });
}

/// The same with the notification under the lock: the waiter is woken, and finds the mutex taken.
#[test]
fn a_notification_under_the_lock() {
    race(site::<Fifo>, |site, versus| {
        let waiter = site.waiting();
        versus.run(|| waiter.run().sign('w'), || site.sign_and_notify('n', true));
        assert_eq!(site.at_rest(), "nw");
    });
}

/// With `Bypass` the waiter is woken by the mutex too, and competes.
#[test]
fn a_notification_with_bypass() {
    race(site::<Bypass<1>>, |site, versus| {
        let waiter = site.waiting();
        let notifying = || {
            site.sign_and_notify('n', true);
            lock_and_sign(&site.mutex, 'm');
        };
        versus.run(|| waiter.run().sign('w'), notifying);
        let log = site.at_rest();
        assert!(["nwm", "nmw"].contains(&log.as_str()), "{log}");
    });
}

/// Each of two notifications wakes its waiter: the second does not wait for the first to run.
#[test]
fn the_second_of_two_runs_first() {
    race(site::<Fifo>, |site, versus| {
        let (a, b) = (site.waiting(), site.waiting());
        let waiting = || {
            b.run().sign('b');
            a.run().sign('a');
        };
        let notifying = || {
            site.condvar.notify_one();
            site.condvar.notify_one();
        };
        versus.run(waiting, notifying);
        assert_eq!(site.at_rest(), "ba");
    });
}

/// Two waiters, two notifications at once: each has one; a waiter that is woken moves the other.
#[test]
fn two_notifications_for_two() {
    race(site::<Fifo>, |site, versus| {
        let (a, b) = (site.waiting(), site.waiting());
        let waiting = || {
            a.run().sign('a');
            b.run().sign('b');
        };
        let notifying = || {
            site.condvar.notify_one();
            site.condvar.notify_one();
        };
        versus.run(waiting, notifying);
        assert_eq!(site.at_rest(), "ab");
    });
}

/// H2: the notified waiter is cancelled, while it is woken, moved or granted: the other waiter has the notification.
fn a_cancel_passes_on<P: Policy, const HELD: bool>(site: &'static Site<P>, versus: Versus) {
    let (mut a, b) = (site.waiting(), site.waiting());
    let held = HELD.then(|| site.lock());
    let notifying = move || {
        site.condvar.notify_one();
        drop(held);
    };
    let giving_up = move || {
        // A poll without a wake takes it to the mutex, if it is woken by then.
        if let Poll::Ready(guard) = a.poll() {
            guard.sign('a');
            drop(guard);
            site.condvar.notify_one();
        }
        drop(a);
        b.run().sign('b');
    };
    versus.run(notifying, giving_up);
    let log = site.at_rest();
    assert!(["b", "ab"].contains(&log.as_str()), "{log}");
}

#[test]
fn a_cancel_passes_on_with_a_free_mutex() {
    race(site::<Fifo>, a_cancel_passes_on::<Fifo, false>);
}

#[test]
fn a_cancel_passes_on_with_a_held_mutex() {
    race(site::<Fifo>, a_cancel_passes_on::<Fifo, true>);
}

#[test]
fn a_cancel_passes_on_with_bypass() {
    race(site::<Bypass<1>>, a_cancel_passes_on::<Bypass<1>, true>);
}

/// Notified and moved for sure, then dropped while the mutex is unlocked.
#[test]
fn a_moved_waiter_gives_up_during_the_unlock() {
    race(site::<Fifo>, |site, versus| {
        let (mut a, b) = (site.waiting(), site.waiting());
        let held = site.lock();
        site.condvar.notify_one();
        assert!(a.poll().is_pending(), "in the queue of the mutex");
        let giving_up = || {
            drop(a);
            b.run().sign('b');
        };
        versus.run(giving_up, || drop(held));
        assert_eq!(site.at_rest(), "b");
    });
}

/// Three are notified together, more than one step moves: the woken waiter moves the others, one of which is cancelled.
#[test]
fn the_mover_moves_the_others() {
    race(site::<Fifo>, |site, versus| {
        let [a, b, c, d] = [(); 4].map(|()| site.waiting());
        site.condvar.notify_all();
        let first = || {
            a.run().sign('a');
            b.run().sign('b');
        };
        let last = || {
            drop(c);
            d.run().sign('d');
        };
        versus.run(first, last);
        assert_eq!(site.at_rest(), "abd");
    });
}

/// A woken waiter is cancelled while another is polled and a third is notified: both are woken, and enqueue as they run.
#[test]
fn the_wake_is_passed_on() {
    race(site::<Fifo>, |site, versus| {
        let [a, b, c] = [(); 3].map(|()| site.waiting());
        site.condvar.notify_one();
        let giving_up = || {
            drop(a);
            b.run().sign('b');
        };
        let notifying = || {
            site.condvar.notify_one();
            c.run().sign('c');
        };
        versus.run(giving_up, notifying);
        let log = site.at_rest();
        assert!(["bc", "cb"].contains(&log.as_str()), "{log}");
    });
}

/// `notify_all` notifies the queued waiters and no more: a later waiter is not notified, and not by a cancel either.
#[test]
fn notify_all_notifies_the_waiters_of_its_moment() {
    race(site::<Fifo>, |site, versus| {
        let a = site.waiting();
        let late = move || {
            let guard = Task::new(site.mutex.lock()).run();
            let mut late = Task::new(site.condvar.wait(guard));
            assert!(late.poll().is_pending());
            late
        };
        let notifying = || {
            site.condvar.notify_all();
            drop(a);
        };
        let (mut late, ()) = versus.run(late, notifying);
        if let Poll::Ready(guard) = late.poll() {
            guard.sign('l');
        }
        drop(late);
        let log = site.at_rest();
        assert!(["", "l"].contains(&log.as_str()), "{log}");
    });
}

/// B035: a limit ends the wait at the moment of the notification: it comes back with the guard, or the notification is another's.
fn a_limit_races<const CANCEL_FIRST: bool>(site: &'static Site, versus: Versus) {
    let guard = site.lock();
    let mut a = Task::new(site.condvar.wait(guard).or_cancelled(&site.token));
    assert!(a.poll().is_pending());
    let b = site.waiting();
    let waiting = move || {
        if let Ok(guard) = a.run() {
            guard.sign('a');
            drop(guard);
            site.condvar.notify_one();
        }
        b.run().sign('b');
    };
    let ending = || {
        if CANCEL_FIRST {
            site.source.request_cancel();
        }
        site.condvar.notify_one();
        site.source.request_cancel();
    };
    versus.run(waiting, ending);
    let log = site.at_rest();
    assert!(["b", "ab"].contains(&log.as_str()), "{log}");
}

#[test]
fn a_limit_before_the_notification() {
    race(site, a_limit_races::<true>);
}

#[test]
fn a_limit_after_the_notification() {
    race(site, a_limit_races::<false>);
}

/// A poll with another waker, while the waiter is woken and moved.
#[test]
fn another_waker_races_the_wake() {
    race(site::<Fifo>, |site, versus| {
        let (a, mut b) = (site.waiting(), site.waiting());
        let notifying = || {
            site.condvar.notify_all();
            a.run().sign('a');
        };
        let polling = move || {
            b.change_alarm();
            b.run().sign('b');
        };
        versus.run(notifying, polling);
        assert_eq!(site.at_rest(), "ab");
    });
}

/// The woken waiter is polled with another waker at this moment.
#[test]
fn the_woken_changes_its_waker() {
    race(site::<Fifo>, |site, versus| {
        let (mut a, b) = (site.waiting(), site.waiting());
        let polling = move || {
            a.change_alarm();
            a.run().sign('a');
            b.run().sign('b');
        };
        versus.run(polling, || site.condvar.notify_all());
        assert_eq!(site.at_rest(), "ab");
    });
}

/// Two mutexes, one after the other: the waiter that is woken moves no other to a mutex that is not theirs.
#[test]
fn a_wake_is_for_one_mutex() {
    race(site::<Fifo>, |site, versus| {
        let a = site.waiting();
        site.condvar.notify_one();
        // No waiter is in the list any more, so another mutex may be used; `a` has been woken and not polled yet.
        let other: &'static Mutex<Log> = Box::leak(Box::new(Mutex::new(Log::new())));
        let b = Task::waiting(site.condvar.wait(other.try_lock().expect("no task holds it")));
        let notifying = || {
            site.condvar.notify_one();
            b.run().sign('b');
        };
        versus.run(|| a.run().sign('a'), notifying);
        assert_eq!((site.at_rest().as_str(), at_rest(other).as_str()), ("a", "b"));
    });
}

/// A thread blocks; the last owner of the mutex is its guard.
#[test]
fn a_thread_blocks_with_an_owned_guard() {
    loom::model(|| {
        let shared = Arc::new((Arc::new(Mutex::new(false)), Condvar::new()));
        let notifier = shared.clone();
        let other = spawn(move || {
            *Task::new(notifier.0.clone().lock_owned()).run() = true;
            notifier.1.notify_one();
        });
        let guard: OwnedMutexGuard<bool> = shared.0.clone().lock_owned().block();
        let guard = shared.1.wait_while(guard, |done| !*done).block();
        assert!(*guard);
        drop(guard);
        join([other]);
    });
}
