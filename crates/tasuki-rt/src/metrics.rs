//! Metrics: what a runtime has done and has to do, counted as it goes and put together when it is asked.
//!
//! A worker counts in words that no other thread writes: a load and a store, without a locked operation. (They are in its `Remote`, beside words that others write.) What can be seen from outside, such as the length of
//! a queue, is not counted but looked at. The times of polls need two looks at the clock a poll, so they are taken only where the builder asks for it.
//!
//! # Orderings
//! Relaxed everywhere: the numbers say nothing about each other. A counter is read at some moment of the call; a sum of several, such as the number of tasks, is made of counters that
//! were read one after the other, and may be a number that was true at no moment.

use crate::scheduler::Shared;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So many powers of two of nanoseconds: the last is everything from 2.15 s (2^31 ns) on.
const BUCKETS: usize = 32;

/// A counter that one thread writes.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// By its own thread.
    #[inline]
    pub(crate) fn count(&self) {
        // Relaxed: see the module. Not a read-modify-write: no other thread writes it.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: see the module.
        self.0.load(Ordering::Relaxed)
    }
}

/// How long the polls of one worker took.
#[derive(Debug, Default)]
pub(crate) struct PollTimeCounters([Counter; BUCKETS]);

impl PollTimeCounters {
    #[cold]
    #[inline(never)]
    pub(crate) fn measure<R>(&self, poll: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let output = poll();
        self.0[bucket(start.elapsed())].count();
        output
    }

    fn snapshot(&self) -> PollTimes {
        PollTimes { counts: std::array::from_fn(|at| self.0[at].get()) }
    }
}

/// The bucket of a time: that of 2^n up to 2^(n + 1) nanoseconds; the first is also that of 0.
fn bucket(time: Duration) -> usize {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
    (nanos.ilog2() as usize).min(BUCKETS - 1)
}

/// How long polls took: how many of them between one power of two of nanoseconds and the next. The drop of a future by its worker is measured as a poll.
///
/// ```
/// use tasuki_rt::Runtime;
///
/// let runtime = Runtime::builder().workers(1).time_polls(true).build().unwrap();
/// runtime.block_on(async { tasuki_rt::spawn(async {}).await.unwrap() });
/// let times = runtime.metrics().poll_times().unwrap();
/// println!("the slowest poll took less than {:?}", times.quantile(1.0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollTimes {
    counts: [u64; BUCKETS],
}

impl PollTimes {
    fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
    }

    /// Returns how many were measured: polls that have ended, and drops of futures that were not polled to their end. Posted closures are not measured.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::PollTimes::default().count(), 0);
    /// ```
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns every bucket: its range of times, without the end, and how many polls took that long. The last one has no end.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let times = tasuki_rt::PollTimes::default();
    /// let (first, polls) = times.buckets().next().unwrap();
    /// assert_eq!((first, polls), (Duration::ZERO..Duration::from_nanos(2), 0));
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Range<Duration>, u64)> + '_ {
        self.counts.iter().enumerate().map(|(at, count)| (times_of(at), *count))
    }

    /// Returns a time that this part of the polls stayed below: with 0.99, all but one in a hundred. The slowest of these polls is in some bucket, and the time is the end of that bucket, up to twice as long as the poll took: 2 ns
    /// for a poll of less than 1 ns, [`Duration::MAX`] for one of 2.15 s (2^31 ns) or more. Zero if there were no polls.
    ///
    /// # Panics
    ///
    /// If it is not between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::PollTimes::default().quantile(0.5), std::time::Duration::ZERO);
    /// ```
    #[track_caller]
    pub fn quantile(&self, part: f64) -> Duration {
        assert!((0.0..=1.0).contains(&part), "a part of the polls is between 0 and 1, not {part}");
        // At least one, and no more than there are, however the fraction was rounded.
        let wanted = ((self.count() as f64 * part).ceil() as u64).clamp(1, self.count().max(1));
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        bucket.map_or(Duration::ZERO, |at| times_of(at).end)
    }
}

fn times_of(bucket: usize) -> Range<Duration> {
    let start = if bucket == 0 { 0 } else { 1 << bucket };
    let end = if bucket == BUCKETS - 1 { Duration::MAX } else { Duration::from_nanos(2 << bucket) };
    Duration::from_nanos(start)..end
}

