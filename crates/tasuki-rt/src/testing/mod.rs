//! Tests by exploration: the same test under many schedules, drawn at random or enumerated, with a virtual clock.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tasuki::Mutex;
//! use tasuki_rt::testing;
//!
//! // A hundred schedules; a failure prints its seed and its schedule.
//! testing::check(100, || async {
//!     let counter = Arc::new(Mutex::new(0));
//!     let other = counter.clone();
//!     let task = tasuki_rt::spawn(async move {
//!         let mut n = other.lock().await;
//!         tasuki_rt::sleep(Duration::from_secs(3600)).await;
//!         *n += 1;
//!     });
//!     *counter.lock().await += 1;
//!     task.await.unwrap();
//!     assert_eq!(*counter.lock().await, 2);
//! });
//! ```
//!
//! A schedule says which task runs when. A test that is run once sees one of them, and on an idle machine nearly always the same; this module runs
//! its tasks on virtual workers, all on the calling thread, and decides itself what runs next. It finds deadlocks, lost wake-ups, races
//! between tasks and wrong assumptions about order that a thousand runs on a real runtime may miss.
//!
//! | I want | use |
//! |---|---|
//! | many schedules, new ones each time | [`check()`] |
//! | all schedules of a small program, up to a number of switches | [`Exhaustive`] |
//! | one schedule, and its result | [`Simulation`] |
//! | to repeat a failure | `TASUKI_SEED=..` or `TASUKI_SCHEDULE=..`, which it has printed |
//!
//! # What a step is
//!
//! A task may be switched away at every await of a primitive of `tasuki` or of this crate, whether it must wait or not: the
//! operation has done nothing yet, and the others run first. What is between two such awaits is one step, and runs as a whole. So a race inside a step, between
//! atomics or `std` mutexes on two threads, is not found here; that is what `loom` is for.
//!
//! So the first poll of a wait may return `Pending` without a place in the queue; its task is woken, and the next poll takes the place. An `.await` polls until it is ready, so it does not notice. A test that polls a future by hand, once, and relies on its
//! place must poll it with another waker than that of its task, such as `Waker::noop()`: a wait that is polled with another waker is enqueued at its first poll. So are the waits in a set of futures, which have wakers of their own. An
//! operation that is ready may be switched away whatever its waker: `now_or_never` of a free lock may be `None`.
//!
//! The branches of one task (`join!`, `select!`) are switched one by one: a branch that is switched away has done nothing, and the next one goes on in the same poll. (If it was to wait, the operations that the next ones begin in this poll are switched away, too, so waits are enqueued in the
//! order of the branches.) So some orders are seen here alone: a biased `select!` may take a branch though an earlier one is ready, and what a branch does without an await, such as setting and resetting an event, may come before an earlier branch waits. Do not rely on the order of branches. To look whether a token is cancelled
//! before each receive, write [`run_until_cancelled`](tasuki::CancellationToken::run_until_cancelled) instead of a biased `select!`.
//!
//! It is exploration, not proof: [`check()`] sees some schedules, and [`Exhaustive`] all up to a bound that it is given.
//!
//! # What decides
//!
//! The seed. In half of the runs every decision is random, and one operation in 2 to 30 switches. In the other half each task has a random
//! priority, and before one to four operations, random ones among the first 512 of the run, the running task falls below all others; that finds a bug which needs a few events in a certain order
//! there, and the first half of the runs one that is further on. (The running task falls also once in 16,384 picks, so that tasks which wake each other for ever starve no other.)
//!
//! The same seed gives the same run, as long as nothing else in the test is random: no clock but [`now`](crate::now()), no address or [`TaskId`](crate::TaskId) that decides anything, no thread. The
//! `select!` of `futures` and that of tokio begin with a random branch: [`Exhaustive`] refuses a test in which that changes what there is to decide, but does not see it where the decisions stay the same, and so may miss what the other branch does; and a seed does not repeat it. Write `select_biased!`, or the biased form of tokio's.
//!
//! A schedule that fails is made smaller before it is reported: decisions are left out as long as the test still fails in the same way. (A run that does not end is reported as it is, by [`check()`] with its seed only: `TASUKI_SEED` repeats it.) What is printed is enough to
//! repeat it, by `TASUKI_SCHEDULE` with [`check()`], [`Exhaustive`] and the attributes, or by [`Simulation::replay`]: `4@2:1,5:1` deviates from the simplest order in the decisions 2 and 5, on four workers. (A run
//! of more than 2^20 decisions is not made smaller, and is repeated by its seed only: `TASUKI_SEED`.)
//!
//! # Time
//!
//! [`sleep`](crate::sleep()) and every `.timeout()` follow a virtual clock. It stands still while anything can run and jumps to the next deadline when
//! nothing can; an hour takes no time, and a sleep of 10 ms takes exactly 10 ms. As in a runtime, deadlines are rounded up to a
//! millisecond.
//!
//! A loop that asks again and again until something happens could run for ever, so it uses up time:
//!
//! * A poll that does nothing but [yield](#yields) costs 1 µs at first, and twice as much after each 1,000 polls in which nothing else became ready. The clock follows in whole milliseconds, and [`now`](crate::now()) with it.
//! * A poll that is switched away at an operation which is ready, such as a free lock, costs nothing at first: it may be work. After 10,000 of them in which nothing else became ready, each costs as much as a yield.
//! * A poll of a task that is woken during its poll (see [Yields](#yields)) costs nothing for the first 65,536 in a row, and then as much as a yield.
//!
//! A deadline that is 10,000 years after the start of the run never comes, nor does that of a sleep which is carried out of its simulation: the clock has stopped.
//!
//! # Yields
//!
//! A task that yields lets the others run first: [`Exhaustive`] counts it as one of its few switches if such a task goes on before them, and with priorities the task falls below all others. A task yields
//!
//! * with [`yield_now`](crate::yield_now());
//! * with an exhausted budget: 128 operations in one poll that were ready;
//! * if a future wakes the task by the waker of its poll itself (`cx.waker().wake_by_ref()`) and returns `Pending`, as the `yield_now` of other crates does.
//!
//! A task that is woken during its own poll by a *clone* of the waker does not yield: mostly something was granted to another of its futures, as in a `join!` of a sender and a receiver. After
//! 128 such polls of one task, with no such poll of another task between them, the others go first once, so that they do not starve.
//!
//! # What fails
//!
//! * The test panics, or a posted closure does.
//! * A task panics and no handle gives the panic out: its [`JoinHandle`](crate::JoinHandle) was dropped before or after the panic, or still has it when the run has ended (in a static, say); or its [`JoinSet`](crate::JoinSet) is dropped, shut down or detached
//!   with it, or still has it then.
//! * A deadlock: the test has not ended, nothing can run, and no deadline will come. The report names every task that waits, where it was
//!   spawned, and the tasks for whose end it waits; in debug builds and with the feature `inspect` also what else it waits for, and of a lock where it asked for it and which task has taken it, and where.
//! * It does not end within ten million polls ([`Simulation::polls`] sets another limit), or within 100,000 in a run of [`Exhaustive`].
//! * The destructor of a task, of an output that is not taken, or of a posted closure panics. (That of an aborted task whose handle gives the panic out is no failure, as any other panic of a task that its handle gives out.)
//!
//! Tasks that still wait when the test has ended are dropped, as at the end of a runtime. If a run fails twice, the first failure is the one that is reported: a destructor that panics when the tasks of a deadlock are dropped
//! does not hide the deadlock.
//!
//! # What else there is
//!
//! Pinned tasks, [`EventLoop`](crate::EventLoop) and [`LoopMutex`](crate::LoopMutex) work as on a runtime; sockets and other descriptors are an error, for no seed could repeat what they do. A signal comes as from a foreign thread.
//! [`spawn_blocking`](crate::spawn_blocking()) runs its closure as one step of a task, on the same thread, so it must not wait for another task: `.block()` and `block_on` panic there.
//!
//! Other threads have no place in it, but are not forbidden: what they wake is run, in an order that no seed repeats. When nothing
//! else can run and no deadline will come, the simulation waits for them, one second of the real clock, before it reports a deadlock; if that may
//! be too short, hold the guard of [`foreign_wakes`] for as long as a wake may come. It does not wait while there is a deadline: the clock jumps there, so a limit on the wait for a thread expires at once, with the guard, too.
//! What they give to `spawn_blocking` of a [`Handle`](crate::Handle) runs on real threads, which end with the run; a panic of it is for its handle alone, and fails no test by itself.
//!
//! # A test that fails
//!
//! Two locks, taken in opposite order:
//!
//! ```should_panic
//! use std::sync::Arc;
//! use tasuki::Mutex;
//! use tasuki_rt::{spawn, testing};
//!
//! testing::check(1_000, || async {
//!     let (a, b) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
//!     let (c, d) = (a.clone(), b.clone());
//!     let one = spawn(async move { *a.lock().await + *b.lock().await });
//!     let two = spawn(async move { *d.lock().await + *c.lock().await });
//!     assert_eq!(one.await.unwrap() + two.await.unwrap(), 6);
//! });
//! ```

