//! Locks, signals and channels for async Rust. A wait suspends the task, not its thread.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tasuki::Mutex;
//!
//! async fn add(total: Arc<Mutex<u64>>, n: u64) {
//!     *total.lock().await += n;
//! }
//!
//! async fn add_or_fail(total: Arc<Mutex<u64>>, n: u64) -> Result<(), tasuki::Elapsed> {
//!     *total.lock().timeout(Duration::from_secs(1)).await? += n;
//!     Ok(())
//! }
//! # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
//! # let (total, mut cx) = (Arc::new(Mutex::new(0)), Context::from_waker(Waker::noop()));
//! # assert!(pin!(add(total.clone(), 1)).poll(&mut cx).is_ready());
//! # assert_eq!(pin!(add_or_fail(total.clone(), 2)).poll(&mut cx), Poll::Ready(Ok(())));
//! # assert_eq!(*total.try_lock().unwrap(), 3);
//! ```
//!
//! All primitives work under every executor (`ReentrantMutex` where tasks have an identity: [`task`]), need no runtime, and are built on one wait queue, which has these properties:
//!
//! * Waiters are granted what they wait for in order, first come, first served, unless a [`policy`] says otherwise. A newcomer does not overtake them. (One exception: a reader may overtake queued *upgradable* readers
//!   of an [`RwLock`].)
//! * A wait may be dropped at any await. What had been granted to it is passed on, never lost.
//! * A wait allocates nothing: its place in the queue is inside its future. There are five exceptions: where [`inspect`] is active, as in debug builds, what it notes may allocate; the first `.timeout()` whose deadline no runtime
//!   keeps starts a thread ([`Elapsed`]); [wakes](#wakers) that are nested more than 32 KiB of stack deep are kept in a list; a receive whose poll ends in the panic of a waker may need memory to put its message back; the first
//!   `.block()` of a thread, and one inside of another, makes what the thread sleeps on.
//!
//! # Which primitive do I need?
//!
//! | I want | use |
//! |---|---|
//! | one task at a time in a section that awaits | [`Mutex`] |
//! | the same, at nearly the throughput of an unfair lock | [`Mutex`] with [`Bypass`](policy::Bypass) |
//! | the same, where a lock future may be kept without being polled | [`Mutex`] with [`Revocable`](policy::Revocable) |
//! | many readers or one writer, and a reader that can become the writer | [`RwLock`] |
//! | to lock again what the task has locked | `ReentrantMutex` |
//! | to wait, under a mutex, until a condition holds | [`Condvar`] |
//! | a value that is made once, by an async initialiser | [`OnceCell`] |
//! | at most so many tasks at a time, or a supply to draw from | [`Semaphore`] |
//! | to pass messages | [`channel`] |
//! | to wait until something has happened, one waiter for each signal or all at once | [`Event`] |
//! | to wait until all of a changing number of tasks are done | [`WaitGroup`] |
//! | a door that opens once, after so many counts | [`Latch`] |
//! | a fixed number of tasks to meet, again and again | [`Barrier`] |
//! | to ask tasks, and the tasks that they started, to stop | `CancellationSource` |
//! | to put a thread to sleep and wake it by hand | `Parker` |
//!
//! # How to wait
//!
//! Every operation that may wait returns a future, and the other ways to wait are methods of that future:
//!
//! | I want to | I write |
//! |---|---|
//! | wait as a task | `mutex.lock().await` |
//! | wait as a thread (not inside a task) | `mutex.lock().block()` |
//! | give up after a time | `mutex.lock().timeout(duration).await`, `.deadline(instant)` |
//! | give up when told to | `mutex.lock().or_cancelled(&token).await` |
//! | not wait | `mutex.try_lock()` |
//!
//! The types of these futures are in [`future`], the orders of waiters in [`policy`].
//!
//! # The budget
//!
//! A task that never waits would keep its thread from other tasks. So now and then an operation that need not wait yields: it does nothing, wakes its task and returns `Pending` once. On `tasuki-rt` it does so after 128
//! operations in one poll, or half a millisecond after the 16th; elsewhere after at least 256 operations and 100 µs on a thread, and with the feature `tokio` also when tokio's budget is used up; without `std` and on wasm32-unknown-unknown never.
//! The functions `try_*` and `.block()` never yield. A poll by a waker without data (`Waker::noop()`) yields on `tasuki-rt` only.
//!
//! # Wakers
//!
//! A release calls the wakers of the waiters that it granted inside its own call, after its state is complete and with nothing locked. So a waker may lock, poll, drop and panic. A panic comes out of the call
//! that released, after all other waiters have been woken. The wakers of tokio, smol and `tasuki-rt` only schedule their task; for a waker that does more, three things matter:
//!
//! * *Wakes inside of wakes* nest while the stack is shallow. Inside of a wake that is more than 32 KiB of stack below the shallowest wake of its thread, further wakes are put off until that one has returned, or until the
//!   thread parks on a `Parker` or in `.block()`. So a release in there returns before its waiters are woken, and the panic of such a waker comes out of the outer call. Without `std` all wakes nest.
//! * *Polls inside of wakes* belong to the task that released: if a waker polls a task in its own call, that task has the identity of the releasing task, and so enters a `ReentrantMutex` that the releasing task holds. An executor
//!   that gives its tasks identities, by [`task::identify`] or as `tasuki-rt` does, avoids this.
//! * *A waker that blocks its thread*, also by `.block()`, delays the waiters that the same call wakes after it: one `set` of a manual event, say, wakes all of its waiters one after the other.
//!
//! # Features
//!
//! * `std` (default): `Parker`, `ReentrantMutex`, `.block()`, `.timeout()`, `.deadline()`, the modules `task`, `inspect` and `runtime`, iterators over channels, the [budget](#the-budget); includes `alloc`.
//! * `alloc`: guards that own an `Arc`; `CancellationSource`, `.or_cancelled()`; channels that allocate.
//! * `critical-section`: a queue is locked in a critical section (of the crate of that name), so that interrupt handlers may call whatever does
//!   not wait: `Event::set`, `Semaphore::release`, `try_lock`, drops of guards. Targets without compare-and-swap (such as `thumbv6m`) need it. Link
//!   an implementation for your chip.
//! * neither `std` nor `alloc`: everything else, on bare metal. There wakes inside of wakes always nest: a waker that drops or polls another waiter of the same queue may use stack for
//!   each such waiter.
//! * `futures-core`: `FusedFuture` for the futures; with `alloc` also the messages of a channel as a `Stream`.
//! * `futures-sink`: a sender as a `Sink`; includes `alloc`.
//! * `tokio`: on the threads of a tokio runtime the primitives take part in its cooperative budget, limits such as `.timeout(..)` use its clock (also a paused
//!   one) and its timers instead of a thread of ours, and its tasks have identities. The runtime needs `enable_time` for limits; without it they panic, as tokio's do.
//!   `.block()` does not use tokio's timers: a runtime may stand still while one of its threads is blocked.
//! * `inspect`: release builds note locks and waits, as debug builds always do, and print deadlocks while the program hangs ([`inspect`]).
//! * `serde`: the values of [`inspect`] are `Serialize`.
//! * `tracing`: each report of a deadlock is an event of the crate `tracing`.
//! * `console`: locks and waits are spans that tokio-console understands; implies `inspect` and `tracing`.

