//! Every public awaitable that can be ready at once is charged to the budget of its task: a loop over it lets others run, on one
//! worker. The rows are compared with the sources, so an awaitable without a row fails the test.

use crate::kit::{runtime, scaled, watchdog};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending, ready};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tasuki_rt::{
    JoinSet, TaskLocal, WorkerId, checkpoint, interval, now, sleep, sleep_until, spawn, timeout, yield_now,
};

/// So many operations are enough for any budget.
pub(super) const ENOUGH: usize = scaled(2_000, 300);

/// After a poll that took too long a worker gives its budget operation by operation, for 50 ms: a machine that holds it up can make it so at any time. An operation that is not ready then is tried again when that is over.
pub(super) const FORGETS: Duration = Duration::from_millis(60);
pub(super) const ATTEMPTS: usize = 10;

/// An awaitable, and a task that uses it in a loop.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The types and functions of the sources that it stands for.
    pub(super) covers: &'static [&'static str],
    pub(super) run: fn() -> Pin<Box<dyn Future<Output = Outcome>>>,
}

/// What became of a loop.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// The other task ran.
    OthersRan,
    /// It did not, in so many operations.
    KeptItsWorker,
    /// The first operation was not ready: the row shows nothing.
    NotReady,
}

/// The task that must run beside the loop.
pub(super) struct Other {
    pub(super) ran: Rc<Cell<bool>>,
}

impl Other {
    pub(super) fn spawn() -> Self {
        let ran = Rc::new(Cell::new(false));
        let set = ran.clone();
        drop(tasuki_rt::spawn_local(async move { set.set(true) }));
        Self { ran }
    }
}

