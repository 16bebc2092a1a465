//! Many waiters, a small stack, no allocation, no cost that grows with the queue; and threads with futures dropped at random.
//! S3-13..S3-16, S3-24; B055, B059, B083, B089, H2, H9, H14. `TASUKI_STRESS_SECONDS=600` makes the stress long.

use crate::kit::alloc::allocations;
use crate::kit::fixture::{Wakes, on_a_small_stack};
use crate::kit::poll::{BoxFuture, poll_with, yield_now};
use crate::kit::process::alone;
use crate::kit::rng::Seed;
use crate::kit::stress::Stress;
use crate::kit::watchdog::{watchdog, watchdog_with};
use crate::kit::{VERY_MANY, scaled, stress_time};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tasuki::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};

/// So many futures, all pending.
macro_rules! queue {
    ($count:expr, $waker:expr, $new:expr) => {
        (0..$count)
            .map(|_| {
                let mut future = Box::pin($new);
                assert!(poll_with(&mut future, $waker).is_pending());
                future
            })
            .collect::<Vec<_>>()
    };
}

#[track_caller]
fn ready<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> F::Output {
    crate::kit::poll::ready(future)
}

#[test]
fn very_many_readers_enter_together() {
    alone(|| {
        let _dog = watchdog(120);
        on_a_small_stack(|| {
            let (lock, wakes) = (RwLock::new(0), Arc::new(Wakes::default()));
            let waker = Waker::from(wakes.clone());
            let writer = lock.try_write();
            let mut readers = queue!(VERY_MANY, &waker, lock.read());
            drop(writer);
            assert_eq!(wakes.0.load(Relaxed), VERY_MANY);
            let guards: Vec<_> = readers.iter_mut().map(ready).collect();
            assert!(lock.try_write().is_none());
            drop(guards);
            assert!(lock.try_write().is_some());
            assert_eq!(Arc::strong_count(&wakes), 2);
        });
    });
}

/// Writers and readers by turns: each is served, one wake each; and a chain of grants that are dropped unpolled.
#[test]
fn very_many_by_turns() {
    alone(|| {
        let _dog = watchdog(120);
        on_a_small_stack(|| {
            let (lock, wakes) = (RwLock::new(0), Arc::new(Wakes::default()));
            let waker = Waker::from(wakes.clone());
            let mut holder = lock.try_write();
            let mut writers = queue!(VERY_MANY / 2, &waker, lock.write());
            let mut readers = queue!(VERY_MANY / 2, &waker, lock.read());
            for writer in &mut writers {
                drop(holder.take());
                holder = Some(ready(writer));
            }
            drop(holder);
            assert_eq!(wakes.0.load(Relaxed), VERY_MANY);
            readers.iter_mut().for_each(|reader| drop(ready(reader)));
            let holder = lock.try_write();
            let writers = queue!(VERY_MANY, &waker, lock.write());
            drop(holder);
            drop(writers);
            assert_eq!(wakes.0.load(Relaxed), 2 * VERY_MANY);
            assert!(lock.try_write().is_some());
        });
    });
}

#[test]
fn very_many_cancelled() {
    alone(|| {
        let seed = Seed::pick();
        let _dog = watchdog_with(120, format!("TASUKI_SEED={}", seed.0));
        let mut rng = seed.rng();
        on_a_small_stack(move || {
            let (lock, wakes) = (RwLock::new(0), Arc::new(Wakes::default()));
            let waker = Waker::from(wakes.clone());
            let holder = lock.try_write();
            let mut writers = queue!(VERY_MANY / 3, &waker, lock.write());
            let mut readers = queue!(VERY_MANY / 3, &waker, lock.read());
            let upgradable = queue!(VERY_MANY / 3, &waker, lock.upgradable_read());
            rng.shuffle(&mut writers);
            rng.shuffle(&mut readers);
            drop((readers, upgradable, writers));
            assert_eq!((wakes.0.load(Relaxed), Arc::strong_count(&wakes)), (0, 2));
            drop(holder);
            assert!(lock.try_write().is_some());
        });
    });
}

