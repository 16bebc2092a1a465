//! Policies: in which order waiters are granted a lock, and whether a newcomer may overtake them.
//!
//! ```
//! use tasuki::policy::{Bypass, Lifo};
//! use tasuki::{Mutex, Semaphore};
//!
//! let strict = Mutex::new(0); // `Fifo`
//! let busy = Mutex::<_, Bypass<16>>::with_policy(0);
//! let newest_first = Mutex::<_, Lifo>::with_policy(0);
//! let pool = Semaphore::<Bypass>::with_policy(4);
//! # assert_eq!(*strict.try_lock().unwrap() + *busy.try_lock().unwrap() + *newest_first.try_lock().unwrap(), 0);
//! # assert!(pool.try_acquire().is_ok());
//! ```
//!
//! | policy | order | of |
//! |---|---|---|
//! | [`Fifo`] (default) | first come, first served; no newcomer overtakes a waiter | mutex, semaphore |
//! | [`Bypass`] | the same, but the first waiter may be overtaken `N` times | mutex, semaphore |
//! | [`Lifo`] | the newest waiter first | mutex |
//! | [`Revocable`] | as `Fifo`; a grant that its task does not claim goes to another future of that task | mutex |
//!
//! A policy is a type parameter of the lock, so it costs nothing at run time. `Mutex::new` and `Semaphore::new` have the policy [`Fifo`]; for another one name the type and call `with_policy`, as above.

pub use crate::semaphore::SemaphorePolicy;

use crate::mutex::raw::{GrantRecord, UnclaimedGrant};
use core::fmt;

mod sealed {
    pub trait Sealed {}
}

/// Which waiter is granted first, and so where a new one is enqueued.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The oldest: a new one is enqueued at the end.
    Oldest,
    /// The newest: it is enqueued at the front.
    Newest,
}

/// The order of service of a lock: [`Fifo`], [`Lifo`], [`Bypass`] or [`Revocable`].
///
/// The trait is sealed: the four policies are all there are.
pub trait Policy: sealed::Sealed + Send + Sync + Unpin + fmt::Debug + 'static {
    /// Which waiter is granted first.
    #[doc(hidden)]
    const ORDER: Order;
    /// How often the first waiter may be overtaken.
    #[doc(hidden)]
    const OVERTAKES: u32;
    /// May a newcomer watch a lock that no waiter is queued for, before it queues itself?
    #[doc(hidden)]
    const SPIN: bool;
    /// May a grant that has not been claimed be revoked, for another future of the same task?
    #[doc(hidden)]
    const REVOCABLE: bool = false;
    /// What a lock keeps for it (`mutex/raw/overdue.rs`).
    #[doc(hidden)]
    type Record: fmt::Debug + Send + Sync;
    /// Of a new lock.
    #[doc(hidden)]
    const RECORD: Self::Record;

    /// The record of a grant, if the lock keeps one.
    #[doc(hidden)]
    #[inline(always)]
    fn grant_record(_: &Self::Record) -> Option<&UnclaimedGrant> {
        None
    }
}

/// Strict first come, first served: the default.
///
/// The lock passes from holder to holder like a baton: it is never free while a waiter is queued, so no newcomer
/// can overtake one. A lock future takes its place in the queue at its first poll.
///
/// `SPIN` (on by default) lets a newcomer watch a held lock for about 250 ns before it queues, only while no waiter is queued.
/// So two threads that meet by accident do not begin a convoy, in which every later section costs a task switch. A lock on which
/// watching was mostly in vain is seldom watched. Where it always paid off, and on a new lock, a newcomer may watch for up to 100 µs:
/// a lock that is held for longer there probably has a holder that the system has interrupted. `Fifo<false>` is the same lock without
/// the spin.
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
/// The newest waiter's data is likely to be in the cache still. The price: under constant load the oldest waiter may wait for ever.
/// As with [`Fifo`], a released lock belongs to a waiter at once, and no newcomer takes it ahead of the queue.
///
/// # Examples
///
/// ```
/// use tasuki::{Mutex, policy::Lifo};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// let mutex = Mutex::<_, Lifo>::with_policy(1);
/// assert_eq!(*mutex.lock().await, 1);
/// # }
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

