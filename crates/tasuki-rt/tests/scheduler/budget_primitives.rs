//! The rows of locks, signals and limits in the table of awaitables (`budget_table.rs`).

use super::budget_table::{ATTEMPTS, ENOUGH, FORGETS, Other, Outcome, Row, is_ready_at_once, is_send, row};
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;
use tasuki::policy::*;
use tasuki::*;
use tasuki_rt::{LoopMutex, now, yield_now};

pub(super) fn rows() -> Vec<Row> {
    [locks(), signals(), limits()].into_iter().flatten().collect()
}

pub(super) fn cancelled() -> CancellationSource {
    let source = CancellationSource::new();
    source.request_cancel();
    source
}

fn locks() -> Vec<Row> {
    vec![
        row!(
            "lock",
            ["Wait", "Single", "Lock"],
            {
                let mutex = Mutex::new(0);
            },
            drop(mutex.lock().await)
        ),
        row!(
            "lock, Lifo",
            [],
            {
                let mutex = Mutex::<_, Lifo>::with_policy(0);
            },
            drop(mutex.lock().await)
        ),
        row!(
            "lock, Bypass",
            [],
            {
                let mutex = Mutex::<_, Bypass>::with_policy(0);
            },
            drop(mutex.lock().await)
        ),
        row!(
            "lock_owned",
            ["LockOwned"],
            {
                let mutex = Arc::new(Mutex::new(0));
            },
            drop(mutex.clone().lock_owned().await)
        ),
        row!(
            "lock, reentrant",
            ["LockReentrant"],
            {
                let mutex = ReentrantMutex::new(0);
            },
            drop(mutex.lock().await.unwrap())
        ),
        row!(
            "lock_owned, reentrant",
            ["LockReentrantOwned"],
            {
                let mutex = Arc::new(ReentrantMutex::new(0));
            },
            drop(mutex.clone().lock_owned().await.unwrap())
        ),
        row!(
            "lock, nested",
            [],
            {
                let mutex = ReentrantMutex::new(0);
                let _outer = mutex.lock().await.unwrap();
            },
            drop(mutex.lock().await.unwrap())
        ),
        row!(
            local "lock, of a loop",
            ["KeyedLock"],
            {
                let mutex = LoopMutex::new(0);
            },
            drop(mutex.lock().await.unwrap())
        ),
        row!(
            "hand_off",
            ["HandOff"],
            {
                let mutex = Mutex::new(0);
            },
            {
                let guard = mutex.try_lock().unwrap();
                MutexGuard::hand_off(guard).await
            }
        ),
        row!(
            "read",
            ["Read"],
            {
                let lock = RwLock::new(0);
            },
            drop(lock.read().await)
        ),
        row!(
            "write",
            ["Write"],
            {
                let lock = RwLock::new(0);
            },
            drop(lock.write().await)
        ),
        row!(
            "upgradable_read",
            ["UpgradableRead"],
            {
                let lock = RwLock::new(0);
            },
            drop(lock.upgradable_read().await)
        ),
        row!(
            "read_owned",
            ["ReadOwned"],
            {
                let lock = Arc::new(RwLock::new(0));
            },
            drop(lock.clone().read_owned().await)
        ),
        row!(
            "write_owned",
            ["WriteOwned"],
            {
                let lock = Arc::new(RwLock::new(0));
            },
            drop(lock.clone().write_owned().await)
        ),
        row!(
            "upgradable_read_owned",
            ["UpgradableReadOwned"],
            {
                let lock = Arc::new(RwLock::new(0));
            },
            drop(lock.clone().upgradable_read_owned().await)
        ),
        row!(
            "upgrade",
            ["Upgrade"],
            {
                let lock = RwLock::new(0);
                let mut writer = Some(lock.write().await);
            },
            {
                let down = RwLockWriteGuard::downgrade_to_upgradable(writer.take().unwrap());
                writer = Some(RwLockUpgradableReadGuard::upgrade(down).await);
            }
        ),
        row!(
            "acquire",
            ["Acquire"],
            {
                let semaphore = Semaphore::new(1);
            },
            drop(semaphore.acquire().await.unwrap())
        ),
        row!(
            "acquire, closed",
            [],
            {
                let semaphore = Semaphore::new(1);
                semaphore.close();
            },
            semaphore.acquire().await.unwrap_err()
        ),
        row!(
            "acquire, nothing",
            [],
            {
                let semaphore = Semaphore::new(0);
            },
            drop(semaphore.acquire_many(0).await.unwrap())
        ),
        row!(
            "acquire_owned",
            ["AcquireOwned"],
            {
                let semaphore = Arc::new(Semaphore::new(1));
            },
            drop(semaphore.clone().acquire_owned().await.unwrap())
        ),
    ]
}

