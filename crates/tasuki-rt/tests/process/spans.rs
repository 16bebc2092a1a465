//! Spans of tasks, as a subscriber of this test sees them. Alone: `tracing` remembers for the whole process whether a place is of interest, and a thread without a
//! subscriber may come between.

use crate::kit::process::alone;
use crate::kit::{runtime, watchdog};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tasuki_rt::testing::Simulation;
use tasuki_rt::{TaskBuilder, WorkerId, spawn, spawn_blocking, yield_now};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// What is known of a span.
#[derive(Clone, Default)]
struct Seen {
    fields: BTreeMap<&'static str, String>,
    entered: u32,
    left: u32,
    closed: bool,
    events: u32,
}

#[derive(Default)]
struct Log {
    spans: Mutex<BTreeMap<u64, Seen>>,
    last: AtomicU64,
    entered: Mutex<Vec<u64>>,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Log>);

impl Recorder {
    fn edit(&self, id: &Id, edit: impl FnOnce(&mut Seen)) {
        edit(self.0.spans.lock().unwrap().get_mut(&id.into_u64()).unwrap());
    }

    /// The span of the task with this identity.
    fn of(&self, task: tasuki_rt::TaskId) -> Seen {
        let spans = self.0.spans.lock().unwrap();
        let found = spans.values().find(|seen| seen.fields["task.id"] == task.get().to_string());
        found.expect("every task has a span").clone()
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tasuki_rt") || metadata.target() == "spans"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        assert_eq!(attributes.metadata().name(), "runtime.spawn");
        let id = self.0.last.fetch_add(1, Ordering::SeqCst) + 1;
        let mut seen = Seen::default();
        attributes.record(&mut seen);
        self.0.spans.lock().unwrap().insert(id, seen);
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    /// Counted for the span that is entered: on one thread at a time here.
    fn event(&self, _: &Event<'_>) {
        let innermost = *self.0.entered.lock().unwrap().last().expect("inside a span");
        self.edit(&Id::from_u64(innermost), |seen| seen.events += 1);
    }

    fn enter(&self, id: &Id) {
        self.0.entered.lock().unwrap().push(id.into_u64());
        self.edit(id, |seen| seen.entered += 1);
    }

    fn exit(&self, id: &Id) {
        assert_eq!(self.0.entered.lock().unwrap().pop(), Some(id.into_u64()));
        self.edit(id, |seen| seen.left += 1);
    }

    fn try_close(&self, id: Id) -> bool {
        self.edit(&id, |seen| seen.closed = true);
        true
    }
}

/// Everything on one thread: the default subscriber of a thread is enough, and the spans nest.
fn in_a_simulation<T: 'static>(test: impl Future<Output = T> + 'static) -> (Recorder, T) {
    let recorder = Recorder::default();
    let output =
        tracing::dispatcher::with_default(&Dispatch::new(recorder.clone()), || Simulation::new(1).run(test));
    (recorder, output)
}

/// Entered at each poll, and once more to be dropped; what the task does is inside.
#[test]
fn a_span_is_entered_at_each_poll() {
    alone(|| {
        let (recorder, id) = in_a_simulation(async {
            let task = TaskBuilder::new().name("ticker").spawn(async {
                for _ in 0..3 {
                    tracing::info!(target: "spans", "here");
                    yield_now().await;
                }
            });
            let id = task.id();
            task.await.unwrap();
            id
        });
        let seen = recorder.of(id);
        assert_eq!((seen.entered, seen.left, seen.events, seen.closed), (4 + 1, 5, 3, true));
        assert_eq!((&*seen.fields["kind"], &*seen.fields["task.name"]), ("task", "ticker"));
        assert!(seen.fields["loc.file"].ends_with("spans.rs"));
        assert!(seen.fields["loc.line"].parse::<u32>().unwrap() > 1 && seen.fields.contains_key("loc.col"));
    });
}

#[test]
fn every_kind_of_task_has_a_span() {
    alone(|| {
        let (recorder, tasks) = in_a_simulation(async {
            let tasks = [
                (spawn(async {}), "task"),
                (tasuki_rt::spawn_local(async {}), "local"),
                (tasuki_rt::spawn_on(WorkerId::new(1), || async {}), "local"),
            ];
            let mut seen = Vec::new();
            for (task, kind) in tasks {
                seen.push((task.id(), kind));
                task.await.unwrap();
            }
            let aborted = spawn(pending::<()>());
            seen.push((aborted.id(), "task"));
            yield_now().await;
            aborted.abort();
            assert!(aborted.await.is_err());
            let panics = spawn(async { panic!("in a span") });
            seen.push((panics.id(), "task"));
            assert!(panics.await.is_err_and(|error: tasuki_rt::JoinError| error.is_panic()));
            seen
        });
        for (task, kind) in tasks {
            let seen = recorder.of(task);
            assert!(seen.closed && seen.entered == seen.left && seen.entered >= 2, "{kind}");
            assert!(seen.fields["kind"] == kind && seen.fields["loc.file"].ends_with("spans.rs"), "{kind}");
            assert!(!seen.fields.contains_key("task.name"));
        }
    });
}

/// On real threads: made by the thread that spawns, so a subscriber of that thread is enough to see them begin.
#[test]
fn blocking_work_has_a_span() {
    alone(|| {
        let _dog = watchdog(60);
        let (runtime, recorder) = (runtime(1), Recorder::default());
        let id = tracing::dispatcher::with_default(&Dispatch::new(recorder.clone()), || {
            runtime.block_on(async {
                let work = spawn_blocking(|| ());
                let id = work.id();
                work.await.unwrap();
                id
            })
        });
        assert_eq!(recorder.of(id).fields["kind"], "blocking");
    });
}