/// First come, first served, and no futurelock: a grant that its task does not claim goes to the future that the task does poll.
///
/// A task may poll a lock future once, in a `select!` say, keep it, and then lock again by another future. With [`Fifo`] the first future is granted the lock; the
/// task polls the second only, and waits for itself for ever (*futurelock*). With `Revocable` the second future gets the lock.
///
/// # Examples
///
/// ```
/// use std::future::{Future, poll_fn};
/// use std::pin::pin;
/// use std::task::Poll;
/// use tasuki::Mutex;
/// use tasuki::policy::Revocable;
///
/// static TOTAL: Mutex<u64, Revocable> = Mutex::with_policy(0);
///
/// async fn select_and_lock_again() {
///     let holder = TOTAL.lock().await;
///     let mut kept = pin!(TOTAL.lock());
///     // The other branch of the `select!` is ready first; `kept` has a place in the queue, and is not polled again.
///     poll_fn(|cx| Poll::Ready(kept.as_mut().poll(cx).is_pending())).await;
///     drop(holder); // The lock is granted to `kept`.
///     *TOTAL.lock().await += 1; // Waits for ever with `Fifo`.
///     *kept.await += 1; // It kept its place.
/// }
///
/// # struct Thread(std::thread::Thread);
/// # impl std::task::Wake for Thread {
/// #     fn wake(self: std::sync::Arc<Self>) {
/// #         self.0.unpark();
/// #     }
/// # }
/// # let waker = std::sync::Arc::new(Thread(std::thread::current())).into();
/// # let mut job = pin!(select_and_lock_again());
/// # while job.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending() {
/// #     std::thread::park();
/// # }
/// # assert_eq!(*TOTAL.try_lock().unwrap(), 2);
/// ```
///
/// # When a grant is revoked
///
/// When another waiting future of the same task is polled three times in a row and the grant is still unclaimed. (A future that the task polls each time, in whatever order,
/// as the branches of a `join!`, is polled between the first and the third.) The polled future becomes the owner. The revoked one has a place ahead of all
/// waiters when it is polled again; until then it is passed over, and other tasks do not wait for it.
///
/// A future that is revoked a second time goes to the end of the queue, so that a task cannot keep the lock from others in this way. Each waiter ahead, or revoked and not yet polled again,
/// costs a waiter at most two acquisitions, not one.
///
/// A grant to a future of [`lock_owned`](crate::Mutex::lock_owned), or to a wait of a [`Condvar`](crate::Condvar) with an owned guard, is revoked in two more cases, under `tasuki-rt` and inside of [`task::identify`](crate::task::identify): when its task has ended a whole poll
/// without claiming it, and when the task ends (it is ready, panics, is aborted or dropped). The lock then goes to the next waiter, of whatever task, or is free. Another task may poll the
/// revoked future, if it was left elsewhere: it then competes again.
///
/// Two kinds of grants are not revoked. One comes after the end of the task, to a future that is still queued and that no other task has polled. The other is to a future of [`lock`](crate::Mutex::lock): the end of a
/// poll does not revoke it, because such a future only borrows the mutex, and may be forgotten and the mutex moved, so nothing may point to it.
///
/// # Which futures are of one task
///
/// Those with the same task identity: under `tasuki-rt`, under tokio with the feature `tokio`, and inside of
/// [`task::identify`](crate::task::identify). Elsewhere those that were polled with the same waker, which are those of `select!` and `join!`; the futures of a
/// `FuturesUnordered`, and a thread in `.block()`, have a waker each, and are known only by an identity. Where neither is known (`Waker::noop()`) nothing is revoked.
///
/// # What it does not cure
///
/// * A guard inside of a future that is not polled: a lock that is held cannot be taken away.
/// * A future of [`lock`](crate::Mutex::lock) that is not polled, of a task that does not ask for the lock again: it keeps the lock from other tasks, as with [`Fifo`], until its task asks. Use
///   [`lock_owned`](crate::Mutex::lock_owned).
/// * A second future that is not polled when the task is woken, such as one inside of a `FuturesUnordered` behind a future that the task polled itself.
/// * [`try_lock`](crate::Mutex::try_lock), which revokes nothing.
///
/// # Price
///
/// A claim is one locked operation, where [`Fifo`] needs none; for [`lock_owned`](crate::Mutex::lock_owned) under `tasuki-rt` and inside of [`task::identify`](crate::task::identify) two more. To enqueue takes some
/// thirty instructions more. A free lock costs the same. With `std` the mutex is 48 bytes bigger (28 with 32 bits). `SPIN` is as for [`Fifo`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Revocable<const SPIN: bool = true>;

impl<const SPIN: bool> sealed::Sealed for Fifo<SPIN> {}
impl<const SPIN: bool> sealed::Sealed for Revocable<SPIN> {}
impl sealed::Sealed for Lifo {}
impl<const N: u32> sealed::Sealed for Bypass<N> {}

impl<const SPIN: bool> Policy for Fifo<SPIN> {
    const ORDER: Order = Order::Oldest;
    const OVERTAKES: u32 = 0;
    const SPIN: bool = SPIN;
    type Record = ();
    const RECORD: () = ();
}

impl Policy for Lifo {
    const ORDER: Order = Order::Newest;
    const OVERTAKES: u32 = 0;
    const SPIN: bool = true;
    type Record = ();
    const RECORD: () = ();
}

impl<const N: u32> Policy for Bypass<N> {
    const ORDER: Order = Order::Oldest;
    const OVERTAKES: u32 = N;
    const SPIN: bool = false;
    type Record = ();
    const RECORD: () = ();
}

impl<const SPIN: bool> Policy for Revocable<SPIN> {
    const ORDER: Order = Order::Oldest;
    const OVERTAKES: u32 = 0;
    const SPIN: bool = SPIN;
    const REVOCABLE: bool = true;
    type Record = GrantRecord;
    const RECORD: GrantRecord = GrantRecord::NEW;

    #[cfg(feature = "std")]
    #[inline(always)]
    fn grant_record(record: &UnclaimedGrant) -> Option<&UnclaimedGrant> {
        Some(record)
    }
}
