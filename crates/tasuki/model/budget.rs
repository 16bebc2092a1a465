//! The budget, exhausted on both sides: every first poll yields with nothing touched, or enqueues. Whatever the other side does between
//! the look and the queue, no wake-up is lost, and every lock or permit that was released is taken.
//!
//! The threads of a model share the thread-locals, so the driver is installed around both sides.

use crate::support::{Data, LogMutex, Task, at_rest, lock_and_sign, log_mutex};
use crate::versus::{Versus, race};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tasuki::policy::{Bypass, Fifo, Lifo, Policy};
use tasuki::runtime::{self, Driver, TaskId, Timers};
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, OnceCell, RwLock, RwLockUpgradableReadGuard,
    Semaphore,
};

/// A runtime that gives a budget, with a wheel and a clock that stands still.
struct Strict {
    timers: Arc<Timers>,
    now: Instant,
}

impl Driver for Strict {
    fn task(&self) -> Option<TaskId> {
        None
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        Some(self.timers.clone())
    }

    fn may_block(&self) -> bool {
        true
    }

    fn now(&self) -> Instant {
        self.now
    }
}

/// Runs with the budget exhausted from the beginning; it is never renewed.
fn exhausted<R>(f: impl FnOnce() -> R) -> R {
    let timers = Arc::new(Timers::new(std::task::Waker::noop().clone()));
    runtime::enter(&Strict { timers, now: Instant::now() }, || {
        runtime::set_budget(0);
        f()
    })
}

/// The unlock comes before the look, between the look and the queue, or after.
fn unlock<P: Policy>(mutex: &'static LogMutex<P>, versus: Versus) {
    let held = mutex.try_lock().expect("free at first");
    exhausted(|| versus.run(|| lock_and_sign(mutex, 'l'), || drop(held)));
    assert_eq!(at_rest(mutex), "l");
}

#[test]
fn a_lock_races_the_unlock() {
    race(log_mutex::<Fifo>, unlock::<Fifo>);
    race(log_mutex::<Lifo>, unlock::<Lifo>);
    race(log_mutex::<Bypass<1>>, unlock::<Bypass<1>>);
}

/// Two that find it free: each yields once, and has it in turn.
#[test]
fn two_find_it_free() {
    race(log_mutex::<Fifo>, |mutex, versus| {
        exhausted(|| versus.run(|| lock_and_sign(mutex, 'l'), || lock_and_sign(mutex, 'r')));
        let log = at_rest(mutex);
        assert!(["lr", "rl"].contains(&log.as_str()), "{log}");
    });
}

/// One that is in the queue before the unlock is granted the lock before one that comes with a budget after it.
#[test]
fn a_place_in_the_queue_is_kept() {
    race(log_mutex::<Fifo>, |mutex, versus| {
        let held = mutex.try_lock().expect("free at first");
        let first = exhausted(|| Task::waiting(mutex.lock()));
        let second = || lock_and_sign(mutex, 's');
        versus.run(
            move || first.run().sign('f'),
            move || {
                drop(held);
                second();
            },
        );
        assert_eq!(at_rest(mutex), "fs");
    });
}

#[test]
fn an_acquisition_races_the_release() {
    race(
        || Semaphore::new(1),
        |semaphore, versus| {
            let held = semaphore.try_acquire().expect("free at first");
            let acquire = || drop(Task::new(semaphore.acquire()).run().expect("not closed"));
            exhausted(|| versus.run(acquire, || drop(held)));
            assert_eq!(semaphore.available_permits(), 1);
        },
    );
    race(
        || Semaphore::<Bypass<1>>::with_policy(1),
        |semaphore, versus| {
            let held = semaphore.try_acquire().expect("free at first");
            let front = Task::waiting(semaphore.acquire());
            // The newcomer yields, waits, or overtakes; the front is polled before it is waited for.
            let behind = move || {
                let mut newcomer = Task::new(semaphore.acquire());
                let overtook = newcomer.poll().map(drop).is_ready();
                drop(front.run().expect("not closed"));
                if !overtook {
                    drop(newcomer.run().expect("not closed"));
                }
            };
            exhausted(|| versus.run(behind, || drop(held)));
            assert_eq!(semaphore.available_permits(), 1);
        },
    );
}