mod choices;
mod exhaustive;
mod failure;
mod poll_waker;
mod printed_schedule;
mod report;
mod shrink;
mod simulation;
mod spin_clock;
mod unobserved_panics;
mod virtual_workers;

pub use exhaustive::{Exhaustive, Explored};
pub(crate) use poll_waker::PollWaker;
pub(crate) use report::SetAddress;
pub use simulation::Simulation;
pub(crate) use unobserved_panics::UnobservedPanic;
pub(crate) use virtual_workers::Sim;

use crate::builder::Builder;
use crate::context::{self, Context, SpawnSite, ThreadRole};
use crate::scheduler::Shared;
use crate::task;
use crate::task_local::outside_of_scopes;
use choices::Strategy;
use failure::{Failure, FailureMark, SourcePlaces, contain_panic, take_panics};
use printed_schedule::PrintedSchedule;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use virtual_workers::{RunHistory, Settings};

/// Runs a test under that many random schedules, or under the one that `TASUKI_SEED` or `TASUKI_SCHEDULE` names.
///
/// The seeds are new each time. A schedule that fails is made smaller, and both are printed. For fixed
/// seeds, use [`Simulation`].
///
/// # Panics
///
/// If the test fails; see [the module](self).
///
/// # Examples
///
/// ```
/// tasuki_rt::testing::check(10, || async {
///     assert_eq!(tasuki_rt::spawn(async { 5 }).await.unwrap(), 5);
/// });
/// ```
#[track_caller]
pub fn check<F: Future<Output = ()> + 'static>(schedules: u64, mut test: impl FnMut() -> F) {
    let settings = Settings::default();
    if let Some((settings, strategy, origin)) = from_environment(&settings) {
        return run_once(&settings, strategy, origin, test());
    }
    let base = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    for step in 0..schedules {
        let seed = base.wrapping_add(step);
        let run = attempt(&settings, Strategy::of(seed), test());
        if let Err(failure) = run.result {
            give_up(
                &settings,
                Found { failure, history: run.history, origin: Origin::Seed(seed) },
                &mut test,
            );
        }
    }
}

