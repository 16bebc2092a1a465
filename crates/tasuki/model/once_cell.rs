//! The once cell: one value, seen whole by every thread; a turn that fails goes to the next.

use crate::support::{Data, Task};
use crate::versus::{Versus, race};
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use tasuki::{CancellationSource, CancellationToken, OnceCell};

/// A cell whose value is written to without synchronisation while it is made.
struct Site {
    cell: OnceCell<Data>,
    /// How often an initialiser ran; loom does not see it.
    runs: AtomicUsize,
    source: CancellationSource,
    token: CancellationToken,
}

fn site() -> Site {
    let source = CancellationSource::new();
    Site { cell: OnceCell::new(), runs: AtomicUsize::new(0), token: source.token(), source }
}

impl Site {
    /// A value that was touched after it was made.
    fn value(&self) -> Data {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let data = Data::new();
        data.add(1);
        data
    }

    /// Makes the value, or waits for it.
    fn get(&self) -> usize {
        Task::new(self.cell.get_or_init(async || self.value())).run().get()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

#[test]
fn it_is_made_once() {
    race(site, |site, versus| {
        let seen = versus.run(|| site.get(), || site.get());
        assert_eq!((seen, site.runs()), ((1, 1), 1));
    });
}

/// A thread that only looks sees nothing, or all of it.
#[test]
fn a_look_sees_all_or_nothing() {
    race(site, |site, versus| {
        let (seen, _) = versus.run(|| site.cell.get().map(Data::get), || site.get());
        assert!(seen.is_none_or(|value| value == 1));
        assert_eq!(site.cell.get().map(Data::get), Some(1));
    });
}

/// Waiters without an initialiser, more than a batch of wakers; one is cancelled, one is polled before its batch has come.
#[test]
fn every_waiter_is_released() {
    race(site, |site, versus| {
        let [a, mut b, c] = [(); 3].map(|()| Task::waiting(site.cell.wait()));
        let waiting = move || {
            drop(a);
            if let Poll::Ready(value) = b.poll() {
                assert_eq!(value.get(), 1);
            } else {
                assert_eq!(b.run().get(), 1);
            }
            assert_eq!(c.run().get(), 1);
        };
        versus.run(waiting, || assert!(site.cell.set(site.value()).is_ok()));
    });
}

/// `set` and an initialiser: one of them makes it, and the other gets that one.
#[test]
fn set_races_an_initialiser() {
    race(site, |site, versus| {
        let waiter = Task::waiting(site.cell.wait());
        let (seen, set) = versus.run(|| site.get(), || site.cell.set(site.value()).is_ok());
        assert_eq!((seen, waiter.run().get()), (1, 1));
        assert!(set || site.runs() == 2);
    });
}

/// An initialiser that fails, with a waiter behind it that wants the turn and one that does not.
#[test]
fn a_failure_passes_the_turn_on() {
    race(site, |site, versus| {
        let waiter = Task::waiting(site.cell.wait());
        let failing = || {
            let failing = site.cell.get_or_try_init(async || Err::<Data, ()>(()));
            Task::new(failing).run().map(Data::get)
        };
        let (failed, seen) = versus.run(failing, || site.get());
        assert!(failed == Err(()) || failed == Ok(1));
        assert_eq!((seen, waiter.run().get(), site.runs()), (1, 1, 1));
    });
}

/// An initialiser that is dropped half-way, and another that waits for the turn and is cancelled, or not.
fn a_turn_is_dropped<const GIVES_UP: bool>(site: &'static Site, versus: Versus) {
    let never = Task::waiting(site.cell.get_or_init(|| poll_fn(|_| Poll::Pending)));
    let next = Task::waiting(site.cell.get_or_init(async || site.value()));
    let waiting = || {
        if GIVES_UP {
            drop(next);
        } else {
            assert_eq!(next.run().get(), 1);
        }
        assert_eq!(site.get(), 1);
    };
    versus.run(waiting, || drop(never));
    assert_eq!(site.runs(), 1);
}

/// The next waiter for the turn is behind a waiter for the value: the queue is unlocked between the two. Meanwhile one of them is cancelled.
fn a_turn_is_looked_for<const TURN_GIVES_UP: bool>(site: &'static Site, versus: Versus) {
    let never = Task::waiting(site.cell.get_or_init(|| poll_fn(|_| Poll::Pending)));
    let first = Task::waiting(site.cell.get_or_init(async || site.value()));
    let value = Task::waiting(site.cell.wait());
    let second = Task::waiting(site.cell.get_or_init(async || site.value()));
    drop(first);
    let waiting = || {
        if TURN_GIVES_UP {
            drop(second);
            assert_eq!(site.get(), 1);
            assert_eq!(value.run().get(), 1);
        } else {
            drop(value);
            assert_eq!(second.run().get(), 1);
        }
    };
    versus.run(waiting, || drop(never));
    assert_eq!(site.runs(), 1);
}

#[test]
fn a_turn_is_looked_for_and_the_value_given_up() {
    race(site, a_turn_is_looked_for::<false>);
}

#[test]
fn a_turn_is_looked_for_and_given_up() {
    race(site, a_turn_is_looked_for::<true>);
}

#[test]
fn a_dropped_turn_goes_to_the_next() {
    race(site, a_turn_is_dropped::<false>);
}

#[test]
fn a_dropped_turn_finds_no_waiter() {
    race(site, a_turn_is_dropped::<true>);
}

/// A limit ends the wait at the moment of the grant, or of the value: the turn is not lost.
#[test]
fn a_limit_races_the_turn() {
    race(site, |site, versus| {
        let never = Task::waiting(site.cell.get_or_init(|| poll_fn(|_| Poll::Pending)));
        let limited = site.cell.get_or_init(async || site.value()).or_cancelled(&site.token);
        let mut limited = Task::new(limited);
        assert!(limited.poll().is_pending());
        let waiting = || {
            let seen = limited.run().map(Data::get);
            assert!(seen.is_err() || seen == Ok(1));
            assert_eq!(site.get(), 1);
        };
        let ending = || {
            site.source.request_cancel();
            drop(never);
        };
        versus.run(waiting, ending);
        assert_eq!(site.runs(), 1);
    });
}

/// An initialiser that takes its time, and is woken; another thread changes its waker meanwhile.
#[test]
fn another_waker_races_the_value() {
    race(site, |site, versus| {
        let mut waiter = Task::waiting(site.cell.wait());
        let waiting = move || {
            waiter.change_alarm();
            assert_eq!(waiter.run().get(), 1);
        };
        versus.run(waiting, || site.get());
    });
}
