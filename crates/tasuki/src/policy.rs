//! In which order waiters are granted, and whether a newcomer may overtake them.
//!
//! A policy is a type parameter of the lock, so it costs nothing at run time. Its constants are read where a lock or a semaphore decides, in `mutex/` and
//! `semaphore/`, and nowhere else.

pub use crate::semaphore::SemaphorePolicy;

mod sealed {
    pub trait Sealed {}
}

/// Where a new waiter enters the queue.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// At the end.
    Oldest,
    /// At the front.
    Newest,
}

/// The order of service of a lock: [`Fifo`], [`Lifo`] or [`Bypass`].
///
/// The trait is sealed: the three policies are all there are.
pub trait Policy: sealed::Sealed + Send + Sync + Unpin + core::fmt::Debug + 'static {
    /// Which waiter is granted first.
    #[doc(hidden)]
    const ORDER: Order;
    /// How often the first waiter may be overtaken.
    #[doc(hidden)]
    const OVERTAKES: u32;
    /// May a newcomer watch a lock that no waiter is queued for, before it queues itself?
    #[doc(hidden)]
    const SPIN: bool;
}

/// Strict first come, first served: the default.
///
/// The lock passes from holder to holder like a baton: it is never free while a waiter is queued, so no newcomer
/// can overtake one. A lock future takes its place in the queue at its first poll.
///
/// `SPIN` (on by default) lets a newcomer look at a held lock for about 250 ns before it queues, only
/// while no waiter is queued and only where that has paid off on this lock before; where it always has, and once on a new lock, for up to 100 us,
/// because then the holder has been interrupted. It keeps an accidental overlap of two threads from turning into a
/// convoy. No queued waiter is ever overtaken; but a task that locks in a loop and never has to wait does not
/// let the other tasks of its thread run, as with any lock that is free. `Fifo<false>` is the same lock without it.
///
/// # Examples
///
/// ```
/// let mutex = tasuki::Mutex::new(1); // `Mutex<i32, Fifo>`
/// let first = mutex.try_lock().unwrap();
/// # let mut second = std::pin::pin!(mutex.lock());
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(std::future::Future::poll(second.as_mut(), &mut cx).is_pending());
/// // A second task waits in `lock().await`.
/// drop(first);
/// assert!(mutex.try_lock().is_none(), "the lock already belongs to it");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo<const SPIN: bool = true>;

/// Newest first: the waiter that was enqueued last is granted first.
///
/// Caches are warm and the newest are served quickly; the oldest may wait for ever under constant load.
/// Like [`Fifo`] it passes the baton, and no newcomer takes a lock ahead of the queue.
///
/// # Examples
///
/// ```
/// use tasuki::{Mutex, policy::Lifo};
///
/// let mutex = Mutex::<_, Lifo>::with_policy(1);
/// assert_eq!(*mutex.lock().block(), 1);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifo;

/// First come, first served, with a bounded number of exceptions.
///
/// Newcomers may take a free lock ahead of the queue, but the first waiter is overtaken at most `N`
/// times; then the lock is handed to it. A waiter with `k` others ahead therefore acquires after at most
/// `(k + 1) × (N + 1)` acquisitions by others: a bound that holds without a clock, at nearly the throughput of an
/// unfair lock. `Bypass<0>` is [`Fifo`] without the spin.
///
/// # Examples
///
/// ```
/// use tasuki::{Mutex, policy::Bypass};
///
/// let mutex = Mutex::<_, Bypass<16>>::with_policy(1);
/// let first = mutex.try_lock().unwrap();
/// # let mut second = std::pin::pin!(mutex.lock());
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(std::future::Future::poll(second.as_mut(), &mut cx).is_pending());
/// // A second task waits in `lock().await`.
/// drop(first);
/// assert!(mutex.try_lock().is_some(), "a newcomer is faster, up to 16 times");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Bypass<const N: u32 = 64>;

impl<const SPIN: bool> sealed::Sealed for Fifo<SPIN> {}
impl sealed::Sealed for Lifo {}
impl<const N: u32> sealed::Sealed for Bypass<N> {}

impl<const SPIN: bool> Policy for Fifo<SPIN> {
    const ORDER: Order = Order::Oldest;
    const OVERTAKES: u32 = 0;
    const SPIN: bool = SPIN;
}

impl Policy for Lifo {
    const ORDER: Order = Order::Newest;
    const OVERTAKES: u32 = 0;
    const SPIN: bool = true;
}

impl<const N: u32> Policy for Bypass<N> {
    const ORDER: Order = Order::Oldest;
    const OVERTAKES: u32 = N;
    const SPIN: bool = false;
}
