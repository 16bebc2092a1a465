//! Why is it stuck? The wait-for graph of the process, and the deadlocks in it.
//!
//! Active in debug builds, and in release builds with the feature `inspect`; elsewhere all of this is empty, and costs nothing. Where it is active, every wait of a task is noted, and for every lock which tasks
//! took it. A cycle of tasks that wait for each other is printed to standard error, once, when it has stayed the same for about a second:
//!
//! ```text
//! tasuki: deadlock: 2 tasks wait for each other
//!   task 3 `transfer` waits at src/main.rs:14:18 for 1.0s for the mutex `accounts`, which task 4 took at src/main.rs:21:31
//!   task 4 (spawned at src/main.rs:19:5) waits at src/main.rs:22:18 for 1.0s for the mutex made at src/main.rs:8:27, which task 3 `transfer` took at src/main.rs:13:31
//! ```
//!
//! | I want | use |
//! |---|---|
//! | reports in my own log | [`on_deadlock`]; [`print_deadlocks`]`(false)` switches the printing off |
//! | the cycles of this moment | [`deadlocks`] |
//! | all locks, holders and waits | [`snapshot`](snapshot()), [`snapshot_limited`] |
//! | a panic instead of a hang, in tests | [`task::strict`](crate::task::strict) |
//! | names in the reports | `named` of the locks; tasks get theirs from their runtime ([`label_tasks`]), as `tasuki-rt` does |
//!
//! # What is found
//!
//! * A *deadlock*: a task that waits for a lock that it took, and cycles of any length, over [`Mutex`](crate::Mutex), [`RwLock`](crate::RwLock) with all its holders, also behind a queued
//!   writer, [`ReentrantMutex`](crate::ReentrantMutex), `LoopMutex` of `tasuki-rt`, and the mutex of a [`Condvar`](crate::Condvar) that was notified.
//! * A *futurelock*: a lock that was granted to a future which its task does not poll, while the same task waits by another future.
//! * A *suspected* deadlock: the same with a [`Semaphore`](crate::Semaphore) all of whose permits are held by tasks of the cycle, for any task may release permits. So are tasks each of which
//!   has a permit and waits for another one, as of a pool that is exhausted.
//!
//! Two cases with semaphores are listed by [`deadlocks`] and not printed: a task that waits for permits all of which it took itself, and tasks that have permits of `acquire_owned` and wait for more of the same
//! semaphore (such permits are often passed to other tasks, which cannot be seen). A cycle that has another lock besides is printed as suspected, also with such permits.
//!
//! # What is not found
//!
//! **Waits that end by themselves.** A wait with a limit of ours (`.timeout`, `.deadline`, `.or_cancelled`) is in no cycle, and neither is a task that has such a wait or a sleep beside the others. (`Duration::MAX` and a default token, which has no source, are no limits.) Once the time has
//! come, or the token is cancelled, and the task does not poll that future (as in the handler of a `select!` in a loop over a pinned sleep), the wait and the task count for cycles again. There are exceptions:
//!
//! * `inspect` does not see that a sleep of tokio has ended, nor that a limit around [`Condvar::wait_while`](crate::Condvar::wait_while) or around a turn of a [`OnceCell`](crate::OnceCell) was reached.
//! * Of several limits, one that is still to come keeps the task out.
//! * A cycle of which every wait has a limit that was reached is listed by [`deadlocks`], and printed only while a task of the program waits for a lock without a limit.
//!
//! **Waits for signals.** A signal ([`Event`](crate::Event), [`Condvar`](crate::Condvar), [`Barrier`](crate::Barrier), [`OnceCell`](crate::OnceCell), channels, and the end of a task of `tasuki-rt`) can be given by any task: it is no part of a cycle, and
//! a task that waits for one beside its locks is in none. Once the signal was given and the task does not poll that future, the task counts for cycles again. (A receiver of a rendezvous channel that a sender has woken still counts as waiting.)
//!
//! **Waits of other crates.** Where a `select!` or `join!` has a branch that waits for a future of another crate, or for a read or a write of a stream of `tasuki-rt`, only the other branches are seen. If those stay in a cycle for a second, it is
//! reported, though that branch may end it.
//!
//! **Several cycles at once.** Of tasks that wait for each other in several cycles one cycle is reported. When that cycle has ended, the next one is reported.
//!
//! # How tasks are known
//!
//! * By their identity ([`task`](crate::task)): under `tasuki-rt`, in spawned tasks of tokio with the feature `tokio`, and inside [`task::identify`](crate::task::identify).
//! * Any other task, and a thread in `.block()`, by the waker with which it polls a wait of this crate; every cycle of it is *suspected*. What it takes outside of such a poll (`try_lock`) has an unknown holder. Its guards
//!   stay in its name when code that is not known uses them. Tasks that an executor polls with one waker seem to be one task. A waker without data, as the no-op waker of `core`, says nothing, and its tasks are not seen.
//! * A task that is polled is not stuck: a cycle is not reported if the runtime says that one of its tasks has been polled meanwhile, or is about to be. If one poll of a task lasts all the time, the cycle is only *suspected*: the task may compute, or
//!   wait inside of that poll. `tasuki-rt` says so of spawned tasks; of the future of `block_on`, and of other runtimes, it is not known.
//!
//! # How holders are known
//!
//! * A guard counts as held by the task that took it until another task uses it, upgrades it or downgrades it. A guard that was sent to another task, and has not been used there, is reported as the taker's. Of one that several tasks share,
//!   the last that used it counts, though it may have let go of it. A guard of a re-entrant mutex that another task uses is not followed: that mutex is then in no cycle.
//! * A future belongs to the task that polled it last.
//! * A holder that is known neither by an identity nor by a waker, of a lock that no task had used before, or as one of several holders, stays unknown, also if a task uses the guard later.

