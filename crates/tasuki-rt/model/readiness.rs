//! Reports of the system against tasks that try, find nothing, and wait. A task that is not woken for a report is a deadlock.

use crate::parts::readiness::{Direction, Drained, Readiness, Report};
use loom::sync::{Mutex, Notify};
use loom::thread;
use std::sync::Arc;
use std::task::{Wake, Waker};

const READABLE: Report = Report {
    readable: true,
    read_closed: false,
    writable: false,
    write_closed: false,
    urgent: false,
    gone: false,
};

/// Which step is left out, to see that the models notice.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// What is cleared is what was seen before the operation.
    Tick,
    /// The look after the waker was stored.
    SecondLook,
}

/// A task's waker.
struct Task(Notify);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

#[derive(Default)]
struct Kernel {
    bytes: usize,
    ended: bool,
}

/// A socket that has bytes to read, and what is known of it.
struct Socket {
    readiness: Readiness,
    /// What the system knows. A lock: each call sees all earlier ones.
    kernel: Mutex<Kernel>,
    queue: Mutex<Vec<Arc<Task>>>,
    without: Without,
}

impl Socket {
    /// Never freed: a model that fails as it should must not touch it again while it unwinds.
    fn new(without: Without) -> &'static Self {
        Box::leak(Box::new(Self {
            readiness: Readiness::new(true),
            kernel: Mutex::default(),
            queue: Mutex::default(),
            without,
        }))
    }

    /// A byte comes, and the system reports it.
    fn arrive(&self) {
        self.kernel.lock().unwrap().bytes += 1;
        self.report(READABLE);
    }

    fn report(&self, report: Report) {
        let [read, _] = self.readiness.deliver(report, Waker::wake);
        if read {
            let queue = std::mem::take(&mut *self.queue.lock().unwrap());
            queue.iter().for_each(|task| task.0.notify());
        }
    }

    /// One byte, if there is one.
    fn try_read(&self) -> bool {
        let mut kernel = self.kernel.lock().unwrap();
        let has_byte = kernel.bytes > 0;
        kernel.bytes -= usize::from(has_byte);
        has_byte
    }

    /// Reads a byte; waits by the slot, or by the queue.
    fn read(&self, enqueues: bool) {
        let task = Arc::new(Task(Notify::new()));
        let waker = Waker::from(task.clone());
        let direction = Direction::Read;
        loop {
            let seen = self.readiness.look(direction).or_else(|| {
                if enqueues {
                    self.queue.lock().unwrap().push(task.clone());
                    self.readiness.announce(direction)
                } else if self.without == Without::SecondLook {
                    let _ = self.readiness.register(&waker, direction);
                    None
                } else {
                    self.readiness.register(&waker, direction)
                }
            });
            let Some(seen) = seen else {
                task.0.wait();
                continue;
            };
            if self.try_read() {
                return;
            }
            let seen = if self.without == Without::Tick {
                self.readiness.look(direction).unwrap_or(seen)
            } else {
                seen
            };
            self.readiness.clear(seen, direction, Drained::WouldBlock);
        }
    }
}

fn a_report_against_a_read(without: Without, enqueues: bool) {
    loom::model(move || {
        let socket = Socket::new(without);
        let system = thread::spawn(move || socket.arrive());
        socket.read(enqueues);
        system.join().unwrap();
    });
}

#[test]
fn a_report_against_a_task_that_waits_in_the_slot() {
    a_report_against_a_read(Without::Nothing, false);
}

