//! Threads, weights and cancellation at random: permits are conserved and never too many are held.
//! `TASUKI_STRESS_ROUNDS` makes it longer. S2-25, S2-28; B009, B079.

use crate::kit::rng::Seed;
use crate::kit::stress::Stress;
use crate::kit::watchdog::watchdog_with;
use crate::kit::{env_or, scaled};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use tasuki::Semaphore;
use tasuki::policy::{Bypass, Fifo, SemaphorePolicy};

const PERMITS: usize = 5;

/// How much is held, as the tasks see it.
#[derive(Debug, Default)]
struct Held(AtomicIsize);

impl Held {
    fn enter(&self, n: usize, limit: usize) {
        let now = self.0.fetch_add(n as isize, SeqCst) + n as isize;
        assert!(now <= limit as isize, "{now} of {limit} are held");
    }

    fn leave(&self, n: usize) {
        self.0.fetch_sub(n as isize, SeqCst);
    }
}

/// Leaves also when its future is dropped in the middle.
struct Entered<'h>(&'h Held, usize);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// Suspends once.
struct Yield(bool);

impl std::future::Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

fn storm<P: SemaphorePolicy>() {
    let seed = Seed::pick();
    let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
    let rounds = env_or("TASUKI_STRESS_ROUNDS", scaled(3_000, 10) as u64) as usize;
    for (threads, cancel_per_mille) in [(2, 0), (2, 300), (4, 500)] {
        let semaphore = Arc::new(Semaphore::<P>::with_policy(PERMITS));
        let (held, tries) = (Arc::new(Held::default()), Arc::new(AtomicUsize::new(0)));
        let stress = Stress { threads, tasks: 12, rounds: rounds / 4 + 1, cancel_per_mille, seed: seed.0 };
        let outcome = stress.run(|turn| {
            let (semaphore, held, tries) = (semaphore.clone(), held.clone(), tries.clone());
            Box::pin(async move {
                let weight = 1 + (turn.task + turn.round) % PERMITS;
                let permit = if (turn.task + turn.round) % 7 == 0 {
                    let Ok(permit) = semaphore.try_acquire_many(weight) else { return };
                    tries.fetch_add(1, SeqCst);
                    permit
                } else {
                    semaphore.acquire_many(weight).await.expect("never closed")
                };
                held.enter(permit.num_permits(), PERMITS);
                let entered = Entered(&held, permit.num_permits());
                Yield(false).await;
                drop(entered);
                drop(permit);
            })
        });
        assert_eq!(semaphore.available_permits(), PERMITS, "{outcome:?}");
        assert_eq!(held.0.load(SeqCst), 0);
        assert_eq!(semaphore.try_acquire_many(PERMITS).unwrap().num_permits(), PERMITS);
    }
}

#[test]
fn fifo() {
    storm::<Fifo>();
}

#[test]
fn bypass() {
    storm::<Bypass<2>>();
    storm::<Bypass>();
}

/// Releases, forgets and cancels from all sides: what was put in and what was taken out add up.
#[test]
fn the_books_balance() {
    let seed = Seed::pick();
    let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
    let rounds = env_or("TASUKI_STRESS_ROUNDS", scaled(20_000, 30) as u64) as usize;
    let semaphore = Semaphore::new(0);
    let (added, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (semaphore, added, removed) = (&semaphore, &added, &removed);
            let mut rng = crate::kit::rng::Rng::new(seed.0.wrapping_add(number));
            scope.spawn(move || {
                let spy = crate::kit::waker::Spy::new();
                for _ in 0..rounds {
                    let n = 1 + rng.below(3);
                    match rng.below(5) {
                        0 => {
                            semaphore.release(n);
                            added.fetch_add(n, SeqCst);
                        }
                        1 => {
                            removed.fetch_add(semaphore.forget_permits(n), SeqCst);
                        }
                        2 => drop(semaphore.try_acquire_many(n)),
                        3 => {
                            if let Ok(permit) = semaphore.try_acquire_many(n) {
                                removed.fetch_add(permit.num_permits(), SeqCst);
                                permit.forget();
                            }
                        }
                        _ => {
                            // Polled once or twice, then dropped in whatever state it is.
                            let mut future = Box::pin(semaphore.acquire_many(n));
                            if crate::kit::poll::poll(&mut future, &spy).is_pending() && n > 1 {
                                drop(crate::kit::poll::poll(&mut future, &spy));
                            }
                        }
                    }
                }
            });
        }
    });
    let left = added.load(SeqCst) - removed.load(SeqCst);
    assert_eq!(semaphore.available_permits(), left);
}

/// A close in the middle of everything: every wait ends, one way or the other.
#[test]
fn close_ends_every_wait() {
    let seed = Seed::pick();
    let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
    for round in 0..scaled(300, 3) as u64 {
        let semaphore = Arc::new(Semaphore::new(2));
        let stress = Stress { threads: 2, tasks: 40, rounds: 3, cancel_per_mille: 100, seed: seed.0 ^ round };
        stress.run(|turn| {
            let semaphore = semaphore.clone();
            Box::pin(async move {
                if turn.task == 20 && turn.round == 1 {
                    semaphore.close();
                }
                if let Ok(permit) = semaphore.acquire_many(1 + turn.task % 2).await {
                    Yield(false).await;
                    drop(permit);
                }
            })
        });
        semaphore.close();
        assert_eq!(semaphore.available_permits(), 2);
    }
}
