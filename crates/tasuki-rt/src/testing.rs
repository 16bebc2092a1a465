//! Tests under every schedule: one thread, an order drawn from a seed, and a time that passes only when everybody waits.
//!
//! A test runs its tasks on virtual workers, all on the calling thread. Which runnable task goes next, and on which worker,
//! is drawn from the seed: the same seed, the same run. [`sleep`](crate::sleep) and every `.timeout()` follow a virtual clock,
//! which jumps to the next deadline when nothing can run; an hour takes no time. When nothing can run and nothing is
//! due, the test fails instead of hanging.
//!
//! Everything of the crate works in it: [`spawn`](crate::spawn()), pinned tasks, [`EventLoop`](crate::EventLoop),
//! [`LoopMutex`](crate::LoopMutex); [`spawn_blocking`](crate::spawn_blocking()) runs its closure in line. Other threads have no place in it: what
//! they wake is run, in an order that no seed repeats.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tasuki::Mutex;
//! use tasuki_rt::testing;
//!
//! // A hundred schedules; a failure prints the seed, and `TASUKI_SEED` repeats it.
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

use crate::builder::Resume;
use crate::context::{Context, Seat};
use crate::error::JoinError;
use crate::scheduler::shutdown::drop_item;
use crate::scheduler::worker::{run_job, run_task};
use crate::scheduler::{Item, Shared};
use crate::task::{self, quietly};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tasuki::runtime::Timers;

/// How many virtual workers a test has unless it says otherwise.
const WORKERS: usize = 4;

/// Runs a test under so many schedules, or under the one of `TASUKI_SEED` if that is set.
///
/// The seeds are new each time; the one that fails is printed.
///
/// # Panics
///
/// If the test panics, or waits for what cannot come.
///
/// # Examples
///
/// ```
/// tasuki_rt::testing::check(10, || async {
///     assert_eq!(tasuki_rt::spawn(async { 5 }).await.unwrap(), 5);
/// });
/// ```
pub fn check<F: Future<Output = ()> + 'static>(schedules: u64, mut test: impl FnMut() -> F) {
    if let Ok(seed) = std::env::var("TASUKI_SEED") {
        let seed = seed.parse().unwrap_or_else(|_| panic!("TASUKI_SEED={seed:?} is no number"));
        return Simulation::new(seed).run(test());
    }
    let base = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    (0..schedules).for_each(|step| Simulation::new(base.wrapping_add(step)).run(test()));
}

/// One run: a seed, and what it is run on.
///
/// # Examples
///
/// ```
/// use tasuki_rt::testing::Simulation;
///
/// let order = |seed| Simulation::new(seed).workers(2).run(async {
///     let log = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
///     let mut tasks = tasuki_rt::JoinSet::new();
///     for n in 0..8 {
///         let log = log.clone();
///         tasks.spawn(async move { log.lock().unwrap().push(n) });
///     }
///     while tasks.join_next().await.is_some() {}
///     let log = log.lock().unwrap().clone();
///     log
/// });
/// assert_eq!(order(3), order(3));
/// assert!((0..20).any(|seed| order(seed) != order(3)));
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `run`"]
pub struct Simulation {
    seed: u64,
    workers: usize,
}

impl Simulation {
    /// A run with this seed, on four workers.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::testing::Simulation::new(1).run(async {});
    /// ```
    pub fn new(seed: u64) -> Self {
        Self { seed, workers: WORKERS }
    }