fn signals() -> Vec<Row> {
    vec![
        row!(
            "event, manual",
            ["WaitEvent"],
            {
                let event = Event::new(Reset::Manual, true);
            },
            event.wait().await
        ),
        row!(
            "event, auto",
            [],
            {
                let event = Event::auto();
            },
            {
                event.set();
                event.wait().await
            }
        ),
        row!(
            "latch",
            ["WaitLatch"],
            {
                let latch = Latch::new(0);
            },
            latch.wait().await
        ),
        row!(
            "wait group",
            ["WaitMembers"],
            {
                let group = WaitGroup::new();
            },
            group.wait().await
        ),
        row!(
            "barrier",
            ["Arrive"],
            {
                let barrier = Barrier::new(1);
            },
            _ = barrier.arrive_and_wait().await
        ),
        row!(
            "wait_while",
            ["WaitWhile", "Conditional"],
            {
                let (mutex, condvar) = (Mutex::new(0), Condvar::new());
                let mut guard = Some(mutex.lock().await);
            },
            guard = Some(condvar.wait_while(guard.take().unwrap(), |_| false).await)
        ),
        row!(
            "once cell, wait",
            ["WaitValue"],
            {
                let cell = OnceCell::from(1);
            },
            _ = cell.wait().await
        ),
        row!(
            "once cell, full",
            ["GetOrInit", "InfallibleInit"],
            {
                let cell = OnceCell::from(1);
            },
            _ = cell.get_or_init(async || 2).await
        ),
        row!("once cell, made", [], {}, _ = OnceCell::new().get_or_init(async || 2).await),
        row!(
            "once cell, try",
            ["GetOrTryInit", "Init"],
            {
                let cell = OnceCell::from(1);
            },
            _ = cell.get_or_try_init(async || Err(2)).await.unwrap()
        ),
        row!(
            "once cell, failing",
            [],
            {
                let cell = OnceCell::<u8>::new();
            },
            _ = cell.get_or_try_init(async || Err(2)).await.unwrap_err()
        ),
        row!(
            "on_cancel",
            ["OnCancel"],
            {
                let token = cancelled().token();
            },
            token.on_cancel().await
        ),
        row!(
            "on_cancel_owned",
            ["OnCancelOwned"],
            {
                let token = cancelled().token();
            },
            token.clone().on_cancel_owned().await
        ),
        row!(
            "run_until_cancelled",
            ["RunUntilCancelled", "UntilCancelled"],
            {
                let token = cancelled().token();
            },
            _ = token.run_until_cancelled(pending::<()>()).await
        ),
        row!(
            "run_until_cancelled, ready",
            [],
            {
                let token = CancellationSource::new().token();
            },
            _ = token.run_until_cancelled(ready(())).await
        ),
        row!("identify", ["Identified"], {}, task::identify(ready(())).await),
    ]
}

fn limits() -> Vec<Row> {
    vec![
        row!(
            "timeout, free",
            ["Timeout", "Limited"],
            {
                let mutex = Mutex::new(0);
            },
            drop(mutex.lock().timeout(Duration::from_secs(60)).await.unwrap())
        ),
        row!(
            "timeout of zero, free",
            [],
            {
                let mutex = Mutex::new(0);
            },
            drop(mutex.lock().timeout(Duration::ZERO).await.unwrap())
        ),
        row!(
            "timeout of zero, held",
            [],
            {
                let mutex = Mutex::new(0);
                let _held = mutex.lock().await;
            },
            _ = mutex.lock().timeout(Duration::ZERO).await.unwrap_err()
        ),
        row!(
            "lock_for zero, held",
            [],
            {
                let mutex = Mutex::new(0);
                let _held = mutex.lock().await;
            },
            _ = mutex.lock_for(Duration::ZERO).await.unwrap_err()
        ),
        row!(
            "deadline past",
            [],
            {
                let event = Event::auto();
                let past = now();
            },
            _ = event.wait().deadline(past).await.unwrap_err()
        ),
        row!(
            "or_cancelled",
            ["OrCancelled"],
            {
                let mutex = Mutex::new(0);
                let token = cancelled().token();
            },
            _ = mutex.lock().or_cancelled(&token).await.unwrap_err()
        ),
        row!(
            "both limits",
            [],
            {
                let event = Event::auto();
                let token = cancelled().token();
            },
            _ = event.wait().timeout(Duration::ZERO).or_cancelled(&token).await.unwrap_err()
        ),
    ]
}
