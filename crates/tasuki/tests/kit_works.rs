//! The kit itself: a tool that cannot fail proves nothing.

use crate::kit::alloc::allocations;
use crate::kit::poll::{BoxFuture, panic_of, panics};
use crate::kit::rng::{Rng, Seed};
use crate::kit::spec::{Model, System, enumerate};
use crate::kit::stress::Stress;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

#[test]
fn a_spy_counts_clones_wakes_and_drops() {
    let spy = Spy::new();
    let waker = spy.waker();
    let clone = waker.clone();
    assert_eq!((spy.alive(), spy.calls(Call::Clone)), (2, 1));
    clone.wake_by_ref();
    clone.wake();
    assert_eq!((spy.wakes(), spy.alive()), (2, 1));
    drop(waker);
    assert_eq!((spy.alive(), spy.calls(Call::Drop)), (0, 1));
}

#[test]
fn a_hook_runs_as_often_as_it_is_armed_and_may_panic() {
    let spy = Spy::hostile(Call::Clone, || panic!("no clone"));
    let waker = spy.waker();
    drop(waker.clone());
    spy.arm(1);
    assert!(panics(|| waker.clone()));
    assert!(spy.fired());
    drop(waker.clone());
    spy.on(Call::Drop, || panic!("no drop"));
    spy.arm(1);
    assert_eq!(panic_of(|| drop(waker)), "no drop");
    assert_eq!(spy.alive(), 0);
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| std::hint::black_box(Box::new(1_u64))).0, 1);
    assert_eq!(allocations(|| std::hint::black_box(1_u64)).0, 0);
}

#[test]
fn a_seed_makes_a_sequence() {
    let seed = Seed::pick();
    let (mut a, mut b) = (seed.rng(), Rng::new(seed.0));
    assert!((0..100).all(|_| a.next() == b.next()));
    let mut items: Vec<usize> = (0..50).collect();
    a.shuffle(&mut items);
    assert!(items.iter().enumerate().any(|(at, item)| at != *item));
    items.sort_unstable();
    assert!(items.iter().enumerate().all(|(at, item)| at == *item));
}

/// Counts to a limit; a wrong one forgets the limit.
#[derive(Clone)]
struct Counter {
    value: u32,
    limit: u32,
}

impl System for Counter {
    type Op = u32;
    type Seen = u32;

    fn apply(&mut self, op: u32) -> u32 {
        self.value = (self.value + op).min(self.limit);
        self.value
    }
}

impl Model for Counter {
    fn next(&self, ops: &mut Vec<u32>) {
        ops.extend([1, 2]);
    }
}

#[test]
fn an_enumeration_visits_every_string_and_names_the_first_difference() {
    let model = Counter { value: 0, limit: 5 };
    let strings = enumerate("the same", 6, &model, |body| body(&mut Counter { value: 0, limit: 5 }));
    assert_eq!(strings, 64);
    let message =
        panic_of(|| enumerate("another limit", 6, &model, |body| body(&mut Counter { value: 0, limit: 9 })));
    assert!(message.contains("expected 5"), "{message}");
}

/// Pending so many times; wakes itself only if it is honest.
fn countdown(mut left: usize, polls: Arc<AtomicUsize>) -> BoxFuture<()> {
    Box::pin(poll_fn(move |cx| {
        polls.fetch_add(1, SeqCst);
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }))
}

#[test]
fn stress_runs_every_future_and_polls_only_what_was_woken() {
    let _dog = watchdog(60);
    let polls = Arc::new(AtomicUsize::new(0));
    let stress = Stress { threads: 3, tasks: 5, rounds: 20, cancel_per_mille: 0, seed: 1 };
    let outcome = stress.run(|_| countdown(3, polls.clone()));
    assert_eq!((outcome.completed, outcome.cancelled, outcome.polls), (100, 0, 400));
    assert_eq!(polls.load(SeqCst), 400);
    let outcome = Stress { cancel_per_mille: 300, ..stress }.run(|_| countdown(3, polls.clone()));
    assert!(outcome.cancelled > 0 && outcome.completed > 0, "{outcome:?}");
}