    /// So many workers instead.
    ///
    /// # Panics
    ///
    /// For zero.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::testing::Simulation::new(1).workers(1).run(async {});
    /// ```
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "a simulation needs at least one worker: pass 1 or more");
        self.workers = workers;
        self
    }

    /// Runs a future as a task pinned to the first worker, and everything that it spawns, until it is done. What is left is
    /// dropped.
    ///
    /// # Panics
    ///
    /// If the future panics; if it waits and nothing can run and no sleep is due; inside a task. The seed is printed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tasuki_rt::testing::Simulation;
    ///
    /// let slept = Simulation::new(1).run(async {
    ///     let start = tasuki_rt::now();
    ///     tasuki_rt::sleep(Duration::from_secs(86_400)).await;
    ///     tasuki_rt::now() - start
    /// });
    /// assert!(slept >= Duration::from_secs(86_400));
    /// ```
    pub fn run<F: Future<Output: 'static> + 'static>(self, future: F) -> F::Output {
        assert!(!crate::context::is_worker(), "a simulation inside a task would stop its worker");
        let (shared, _stations) = Shared::new(self.workers, Resume::default());
        let sim = Box::new(Sim::new(self.seed, self.workers));
        let context = Context::new(shared, Seat::Sim(sim));
        let result = context.enter(|| self.drive(&context, future));
        result.unwrap_or_else(|failure| {
            eprintln!("failed with TASUKI_SEED={}", self.seed);
            match failure {
                Failure::Task(error) => match error.into_panic() {
                    Ok(payload) => resume_unwind(payload),
                    Err(error) => panic!("the test ended without a result: {error}"),
                },
                Failure::Deadlock(tasks) => {
                    panic!("deadlock: {tasks} tasks wait, nothing can run and no sleep is due")
                }
            }
        })
    }

    fn drive<F>(&self, context: &Context, future: F) -> Result<F::Output, Failure>
    where
        F: Future<Output: 'static> + 'static,
    {
        let Seat::Sim(sim) = &context.seat else { unreachable!("made above") };
        let shared = &context.shared;
        // SAFETY: pinned to a worker whose thread this is, as all are.
        let mut main = unsafe { task::spawn(shared, Some(0), future) };
        let mut cx = std::task::Context::from_waker(Waker::noop());
        let result = loop {
            if let Poll::Ready(result) = main.poll_trusted(&mut cx) {
                break result.map_err(Failure::Task);
            }
            match sim.pick(shared) {
                Some(Item::Task(runnable)) => run_task(context, runnable),
                Some(Item::Job(job)) => run_job(job),
                None => break Err(Failure::Deadlock(shared.census.len())),
            }
        };
        drop(main);
        sim.end(context);
        result
    }
}

/// Why a simulation failed.
enum Failure {
    Task(JoinError),
    Deadlock(usize),
}

/// All workers of a simulation.
pub(crate) struct Sim {
    pub(crate) timers: Arc<Timers>,
    /// With the worker that must be played to run it, if there is one.
    ready: RefCell<Vec<(Option<usize>, Item)>>,
    workers: usize,
    here: Cell<usize>,
    now: Cell<Instant>,
    dice: Cell<u64>,
}

impl Sim {
    fn new(seed: u64, workers: usize) -> Self {
        Self {
            timers: Arc::new(Timers::new(Waker::noop().clone())),
            ready: RefCell::default(),
            workers,
            here: Cell::new(0),
            now: Cell::new(Instant::now()),
            dice: Cell::new(seed),
        }
    }

    /// The worker that is played now.
    pub(crate) fn here(&self) -> usize {
        self.here.get()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(crate) fn put(&self, home: Option<usize>, item: Item) {
        self.ready.borrow_mut().push((home, item));
    }

    /// SplitMix64, below `bound`.
    fn roll(&self, bound: usize) -> usize {
        let state = self.dice.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.dice.set(state);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    /// Anything that can run, on any worker that may run it; the time passes if nothing can.
    fn pick(&self, shared: &Shared) -> Option<Item> {
        self.take_from_outside(shared);
        while self.ready.borrow().is_empty() {
            let next = self.turn()?;
            if self.ready.borrow().is_empty() {
                self.now.set(next.max(self.now.get()));
            }
        }
        let mut ready = self.ready.borrow_mut();
        let at = self.roll(ready.len());
        let (home, item) = ready.swap_remove(at);
        self.here.set(home.unwrap_or_else(|| self.roll(self.workers)));
        Some(item)
    }

    /// Rings the sleeps that are due. `None` if nothing became ready, and nothing will.
    fn turn(&self) -> Option<Instant> {
        let mut next = Some(self.now.get());
        quietly(|| next = self.timers.advance(self.now.get()));
        if self.ready.borrow().is_empty() { next } else { Some(self.now.get()) }
    }

    fn take_from_outside(&self, shared: &Shared) {
        let mut ready = self.ready.borrow_mut();
        ready.extend(shared.global.take_all().map(|runnable| (None, Item::Task(runnable))));
        for (worker, remote) in shared.remotes.iter().enumerate() {
            ready.extend(remote.inbox.take_all().map(|item| (Some(worker), item)));
        }
    }

    /// Drops every task that is left.
    fn end(&self, context: &Context) {
        let shared = &context.shared;
        shared.close();
        shared.registry.wake_others();
        (0..self.workers).for_each(|worker| shared.registry.wake_pinned(worker));
        while shared.census.len() > 0 {
            self.take_from_outside(shared);
            let Some((home, item)) = self.ready.borrow_mut().pop() else {
                // A foreign thread is about to push it.
                std::thread::yield_now();
                continue;
            };
            self.here.set(home.unwrap_or(0));
            drop_item(context, item);
        }
        let left = self.ready.take();
        left.into_iter().for_each(|(_, item)| drop_item(context, item));
    }
}
