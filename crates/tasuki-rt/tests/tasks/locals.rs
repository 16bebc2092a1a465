//! Task-locals, and names of tasks.

use crate::kit::{runtime, scaled, watchdog};
use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use tasuki::Mutex;
use tasuki_rt::testing::{self, Simulation};
use tasuki_rt::{
    EventLoop, JoinHandle, JoinSet, LocalRuntime, NotInScope, TaskBuilder, TaskLocal, WorkerId, checkpoint,
    spawn, spawn_local, yield_now,
};

tasuki_rt::task_local! {
    static NUMBER: u32;
    pub(crate) static NAME: String;
    /// Without a size: its key is its own all the same.
    static UNIT: ();
    static OTHER_UNIT: ();
}

/// Each task has its own, wherever it is polled and however often; what it spawns has none.
#[test]
fn values_follow_their_tasks() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.block_on(async {
        let mut set = JoinSet::new();
        for n in 0..scaled(100, 8) as u32 {
            set.spawn(NUMBER.scope(n, async move {
                for _ in 0..10 {
                    assert_eq!(NUMBER.get(), n);
                    yield_now().await;
                }
                let inside = NUMBER.scope(n + 1_000, async {
                    yield_now().await;
                    NUMBER.get()
                });
                assert_eq!(inside.await, n + 1_000);
                assert_eq!(spawn(async { NUMBER.try_get() }).await.unwrap(), Err(NotInScope));
                NUMBER.get() == n
            }));
        }
        assert!(set.join_all().await.into_iter().all(|same| same));
        assert_eq!(NUMBER.try_get(), Err(NotInScope));
    });
}

