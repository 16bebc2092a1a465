//! Deadlines and tokens on waits (S2-65, S3-19, S3-23): what was granted is returned, what was not is cancelled.
//! With the shared timer, whose thread never ends; `each.rs` has no need of it.

use crate::kit::driver::FakeDriver;
use crate::kit::panics::panics_in;
use crate::kit::poll::{panic_of, pending, poll_with, ready};
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tasuki::runtime::{self, Driver, TaskId, Timers};
use tasuki::{
    Barrier, CancellationSource, CancellationToken, Cancelled, Condvar, Elapsed, Event, Latch, Mutex,
    OnceCell, ReentrantMutex, Reset, RwLock, RwLockUpgradableReadGuard, Semaphore, WaitGroup,
};

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(600);

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls until it is ready; the timer thread may be late on a busy machine.
fn poll_until_ready<F: Future>(mut future: std::pin::Pin<&mut F>) -> F::Output {
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// S3-19, S3-23: a lock that is not to be had in time.
#[test]
fn a_timeout_ends_the_wait_and_not_earlier() {
    let _dog = watchdog(30);
    let mutex = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    let begun = Instant::now();
    assert_eq!(mutex.lock_for(SHORT).block().unwrap_err(), Elapsed);
    assert!(begun.elapsed() >= SHORT);
    // By a clock that the test moves: not a moment earlier.
    let driver = FakeDriver::with_timers(&Arc::new(Timers::new(Waker::noop().clone())));
    let (mut lock, spy) = (Box::pin(mutex.lock_for(LONG)), Spy::new());
    runtime::enter(&driver, || pending(&mut lock, &spy));
    driver.pass(LONG - SHORT);
    pending(&mut lock, &spy);
    assert_eq!(spy.wakes(), 0, "the time is not over");
    driver.pass(2 * SHORT);
    assert_eq!(spy.wakes(), 1);
    assert_eq!(ready(&mut lock).unwrap_err(), Elapsed);
    drop(guard);
    assert!(mutex.try_lock().is_some(), "the withdrawn wait holds nothing");
}

#[test]
fn what_is_free_is_had_in_no_time() {
    let _dog = watchdog(30);
    let mutex = Mutex::new(0);
    drop(mutex.lock().timeout(Duration::ZERO).block().unwrap());
    drop(mutex.lock().deadline(Instant::now()).block().unwrap());
}

#[test]
fn a_time_that_no_clock_reaches_never_ends() {
    let _dog = watchdog(30);
    let event = Event::auto();
    let mut wait = pin!(event.wait().timeout(Duration::MAX));
    assert!(poll(wait.as_mut()).is_pending());
    std::thread::sleep(SHORT);
    assert!(poll(wait.as_mut()).is_pending());
    event.set();
    assert_eq!(poll(wait.as_mut()), Poll::Ready(Ok(())));
}

/// A grant between the last poll and the end of the time is returned, not thrown away.
#[test]
fn a_grant_at_the_last_moment_is_returned() {
    let _dog = watchdog(30);
    let mutex = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    let mut wait = pin!(mutex.lock().timeout(SHORT));
    assert!(poll(wait.as_mut()).is_pending());
    drop(guard);
    std::thread::sleep(4 * SHORT);
    assert!(matches!(poll(wait.as_mut()), Poll::Ready(Ok(_))), "granted before the look at the clock");
}

#[test]
fn a_withdrawn_wait_lets_the_next_one_in() {
    let _dog = watchdog(30);
    let semaphore = Semaphore::new(1);
    let mut big = pin!(semaphore.acquire_many(2).timeout(SHORT));
    assert!(poll(big.as_mut()).is_pending());
    let mut small = pin!(semaphore.acquire());
    assert!(poll(small.as_mut()).is_pending(), "behind the big one");
    assert!(matches!(poll_until_ready(big.as_mut()), Err(Elapsed)));
    assert!(matches!(poll(small.as_mut()), Poll::Ready(Ok(_))));
}

/// B097: one documented outcome for a token that is cancelled already.
#[test]
fn a_cancelled_token_leaves_the_primitive_untouched() {
    let _dog = watchdog(30);
    let source = CancellationSource::new();
    source.request_cancel();
    let token = source.token();
    let mutex = Mutex::new(0);
    for _ in 0..scaled(1_000, 10) {
        assert_eq!(mutex.lock().or_cancelled(&token).block().unwrap_err(), Cancelled);
        assert!(!mutex.is_locked());
    }
}

#[test]
fn a_token_ends_a_wait() {
    let _dog = watchdog(30);
    let source = CancellationSource::new();
    let token = source.token();
    let mutex = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    let mut wait = pin!(mutex.lock().or_cancelled(&token));
    assert!(poll(wait.as_mut()).is_pending());
    source.request_cancel();
    assert!(matches!(poll(wait.as_mut()), Poll::Ready(Err(Cancelled))));
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_grant_wins_over_a_token_that_was_cancelled_later() {
    let _dog = watchdog(30);
    let source = CancellationSource::new();
    let token = source.token();
    let mutex = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    let mut wait = pin!(mutex.lock().or_cancelled(&token));
    assert!(poll(wait.as_mut()).is_pending());
    drop(guard);
    source.request_cancel();
    assert!(matches!(poll(wait.as_mut()), Poll::Ready(Ok(_))));
}

#[test]
fn limits_can_be_combined() {
    let _dog = watchdog(30);
    let source = CancellationSource::new();
    let token = source.token();
    let event = Event::auto();
    assert_eq!(event.wait().timeout(SHORT).or_cancelled(&token).block(), Ok(Err(Elapsed)));
    source.request_cancel();
    assert_eq!(event.wait().timeout(LONG).or_cancelled(&token).block(), Err(Cancelled));
}

/// Whichever of two limits ends the wait, the other lets go of its waker in the same poll: it would else wake a task
/// that has gone on.
#[test]
fn the_limit_that_did_not_end_the_wait_is_withdrawn_too() {
    let _dog = watchdog(30);
    let source = CancellationSource::new();
    let token = source.token();
    let (event, spy) = (Event::auto(), Spy::new());
    let waker = spy.waker();
    let mut cx = Context::from_waker(&waker);

    let mut by_time = pin!(event.wait().or_cancelled(&token).timeout(SHORT));
    assert!(by_time.as_mut().poll(&mut cx).is_pending());
    while spy.wakes() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(by_time.as_mut().poll(&mut cx), Poll::Ready(Err(Elapsed)));
    assert_eq!(spy.alive(), 1, "the token has no waker any more");

    let mut by_token = pin!(event.wait().timeout(LONG).or_cancelled(&token));
    assert!(by_token.as_mut().poll(&mut cx).is_pending());
    source.request_cancel();
    assert_eq!(by_token.as_mut().poll(&mut cx), Poll::Ready(Err(Cancelled)));
    assert_eq!(spy.alive(), 1, "the wheel has no waker any more");
}

#[test]
fn polling_after_the_end_panics() {
    let _dog = watchdog(30);
    let event = Event::auto();
    let mut wait = pin!(event.wait().deadline(Instant::now()));
    assert_eq!(poll(wait.as_mut()), Poll::Ready(Err(Elapsed)));
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(wait.as_mut())));
    let message = *again.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("WaitEvent"), "{message}");
}