/// Upgradable readers one after the other, each of which writes: every release finds the next at once.
#[test]
fn very_many_upgradable_readers() {
    alone(|| {
        let _dog = watchdog(120);
        on_a_small_stack(|| {
            let lock = RwLock::new(0);
            let mut holder = lock.try_upgradable_read();
            let mut waiting = queue!(VERY_MANY, Waker::noop(), lock.upgradable_read());
            for next in &mut waiting {
                let held = holder.take().unwrap();
                let mut writer = RwLockUpgradableReadGuard::try_upgrade(held).unwrap();
                *writer += 1;
                drop(writer);
                holder = Some(ready(next));
                // A reader enters beside it, and leaves: that is no reason to look through the queue.
                drop(lock.try_read().unwrap());
            }
            drop(holder);
            assert_eq!(*lock.try_read().unwrap(), VERY_MANY);
        });
    });
}

/// The same after a plain reader has waited among them: it is looked for until it is found, and no longer.
#[test]
fn upgradable_readers_behind_a_reader() {
    alone(|| {
        let _dog = watchdog(60);
        let lock = RwLock::new(0);
        let writer = lock.try_write();
        let mut waiting = queue!(VERY_MANY / 5, Waker::noop(), lock.upgradable_read());
        let mut reader = queue!(1, Waker::noop(), lock.read());
        drop(writer);
        drop(ready(&mut reader[0]));
        for next in &mut waiting {
            drop(ready(next));
        }
        assert!(lock.try_write().is_some());
    });
}

/// Readers leave one by one while upgradable readers are queued, and behind them a writer and a reader: that one cannot be let in
/// before the writer, so it is not looked for.
#[test]
fn upgradable_readers_before_a_writer() {
    alone(|| {
        let _dog = watchdog(120);
        on_a_small_stack(|| {
            let count = VERY_MANY / 10;
            let (lock, wakes) = (RwLock::new(0), Arc::new(Wakes::default()));
            let waker = Waker::from(wakes.clone());
            let inside: Vec<_> = (0..count).map(|_| lock.try_read().unwrap()).collect();
            let holder = lock.try_upgradable_read().unwrap();
            let upgradable = queue!(count, &waker, lock.upgradable_read());
            let mut writer = queue!(1, &waker, lock.write());
            let mut reader = queue!(1, &waker, lock.read());
            drop(inside);
            assert_eq!(wakes.0.load(Relaxed), 0, "none could be served");
            drop(holder);
            assert_eq!(wakes.0.load(Relaxed), 1, "the next upgradable reader");
            drop(upgradable);
            drop(ready(&mut writer[0]));
            drop(ready(&mut reader[0]));
            assert!(lock.try_write().is_some());
        });
    });
}

/// Nothing that the lock does allocates.
#[test]
fn no_allocation() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let mut cx = Context::from_waker(Waker::noop());
    let (count, ()) = allocations(|| {
        let writer = lock.try_write().unwrap();
        let mut reads = [(); 40].map(|()| lock.read());
        let mut upgradable = pin!(lock.upgradable_read());
        let mut write = pin!(lock.write());
        for read in &mut reads {
            // SAFETY: they are not moved before they are dropped.
            assert!(unsafe { std::pin::Pin::new_unchecked(read) }.poll(&mut cx).is_pending());
        }
        assert!(upgradable.as_mut().poll(&mut cx).is_pending());
        assert!(write.as_mut().poll(&mut cx).is_pending());
        drop(RwLockWriteGuard::downgrade(writer));
        for read in &mut reads {
            // SAFETY: as above.
            assert!(unsafe { std::pin::Pin::new_unchecked(read) }.poll(&mut cx).is_ready());
        }
        let Poll::Ready(guard) = upgradable.as_mut().poll(&mut cx) else { panic!("granted") };
        let mut upgrade = pin!(RwLockUpgradableReadGuard::upgrade(guard));
        assert!(upgrade.as_mut().poll(&mut cx).is_ready());
        assert!(write.as_mut().poll(&mut cx).is_ready());
    });
    assert_eq!(count, 0, "{count} allocations");
}

/// Who is inside, and that they may be.
#[derive(Default)]
struct Inside {
    readers: AtomicIsize,
    upgradable: AtomicIsize,
    writers: AtomicIsize,
}

/// Counts a holder as inside for as long as it lives.
struct Entry<'s>(&'s AtomicIsize);

