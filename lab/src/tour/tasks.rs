//! Runs the tasks of a tour stop, shows their progress, and fails the stop when there is none for too long.

use super::Guide;
use crate::alloc::{self, Watch};
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tasuki_rt::{JoinHandle, WorkerId};

/// How long a stop may show no progress. Hours of work for the slowest machine: only what never ends is stuck.
pub(super) const LIMIT: Duration = Duration::from_secs(600);
/// How often progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// Allocations that a stop may make while tasks wait: none. Debug builds also keep the wait-for graph, and allocate for the records of a crowd and for a look at
/// it; how often depends on the crowd.
pub(super) const NOTES: u64 = if cfg!(debug_assertions) { 1 << 40 } else { 0 };

impl Guide {
    /// Runs a task that any worker may run, and shows its progress.
    pub(super) fn run<T: Send + 'static, D: Display>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
        progress: impl Fn() -> D,
    ) -> Result<T, String> {
        self.watch(self.runtime.spawn(task), progress)
    }

    /// The same on the event loop of one worker: what it spawns with `spawn_local` runs there in order.
    pub(super) fn run_on_loop<T, F, D: Display>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
        progress: impl Fn() -> D,
    ) -> Result<T, String>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.watch(self.runtime.spawn_on(WorkerId::new(0), make), progress)
    }

    /// Waits for the end of a task from outside.
    fn watch<T, D: Display>(&self, mut task: JoinHandle<T>, progress: impl Fn() -> D) -> Result<T, String> {
        let (mut since, mut seen) = (Instant::now(), String::new());
        self.runtime.block_on(async {
            while since.elapsed() < LIMIT {
                match tasuki_rt::timeout(TICK, &mut task).await {
                    Ok(ended) => return ended.map_err(|error| error.to_string()),
                    Err(_) => {
                        let now = progress().to_string();
                        self.live(&now);
                        if now != seen {
                            (since, seen) = (Instant::now(), now);
                        }
                    }
                }
            }
            Err(format!("nothing happened for {} s: a wake-up was lost", LIMIT.as_secs()))
        })
    }
}

/// Waits for all of them; how many did not end well.
pub(super) async fn all<T>(tasks: Vec<JoinHandle<T>>) -> usize {
    let mut failed = 0;
    for task in tasks {
        failed += usize::from(task.await.is_err());
    }
    failed
}

/// Waits until something another task does has been done.
pub(super) async fn until(done: impl Fn() -> bool) {
    while !done() {
        tasuki_rt::sleep(Duration::from_millis(1)).await;
    }
}

/// Counts a future that has to wait, once it waits.
pub(super) async fn note_wait<F: Future>(future: F, waiting: &AtomicUsize) -> F::Output {
    let (mut future, mut noted) = (pin!(future), false);
    poll_fn(|cx| {
        let poll = future.as_mut().poll(cx);
        if poll.is_pending() && !std::mem::replace(&mut noted, true) {
            // Release: pairs with the thread that waits for the number - the wait is queued.
            waiting.fetch_add(1, Ordering::Release);
        }
        poll
    })
    .await
}

/// Time and allocations of a stretch of work, in all workers.
pub(super) struct Count {
    _watch: Watch,
    start: Instant,
    allocations: u64,
}

impl Count {
    /// Begins to count.
    pub(super) fn start() -> Self {
        let watch = Watch::start();
        Count { _watch: watch, allocations: alloc::of_workers().0, start: Instant::now() }
    }

    /// What it took.
    pub(super) fn stop(self) -> (Duration, u64) {
        (self.start.elapsed(), alloc::of_workers().0 - self.allocations)
    }
}