/// What the page of `scope` says of an exhausted budget: a wait that is wrapped by itself enqueues one turn later; one inside a scope that has begun enqueues at once.
#[test]
fn a_wait_inside_of_a_scope_enqueues_whatever_the_budget() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    runtime
        .block_on(runtime.spawn(NUMBER.scope(1, async {
            let mutex = Mutex::new(());
            let held = mutex.try_lock().unwrap();
            let mut wrapped = pin!(NUMBER.scope(2, mutex.lock()));
            let mut inside = pin!(mutex.lock());
            poll_fn(|cx| {
                while pin!(checkpoint()).poll(cx).is_ready() {}
                // The first poll yields, the last one enqueues.
                assert!(wrapped.as_mut().poll(cx).is_pending());
                assert!(inside.as_mut().poll(cx).is_pending());
                assert!(wrapped.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            drop(held);
            poll_fn(|cx| {
                assert!(wrapped.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            drop(inside.await);
            drop(wrapped.await);
        })))
        .unwrap();
}

/// What is spawned, or posted, has none either where the thread that is in a scope runs or drops it: by a `LocalRuntime`, a simulation, the end of a runtime, a refusal.
#[test]
fn the_scopes_of_a_thread_are_not_those_of_its_tasks() {
    /// Says, when it is dropped, whether it is in a scope.
    struct Looks(Arc<AtomicU32>);
    impl Drop for Looks {
        fn drop(&mut self) {
            self.0.fetch_add(if NUMBER.try_get().is_ok() { 1_000 } else { 1 }, Ordering::SeqCst);
        }
    }
    async fn holds(_: Looks) {
        pending::<()>().await;
    }
    let _dog = watchdog(60);
    let seen = Arc::new(AtomicU32::new(0));
    let looks = || Looks(seen.clone());
    NUMBER.sync_scope(5, || {
        let local = LocalRuntime::new().unwrap();
        local.block_on(async {
            assert_eq!(NUMBER.get(), 5, "the future of `block_on` is called by the thread");
            for _ in 0..2 {
                drop(looks());
                let look = || async { NUMBER.try_get().is_err() };
                assert!(spawn_local(look()).await.unwrap() && spawn(look()).await.unwrap());
                assert_eq!(NUMBER.get(), 5);
            }
            let posted = looks();
            EventLoop::current().unwrap().post(move || drop(posted)).unwrap();
            yield_now().await;
        });
        let [left, unstarted, pinned, refused] = [(); 4].map(|()| looks());
        drop(local.spawn_local(holds(left)));
        drop(local);
        let runtime = runtime(1);
        drop(runtime.spawn(holds(unstarted)));
        drop(runtime.spawn_on(WorkerId::new(0), || holds(pinned)));
        let handle = runtime.handle();
        drop(runtime);
        drop(handle.spawn(holds(refused)));
        drop(handle.spawn_blocking({
            let refused = looks();
            move || drop(refused)
        }));
        let (simulated, dropped) = (looks(), looks());
        Simulation::new(1).run(async move {
            spawn(async move { drop(simulated) }).await.unwrap();
            drop(spawn(holds(dropped)));
        });
    });
    // The two that the future of `block_on` has dropped itself, and eight others.
    assert_eq!(seen.load(Ordering::SeqCst), 2_000 + 8);
}

#[test]
fn scopes_nest_and_unwind() {
    assert!(NUMBER.try_with(|_| ()).is_err());
    NUMBER.sync_scope(1, || {
        NAME.sync_scope("outer".into(), || {
            let panicked = catch_unwind(|| NUMBER.sync_scope(2, || NAME.with(|name| panic!("{name}"))));
            assert_eq!(*panicked.unwrap_err().downcast::<String>().unwrap(), "outer");
            assert_eq!((NUMBER.get(), NAME.with(String::len)), (1, 5));
        });
        assert!(NAME.try_get().is_err());
    });
    UNIT.sync_scope((), || assert!(UNIT.try_get().is_ok() && OTHER_UNIT.try_get().is_err()));
    let outside = catch_unwind(|| NUMBER.get()).unwrap_err();
    assert!(outside.downcast::<String>().unwrap().contains("inside its `scope`"));
    // Under no executor of ours.
    let mut cx = Context::from_waker(Waker::noop());
    let mut future = pin!(NUMBER.scope(4, async { NUMBER.get() }));
    assert!(std::future::Future::poll(future.as_mut(), &mut cx).is_ready());
    assert_eq!(future.as_mut().take_value(), Some(4));
    assert_eq!(future.as_mut().take_value(), None);
}

/// A future that is dropped half-way has its value while it is dropped, also by an abort.
#[test]
fn the_destructors_of_a_scope_see_its_value() {
    struct Sees(Arc<AtomicU32>);
    impl Drop for Sees {
        fn drop(&mut self) {
            self.0.store(NUMBER.try_get().unwrap_or(99), Ordering::SeqCst);
        }
    }
    let _dog = watchdog(60);
    let (runtime, seen) = (runtime(1), Arc::new(AtomicU32::new(0)));
    let sees = Sees(seen.clone());
    let task = runtime.spawn(NUMBER.scope(5, async move {
        let _sees = sees;
        pending::<()>().await;
    }));
    runtime.block_on(async {
        yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_aborted());
    });
    assert_eq!(seen.load(Ordering::SeqCst), 5);
}

#[test]
fn locals_in_a_simulation() {
    static COUNT: TaskLocal<Rc<Cell<u32>>> = TaskLocal::new();
    testing::check(scaled(50, 2) as u64, || async {
        let mut set = JoinSet::new();
        for n in 0..3 {
            set.spawn_local(COUNT.scope(Rc::new(Cell::new(n)), async move {
                for _ in 0..3 {
                    COUNT.with(|count| count.set(count.get() + 10));
                    yield_now().await;
                }
                COUNT.with(|count| count.get()) == n + 30
            }));
        }
        assert!(set.join_all().await.into_iter().all(|right| right));
    });
}

/// The error of a task that panicked has its name, whichever way it was spawned; what panics later on the same thread has not.
#[test]
fn a_panic_names_its_task() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let (named, worker) = (TaskBuilder::new().name("reader").on(&runtime.handle()), WorkerId::new(0));
    let panics = || async { panic!("no input") };
    let tasks = [
        named.spawn(panics()),
        named.spawn_on(worker, panics),
        named.spawn_blocking(|| panic!("no input")),
        named.spawn_on(worker, || -> std::future::Ready<()> { panic!("no input") }),
    ];
    for task in tasks {
        let error: tasuki_rt::JoinError = runtime.block_on(task).unwrap_err();
        assert_eq!(error.to_string(), format!("{} `reader` panicked: no input", error.id()));
    }
    let plain = runtime.spawn_on(worker, || async { panic!("no name") });
    let error: tasuki_rt::JoinError = runtime.block_on::<JoinHandle<()>>(plain).unwrap_err();
    assert_eq!(error.to_string(), format!("{} panicked: no name", error.id()));
    // A panic that the task itself catches names nothing.
    let catches = named.spawn_on(worker, || async { catch_unwind(|| panic!("inside")).is_err() });
    assert!(runtime.block_on(catches).unwrap());
    let plain = runtime.spawn_on(worker, || async { panic!("again") });
    assert!(!runtime.block_on::<JoinHandle<()>>(plain).unwrap_err().to_string().contains("reader"));
    assert_eq!(runtime.block_on(named.spawn(async { 1 })).unwrap(), 1);
    assert_eq!(runtime.block_on(TaskBuilder::new().on(&runtime.handle()).spawn(async { 2 })).unwrap(), 2);
}

/// The report of a deadlock names the tasks by their names too.
#[test]
fn a_report_of_a_simulation_names_tasks() {
    let failed = catch_unwind(AssertUnwindSafe(|| {
        Simulation::new(1).run(async {
            let mutex = Arc::new(Mutex::new(0));
            let (held, wanted) = (mutex.clone(), mutex.clone());
            let holder = TaskBuilder::new().name("holder").spawn(async move {
                let _guard = held.lock().await;
                pending::<()>().await;
            });
            yield_now().await;
            TaskBuilder::new().name("waiter").spawn_local(async move { *wanted.lock().await }).await.unwrap();
            holder.await.unwrap();
        });
    }));
    let report = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(report.contains("task 1 `holder` (spawned at"), "{report}");
    assert!(report.contains("task 2 `waiter` (spawned at"), "{report}");
    assert!(report.contains("for task 2 `waiter` to end"), "{report}");
    assert!(report.contains("locals.rs"), "{report}");
}
