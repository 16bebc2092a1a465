//! `Simulation`: one run of a test, by a seed or a schedule, and its settings.

use super::choices::{Schedule, Strategy};
use super::printed_schedule::PrintedSchedule;
use super::virtual_workers::Settings;
use super::{Origin, run_once};
use crate::scheduler::idle::MAX_WORKERS;
use std::future::Future;
use std::time::Duration;

/// How many virtual workers a test has unless it says otherwise.
const WORKERS: usize = 4;
/// How many polls a run may take.
const POLLS: u64 = 10_000_000;
/// How long a foreign thread has to wake a task.
const GRACE: Duration = Duration::from_secs(1);

impl Default for Settings {
    fn default() -> Self {
        Self { workers: WORKERS, polls: POLLS, grace: GRACE }
    }
}

impl Settings {
    #[track_caller]
    pub(super) fn workers(self, workers: usize) -> Self {
        assert!(workers > 0, "a simulation needs at least one worker: pass 1 or more");
        assert!(workers <= MAX_WORKERS, "a simulation has at most {MAX_WORKERS} workers, not {workers}");
        Self { workers, ..self }
    }
}

/// One run: a seed or a schedule, and what it is run on.
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
    plan: Plan,
    settings: Settings,
}

#[derive(Clone, Debug)]
enum Plan {
    Seed(u64),
    Depth(u64, usize),
    Schedule(Schedule),
}

impl Simulation {
    /// Creates a run with this seed, on four workers.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::testing::Simulation::new(1).run(async {});
    /// ```
    pub fn new(seed: u64) -> Self {
        Self { plan: Plan::Seed(seed), settings: Settings::default() }
    }

    /// Creates the run of a schedule that a failure has printed behind `TASUKI_SCHEDULE=`, on as many workers as the failure had: the number before the `@`.
    ///
    /// # Panics
    ///
    /// If it is not one.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::testing::Simulation::replay("4@3:1,17:2").run(async {});
    /// ```
    #[track_caller]
    pub fn replay(schedule: &str) -> Self {
        match schedule.parse() {
            Ok(PrintedSchedule { workers, schedule }) => {
                Self { plan: Plan::Schedule(schedule), settings: Settings::default().workers(workers) }
            }
            Err(error) => panic!("{schedule:?} is no schedule: {error}"),
        }
    }

    /// Schedules tasks by priorities, which change so many times in the first 512 operations of the run, instead of by the strategy that the seed would choose. 1 finds bugs that need two
    /// events in a certain order there, 2 those that need three; more than 4,096 are as 4,096. For a bug further on use random schedules ([`check()`](super::check())).
    ///
    /// # Panics
    ///
    /// For a run made by [`replay`](Self::replay): its schedule has been decided.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::testing::Simulation::new(1).depth(2).run(async {});
    /// ```
    #[track_caller]
    pub fn depth(mut self, depth: usize) -> Self {
        self.plan = match self.plan {
            Plan::Seed(seed) | Plan::Depth(seed, _) => Plan::Depth(seed, depth),
            Plan::Schedule(_) => panic!("a schedule has no depth: `replay` decides everything"),
        };
        self
    }

    /// Sets the number of virtual workers; four unless set. A schedule ([`replay`](Self::replay)) has its own number, with another one it is another run.
    ///
    /// # Panics
    ///
    /// For zero, and for more than 65,535.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::testing::Simulation::new(1).workers(1).run(async {});
    /// ```
    #[track_caller]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings = self.settings.workers(workers);
        self
    }

    /// Sets how many polls the run may take before it fails for not ending; ten million unless set.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::testing::Simulation::new(1).polls(1_000).run(async {});
    /// ```
    pub fn polls(mut self, polls: u64) -> Self {
        self.settings.polls = polls;
        self
    }

    /// Sets how long a foreign thread has to wake a task before a deadlock is reported; one second of the real clock unless set.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// tasuki_rt::testing::Simulation::new(1).grace(Duration::ZERO).run(async {});
    /// ```
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Runs a future as a task pinned to the first worker, and everything that it spawns, until it is done. What is left is
    /// dropped.
    ///
    /// # Panics
    ///
    /// If the future fails, see [the module](super); the seed and the last steps are printed. Also if it is called inside a task.
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
    /// assert_eq!(slept, Duration::from_secs(86_400));
    /// ```
    #[track_caller]
    pub fn run<F: Future<Output: 'static> + 'static>(self, future: F) -> F::Output {
        let (strategy, origin) = match self.plan {
            Plan::Seed(seed) => (Strategy::of(seed), Origin::Seed(seed)),
            Plan::Depth(seed, depth) => (Strategy::of_depth(seed, depth), Origin::Depth(seed, depth)),
            Plan::Schedule(schedule) => (Strategy::Script(schedule), Origin::Schedule),
        };
        run_once(&self.settings, strategy, origin, future)
    }
}