/// A waiter that is woken by the clock, and never polled otherwise.
#[test]
fn the_timer_wakes() {
    let _dog = watchdog(30);
    let event = Event::auto();
    let begun = Instant::now();
    assert_eq!(event.wait().timeout(4 * SHORT).block(), Err(Elapsed));
    assert!(begun.elapsed() >= 4 * SHORT);
}

#[test]
fn a_hundred_thousand_deadlines_fire_or_are_cancelled() {
    let _dog = watchdog(120);
    let count = scaled(100_000, 50) as u64;
    let event = Event::auto();
    let mut waits: Vec<_> = (0..count)
        .map(|i| {
            Box::pin(event.wait().timeout(if i % 2 == 0 { LONG } else { Duration::from_millis(i % 50) }))
        })
        .collect();
    for wait in &mut waits {
        let _ = poll(wait.as_mut());
    }
    for (i, wait) in waits.iter_mut().enumerate() {
        if i % 2 == 1 {
            assert_eq!(poll_until_ready(wait.as_mut()), Err(Elapsed), "{i}");
        } else {
            assert!(poll(wait.as_mut()).is_pending(), "{i}");
        }
    }
    drop(waits);
    event.set();
    assert!(event.is_set(), "no waiter is left");
}

/// The lock is granted and the token cancelled while the outer of two limits is armed; the inner one, on its way out, meets a
/// waker that panics. What was granted is passed on.
#[test]
fn a_panic_of_the_inner_limit_loses_no_grant() {
    let _dog = watchdog(60);
    for panics in [false, true] {
        let (source, mutex) = (CancellationSource::new(), Arc::new(Mutex::new(0)));
        let token = source.token();
        let held = std::sync::Mutex::new(mutex.clone().try_lock_owned());
        let clones = AtomicUsize::new(0);
        let spy = Spy::hostile(Call::Clone, move || {
            // The wait, the inner limit, the outer limit.
            if clones.fetch_add(1, Ordering::Relaxed) == 2 {
                drop(held.lock().unwrap().take());
                source.request_cancel();
            }
        });
        let drops = AtomicUsize::new(0);
        // The outer limit has no need of its clone; the inner one is next.
        spy.on(Call::Drop, move || {
            let is_inner = drops.fetch_add(1, Ordering::Relaxed) == 1;
            assert!(!(panics && is_inner), "a hostile waker");
        });
        let waker = spy.waker();
        spy.arm(5);
        let mut wait = Box::pin(mutex.lock().timeout(LONG).or_cancelled(&token));
        if panics {
            assert_eq!(panic_of(|| poll_with(&mut wait, &waker).is_ready()), "a hostile waker");
        } else {
            let first = poll_with(&mut wait, &waker);
            assert!(matches!(first, Poll::Ready(Ok(Ok(_)))), "what was granted is returned");
        }
        drop(waker);
        assert_eq!(spy.alive(), 0, "both limits have let go");
        assert!(!mutex.is_locked(), "the lock was lost");
        drop(wait);
    }
}