#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(all(not(target_has_atomic = "ptr"), not(feature = "critical-section")))]
compile_error!(
    "this target has no compare-and-swap instruction: enable the feature `critical-section` of tasuki, and link an implementation \
     of the crate `critical-section` for your chip"
);
#[cfg(all(not(target_has_atomic = "ptr"), feature = "alloc"))]
compile_error!(
    "this target has no compare-and-swap instruction, and so no `Arc`: use tasuki without the features `std` and `alloc`"
);

#[cfg(feature = "alloc")]
extern crate alloc;

mod barrier;
#[cfg_attr(
    not(feature = "std"),
    expect(unreachable_pub, reason = "only a runtime reaches it, which needs threads")
)]
mod budget;
#[cfg(feature = "alloc")]
mod cancellation;
#[cfg(feature = "std")]
mod catch_panic;
pub mod channel;
mod condvar;
mod countdown;
mod error;
mod event;
#[cfg(all(test, feature = "std", target_os = "linux", not(miri)))]
mod fork_child;
#[cfg(feature = "futures-core")]
mod fused;
pub mod future;
mod guard;
#[cfg(feature = "std")]
mod host_executor;
#[cfg(feature = "std")]
pub mod inspect;
mod latch;
#[cfg(feature = "alloc")]
mod limited;
mod mutex;
mod once_cell;
#[cfg(all(test, feature = "std"))]
mod panic_place;
#[cfg(feature = "std")]
mod parker;
pub mod policy;
mod primitive_ref;
mod probe;
#[cfg(feature = "std")]
mod process_id;
mod queue;
#[cfg(feature = "std")]
mod reentrant;
#[cfg(feature = "std")]
pub mod runtime;
mod rwlock;
mod semaphore;
mod shim;
mod spin_pause;
#[cfg(feature = "std")]
pub mod task;
#[cfg(feature = "std")]
mod timer;
mod trace;
mod wait;
mod wait_group;

