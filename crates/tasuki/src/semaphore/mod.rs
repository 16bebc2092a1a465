//! The semaphore: a number of permits that tasks acquire and release.
//!
//! This file is the surface, with the contract on the page of [`Semaphore`]. `raw.rs` has the word and its transitions, `count_hint.rs` what the word most likely is, `supply.rs` the grants,
//! `permit.rs` the permits, `owned.rs` the functions that keep an `Arc`.

mod count_hint;
#[cfg(feature = "alloc")]
mod owned;
mod permit;
mod raw;
mod supply;

use crate::error::{Closed, TryAcquireError};
use crate::policy::{Bypass, Fifo, Policy};
use crate::primitive_ref::RefSlot;
use crate::probe::{Site, Target, WaitNote};
use crate::queue::Pinned;
use crate::queue::word::MAX_COUNT;
use crate::shim::const_fn;
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::task::{Context, Poll};
use raw::RawSemaphore;

#[cfg(feature = "alloc")]
pub use owned::{AcquireOwned, AcquireOwnedOp, OwnedSemaphorePermit};
pub use permit::{Permit, PermitHolder, SemaphorePermit};

/// The policies of a [`Semaphore`]: [`Fifo`] and [`Bypass`].
///
/// Not [`Lifo`](crate::policy::Lifo): with the newest first, a big request might never be granted.
///
/// ```compile_fail,E0277
/// let semaphore = tasuki::Semaphore::<tasuki::policy::Lifo>::with_policy(1);
/// ```
pub trait SemaphorePolicy: Policy {}

impl<const SPIN: bool> SemaphorePolicy for Fifo<SPIN> {}
impl<const N: u32> SemaphorePolicy for Bypass<N> {}

/// A number of permits, which tasks acquire and release; a task that finds too few waits.
///
/// Use it to cap what happens at once: requests in flight, open files, items in a pool, bytes in buffers.
/// A permit is one unit of that; [`acquire_many`](Self::acquire_many) takes several in one step.
///
/// A semaphore is two words (three with 32 bits; more where [`inspect`](crate::inspect) is active), and waiting allocates nothing. `Semaphore::new` is `const`, so a
/// semaphore can be a `static`.
///
/// # Examples
///
/// ```
/// use tasuki::Semaphore;
///
/// static CONNECTIONS: Semaphore = Semaphore::new(2);
///
/// async fn request() -> u32 {
///     let _permit = CONNECTIONS.acquire().await.expect("never closed");
///     200
/// }
/// # let mut request = std::pin::pin!(request());
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(std::future::Future::poll(request.as_mut(), &mut cx).is_ready());
/// # assert_eq!(CONNECTIONS.available_permits(), 2);
/// ```
///
/// # Order
///
/// Strictly first come, first served ([`Fifo`], the default): a waiter is granted its permits before a
/// later one, also if the later one asks for less. Permits that are too few for the first waiter are kept for it.
/// So a big request is never starved by small ones, and [`try_acquire`](Self::try_acquire) fails while
/// there are waiters. A release grants every waiter it can, in order.
///
/// With [`Bypass<N>`](Bypass) newcomers may take free permits ahead of the queue, but the first waiter is
/// overtaken at most `N` times; from then on all permits are kept for it. The last waiter that a release could
/// grant is not granted its permits, but woken to take them: until it runs, the task that released may acquire again without waiting.
///
/// A place in the queue is taken when the future is first polled.
///
/// # Cancel
///
/// Dropping an acquire future gives up its place, in every state and on every thread. If it had been
/// granted its permits already, they go to the next; if it was the first, what had been kept for
/// it may go to the next. No other waiter's place changes.
///
/// # Panic
///
/// A panic while a permit is held gives it back. Too many permits panic before anything is changed. A waker
/// that panics does so in the call that woke it ([Wakers](crate#wakers)), after every waiter that can be granted has been.
///
/// # Memory ordering
///
/// Everything done before permits are given back happens before everything done after an acquire that takes
/// any of them.
///
/// # Re-entrancy
///
/// Wakers may call anything on the semaphore: none runs while the queue is locked. A task that waits
/// for permits that it holds itself waits for ever.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// At most [`MAX_PERMITS`](Semaphore::MAX_PERMITS) permits are free at a time: what would exceed that panics,
/// in `release` and in the drop of a permit (not while the thread unwinds: a second panic would end the process). No limit on the number of waiters. A forgotten, queued future
/// keeps its place for ever, and stops the queue behind it. A release that grants more than 32 waiters wakes
/// them in steps of 32; until it returns, `try_acquire` may find the queue not yet empty.
///
/// # Futurelock
///
/// An acquire future that has been polled once and is then neither polled nor dropped still gets its permits,
/// and keeps them. A task that holds on to such a future (a `select!` over `&mut future`) and then acquires
/// again may wait for itself. Drop the future, or keep polling it.
///
/// # When to use something else
///
/// * One permit that guards a value: a [`Mutex`](crate::Mutex).
/// * A signal rather than a supply: an [`Event`](crate::Event).
#[doc(alias = "AsyncSemaphore")]
pub struct Semaphore<P: SemaphorePolicy = Fifo> {
    raw: RawSemaphore<P>,
}

