//! For authors of runtimes: the interface between the primitives and a runtime, for what a `Waker` cannot say. Programs do not need it. It may change in a minor release, and does not change within one.
//!
//! A runtime installs a [`Driver`] on the threads where it polls tasks ([`enter`]). Then
//!
//! * the primitives ask the driver which task runs, where its deadlines are kept, and whether the thread may be blocked;
//! * the runtime can ask, while a waker of its own is being called ([`wake_kind`]), whether the wake hands over a lock or a message ([`WakeKind::Baton`]);
//! * the runtime says how many operations of a poll may be ready at once ([`set_budget`]), and the primitives count them down ([`charge`]).
//!
//! Without a driver, under any other executor: deadlines come from tokio with the feature of that name, or else from one shared thread, and a task has no identity unless tokio or
//! [`task::identify`](crate::task::identify) gives it one.

pub use crate::budget::{Charge, charge, set_budget, uncharged, yields};
pub use crate::mutex::keyed::{
    Domain, Key, KeyedAccess, KeyedGuard, KeyedLock, KeyedLockOp, KeyedMutex, KeyedRawMutex,
    MappedKeyedGuard, keyed_lock, keyed_try_lock,
};
pub use crate::mutex::raw::overdue::{poll_ended, task_ended};
pub use crate::parker::park_in;
pub use crate::probe::{SignalSlot, SignalWait, with_limit, without_limits};
pub use crate::queue::nested_wakes::wake_deferred;
pub use crate::task::TaskId;
pub use crate::timer::{Advanced, Sleep, Timers};

use crate::task::running;
use alloc::sync::Arc;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;
use core::task::Waker;
use std::thread_local;
use std::time::{Duration, Instant};

/// What a runtime tells the primitives about the thread and the task it runs.
pub trait Driver {
    /// Returns the task that is being polled on this thread.
    fn task(&self) -> Option<TaskId>;

    /// Returns where the deadlines of this thread's tasks are kept; `None` leaves them to the one thread of the process.
    fn timers(&self) -> Option<Arc<Timers>>;

    /// Returns true if `.block()` may block this thread; otherwise it panics. A limit of such a wait is kept where [`timers`](Self::timers) says, by the clock of [`now`](Self::now): with true, `timers` returns `None`, or a wheel that goes on
    /// being turned while this thread is blocked.
    fn may_block(&self) -> bool;

    /// Returns the time from which durations are counted. A runtime for tests may have a clock of its own.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Called when the budget of the poll is exhausted. Returns how many more operations may be ready before it is called again; 0 if the task must yield. A
    /// runtime for tests decides here where its tasks are switched.
    fn refill(&self) -> u32 {
        0
    }

    /// Called where the budget is exhausted, of an operation that must wait. Returns true if the task yields before the operation is enqueued, as it would if the operation were ready: a runtime for
    /// tests may let the others run first. The waker is that of the poll.
    fn switches_before_waits(&self, _waker: &Waker) -> bool {
        false
    }

    /// Called when a deadline was armed on this thread, or its wait polled again, with the waker of the wait. If that is not the waker of the current poll, the poll may last until the deadline wakes it: then the runtime must
    /// not leave the deadline to the thread that polls.
    fn deadline_armed(&self, _waker: &Waker) {}

    /// Returns true if the runtime calls [`poll_ended`] after each poll of a task, and [`task_ended`] after each task.
    fn tells_ends_of_polls(&self) -> bool {
        false
    }
}

/// Why a waker is being called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeKind {
    /// Something may have changed.
    #[default]
    Plain,
    /// The task was granted a lock or a message, is the next that may take a free lock, or learns that no message will come: others may wait for it, so it should run soon.
    Baton,
}

thread_local! {
    static DRIVER: Cell<Option<NonNull<dyn Driver>>> = const { Cell::new(None) };
    static WAKE_KIND: Cell<WakeKind> = const { Cell::new(WakeKind::Plain) };
}

/// Runs `f` with this driver installed on the thread; the driver that was installed before is restored afterwards, also after a panic.
pub fn enter<R>(driver: &dyn Driver, f: impl FnOnce() -> R) -> R {
    struct RestoreDriver(Option<NonNull<dyn Driver>>, u64);
    impl Drop for RestoreDriver {
        fn drop(&mut self) {
            let _ = DRIVER.try_with(|driver| driver.set(self.0));
            running::replace(self.1);
        }
    }
    let driver: NonNull<dyn Driver + '_> = NonNull::from(driver);
    // SAFETY: only the lifetime changes; `RestoreDriver` takes the pointer away before the borrow ends.
    let driver: NonNull<dyn Driver> = unsafe { core::mem::transmute(driver) };
    let before = DRIVER.try_with(|before| before.replace(Some(driver))).ok().flatten();
    let _restore = RestoreDriver(before, running::said(0));
    uncharged(f)
}

