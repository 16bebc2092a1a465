//! Under tokio, with the feature of that name: its budget, its clock, its timers, its identities, without a call.

mod hostile;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tasuki::{CancellationSource, Event, Mutex, ReentrantMutex, Semaphore, runtime, task};

const SECOND: Duration = Duration::from_secs(1);

/// A stranger's timeout ends a loop over free locks, on one thread: the loop yields to the timer.
#[tokio::test]
async fn a_loop_over_free_locks_can_be_timed_out() {
    let mutex = Mutex::new(0_u64);
    let endless = async {
        loop {
            *mutex.lock().await += 1;
        }
    };
    assert!(tokio::time::timeout(SECOND / 10, endless).await.is_err());
    assert!(mutex.into_inner() > 0);
}

/// One unit of tokio's budget an operation: what is left of it bounds ours, and ours that of others.
#[tokio::test]
async fn the_budget_is_the_one_of_tokio() {
    let mutex = Mutex::new(());
    let (others, before) = (Arc::new(AtomicBool::new(false)), runtime::yields());
    let other = tokio::spawn({
        let others = others.clone();
        async move { others.store(true, Ordering::SeqCst) }
    });
    let mut operations = 0;
    while !others.load(Ordering::SeqCst) {
        drop(mutex.lock().await);
        operations += 1;
    }
    other.await.unwrap();
    assert_eq!(runtime::yields(), before + 1);
    assert!((1..=256).contains(&operations), "{operations} operations before the first yield");
}

/// In `unconstrained` tokio's budget has no end.
#[tokio::test]
async fn unconstrained_is_unconstrained() {
    let (mutex, before) = (Mutex::new(()), runtime::yields());
    tokio::task::coop::unconstrained(async {
        for _ in 0..200 {
            drop(mutex.lock().await);
        }
    })
    .await;
    assert_eq!(runtime::yields(), before);
}

/// The limit for all foreign executors, 256 operations and 100 µs, applies beside tokio's budget, also in `unconstrained`.
#[tokio::test]
async fn the_limit_of_foreign_executors_applies_as_well() {
    let (mutex, before) = (Mutex::new(()), runtime::yields());
    tokio::task::coop::unconstrained(async {
        let start = std::time::Instant::now();
        while runtime::yields() == before && start.elapsed() < 60 * SECOND {
            drop(mutex.lock().await);
        }
    })
    .await;
    assert_ne!(runtime::yields(), before);
}

/// A paused clock moves when all wait: hours of limits take no time, and exactly as long as they say.
#[tokio::test(start_paused = true)]
async fn limits_use_the_clock_of_tokio() {
    let (mutex, event) = (Mutex::new(0), Event::auto());
    let guard = mutex.lock().await;
    let (real, virtual_) = (std::time::Instant::now(), tokio::time::Instant::now());
    assert!(mutex.lock().timeout(3_600 * SECOND).await.is_err());
    assert_eq!(virtual_.elapsed().as_secs(), 3_600);
    assert!(event.wait().deadline(runtime::now() + 3_600 * SECOND).await.is_err());
    assert_eq!(virtual_.elapsed().as_secs(), 7_200);
    runtime::sleep(3_600 * SECOND).await;
    assert_eq!(virtual_.elapsed().as_secs(), 10_800);
    assert!(real.elapsed() < 3_600 * SECOND);
    drop(guard);
    assert!(mutex.lock().timeout(Duration::ZERO).await.is_ok());
    assert!(mutex.lock().timeout(Duration::MAX).await.is_ok());
}

/// The limit and the holder live by the same clock.
#[tokio::test(start_paused = true)]
async fn a_limit_and_a_sleep_of_tokio_agree() {
    let mutex = Arc::new(Mutex::new(0));
    for (hold, limit) in [(2, 1), (1, 2)] {
        let guard = mutex.clone().lock_owned().await;
        let holder = tokio::spawn(async move {
            tokio::time::sleep(hold * SECOND).await;
            drop(guard);
        });
        assert_eq!(mutex.lock().timeout(limit * SECOND).await.is_ok(), hold < limit);
        holder.await.unwrap();
    }
}

/// Every way out of a limited wait leaves nothing behind in tokio's timers: dropped, granted, cancelled.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_over_keeps_nothing() {
    let (event, source) = (Event::auto(), CancellationSource::new());
    for round in 0..300 {
        let token = source.token();
        let mut wait = Box::pin(event.wait().timeout(3_600 * SECOND).or_cancelled(&token));
        assert!(futures_poll(wait.as_mut()).is_pending());
        match round % 3 {
            0 => drop(wait),
            1 => {
                event.set();
                wait.await.unwrap().unwrap();
            }
            _ => assert!(futures_poll(wait.as_mut()).is_pending()),
        }
    }
    // No timer is left: the paused clock moves to the next one, and that is this sleep.
    let before = tokio::time::Instant::now();
    tokio::time::sleep(SECOND).await;
    assert_eq!(before.elapsed(), SECOND);
}

fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

/// A future with a limit moves between threads, and may end on one that knows no tokio.
#[test]
fn a_limit_begun_under_tokio_may_be_dropped_elsewhere() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let semaphore = Arc::new(Semaphore::new(0));
    let mut wait = Box::pin(semaphore.clone().acquire_owned().timeout(3_600 * SECOND));
    tokio.block_on(async { assert!(futures_poll(wait.as_mut()).is_pending()) });
    std::thread::spawn(move || drop(wait)).join().unwrap();
    semaphore.release(1);
    assert!(semaphore.try_acquire().is_ok());
}

/// Without `enable_time` a limit panics in the poll that would begin to wait, as tokio's own do, and the primitive is as before.
#[test]
fn a_runtime_without_time_is_told_so() {
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.try_lock().unwrap();
    let wanted = mutex.clone();
    let outcome = tokio.block_on(async move {
        tokio::spawn(async move { wanted.lock().timeout(SECOND).await.is_ok() }).await
    });
    let payload = outcome.unwrap_err().into_panic();
    let message = payload.downcast_ref::<&str>().map(ToString::to_string);
    let message = message.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap();
    assert!(message.contains("enable_time"), "{message}");
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

/// The id of tokio's task, in tasks only; the number is the one that tokio prints.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_tokio_have_identities() {
    let ids = |()| async { (task::current(), tokio::task::id().to_string()) };
    let (first, second) = (tokio::spawn(ids(())), tokio::spawn(ids(())));
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert!(first.0.is_some() && first.0 != second.0);
    assert_eq!(first.0.unwrap().to_string(), format!("tokio task {}", first.1));
    std::thread::spawn(|| assert_eq!(task::current(), None)).join().unwrap();

    let reentrant = Arc::new(ReentrantMutex::new(0));
    let outer = tokio::spawn(async move {
        let first = reentrant.lock().await.unwrap();
        let second = reentrant.lock().await.unwrap();
        (*first, *second)
    });
    assert_eq!(outer.await.unwrap(), (0, 0));
}
