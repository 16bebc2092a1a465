//! The parker; and, as a model that must fail, a variant that takes the token by a plain store and loses wake-ups.

use crate::support::{Data, join, model, spawn};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread::yield_now;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use tasuki::runtime::park_in;
use tasuki::{Parker, Unparker};

/// Data that a token publishes.
type Cargo = [Data; 2];

fn cargo() -> Cargo {
    [Data::new(), Data::new()]
}

fn parker() -> (Parker, Unparker) {
    let parker = Parker::new();
    let unparker = parker.unparker();
    (parker, unparker)
}

#[test]
fn a_token_before_the_park() {
    model(cargo, |[data, _]| {
        let (parker, unparker) = parker();
        unparker.unpark();
        parker.park();
        let thread = spawn(move || {
            data.add(1);
            unparker.unpark();
        });
        parker.park();
        assert_eq!(data.get(), 1);
        join([thread]);
        assert!(!parker.park_timeout(Duration::ZERO), "both tokens were taken");
    });
}

#[test]
fn unpark_races_park() {
    model(cargo, |[data, _]| {
        let (parker, unparker) = parker();
        let sleeper = spawn(move || {
            parker.park();
            data.get()
        });
        data.add(1);
        unparker.unpark();
        assert_eq!(join([sleeper]), [1]);
    });
}

/// Two unparks that become one token: the thread that takes it sees what was done before both.
#[test]
fn tokens_coalesce_and_publish_both() {
    // Counts without ordering anything: loom does not see it.
    struct Two(Cargo, AtomicUsize);
    model(
        || Two(cargo(), AtomicUsize::new(0)),
        |Two([data, more], unparks)| {
            let (parker, unparker) = parker();
            let threads = [data, more].map(|data| {
                let unparker = unparker.clone();
                spawn(move || {
                    data.add(1);
                    unparker.unpark();
                    unparks.fetch_add(1, Ordering::Relaxed);
                })
            });
            while unparks.load(Ordering::Relaxed) < 2 {
                yield_now();
            }
            parker.park();
            assert_eq!(data.get() + more.get(), 2);
            join(threads);
            assert!(!parker.park_timeout(Duration::ZERO), "one token");
        },
    );
}

/// Two unparkers, one sleeper that parks until it has seen both: no token is lost between two parks.
#[test]
fn two_unparkers() {
    struct Two(Cargo, [AtomicBool; 2]);
    model(
        || Two(cargo(), [AtomicBool::new(false), AtomicBool::new(false)]),
        |Two(cargo, given)| {
            let (parker, unparker) = parker();
            let threads = [0, 1].map(|at| {
                let unparker = unparker.clone();
                spawn(move || {
                    cargo[at].add(1);
                    given[at].store(true, Ordering::Relaxed);
                    unparker.unpark();
                })
            });
            while !given.iter().all(|given| given.load(Ordering::Relaxed)) {
                parker.park();
            }
            // The last of the two tokens may still be on its way, and publishes its data when it comes.
            join(threads);
            assert_eq!(cargo[0].get() + cargo[1].get(), 2);
        },
    );
}

/// The time is over while the token comes: it is taken, or it is there for the next park.
#[test]
fn a_timed_park_never_loses_the_token() {
    model(cargo, |[data, _]| {
        let (parker, unparker) = parker();
        let thread = spawn(move || {
            data.add(1);
            unparker.unpark();
        });
        if !parker.park_deadline(Instant::now()) {
            parker.park();
        }
        assert_eq!(data.get(), 1);
        join([thread]);
        assert!(!parker.park_timeout(Duration::ZERO), "the token was taken once");
    });
}

/// A timed park that times out, then a park that sleeps: the wake-up meant for the first does not hurt the second.
#[test]
fn a_late_wake_up_of_a_timed_park() {
    model(cargo, |[data, more]| {
        let (parker, unparker) = parker();
        let thread = spawn(move || {
            data.add(1);
            unparker.unpark();
            more.add(1);
            unparker.unpark();
        });
        let first = parker.park_timeout(Duration::ZERO);
        if !first {
            parker.park();
        }
        assert_eq!(data.get(), 1);
        join([thread]);
        assert_eq!(more.get(), 1);
    });
}

/// The woken side drops the parker while the unpark that woke it is still under way.
#[test]
fn the_unparker_outlives_the_parker() {
    model(cargo, |[data, _]| {
        let (parker, unparker) = parker();
        let sleeper = spawn(move || {
            parker.park();
            drop(parker);
            data.get()
        });
        data.add(1);
        unparker.unpark();
        unparker.unpark();
        assert_eq!(join([sleeper]), [1]);
    });
}

