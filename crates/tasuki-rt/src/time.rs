//! Sleeps, timeouts and intervals. Deadlines are kept on the wheel of the worker that polls first (`scheduler/deadlines.rs`).

use crate::context;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tasuki::Elapsed;
use tasuki::runtime::{self, Sleep};

/// The time: the clock's, or in [`testing`](crate::testing) the test's.
///
/// # Examples
///
/// ```
/// assert!(tasuki_rt::now() <= std::time::Instant::now());
/// ```
pub fn now() -> Instant {
    runtime::now()
}

/// Waits for a time, which begins with the first poll. Ends at the first millisecond that is not before it.
///
/// The worker that polled it first keeps its deadline; while that one is in a long poll, any other that has time wakes the task. Only a pinned task waits
/// for its own worker, as always.
///
/// `Duration::MAX`, and every time that no clock can reach, is for ever.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// tasuki_rt::run(async { tasuki_rt::sleep(Duration::from_millis(2)).await });
/// ```
#[doc(alias = "sleep_for")]
pub fn sleep(duration: Duration) -> Sleep {
    runtime::sleep(duration)
}

/// Waits until a time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// tasuki_rt::run(async { tasuki_rt::sleep_until(tasuki_rt::now() + Duration::from_millis(2)).await });
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    runtime::sleep_until(deadline)
}

/// Runs a future for at most this long. It is polled first: what is ready is returned, however late.
///
/// For a wait of a primitive its own `.timeout()` is better: it also returns what was granted at the last moment, and enqueues
/// without a yield when the budget of the task is exhausted.
///
/// # Errors
///
/// [`Elapsed`] when the time is over first; the future is dropped.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// tasuki_rt::run(async {
///     let never = std::future::pending::<()>();
///     assert!(tasuki_rt::timeout(Duration::from_millis(2), never).await.is_err());
/// });
/// ```
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    // Before anything is polled: whether the future will be ready is not known, and it may hold what it was given.
    context::charge().await;
    let mut future = pin!(future);
    let mut limit = pin!(sleep(duration));
    let mut judges = !duration.is_zero();
    poll_fn(|cx| {
        let yields = runtime::yields();
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // A yield is no wait: the task has been woken, and the next poll judges.
        if !std::mem::replace(&mut judges, true) && yields != runtime::yields() {
            return Poll::Pending;
        }
        limit.as_mut().poll(cx).map(|()| Err(Elapsed))
    })
    .await
}

/// Ticks, the first one at once, the others a period apart.
///
/// # Panics
///
/// If the period is zero.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// tasuki_rt::run(async {
///     let mut ticks = tasuki_rt::interval(Duration::from_millis(2));
///     let first = ticks.tick().await;
///     assert!(ticks.tick().await >= first + Duration::from_millis(2));
/// });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period: pass more than zero");
    Interval { period, next: None }
}

/// The ticks of [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    /// `None` before the first tick, which sets the time.
    next: Option<Next>,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    At(Instant),
    /// Beyond what the clock can say.
    Never,
}

impl Interval {
    /// Waits for the next tick, and says for when it was due. Ticks that were missed are left out, not made up
    /// for; the rhythm stays.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait loses nothing: the tick is taken by the next call.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// tasuki_rt::run(async {
    ///     tasuki_rt::interval(Duration::from_secs(3600)).tick().await;
    /// });
    /// ```
    pub async fn tick(&mut self) -> Instant {
        let due = match *self.next.get_or_insert_with(|| Next::At(now())) {
            Next::At(due) => due,
            Next::Never => std::future::pending().await,
        };
        sleep_until(due).await;
        self.next = Some(self.after(due));
        due
    }

    /// The first tick after `due` that is not past.
    fn after(&self, due: Instant) -> Next {
        let now = now();
        let missed = now.saturating_duration_since(due).as_nanos() / self.period.as_nanos();
        let next = match u32::try_from(missed + 1) {
            Ok(periods) => self.period.checked_mul(periods).and_then(|step| due.checked_add(step)),
            // So many that the rhythm is lost.
            Err(_) => now.checked_add(self.period),
        };
        next.map_or(Next::Never, Next::At)
    }
}
