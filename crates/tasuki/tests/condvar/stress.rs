//! Producers and consumers on threads; consumers block, are cancelled, run out of time. A lost notification is a hang. And many waiters at
//! once. B031, B035, B059, B083, H2, H7, H9, H14. `TASUKI_STRESS_SECONDS=600` makes it long.

use crate::kit::alloc::allocations;
use crate::kit::fixture::{Wakes, on_a_small_stack};
use crate::kit::poll::{poll_with, ready};
use crate::kit::process::alone;
use crate::kit::rng::{Rng, Seed};
use crate::kit::watchdog::{watchdog, watchdog_with};
use crate::kit::{VERY_MANY, scaled, stress_time};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tasuki::future::WaitNotified;
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{CancellationSource, Condvar, Mutex, MutexGuard};

/// What is produced and not yet consumed.
#[derive(Default)]
struct Shelf {
    items: usize,
    closed: bool,
}

struct Shop<P: Policy> {
    shelf: Mutex<Shelf, P>,
    changed: Condvar,
    consumed: AtomicUsize,
}

fn is_idle(shelf: &mut Shelf) -> bool {
    shelf.items == 0 && !shelf.closed
}

/// Takes what is there; true when there will be no more.
fn take<P: Policy>(shop: &Shop<P>, mut shelf: MutexGuard<'_, Shelf, P>) -> bool {
    if shelf.items > 0 {
        shelf.items -= 1;
        shop.consumed.fetch_add(1, Relaxed);
    }
    shelf.closed && shelf.items == 0
}

fn consume<P: Policy>(shop: &Shop<P>, mut rng: Rng) {
    let source = CancellationSource::new();
    let token = source.token();
    loop {
        let shelf = shop.shelf.lock().block();
        let wait = shop.changed.wait_while(shelf, is_idle);
        let taken = match rng.below(4) {
            0 => Some(wait.block()),
            // Polled, and given up wherever it is by then.
            1 => {
                let mut wait = pin!(wait);
                let mut cx = Context::from_waker(Waker::noop());
                let mut poll = wait.as_mut().poll(&mut cx);
                for _ in 0..rng.below(50) {
                    std::hint::spin_loop();
                }
                if poll.is_pending() && rng.below(2) == 0 {
                    poll = wait.as_mut().poll(&mut cx);
                }
                match poll {
                    std::task::Poll::Ready(shelf) => Some(shelf),
                    std::task::Poll::Pending => None,
                }
            }
            2 if !cfg!(miri) => wait.timeout(Duration::from_micros(rng.below(2_000) as u64)).block().ok(),
            _ => wait.or_cancelled(&token).block().ok(),
        };
        if taken.is_some_and(|shelf| take(shop, shelf)) {
            return;
        }
    }
}

fn produce<P: Policy>(shop: &Shop<P>, items: usize, mut rng: Rng) {
    for _ in 0..items {
        let mut shelf = shop.shelf.lock().block();
        let count = 1 + rng.below(3);
        shelf.items += count;
        let locked = rng.below(2) == 0;
        let shelf = locked.then_some(shelf);
        if rng.below(3) == 0 {
            shop.changed.notify_all();
        } else {
            (0..count).for_each(|_| shop.changed.notify_one());
        }
        drop(shelf);
    }
}

fn stress<P: Policy>(producers: usize, consumers: usize) {
    let time = stress_time();
    let seed = Seed::pick();
    let _dog = watchdog_with(time.as_secs() + 60, format!("TASUKI_SEED={}", seed.0));
    let (began, mut rng) = (Instant::now(), seed.rng());
    loop {
        let shop: Shop<P> = Shop {
            shelf: Mutex::with_policy(Shelf::default()),
            changed: Condvar::new(),
            consumed: AtomicUsize::new(0),
        };
        let produced = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..consumers {
                let (shop, rng) = (&shop, Rng::new(rng.next()));
                scope.spawn(move || consume(shop, rng));
            }
            let producing: Vec<_> = (0..producers)
                .map(|_| {
                    let (shop, rng) = (&shop, Rng::new(rng.next()));
                    scope.spawn(move || produce(shop, scaled(200, 5), rng))
                })
                .collect();
            producing.into_iter().for_each(|producer| producer.join().unwrap());
            let mut shelf = shop.shelf.lock().block();
            produced.store(shelf.items + shop.consumed.load(Relaxed), Relaxed);
            shelf.closed = true;
            drop(shelf);
            shop.changed.notify_all();
        });
        assert_eq!(shop.consumed.load(Relaxed), produced.load(Relaxed));
        assert!(!shop.shelf.is_locked());
        if cfg!(miri) || began.elapsed() >= time {
            return;
        }
    }
}