/// Says in advance what [`Driver::task`] returns on this thread, until the next call or until the driver is left: with `Some` the driver is not asked for every lock that is
/// noted ([`inspect`](crate::inspect)); with `None`, as at first, it is. It must be what the driver would return. Does nothing where locks are not noted.
#[inline(always)]
pub fn set_task(task: Option<TaskId>) {
    running::said(task.map_or(0, TaskId::get));
}

/// Is a driver installed on this thread?
pub(crate) fn is_entered() -> bool {
    matches!(DRIVER.try_with(Cell::get), Ok(Some(_)))
}

/// Returns why the waker that is being called on this thread is being called. Always [`WakeKind::Plain`] where no driver is installed.
pub fn wake_kind() -> WakeKind {
    WAKE_KIND.try_with(Cell::get).unwrap_or_default()
}

/// Returns a number of this process that its ancestors do not have: the child of a fork has none of the threads of its parent, and a runtime must not wait for them there. The process id does not tell: a child in a PID
/// namespace of its own may have that of its parent.
///
/// # Examples
///
/// ```
/// let started_in = tasuki::runtime::process_number();
/// assert_eq!(tasuki::runtime::process_number(), started_in, "not forked since");
/// ```
pub fn process_number() -> u32 {
    crate::process_id::id()
}

/// Is a waker being called on this thread that was told of a baton?
#[inline(always)]
pub(crate) fn is_baton() -> bool {
    wake_kind() == WakeKind::Baton
}

/// Calls wakers without a baton, also inside of a wake that has one.
#[inline(always)]
pub(crate) fn waking_plainly(wakes: impl FnOnce()) {
    if is_baton() { waking_as(WakeKind::Plain, wakes) } else { wakes() }
}

/// Asks the driver of this thread, if there is one.
fn ask<R>(question: impl FnOnce(&dyn Driver) -> R) -> Option<R> {
    let driver = DRIVER.try_with(Cell::get).ok().flatten()?;
    // SAFETY: `enter` holds the borrow while the pointer is installed, and this is the thread it is installed on.
    Some(question(unsafe { driver.as_ref() }))
}

pub(crate) fn timers() -> Option<Arc<Timers>> {
    ask(|driver| driver.timers()).flatten()
}

pub(crate) fn task() -> Option<TaskId> {
    ask(|driver| driver.task()).flatten()
}

/// Waits until `deadline`, on the timers of the current runtime, or else of the process.
///
/// # Cancel safety
///
/// Dropping it cancels the deadline, and loses nothing.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    crate::timer::sleep_until(deadline)
}

/// Waits for `duration`, from the first poll on. A duration that no clock can reach is for ever.
///
/// # Cancel safety
///
/// As [`sleep_until`]: nothing is lost.
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    crate::timer::sleep(duration)
}

/// Returns the time on this thread.
pub fn now() -> Instant {
    ask(|driver| driver.now()).unwrap_or_else(crate::host_executor::now)
}

/// More of an exhausted budget; `None` without a driver.
pub(crate) fn refill() -> Option<u32> {
    ask(|driver| driver.refill())
}

pub(crate) fn switches_before_waits(waker: &Waker) -> bool {
    ask(|driver| driver.switches_before_waits(waker)).unwrap_or(false)
}

pub(crate) fn deadline_armed(waker: &Waker) {
    ask(|driver| driver.deadline_armed(waker));
}

pub(crate) fn ends_of_polls_are_told() -> bool {
    ask(|driver| driver.tells_ends_of_polls()).unwrap_or(false)
}

pub(crate) fn may_block() -> bool {
    ask(|driver| driver.may_block()).unwrap_or(true)
}

/// Marks the wakes inside `f` as being of this kind; the kind that was set before is restored afterwards, because this may be a wake inside a wake.
pub(crate) fn waking_as<R>(kind: WakeKind, f: impl FnOnce() -> R) -> R {
    struct RestoreWakeKind(WakeKind);
    impl Drop for RestoreWakeKind {
        fn drop(&mut self) {
            let _ = WAKE_KIND.try_with(|kind| kind.set(self.0));
        }
    }
    let before = WAKE_KIND.try_with(|current| current.replace(kind)).unwrap_or_default();
    let _restore = RestoreWakeKind(before);
    f()
}

impl fmt::Debug for dyn Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}
