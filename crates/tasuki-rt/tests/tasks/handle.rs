//! `Handle` and `AbortHandle`: on foreign threads, in blocking work, in simulations, and after the runtime is gone.

use crate::kit::{Drops, runtime, until, watchdog};
use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use tasuki::{Event, Mutex};
use tasuki_rt::testing::{self, Simulation};
use tasuki_rt::{EnterGuard, EventLoop, Handle, NoRuntime, WorkerId, spawn, spawn_blocking, yield_now};

fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it should panic");
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).expect("a message")
}

/// Inside tasks, `block_on`, blocking work and blocking work of blocking work it is one runtime; elsewhere there is none.
#[test]
fn current_is_the_runtime_of_the_thread() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let handle = runtime.handle();
    assert_eq!(Handle::try_current().unwrap_err(), NoRuntime);
    assert!(message(|| drop(Handle::current())).contains("no runtime on this thread"));
    runtime.block_on(async {
        assert_eq!(Handle::current(), handle);
        let here = spawn(async { Handle::current() }).await.unwrap();
        assert_eq!(here, handle);
        let deep = spawn_blocking(|| {
            let outer = Handle::current();
            let inner = outer.spawn_blocking(Handle::current);
            (outer.block_on(inner).unwrap(), outer)
        });
        let (inner, outer) = deep.await.unwrap();
        assert!(inner == handle && outer == handle);
    });
    assert!(Handle::try_current().is_err());
    assert!(format!("{handle:?}").contains("workers: 2"));
}

#[test]
fn a_foreign_thread_uses_the_runtime() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let handle = runtime.handle();
    // Not started before: `block_on` of a handle starts the threads as well.
    let thread = thread::spawn(move || {
        let mut sum = handle.block_on(handle.spawn(async { 1 })).unwrap();
        let pinned =
            handle.spawn_on(WorkerId::new(1), || async { EventLoop::current().unwrap().id().index() });
        sum += handle.block_on(pinned).unwrap();
        sum += handle.block_on(handle.spawn_blocking(|| 3)).unwrap();
        let mut workers = 0;
        handle.for_each_worker(|_| workers += 1);
        (sum, workers, handle.workers())
    });
    assert_eq!(thread.join().unwrap(), (5, 2, 2));
    assert_eq!(runtime.tasks(), 0);
}

/// A handle does not keep its runtime running, and is refused afterwards, in the caller's own thread.
#[test]
fn a_handle_outlives_its_runtime() {
    let _dog = watchdog(60);
    for started in [false, true] {
        let (runtime, drops) = (runtime(1), Drops::default());
        if started {
            runtime.start().unwrap();
        }
        let (handle, held) = (runtime.handle(), drops.one());
        let waiting = handle.spawn(async move {
            let _held = held;
            pending::<()>().await;
        });
        drop(runtime);
        assert_eq!((drops.count(), handle.tasks(), handle.is_shut_down()), (1, 0, true));
        assert!(handle.block_on(waiting).unwrap_err().is_shut_down());
        let held = drops.one();
        let late = handle.spawn(async move { drop(held) });
        assert_eq!((drops.count(), drops.thread()), (2, Some(thread::current().id())));
        assert!(late.is_finished() && late.abort_handle().is_finished());
        assert!(handle.block_on(late).unwrap_err().is_shut_down());
        assert!(handle.block_on(handle.spawn_blocking(|| 1)).unwrap_err().is_shut_down());
        assert!(handle.block_on(handle.spawn_on(WorkerId::new(0), || async {})).unwrap_err().is_shut_down());
        let guard = handle.enter();
        let late = spawn(async { 1 });
        drop(guard);
        assert!(handle.block_on(late).unwrap_err().is_shut_down());
        // The future of `block_on` runs all the same, with deadlines.
        let slept = handle.block_on(async {
            tasuki_rt::sleep(Duration::from_millis(1)).await;
            spawn(async {}).await.unwrap_err().is_shut_down()
        });
        assert!(slept);
    }
}

