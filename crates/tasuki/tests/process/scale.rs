//! A million waiters (in debug builds mostly 100,000), a small stack, and no cost that grows with the queue.
//! S0-19, S2-44, S2-54, S2-64, S2-76, S3-13..S3-16; B083, H9, H14.

use crate::kit::fixture::{Wakes, on_a_small_stack};
use crate::kit::policy::Known;
use crate::kit::poll::poll_with;
use crate::kit::process::alone;
use crate::kit::rng::Seed;
use crate::kit::watchdog::{watchdog, watchdog_with};
use crate::kit::{VERY_MANY, fewer_under_tsan, scaled};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use tasuki::future::Lock;
use tasuki::policy::{Bypass, Fifo, Lifo, Revocable};
use tasuki::{Barrier, CancellationSource, Event, Mutex, OnceCell, WaitGroup};

/// So many that a scan of the queue for each of them would take hours.
const MILLION: usize = fewer_under_tsan(scaled(1_000_000, 300), 100_000);

type Waiters<'m, P> = Vec<Option<Pin<Box<Lock<'m, u32, P>>>>>;

fn queue<'m, P: Known>(mutex: &'m Mutex<u32, P>, count: usize, waker: &Waker) -> Waiters<'m, P> {
    let mut waiters: Waiters<'m, P> = Vec::with_capacity(count);
    for _ in 0..count {
        let mut future = Box::pin(mutex.lock());
        assert!(poll_with(&mut future, waker).is_pending());
        waiters.push(Some(future));
    }
    waiters
}

/// All get the lock, in order, one wake each.
fn granted<P: Known>(count: usize) {
    on_a_small_stack(move || {
        let (mutex, wakes) = (Mutex::<u32, P>::with_policy(0), Arc::new(Wakes::default()));
        let waker = Waker::from(wakes.clone());
        let mut guard = mutex.try_lock();
        let mut waiters = queue(&mutex, count, &waker);
        for (before, turn) in P::service(count).into_iter().enumerate() {
            drop(guard.take());
            assert_eq!(wakes.0.load(Relaxed), before + 1);
            let mut future = waiters[turn].take().unwrap();
            let std::task::Poll::Ready(mut next) = poll_with(&mut future, &waker) else {
                panic!("{turn} was granted the lock")
            };
            *next += 1;
            guard = Some(next);
        }
        drop(guard);
        assert_eq!(*mutex.try_lock().unwrap() as usize, count);
        assert_eq!(Arc::strong_count(&wakes), 2);
    });
}

#[test]
fn a_million_granted() {
    alone(|| {
        let _dog = watchdog(120);
        granted::<Fifo>(VERY_MANY);
        granted::<Lifo>(VERY_MANY);
        granted::<Bypass>(VERY_MANY);
        granted::<Revocable>(VERY_MANY);
    });
}

/// All are dropped while waiting, in this order; then the lock works as if they had not been there.
fn cancelled<P: Known>(count: usize, order: impl IntoIterator<Item = usize>) {
    let (mutex, wakes) = (Mutex::<u32, P>::with_policy(0), Arc::new(Wakes::default()));
    let waker = Waker::from(wakes.clone());
    let guard = mutex.try_lock();
    let mut waiters = queue(&mutex, count, &waker);
    order.into_iter().for_each(|turn| waiters[turn] = None);
    drop(guard);
    assert_eq!((wakes.0.load(Relaxed), Arc::strong_count(&wakes)), (0, 2));
    assert!(!mutex.is_locked() && mutex.try_lock().is_some());
}

/// H9, S3-15: no step scans the queue. Half a million steps for each of a million waiters would take hours, and the watchdog
/// ends the test; the lab measures how flat the cost is.
#[test]
fn a_million_cancelled() {
    alone(|| {
        let seed = Seed::pick();
        let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
        let mut random: Vec<usize> = (0..MILLION).collect();
        seed.rng().shuffle(&mut random);
        on_a_small_stack(move || {
            let fewer: Vec<usize> = random.iter().copied().filter(|turn| *turn < VERY_MANY).collect();
            cancelled::<Fifo>(MILLION, random);
            cancelled::<Fifo>(VERY_MANY, 0..VERY_MANY);
            cancelled::<Fifo>(VERY_MANY, (0..VERY_MANY).rev());
            cancelled::<Lifo>(VERY_MANY, fewer.iter().copied());
            cancelled::<Bypass>(VERY_MANY, fewer);
        });
    });
}

/// The baton passes through a million futures that are dropped as soon as they own it: a chain of cancels.
#[test]
fn a_million_granted_and_dropped() {
    alone(|| {
        let _dog = watchdog(120);
        on_a_small_stack(|| {
            let (mutex, wakes) = (Mutex::<u32>::new(0), Arc::new(Wakes::default()));
            let guard = mutex.try_lock();
            let mut waiters = queue(&mutex, VERY_MANY, &Waker::from(wakes.clone()));
            drop(guard);
            waiters.iter_mut().for_each(|waiter| *waiter = None);
            assert_eq!((wakes.0.load(Relaxed), mutex.is_locked()), (VERY_MANY, false));
        });
    });
}