/// Polls a future once, as a part of this task; it must be ready.
pub(super) async fn is_ready_at_once<F: Future>(future: F) -> bool {
    let mut future = Box::pin(future);
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// For what is compiled only: may a task that any worker runs await it?
pub(super) fn is_send<F: Future + Send>(_: F) {}

/// A row: what the operation needs, and the operation, which a task that is `Send` can await; after `local` one that is pinned.
macro_rules! row {
    ($name:literal, [$($covers:literal),* $(,)?], { $($setup:tt)* }, $operation:expr) => {{
        #[allow(unused, reason = "compiled a second time, and not called")]
        let _ = || is_send(async {
            $($setup)*
            $operation;
        });
        row!(local $name, [$($covers),*], { $($setup)* }, $operation)
    }};
    (local $name:literal, [$($covers:literal),* $(,)?], { $($setup:tt)* }, $operation:expr) => {
        Row {
            name: $name,
            covers: &[$($covers),*],
            run: || {
                Box::pin(async {
                    $($setup)*
                    let mut attempts = 1..=ATTEMPTS;
                    loop {
                        // A new poll, with a whole budget.
                        yield_now().await;
                        if is_ready_at_once(async { $operation; }).await {
                            break;
                        }
                        if attempts.next().is_none() {
                            return Outcome::NotReady;
                        }
                        tasuki_rt::sleep(FORGETS).await;
                    }
                    let other = Other::spawn();
                    for _ in 0..ENOUGH {
                        $operation;
                        if other.ran.get() {
                            return Outcome::OthersRan;
                        }
                    }
                    Outcome::KeptItsWorker
                })
            },
        }
    };
}

pub(super) use row;

fn of_the_runtime() -> Vec<Row> {
    static NUMBER: TaskLocal<u32> = TaskLocal::new();
    vec![
        row!("sleep of zero", ["Sleep"], {}, sleep(Duration::ZERO).await),
        row!(
            "sleep_until past",
            [],
            {
                let past = now();
            },
            sleep_until(past).await
        ),
        row!("timeout, ready", ["timeout"], {}, timeout(Duration::from_secs(60), ready(())).await.unwrap()),
        row!("timeout of zero, ready", [], {}, timeout(Duration::ZERO, ready(())).await.unwrap()),
        row!(
            "timeout of zero, pending",
            [],
            {},
            _ = timeout(Duration::ZERO, pending::<()>()).await.unwrap_err()
        ),
        row!(
            "interval",
            ["Interval::tick"],
            {
                let mut ticks = interval(Duration::from_nanos(1));
            },
            _ = ticks.tick().await
        ),
        row!("task-local", ["Scoped"], {}, NUMBER.scope(1, ready(())).await),
        row!("checkpoint", ["checkpoint"], {}, checkpoint().await),
        row!(
            "JoinHandle",
            ["JoinHandle"],
            {
                let mut ended = Vec::new();
                ended.resize_with(ENOUGH + 1, || spawn(async {}));
                while !ended.iter().all(|task| task.is_finished()) {
                    yield_now().await;
                }
            },
            ended.pop().unwrap().await.unwrap()
        ),
        row!(
            "JoinSet",
            ["JoinSet::join_next"],
            {
                let mut set = JoinSet::new();
                let mut ended = Vec::new();
                ended.resize_with(ENOUGH + 1, || spawn(async {}));
                while !ended.iter().all(|task| task.is_finished()) {
                    yield_now().await;
                }
                ended.into_iter().for_each(|task| set.insert(task));
            },
            set.join_next().await.unwrap().unwrap()
        ),
        row!(
            "JoinSet, with id",
            ["JoinSet::join_next_with_id"],
            {
                let mut set = JoinSet::<()>::new();
            },
            drop(set.join_next_with_id().await)
        ),
        row!("JoinSet, all", ["JoinSet::join_all"], {}, drop(JoinSet::<()>::new().join_all().await)),
        row!(
            "JoinSet, shutdown",
            ["JoinSet::shutdown"],
            {
                let mut set = JoinSet::<()>::new();
            },
            set.shutdown().await
        ),
        row!(
            "JoinSet, empty",
            [],
            {
                let mut set = JoinSet::<()>::new();
            },
            drop(set.join_next().await)
        ),
    ]
}

/// Awaitables that are never ready at their first poll.
const ALWAYS_WAIT: [&str; 3] = ["WaitNotified", "yield_now", "ctrl_c"];

fn rows() -> Vec<Row> {
    #[cfg(feature = "net")]
    let sockets = super::budget_sockets::rows().into_iter().chain(super::budget_polls::rows()).collect();
    #[cfg(not(feature = "net"))]
    let sockets = Vec::new();
    [super::budget_primitives::rows(), super::budget_channels::rows(), of_the_runtime(), sockets]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
#[cfg_attr(miri, ignore = "dozens of polls, each with 128 operations: eight minutes")]
fn loops_that_never_wait_let_others_run() {
    let _dog = watchdog(120);
    let runtime = runtime(1);
    let bad: Vec<_> = rows()
        .iter()
        .map(|row| (row.name, runtime.block_on(runtime.spawn_on(WorkerId::new(0), row.run)).unwrap()))
        .filter(|(_, outcome)| *outcome != Outcome::OthersRan)
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
}

/// The table sees a loop that is not charged, and a row that shows nothing.
#[test]
#[cfg_attr(miri, ignore = "as above")]
fn a_loop_that_is_not_charged_is_seen() {
    let _dog = watchdog(120);
    let runtime = runtime(1);
    let outcome = |row: Row| runtime.block_on(runtime.spawn_on(WorkerId::new(0), row.run)).unwrap();
    assert_eq!(outcome(row!("not charged", [], {}, ready(()).await)), Outcome::KeptItsWorker);
    assert_eq!(outcome(row!("never ready", [], {}, yield_now().await)), Outcome::NotReady);
}

/// The first word of what stands after `before`, if it is a name.
fn name_after<'t>(text: &'t str, before: &str) -> Option<&'t str> {
    let rest = &text[text.find(before)? + before.len()..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// The public awaitables of a source file; those that are functions of a type or of a trait have its name before theirs.
fn awaitables(source: &str, names: &mut BTreeMap<String, bool>) {
    let (mut of_type, mut item) = (None, String::new());
    for line in source.lines() {
        // As it is formatted, what begins at the margin is an item, and ends there.
        if let Some(rest) = line.strip_prefix("unsafe impl").or_else(|| line.strip_prefix("impl")) {
            awaitables_in(&std::mem::take(&mut item), None, names);
            let rest = rest.rsplit_once(" for ").map_or(rest, |(_, of)| of);
            let rest = match rest.strip_prefix('<') {
                Some(generics) => generics.split_once("> ").map_or("", |(_, rest)| rest),
                None => rest,
            };
            of_type = name_after(rest.trim_start(), "").map(str::to_owned);
        } else if line.starts_with("pub trait ") {
            awaitables_in(&std::mem::take(&mut item), None, names);
            of_type = name_after(line, "pub trait ").map(str::to_owned);
        }
        item.push_str(line);
        item.push('\n');
        if line == "}" {
            awaitables_in(&std::mem::take(&mut item), of_type.take().as_deref(), names);
        }
    }
    awaitables_in(&item, None, names);
}

/// The names of the public awaitables of an item, by statement: aliases of our futures, futures, functions that are futures or return one.
fn awaitables_in(source: &str, of_type: Option<&str>, names: &mut BTreeMap<String, bool>) {
    let of = |name: &str| of_type.map_or(name.to_owned(), |of| format!("{of}::{name}"));
    let code: String = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, " "])
        .collect();
    // However it is named.
    let code = ["core::future::", "std::future::", "crate::future::", "crate::wait::"]
        .iter()
        .fold(code, |code, path| code.replace(path, ""));
    let in_trait = code.trim_start().starts_with("pub trait ");
    for statement in code.split(['{', '}', ';']) {
        let mut found = |name: Option<String>, is_public| {
            if let Some(name) = name {
                *names.entry(name).or_default() |= is_public;
            }
        };
        if statement.contains("pub type ") && statement.contains("= Wait<") {
            found(name_after(statement, "pub type ").map(str::to_owned), true);
        }
        if in_trait || statement.contains("pub ") {
            let signature = statement.split(" where ").next().unwrap_or_default();
            let returned = signature.rsplit_once("-> ").map_or("", |(_, returned)| returned);
            let is_future = ["impl ", "Pin<Box<dyn "].iter().any(|kind| returned.starts_with(kind))
                && returned.contains("Future");
            if signature.contains("async fn ") || signature.contains("fn ") && is_future {
                found(name_after(signature, "fn ").map(of), true);
            }
        }
        if statement.contains("impl") && statement.contains(" Future for ") {
            found(name_after(statement, " Future for ").map(str::to_owned), false);
        }
    }
}

