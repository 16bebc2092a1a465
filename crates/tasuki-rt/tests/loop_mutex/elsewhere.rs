//! Waits, guards and unlocks of a `LoopMutex` off any loop, on another loop than their own, and after the end of their loop.

use super::api::poll;
use crate::kit::{poll_with, runtime, scaled, watchdog};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use tasuki_rt::{LoopMutex, LoopMutexGuard, NotOnEventLoop, WorkerId, spawn_on, testing};

/// S1-29: waiting off a loop is an error at once, in a foreign `block_on`, in ours, and on a bare thread.
#[test]
fn waiting_off_a_loop_is_an_error() {
    let _dog = watchdog(30);
    let mutex = LoopMutex::new(1);
    let mut lock = Box::pin(mutex.lock());
    assert!(matches!(poll_with(&mut lock, Waker::noop()), Poll::Ready(Err(NotOnEventLoop))));
    assert_eq!(mutex.try_lock().err(), Some(NotOnEventLoop));
    let runtime = runtime(1);
    assert_eq!(runtime.block_on(async { mutex.lock().await.err() }), Some(NotOnEventLoop));
    assert_eq!(futures_lite_block_on(mutex.lock()).err(), Some(NotOnEventLoop));
    assert!(!mutex.is_locked());
}

/// The `block_on` of another runtime.
fn futures_lite_block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let parker = tasuki::Parker::new();
    let waker = Waker::from(parker.unparker());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        parker.park();
    }
}

/// What must stay where it is, and does not.
struct Smuggled<T>(T);
// SAFETY: not sound, which is what the tests are about; the values are plain.
unsafe impl<T> Send for Smuggled<T> {}

/// S1-06, S1-07: a guard that unsafe code carries to another thread does not unlock there.
#[test]
fn unlocking_elsewhere_is_asserted() {
    static MUTEX: LoopMutex<i32> = LoopMutex::new(0);
    let _dog = watchdog(30);
    let runtime = runtime(1);
    let task = runtime.spawn_on(WorkerId::new(0), || async {
        let guard = Smuggled(MUTEX.lock().await.unwrap());
        let elsewhere = thread::spawn(move || {
            let guard = guard;
            drop(guard);
        });
        let panic = elsewhere.join().unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains("unlocked elsewhere"));
        assert!(MUTEX.is_locked());
    });
    runtime.block_on(task).unwrap();
}

/// What outlives its loop on the same thread unlocks: a guard, one of a part, a wait that was granted; also inside another simulation.
#[test]
fn guards_and_waits_may_outlive_a_simulation() {
    static MUTEX: LoopMutex<(i32, i32)> = LoopMutex::new((1, 2));
    let simulate = || testing::Simulation::new(1);
    drop(simulate().run(async { MUTEX.lock().await.unwrap() }));
    assert!(!MUTEX.is_locked() && MUTEX.owner().is_none());
    let part = simulate().run(async { LoopMutexGuard::map(MUTEX.lock().await.unwrap(), |pair| &mut pair.1) });
    assert_eq!(*part, 2);
    simulate().run(async move { drop(part) });
    assert!(!MUTEX.is_locked());
    for polled in [false, true] {
        let (guard, mut wait) = simulate().run(async {
            let guard = MUTEX.lock().await.unwrap();
            let mut wait = Box::pin(MUTEX.lock());
            assert!(!poll(&mut wait));
            (guard, wait)
        });
        drop(guard);
        assert!(MUTEX.is_locked(), "granted to a wait whose loop is gone");
        if polled {
            assert!(matches!(poll_with(&mut wait, Waker::noop()), Poll::Ready(Err(NotOnEventLoop))));
            assert!(!MUTEX.is_locked());
        }
        drop(wait);
        assert!(!MUTEX.is_locked() && MUTEX.owner().is_none());
    }
}

/// On another loop of the same runtime, which in a simulation is on the same thread, a guard is refused and a wait ends.
#[test]
fn another_loop_is_elsewhere() {
    let wrong = std::panic::catch_unwind(|| {
        testing::Simulation::new(1).run(async {
            let mutex = Arc::new(LoopMutex::new(()));
            let guard = Smuggled(mutex.clone().lock_owned().await.unwrap());
            let there = spawn_on(WorkerId::new(1), move || async move {
                let guard = guard;
                drop(guard);
            });
            std::panic::resume_unwind(there.await.unwrap_err().into_panic().unwrap());
        });
    });
    let message = wrong.unwrap_err();
    assert!(message.downcast_ref::<&str>().unwrap().contains("unlocked elsewhere"));
    testing::check(scaled(20, 2) as u64, || async {
        let mutex = Arc::new(LoopMutex::new(()));
        let guard = mutex.clone().lock_owned().await.unwrap();
        let mut wait = Box::pin(mutex.clone().lock_owned());
        assert!(poll_with(&mut wait, Waker::noop()).is_pending());
        let wait = Smuggled(wait);
        let there = spawn_on(WorkerId::new(1), move || async move {
            let mut wait = wait;
            poll_with(&mut wait.0, Waker::noop()).map_ok(drop)
        });
        assert_eq!(there.await.unwrap(), Poll::Ready(Err(NotOnEventLoop)));
        drop(guard);
        assert!(!mutex.is_locked(), "its place was given up");
    });
}
