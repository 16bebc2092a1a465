//! Deadlines of workers whose polls do not end: another worker wakes for each of them. A worker sleeps until it is unparked, or until a
//! deadline that it knows of, and for no other reason: a deadline that no sleeper knows of is a deadlock.

use crate::parts::idle::{Idle, IdleWorker, NEVER, SleepPlan, SleepRequest};
use loom::sync::Notify;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Which step of the protocol is left out, to see that the models notice.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// An armed deadline asks for cover.
    Cover,
    /// The timekeeper passes its duty on before it runs anything.
    HandOver,
}

/// Worker 0 arms a deadline, and its poll goes on until it is met.
struct World {
    idle: Idle,
    /// The deadline of worker 0.
    due: AtomicU64,
    parkers: Vec<Notify>,
    /// The deadline was met.
    met: Notify,
    without: Without,
}

impl World {
    /// Never freed: a model that fails as it should must not touch it again while it unwinds.
    fn new(workers: usize, without: Without) -> &'static Self {
        Box::leak(Box::new(Self {
            idle: Idle::new(workers),
            due: AtomicU64::new(NEVER),
            parkers: (0..workers).map(|_| Notify::new()).collect(),
            met: Notify::new(),
            without,
        }))
    }

    fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    fn cover(&self) {
        if let Some(worker) = self.idle.cover(|| self.due()) {
            self.parkers[worker].notify();
        }
    }

    /// Worker 0: arms a deadline, and runs something long.
    fn arm(&self, deadline: u64) {
        self.due.store(deadline, Ordering::Relaxed);
        if self.without != Without::Cover {
            self.cover();
        }
        self.met.wait();
    }

    /// Worker `worker`: nothing to do but to sleep, until it has met the deadline.
    fn rest(&self, worker: usize) {
        while self.due() == NEVER {
            let request = SleepRequest::of(worker);
            let _ = self.idle.sleep_until_woken(request, &FallingAsleep { world: self, worker });
        }
        self.met.notify();
    }
}

struct FallingAsleep<'a> {
    world: &'a World,
    worker: usize,
}

impl IdleWorker for FallingAsleep<'_> {
    fn sees_work(&self, _alone: bool) -> bool {
        false
    }

    fn earliest_deadline(&self) -> u64 {
        self.world.due()
    }

    fn sleep(&self, plan: SleepPlan) {
        // Time passes: every deadline comes.
        if plan.until == NEVER {
            self.world.parkers[self.worker].wait();
        }
    }
}

/// The only other worker falls asleep while the deadline is armed.
fn a_worker_falls_asleep(without: Without) {
    loom::model(move || {
        let world = World::new(2, without);
        let sleeper = thread::spawn(move || world.rest(1));
        world.arm(5);
        sleeper.join().unwrap();
    });
}

/// Worker 1 keeps the time, for a deadline that is past, and worker 2 sleeps without a limit. A closure is posted to worker 1, which
/// never returns: its duty goes to worker 2.
fn the_timekeeper_gets_work(without: Without) {
    loom::model(move || {
        let world = World::new(3, without);
        assert!(
            world.idle.sleep(SleepRequest::of(1)).keeps_time
                && !world.idle.sleep(SleepRequest::of(2)).keeps_time
        );
        assert_eq!(world.idle.cover(|| 5), Some(1));
        let busy = thread::spawn(move || {
            if world.idle.rise(1).kept_time && world.without != Without::HandOver {
                world.cover();
            }
        });
        let sleeper = thread::spawn(move || {
            world.parkers[2].wait();
            let _ = world.idle.rise(2);
            world.rest(2);
        });
        // Not before the one that worker 1 wakes for.
        world.arm(6);
        busy.join().unwrap();
        sleeper.join().unwrap();
    });
}

#[test]
fn a_deadline_against_the_last_worker_that_falls_asleep() {
    a_worker_falls_asleep(Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_cover_a_deadline_is_missed() {
    a_worker_falls_asleep(Without::Cover);
}

#[test]
fn a_deadline_against_a_timekeeper_that_gets_work() {
    the_timekeeper_gets_work(Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_hand_over_a_deadline_is_missed() {
    the_timekeeper_gets_work(Without::HandOver);
}

/// The timekeeper has woken for a deadline that is past, and falls asleep again, while another worker falls asleep and a deadline is armed:
/// one of them wakes for it.
#[test]
fn two_sleepers_against_a_deadline() {
    loom::model(|| {
        let world = World::new(3, Without::Nothing);
        assert!(world.idle.sleep(SleepRequest::of(1)).keeps_time);
        assert_eq!(world.idle.cover(|| 5), Some(1));
        let first = thread::spawn(move || {
            let risen = world.idle.rise(1);
            assert!(!risen.chosen);
            world.rest(1);
        });
        let second = thread::spawn(move || world.rest(2));
        world.arm(6);
        // Whichever did not meet it sees that it was met.
        world.parkers.iter().for_each(Notify::notify);
        first.join().unwrap();
        second.join().unwrap();
    });
}