/// The future of [`Semaphore::acquire`] and [`Semaphore::acquire_many`].
pub type Acquire<'a, P = Fifo> = Wait<Single<AcquireOp<&'a Semaphore<P>>>>;

impl Semaphore {
    /// The most permits that can be free in a semaphore of any policy, or asked for at once.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(tasuki::Semaphore::MAX_PERMITS);
    /// # assert!(semaphore.try_acquire_many(tasuki::Semaphore::MAX_PERMITS).is_ok());
    /// ```
    pub const MAX_PERMITS: usize = MAX_COUNT;

    const_fn! {
        /// Creates a semaphore with `permits` permits, strictly first come, first served.
        ///
        /// # Panics
        ///
        /// If `permits` is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
        ///
        /// # Examples
        ///
        /// ```
        /// static SLOTS: tasuki::Semaphore = tasuki::Semaphore::new(4);
        /// assert_eq!(SLOTS.available_permits(), 4);
        /// ```
        #[track_caller]
        pub const fn new(permits: usize) -> Self {
            Self::with_policy(permits)
        }
    }
}

/// The limit of every function that takes a number of permits and may not fail.
#[track_caller]
const fn checked(permits: usize) -> usize {
    assert!(permits <= MAX_COUNT, "a semaphore has at most `MAX_PERMITS` permits: use fewer");
    permits
}

impl<P: SemaphorePolicy> Semaphore<P> {
    const_fn! {
        /// Creates a semaphore with `permits` permits and the policy of its type.
        ///
        /// # Panics
        ///
        /// If `permits` is more than [`Semaphore::MAX_PERMITS`].
        ///
        /// # Examples
        ///
        /// ```
        /// use tasuki::Semaphore;
        /// use tasuki::policy::Bypass;
        ///
        /// static SLOTS: Semaphore<Bypass<16>> = Semaphore::with_policy(4);
        /// assert_eq!(SLOTS.available_permits(), 4);
        /// ```
        #[track_caller]
        pub const fn with_policy(permits: usize) -> Self {
            Self { raw: RawSemaphore::new(checked(permits)) }
        }
    }

    const_fn! {
        /// Gives the semaphore a name, which the reports of [`inspect`](crate::inspect) show. Where `inspect` is not active the name is not kept.
        ///
        /// # Examples
        ///
        /// ```
        /// static CONNECTIONS: tasuki::Semaphore = tasuki::Semaphore::new(1).named("connections");
        /// assert!(CONNECTIONS.try_acquire().is_ok());
        /// ```
        #[must_use]
        pub const fn named(mut self, name: &'static str) -> Self {
            self.raw.probe.rename(name);
            self
        }
    }

    /// Waits for one permit.
    ///
    /// If it is free and there are no waiters, it is taken at the first poll, unless the [budget](crate#the-budget) of the task is used up.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the semaphore is closed, or is closed during the wait. Permits that were granted before
    /// that are not taken back, even if the future has not been polled since.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never a permit.
    ///
    /// # Examples
    ///
    /// ```
    /// # let rt = async {
    /// let semaphore = tasuki::Semaphore::new(1);
    /// let permit = semaphore.acquire().await?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # drop(permit);
    /// # Ok::<(), tasuki::Closed>(())
    /// # };
    /// # let mut rt = std::pin::pin!(rt);
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(std::future::Future::poll(rt.as_mut(), &mut cx).is_ready());
    /// ```
    #[inline]
    #[track_caller]
    pub fn acquire(&self) -> Acquire<'_, P> {
        AcquireOp::wait(self, 1)
    }

    /// Acquires several permits in one step; waits until there are enough.
    ///
    /// Zero permits are granted at once, unless the semaphore is closed.
    ///
    /// # Errors
    ///
    /// [`Closed`], as in [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses its place in the queue, never a permit.
    ///
    /// # Panics
    ///
    /// At the call, if `permits` is more than [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let buffers = tasuki::Semaphore::new(4096);
    /// let permit = buffers.acquire_many(1024).await.unwrap();
    /// assert_eq!(buffers.available_permits(), 3072);
    /// # drop(permit);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn acquire_many(&self, permits: usize) -> Acquire<'_, P> {
        AcquireOp::wait(self, checked(permits))
    }

    /// Tries to acquire one permit, without waiting.
    ///
    /// With [`Fifo`] it fails while there are waiters: no newcomer passes the queue. With [`Bypass`] it may take a free permit ahead of the queue, which counts as one overtaking.
    ///
    /// # Errors
    ///
    /// [`TryAcquireError::Closed`] if the semaphore is closed, permits or not; else
    /// [`TryAcquireError::NoPermits`].
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(1);
    /// let permit = semaphore.try_acquire().unwrap();
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), tasuki::TryAcquireError::NoPermits);
    /// # drop(permit);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_, P>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Tries to acquire several permits in one step, without waiting.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire). More than [`Semaphore::MAX_PERMITS`] are never available.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(3);
    /// assert!(semaphore.try_acquire_many(4).is_err());
    /// assert_eq!(semaphore.try_acquire_many(3).unwrap().num_permits(), 3);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_acquire_many(&self, permits: usize) -> Result<SemaphorePermit<'_, P>, TryAcquireError> {
        self.raw.try_take(permits)?;
        Ok(Permit::new(self, permits, WaitNote::NONE, Site::here()))
    }

    /// Adds `permits` permits, and grants waiters in order, as long as there are enough for the first of them.
    ///
    /// Permits that were acquired go back by themselves; this is for new ones, or for those of a forgotten
    /// permit. A closed semaphore can be given permits too, but they cannot be acquired.
    ///
    /// # Panics
    ///
    /// If more than [`Semaphore::MAX_PERMITS`] would then be free. Nothing has been changed.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(0);
    /// semaphore.release(2);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    #[doc(alias = "add_permits")]
    #[track_caller]
    pub fn release(&self, permits: usize) {
        self.raw.add(permits);
    }

    /// Removes up to `permits` free permits for good, and returns how many it removed.
    ///
    /// Only what [`available_permits`](Self::available_permits) counts is removed: none while there are waiters.
    /// A closed semaphore stays closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(2), 2);
    /// assert_eq!(semaphore.forget_permits(2), 1);
    /// ```
    pub fn forget_permits(&self, permits: usize) -> usize {
        self.raw.forget(permits)
    }

    /// Returns how many permits are free; 0 while there are waiters, because what is then free is kept for them. (With [`Bypass`] a newcomer may take some of it
    /// ahead of the queue: [`try_acquire`](Self::try_acquire) may succeed where this is 0.) The answer may be outdated when it is returned.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki::Semaphore::new(3).available_permits(), 3);
    /// ```
    pub fn available_permits(&self) -> usize {
        self.raw.available()
    }

    /// Closes the semaphore for ever: every waiter, and every later acquisition, gets [`Closed`]. False if it was closed.
    ///
    /// Permits that are held, or granted to a waiter that has not been polled since, stay valid and can be
    /// given back.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let semaphore = tasuki::Semaphore::new(1);
    /// assert!(semaphore.close());
    /// assert!(semaphore.acquire().await.is_err());
    /// assert!(!semaphore.close(), "closed already");
    /// # }
    /// ```
    pub fn close(&self) -> bool {
        self.raw.close()
    }

    /// Returns true if the semaphore is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!tasuki::Semaphore::new(1).is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.raw.is_closed()
    }
}

