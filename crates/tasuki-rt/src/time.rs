//! Sleeps, timeouts and intervals. Deadlines are kept on the wheel of the worker that polls first (`scheduler/deadlines.rs`).

use crate::context;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tasuki::Elapsed;
use tasuki::runtime::{self, Sleep};

/// Returns the current time; in [`testing`](crate::testing) that of the virtual clock.
///
/// # Examples
///
/// ```
/// assert!(tasuki_rt::now() <= std::time::Instant::now());
/// ```
pub fn now() -> Instant {
    runtime::now()
}

/// Waits for `duration`, from the first poll on. It ends at the first whole millisecond that is not earlier.
///
/// The worker that polled it first keeps its deadline. While that worker is in a long poll, another one that has time wakes the task; only a pinned task has to wait
/// for its own worker. If the poll that began the sleep passes it to another thread, sleeping workers learn of its deadline when that poll ends. In the future of [`Runtime::block_on`](crate::Runtime::block_on), which no worker polls, a thread of the process keeps the deadline ([`Elapsed`]).
///
/// Do not wait for a sleep by another executor inside of a task (`block_on` of `futures`, say): it blocks the worker for that time, and another worker has to wake it. With one worker, or with as many such waits as there are workers, it waits for ever. Use
/// [`spawn_blocking`](crate::spawn_blocking()).
///
/// `Duration::MAX`, and every time that no clock can reach, is for ever.
///
/// # Cancel safety
///
/// Dropping it cancels the deadline in constant time, and loses nothing.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// tasuki_rt::run(async { tasuki_rt::sleep(Duration::from_millis(2)).await });
/// ```
#[doc(alias = "sleep_for")]
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    runtime::sleep(duration)
}

/// Waits until `deadline`.
///
/// # Cancel safety
///
/// As [`sleep`]: nothing is lost.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// tasuki_rt::run(async { tasuki_rt::sleep_until(tasuki_rt::now() + Duration::from_millis(2)).await });
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    runtime::sleep_until(deadline)
}

/// Runs a future for at most `duration`. The future is polled before the time is checked: an output that is ready is returned, however late.
///
/// For a wait of a primitive its own `.timeout()` is better: it also returns what was granted at the last moment, and enqueues
/// without a yield when the budget of the task is exhausted.
///
/// # Errors
///
/// [`Elapsed`] when the time is over first; the future is dropped.
///
/// # Cancel safety
///
/// As the future inside, which is dropped with the wrapper, and also when the time is over.
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
#[doc(alias = "timeout_at")]
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    // Before anything is polled: whether the future will be ready is not known, and it may hold what it was given.
    context::charge().await;
    let mut future = pin!(future);
    // From here on, and not from the end of the first poll, which may be long. A time that no clock can reach is for ever.
    let deadline = now().checked_add(duration);
    let mut limit = pin!(deadline.map_or_else(|| sleep(Duration::MAX), sleep_until));
    let mut is_first = true;
    poll_fn(|cx| {
        let yields = runtime::yields();
        if let Poll::Ready(output) = runtime::with_limit(|| future.as_mut().poll(cx)) {
            return Poll::Ready(Ok(output));
        }
        // A yield is no wait: the next poll judges. Woken here, whatever has yielded: the count is of the thread, and this poll may have polled another task.
        if mem::take(&mut is_first)
            && yields != runtime::yields()
            && deadline.is_some_and(|deadline| deadline <= now())
        {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        limit.as_mut().poll(cx).map(|()| Err(Elapsed))
    })
    .await
}

/// Creates an [`Interval`]: its first tick is ready at once, the others follow a `period` apart.
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
    Interval { period, next: None, behaviour: MissedTickBehavior::default() }
}

/// Creates an [`Interval`]: its first tick is ready at `start`, the others follow a `period` apart.
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
///     let start = tasuki_rt::now() + Duration::from_millis(2);
///     let mut ticks = tasuki_rt::interval_at(start, Duration::from_millis(5));
///     assert_eq!(ticks.tick().await, start);
/// });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period: pass more than zero");
    Interval { next: Some(Next::At(start)), ..interval(period) }
}

