//! With the feature `console` every wait tells a subscriber of `tracing` what it does. A subscriber that panics changes nothing: every public awaitable, every moment at
//! which foreign code can panic too (`foreign_panics.rs`, `two_panics.rs`), and a panic at each call of the subscriber in turn.

use super::foreign_panics::{MOMENTS, every_way_to_end, play};
use super::subjects::{Subject, rows};
use super::two_panics::{two_panics_in_one_call, two_panics_of_a_spare};
use crate::kit::panics::panics_silently;
use crate::kit::poll::{panics, pending, ready};
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use tasuki::Mutex;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Panics at one of its calls, or at all of them.
struct Panicking {
    /// 0: at every call.
    at: usize,
    calls: Arc<AtomicUsize>,
}

impl Panicking {
    fn called(&self) {
        let call = self.calls.fetch_add(1, SeqCst) + 1;
        assert!(self.at != 0 && self.at != call, "a hostile subscriber");
    }
}

impl Subscriber for Panicking {
    /// Not counted: the answer may be kept for all tests of the process.
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.called();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.called();
    }

    fn enter(&self, _: &Id) {
        self.called();
    }

    fn exit(&self, _: &Id) {
        self.called();
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.called();
        id.clone()
    }

    fn try_close(&self, _: Id) -> bool {
        self.called();
        true
    }
}

/// Runs `f` under a subscriber that panics at this call (0: at every one): how often it was called.
fn with_panics_at<R>(at: usize, f: impl FnOnce() -> R) -> (R, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let result = tracing::subscriber::with_default(Panicking { at, calls: calls.clone() }, f);
    (result, calls.load(SeqCst))
}

/// Runs `play` with a panic at the first call of the subscriber, at the second, and so on until it is not called that often; then with one at every call. How many panics there were.
fn at_every_call(name: &str, play: impl Fn()) -> usize {
    for at in 1.. {
        let mut calls = 0;
        let failed = panics_silently(|| calls = with_panics_at(at, &play).1);
        assert!(!failed, "{name}: a panic at call {at} of the subscriber is seen");
        if calls < at {
            let failed = panics_silently(|| calls = with_panics_at(0, &play).1);
            assert!(!failed, "{name}: a subscriber that always panics is seen");
            return at;
        }
    }
    unreachable!("the loop ends by itself")
}

#[test]
fn nothing_is_given_twice() {
    let _dog = watchdog(300);
    let mut panics = 0;
    for row in rows() {
        for moment in MOMENTS {
            for drops in [false, true] {
                let name = format!("{:?}, {moment:?}, dropped: {drops}", row.covers);
                panics += at_every_call(&name, || _ = play(moment, (row.subject)(), drops));
            }
        }
    }
    assert!(panics > 5_000, "{panics} panics: the subscriber is called");
}

/// A wait that ends as it should, without any other foreign code that panics.
fn granted(subject: &Subject) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut wait = (subject.make)();
    assert!(wait.as_mut().poll_once(&mut cx).is_pending());
    (subject.grant)();
    assert!(wait.as_mut().poll_once(&mut cx).is_ready(), "granted");
    assert!(wait.is_over());
    drop(wait);
    assert!((subject.intact)(1), "not as it was");
}

/// The panic of a user drops the wait: a second panic would end the process.
fn dropped_by_a_panic(subject: &Subject, is_granted: bool) {
    let mut wait = (subject.make)();
    assert!(wait.as_mut().poll_once(&mut Context::from_waker(Waker::noop())).is_pending());
    if is_granted {
        (subject.grant)();
    }
    assert!(panics(move || {
        let _wait = wait;
        panic!("mine");
    }));
}

#[test]
fn a_wait_ends_and_is_dropped_as_without_a_subscriber() {
    let _dog = watchdog(300);
    for row in rows() {
        let name = format!("{:?}", row.covers);
        for is_granted in [false, true] {
            at_every_call(&name, || dropped_by_a_panic(&(row.subject)(), is_granted));
        }
        at_every_call(&name, || granted(&(row.subject)()));
    }
}

#[test]
fn other_panics_go_their_way() {
    let _dog = watchdog(300);
    at_every_call("two panics in one call", two_panics_in_one_call);
    at_every_call("two panics of a spare", two_panics_of_a_spare);
    at_every_call("every way to end", every_way_to_end);
}

/// Waits for a lock while the span of that lock is made.
struct Waiting(Arc<Mutex<u32>>, AtomicUsize);

impl Subscriber for Waiting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        if self.1.fetch_add(1, SeqCst) == 0 {
            pending(&mut Box::pin(self.0.lock()), &Spy::new());
        }
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_that_waits_for_the_lock_whose_span_it_makes() {
    let _dog = watchdog(60);
    let mutex = Arc::new(Mutex::new(0));
    let held = mutex.try_lock();
    let mut wait = Box::pin(mutex.lock());
    tracing::subscriber::with_default(Waiting(mutex.clone(), AtomicUsize::new(0)), || {
        pending(&mut wait, &Spy::new());
    });
    drop(held);
    assert_eq!(*ready(&mut wait), 0);
}