impl<'s> Entry<'s> {
    fn new(count: &'s AtomicIsize, excluded: &[&AtomicIsize]) -> Self {
        let before = count.fetch_add(1, SeqCst);
        for other in excluded {
            let limit = if std::ptr::eq(*other, count) { before } else { other.load(SeqCst) };
            assert_eq!(limit, 0, "they exclude each other");
        }
        Self(count)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

async fn visit(lock: &RwLock<u64>, inside: &Inside, writes: &AtomicUsize, kind: usize) {
    let Inside { readers, upgradable, writers } = inside;
    match kind % 8 {
        0..4 => {
            let _guard = lock.read().await;
            let _entry = Entry::new(readers, &[writers]);
            yield_now().await;
        }
        4 => {
            let mut guard = lock.write().await;
            let entry = Entry::new(writers, &[writers, readers, upgradable]);
            *guard += 1;
            writes.fetch_add(1, Relaxed);
            yield_now().await;
            drop(entry);
            let _guard = RwLockWriteGuard::downgrade(guard);
            let _entry = Entry::new(readers, &[writers]);
            yield_now().await;
        }
        5 => {
            let mut guard = lock.write().await;
            let _entry = Entry::new(writers, &[writers, readers, upgradable]);
            *guard += 1;
            writes.fetch_add(1, Relaxed);
        }
        _ => {
            let guard = lock.upgradable_read().await;
            let entry = Entry::new(upgradable, &[upgradable, writers]);
            let seen = *guard;
            yield_now().await;
            drop(entry);
            if kind % 2 == 0 {
                return;
            }
            let mut guard = RwLockUpgradableReadGuard::upgrade(guard).await;
            let _entry = Entry::new(writers, &[writers, readers, upgradable]);
            assert_eq!(*guard, seen, "a writer came in between");
            *guard += 1;
            writes.fetch_add(1, Relaxed);
        }
    }
}

fn stress(threads: usize) {
    let time = stress_time();
    let seed = Seed::pick();
    let _dog = watchdog_with(time.as_secs() + 60, format!("TASUKI_SEED={}", seed.0));
    let (began, mut rng) = (Instant::now(), seed.rng());
    loop {
        let lock = Arc::new(RwLock::new(0));
        let (inside, writes) = (Arc::new(Inside::default()), Arc::new(AtomicUsize::new(0)));
        let stress = Stress {
            threads,
            tasks: scaled(24, 4),
            rounds: scaled(100, 4),
            cancel_per_mille: 300,
            seed: rng.next(),
        };
        stress.run(|turn| -> BoxFuture<()> {
            let (lock, inside, writes) = (lock.clone(), inside.clone(), writes.clone());
            let kind = turn.task + 3 * turn.round;
            Box::pin(async move { visit(&lock, &inside, &writes, kind).await })
        });
        assert_eq!(
            *lock.try_write().expect("left locked") as usize,
            writes.load(Relaxed),
            "a write was lost"
        );
        assert_eq!(Arc::strong_count(&lock), 1);
        if cfg!(miri) || began.elapsed() >= time {
            return;
        }
    }
}

#[test]
fn stress_on_2_threads() {
    stress(2);
}

#[test]
fn stress_on_8_threads() {
    stress(8);
}

/// Threads that block and tasks that wait are in one queue.
#[test]
fn threads_block_in_the_same_queue() {
    let _dog = watchdog(60);
    let lock = RwLock::new(0_usize);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let lock = &lock;
            scope.spawn(move || {
                for round in 0..scaled(2_000, 10) {
                    match (thread + round) % 3 {
                        0 => *lock.write().block() += 1,
                        1 => drop(lock.read().block()),
                        _ => {
                            let guard = lock.upgradable_read().block();
                            let seen = *guard;
                            let mut guard = RwLockUpgradableReadGuard::upgrade(guard).block();
                            assert_eq!(*guard, seen);
                            *guard += 1;
                        }
                    }
                }
            });
        }
    });
    let expected = (0..4).flat_map(|thread| (0..scaled(2_000, 10)).map(move |round| (thread + round) % 3));
    assert_eq!(lock.into_inner(), expected.filter(|kind| *kind != 1).count());
}