/// A new awaitable is found in whatever form it is written.
#[test]
fn awaitables_are_found_in_every_form() {
    let found = |source: &str| {
        let mut names = BTreeMap::new();
        awaitables(source, &mut names);
        names.into_keys().collect::<Vec<_>>()
    };
    for source in [
        "pub async fn wait() {}",
        "pub fn wait() -> impl Future<Output = ()> {}",
        "pub const fn wait() -> impl Future<Output = ()> {}",
        "pub fn wait() -> impl core::future::Future<Output = ()> {}",
        "pub fn wait<F>(f: F) -> impl Send + Future<Output = ()>\nwhere\n    F: Fn(),\n{}",
        "pub fn wait() -> impl IntoFuture<Output = ()> {}",
        "pub fn wait() -> Pin<Box<dyn Future<Output = ()>>> {}",
        "impl Future for wait {\n}",
        "impl<F: Fn()> std::future::Future for wait<F> {\n}",
        "pub type wait<T> = Wait<Single<T>>;",
        "pub type wait<T> = crate::wait::Wait<Single<T>>;",
    ] {
        assert_eq!(found(source), ["wait"], "{source}");
    }
    for source in [
        "impl Type {\n    pub async fn wait(&self) {}\n}",
        "pub trait Type {\n    fn wait(&self) -> impl Future<Output = ()> + Send;\n}",
        "pub trait Type {\n    async fn wait(&self);\n}",
    ] {
        assert_eq!(found(source), ["Type::wait"], "{source}");
    }
    let none =
        "pub fn spawn<F>(future: F) -> JoinHandle<F::Output>\nwhere\n    F: Future,\n{}\nasync fn own() {}";
    assert_eq!(found(none), [""; 0]);
}

/// The streams and sinks of a source file: the futures that poll them are those of other crates.
fn streams_and_sinks(source: &str, names: &mut BTreeMap<String, bool>) {
    for line in source.lines().filter(|line| line.starts_with("impl")) {
        let Some((of_trait, of_type)) = line.split_once(" for ") else { continue };
        let of_trait = of_trait.rsplit(' ').next().and_then(|word| word.split('<').next());
        if ["Stream", "Sink"].map(Some).contains(&of_trait) {
            names.extend(name_after(of_type, "").map(|name| (name.to_owned(), false)));
        }
    }
}

/// The public awaitables of both crates.
pub(super) fn awaitables_of(folder: &Path) -> BTreeSet<String> {
    let (mut names, mut sources, mut folders) = (BTreeMap::new(), Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}")) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                sources.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    sources.iter().for_each(|source| awaitables(source, &mut names));
    sources.iter().for_each(|source| streams_and_sinks(source, &mut names));
    // A type that implements `Future` counts if it is public.
    let is_public = |name: &str| {
        ["pub struct ", "pub enum "].iter().any(|kind| {
            sources.iter().any(|source| {
                let found = format!("{kind}{name}");
                source.match_indices(&found).any(|(at, _)| {
                    source[at + found.len()..]
                        .starts_with(|next: char| !next.is_alphanumeric() && next != '_')
                })
            })
        })
    };
    names.into_iter().filter(|(name, told)| *told || is_public(name)).map(|(name, _)| name).collect()
}

#[test]
#[cfg(feature = "net")]
#[cfg_attr(miri, ignore = "reads files")]
fn every_public_awaitable_has_a_row() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut public = awaitables_of(&here.join("src"));
    public.extend(awaitables_of(&here.join("../tasuki/src")));
    public.extend(super::budget_polls::polls_of(&here.join("src")));
    assert!(public.len() > 30, "the sources are not read: {public:?}");
    let rows = rows();
    let covered: BTreeSet<String> =
        rows.iter().flat_map(|row| row.covers).chain(&ALWAYS_WAIT).map(|&name| name.to_owned()).collect();
    let missing: Vec<_> = public.difference(&covered).collect();
    assert!(missing.is_empty(), "awaitables without a row: {missing:?}");
    let gone: Vec<_> = covered.difference(&public).collect();
    assert!(gone.is_empty(), "rows for what there is not: {gone:?}");
}