pub use barrier::{Barrier, BarrierWaitResult};
#[cfg(feature = "alloc")]
pub use cancellation::{CancellationSource, CancellationToken, DropGuard};
pub use condvar::Condvar;
#[cfg(feature = "alloc")]
pub use error::Cancelled;
pub use error::{Closed, GivenBack, TryAcquireError};
#[cfg(feature = "std")]
pub use error::{Elapsed, NoTaskIdentity};
pub use event::{Event, Reset};
pub use guard::Guard;
pub use latch::Latch;
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard};
#[cfg(feature = "alloc")]
pub use mutex::{OwnedMappedMutexGuard, OwnedMutexGuard};
pub use once_cell::OnceCell;
#[cfg(feature = "std")]
pub use parker::{Parker, Unparker};
#[cfg(feature = "std")]
pub use reentrant::{OwnedReentrantMutexGuard, ReentrantMutex, ReentrantMutexGuard};
pub use rwlock::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
#[cfg(feature = "alloc")]
pub use rwlock::{
    OwnedMappedRwLockReadGuard, OwnedMappedRwLockWriteGuard, OwnedRwLockReadGuard,
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard,
};
#[cfg(feature = "alloc")]
pub use semaphore::OwnedSemaphorePermit;
pub use semaphore::{Permit, PermitHolder, Semaphore, SemaphorePermit};
shim::in_model! {
    #[doc(hidden)]
    pub use shim::hints;
}
#[cfg(tasuki_counts)]
#[doc(hidden)]
pub use shim::counted::{AccessKind, AtomicAccess, trace};
#[cfg(feature = "alloc")]
pub use wait_group::OwnedWaitGroupMember;
pub use wait_group::{WaitGroup, WaitGroupMember};

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail.md")]
mod refused {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

// What the pages promise, where nothing is added for debugging.
#[cfg(not(any(debug_assertions, feature = "inspect")))]
const _: () = {
    // What a revocable lock keeps of its grant, for runtimes.
    const RECORD: usize = match (cfg!(feature = "std"), usize::BITS) {
        (false, _) => 0,
        (true, 64) => 48,
        (true, _) => 28,
    };
    assert!(size_of::<Mutex<()>>() <= 16);
    assert!(size_of::<future::Lock<'_, ()>>() <= 64);
    assert!(size_of::<MutexGuard<'_, ()>>() == size_of::<usize>());
    assert!(size_of::<Mutex<(), policy::Revocable>>() <= size_of::<Mutex<()>>() + RECORD);
    assert!(size_of::<Condvar>() <= 3 * size_of::<usize>());
    assert!(size_of::<Semaphore>() <= 16);
    assert!(size_of::<Event>() <= 16);
    assert!(size_of::<WaitGroup>() <= 24);
    assert!(size_of::<Barrier>() <= 32);
    assert!(size_of::<RwLock<()>>() <= 24);
    assert!(size_of::<future::Read<'_, ()>>() <= 64);
    assert!(size_of::<RwLockReadGuard<'_, ()>>() == 2 * size_of::<usize>());
    assert!(size_of::<future::Upgrade<&RwLock<()>>>() <= 64);
};
