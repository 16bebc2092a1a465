//! A task that holds the guard of another runtime is still a task of its own: on its event loop, inside of its runtime, in its simulation.

use crate::kit::{runtime, watchdog};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tasuki::Event;
use tasuki_rt::testing::Simulation;
use tasuki_rt::{EventLoop, Handle, LocalRuntime, LoopMutex, WorkerId, spawn, yield_now};

/// While its runtime drains, a task may spawn what it needs to end, whatever guard it holds: this was refused.
#[test]
fn it_may_spawn_while_its_runtime_drains() {
    let _dog = watchdog(60);
    let (ours, other) = (runtime(1), runtime(1));
    let (own, foreign) = (ours.handle(), other.handle());
    let (draining, ended) = (Arc::new(Event::manual()), Arc::new(AtomicBool::new(false)));
    let (awaits, tells) = (draining.clone(), ended.clone());
    drop(ours.spawn(async move {
        awaits.wait().await;
        let task = {
            let _guard = foreign.enter();
            assert_eq!(Handle::current(), foreign);
            // Of the same runtime inside: also this one is inside of it.
            let _own = own.enter();
            assert_eq!(Handle::current(), own);
            (own.spawn(async { 1 }), spawn(async { 2 }), own.spawn_blocking(|| 3))
        };
        assert_eq!(task.0.await.unwrap() + task.1.await.unwrap() + task.2.await.unwrap(), 6);
        tells.store(true, Ordering::SeqCst);
    }));
    ours.start().unwrap();
    let handle = ours.handle();
    let watch = thread::spawn(move || {
        // A spawn from outside is refused as soon as it drains.
        while handle.block_on(handle.spawn(async {})).is_ok() {}
        draining.set();
    });
    ours.drain(Duration::MAX).unwrap();
    watch.join().unwrap();
    assert!(ended.load(Ordering::SeqCst));
}

/// It stays on its event loop: `spawn_local`, `EventLoop::current` and `LoopMutex` go by that.
#[test]
fn it_stays_on_its_event_loop() {
    let _dog = watchdog(60);
    let (ours, other) = (runtime(2), runtime(1));
    let (own, foreign) = (ours.handle(), other.handle());
    let task = ours.spawn_on(WorkerId::new(1), move || async move {
        let mutex = LoopMutex::new(0);
        let (count, task) = (Rc::new(Cell::new(0)), {
            let _guard = foreign.enter();
            assert_eq!(EventLoop::current().unwrap().id(), WorkerId::new(1));
            *mutex.try_lock().unwrap().unwrap() += 1;
            own.spawn_local(async { Rc::new(1) })
        });
        count.set(*task.await.unwrap());
        // A guard that is held over an await.
        let guard = foreign.enter();
        let counts = count.clone();
        let local = own.spawn_local(async move { counts.set(counts.get() + 1) });
        yield_now().await;
        drop(guard);
        local.await.unwrap();
        count.get() + *mutex.lock().await.unwrap()
    });
    assert_eq!(ours.block_on(task).unwrap(), 3);
}

/// A worker must not be blocked, nor wait for its own end, behind whatever guard.
#[test]
fn it_is_still_on_a_worker() {
    let _dog = watchdog(60);
    let (ours, other) = (runtime(1), runtime(1));
    let foreign = other.handle();
    let task = ours.spawn(async move {
        let _guard = foreign.enter();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| foreign.block_on(async {}))).is_err()
    });
    assert!(ours.block_on(task).unwrap());
}

/// Kept past the `block_on` that it was made in, a guard has no effect. That of a `Runtime` says so when it is dropped; that of a `LocalRuntime` had none before. The thread is as it was, and can
/// be used again.
#[test]
fn a_guard_that_is_kept_past_its_call() {
    let _dog = watchdog(60);
    let (ours, outer, local) = (runtime(1), runtime(1), LocalRuntime::new().unwrap());
    for is_outside in [false, true] {
        let around = is_outside.then(|| outer.enter());
        let before = Handle::try_current().ok();
        assert_eq!(before, is_outside.then(|| outer.handle()));
        let kept = ours.block_on(async { Handle::current().enter() });
        assert_eq!(Handle::try_current().ok(), before);
        let panic = panic_of(|| drop(kept));
        assert!(panic.contains("inside of the `block_on`"), "{panic}");
        assert_eq!(Handle::try_current().ok(), before);

        let kept = local.block_on(async { local.handle().enter() });
        assert_eq!(Handle::try_current().ok(), before);
        drop(kept);
        assert_eq!(Handle::try_current().ok(), before);
        // A guard of another runtime is one that is made outside of its own loop.
        let kept = local.block_on(async { ours.enter() });
        assert!(panic_of(|| drop(kept)).contains("inside of the `block_on`"));

        assert_eq!(ours.block_on(async { spawn(async { 1 }).await.unwrap() }), 1);
        assert_eq!(local.block_on(async { spawn(async { 2 }).await.unwrap() }), 2);
        assert_eq!(Handle::try_current().ok(), before);
        drop(around);
        assert!(Handle::try_current().is_err());
    }
}

/// The message of a panic, which must happen.
fn panic_of(call: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    payload.downcast_ref::<&str>().map(|text| (*text).to_owned()).unwrap_or_default()
}

/// In a simulation the handle of a real runtime is just that: its blocking work runs on its threads, not as a task of one of its workers.
#[test]
fn a_real_runtime_in_a_simulation() {
    let _dog = watchdog(60);
    let real = runtime(1);
    real.start().unwrap();
    let handle = real.handle();
    let name = Simulation::new(1).run(async move {
        let waits = tasuki_rt::testing::foreign_wakes();
        let work = handle.spawn_blocking(|| thread::current().name().map(str::to_owned));
        let task = handle.spawn(async { EventLoop::current().is_some() });
        let name = work.await.unwrap();
        assert!(task.await.unwrap());
        drop(waits);
        // Its own runs here, also behind a guard.
        let (here, simulated) = (thread::current().id(), Handle::current());
        let own = {
            let _guard = handle.enter();
            simulated.spawn_blocking(|| thread::current().id())
        };
        assert_eq!(own.await.unwrap(), here);
        name
    });
    assert!(name.unwrap().ends_with("-block"));
}