/// What an [`Interval`] does with missed ticks. Ticks are missed if [`tick`](Interval::tick) returns a period or more after its tick was due, because it was called late or its task was polled late. (After a tick that is less late the next one simply comes when
/// it is due.) The default is [`Skip`](Self::Skip); tokio's is `Burst`, and a tick of tokio's is missed if it is more than 5 ms late.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tasuki_rt::testing::Simulation;
/// use tasuki_rt::{MissedTickBehavior, interval, now, sleep};
///
/// const MS: Duration = Duration::from_millis(1);
///
/// // Three and a half periods are slept through.
/// async fn ticks(behaviour: MissedTickBehavior) -> [u128; 4] {
///     let (start, mut ticks) = (now(), interval(10 * MS));
///     ticks.set_missed_tick_behavior(behaviour);
///     ticks.tick().await;
///     sleep(35 * MS).await;
///     let mut seen = [0; 4];
///     for seen in &mut seen {
///         ticks.tick().await;
///         *seen = (now() - start).as_millis();
///     }
///     seen
/// }
///
/// Simulation::new(1).run(async {
///     assert_eq!(ticks(MissedTickBehavior::Burst).await, [35, 35, 35, 40]);
///     assert_eq!(ticks(MissedTickBehavior::Delay).await, [35, 45, 55, 65]);
///     assert_eq!(ticks(MissedTickBehavior::Skip).await, [35, 40, 50, 60]);
/// });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTickBehavior {
    /// They come at once, one after the other, until the rhythm is caught up with.
    Burst,
    /// The rhythm begins anew: the next tick is a period after the late one was taken.
    Delay,
    /// They are left out; the rhythm stays.
    #[default]
    Skip,
}

/// The ticks of [`interval`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// tasuki_rt::run(async {
///     let mut ticks: tasuki_rt::Interval = tasuki_rt::interval(Duration::from_millis(1));
///     let first = ticks.tick().await;
///     assert!(ticks.tick().await > first);
/// });
/// ```
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    /// `None` before the first tick, which sets the time.
    next: Option<Next>,
    behaviour: MissedTickBehavior,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    At(Instant),
    /// Beyond what the clock can say.
    Never,
}

impl Interval {
    /// Waits for the next tick, and returns when it was due. Ticks that were missed are left out, and the rhythm stays, unless another [`MissedTickBehavior`] was set. (tokio's default is `Burst`.)
    ///
    /// # Cancel safety
    ///
    /// A dropped wait loses nothing: the tick is taken by the next call.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
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

    /// Returns the time between two ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// let hour = Duration::from_secs(3600);
    /// assert_eq!(tasuki_rt::interval(hour).period(), hour);
    /// ```
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Starts the interval anew: the next tick is a period from now.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// tasuki_rt::run(async {
    ///     let mut ticks = tasuki_rt::interval(Duration::from_millis(2));
    ///     let before = tasuki_rt::now();
    ///     ticks.reset();
    ///     assert!(ticks.tick().await >= before + Duration::from_millis(2));
    /// });
    /// ```
    pub fn reset(&mut self) {
        self.next = Some(now().checked_add(self.period).map_or(Next::Never, Next::At));
    }

    /// Starts the interval anew, with a tick at `start`; if that is past, at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// tasuki_rt::run(async {
    ///     let mut ticks = tasuki_rt::interval(Duration::from_secs(3600));
    ///     ticks.tick().await;
    ///     let now = tasuki_rt::now();
    ///     ticks.reset_at(now);
    ///     assert_eq!(ticks.tick().await, now);
    /// });
    /// ```
    #[doc(alias = "reset_immediately")]
    pub fn reset_at(&mut self, start: Instant) {
        self.next = Some(Next::At(start));
    }

    /// Returns what becomes of ticks that are missed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tasuki_rt::MissedTickBehavior;
    /// assert_eq!(tasuki_rt::interval(Duration::from_secs(1)).missed_tick_behavior(), MissedTickBehavior::Skip);
    /// ```
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behaviour
    }

    /// Sets what happens with ticks that are missed from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tasuki_rt::MissedTickBehavior;
    /// let mut ticks = tasuki_rt::interval(Duration::from_secs(1));
    /// ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behaviour: MissedTickBehavior) {
        self.behaviour = behaviour;
    }

    /// The tick after the one that was due then.
    fn after(&self, due: Instant) -> Next {
        let now = now();
        let late = now.saturating_duration_since(due);
        let next = match self.behaviour {
            _ if late < self.period => due.checked_add(self.period),
            MissedTickBehavior::Burst => due.checked_add(self.period),
            MissedTickBehavior::Delay => now.checked_add(self.period),
            MissedTickBehavior::Skip => now.checked_add(self.period - remainder(late, self.period)),
        };
        next.map_or(Next::Never, Next::At)
    }
}

/// What is left of a time after as many whole periods as it has.
fn remainder(time: Duration, period: Duration) -> Duration {
    const NANOS: u128 = Duration::from_secs(1).as_nanos();
    let nanos = time.as_nanos() % period.as_nanos();
    Duration::new((nanos / NANOS) as u64, (nanos % NANOS) as u32)
}
