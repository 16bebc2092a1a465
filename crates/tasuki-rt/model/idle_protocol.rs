//! Searching and sleeping against pushes, steals and shutdown. A worker sleeps until it is unparked, and for no other reason,
//! so a lost wake-up is a deadlock.
//!
//! The queue is the global one: its lock is all that orders pushes against workers that go to sleep. Where a worker sleeps, on its parker or in the system's poll, makes no difference
//! to a push: each ends by an unpark (`park_in` of `tasuki` has its own models). Some of the programs have a poll slot all the same, for the order in which sleepers are chosen.

use crate::parts::idle::{Idle, IdleWorker, NEVER, SleepPlan, SleepRequest};
use crate::parts::shared_queue::SharedQueue;
use crate::tasks::Token;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// Which step of the protocol is left out, to see that the models notice.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// The look between the change of the word and the park.
    SecondLook,
    /// The lock of that look.
    Lock,
    /// The notification by the last searcher that found something.
    Found,
    /// The lock of the look of such a searcher, when all others sleep.
    FoundLock,
}

struct Pool {
    idle: Idle,
    tasks: SharedQueue<Token>,
    closing: AtomicBool,
    parkers: Vec<Notify>,
    without: Without,
}

impl Pool {
    /// Never freed: a model that fails as it should must not touch it again while it unwinds.
    fn new(workers: usize, without: Without) -> &'static Self {
        Box::leak(Box::new(Self {
            idle: Idle::new(workers),
            tasks: SharedQueue::new(),
            closing: AtomicBool::new(false),
            parkers: (0..workers).map(|_| Notify::new()).collect(),
            without,
        }))
    }

    fn notify(&self) {
        if let Some(worker) = self.idle.notify() {
            self.parkers[worker].notify();
        }
    }

    fn push(&self, tasks: usize) {
        self.tasks.append((0..tasks).map(Token::new).collect());
        self.notify();
    }

    fn take(&self) -> bool {
        self.tasks.take(1, 0, |_| ()).is_some()
    }

    fn found(&self) {
        let sees_more = || match self.without {
            // Without the lock it is a glance.
            Without::FoundLock => !self.tasks.looks_empty(),
            _ => !self.tasks.is_empty(),
        };
        if self.idle.found(sees_more) && self.without != Without::Found {
            self.notify();
        }
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.parkers.iter().for_each(Notify::notify);
    }

    /// Until it has run so many tasks, or the pool closes; how many it ran.
    fn work(&self, worker: usize, enough: usize) -> usize {
        self.work_on(worker, enough, false)
    }

    fn work_on(&self, worker: usize, enough: usize, mut searching: bool) -> usize {
        let mut done = 0;
        while done < enough && !self.closing.load(Ordering::Acquire) {
            if !searching {
                searching = self.idle.try_search();
            }
            if self.take() {
                done += 1;
                if std::mem::take(&mut searching) {
                    self.found();
                }
                continue;
            }
            let request = SleepRequest { worker, searching: std::mem::take(&mut searching), watch: false };
            searching = self.idle.sleep_until_woken(request, &FallingAsleep { pool: self, worker }).chosen;
        }
        if searching {
            self.found();
        }
        done
    }
}

struct FallingAsleep<'a> {
    pool: &'a Pool,
    worker: usize,
}

impl IdleWorker for FallingAsleep<'_> {
    fn sees_work(&self, _alone: bool) -> bool {
        match self.pool.without {
            Without::SecondLook => false,
            // Without the lock it is a glance.
            Without::Lock => !self.pool.tasks.looks_empty(),
            _ => !self.pool.tasks.is_empty(),
        }
    }

    fn earliest_deadline(&self) -> u64 {
        NEVER
    }

    fn sleep(&self, _plan: SleepPlan) {
        self.pool.parkers[self.worker].wait();
    }
}

/// The only worker goes to sleep while a task is pushed.
fn one_worker(without: Without, polls: bool) {
    loom::model(move || {
        let pool = Pool::new(1, without);
        if polls {
            assert_eq!(pool.idle.open_poll_slot(), None);
        }
        let spawner = thread::spawn(move || pool.push(1));
        assert_eq!(pool.work(0, 1), 1);
        spawner.join().unwrap();
    });
}

/// Two tasks, two workers that take one each, of which one is asleep at first: the searcher that found one passes the
/// search on.
fn two_workers(without: Without, polls: bool) {
    loom::model(move || {
        let pool = Pool::new(2, without);
        if polls {
            assert_eq!(pool.idle.open_poll_slot(), None);
        }
        assert!(pool.idle.sleep(SleepRequest::of(1)).look);
        let other = thread::spawn(move || {
            pool.parkers[1].wait();
            pool.work_on(1, 1, pool.idle.rise(1).chosen)
        });
        let spawner = thread::spawn(move || pool.push(2));
        assert_eq!(pool.work(0, 1), 1);
        assert_eq!(other.join().unwrap(), 1);
        spawner.join().unwrap();
        assert_eq!(pool.tasks.take_all().len(), 0);
    });
}

#[test]
fn last_searcher_against_push() {
    one_worker(Without::Nothing, false);
}

#[test]
fn last_searcher_that_polls_against_push() {
    one_worker(Without::Nothing, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_second_look_a_wake_up_is_lost() {
    one_worker(Without::SecondLook, false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_lock_a_wake_up_is_lost() {
    one_worker(Without::Lock, false);
}

#[test]
fn searchers_against_a_spawner() {
    two_workers(Without::Nothing, false);
}

/// The worker that sleeps has the poll slot: it is chosen when there is no other.
#[test]
fn searchers_and_a_poller_against_a_spawner() {
    two_workers(Without::Nothing, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_passing_the_search_on_a_task_is_left() {
    two_workers(Without::Found, false);
}

/// Two tasks that are pushed one after the other; one worker is asleep at first, and takes what the other leaves.
fn pushes_beside_a_searcher(without: Without) {
    loom::model(move || {
        let pool = Pool::new(2, without);
        assert!(pool.idle.sleep(SleepRequest::of(1)).look);
        let other = thread::spawn(move || {
            pool.parkers[1].wait();
            pool.work_on(1, 1, pool.idle.rise(1).chosen)
        });
        let spawner = thread::spawn(move || (0..2).for_each(|_| pool.push(1)));
        assert_eq!(pool.work(0, 1), 1);
        assert_eq!(other.join().unwrap(), 1);
        spawner.join().unwrap();
    });
}

#[test]
fn a_push_that_relies_on_a_searcher_that_finds() {
    pushes_beside_a_searcher(Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_lock_of_its_look_a_searcher_misses_a_push() {
    pushes_beside_a_searcher(Without::FoundLock);
}

/// Two spawners, one worker.
#[test]
fn two_spawners() {
    loom::model(|| {
        let pool = Pool::new(1, Without::Nothing);
        let spawners: Vec<_> = (0..2).map(|_| thread::spawn(move || pool.push(1))).collect();
        assert_eq!(pool.work(0, 2), 2);
        spawners.into_iter().for_each(|spawner| spawner.join().unwrap());
    });
}

/// A shutdown while a task is being pushed: the worker leaves, whatever it was doing.
#[test]
fn shutdown_against_push() {
    loom::model(|| {
        let pool = Pool::new(1, Without::Nothing);
        let spawner = thread::spawn(move || pool.push(1));
        let closer = thread::spawn(move || pool.close());
        let done = pool.work(0, usize::MAX);
        spawner.join().unwrap();
        closer.join().unwrap();
        assert_eq!(done + pool.tasks.take_all().len(), 1);
    });
}
