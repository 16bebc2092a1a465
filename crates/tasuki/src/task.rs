//! Which task runs: the identity of a task, under any executor.
//!
//! ```
//! use tasuki::{ReentrantMutex, task};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let lock = ReentrantMutex::new(1);
//! assert!(lock.lock().await.is_err(), "the task has no identity");
//! task::identify(async {
//!     let outer = lock.lock().await.unwrap();
//!     let inner = lock.lock().await.unwrap(); // the same task: it does not wait for itself
//!     assert_eq!(*outer + *inner, 2);
//! })
//! .await;
//! # }
//! ```
//!
//! A runtime that knows its tasks says so through its [`Driver`](crate::runtime::Driver); tokio is asked with the feature `tokio`. Under any other
//! executor, wrap the task's future in [`identify`].

use crate::budget::Charge;
use crate::catch_panic::caught;
use crate::shim::identity;
use crate::{host_executor, runtime};
use core::cell::Cell;
use core::fmt;
use core::future::Future;
use core::mem;
use core::num::NonZeroU64;
use core::panic::Location;
use core::pin::Pin;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
#[cfg(any(debug_assertions, feature = "inspect"))]
use core::task::Waker;
use core::task::{Context, Poll, ready};
use std::thread_local;

/// The identity of a task: equal for the same task, different for any other, never used twice in a process.
///
/// Two exceptions: the numbers of tokio's tasks are unique as far as tokio promises it, and an identity that was [guessed](Self::is_guessed) from a waker as far as wakers differ.
///
/// # Examples
///
/// ```
/// use tasuki::task;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (here, there) = task::identify(async { (task::current(), task::current()) }).await;
/// assert!(here.is_some() && here == there);
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(NonZeroU64);

impl TaskId {
    /// Returns an identity that no task has had before. For runtimes; tasks get theirs by [`identify`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::task::TaskId;
    ///
    /// assert_ne!(TaskId::fresh(), TaskId::fresh());
    /// ```
    #[allow(clippy::missing_panics_doc, reason = "2^64 tasks are not reached")]
    pub fn fresh() -> Self {
        let number = LEFT.try_with(|left| {
            let (next, end) = left.get();
            let (next, end) = if next < end { (next, end) } else { take_numbers() };
            left.set((next + 1, end));
            next
        });
        let number = number.unwrap_or_else(|_| take_numbers().0);
        Self(NonZeroU64::new(number).expect("2^64 tasks are not reached"))
    }

    /// A task of the host, by the host's number.
    #[cfg(feature = "tokio")]
    pub(crate) fn of_host(number: u64) -> Option<Self> {
        NonZeroU64::new(number | HOST).map(Self)
    }

    /// The task that this waker wakes, by the address in the waker: for reports, where no runtime tells which task runs. `None` for a waker without an address of its own, as the no-op waker.
    #[cfg(any(debug_assertions, feature = "inspect"))]
    pub(crate) fn of_waker(waker: &Waker) -> Option<Self> {
        /// Below that it is a number of the executor's, of which several executors may have the same.
        const LEAST: usize = 4096;
        let address = waker.data().addr();
        // Addresses are multiples of 16, mostly: what differs is in the low bits, as in the numbers of other tasks. The two highest bits are the same in all.
        let number = (address as u64 >> 4 | (address as u64 & 15) << 58) & (GUESSED - 1);
        NonZeroU64::new(number | GUESSED).filter(|_| address >= LEAST).map(Self)
    }

    /// Returns true if the identity was taken from a waker, because no runtime told which task runs. Such identities are only in the reports and snapshots of [`inspect`](crate::inspect).
    ///
    /// They can be wrong: tasks that an executor polls with one waker seem to be one task, and a new task at the address of one that has ended has the same identity. So a deadlock of such tasks is only
    /// called suspected.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!tasuki::task::TaskId::fresh().is_guessed());
    /// ```
    pub fn is_guessed(self) -> bool {
        self.get() & (HOST | GUESSED) == GUESSED
    }

