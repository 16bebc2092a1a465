//! Every schedule of a small program, up to a number of deviations: a depth-first search over the decisions of its runs.

use super::choices::{Choice, DecisionRecord, Strategy};
use super::virtual_workers::Settings;
use super::{Found, Origin, attempt, from_environment, give_up};
use std::future::Future;
use std::time::Duration;

/// How many switches a schedule has at most, and how many schedules are run, unless a test says otherwise.
const SWITCHES: u32 = 2;
const SCHEDULES: u64 = 100_000;
/// Polls of a run.
const POLLS: u64 = 100_000;

/// Runs a small test under all its schedules, one after the other.
///
/// A schedule says which task goes on whenever one waits or ends, in every possible order, and where a task is interrupted
/// although it could go on: before an operation, whether that must wait or not, at most so often in a run as [`switches`](Self::switches) says. Few bugs need more than
/// two. To run a task that has [yielded](super#yields) before all others that can run costs one as well. On which worker a task runs is not varied.
///
/// The number of schedules grows very fast with the number of tasks and of awaits. See [the module](super) for what a step is.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tasuki::Mutex;
/// use tasuki_rt::testing::Exhaustive;
///
/// let explored = Exhaustive::new().check(|| async {
///     let total = Arc::new(Mutex::new(0));
///     let add = |total: Arc<Mutex<i32>>| async move { *total.lock().await += 1 };
///     let tasks = [tasuki_rt::spawn(add(total.clone())), tasuki_rt::spawn(add(total.clone()))];
///     for task in tasks {
///         task.await.unwrap();
///     }
///     assert_eq!(*total.lock().await, 2);
/// });
/// assert!(explored.is_complete());
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `check`"]
pub struct Exhaustive {
    settings: Settings,
    switches: u32,
    schedules: u64,
}

/// The result of an exhaustive search: how many schedules were run, and whether those were all.
///
/// # Examples
///
/// ```
/// let explored = tasuki_rt::testing::Exhaustive::new().check(|| async {});
/// assert_eq!((explored.schedules(), explored.is_complete()), (1, true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a search that is not complete has shown little"]
pub struct Explored {
    schedules: u64,
    complete: bool,
    /// One schedule was run, that of `TASUKI_SCHEDULE` or `TASUKI_SEED`: nothing was searched.
    replayed: bool,
}

impl Explored {
    /// Returns how many schedules were run.
    ///
    /// # Examples
    ///
    /// ```
    /// let explored = tasuki_rt::testing::Exhaustive::new().check(|| async {});
    /// assert_eq!(explored.schedules(), 1);
    /// ```
    pub fn schedules(self) -> u64 {
        self.schedules
    }

    /// Returns true if those were all. If not, [`Exhaustive::schedules`] stopped it, or `TASUKI_SCHEDULE` or `TASUKI_SEED` named the one that was run.
    ///
    /// # Examples
    ///
    /// ```
    /// let explored = tasuki_rt::testing::Exhaustive::new().check(|| async {});
    /// assert!(explored.is_complete());
    /// ```
    pub fn is_complete(self) -> bool {
        self.complete
    }

    /// Fails the test if those were not all. A schedule that `TASUKI_SCHEDULE` or `TASUKI_SEED` names is always enough.
    ///
    /// # Panics
    ///
    /// If the search is not complete.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::testing::Exhaustive::new().check(|| async {}).expect_complete();
    /// ```
    #[track_caller]
    pub fn expect_complete(self) {
        assert!(
            self.complete || self.replayed,
            "the search is not complete after {} schedules: allow more of them, or make the test smaller",
            self.schedules
        );
    }
}

impl Exhaustive {
    /// Creates a search: one worker, two switches, at most 100,000 schedules. A run that takes more than 100,000 polls fails.
    ///
    /// # Examples
    ///
    /// ```
    /// let _ = tasuki_rt::testing::Exhaustive::new().check(|| async {});
    /// ```
    pub fn new() -> Self {
        let settings = Settings { workers: 1, polls: POLLS, ..Settings::default() };
        Self { settings, switches: SWITCHES, schedules: SCHEDULES }
    }