#[cfg(any(debug_assertions, feature = "inspect"))]
mod components;
#[cfg(any(debug_assertions, feature = "inspect"))]
mod cycle_reports;
mod durations;
#[cfg(any(debug_assertions, feature = "inspect"))]
mod gather;
#[cfg(any(debug_assertions, feature = "inspect"))]
mod graph;
#[cfg(any(debug_assertions, feature = "inspect"))]
mod holder_slot;
mod labels;
#[cfg(any(debug_assertions, feature = "inspect"))]
pub(crate) mod locks;
#[cfg(any(debug_assertions, feature = "inspect"))]
mod pool;
// Not under Miri, where each takes a minute; there is no unsafe code in what they test.
#[cfg(all(test, not(miri), any(debug_assertions, feature = "inspect")))]
mod hostile_tests;
#[cfg(all(test, not(miri), any(debug_assertions, feature = "inspect")))]
mod random_programs;
mod report;
#[cfg(feature = "serde")]
mod serialize;
mod snapshot;
#[cfg(any(debug_assertions, feature = "inspect"))]
mod stamp;
#[cfg(all(test, not(miri), any(debug_assertions, feature = "inspect")))]
mod tests;
#[cfg(all(test, any(debug_assertions, feature = "inspect")))]
mod thread_tests;
#[cfg(any(debug_assertions, feature = "inspect"))]
pub(crate) mod waits;
#[cfg(any(debug_assertions, feature = "inspect"))]
mod watch;

pub use durations::Durations;
pub use labels::{LabelTasks, PollState, TaskLabel, label_tasks};
pub use report::{Certainty, Deadlock, Hold, Hop, LockKind};
pub use snapshot::{HolderSnapshot, LockLabel, LockSnapshot, Snapshot, WaitSite, WaitSnapshot};

use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::vec::Vec;

/// Returns the cycles of tasks that wait for each other now. Unlike the reports, this includes cycles that have just closed, and that a foreign `select!` may still end.
///
/// # Examples
///
/// ```
/// assert!(tasuki::inspect::deadlocks().is_empty());
/// ```
pub fn deadlocks() -> Vec<Deadlock> {
    active::deadlocks()
}

/// Returns a snapshot of all locks, with their holders and figures, and of all waits that have not ended. Empty where nothing is noted.
///
/// # Examples
///
/// ```
/// let snapshot = tasuki::inspect::snapshot();
/// for wait in &snapshot.waits {
///     println!("{wait}");
/// }
/// ```
pub fn snapshot() -> Snapshot {
    active::snapshot(usize::MAX)
}

/// As [`snapshot`](snapshot()), but lists at most `limit` locks (those with most waiters), waits (the longest), sites and deadlocks (those that are certain first): for programs with very many. The totals count all of them.
///
/// # Examples
///
/// ```
/// assert!(tasuki::inspect::snapshot_limited(10).waits.len() <= 10);
/// ```
pub fn snapshot_limited(limit: usize) -> Snapshot {
    active::snapshot(limit)
}