#[test]
fn stress_fifo() {
    stress::<Fifo>(2, 3);
}

#[test]
fn stress_lifo() {
    stress::<Lifo>(1, 4);
}

#[test]
fn stress_revocable() {
    stress::<Revocable>(2, 3);
}

#[test]
fn stress_bypass() {
    stress::<Bypass>(2, 3);
    stress::<Bypass<1>>(2, 3);
}

/// Two threads by turns: each notification is for the one that waits.
#[test]
fn ping_pong() {
    let _dog = watchdog(60);
    let (turn, changed) = (Mutex::new(0_usize), Condvar::new());
    let rounds = scaled(5_000, 20);
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (turn, changed) = (&turn, &changed);
            scope.spawn(move || {
                for _ in 0..rounds {
                    let mut guard = changed.wait_while(turn.lock().block(), |turn| *turn % 2 != me).block();
                    *guard += 1;
                    drop(guard);
                    changed.notify_one();
                }
            });
        }
    });
    assert_eq!(turn.into_inner(), 2 * rounds);
}

fn very_many<'c>(
    mutex: &'c Mutex<usize>,
    condvar: &'c Condvar,
    waker: &Waker,
) -> Vec<Pin<Box<WaitNotified<'c, &'c Mutex<usize>>>>> {
    let wait = |_| {
        let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
        assert!(poll_with(&mut wait, waker).is_pending());
        wait
    };
    (0..VERY_MANY).map(wait).collect()
}

/// Very many are notified: by one call, which wakes one at a time, and by as many, which wake one each. None is left.
#[test]
fn very_many_waiters() {
    alone(|| {
        let _dog = watchdog(120);
        for all in [true, false] {
            on_a_small_stack(move || {
                let (mutex, condvar) = (Mutex::new(0_usize), Condvar::new());
                let wakes = Arc::new(Wakes::default());
                let waker = Waker::from(wakes.clone());
                let mut waiting = very_many(&mutex, &condvar, &waker);
                if all {
                    condvar.notify_all();
                } else {
                    (0..VERY_MANY).for_each(|_| condvar.notify_one());
                }
                for (number, wait) in waiting.iter_mut().enumerate() {
                    assert_eq!(wakes.0.load(Relaxed), if all { number + 1 } else { VERY_MANY });
                    *ready(wait) += 1;
                }
                assert_eq!(*mutex.try_lock().unwrap(), VERY_MANY);
                assert_eq!(Arc::strong_count(&wakes), 2);
            });
        }
    });
}

/// Very many waiters are cancelled: while they wait, and one after the other with a notification that goes through all of them.
#[test]
fn very_many_cancelled() {
    alone(|| {
        let seed = Seed::pick();
        let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
        let mut rng = seed.rng();
        on_a_small_stack(move || {
            let (mutex, condvar) = (Mutex::new(0_usize), Condvar::new());
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(wakes.clone());
            for notified in [false, true] {
                let mut waiting = very_many(&mutex, &condvar, &waker);
                if notified {
                    condvar.notify_one();
                } else {
                    rng.shuffle(&mut waiting);
                }
                drop(waiting);
                let expected = if notified { VERY_MANY } else { 0 };
                assert_eq!((wakes.0.load(Relaxed), Arc::strong_count(&wakes)), (expected, 2));
            }
            assert!(!mutex.is_locked());
        });
    });
}

#[test]
fn no_allocation() {
    let _dog = watchdog(30);
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let mut cx = Context::from_waker(Waker::noop());
    let mut wait_and_move = || {
        *mutex.try_lock().unwrap() = 0;
        let mut a = pin!(condvar.wait(mutex.try_lock().unwrap()));
        assert!(a.as_mut().poll(&mut cx).is_pending());
        let mut b = pin!(condvar.wait_while(mutex.try_lock().unwrap(), |n| *n == 0));
        assert!(b.as_mut().poll(&mut cx).is_pending());
        *mutex.try_lock().unwrap() = 1;
        condvar.notify_all();
        assert!(a.as_mut().poll(&mut cx).is_ready());
        assert!(b.as_mut().poll(&mut cx).is_ready());
    };
    // Where deadlocks are looked for, the first notified waiter of a process starts the thread that does.
    wait_and_move();
    let (count, ()) = allocations(wait_and_move);
    assert_eq!(count, 0, "{count} allocations");
}