/// A limit that ends an upgrade gives the upgradable guard back: no writer came in between, and it can be tried again.
#[test]
fn a_limit_gives_the_upgradable_guard_back() {
    let _dog = watchdog(60);
    let (lock, source) = (Arc::new(RwLock::new(1)), CancellationSource::new());
    let token = source.token();
    let reader = lock.try_read().unwrap();
    let upgradable = lock.try_upgradable_read().unwrap();
    let mut writer = Box::pin(lock.write());
    pending(&mut writer, &Spy::new());
    let upgrade = RwLockUpgradableReadGuard::upgrade;
    let ended = ready(&mut Box::pin(upgrade(upgradable).timeout(Duration::ZERO))).unwrap_err();
    assert_eq!((ended.limit, *ended.value, ended.to_string()), (Elapsed, 1, Elapsed.to_string()));
    assert!(lock.try_upgradable_read().is_none(), "it is held still");
    // The inner and the outer of two limits.
    let both = upgrade(ended.value).deadline(Instant::now()).or_cancelled(&token);
    let ended = ready(&mut Box::pin(both)).unwrap().unwrap_err();
    source.request_cancel();
    let both = upgrade(ended.value).timeout(LONG).or_cancelled(&token);
    let ended = ready(&mut Box::pin(both)).unwrap_err();
    assert_eq!(ended.limit, Cancelled);
    // With the reader gone it succeeds, before the writer that waits.
    drop(reader);
    let mut value = ready(&mut Box::pin(upgrade(ended.value).timeout(Duration::ZERO))).unwrap();
    *value += 1;
    drop(value);
    assert_eq!(*ready(&mut writer), 2);
}