/// Returns true if waits and locks are noted in this build.
///
/// # Examples
///
/// ```
/// assert_eq!(tasuki::inspect::is_active(), cfg!(debug_assertions));
/// ```
pub const fn is_active() -> bool {
    cfg!(any(debug_assertions, feature = "inspect"))
}

/// The hook; null if there is none.
static HOOK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static SILENT: AtomicBool = AtomicBool::new(false);

/// Calls `hook` with each deadlock that has stayed for about a second, from a thread of its own. In strict mode ([`task::strict`](crate::task::strict)) also at once, by the thread whose wait closes the cycle, before it panics; but not for a task
/// that is about to wait for a lock which it holds itself, of which the hook of [`task::on_self_deadlock`](crate::task::on_self_deadlock) is told. One hook for the process: the last one counts.
///
/// # Examples
///
/// ```
/// tasuki::inspect::on_deadlock(|deadlock| eprintln!("{deadlock}"));
/// ```
pub fn on_deadlock(hook: fn(&Deadlock)) {
    // Relaxed: a function is there from the beginning, nothing is published with it.
    HOOK.store(hook as *mut (), Ordering::Relaxed);
}

/// Sets whether deadlocks are printed to standard error; they are by default.
///
/// # Examples
///
/// ```
/// tasuki::inspect::print_deadlocks(true);
/// ```
pub fn print_deadlocks(on: bool) {
    // Relaxed: a switch.
    SILENT.store(!on, Ordering::Relaxed);
}

#[cfg(not(any(debug_assertions, feature = "inspect")))]
mod active {
    use super::{Deadlock, Snapshot, Vec};

    pub(super) fn snapshot(_: usize) -> Snapshot {
        Snapshot::default()
    }

    pub(super) const fn deadlocks() -> Vec<Deadlock> {
        Vec::new()
    }
}

#[cfg(any(debug_assertions, feature = "inspect"))]
pub(crate) use active::{AtomicStatic, begin_wait, check_cycle, nanoseconds, queue, waits_have_moved};
#[cfg(any(debug_assertions, feature = "inspect"))]
use active::{SectionGuard, coarse_nanoseconds, hook, locked, prints, try_locked};

/// What `holder_slot.rs` and `stamp.rs` are made of; the model of both has others.
#[cfg(any(debug_assertions, feature = "inspect"))]
mod sync {
    pub(super) use core::hint::spin_loop as spin_hint;
    pub(super) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    /// How often a look reads what changes meanwhile.
    pub(super) const TRIES: usize = 100;
}

#[cfg(any(debug_assertions, feature = "inspect"))]
mod active {
    use super::Certainty;
    use super::locks::LockId;
    use super::{Deadlock, HOOK, Ordering, SILENT, Snapshot, Vec, graph, waits, watch};
    use crate::host_executor;
    use crate::shim::Section;
    use core::ops::{Deref, DerefMut};
    use std::sync::atomic::{AtomicPtr, fence};
    use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

    /// A reference that lives for ever, or none.
    pub(crate) struct AtomicStatic<T: 'static>(AtomicPtr<T>);

    impl<T> AtomicStatic<T> {
        pub(crate) const fn new() -> Self {
            Self(AtomicPtr::new(core::ptr::null_mut()))
        }

        pub(crate) fn set(&self, value: &'static T) {
            // Relaxed: what it refers to is a constant, or a record that a look does not follow from here.
            self.0.store(core::ptr::from_ref(value).cast_mut(), Ordering::Relaxed);
        }

        /// The same, or none.
        pub(crate) fn replace(&self, value: Option<&'static T>) {
            let value = value.map_or(core::ptr::null_mut(), |value| core::ptr::from_ref(value).cast_mut());
            // Relaxed: as in `set`.
            self.0.store(value, Ordering::Relaxed);
        }

        #[inline(always)]
        pub(crate) fn get(&self) -> Option<&'static T> {
            // SAFETY: null, or made by `set` from a reference that is valid for ever. Relaxed: as in `set`.
            unsafe { self.0.load(Ordering::Relaxed).as_ref() }
        }

