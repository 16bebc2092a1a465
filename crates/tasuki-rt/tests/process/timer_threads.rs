//! Threads that wait for the deadline of a sleep whose runtime is gone.
#![cfg(target_os = "linux")]

use crate::kit::process::alone;
use crate::kit::{runtime, until, watchdog};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tasuki_rt::sleep;

/// How many threads of this process are for timers.
fn timer_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.starts_with("tasuki-rt-timer")).count()
}

/// Tasks that would sleep for long are dropped by one worker, their sleeps are on the wheels of all: no thread stays behind for those.
#[test]
#[cfg_attr(miri, ignore = "asks the system for the threads of the process")]
fn no_thread_stays_for_sleeps_that_are_gone() {
    alone(|| {
        let _dog = watchdog(60);
        for _ in 0..5 {
            let (runtime, all) = (runtime(4), Arc::new(std::sync::Barrier::new(4)));
            let begun = Arc::new(AtomicUsize::new(0));
            for _ in 0..4 {
                let (all, begun) = (all.clone(), begun.clone());
                drop(runtime.spawn(async move {
                    let mut long = Box::pin(sleep(Duration::from_secs(3600)));
                    let _ = poll_fn(|cx| Poll::Ready(long.as_mut().poll(cx))).await;
                    // Each on a worker of its own.
                    all.wait();
                    begun.fetch_add(1, Ordering::SeqCst);
                    long.await;
                }));
            }
            runtime.start().unwrap();
            until(|| begun.load(Ordering::SeqCst) == 4);
        }
        until(|| timer_threads() == 0);
    });
}

/// The sleep is dropped instead: the thread that waits for its deadline, an hour away, ends.
#[cfg_attr(miri, ignore = "reads /proc")]
#[test]
fn no_thread_waits_for_a_sleep_that_is_gone() {
    alone(|| {
        let _dog = watchdog(30);
        for _ in 0..5 {
            let runtime = runtime(1);
            let carried = runtime.spawn(async {
                let mut sleep = Box::pin(sleep(Duration::from_secs(3600)));
                assert!(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await.is_pending());
                (sleep,)
            });
            let carried = runtime.block_on(carried).unwrap();
            drop(runtime);
            until(|| timer_threads() > 0);
            drop(carried);
        }
        until(|| timer_threads() == 0);
    });
}