#[test]
fn guards_enter_and_leave() {
    let _dog = watchdog(60);
    let (first, second) = (runtime(1), runtime(1));
    let outer = first.enter();
    assert_eq!(Handle::current(), first.handle());
    {
        let _inner = second.handle().enter();
        assert_eq!(Handle::current(), second.handle());
        // `block_on` is a context of its own, and comes back to the guard's.
        assert_eq!(first.block_on(async { Handle::current() }), first.handle());
        assert_eq!(Handle::current(), second.handle());
        assert!(EventLoop::current().is_none());
    }
    assert_eq!(Handle::current(), first.handle());
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _inner = second.enter();
        panic!("with a guard");
    }));
    assert!(unwound.is_err());
    assert_eq!(Handle::current(), first.handle());
    drop(outer);
    assert!(Handle::try_current().is_err());
    // Leaked: the thread keeps the runtime, also when that is gone.
    let handle = second.handle();
    let thread = thread::spawn(move || {
        std::mem::forget(handle.enter());
        drop(handle);
        Handle::current().spawn(async { 4 })
    });
    assert_eq!(second.block_on(thread.join().unwrap()).unwrap(), 4);
}

#[test]
fn guards_out_of_order_panic_and_leave_a_valid_context() {
    let _dog = watchdog(60);
    let (first, second) = (runtime(1), runtime(1));
    let (a, b) = (first.enter(), second.enter());
    assert!(message(|| drop(a)).contains("reverse order"));
    assert_eq!(Handle::current(), second.handle());
    drop(b);
    assert_eq!(Handle::current(), first.handle());
    // In a context that was entered after it.
    let third = runtime(1);
    let guard = third.enter();
    assert!(first.block_on(async { message(|| drop(guard)) }).contains("reverse order"));
    assert_eq!(Handle::current(), third.handle());
}

/// A refused future is dropped when the context is no longer looked at: its destructor may end the guard by which it was spawned.
#[test]
fn the_destructor_of_a_refused_task_may_end_the_guard() {
    thread_local! {
        static GUARD: RefCell<Option<EnterGuard>> = const { RefCell::new(None) };
    }
    struct EndsGuard;
    impl Drop for EndsGuard {
        fn drop(&mut self) {
            let guard = GUARD.with_borrow_mut(Option::take);
            drop(guard);
        }
    }
    let _dog = watchdog(60);
    for blocking in [false, true] {
        let ended = runtime(1);
        ended.shutdown_timeout(Duration::MAX).unwrap();
        GUARD.set(Some(ended.enter()));
        drop(ended);
        let last = EndsGuard;
        if blocking {
            drop(spawn_blocking(move || drop(last)));
        } else {
            drop(spawn(async move { drop(last) }));
        }
        assert!(Handle::try_current().is_err(), "the guard is gone");
    }
}

/// On a worker the guard of another runtime changes where spawns go, and nothing else: the worker is still not to be blocked.
#[test]
fn a_guard_on_a_worker() {
    let _dog = watchdog(60);
    let (here, there) = (runtime(1), runtime(1));
    there.start().unwrap();
    let (own, other) = (here.handle(), there.handle());
    let task = here.spawn(async move {
        let inside = tasuki::task::current();
        let guard = own.enter();
        assert!(EventLoop::current().is_some(), "it was the runtime already");
        drop(guard);
        let guard = other.enter();
        assert_eq!(Handle::current(), other);
        assert_eq!(tasuki::task::current(), inside);
        let stopped = message(|| other.block_on(async {}));
        assert!(stopped.contains("`block_on` inside a task"), "{stopped}");
        assert!(message(|| drop(Mutex::new(1).lock().block())).contains("`.await` the wait instead"));
        let task = spawn(async { Handle::current() });
        drop(guard);
        assert!(task.await.unwrap() == other);
        yield_now().await;
    });
    here.block_on(task).unwrap();
}

/// A guard that is wrongly held across an await leaves a runtime that works.
#[test]
fn a_guard_across_an_await() {
    let _dog = watchdog(60);
    let (here, there) = (runtime(1), runtime(1));
    let other = there.handle();
    let wrong = here.spawn_on(WorkerId::new(0), move || async move {
        let _guard = other.enter();
        yield_now().await;
        tasuki_rt::sleep(Duration::from_millis(1)).await;
    });
    let gate = Arc::new(Event::manual());
    let (wait, set) = (gate.clone(), gate.clone());
    let waits = here.spawn(async move { wait.wait().await });
    let sets = here.spawn(async move { set.set() });
    here.block_on(async {
        drop(wrong.await);
        waits.await.unwrap();
        sets.await.unwrap();
    });
    assert_eq!(here.tasks(), 0);
}

#[test]
fn in_a_simulation() {
    testing::check(20, || async {
        let handle = Handle::current();
        let guard = handle.enter();
        let (local, task) = (handle.spawn_local(async { std::rc::Rc::new(1) }), handle.spawn(async { 2 }));
        drop(guard);
        assert_eq!(*local.await.unwrap() + task.await.unwrap(), 3);
        let waiting = handle.spawn(pending::<()>());
        let stop = waiting.abort_handle();
        assert!(!stop.is_finished());
        stop.abort();
        assert!(waiting.await.unwrap_err().is_aborted());
        assert!(stop.is_finished());
    });
    let handle = Simulation::new(1).run(async { Handle::current() });
    assert!(handle.block_on(handle.spawn(async {})).unwrap_err().is_shut_down());
}