    /// Sets the number of virtual workers; one unless set.
    ///
    /// # Panics
    ///
    /// For zero, and for more than 65,535.
    ///
    /// # Examples
    ///
    /// ```
    /// let _ = tasuki_rt::testing::Exhaustive::new().workers(2).check(|| async {});
    /// ```
    #[track_caller]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings = self.settings.workers(workers);
        self
    }

    /// Sets how many switches before operations a run may have; two unless set.
    ///
    /// # Examples
    ///
    /// ```
    /// let _ = tasuki_rt::testing::Exhaustive::new().switches(3).check(|| async {});
    /// ```
    pub fn switches(mut self, switches: u32) -> Self {
        self.switches = switches;
        self
    }

    /// Sets how long a foreign thread has to wake a task before a deadlock is reported; one second of the real clock unless set.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let _ = tasuki_rt::testing::Exhaustive::new().grace(Duration::ZERO).check(|| async {});
    /// ```
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// Sets how many schedules are run at most; 100,000 unless set.
    ///
    /// # Examples
    ///
    /// ```
    /// let _ = tasuki_rt::testing::Exhaustive::new().schedules(1_000).check(|| async {});
    /// ```
    pub fn schedules(mut self, schedules: u64) -> Self {
        self.schedules = schedules;
        self
    }

    /// Runs the test under one schedule after the other, or under the one that `TASUKI_SEED` or `TASUKI_SCHEDULE` names.
    ///
    /// # Panics
    ///
    /// As [`check`](super::check()). Also if a run differs from an earlier one after the same decisions (other tasks can run, or there is something else to decide), as in a test that looks at the real clock: then a search means nothing. What a test does between two decisions is not compared.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::testing::Exhaustive;
    ///
    /// let explored = Exhaustive::new().check(|| async {
    ///     let tasks = [tasuki_rt::spawn(async {}), tasuki_rt::spawn(async {})];
    ///     for task in tasks {
    ///         task.await.unwrap();
    ///     }
    /// });
    /// assert!(explored.is_complete() && explored.schedules() > 1);
    /// ```
    #[track_caller]
    pub fn check<F: Future<Output = ()> + 'static>(self, mut test: impl FnMut() -> F) -> Explored {
        let mut explored = Explored { schedules: 0, complete: false, replayed: false };
        if let Some((settings, strategy, origin)) = from_environment(&self.settings) {
            super::run_once(&settings, strategy, origin, test());
            return Explored { schedules: 1, complete: false, replayed: true };
        }
        let (mut prefix, mut complete) = (Some(Vec::new()), true);
        while let Some(next) = prefix.take() {
            if explored.schedules == self.schedules {
                return explored;
            }
            explored.schedules += 1;
            let strategy = Strategy::Search { prefix: next, left: self.switches };
            let run = attempt(&self.settings, strategy, test());
            if let Err(failure) = run.result {
                let found = Found { failure, history: run.history, origin: Origin::Search };
                give_up(&self.settings, found, &mut test);
            }
            assert!(
                !run.history.record.differs,
                "the test does something else under the same schedule: nothing may decide in it that is not of the simulation (a clock, a random number, a thread, a static)"
            );
            complete &= run.history.record.complete;
            prefix = next_prefix(&run.history.record);
        }
        explored.complete = complete;
        explored
    }
}

impl Default for Exhaustive {
    fn default() -> Self {
        Self::new()
    }
}

/// The next one in the order of the search: the last decision that has another option takes it.
fn next_prefix(record: &DecisionRecord) -> Option<Vec<Choice>> {
    let last = record.choices.iter().rposition(|choice| choice.taken + 1 < choice.of)?;
    let mut prefix = record.choices[..=last].to_vec();
    prefix[last].taken += 1;
    Some(prefix)
}