impl<P: SemaphorePolicy> fmt::Debug for Semaphore<P> {
    /// Where [`inspect`](crate::inspect) is active, also a task that has permits, and how many wait.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Semaphore");
        shown.field("available_permits", &self.available_permits()).field("closed", &self.is_closed());
        if let Some(permits) = self.raw.probe.shown_permits() {
            shown.field("permits", &permits);
        }
        shown.finish()
    }
}

/// The operation of [`Semaphore::acquire`] and `Semaphore::acquire_owned`: `R` is the reference to the semaphore.
#[derive(Debug)]
pub struct AcquireOp<R> {
    semaphore: RefSlot<R>,
    permits: usize,
    site: Site,
}

impl<P: SemaphorePolicy, R: PermitHolder<Primitive = Semaphore<P>>> AcquireOp<R> {
    #[inline(always)]
    #[track_caller]
    fn wait(semaphore: R, permits: usize) -> Wait<Single<Self>> {
        Wait::new(Self { semaphore: RefSlot::new(semaphore), permits, site: Site::here() })
    }

    #[inline(always)]
    fn raw(&self) -> &RawSemaphore<P> {
        &self.semaphore.get().primitive().raw
    }

    #[inline(always)]
    fn permit(&mut self, note: WaitNote) -> Permit<R> {
        Permit::new(self.semaphore.take(), self.permits, note, self.site)
    }
}

impl<P: SemaphorePolicy, R: PermitHolder<Primitive = Semaphore<P>>> Op for AcquireOp<R> {
    type Output = Result<Permit<R>, Closed>;
    type Unfinished<E> = E;
    const NAME: &'static str =
        if R::IS_COPIED { "tasuki::future::Acquire" } else { "tasuki::future::AcquireOwned" };

    #[inline(always)]
    fn try_now(&mut self) -> Option<Self::Output> {
        // Copied before the exchange, as the reference: nothing is loaded again after it.
        let (permits, site) = (self.permits, self.site);
        let semaphore = self.semaphore.take_if(|semaphore| semaphore.primitive().raw.take_fast(permits))?;
        Some(Ok(Permit::new(semaphore, permits, WaitNote::NONE, site)))
    }

    fn is_ready(&self) -> bool {
        self.raw().is_ready(self.permits)
    }

    fn target(&self) -> Target<'_> {
        Target::permits(&self.raw().probe, self.permits)
    }

    #[inline(always)]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw().enqueue_or_take(self.permits, slot, cx).map_ok(|()| self.permit(WaitNote::NONE))
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw().poll_queued(waiter, cx).map_ok(|()| self.permit(waiter.get().note()))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        let ended = self.raw().cancel(waiter)?;
        Some(ended.map(|()| self.permit(waiter.get().note())))
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}