    /// The task of a number that [`get`](Self::get) gave.
    #[cfg(any(debug_assertions, feature = "inspect"))]
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns the number, for logs. Those of the tasks of tokio (feature `tokio`) have the highest bit set, so that they differ from ours.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_ne!(tasuki::task::TaskId::fresh().get(), 0);
    /// ```
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// Set in the number of a task of the host.
const HOST: u64 = 1 << 63;
/// Set in the number of a task that is known by its waker only.
const GUESSED: u64 = 1 << 62;

thread_local! {
    /// The numbers that this thread may still give: from the first up to the second.
    static LEFT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Numbers for one thread, so that threads that spawn do not meet.
#[cold]
fn take_numbers() -> (u64, u64) {
    const AT_ONCE: u64 = 256;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: each number is given once, and nothing else is said by it.
    let first = NEXT.fetch_add(AT_ONCE, Ordering::Relaxed);
    (first, first + AT_ONCE)
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.get();
        if self.is_guessed() {
            let (high, low) = (number << 6 >> 2, number >> 58 & 15);
            write!(f, "the task of waker {:#x}", high | low)
        } else if number & HOST == 0 {
            write!(f, "task {number}")
        } else {
            write!(f, "tokio task {}", number & !HOST)
        }
    }
}

/// Returns the task that runs on this thread: the innermost [`identify`], or else what the runtime says, or with the feature `tokio` what tokio says.
///
/// # Examples
///
/// ```
/// use tasuki::task;
///
/// assert_eq!(task::current(), None);
/// ```
pub fn current() -> Option<TaskId> {
    current_or(asked)
}

/// The innermost [`identify`], or else what `asked` says.
#[inline]
pub(crate) fn current_or(asked: impl FnOnce() -> Option<TaskId>) -> Option<TaskId> {
    NonZeroU64::new(identity::get()).map(TaskId).or_else(asked)
}

/// The task that runs, as far as it is known without a question: so that a lock costs no call into a runtime.
///
/// A number per thread: the innermost [`identify`], or else what the runtime has said in advance ([`runtime::set_task`]). 0 is not known, and then the runtime is asked ([`asked`]).
#[cfg(any(debug_assertions, feature = "inspect"))]
pub(crate) mod running {
    use super::TaskId;
    use crate::shim::{MODEL, identity};
    use core::cell::Cell;
    use core::task::Waker;

    std::thread_local! {
        static RUNNING: Cell<u64> = const { Cell::new(0) };
        /// The task of the waker with which a wait of ours is being polled, 0 if none is.
        static POLLED: Cell<u64> = const { Cell::new(0) };
    }

    #[inline(always)]
    pub(crate) fn get() -> u64 {
        RUNNING.try_with(Cell::get).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn replace(number: u64) -> u64 {
        RUNNING.try_with(|before| before.replace(number)).unwrap_or(0)
    }

    /// The task that polls a wait of ours at this moment, by its waker; 0 if none does, or the waker tells nothing.
    pub(crate) fn guessed() -> u64 {
        POLLED.try_with(Cell::get).unwrap_or(0)
    }

    /// While it is there, a wait of ours is being polled.
    #[derive(Debug)]
    pub(crate) struct Polling(Option<u64>);

    impl Polling {
        /// Nothing to do where the runtime has said in advance which task runs.
        #[inline(always)]
        pub(crate) fn begin(waker: &Waker) -> Self {
            if MODEL || get() != 0 { Self(None) } else { Self::guess(waker) }
        }

        #[cold]
        fn guess(waker: &Waker) -> Self {
            let task = TaskId::of_waker(waker).map_or(0, TaskId::get);
            Self(POLLED.try_with(|polled| polled.replace(task)).ok())
        }
    }

    impl Drop for Polling {
        #[inline(always)]
        fn drop(&mut self) {
            if let Some(before) = self.0 {
                let _ = POLLED.try_with(|polled| polled.set(before));
            }
        }
    }

    /// What the runtime says of this thread, unless an [`identify`](super::identify) says something else.
    #[inline]
    pub(crate) fn said(number: u64) -> u64 {
        match identity::get() {
            0 => replace(number),
            inner => replace(inner),
        }
    }
}

#[cfg(not(any(debug_assertions, feature = "inspect")))]
pub(crate) mod running {
    #[inline(always)]
    pub(crate) fn replace(_number: u64) -> u64 {
        0
    }

