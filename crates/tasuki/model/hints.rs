//! Hints may be wrong at any time: each scenario runs with every sequence of four answers, which are given over and over.

use crate::support::{Task, at_rest, join, lock_and_sign, log_mutex, model, spawn, try_and_sign};
use tasuki::policy::{Bypass, Fifo, Policy};
use tasuki::{Event, RwLock, Semaphore, hints};

/// How many answers differ before they are given again.
const ANSWERS: u32 = 4;

/// Runs a scenario with every sequence of answers.
fn with_every_hint<T: 'static>(
    object: impl Fn() -> T + Copy + Send + Sync + 'static,
    scenario: impl Fn(&'static T) + Copy + Send + Sync + 'static,
) {
    for answers in 0..1 << ANSWERS {
        model(
            move || {
                hints::shuffle(answers, ANSWERS);
                object()
            },
            scenario,
        );
    }
    hints::restore();
}

fn lock_and_cancel<P: Policy>(mutex: &'static crate::support::LogMutex<P>) {
    let held = mutex.try_lock().unwrap();
    let given_up = Task::waiting(mutex.lock());
    let thread = spawn(move || lock_and_sign(mutex, 'a'));
    drop(held);
    drop(given_up);
    try_and_sign(mutex, 'm');
    join([thread]);
    assert!(matches!(at_rest(mutex).as_str(), "a" | "am" | "ma"));
}

#[test]
fn a_mutex_with_any_hints() {
    with_every_hint(log_mutex::<Fifo<false>>, lock_and_cancel);
}

#[test]
fn a_mutex_that_may_be_overtaken_with_any_hints() {
    with_every_hint(log_mutex::<Bypass<1>>, lock_and_cancel);
}

/// Two sets and a waiter that is queued: one of them releases it, the other is kept.
#[test]
fn an_event_with_any_hints() {
    with_every_hint(Event::auto, |event| {
        let queued = Task::waiting(event.wait());
        let setter = spawn(move || event.set());
        event.set();
        queued.run();
        join([setter]);
        assert!(event.is_set());
        Task::new(event.wait()).run();
        assert!(!event.is_set());
    });
}

/// A reader beside a reader, and a writer that waits for both.
#[test]
fn a_reader_writer_lock_with_any_hints() {
    with_every_hint(
        || RwLock::new(0),
        |lock| {
            let held = lock.try_read().unwrap();
            let writer = spawn(move || *Task::new(lock.write()).run() += 1);
            // `None`: the writer is queued already.
            let seen = lock.try_read().map(|value| *value);
            drop(held);
            join([writer]);
            assert!(matches!(seen, None | Some(0)));
            assert_eq!(lock.try_write().map(|value| *value), Some(1));
        },
    );
}

/// Two that take a permit by turns, with and without a wait, while what is free changes: the count is taken from the hint, whatever was stored.
#[test]
fn a_semaphore_with_any_hints() {
    with_every_hint(
        || Semaphore::new(1),
        |semaphore| {
            let other = spawn(move || drop(Task::new(semaphore.acquire()).run().unwrap()));
            drop(semaphore.try_acquire());
            semaphore.release(1);
            drop(semaphore.try_acquire());
            join([other]);
            assert_eq!(semaphore.available_permits(), 2);
            assert!(semaphore.try_acquire_many(2).is_ok());
        },
    );
}