/// What one worker has done, and has to do.
///
/// # Examples
///
/// ```
/// let runtime = tasuki_rt::Runtime::builder().workers(2).build().unwrap();
/// for worker in runtime.metrics().workers() {
///     println!("{} polls, {} tasks wait in its queue", worker.polls(), worker.queued());
/// }
/// ```
#[derive(Clone, Debug)]
pub struct WorkerMetrics {
    polls: u64,
    steals: u64,
    parks: u64,
    socket_polls: u64,
    queued: usize,
    inbox: usize,
    timers: usize,
    poll_times: Option<PollTimes>,
}

impl WorkerMetrics {
    /// Returns how many polls and posted closures it has begun.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().workers()[0].polls(), 0);
    /// ```
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Returns how often it has taken tasks of another worker.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().workers()[0].steals(), 0);
    /// ```
    pub fn steals(&self) -> u64 {
        self.steals
    }

    /// Returns how often it has gone to sleep because it found nothing to do.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().workers()[0].parks(), 0);
    /// ```
    pub fn parks(&self) -> u64 {
        self.parks
    }

    /// Returns how often it has asked the system which sockets are ready, waiting or not. A busy server handles several requests for each: divide its requests by this number. 0 without the feature `net`.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().workers()[0].socket_polls(), 0);
    /// ```
    pub fn socket_polls(&self) -> u64 {
        self.socket_polls
    }

    /// Returns how many tasks of this worker other workers can steal: those in its local queue, and the one that was given a lock or a message and goes first. Tasks that are pinned to the worker do not count. The number is 0 while
    /// another worker is stealing.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().workers()[0].queued(), 0);
    /// ```
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Returns how many pinned tasks and posted closures have come from other threads, and have not been looked at.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::WorkerId;
    /// let runtime = tasuki_rt::Runtime::builder().workers(1).build().unwrap();
    /// drop(runtime.spawn_on(WorkerId::new(0), || async {}));
    /// assert_eq!(runtime.metrics().workers()[0].inbox(), 1);
    /// ```
    pub fn inbox(&self) -> usize {
        self.inbox
    }

    /// Returns how many deadlines are on its wheel.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().workers()[0].timers(), 0);
    /// ```
    pub fn timers(&self) -> usize {
        self.timers
    }

    /// Returns how long its polls took; `None` unless [`Builder::time_polls`](crate::Builder::time_polls) asked for it.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert!(runtime.metrics().workers()[0].poll_times().is_none());
    /// ```
    pub fn poll_times(&self) -> Option<&PollTimes> {
        self.poll_times.as_ref()
    }
}

/// What a runtime has done, and has to do: [`Runtime::metrics`](crate::Runtime::metrics), [`Handle::metrics`](crate::Handle::metrics).
///
/// ```
/// let runtime = tasuki_rt::Runtime::builder().workers(2).build().unwrap();
/// runtime.block_on(async {
///     drop(tasuki_rt::spawn(std::future::pending::<()>()));
///     tasuki_rt::spawn(async {}).await.unwrap();
/// });
/// let metrics = runtime.metrics();
/// assert_eq!(metrics.tasks(), 1);
/// println!("{} polls, {} steals, {} sleeps", metrics.polls(), metrics.steals(), metrics.parks());
/// ```
///
/// The numbers are not of the same moment, and what is summed up meanwhile may change: a task that begins or ends during the call is counted or not. Counters only grow. In a simulation only
/// the tasks are counted.
#[derive(Clone, Debug)]
pub struct Metrics {
    tasks: usize,
    queued: usize,
    workers: Vec<WorkerMetrics>,
    blocking: BlockingMetrics,
}

/// The pool of threads for blocking work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockingMetrics {
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    pub(crate) queued: usize,
}

impl Metrics {
    /// Returns how many tasks have been spawned and have not ended, blocking work included.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().tasks(), 0);
    /// ```
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Returns how many tasks wait in the queue that all workers share.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// // Not started: it waits.
    /// drop(runtime.spawn(async {}));
    /// assert_eq!(runtime.metrics().queued(), 1);
    /// ```
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the metrics of each worker, by its number.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().workers(3).build().unwrap();
    /// assert_eq!(runtime.metrics().workers().len(), 3);
    /// ```
    pub fn workers(&self) -> &[WorkerMetrics] {
        &self.workers
    }

