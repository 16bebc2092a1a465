//! The event: each set releases one waiter (auto), or all of them (manual).

use crate::support::{Data, Task, join, model, spawn};
use loom::thread::yield_now;
use std::sync::atomic::{AtomicUsize, Ordering};
use tasuki::{Event, Reset};

/// An event, and what is done before it is set.
struct Signal {
    event: Event,
    data: Data,
    more: Data,
}

fn signal(reset: Reset) -> Signal {
    Signal { event: Event::new(reset, false), data: Data::new(), more: Data::new() }
}

fn auto() -> Signal {
    signal(Reset::Auto)
}

fn manual() -> Signal {
    signal(Reset::Manual)
}

impl Signal {
    fn write_and_set(&self) {
        self.data.add(1);
        self.event.set();
    }
}

/// Does a wait begun now have to wait? A signal that is there is consumed.
fn has_to_wait(event: &Event) -> bool {
    Task::new(event.wait()).poll().is_pending()
}

#[test]
fn set_races_wait_auto() {
    model(auto, |signal| {
        let setter = spawn(|| signal.write_and_set());
        Task::new(signal.event.wait()).run();
        assert_eq!(signal.data.get(), 1);
        join([setter]);
        assert!(has_to_wait(&signal.event), "the signal was consumed");
    });
}

#[test]
fn set_races_wait_manual() {
    model(manual, |signal| {
        let setter = spawn(|| signal.write_and_set());
        Task::new(signal.event.wait()).run();
        assert_eq!(signal.data.get(), 1);
        join([setter]);
        assert!(!has_to_wait(&signal.event), "it stays set");
    });
}

/// Looking is enough to see what was done before.
#[test]
fn is_set_acquires() {
    model(manual, |signal| {
        let setter = spawn(|| signal.write_and_set());
        if signal.event.is_set() {
            assert_eq!(signal.data.get(), 1);
        }
        join([setter]);
        assert!(signal.event.is_set());
    });
}

/// Of two threads that try, one consumes the signal, with what was done before it.
#[test]
fn tries_share_one_signal() {
    model(auto, |signal| {
        let tries = || {
            let taken = signal.event.try_wait();
            if taken {
                assert_eq!(signal.data.get(), 1);
            }
            usize::from(taken)
        };
        let other = spawn(tries);
        signal.write_and_set();
        let taken = tries() + other.join().unwrap();
        assert_eq!(taken + tries(), 1);
    });
}

/// A try while a wait comes and goes: the signal is consumed once, or kept.
#[test]
fn a_try_races_a_dropped_wait() {
    model(auto, |signal| {
        let other = spawn(|| usize::from(Task::new(signal.event.wait()).poll().is_ready()));
        signal.event.set();
        let taken = usize::from(signal.event.try_wait()) + other.join().unwrap();
        assert_eq!(taken + usize::from(signal.event.try_wait()), 1);
    });
}

/// A signal that is there already is taken without queueing, with what was done before it.
#[test]
fn a_kept_signal_acquires() {
    model(auto, |signal| {
        let setter = spawn(|| signal.write_and_set());
        let taken = Task::new(signal.event.wait()).poll().is_ready();
        if taken {
            assert_eq!(signal.data.get(), 1);
        }
        join([setter]);
        assert_eq!(signal.event.is_set(), !taken, "given up in time, the signal stays");
    });
}

/// Two sets that become one signal: the waiter that takes it sees what was done before both.
#[test]
fn coalesced_sets_publish_both() {
    // Counts without ordering anything: loom does not see it.
    struct Two(Signal, AtomicUsize);
    model(
        || Two(auto(), AtomicUsize::new(0)),
        |Two(signal, sets)| {
            let threads = [&signal.data, &signal.more].map(|data| {
                spawn(|| {
                    data.add(1);
                    signal.event.set();
                    sets.fetch_add(1, Ordering::Relaxed);
                })
            });
            while sets.load(Ordering::Relaxed) < 2 {
                yield_now();
            }
            assert!(Task::new(signal.event.wait()).poll().is_ready());
            assert_eq!(signal.data.get() + signal.more.get(), 2);
            join(threads);
            assert!(has_to_wait(&signal.event), "two sets without waiters are one signal");
        },
    );
}

