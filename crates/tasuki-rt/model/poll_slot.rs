//! Sockets, and workers whose polls do not end: another worker waits for the sockets. The system reports each event to the worker that waits for it, or to the next that does;
//! a worker sleeps until it is unparked or an event is reported to it, and for no other reason: an event that no worker waits for is a deadlock.

use crate::parts::idle::{Idle, IdleWorker, NEVER, SleepPlace, SleepPlan, SleepRequest};
use loom::sync::{Mutex, Notify};
use loom::thread;

/// Which step of the protocol is left out, to see that the models notice.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// A worker that rises from the poll wakes another before it runs anything.
    HandOver,
    /// The first socket wakes a sleeper.
    Open,
    /// A worker that has polled without waiting wakes one that fell asleep meanwhile.
    EndPoll,
}

/// The operating system.
#[derive(Default)]
struct System {
    events: usize,
    /// The worker that waits.
    waits: Option<usize>,
}

struct World {
    idle: Idle,
    system: Mutex<System>,
    parkers: Vec<Notify>,
    /// All events were taken.
    met: Notify,
    without: Without,
}

impl World {
    /// Never freed: a model that fails as it should must not touch it again while it unwinds.
    fn new(workers: usize, without: Without) -> &'static Self {
        Box::leak(Box::new(Self {
            idle: Idle::new(workers),
            system: Mutex::default(),
            parkers: (0..workers).map(|_| Notify::new()).collect(),
            met: Notify::new(),
            without,
        }))
    }

    fn unpark(&self, worker: Option<usize>) {
        if let Some(worker) = worker {
            self.parkers[worker].notify();
        }
    }

    fn open(&self) {
        let worker = self.idle.open_poll_slot();
        if self.without != Without::Open {
            self.unpark(worker);
        }
    }

    /// Something happens to a socket.
    fn event(&self) {
        let mut system = self.system.lock().unwrap();
        system.events += 1;
        let waits = system.waits;
        drop(system);
        self.unpark(waits);
    }

    fn take_event(&self) -> bool {
        let mut system = self.system.lock().unwrap();
        let ready = system.events > 0;
        system.events -= usize::from(ready);
        ready
    }

    /// A worker with nothing to do but to sleep, until it has taken an event. It leaves the slot to another worker if there is more to come.
    fn rest_until_event(&self, worker: usize) {
        loop {
            let sleeper = Falling { world: self, worker, took: std::cell::Cell::new(false) };
            let risen = self.idle.sleep_until_woken(SleepRequest::of(worker), &sleeper);
            if risen.chosen && self.idle.found(|| true) {
                self.unpark(self.idle.notify());
            }
            if sleeper.took.get() {
                if risen.owes_poll_slot && self.without != Without::HandOver {
                    self.unpark(self.idle.hand_over_poll_slot());
                }
                return;
            }
        }
    }
}

struct Falling<'a> {
    world: &'a World,
    worker: usize,
    took: std::cell::Cell<bool>,
}

impl IdleWorker for Falling<'_> {
    fn sees_work(&self, _alone: bool) -> bool {
        false
    }

    fn earliest_deadline(&self) -> u64 {
        NEVER
    }

    fn sleep(&self, plan: SleepPlan) {
        let parker = &self.world.parkers[self.worker];
        match plan.place {
            SleepPlace::Parker => parker.wait(),
            SleepPlace::Poll => {
                let mut system = self.world.system.lock().unwrap();
                if system.events == 0 {
                    assert_eq!(system.waits.replace(self.worker), None, "one worker waits");
                    drop(system);
                    parker.wait();
                    system = self.world.system.lock().unwrap();
                    system.waits = None;
                }
                drop(system);
                self.took.set(self.world.take_event());
            }
        }
    }
}

/// Worker 0 takes an event, and its poll goes on until worker 1 has taken another.
fn the_poller_gets_work(without: Without) {
    loom::model(move || {
        let world = World::new(2, without);
        world.open();
        let other = thread::spawn(move || {
            world.rest_until_event(1);
            world.met.notify();
        });
        let events = thread::spawn(move || {
            world.event();
            world.event();
        });
        world.rest_until_event(0);
        world.met.wait();
        other.join().unwrap();
        events.join().unwrap();
    });
}

/// Worker 0 registers the first socket, and its poll goes on until worker 1, which falls asleep, has taken the event.
fn the_first_socket(without: Without) {
    loom::model(move || {
        let world = World::new(2, without);
        let other = thread::spawn(move || {
            world.rest_until_event(1);
            world.met.notify();
        });
        world.open();
        world.event();
        world.met.wait();
        other.join().unwrap();
    });
}

/// Worker 0 polls without waiting while worker 1 falls asleep; then its poll goes on until the other has taken the event.
fn a_busy_poll(without: Without) {
    loom::model(move || {
        let world = World::new(2, without);
        world.open();
        let other = thread::spawn(move || {
            world.rest_until_event(1);
            world.met.notify();
        });
        if world.idle.try_poll(0) {
            let worker = world.idle.end_poll(0);
            if without != Without::EndPoll {
                world.unpark(worker);
            }
        }
        world.event();
        world.met.wait();
        other.join().unwrap();
    });
}

#[test]
fn events_against_a_poller_that_gets_work() {
    the_poller_gets_work(Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_hand_over_an_event_is_missed() {
    the_poller_gets_work(Without::HandOver);
}

#[test]
fn the_first_socket_against_a_worker_that_falls_asleep() {
    the_first_socket(Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_wake_for_the_first_socket_an_event_is_missed() {
    the_first_socket(Without::Open);
}

#[test]
fn a_busy_poll_against_a_worker_that_falls_asleep() {
    a_busy_poll(Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_wake_after_a_busy_poll_an_event_is_missed() {
    a_busy_poll(Without::EndPoll);
}