/// Where only the limit is of interest, `?` is enough, and what was given back is released.
#[test]
fn what_is_given_back_can_be_left() {
    let lock = RwLock::new(1);
    let upgrade = |deadline: bool| -> Result<(), Box<dyn std::error::Error>> {
        let token = cancelled();
        let wait = RwLockUpgradableReadGuard::upgrade(lock.try_upgradable_read().unwrap());
        if deadline {
            wait.timeout(Duration::ZERO).block().map(drop).map_err(Elapsed::from)?;
        } else {
            wait.or_cancelled(&token).block().map(drop).map_err(Cancelled::from)?;
        }
        Ok(())
    };
    let _reader = lock.try_read().unwrap();
    assert_eq!(upgrade(true).unwrap_err().to_string(), Elapsed.to_string());
    assert_eq!(upgrade(false).unwrap_err().to_string(), Cancelled.to_string());
    assert!(lock.try_upgradable_read().is_some());
}

fn cancelled() -> CancellationToken {
    let source = CancellationSource::new();
    source.request_cancel();
    source.token()
}

/// Every wait has every limit, in any order, and blocks.
#[test]
fn every_wait_has_every_limit() {
    let _dog = watchdog(60);
    let token = CancellationSource::new().token();
    macro_rules! each {
        ($($wait:expr),* $(,)?) => {
            $(_ = $wait.timeout(LONG).or_cancelled(&token).deadline(Instant::now() + LONG).block();)*
        };
    }
    let (mutex, rwlock, semaphore) =
        (Arc::new(Mutex::new(1)), Arc::new(RwLock::new(1)), Arc::new(Semaphore::new(1)));
    let (cell, condvar) = (OnceCell::from(1), Condvar::new());
    each!(
        mutex.lock(),
        mutex.clone().lock_owned(),
        rwlock.read(),
        rwlock.clone().write_owned(),
        RwLockUpgradableReadGuard::upgrade(rwlock.try_upgradable_read().unwrap()),
        semaphore.acquire(),
        semaphore.clone().acquire_owned(),
        Event::new(Reset::Manual, true).wait(),
        Latch::new(0).wait(),
        WaitGroup::new().wait(),
        Barrier::new(1).arrive_and_wait(),
        cell.wait(),
        cell.get_or_init(async || 2),
        cell.get_or_try_init(async || Err(2)),
        condvar.wait_while(mutex.try_lock().unwrap(), |_| false),
        ReentrantMutex::new(1).lock(),
        cancelled().on_cancel(),
        runtime::sleep(Duration::ZERO),
        token.run_until_cancelled(async {}),
    );
}

/// A thread of a runtime, which must not be blocked.
struct Busy;

impl Driver for Busy {
    fn task(&self) -> Option<TaskId> {
        None
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        None
    }

    fn may_block(&self) -> bool {
        false
    }
}

/// The panic of a `.block()` where it must not be called points to the caller.
#[test]
fn a_forbidden_block_blames_its_caller() {
    assert!(panic_of(|| runtime::enter(&Busy, || Latch::new(0).wait().block())).contains("`.block()`"));
    for limited in [false, true] {
        let wait = || {
            if limited {
                Latch::new(0).wait().timeout(LONG).block().unwrap();
            } else {
                Latch::new(0).wait().block();
            }
        };
        assert_eq!(panics_in(|| runtime::enter(&Busy, wait)), file!());
    }
}

/// A limit around a future that a token can end drops the future at once.
#[test]
fn a_limit_drops_the_future_that_it_ends() {
    let _dog = watchdog(60);
    let (token, kept) = (CancellationSource::new().token(), Arc::new(()));
    let inside = kept.clone();
    let never = async move {
        std::future::pending::<()>().await;
        drop(inside);
    };
    let mut wait = Box::pin(token.run_until_cancelled(never).timeout(Duration::ZERO));
    assert_eq!(ready(&mut wait), Err(Elapsed));
    assert_eq!(Arc::strong_count(&kept), 1);
    assert!(panic_of(|| ready(&mut wait)).contains("polled after it was finished"));
}