/// Clones abort from any thread, before the first poll, while waiting, after the end, after the handle and after the runtime.
#[test]
fn an_abort_handle_in_every_state() {
    let _dog = watchdog(60);
    let (runtime, drops) = (runtime(1), Drops::default());
    let hold = || {
        let held = drops.one();
        async move {
            let _held = held;
            pending::<()>().await;
        }
    };
    // Not started: nothing has been polled.
    let before = runtime.spawn(hold());
    let stop = before.abort_handle();
    assert_eq!(stop.id(), before.id());
    let clone = stop.clone();
    thread::spawn(move || clone.abort()).join().unwrap();
    assert!(!stop.is_finished());
    assert!(runtime.block_on(before).unwrap_err().is_aborted());
    assert!(stop.is_finished());
    stop.abort();

    let detached = runtime.spawn(hold());
    let stop = detached.abort_handle();
    drop(detached);
    assert_eq!(runtime.tasks(), 1);
    stop.abort();
    until(|| stop.is_finished());
    until(|| runtime.tasks() == 0);
    assert_eq!(drops.count(), 2);

    let ended = runtime.spawn(async { 7 });
    let stop = ended.abort_handle();
    until(|| stop.is_finished());
    stop.abort();
    assert_eq!(runtime.block_on(ended).unwrap(), 7);

    let last = runtime.spawn(hold());
    let stop = last.abort_handle();
    drop(runtime);
    assert_eq!((drops.count(), stop.is_finished()), (3, true));
    stop.abort();
    drop(last);
    assert!(format!("{stop:?}").contains("finished: true"));
}

/// A task that is dropped with its runtime has not ended before its future is gone, whichever handle is asked.
#[test]
fn a_dropped_task_has_ended_when_its_future_is_gone() {
    struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
        }
    }
    let _dog = watchdog(60);
    let (began, begins) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (runtime, slow) = (runtime(1), Slow(began, goes_on));
    let task = runtime.spawn(async move {
        let _slow = slow;
        pending::<()>().await;
    });
    let stop = task.abort_handle();
    runtime.start().unwrap();
    let ends = thread::spawn(move || drop(runtime));
    begins.recv().unwrap();
    assert_eq!((task.is_finished(), stop.is_finished()), (false, false));
    go_on.send(()).unwrap();
    ends.join().unwrap();
    assert_eq!((task.is_finished(), stop.is_finished()), (true, true));
}

/// What the task did is there when the handle says that it has ended; a closure that runs is not interrupted.
#[test]
fn an_abort_handle_of_blocking_work() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let (began, go_on, done) =
        (Arc::new(Event::auto()), Arc::new(Event::auto()), Arc::new(AtomicUsize::new(0)));
    let (tell, wait, count) = (began.clone(), go_on.clone(), done.clone());
    let work = runtime.spawn_blocking(move || {
        tell.set();
        wait.wait().block();
        count.fetch_add(1, Ordering::Relaxed);
    });
    let stop = work.abort_handle();
    began.wait().block();
    stop.abort();
    assert!(!stop.is_finished());
    go_on.set();
    until(|| stop.is_finished());
    assert_eq!(done.load(Ordering::Relaxed), 1);
    runtime.block_on(work).unwrap();
}

/// Many threads abort many tasks that end by themselves at the same time: each ends once.
#[test]
fn aborts_against_ends() {
    let _dog = watchdog(60);
    const TASKS: usize = crate::kit::scaled(300, 10);
    let (runtime, drops) = (runtime(2), Drops::default());
    runtime.start().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let held = drops.one();
            runtime.spawn(async move {
                let _held = held;
                if n % 2 == 0 {
                    yield_now().await;
                }
            })
        })
        .collect();
    let stops: Vec<_> = tasks.iter().map(|task| task.abort_handle()).collect();
    let again = stops.clone();
    let threads = [thread::spawn(move || stops.iter().for_each(|stop| stop.abort())), {
        thread::spawn(move || again.iter().rev().for_each(|stop| stop.abort()))
    }];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for task in tasks {
        if let Err(error) = runtime.block_on(task) {
            assert!(error.is_aborted());
        }
    }
    assert_eq!((drops.count(), runtime.tasks()), (TASKS, 0));
}