    #[inline(always)]
    pub(crate) fn said(_number: u64) -> u64 {
        0
    }
}

/// Is it said when a poll of the task that runs has ended ([`poll_ended`](runtime::poll_ended))?
pub(crate) fn ends_of_polls_are_told() -> bool {
    identity::get() != 0 || runtime::ends_of_polls_are_told()
}

/// What the runtime says, or else the host.
#[inline]
pub(crate) fn asked() -> Option<TaskId> {
    runtime::task().or_else(host_executor::task)
}

/// Gives a future an identity of its own, for as long as it is being polled.
///
/// Wrap the outermost future of a task: what it awaits, and the branches of its `join!`s, are the same task.
///
/// # Cancel safety
///
/// As the future inside, which is dropped with the wrapper.
///
/// # Examples
///
/// ```
/// use tasuki::task;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let id = task::identify(async { task::current() }).await;
/// assert!(id.is_some());
/// # }
/// ```
pub fn identify<F: Future>(future: F) -> Identified<F> {
    Identified { charge: Charge::default(), future, end: TaskEnd(TaskId::fresh()) }
}

/// The future of [`identify`].
///
/// It has no limits ([`timeout`](crate::future::Wait::timeout) and the others): it is a task, not a wait, and what it wraps may be any future. Limit the waits inside, or
/// wrap the limited wait: `task::identify(mutex.lock().timeout(time))`.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Identified<F> {
    charge: Charge,
    future: F,
    /// Dropped last: the destructor of the future may release a lock, which is then granted to a future that the task has left elsewhere.
    end: TaskEnd,
}

/// The identity of a task, which ends when this is dropped: grants that the task has not claimed are revoked. The wakers of other tasks that panic then are contained: the output of this one must not be
/// lost by that.
#[derive(Debug)]
struct TaskEnd(TaskId);

impl Drop for TaskEnd {
    #[inline]
    fn drop(&mut self) {
        caught(|| runtime::task_ended(self.0));
    }
}

impl<F> Identified<F> {
    /// Returns the identity that the future runs under.
    ///
    /// # Examples
    ///
    /// ```
    /// let task = tasuki::task::identify(async {});
    /// println!("spawning {}", task.id());
    /// ```
    pub fn id(&self) -> TaskId {
        self.end.0
    }
}

impl<F: Future> Future for Identified<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        struct RestoreIdentity(u64, u64);
        impl Drop for RestoreIdentity {
            fn drop(&mut self) {
                identity::replace(self.0);
                running::replace(self.1);
            }
        }
        // SAFETY: a projection: the future is never moved out of the pinned whole.
        let this = unsafe { self.get_unchecked_mut() };
        ready!(this.charge.poll(cx));
        let id = this.end.0;
        let restore = RestoreIdentity(identity::replace(id.get()), running::replace(id.get()));
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        // Dropped by a panic, after the identity is restored: the task has ended, though its future may be kept.
        let end = TaskEnd(id);
        let poll = {
            let _restore = restore;
            future.poll(cx)
        };
        if poll.is_pending() {
            mem::forget(end);
            runtime::poll_ended(id, cx.waker());
        }
        poll
    }
}

/// A task is about to wait for a lock that it holds.
///
/// It may be harmless: another branch of the same task's `join!` may give the lock up, the guard may have been sent to
/// another task, or the wait has a limit ([`is_limited`](Self::is_limited)). It is a deadlock if none is the case.
///
/// # Examples
///
/// ```
/// tasuki::task::on_self_deadlock(|found| eprintln!("{found}"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfDeadlock {
    task: TaskId,
    held_at: &'static Location<'static>,
    wanted_at: &'static Location<'static>,
    is_limited: bool,
}

impl SelfDeadlock {
    #[cfg_attr(
        not(any(debug_assertions, feature = "inspect")),
        expect(dead_code, reason = "nothing is found then")
    )]
    pub(crate) fn new(
        task: TaskId,
        held_at: &'static Location<'static>,
        wanted_at: &'static Location<'static>,
        is_limited: bool,
    ) -> Self {
        Self { task, held_at, wanted_at, is_limited }
    }

    /// Returns the task that waits for itself.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki::task::on_self_deadlock(|found| println!("{}", found.task()));
    /// ```
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Returns where the task took the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki::task::on_self_deadlock(|found| println!("{}", found.held_at()));
    /// ```
    pub fn held_at(&self) -> &'static Location<'static> {
        self.held_at
    }

    /// Returns where the task wants the lock again.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki::task::on_self_deadlock(|found| println!("{}", found.wanted_at()));
    /// ```
    pub fn wanted_at(&self) -> &'static Location<'static> {
        self.wanted_at
    }

    /// Returns true if the wait has a limit ([`timeout`](crate::future::Wait::timeout) and the others). Then it is no deadlock: it ends by its limit.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki::task::on_self_deadlock(|found| if !found.is_limited() { eprintln!("{found}") });
    /// ```
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }
}

