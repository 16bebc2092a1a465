//! Deadlines while a runtime shuts down, and one of its threads is not done: of sleeps that were carried out of it, and of a poll that waits.

use crate::kit::{MS, poll_with, runtime, until, wait_as_a_foreign_executor, watchdog};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Waker;
use std::thread;
use tasuki_rt::{LocalRuntime, Sleep, now, sleep, sleep_until};

/// A sleep that is on the wheel of the worker that calls this.
fn armed() -> (Pin<Box<Sleep>>,) {
    let mut carried = Box::pin(sleep_until(now() + 50 * MS));
    assert!(poll_with(&mut carried, Waker::noop()).is_pending());
    (carried,)
}

/// Blocks a thread of a runtime until told to go on, and says that it does.
fn gate() -> (impl FnOnce() + Send + 'static, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((begin, begun), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let blocks = move || {
        begin.send(()).unwrap();
        told.recv().unwrap();
    };
    (blocks, begun, tell)
}

/// The last worker waits for blocking work.
#[test]
fn a_carried_sleep_does_not_wait_for_blocking_work() {
    let _dog = watchdog(60);
    for workers in [1, 2] {
        let (runtime, (blocks, begun, go_on)) = (runtime(workers), gate());
        drop(runtime.spawn_blocking(blocks));
        begun.recv().unwrap();
        let (carried,) = runtime.block_on(runtime.spawn(async { armed() })).unwrap();
        assert!(runtime.shutdown_timeout(MS).is_err());
        // On another thread than the runtime's: with the process's deadlines.
        self::runtime(1).block_on(carried);
        go_on.send(()).unwrap();
    }
}

/// The thread of a local runtime does.
#[test]
fn a_sleep_of_a_local_runtime_does_not_wait_for_blocking_work() {
    let _dog = watchdog(60);
    let ((blocks, begun, go_on), (give, given)) = (gate(), mpsc::channel());
    let thread = thread::spawn(move || {
        let local = LocalRuntime::new().unwrap();
        drop(local.spawn_blocking(blocks));
        begun.recv().unwrap();
        give.send(local.block_on(async { armed() })).unwrap();
    });
    runtime(1).block_on(given.recv().unwrap().0);
    go_on.send(()).unwrap();
    thread.join().unwrap();
}

/// A worker is in a poll, and the others have nothing to drop.
#[test]
fn a_carried_sleep_does_not_wait_for_a_long_poll() {
    let _dog = watchdog(60);
    for workers in [2, 4] {
        let (runtime, (blocks, begun, go_on)) = (runtime(workers), gate());
        let (give, given) = mpsc::channel();
        drop(runtime.spawn(async move {
            give.send(armed()).unwrap();
            blocks();
        }));
        runtime.start().unwrap();
        begun.recv().unwrap();
        assert!(runtime.shutdown_timeout(MS).is_err());
        self::runtime(1).block_on(given.recv().unwrap().0);
        go_on.send(()).unwrap();
    }
}

/// The poll waits for the sleep, by another executor, when the shutdown begins.
#[test]
fn a_poll_that_waits_for_a_sleep_ends() {
    let _dog = watchdog(60);
    for workers in [2, 4] {
        let (runtime, waits) = (runtime(workers), Arc::new(AtomicBool::new(false)));
        let tell = waits.clone();
        drop(runtime.spawn(async move {
            tell.store(true, Ordering::Relaxed);
            wait_as_a_foreign_executor(sleep(50 * MS));
        }));
        runtime.start().unwrap();
        until(|| waits.load(Ordering::Relaxed));
        drop(runtime);
    }
}

/// The worker that stays for the deadlines wakes tasks by them, and drops these itself.
#[test]
fn what_is_woken_while_a_worker_stays_is_dropped() {
    let _dog = watchdog(60);
    let (runtime, (blocks, begun, go_on)) = (runtime(3), gate());
    for time in 1..100 {
        drop(runtime.spawn(async move { sleep(time * MS).await }));
    }
    drop(runtime.spawn(async move { blocks() }));
    runtime.start().unwrap();
    begun.recv().unwrap();
    assert!(runtime.shutdown_timeout(120 * MS).is_err());
    go_on.send(()).unwrap();
    drop(runtime);
}
