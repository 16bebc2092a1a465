//! The name in the error of a task that panicked is its own: also when destructors panic, or poll other tasks while they unwind.

use crate::kit::{runtime, watchdog};
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use tasuki_rt::{
    JoinError, JoinHandle, LocalRuntime, Runtime, TaskBuilder, WorkerId, spawn_local, yield_now,
};

fn named(name: &str) -> TaskBuilder {
    TaskBuilder::new().name(name.to_owned())
}

/// The error of a task that is spawned inside of this runtime.
fn error(runtime: &LocalRuntime, spawn: impl FnOnce() -> JoinHandle<()>) -> String {
    runtime.block_on(async { spawn().await }).map_err(|error: JoinError| error.to_string()).unwrap_err()
}

/// Does this when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A named task that a destructor polls during an unwind, and that does not panic, left its name for the next panic.
#[test]
fn a_poll_during_an_unwind_leaves_no_name() {
    let _dog = watchdog(60);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _polls = OnDrop(|| {
            let runtime = LocalRuntime::new().unwrap();
            runtime.block_on(async { named("quiet").spawn_local(yield_now()).await.unwrap() });
        });
        panic!("outside");
    }));
    assert!(unwound.is_err());
    let runtime = LocalRuntime::new().unwrap();
    let nameless = error(&runtime, || spawn_local(async { panic!("nameless") }));
    assert!(!nameless.contains("quiet"), "{nameless}");
}

/// A task that panics owns another runtime, whose tasks panic when they are dropped with it, under other names: the error has the name of its own task.
#[test]
fn panics_inside_of_panics_keep_their_names() {
    let _dog = watchdog(60);
    let runtime = LocalRuntime::new().unwrap();
    let text = error(&runtime, || {
        named("outer").spawn_local(async {
            let inside = LocalRuntime::new().unwrap();
            let bomb = OnDrop(|| panic!("in"));
            drop(
                named("inner").on(&inside.handle()).spawn_on(WorkerId::new(0), || async move { drop(bomb) }),
            );
            panic!("out");
        })
    });
    assert!(text.contains("`outer` panicked: out"), "{text}");
}

/// A task whose future panics when it is dropped has panicked, under its name; nothing of that is left for the next one.
#[test]
fn a_destructor_that_panics_has_the_name_of_its_task() {
    let _dog = watchdog(60);
    let runtime = Runtime::builder().max_blocking_threads(1).build_local().unwrap();
    let bomb = || OnDrop(|| panic!("at the end"));
    let ways: [&dyn Fn() -> JoinHandle<()>; 3] = [
        &|| {
            let bomb = bomb();
            named("ends").spawn_local(async move {
                yield_now().await;
                std::mem::forget(std::rc::Rc::new(&bomb));
            })
        },
        &|| {
            let bomb = bomb();
            named("ends").spawn_on(WorkerId::new(0), move || async move { drop(bomb) })
        },
        &|| {
            let bomb = AssertUnwindSafe(bomb());
            named("ends").spawn_blocking(move || drop(bomb))
        },
    ];
    for spawn in ways {
        let text = error(&runtime, spawn);
        assert!(text.contains("`ends` panicked: at the end"), "{text}");
    }
    // Aborted before its first poll: the panic is that of the drop.
    let aborted: [&dyn Fn() -> JoinHandle<()>; 3] = [
        &|| {
            let bomb = bomb();
            named("aborted").spawn_local(async move { drop(bomb) })
        },
        &|| {
            let bomb = bomb();
            named("aborted").spawn_on(WorkerId::new(0), move || async move { drop(bomb) })
        },
        &|| {
            let bomb = AssertUnwindSafe(bomb());
            named("aborted").spawn_blocking(move || drop(bomb))
        },
    ];
    for spawn in aborted {
        // Keeps the only thread for blocking work busy until the abort.
        let (go_on, busy) = mpsc::channel();
        drop(runtime.spawn_blocking(move || busy.recv().unwrap()));
        let text = error(&runtime, || {
            let task = spawn();
            task.abort();
            go_on.send(()).unwrap();
            task
        });
        assert!(text.contains("`aborted` panicked"), "{text}");
    }
    // Dropped with its runtime: no error is reported, and no name is left.
    let gone = LocalRuntime::new().unwrap();
    gone.block_on(async {
        let bomb = bomb();
        drop(named("gone").spawn_local(async move { drop(bomb) }));
    });
    drop(gone);
    let nameless = error(&runtime, || spawn_local(async { panic!("nameless") }));
    assert!(!nameless.contains('`'), "{nameless}");
}

/// The same on the threads of a runtime.
#[test]
fn a_task_of_a_worker() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let task = named("works").on(&runtime.handle()).spawn(async { panic!("there") as () });
    let text = runtime.block_on(task).unwrap_err().to_string();
    assert!(text.contains("`works` panicked: there"), "{text}");
}

/// What an error is written to is foreign: it may write the same error.
#[test]
fn an_error_that_is_shown_while_it_is_shown() {
    struct Writer<'a>(&'a JoinError, String);
    impl Write for Writer<'_> {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            self.1 = self.0.to_string();
            Ok(())
        }
    }
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let error = runtime.block_on(named("works").on(&runtime.handle()).spawn(async { panic!("there") as () }));
    let error = error.unwrap_err();
    let mut writer = Writer(&error, String::new());
    write!(writer, "{error} {error:?}").unwrap();
    assert!(writer.1.contains("`works` panicked: there"), "{}", writer.1);
}
