//! The latch: a door that opens once, after a number of counts.
//!
//! A [`Countdown`] without `add`: zero, once reached, stays. The states, transitions, invariants and orderings
//! are there.
//!
//! | event                     | becomes                    | fn |
//! |---------------------------|----------------------------|----|
//! | count down                | [`Countdown::take_one`]    | [`Latch::count_down`] |
//! | look                      | [`Countdown::is_zero`]     | [`Latch::try_wait`] |
//! | first poll of a wait      | [`Countdown::is_zero`], [`Countdown::enqueue_or_pass`] | [`WaitLatchOp`] |
//! | later poll of a wait      | [`Countdown::poll_queued`] | [`WaitLatchOp`] |
//! | drop of a wait            | [`Countdown::cancel`]      | [`WaitLatchOp`] |

use crate::countdown::Countdown;
use crate::queue::Pinned;
use crate::shim::const_fn;
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::task::{Context, Poll};

/// A count that only falls, and a way to wait until it is zero.
///
/// It opens when [`count_down`](Self::count_down) has been called as often as [`new`](Self::new) was told, and stays open. The tasks
/// that count and those that wait need not be the same, and one task may count more than once.
///
/// # Examples
///
/// ```
/// use tasuki::Latch;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// static LOADED: Latch = Latch::new(2);
///
/// for _ in 0..2 {
///     std::thread::spawn(|| LOADED.count_down());
/// }
/// LOADED.wait().await;
/// assert!(LOADED.try_wait());
/// # }
/// ```
///
/// # Order
///
/// All waiters are released together, at the moment when the count becomes zero; they are woken in the order in
/// which they came. A task that has seen the latch open finds every waiter released.
///
/// # Cancel
///
/// Dropping the future of a wait has no effect on the count or on other waiters.
///
/// # Panic
///
/// `count_down` of an open latch panics, and has then changed nothing. A waker that panics does so in the `count_down`
/// that opened the latch, after all other waiters have been woken ([Wakers](crate#wakers)).
///
/// # Memory ordering
///
/// What was done before any `count_down`, the last or not, happens before what follows a wait, or a `try_wait` that
/// returned true.
///
/// # Re-entrancy
///
/// Wakers may call anything on the latch.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// The count starts at [`MAX_COUNT`](Self::MAX_COUNT) at most; no limit on the number of waiters.
///
/// # Futurelock
///
/// None: a release is shared, so a future that is not polled keeps nothing from the others.
///
/// # When to use something else
///
/// If the number is not known at the start, or the count is to be used again, a [`WaitGroup`](crate::WaitGroup); if
/// the tasks that count also wait, a [`Barrier`](crate::Barrier); for a single signal, a manual [`Event`](crate::Event).
#[doc(alias = "CountdownEvent")]
#[doc(alias = "CountDownLatch")]
pub struct Latch {
    remaining: Countdown,
}

/// The future of [`Latch::wait`].
pub type WaitLatch<'a> = Wait<Single<WaitLatchOp<'a>>>;

impl Latch {
    /// The largest count to start from.
    pub const MAX_COUNT: usize = Countdown::MAX;

    const_fn! {
        /// Creates a latch that opens after `n` counts; open from the start if `n` is zero.
        ///
        /// # Panics
        ///
        /// If `n` exceeds [`MAX_COUNT`](Self::MAX_COUNT).
        ///
        /// # Examples
        ///
        /// ```
        /// static STARTED: tasuki::Latch = tasuki::Latch::new(1);
        /// assert!(!STARTED.try_wait());
        /// ```
        #[track_caller]
        pub const fn new(n: usize) -> Self {
            Self { remaining: Countdown::new(n) }
        }
    }

    /// Counts down by one; the last count opens the latch.
    ///
    /// # Panics
    ///
    /// If the latch is open; nothing has been changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// let latch = tasuki::Latch::new(1);
    /// latch.count_down();
    /// assert!(latch.try_wait());
    /// ```
    #[inline]
    #[track_caller]
    pub fn count_down(&self) {
        if self.remaining.take_one().is_err() {
            open_already();
        }
    }

    /// Waits until the latch is open.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: the latch does not depend on its waiters.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// static OPEN: tasuki::Latch = tasuki::Latch::new(1);
    /// std::thread::spawn(|| OPEN.count_down());
    /// OPEN.wait().await;
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> WaitLatch<'_> {
        Wait::new(WaitLatchOp { latch: self })
    }

    /// Returns true if the latch is open. Once open, it stays open.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(tasuki::Latch::new(0).try_wait());
    /// assert!(!tasuki::Latch::new(1).try_wait());
    /// ```
    #[inline]
    #[must_use]
    #[doc(alias = "is_open")]
    pub fn try_wait(&self) -> bool {
        self.remaining.is_zero()
    }

    /// Returns how many counts are missing. The number only falls: it may be lower when it is returned.
    ///
    /// # Examples
    ///
    /// ```
    /// let latch = tasuki::Latch::new(2);
    /// latch.count_down();
    /// assert_eq!(latch.count(), 1);
    /// ```
    pub fn count(&self) -> usize {
        self.remaining.number()
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn open_already() -> ! {
    panic!("`Latch::count_down` of an open latch: count once for each of the number it was made with")
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("count", &self.count()).finish()
    }
}

/// The operation of [`Latch::wait`].
#[derive(Debug)]
pub struct WaitLatchOp<'a> {
    latch: &'a Latch,
}

impl Op for WaitLatchOp<'_> {
    type Output = ();
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::WaitLatch";

    #[inline]
    fn try_now(&mut self) -> Option<()> {
        self.latch.try_wait().then_some(())
    }

    fn is_ready(&self) -> bool {
        self.latch.try_wait()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.latch.remaining.enqueue_or_pass(slot, cx)
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        self.latch.remaining.poll_queued(waiter, cx)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<()> {
        self.latch.remaining.cancel(waiter)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}