    /// Returns the number of polls of all workers.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().polls(), 0);
    /// ```
    pub fn polls(&self) -> u64 {
        self.workers.iter().map(WorkerMetrics::polls).sum()
    }

    /// Returns the number of steals of all workers.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().steals(), 0);
    /// ```
    pub fn steals(&self) -> u64 {
        self.workers.iter().map(WorkerMetrics::steals).sum()
    }

    /// Returns how often all workers have gone to sleep.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().parks(), 0);
    /// ```
    pub fn parks(&self) -> u64 {
        self.workers.iter().map(WorkerMetrics::parks).sum()
    }

    /// Returns how often all workers have asked the system which sockets are ready.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().socket_polls(), 0);
    /// ```
    pub fn socket_polls(&self) -> u64 {
        self.workers.iter().map(WorkerMetrics::socket_polls).sum()
    }

    /// Returns the number of deadlines of all workers. Those of threads in `block_on` are kept elsewhere.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().timers(), 0);
    /// ```
    pub fn timers(&self) -> usize {
        self.workers.iter().map(WorkerMetrics::timers).sum()
    }

    /// Returns how long the polls of all workers took; `None` unless [`Builder::time_polls`](crate::Builder::time_polls) asked for it.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert!(runtime.metrics().poll_times().is_none());
    /// ```
    pub fn poll_times(&self) -> Option<PollTimes> {
        let mut sum = PollTimes::default();
        for worker in &self.workers {
            sum.add(worker.poll_times()?);
        }
        Some(sum)
    }

    /// Returns how many threads for blocking work there are.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_blocking_threads(), 0);
    /// ```
    pub fn num_blocking_threads(&self) -> usize {
        self.blocking.threads
    }

    /// Returns how many threads for blocking work have nothing to do.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().num_idle_blocking_threads(), 0);
    /// ```
    pub fn num_idle_blocking_threads(&self) -> usize {
        self.blocking.idle
    }

    /// Returns how many closures wait for a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// assert_eq!(runtime.metrics().queued_blocking_work(), 0);
    /// ```
    pub fn queued_blocking_work(&self) -> usize {
        self.blocking.queued
    }
}

impl Shared {
    pub(crate) fn metrics(&self) -> Metrics {
        let worker = |remote: &crate::scheduler::Remote| WorkerMetrics {
            polls: remote.counters.polls.get(),
            steals: remote.counters.steals.get(),
            parks: remote.counters.parks.get(),
            socket_polls: remote.counters.socket_polls.get(),
            queued: remote.queued(),
            inbox: remote.inbox.len(),
            timers: remote.timers.len(),
            poll_times: remote.counters.poll_times.as_deref().map(PollTimeCounters::snapshot),
        };
        Metrics {
            tasks: self.task_counts.len(),
            queued: self.global.len(),
            workers: self.remotes.iter().map(worker).collect(),
            blocking: self.blocking.metrics(),
        }
    }
}

/// What a worker counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) polls: Counter,
    pub(crate) steals: Counter,
    pub(crate) parks: Counter,
    pub(crate) socket_polls: Counter,
    /// Only if it was asked for.
    pub(crate) poll_times: Option<std::sync::Arc<PollTimeCounters>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_its_bucket() {
        for nanos in [0, 1, 2, 3, 4, 1_023, 1_024, 1_000_000, 2_000_000_000, 5_000_000_000, u64::MAX] {
            let time = Duration::from_nanos(nanos);
            assert!(times_of(bucket(time)).contains(&time), "{time:?}");
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
        let bounds = (1..BUCKETS).all(|at| times_of(at - 1).end == times_of(at).start);
        assert!(bounds, "without gaps");
    }

    #[test]
    fn quantiles_are_the_ends_of_buckets() {
        let mut times = PollTimes::default();
        (times.counts[3], times.counts[10], times.counts[31]) = (98, 1, 1);
        let ends = [0.0, 0.5, 0.98, 0.981, 0.99, 0.991, 1.0].map(|part| times.quantile(part));
        let (fast, slow) = (Duration::from_nanos(16), Duration::from_nanos(2_048));
        assert_eq!(ends, [fast, fast, fast, slow, slow, Duration::MAX, Duration::MAX]);
        assert_eq!(times.buckets().map(|(_, count)| count).sum::<u64>(), times.count());
    }
}