#[test]
fn a_report_against_a_task_that_waits_in_the_queue() {
    a_report_against_a_read(Without::Nothing, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_tick_a_report_is_erased() {
    a_report_against_a_read(Without::Tick, false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_second_look_a_report_is_missed() {
    a_report_against_a_read(Without::SecondLook, false);
}

/// A read is dropped while a report comes, and another one follows, with a waker of its own: it gets the byte, whether the report found the first waker, the second or none.
#[test]
fn a_report_against_a_read_that_is_dropped() {
    loom::model(|| {
        let socket = Socket::new(Without::Nothing);
        let seen = socket.readiness.look(Direction::Read).expect("not asked yet");
        socket.readiness.clear(seen, Direction::Read, Drained::WouldBlock);
        let system = thread::spawn(move || socket.arrive());
        let dropped = Arc::new(Task(Notify::new()));
        let waker = Waker::from(dropped.clone());
        let _ = socket.readiness.register(&waker, Direction::Read);
        drop(socket.readiness.cancel(Direction::Read));
        drop(waker);
        socket.read(false);
        system.join().unwrap();
        assert_eq!(Arc::strong_count(&dropped), 1, "a waker is left");
    });
}

/// A try asks the system although nothing was reported, while two bytes and their report come: it may take one, and never erases the report, of which a task waits for the other.
fn a_try_against_a_report_and_a_read(without: Without) {
    loom::model(move || {
        let socket: &'static Socket = Socket::new(without);
        let seen = socket.readiness.observe();
        socket.readiness.clear(seen, Direction::Read, Drained::WouldBlock);
        let system = thread::spawn(move || {
            socket.kernel.lock().unwrap().bytes = 2;
            socket.report(READABLE);
        });
        let tries = thread::spawn(move || {
            let seen = socket.readiness.observe();
            if !socket.try_read() {
                let seen = if without == Without::Tick { socket.readiness.observe() } else { seen };
                socket.readiness.clear(seen, Direction::Read, Drained::WouldBlock);
            }
        });
        socket.read(false);
        system.join().unwrap();
        tries.join().unwrap();
    });
}

#[test]
fn a_try_against_a_report() {
    a_try_against_a_report_and_a_read(Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_tick_a_try_erases_a_report() {
    a_try_against_a_report_and_a_read(Without::Tick);
}

/// Two tasks that share the socket, one report of two bytes: both are told.
#[test]
fn two_tasks_in_the_queue() {
    loom::model(|| {
        let socket = Socket::new(Without::Nothing);
        let other = thread::spawn(move || socket.read(true));
        let system = thread::spawn(move || {
            socket.kernel.lock().unwrap().bytes = 2;
            socket.report(READABLE);
        });
        socket.read(true);
        other.join().unwrap();
        system.join().unwrap();
    });
}

/// A reader and a writer have slots of their own, and one report for both.
#[test]
fn two_directions() {
    loom::model(|| {
        let socket: &'static Socket = Socket::new(Without::Nothing);
        let seen = socket.readiness.look(Direction::Write).expect("not asked yet");
        socket.readiness.clear(seen, Direction::Write, Drained::WouldBlock);
        let writer = thread::spawn(move || {
            let task = Arc::new(Task(Notify::new()));
            let waker = Waker::from(task.clone());
            while socket.readiness.register(&waker, Direction::Write).is_none() {
                task.0.wait();
            }
        });
        let system = thread::spawn(move || {
            socket.kernel.lock().unwrap().bytes = 1;
            socket.report(Report { writable: true, ..READABLE });
        });
        socket.read(false);
        writer.join().unwrap();
        system.join().unwrap();
    });
}

/// The end comes while a short read clears: it is read, because a closed direction stays ready.
#[test]
fn the_end_against_a_short_read() {
    loom::model(|| {
        let socket: &'static Socket = Socket::new(Without::Nothing);
        socket.kernel.lock().unwrap().bytes = 1;
        let system = thread::spawn(move || {
            socket.kernel.lock().unwrap().ended = true;
            socket.report(Report { read_closed: true, ..READABLE });
        });
        let task = Arc::new(Task(Notify::new()));
        let waker = Waker::from(task.clone());
        loop {
            let Some(seen) = socket.readiness.register(&waker, Direction::Read) else {
                task.0.wait();
                continue;
            };
            if socket.try_read() {
                socket.readiness.clear(seen, Direction::Read, Drained::ShortCount);
            } else if socket.kernel.lock().unwrap().ended {
                break;
            } else {
                socket.readiness.clear(seen, Direction::Read, Drained::WouldBlock);
            }
        }
        assert!(socket.readiness.look(Direction::Read).is_some(), "the end stays");
        system.join().unwrap();
    });
}

/// Bytes and urgent data come while a short read clears, and the next read ends at the mark, short of the byte behind it: that is read, because a short count says nothing while
/// urgent data is in the way.
#[test]
fn urgent_data_against_a_short_read() {
    loom::model(|| {
        let socket: &'static Socket = Socket::new(Without::Nothing);
        socket.kernel.lock().unwrap().bytes = 1;
        let system = thread::spawn(move || {
            // One on each side of the mark, in one report.
            socket.kernel.lock().unwrap().bytes += 2;
            socket.report(Report { urgent: true, ..READABLE });
        });
        let task = Arc::new(Task(Notify::new()));
        let waker = Waker::from(task.clone());
        let mut read = 0;
        while read < 3 {
            let Some(seen) = socket.readiness.register(&waker, Direction::Read) else {
                task.0.wait();
                continue;
            };
            if socket.try_read() {
                read += 1;
                socket.readiness.clear(seen, Direction::Read, Drained::ShortCount);
            } else {
                socket.readiness.clear(seen, Direction::Read, Drained::WouldBlock);
            }
        }
        system.join().unwrap();
    });
}
