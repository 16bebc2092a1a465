//! Runtimes of tokio that stand still, are paused, are gone, or have nothing left to give: what does not need them goes on.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tasuki::runtime::{Driver, TaskId, Timers, enter, sleep};
use tasuki::{Elapsed, Event, Mutex, Semaphore};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, block_in_place, spawn_blocking};

const SOON: Duration = Duration::from_millis(1);

fn current_thread(paused: bool) -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(paused).build().unwrap()
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A lock that is never free, waited for by the thread.
fn blocks_until_its_limit() {
    let mutex = Mutex::new(());
    let _held = mutex.try_lock().unwrap();
    assert_eq!(mutex.lock().timeout(SOON).block().err(), Some(Elapsed));
    assert_eq!(mutex.lock().deadline(Instant::now() + SOON).block().err(), Some(Elapsed));
}

/// On a thread of its own: a hang is a failure.
fn ends(name: &str, test: fn()) {
    let (ended, ends) = channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = ended.send(());
    });
    assert_ne!(ends.recv_timeout(Duration::from_secs(60)), Err(RecvTimeoutError::Timeout), "{name}: hangs");
    thread.join().unwrap_or_else(|_| panic!("{name}: panics"));
}

/// A thread that waits by itself keeps the runtime in whose context it is from turning its timers, or is not waited for by it: every way to be in one.
#[test]
fn a_blocked_thread_does_not_rely_on_the_timers_of_a_runtime_that_stands_still() {
    let places: [(&str, fn()); 8] = [
        ("entered", || {
            let runtime = current_thread(false);
            let _entered = runtime.enter();
            blocks_until_its_limit();
        }),
        ("in a runtime without time", || {
            Builder::new_current_thread().build().unwrap().block_on(async { blocks_until_its_limit() });
        }),
        ("in the only thread", || current_thread(false).block_on(async { blocks_until_its_limit() })),
        ("in a task of the only thread", || {
            current_thread(false)
                .block_on(async { tokio::spawn(async { blocks_until_its_limit() }).await.unwrap() });
        }),
        ("in a local task", || {
            let local = LocalSet::new();
            current_thread(false).block_on(local.run_until(async {
                tokio::task::spawn_local(async { blocks_until_its_limit() }).await.unwrap();
            }));
        }),
        ("in place", || {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::spawn(async { block_in_place(blocks_until_its_limit) }).await.unwrap();
            });
        }),
        ("on a thread for blocking work, while no thread runs tasks", || {
            let runtime = current_thread(false);
            let work = runtime.spawn_blocking(blocks_until_its_limit);
            while !work.is_finished() {
                std::thread::yield_now();
            }
            runtime.block_on(work).unwrap();
        }),
        ("on a thread for blocking work, with a paused clock", || {
            current_thread(true).block_on(async { spawn_blocking(blocks_until_its_limit).await.unwrap() });
        }),
    ];
    for (name, place) in places {
        ends(name, place);
    }
}

/// A runtime of ours that leaves its deadlines to the shared thread, inside a runtime of tokio: the shared thread keeps them.
#[test]
fn a_driver_without_timers_does_not_get_those_of_tokio() {
    struct Plain;
    impl Driver for Plain {
        fn task(&self) -> Option<TaskId> {
            None
        }

        fn timers(&self) -> Option<Arc<Timers>> {
            None
        }

        fn may_block(&self) -> bool {
            true
        }
    }
    ends("a driver", || {
        let runtime = current_thread(false);
        let _entered = runtime.enter();
        enter(&Plain, || {
            let mut sleep = pin!(sleep(SOON));
            while poll_once(sleep.as_mut()).is_pending() {
                std::thread::yield_now();
            }
        });
    });
}

/// A paused clock goes to the next deadline. For ever is none, and neither is what no clock can say when it is rounded.
#[tokio::test(start_paused = true)]
async fn for_ever_does_not_end() {
    let mut last = Instant::now();
    let mut step = Duration::MAX;
    while !step.is_zero() {
        while let Some(later) = last.checked_add(step) {
            last = later;
        }
        step /= 2;
    }
    let event = Event::auto();
    let century = 100 * 365 * Duration::from_secs(86_400);
    assert!(tokio::time::timeout(century, event.wait().timeout(Duration::MAX)).await.is_err());
    assert!(tokio::time::timeout(century, event.wait().deadline(last)).await.is_err());
    event.set();
    event.wait().timeout(Duration::MAX).await.unwrap();
}

/// As `now_or_never` polls: once, with a waker that does nothing. What is free is had, whatever is left of tokio's budget.
#[tokio::test]
async fn a_waker_that_does_nothing_never_waits_for_what_is_free() {
    let mutex = Mutex::new(0);
    for round in 0..1_000 {
        let Poll::Ready(mut guard) = poll_once(pin!(mutex.lock())) else { panic!("round {round}") };
        *guard += 1;
    }
    assert_eq!(mutex.into_inner(), 1_000);
}

/// A thread that ends has no variables of tokio any more; its destructors wait like any other thread. A panic there would end the process.
#[test]
fn a_thread_that_ends_has_no_host() {
    struct AtTheEnd;
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            blocks_until_its_limit();
            let event = Event::auto();
            assert!(poll_once(pin!(event.wait().timeout(SOON))).is_pending());
            assert!(
                poll_once(pin!(event.wait().deadline(Instant::now() + 3_600 * 1_000 * SOON))).is_pending()
            );
        }
    }
    thread_local! {
        static AT_THE_END: AtTheEnd = const { AtTheEnd };
    }
    // From now on the clock of tokio is not that of the system, in the whole process.
    current_thread(true).block_on(async {});
    let ours_first = || AT_THE_END.with(|_| current_thread(false).block_on(async {}));
    let tokio_first = || {
        current_thread(false).block_on(async {});
        AT_THE_END.with(|_| {});
    };
    std::thread::spawn(ours_first).join().unwrap();
    std::thread::spawn(tokio_first).join().unwrap();
}

/// The runtime that keeps the limit is dropped: tokio's timers say so by a panic in the next poll that would wait. What is granted is had all the same.
#[test]
fn a_limit_outlives_its_runtime() {
    let semaphore = Arc::new(Semaphore::new(0));
    let begin = || {
        let runtime = current_thread(false);
        let mut wait = Box::pin(semaphore.clone().acquire_owned().timeout(3_600_000 * SOON));
        let _entered = runtime.enter();
        assert!(poll_once(wait.as_mut()).is_pending());
        wait
    };
    let (mut granted, mut polled, dropped) = (begin(), begin(), begin());
    semaphore.release(1);
    let Poll::Ready(Ok(permit)) = poll_once(granted.as_mut()) else { panic!("it was granted") };
    let poll = std::panic::AssertUnwindSafe(|| poll_once(polled.as_mut()).is_pending());
    assert!(std::panic::catch_unwind(poll).is_err());
    drop((polled, dropped, permit));
    assert_eq!(semaphore.available_permits(), 1);
}