#[test]
fn one_set_releases_exactly_one() {
    model(auto, |signal| {
        let [a, mut b] = [(); 2].map(|()| Task::waiting(signal.event.wait()));
        let setter = spawn(|| signal.write_and_set());
        a.run();
        assert_eq!(signal.data.get(), 1);
        assert!(b.poll().is_pending());
        join([setter]);
        assert!(b.poll().is_pending() && b.rings() == 0);
        assert!(!signal.event.is_set());
    });
}

#[test]
fn two_sets_release_two() {
    model(auto, |signal| {
        let [a, b] = [(); 2].map(|()| Task::waiting(signal.event.wait()));
        let threads = [spawn(|| signal.event.set()), spawn(|| signal.event.set())];
        b.run();
        a.run();
        join(threads);
        assert!(!signal.event.is_set());
    });
}

/// The first waiter is cancelled while it is being granted the signal: the second gets it, or got it at once.
#[test]
fn a_dropped_future_passes_the_signal_on() {
    model(auto, |signal| {
        let [a, b] = [(); 2].map(|()| Task::waiting(signal.event.wait()));
        let setter = spawn(|| signal.write_and_set());
        drop(a);
        b.run();
        assert_eq!(signal.data.get(), 1);
        join([setter]);
        assert!(!signal.event.is_set());
    });
}

/// With no waiter to pass it to, the signal goes back to the event, with what was done before it.
#[test]
fn a_dropped_future_gives_the_signal_back() {
    model(auto, |signal| {
        let only = Task::waiting(signal.event.wait());
        let setter = spawn(|| signal.write_and_set());
        drop(only);
        Task::new(signal.event.wait()).run();
        assert_eq!(signal.data.get(), 1);
        join([setter]);
        assert!(!signal.event.is_set());
    });
}

/// Every waiter at the moment of the set is released, whatever `reset` does right after.
#[test]
fn reset_takes_nothing_back_from_the_released() {
    model(manual, |signal| {
        let [a, b] = [(); 2].map(|()| Task::waiting(signal.event.wait()));
        let setter = spawn(|| {
            signal.write_and_set();
            signal.event.reset();
        });
        let waiter = spawn(|| b.run());
        a.run();
        assert_eq!(signal.data.get(), 1);
        join([setter, waiter]);
        assert!(!signal.event.is_set() && has_to_wait(&signal.event));
    });
}

/// A wait that races a set and its reset goes through, or waits for the next set; it is not lost between.
#[test]
fn wait_races_set_and_reset() {
    model(manual, |signal| {
        let setter = spawn(|| {
            signal.event.set();
            signal.event.reset();
        });
        let mut task = Task::new(signal.event.wait());
        if task.poll().is_pending() {
            join([setter]);
            let released = task.rings() == 1;
            assert_eq!(task.poll().is_ready(), released);
            if !released {
                signal.event.set();
                task.run();
            }
        } else {
            join([setter]);
            assert!(!signal.event.is_set());
        }
    });
}

#[test]
fn reset_races_set() {
    model(manual, |signal| {
        let waiter = Task::waiting(signal.event.wait());
        let setter = spawn(|| signal.event.set());
        signal.event.reset();
        waiter.run();
        join([setter]);
        signal.event.reset();
        assert!(has_to_wait(&signal.event));
    });
}

/// From the poll with another waker on, only that one counts.
#[test]
fn another_waker_races_set() {
    model(manual, |signal| {
        let mut task = Task::waiting(signal.event.wait());
        let setter = spawn(|| signal.write_and_set());
        task.change_alarm();
        task.run();
        assert_eq!(signal.data.get(), 1);
        join([setter]);
    });
}

#[test]
fn another_waker_races_set_auto() {
    model(auto, |signal| {
        let mut task = Task::waiting(signal.event.wait());
        let setter = spawn(|| signal.write_and_set());
        task.change_alarm();
        if task.poll().is_pending() {
            task.finish();
        }
        assert_eq!(signal.data.get(), 1);
        join([setter]);
        assert!(!signal.event.is_set());
    });
}

/// A thread blocks on the event; another sets it.
#[test]
fn a_thread_blocks() {
    model(auto, |signal| {
        let setter = spawn(|| signal.write_and_set());
        signal.event.wait().block();
        assert_eq!(signal.data.get(), 1);
        join([setter]);
        assert!(!signal.event.is_set());
    });
}