/// A foreign wait, which ends by its interrupt, or once for no reason.
struct Foreign(loom::sync::Notify);

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// The unpark comes before, in or after the decision to wait elsewhere: a wait that is not interrupted is a deadlock.
#[test]
fn unpark_races_a_foreign_wait() {
    model(cargo, |[data, _]| {
        let (parker, unparker) = parker();
        let sleeper = spawn(move || {
            let foreign = Arc::new(Foreign(loom::sync::Notify::new()));
            let interrupt = Waker::from(foreign.clone());
            while !park_in(&parker, &interrupt, || foreign.0.wait()) {}
            data.get()
        });
        data.add(1);
        unparker.unpark();
        assert_eq!(join([sleeper]), [1]);
    });
}

/// A foreign wait, then a park: the token of each is its own, and a late interrupt of the first does not stand for the second.
#[test]
fn a_foreign_wait_and_a_park() {
    model(cargo, |[data, more]| {
        let (parker, unparker) = parker();
        let thread = spawn(move || {
            data.add(1);
            unparker.unpark();
            more.add(1);
            unparker.unpark();
        });
        let foreign = Arc::new(Foreign(loom::sync::Notify::new()));
        let interrupt = Waker::from(foreign.clone());
        while !park_in(&parker, &interrupt, || foreign.0.wait()) {}
        assert_eq!(data.get(), 1);
        join([thread]);
        assert_eq!(more.get(), 1);
    });
}

/// How to park, and how to unpark.
type Pair = (Box<dyn Fn()>, Box<dyn Fn()>);

/// Work comes in two pieces, each with an unpark; the worker parks whenever it finds nothing to do. It must
/// find both: the second unpark may meet the token of the first, and must not be lost with it.
fn a_worker_finds_all_its_work(pair: fn() -> Pair) {
    loom::model(move || {
        let (park, unpark) = pair();
        // Relaxed: only the token publishes the work.
        let work = Arc::new(AtomicU32::new(0));
        let pushed = work.clone();
        let pusher = spawn(move || {
            for n in 1..=2 {
                pushed.store(n, Ordering::Relaxed);
                unpark();
            }
        });
        while work.load(Ordering::Relaxed) < 2 {
            park();
        }
        join([pusher]);
    });
}

#[test]
fn a_token_taken_by_a_read_modify_write_loses_no_work() {
    a_worker_finds_all_its_work(|| {
        let (parker, unparker) = parker();
        (Box::new(move || parker.park()), Box::new(move || unparker.unpark()))
    });
}

/// The same parker with the one difference that `park` ends with a plain store.
mod plain_store {
    use super::{Arc, AtomicBool, AtomicU32, Ordering, Pair, yield_now};

    const EMPTY: u32 = 0;
    const PARKED: u32 = 1;
    const NOTIFIED: u32 = 2;

    struct PlainStore {
        state: AtomicU32,
        /// The futex of the model: the check is a read-modify-write, the sleep a flag that loom does not see.
        asleep: AtomicBool,
    }

    impl PlainStore {
        fn park(&self) {
            // EMPTY => PARKED, or there is a token.
            if self.state.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire).is_ok() {
                while self.state.load(Ordering::Acquire) == PARKED {
                    self.sleep();
                }
            }
            // The mistake: it neither learns what came with a second token, nor leaves that token alone.
            self.state.store(EMPTY, Ordering::Release);
        }

        fn sleep(&self) {
            if self.state.fetch_add(0, Ordering::Relaxed) != PARKED {
                return yield_now();
            }
            self.asleep.store(true, Ordering::Relaxed);
            while self.asleep.load(Ordering::Relaxed) {
                yield_now();
            }
        }

        fn unpark(&self) {
            if self.state.swap(NOTIFIED, Ordering::Release) == PARKED {
                self.asleep.store(false, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn pair() -> Pair {
        let parker = Arc::new(PlainStore { state: AtomicU32::new(EMPTY), asleep: AtomicBool::new(false) });
        let unparker = parker.clone();
        (Box::new(move || parker.park()), Box::new(move || unparker.unpark()))
    }
}

/// The model must see this failure, or its silence about the parker means nothing. A lost wake-up is a sleep
/// without end, which loom reports when a path has too many branches.
#[test]
fn a_token_erased_by_a_plain_store_loses_work() {
    let outcome = catch_unwind(|| a_worker_finds_all_its_work(plain_store::pair));
    let panic = outcome.expect_err("the plain store must lose a wake-up");
    let message = panic.downcast_ref::<&str>().copied().unwrap_or("not a message");
    assert!(message.contains("maximum number of branches"), "another failure: {message}");
}
