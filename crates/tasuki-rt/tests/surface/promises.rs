//! What users see beside the operations: which errors convert, what a destructor can rely on.

use crate::kit::{Drops, MS, runtime, until, watchdog};
use std::future::{Future, pending};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tasuki_rt::{EventLoop, WorkerId, spawn, spawn_blocking};

/// Functions whose panic has no row in `process/caller.rs`: what it needs is another process (`process/refused_threads.rs`).
const WITHOUT_A_ROW: [&str; 1] = ["drain"];

/// The class: every function of this crate that says when it panics points to its caller, and a panic of it is tried.
#[cfg_attr(miri, ignore = "reads the sources")]
#[test]
fn what_documents_a_panic_tracks_its_caller() {
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { sources(&path, found) } else { found.push(path) }
        }
    }
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let rows = include_str!("../process/caller.rs");
    let has_row = |name: &str| {
        let is_label = |end: &str| rows.contains(&format!("{name}{end}"));
        WITHOUT_A_ROW.contains(&name) || is_label("\", &|") || is_label(" in a task\",")
    };
    let (mut functions, mut missing) = (0, Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (mut panics, mut tracked) = (false, false);
        for line in text.lines().map(str::trim) {
            if line.starts_with("///") {
                panics |= line == "/// # Panics";
            } else if line.starts_with("#[") {
                tracked |= line == "#[track_caller]";
            } else {
                // The callers of an asynchronous function are the polls of its future.
                let declared = ["pub fn ", "pub const fn ", "pub unsafe fn ", "fn "]
                    .iter()
                    .find_map(|start| line.strip_prefix(start));
                if let Some(declared) = declared.filter(|_| panics) {
                    functions += 1;
                    let name = declared.split(['<', '(']).next().unwrap();
                    if !tracked || !has_row(name) {
                        missing.push(format!("{}: {line}", file.display()));
                    }
                }
                (panics, tracked) = (false, false);
            }
        }
    }
    assert!(functions > 10, "{functions} functions that panic");
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn errors_of_tasks_are_errors_of_io() {
    async fn reads() -> io::Result<usize> {
        let read = spawn_blocking(|| std::str::from_utf8(b"abc").unwrap().len());
        let never = spawn(pending::<usize>());
        never.abort();
        Ok(read.await? + never.await?)
    }
    let error = runtime(1).block_on(reads()).unwrap_err();
    assert!(error.kind() == io::ErrorKind::Other && error.to_string().contains("aborted"), "{error}");
}

/// Ready at once; its destructor says what it can see.
struct Ready<D: Fn()>(D, Option<&'static str>);

impl<D: Fn()> Future for Ready<D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.1 {
            Some(message) => panic!("{message}"),
            None => Poll::Ready(()),
        }
    }
}

impl<D: Fn()> Drop for Ready<D> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The future of `block_on` is dropped where it was polled: it may spawn, and knows its task; also when it panicked.
#[test]
fn block_on_drops_its_future_in_its_context() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let dropped = AtomicUsize::new(0);
    let spawns = || {
        let set = Drops::default();
        let held = set.one();
        drop(spawn(async move { drop(held) }));
        until(|| set.count() == 1);
        dropped.fetch_add(1 + usize::from(tasuki::task::current().is_some()), Ordering::SeqCst);
    };
    runtime.block_on(Ready(spawns, None));
    assert_eq!(dropped.load(Ordering::SeqCst), 2, "with its identity");
    assert!(catch_unwind(AssertUnwindSafe(|| runtime.block_on(Ready(spawns, Some("no"))))).is_err());
    assert!(dropped.load(Ordering::SeqCst) >= 3);
}

/// What a task holds when it panics is dropped while the panic unwinds, as on a thread; a second panic on the way goes no further.
#[test]
fn the_destructors_of_a_panicking_task_know() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let seen = Arc::new(AtomicUsize::new(0));
    let sees = |also_panics: bool| {
        let seen = seen.clone();
        move || {
            seen.fetch_add(usize::from(std::thread::panicking()), Ordering::SeqCst);
            assert!(!also_panics, "in the destructor");
        }
    };
    let error = runtime.block_on(runtime.spawn(Ready(sees(false), Some("first")))).unwrap_err();
    assert!(seen.load(Ordering::SeqCst) == 1 && error.to_string().contains("first"), "{error}");
    let error = runtime.block_on(runtime.spawn(Ready(sees(true), Some("second")))).unwrap_err();
    assert!(seen.load(Ordering::SeqCst) == 2 && error.to_string().contains("second"), "{error}");
    runtime.block_on(runtime.spawn(Ready(sees(false), None))).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

/// The id of a worker is good for its own runtime; one made by hand for any.
#[test]
fn workers_of_two_runtimes_are_told_apart() {
    let _dog = watchdog(60);
    let runtimes = [runtime(2), runtime(2)];
    let mut ids = Vec::new();
    runtimes[0].for_each_worker(|id| ids.push(id));
    assert_eq!(ids, [WorkerId::new(0), WorkerId::new(1)]);
    let own = runtimes[0].spawn_on(ids[1], || async { EventLoop::current().unwrap().id() });
    let given = runtimes[0].block_on(own).unwrap();
    assert_eq!(given, ids[1]);
    for id in [ids[1], given] {
        let refused = catch_unwind(AssertUnwindSafe(|| drop(runtimes[1].spawn_on(id, || async {}))));
        let message = *refused.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("worker 1 is one of another runtime"), "{message}");
    }
    let any = runtimes[1].spawn_on(WorkerId::new(given.index()), || async {});
    runtimes[1].block_on(any).unwrap();
    assert_eq!(runtimes[1].tasks(), 0);
}

/// A handle may be ignored: its task runs.
#[deny(unused_must_use)]
#[test]
fn a_handle_need_not_be_used() {
    let _dog = watchdog(60);
    let (runtime, drops) = (runtime(1), Drops::default());
    runtime.start().unwrap();
    let held = drops.one();
    runtime.spawn(async move {
        tasuki_rt::sleep(MS).await;
        drop(held);
    });
    until(|| drops.count() == 1);
}