#[test]
fn an_acquisition_races_the_close() {
    race(
        || Semaphore::new(0),
        |semaphore, versus| {
            let acquire = || Task::new(semaphore.acquire()).run().is_err();
            let (closed, _) = exhausted(|| versus.run(acquire, || semaphore.close()));
            assert!(closed);
        },
    );
}

#[test]
fn a_wait_races_the_signal() {
    race(
        || (Event::auto(), Data::new()),
        |(event, data), versus| {
            let waiting = || {
                Task::new(event.wait()).run();
                assert_eq!(data.get(), 1);
            };
            let setting = || {
                data.add(1);
                event.set();
            };
            exhausted(|| versus.run(waiting, setting));
            assert!(!event.is_set());
        },
    );
    race(
        || (Latch::new(1), Data::new()),
        |(latch, data), versus| {
            let waiting = || {
                Task::new(latch.wait()).run();
                assert_eq!(data.get(), 1);
            };
            let counting = || {
                data.add(1);
                latch.count_down();
            };
            exhausted(|| versus.run(waiting, counting));
        },
    );
}

#[test]
fn a_writer_races_the_last_reader() {
    race(
        || RwLock::new(Data::new()),
        |lock, versus| {
            let reader = lock.try_read().expect("free at first");
            exhausted(|| versus.run(|| Task::new(lock.write()).run().add(1), || drop(reader)));
            assert_eq!(lock.try_write().expect("the lock was lost").get(), 1);
        },
    );
    race(
        || RwLock::new(Data::new()),
        |lock, versus| {
            let reader = lock.try_read().expect("free at first");
            let upgradable = lock.try_upgradable_read().expect("free at first");
            let upgrade = || Task::new(RwLockUpgradableReadGuard::upgrade(upgradable)).run().add(1);
            exhausted(|| versus.run(upgrade, || drop(reader)));
            assert_eq!(lock.try_write().expect("the lock was lost").get(), 1);
        },
    );
}

/// Both look before they arrive, and one of them leads.
#[test]
fn both_parties_yield_or_wait() {
    race(
        || Barrier::new(2),
        |barrier, versus| {
            let arrive = || Task::new(barrier.arrive_and_wait()).run().is_leader();
            let (left, right) = exhausted(|| versus.run(arrive, arrive));
            assert_ne!(left, right);
        },
    );
}

#[test]
fn a_value_is_made_once() {
    race(OnceCell::new, |cell: &OnceCell<Data>, versus| {
        let get = || Task::new(cell.get_or_init(async || Data::new())).run().get();
        assert_eq!(exhausted(|| versus.run(get, get)), (0, 0));
    });
}

/// A condition becomes false before the wait, or is announced to it.
#[test]
fn a_condition_races_the_notification() {
    race(
        || (log_mutex::<Fifo>(), Condvar::new()),
        |(mutex, condvar), versus| {
            let waiting = || {
                let guard = Task::new(mutex.lock()).run();
                let guard = Task::new(condvar.wait_while(guard, |log| log.read().is_empty())).run();
                guard.sign('w');
            };
            let notifying = || {
                lock_and_sign(mutex, 'n');
                condvar.notify_one();
            };
            exhausted(|| versus.run(waiting, notifying));
            assert_eq!(at_rest(mutex), "nw");
        },
    );
}

/// No time at all: the lock is had if it is free at the second look, and is not lost otherwise.
#[test]
fn no_time_races_the_unlock() {
    race(log_mutex::<Fifo>, |mutex, versus| {
        let held = mutex.try_lock().expect("free at first");
        let lock = || Task::new(mutex.lock().timeout(Duration::ZERO)).run().map(|log| log.sign('l')).is_ok();
        let (had, ()) = exhausted(|| versus.run(lock, || drop(held)));
        assert_eq!(at_rest(mutex), if had { "l" } else { "" });
    });
}

/// A token is cancelled as a wait yields, enqueues, or looks at it.
#[test]
fn a_token_races_a_yield() {
    race(
        || (log_mutex::<Fifo>(), CancellationSource::new()),
        |(mutex, source), versus| {
            let lock = || {
                let token = source.token();
                Task::new(mutex.lock().or_cancelled(&token)).run().map(|log| log.sign('l')).is_ok()
            };
            let (had, ()) = exhausted(|| versus.run(lock, || source.request_cancel()));
            assert_eq!(at_rest(mutex), if had { "l" } else { "" });
        },
    );
}