#[test]
fn a_million_released_at_once() {
    alone(|| {
        let _dog = watchdog(120);
        on_a_small_stack(|| {
            let (event, wakes) = (Event::manual(), Arc::new(Wakes::default()));
            let waker = Waker::from(wakes.clone());
            let mut futures = Vec::with_capacity(VERY_MANY);
            for _ in 0..VERY_MANY {
                let mut future = Box::pin(event.wait());
                assert!(poll_with(&mut future, &waker).is_pending());
                futures.push(future);
            }
            event.set();
            assert_eq!(wakes.0.load(Relaxed), VERY_MANY);
            assert!(futures.iter_mut().all(|future| poll_with(future, &waker).is_ready()));
        });
    });
}

/// H9: from eight threads at once.
#[test]
fn h9_cancel_storm_from_many_threads() {
    alone(|| {
        let _dog = watchdog(60);
        let count = scaled(100_000, 200);
        let (mutex, wakes) = (Mutex::<u32>::new(0), Arc::new(Wakes::default()));
        let guard = mutex.try_lock();
        let mut waiters = queue(&mutex, count, &Waker::from(wakes.clone()));
        std::thread::scope(|scope| {
            for part in waiters.chunks_mut(count.div_ceil(8)) {
                scope.spawn(|| part.iter_mut().for_each(|waiter| *waiter = None));
            }
        });
        drop(guard);
        assert_eq!((wakes.0.load(Relaxed), Arc::strong_count(&wakes)), (0, 1));
        assert!(!mutex.is_locked());
    });
}

/// Queues a million of these waits, releases them with one call, and finds every one ready: one wake each, whatever the number.
fn released<W: Future>(mut wait: impl FnMut() -> W, release: impl FnOnce()) {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut waits: Vec<_> = (0..VERY_MANY).map(|_| Box::pin(wait())).collect();
    waits.iter_mut().for_each(|wait| assert!(poll_with(wait, &waker).is_pending()));
    release();
    assert_eq!(wakes.0.load(Relaxed), VERY_MANY);
    waits.iter_mut().for_each(|wait| assert!(poll_with(wait, &waker).is_ready()));
}

/// S2-54, S2-64, S2-76: cost in proportion to the waiters. A quadratic release would outlast the watchdog by hours.
#[test]
fn a_million_waiters_of_a_group_of_a_barrier_and_of_a_token() {
    alone(|| {
        let _dog = watchdog(120);
        on_a_small_stack(|| {
            let group = WaitGroup::new();
            group.add(1);
            released(|| group.wait(), || group.done());
            let source = CancellationSource::new();
            let token = source.token();
            released(|| token.on_cancel(), || source.request_cancel());
            let barrier = Barrier::new(VERY_MANY + 1);
            let last = || {
                let mut last = Box::pin(barrier.arrive_and_wait());
                assert!(poll_with(&mut last, Waker::noop()).is_ready());
            };
            released(|| barrier.arrive_and_wait(), last);
        });
    });
}

/// A failed turn of a cell is not slower because many wait for the value: 20,000 walks past all of them would outlast the watchdog. And
/// the initialisers among them have their turns in the order in which they came.
#[test]
fn failed_turns_beside_many_waiters_for_the_value() {
    alone(|| {
        const FAILS: usize = scaled(20_000, 30);
        let _dog = watchdog(60);
        let cell = OnceCell::<usize>::new();
        let many = fewer_under_tsan(scaled(300_000, 300), 30_000);
        let mut waits: Vec<_> = (0..many).map(|_| Box::pin(cell.wait())).collect();
        waits.iter_mut().for_each(|wait| assert!(poll_with(wait, Waker::noop()).is_pending()));
        for _ in 0..FAILS {
            let mut fails = Box::pin(cell.get_or_try_init(async || Err::<usize, ()>(())));
            assert!(poll_with(&mut fails, Waker::noop()).is_ready());
        }
        let mut holder = Box::pin(cell.get_or_init(async || std::future::pending().await));
        assert!(poll_with(&mut holder, Waker::noop()).is_pending());
        let mut turns: Vec<_> =
            (0..10).map(|n| Box::pin(cell.get_or_try_init(async move || Err::<usize, _>(n)))).collect();
        for turn in &mut turns {
            assert!(poll_with(turn, Waker::noop()).is_pending());
            let mut wait = Box::pin(cell.wait());
            assert!(poll_with(&mut wait, Waker::noop()).is_pending());
            waits.push(wait);
        }
        drop(holder);
        for (n, turn) in turns.iter_mut().enumerate() {
            assert_eq!(poll_with(turn, Waker::noop()), std::task::Poll::Ready(Err(n)));
        }
        assert_eq!(cell.set(7), Ok(()));
        waits
            .iter_mut()
            .for_each(|wait| assert_eq!(poll_with(wait, Waker::noop()), std::task::Poll::Ready(&7)));
    });
}
