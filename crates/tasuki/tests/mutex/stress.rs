//! The mutex and the event on real threads, driven by wakes alone, with futures dropped at random: a lost wake-up is a
//! hang, a doubled grant is two owners. S2-07, S2-25, S3-08, S3-10, S3-11, S3-27, S3-28; B059, B071, H2, H18.
//!
//! `TASUKI_STRESS_SECONDS=600` makes each of them long, `TASUKI_SEED` repeats the decisions of one.

use crate::kit::poll::{BoxFuture, yield_now};
use crate::kit::rng::Seed;
use crate::kit::stress::{Outcome, Stress};
use crate::kit::watchdog::watchdog_with;
use crate::kit::{scaled, stress_time};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::Poll;
use std::time::Instant;
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{Event, Mutex, Reset};

/// Repeats a run, each with another seed, until the time is over; under Miri once.
fn for_a_while(threads: usize, run: impl Fn(Stress)) {
    let time = stress_time();
    let seed = Seed::pick();
    let _dog = watchdog_with(time.as_secs() + 60, format!("TASUKI_SEED={}", seed.0));
    let (began, mut rng) = (Instant::now(), seed.rng());
    // The first run has the seed that is printed.
    let mut next = seed.0;
    loop {
        run(Stress {
            threads,
            tasks: scaled(16, 3),
            rounds: scaled(100, 4),
            cancel_per_mille: 300,
            seed: next,
        });
        next = rng.next();
        if cfg!(miri) || began.elapsed() >= time {
            return;
        }
    }
}

/// Says that a holder is inside, and that no other was.
struct Inside<'s>(&'s AtomicBool);