/// Returns a guard that tells the simulation that a foreign thread may wake its tasks: while it exists, no deadlock is reported.
///
/// Move it to the thread, and drop it when the last wake has been sent. Without one the simulation waits for one second. Outside of a simulation
/// it does nothing.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tasuki::Event;
/// use tasuki_rt::testing::{self, Simulation};
///
/// Simulation::new(1).run(async {
///     let done = Arc::new(Event::manual());
///     let (told, guard) = (done.clone(), testing::foreign_wakes());
///     std::thread::spawn(move || {
///         told.set();
///         drop(guard);
///     });
///     done.wait().await;
/// });
/// ```
pub fn foreign_wakes() -> ForeignWakes {
    let count = context::with(|context| match context.map(|context| &context.role) {
        Some(ThreadRole::Sim(sim)) => sim.foreign(),
        _ => Arc::default(),
    });
    // Relaxed: the simulation's own thread reads it.
    count.fetch_add(1, Ordering::Relaxed);
    ForeignWakes(count)
}

/// The guard of [`foreign_wakes`].
#[derive(Debug)]
#[must_use = "it has an effect for as long as it exists"]
pub struct ForeignWakes(Arc<AtomicUsize>);

impl Drop for ForeignWakes {
    fn drop(&mut self) {
        // Release: pairs with Acquire in `Sim::wait_for_outside`. A thread that sees the number sees the wakes before it.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// What a run was told to do.
enum Origin {
    Seed(u64),
    Depth(u64, usize),
    Schedule,
    Search,
}

/// A run, and how it ended.
struct Run<T> {
    result: Result<T, Failure>,
    history: RunHistory,
}

/// A failure.
struct Found {
    failure: Failure,
    history: RunHistory,
    origin: Origin,
}

/// What `TASUKI_SCHEDULE` or `TASUKI_SEED` asks for; a schedule has its own number of workers.
#[track_caller]
fn from_environment(settings: &Settings) -> Option<(Settings, Strategy, Origin)> {
    let settings = settings.clone();
    // No panic inside of a closure, which would not know its caller.
    if let Ok(schedule) = std::env::var("TASUKI_SCHEDULE") {
        match schedule.parse() {
            Ok(PrintedSchedule { workers, schedule }) => {
                return Some((settings.workers(workers), Strategy::Script(schedule), Origin::Schedule));
            }
            Err(error) => panic!("TASUKI_SCHEDULE={schedule:?}: {error}"),
        }
    }
    let seed = std::env::var("TASUKI_SEED").ok()?;
    let Ok(seed) = seed.parse() else { panic!("TASUKI_SEED={seed:?} is no number") };
    Some((settings, Strategy::of(seed), Origin::Seed(seed)))
}

/// A run whose failure is the caller's.
#[track_caller]
fn run_once<F>(settings: &Settings, strategy: Strategy, origin: Origin, future: F) -> F::Output
where
    F: Future<Output: 'static> + 'static,
{
    let Run { result, history } = attempt(settings, strategy, future);
    match result {
        Ok(output) => output,
        Err(failure) => {
            let found = Found { failure, history, origin };
            found.print("");
            found.failure.raise()
        }
    }
}

/// Makes the failure smaller, and reports it.
#[track_caller]
fn give_up<F>(settings: &Settings, found: Found, test: &mut impl FnMut() -> F) -> !
where
    F: Future<Output = ()> + 'static,
{
    found.print("");
    if matches!(found.failure, Failure::TooLong(_)) {
        // Each further run may take as long: hundreds of them would seem to hang.
        found.failure.raise();
    }
    let record = &found.history.record;
    let mut settings = settings.clone();
    if !found.history.met_foreign {
        // It has been waited for, once.
        settings.grace = Duration::ZERO;
    }
    let said = found.failure.mark(SourcePlaces::new());
    // Of the first run that was heard, which has the whole schedule.
    let mut first: Option<FailureMark> = None;
    let mut fails = |schedule| {
        let made = made_again(test)?;
        take_panics();
        let run = attempt(&settings, Strategy::Script(schedule), made);
        let Err(failure) = run.result else { return None };
        let mark = failure.mark(take_panics());
        // Foreign code, as what a task panicked with: a panic of it is no part of the failure that is reported.
        task::contain_panic(|| drop(failure));
        let same = first.as_ref().map_or(mark.says_the_same(&said), |first| mark.repeats(first));
        if same {
            first.get_or_insert(mark);
        }
        same.then(|| run.history.record.schedule())
    };
    let schedule = record.schedule();
    let smaller = contain_panic(|| {
        // A run that cannot be repeated cannot be made smaller.
        record
            .complete
            .then(|| fails(schedule))
            .flatten()
            .map(|schedule| shrink::shrink(schedule, &mut fails))
    });
    let Some(smaller) = smaller else {
        eprintln!(
            "{}",
            if record.complete {
                "its schedule alone does not make it fail again: something outside of the simulation decides"
            } else {
                "it has too many decisions to be made smaller"
            }
        );
        found.failure.raise();
    };
    let Some(again) = made_again(test) else { found.failure.raise() };
    let Run { result, history } = attempt(&settings, Strategy::Script(smaller), again);
    if let Err(failure) = result {
        task::contain_panic(|| drop(found.failure));
        let found = Found { failure, history, origin: Origin::Schedule };
        found.print("a smaller schedule that still fails: ");
        found.failure.raise();
    }
    found.failure.raise()
}

/// The test, for one more run. `None` if the closure that makes it panics, as it may where an earlier run has left something behind: that is another failure than the one that is reported.
fn made_again<F>(test: &mut impl FnMut() -> F) -> Option<F> {
    let mut made = None;
    task::contain_panic(|| made = Some(test()));
    made
}

impl Found {
    fn print(&self, what: &str) {
        let (workers, schedule) = (self.history.workers, self.history.record.schedule());
        let switches = schedule.len();
        let schedule = PrintedSchedule { workers, schedule };
        match self.origin {
            Origin::Seed(seed) => eprintln!("{what}failed with TASUKI_SEED={seed}"),
            Origin::Depth(seed, depth) => eprintln!("{what}failed with seed {seed}, depth {depth}"),
            Origin::Schedule => eprintln!("{what}TASUKI_SCHEDULE={schedule} ({switches} not the default)"),
            Origin::Search => eprintln!("{what}failed in a search, TASUKI_SCHEDULE={schedule}"),
        }
        eprintln!("the last steps:\n{}", self.history.steps);
    }
}

/// One run.
#[track_caller]
fn attempt<F>(settings: &Settings, strategy: Strategy, future: F) -> Run<F::Output>
where
    F: Future<Output: 'static> + 'static,
{
    assert!(!context::is_worker(), "a simulation inside a task would stop its worker");
    let (shared, _unstarted) = Shared::new(&Builder::with_workers(settings.workers));
    let sim = Box::new(Sim::new(settings.clone(), strategy));
    let context = Context::new(shared, ThreadRole::Sim(sim));
    let ThreadRole::Sim(sim) = &context.role else { unreachable!("made above") };
    let run = || {
        let result = drive(&context, sim, future);
        sim.end(&context);
        result
    };
    let result = outside_of_scopes(|| context.enter(run));
    sim.fail_by_unobserved_panics();
    // The first failure, if there are two: what a destructor panics with at the end does not hide why the run has ended.
    let result = match (result, sim.failure()) {
        (Ok(output), Some(failure)) => {
            task::contain_panic(|| drop(output));
            Err(failure)
        }
        (result, later) => {
            task::contain_panic(|| drop(later));
            result
        }
    };
    Run { result, history: sim.history() }
}

/// The future as a task pinned to the first worker, and all that it spawns, until it has ended or something has failed.
fn drive<F>(context: &Context, sim: &Sim, future: F) -> Result<F::Output, Failure>
where
    F: Future<Output: 'static> + 'static,
{
    // SAFETY: pinned to a worker whose thread this is, as all are.
    let mut main = unsafe { task::spawn(&context.shared, Some(0), future, SpawnSite::here()) }.handle();
    let mut cx = std::task::Context::from_waker(Waker::noop());
    loop {
        if let Some(failure) = sim.failure() {
            return Err(failure);
        }
        if let Poll::Ready(result) = main.poll_trusted(&mut cx) {
            return result.map_err(|error| match error.into_panic() {
                Ok(payload) => Failure::Panic(payload),
                Err(error) => Failure::NoResult(format!("the test ended without a result: {error}")),
            });
        }
        sim.step(context)?;
    }
}