        /// What [`publish_first`](Self::publish_first) stored.
        #[inline(always)]
        pub(crate) fn get_published(&self) -> Option<&'static T> {
            // SAFETY: null, or made from a reference that is valid for ever. Acquire: pairs with Release in `publish_first`. mutant: survives: no model has the records in statics.
            unsafe { self.0.load(Ordering::Acquire).as_ref() }
        }

        /// Stores the reference if there is none; else the one that is there.
        pub(crate) fn publish_first(&self, value: &'static T) -> Result<(), &'static T> {
            let (none, value) = (core::ptr::null_mut(), core::ptr::from_ref(value).cast_mut());
            // Release: pairs with Acquire in `get_published`: what was written before. Acquire on failure: the same. mutant: survives: as in `get_published`.
            let before = self.0.compare_exchange(none, value, Ordering::Release, Ordering::Acquire);
            // SAFETY: it was not null, so it was made from a reference that is valid for ever.
            before.map(drop).map_err(|first| unsafe { &*first })
        }
    }

    /// A lock of this module, which is held for a few instructions, or by a look that reads a list (`waits/looks.rs`). With the feature `critical-section` no interrupt handler of this core runs meanwhile: it may
    /// release locks, and so take the same.
    pub(super) struct SectionGuard<'a, T> {
        guard: MutexGuard<'a, T>,
        /// After the guard: fields are dropped in this order.
        _section: Section,
    }

    impl<T> Deref for SectionGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.guard
        }
    }

    impl<T> DerefMut for SectionGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.guard
        }
    }

    /// Locks what no panic leaves halfway.
    pub(super) fn locked<T>(mutex: &Mutex<T>) -> SectionGuard<'_, T> {
        let section = Section::enter();
        SectionGuard { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _section: section }
    }

    /// The same, if no other thread has it locked.
    pub(super) fn try_locked<T>(mutex: &Mutex<T>) -> Option<SectionGuard<'_, T>> {
        let section = Section::enter();
        let guard = match mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(SectionGuard { guard, _section: section })
    }

    /// The time, in nanoseconds since a moment that does not change.
    pub(crate) fn nanoseconds() -> u64 {
        host_executor::nanoseconds(false)
    }

    /// The same to some milliseconds, for a fraction of the instructions where the system has such a clock. Never later than [`nanoseconds`].
    pub(super) fn coarse_nanoseconds() -> u64 {
        host_executor::nanoseconds(true)
    }

    pub(super) fn snapshot(limit: usize) -> Snapshot {
        super::gather::snapshot(limit)
    }

    /// How many wait for a lock, and for how long the first of them has.
    pub(crate) fn queue(lock: LockId) -> (usize, core::time::Duration) {
        super::gather::queue(lock)
    }

    pub(super) fn deadlocks() -> Vec<Deadlock> {
        Deadlock::all(&graph::cycles())
    }

    pub(super) fn prints() -> bool {
        // Relaxed: a switch.
        !SILENT.load(Ordering::Relaxed)
    }

    pub(super) fn hook(deadlock: &Deadlock) {
        // Relaxed: as in `on_deadlock`.
        let hook = HOOK.load(Ordering::Relaxed);
        if !hook.is_null() {
            // SAFETY: not null, so it was stored by `on_deadlock`, from a pointer of this type.
            let hook = unsafe { core::mem::transmute::<*mut (), fn(&Deadlock)>(hook) };
            hook(deadlock);
        }
    }

    /// A wait has been enqueued: it is published, and seen by the watcher if it lasts. True if it may close a cycle.
    #[inline]
    pub(crate) fn begin_wait(number: u32) -> bool {
        let is_part = waits::publish(number);
        if is_part {
            watch::need();
        }
        is_part
    }

    /// Waits that had been published may have become waits for a lock: they need the watcher, too.
    pub(crate) fn waits_have_moved() {
        watch::need();
    }

    /// Panics if the task is in a cycle of locks with holders: in strict mode, after its wait was enqueued.
    #[cold]
    pub(crate) fn check_cycle(task: u64) {
        // SeqCst: pairs with the same fence of another task whose wait closes the cycle; see `waits/mod.rs`. mutant: survives: no model has strict mode.
        fence(Ordering::SeqCst);
        let Some(cycle) = graph::cycle_with(task) else { return };
        let Some(deadlock) = Deadlock::new(&cycle) else { return };
        if deadlock.certainty != Certainty::Suspected {
            hook(&deadlock);
            crate::trace::deadlock(&deadlock);
            panic!("{deadlock}");
        }
    }
}