impl<'s> Inside<'s> {
    fn enter(flag: &'s AtomicBool) -> Self {
        assert!(!flag.swap(true, SeqCst), "two owners at a time");
        Self(flag)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

/// Cancelled while waiting, granted, or inside across an await; by borrow and by `Arc`.
fn exclusion<P: Policy>(threads: usize) {
    for_a_while(threads, |stress| {
        let mutex: Arc<Mutex<u64, P>> = Arc::new(Mutex::with_policy(0));
        let inside = Arc::new(AtomicBool::new(false));
        let entries = Arc::new(AtomicU64::new(0));
        let outcome = stress.run(|turn| {
            let (mutex, inside, entries) = (mutex.clone(), inside.clone(), entries.clone());
            Box::pin(async move {
                if turn.round % 5 == 4 {
                    if let Some(mut value) = mutex.try_lock() {
                        let _inside = Inside::enter(&inside);
                        *value += 1;
                        entries.fetch_add(1, Relaxed);
                    }
                    return;
                }
                if turn.task % 2 == 0 {
                    let mut value = mutex.lock().await;
                    let _inside = Inside::enter(&inside);
                    *value += 1;
                    entries.fetch_add(1, Relaxed);
                    if turn.round % 3 == 0 {
                        yield_now().await;
                    }
                } else {
                    let mut value = mutex.clone().lock_owned().await;
                    let inside = Inside::enter(&inside);
                    *value += 1;
                    entries.fetch_add(1, Relaxed);
                    drop(inside);
                    tasuki::Guard::hand_off(value).await;
                }
            })
        });
        assert!(!mutex.is_locked(), "left locked after {outcome:?}");
        assert_eq!(Arc::strong_count(&mutex), 1);
        let value = *mutex.try_lock().unwrap();
        assert_eq!(value, entries.load(Relaxed), "a write was lost");
        // A task that completed was inside, but for a `try_lock` that was refused.
        assert!(outcome.completed >= value as usize / 2, "{outcome:?}");
    });
}

#[test]
fn fifo_on_2_threads() {
    exclusion::<Fifo>(2);
}

#[test]
fn fifo_on_8_threads() {
    exclusion::<Fifo>(8);
}

#[test]
fn fifo_without_spin_on_2_threads() {
    exclusion::<Fifo<false>>(2);
}

#[test]
fn lifo_on_2_threads() {
    exclusion::<Lifo>(2);
}

#[test]
fn lifo_on_8_threads() {
    exclusion::<Lifo>(8);
}

#[test]
fn bypass_on_2_threads() {
    exclusion::<Bypass>(2);
    exclusion::<Bypass<1>>(2);
}

#[test]
fn bypass_on_8_threads() {
    exclusion::<Bypass<2>>(8);
}

#[test]
fn revocable_on_2_threads() {
    exclusion::<Revocable>(2);
}

#[test]
fn revocable_on_8_threads() {
    exclusion::<Revocable<false>>(8);
}

/// When the first poll began, when it had queued, when the lock was got: moments of one clock.
#[derive(Clone, Copy, Debug)]
struct Visit {
    began: usize,
    queued: usize,
    acquired: usize,
}

/// Locks, and notes the moments.
async fn visit<P: Policy>(mutex: &Mutex<Vec<Visit>, P>, clock: &AtomicUsize) {
    let mut lock = pin!(mutex.lock());
    let (mut began, mut queued) = (None, usize::MAX);
    let mut guard = poll_fn(|cx| {
        let first = began.is_none();
        began.get_or_insert_with(|| clock.fetch_add(1, SeqCst));
        let poll = lock.as_mut().poll(cx);
        if first && poll.is_pending() {
            queued = clock.fetch_add(1, SeqCst);
        }
        poll
    })
    .await;
    let acquired = clock.fetch_add(1, SeqCst);
    guard.push(Visit { began: began.unwrap(), queued, acquired });
}

/// For each visit, how many that began after it had queued got the lock before it.
fn overtakes(visits: &[Visit]) -> usize {
    let overtaken = |(at, visit): (usize, &Visit)| {
        let later = visits[..at].iter().rev().take_while(|other| other.acquired > visit.queued);
        later.filter(|other| other.began > visit.queued).count()
    };
    visits.iter().enumerate().map(overtaken).max().unwrap_or(0)
}

/// S0-14, S3-28: a waiter that had queued before another began is served before it; with `Bypass`, but for the bound.
fn order<P: Policy>(threads: usize, bound: impl Fn(usize) -> usize) {
    for_a_while(threads, |stress| {
        let mutex: Arc<Mutex<Vec<Visit>, P>> = Arc::new(Mutex::with_policy(Vec::new()));
        let clock = Arc::new(AtomicUsize::new(0));
        let outcome: Outcome = stress.run(|_| {
            let (mutex, clock) = (mutex.clone(), clock.clone());
            Box::pin(async move { visit(&mutex, &clock).await })
        });
        let visits = mutex.try_lock().unwrap();
        assert!(visits.len() >= outcome.completed);
        let (most, bound) = (overtakes(&visits), bound(stress.tasks));
        assert!(most <= bound, "overtaken {most} times, the bound is {bound}");
    });
}

#[test]
fn fifo_keeps_the_order() {
    order::<Fifo>(2, |_| 0);
    order::<Fifo<false>>(8, |_| 0);
}

/// Tasks that wait by one future each.
#[test]
fn revocable_keeps_the_order() {
    order::<Revocable>(2, |_| 0);
    order::<Revocable<false>>(8, |_| 0);
}

/// (waiters ahead + 1) x (N + 1) acquisitions, where at most all other tasks are ahead.
#[test]
fn bypass_keeps_its_bound() {
    order::<Bypass<0>>(2, |_| 0);
    order::<Bypass<1>>(2, |tasks| tasks * 2);
    order::<Bypass<3>>(8, |tasks| tasks * 4);
}

/// An auto event that starts set is a lock: the task that gets the signal gives it back, dropped or not. None is lost, none
/// is doubled.
fn signal(threads: usize) {
    struct GiveBack<'e>(&'e Event);
    impl Drop for GiveBack<'_> {
        fn drop(&mut self) {
            self.0.set();
        }
    }
    for_a_while(threads, |stress| {
        let event = Arc::new(Event::new(Reset::Auto, true));
        let inside = Arc::new(AtomicBool::new(false));
        stress.run(|turn| {
            let (event, inside) = (event.clone(), inside.clone());
            Box::pin(async move {
                event.wait().await;
                let _back = GiveBack(&event);
                let _inside = Inside::enter(&inside);
                if turn.round % 3 == 0 {
                    yield_now().await;
                }
            })
        });
        assert!(event.is_set(), "the signal was lost");
        assert_eq!(Arc::strong_count(&event), 1);
    });
}

#[test]
fn auto_event_on_2_threads() {
    signal(2);
}

#[test]
fn auto_event_on_8_threads() {
    signal(8);
}

/// Waits for this round of a gate that one task opens; all get through, whenever they came.
fn gate(threads: usize) {
    for_a_while(threads, |stress| {
        let events: Arc<Vec<Event>> = Arc::new((0..stress.rounds).map(|_| Event::manual()).collect());
        let passed = Arc::new(AtomicUsize::new(0));
        let stress = Stress { tasks: scaled(60, 4), rounds: stress.rounds / 4, ..stress };
        let outcome = stress.run(|turn| -> BoxFuture<()> {
            let (events, passed) = (events.clone(), passed.clone());
            if turn.task == 0 {
                // Opened with the future, also if that is dropped before its first poll.
                return Box::pin(Opener { events, round: turn.round });
            }
            Box::pin(async move {
                events[turn.round].wait().await;
                passed.fetch_add(1, Relaxed);
            })
        });
        assert!(passed.load(Relaxed) + stress.rounds >= outcome.completed, "{outcome:?}");
        assert!(events[..stress.rounds].iter().all(Event::is_set));
    });
}

struct Opener {
    events: Arc<Vec<Event>>,
    round: usize,
}

impl Future for Opener {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.events[self.round].set();
    }
}

#[test]
fn manual_event_on_2_threads() {
    gate(2);
}

#[test]
fn manual_event_on_8_threads() {
    gate(8);
}