impl fmt::Display for SelfDeadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, held_at, wanted_at, is_limited } = self;
        let until = if *is_limited { ", until its limit" } else { "" };
        write!(f, "{task} waits at {wanted_at} for a lock that it took at {held_at}{until}")
    }
}

/// The hook; null if there is none.
static HOOK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static STRICT: AtomicBool = AtomicBool::new(false);

/// Calls `hook` whenever a task that has an identity is about to wait for a lock that it holds: a
/// [`Mutex`](crate::Mutex), a `LoopMutex` of `tasuki-rt`, or a [`RwLock`](crate::RwLock) in any mode (a second read only behind a queued writer). Not for permits, nor for an upgrade.
///
/// Only where [`inspect`](crate::inspect) is active; elsewhere it costs nothing and finds nothing. One hook for the process: the last one
/// counts.
///
/// # Examples
///
/// ```
/// tasuki::task::on_self_deadlock(|found| eprintln!("{found}"));
/// ```
pub fn on_self_deadlock(hook: fn(&SelfDeadlock)) {
    // Relaxed: a function is there from the beginning, nothing is published with it.
    HOOK.store(hook as *mut (), Ordering::Relaxed);
}

/// Switches strict mode on or off: a deadlock panics at once, in the poll that would begin to wait. Only where [`inspect`](crate::inspect) is active; off by default.
///
/// In strict mode these panic:
///
/// * a task with an identity that is about to wait for a lock that it holds, after the hook of [`on_self_deadlock`] was called;
/// * a task whose wait closes a cycle of locks that have holders ([`Deadlock`](crate::inspect::Certainty::Deadlock) or [`Futurelock`](crate::inspect::Certainty::Futurelock)), after the hook of
///   [`on_deadlock`](crate::inspect::on_deadlock) was called.
///
/// A wait with a limit of ours (also `timeout` of `tasuki-rt`) does not panic: its limit ends it. Nor does one for a semaphore, whose permits any task may release. The panic drops the future, and no lock is lost.
///
/// It is off by default because another branch of a `select!` or `join!` of the same task might still have ended the wait. A cycle that closes in another way than by a wait that begins is
/// reported after a second, as without strict mode.
///
/// # Examples
///
/// ```
/// tasuki::task::strict(false);
/// ```
pub fn strict(on: bool) {
    // Relaxed: a switch.
    STRICT.store(on, Ordering::Relaxed);
}

/// Does a report of a self-deadlock do anything? Without a hook, and outside of strict mode, no wait needs to look for one.
#[cfg(any(debug_assertions, feature = "inspect"))]
#[inline]
pub(crate) fn wants_reports() -> bool {
    // Relaxed: as in `on_self_deadlock`.
    is_strict() || !HOOK.load(Ordering::Relaxed).is_null()
}

#[inline]
pub(crate) fn is_strict() -> bool {
    // Relaxed: a switch.
    STRICT.load(Ordering::Relaxed)
}

#[cfg_attr(
    not(any(debug_assertions, feature = "inspect")),
    expect(dead_code, reason = "nothing is found then")
)]
pub(crate) fn report(found: &SelfDeadlock) {
    // Relaxed: as in `on_self_deadlock`.
    let hook = HOOK.load(Ordering::Relaxed);
    if !hook.is_null() {
        // SAFETY: not null, so it was stored by `on_self_deadlock`, from a pointer of this type.
        let hook = unsafe { core::mem::transmute::<*mut (), fn(&SelfDeadlock)>(hook) };
        hook(found);
    }
    let panics = is_strict() && !found.is_limited;
    assert!(!panics, "{found}; no lock was taken, and none was lost");
}
