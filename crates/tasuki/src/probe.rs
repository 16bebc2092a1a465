//! Checks that exist only with debug assertions; zero-sized and empty otherwise.
//!
//! * **No foreign code under the queue lock.** Locking a queue raises a per-thread depth; every call into a
//!   `Waker` asserts that the depth is zero.
//! * **Self-deadlock.** A lock knows which task holds it, and where that took it; a task that is about to wait for a lock that
//!   it holds is reported ([`task::on_self_deadlock`](crate::task::on_self_deadlock)). The note is in the lock itself and goes with
//!   it, so a leaked guard is nothing to another lock at the same address, and locks do not meet. A lock with one holder has an
//!   [`Owner`]; one that is shared has [`Holders`], and each of its guards knows in whose name it is ([`Held`]), for guards can
//!   be sent and dropped by another task. Only tasks with an identity are noted, so nothing happens, and nothing is allocated, for
//!   all others.
//!
//! A probe changes nothing: a driver that panics when it is asked here has no task, as where there is no probe.

#[cfg(all(debug_assertions, feature = "std"))]
mod depth {
    use core::cell::Cell;

    std::thread_local! {
        static LOCKED_QUEUES: Cell<u32> = const { Cell::new(0) };
    }

    // Under the model all threads share one OS thread, so a per-thread depth means nothing.
    pub(crate) fn queue_locked() {
        if !crate::shim::MODEL {
            let _ = LOCKED_QUEUES.try_with(|depth| depth.set(depth.get() + 1));
        }
    }

    pub(crate) fn queue_unlocked() {
        if !crate::shim::MODEL {
            let _ = LOCKED_QUEUES.try_with(|depth| depth.set(depth.get() - 1));
        }
    }

    #[track_caller]
    pub(crate) fn foreign_code() {
        let depth = LOCKED_QUEUES.try_with(Cell::get).unwrap_or(0);
        assert_eq!(depth, 0, "foreign code must not run while a wait queue is being edited");
    }
}

#[cfg(not(all(debug_assertions, feature = "std")))]
mod depth {
    #[inline(always)]
    pub(crate) fn queue_locked() {}
    #[inline(always)]
    pub(crate) fn queue_unlocked() {}
    #[inline(always)]
    pub(crate) fn foreign_code() {}
}

pub(crate) use depth::{foreign_code, queue_locked, queue_unlocked};

#[cfg(all(debug_assertions, feature = "std"))]
mod holders {
    use crate::catch_panic::caught;
    use crate::runtime::LockEvent;
    use crate::shim::MODEL;
    use crate::task::{self, SelfDeadlock, TaskId};
    use core::cell::Cell;
    use core::fmt;
    use core::panic::Location;
    use core::ptr;
    use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
    use std::collections::BTreeMap;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Where in the user's code a lock was asked for.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Site(&'static Location<'static>);

    impl Site {
        #[track_caller]
        pub(crate) fn here() -> Self {
            Self(Location::caller())
        }
    }

    fn me() -> Option<TaskId> {
        if MODEL { None } else { caught(task::current).flatten() }
    }

    /// Tells the driver what becomes of a lock.
    fn tell<L>(lock: &L, event: LockEvent) {
        if !MODEL {
            caught(|| crate::runtime::lock_event((&raw const *lock).addr(), event));
        }
    }

    /// A wait of the running task has been enqueued.
    pub(crate) fn queued(name: &'static str) {
        if !MODEL {
            caught(|| crate::runtime::queued(name));
        }
    }

    std::thread_local! {
        /// How many limits there are around the poll that runs.
        static LIMITS: Cell<u32> = const { Cell::new(0) };
    }

    /// Runs a poll that a limit ends, if nothing else does.
    #[cfg_attr(not(feature = "alloc"), expect(dead_code, reason = "there is no limit"))]
    pub(crate) fn limited<R>(poll: impl FnOnce() -> R) -> R {
        struct Less;
        impl Drop for Less {
            fn drop(&mut self) {
                let _ = LIMITS.try_with(|limits| limits.set(limits.get().wrapping_sub(1)));
            }
        }
        let _ = LIMITS.try_with(|limits| limits.set(limits.get().wrapping_add(1)));
        let _less = Less;
        poll()
    }

    /// A task is about to wait for a lock that it holds.
    fn report(me: TaskId, held_at: &'static Location<'static>, wanted_at: Site) {
        let is_limited = LIMITS.try_with(Cell::get).unwrap_or(0) > 0;
        task::report(&SelfDeadlock::new(me, held_at, wanted_at.0, is_limited));
    }

    /// No task.
    const NONE: u64 = 0;

    /// The one task that holds a lock, if it has an identity. Written by the holder only; all Relaxed: a task looks for what it wrote
    /// itself, and for all others this is a hint.
    #[derive(Debug)]
    pub(crate) struct Owner {
        task: AtomicU64,
        at: AtomicPtr<Location<'static>>,
    }

    impl Owner {
        pub(crate) const fn new() -> Self {
            Self { task: AtomicU64::new(NONE), at: AtomicPtr::new(ptr::null_mut()) }
        }

        /// The running task has got the lock.
        pub(crate) fn set(&self, at: Site) {
            if let Some(me) = me() {
                self.at.store(ptr::from_ref(at.0).cast_mut(), Ordering::Relaxed);
                self.task.store(me.get(), Ordering::Relaxed);
                tell(self, LockEvent::Acquired(me, at.0));
            }
        }

        /// The lock is about to be released.
        pub(crate) fn clear(&self) {
            if self.task.load(Ordering::Relaxed) != NONE {
                self.task.store(NONE, Ordering::Relaxed);
                tell(self, LockEvent::Released);
            }
        }

        /// The running task is about to wait for the lock; reported if it holds it.
        pub(crate) fn check(&self, wanted_at: Site) {
            tell(self, LockEvent::Waits(wanted_at.0));
            if self.task.load(Ordering::Relaxed) == NONE {
                return;
            }
            let Some(me) = me() else { return };
            // A read-modify-write sees the newest value: what this task wrote is not there any more if another task, to which
            // it sent the guard, has released the lock since.
            if self.task.fetch_or(NONE, Ordering::Relaxed) == me.get() {
                if let Some(held_at) = self.at() {
                    report(me, held_at, wanted_at);
                }
            }
        }

        fn at(&self) -> Option<&'static Location<'static>> {
            // SAFETY: null, or made by `set` from a reference that is valid for ever.
            unsafe { self.at.load(Ordering::Relaxed).as_ref() }
        }

        /// Shows which task holds the lock.
        pub(crate) fn shown(&self) -> impl fmt::Debug + use<> {
            let task = self.task.load(Ordering::Relaxed);
            Shown((task != NONE).then_some(task).zip(self.at()))
        }
    }

    /// The tasks that hold a lock that can be shared, as far as they have an identity.
    #[derive(Debug)]
    pub(crate) struct Holders(Mutex<BTreeMap<TaskId, Guards>>);

    /// How a task holds a lock.
    #[derive(Debug)]
    struct Guards {
        count: usize,
        /// Where it took the first of them.
        at: Site,
    }

    /// In whose name a guard is; it says so when it is dropped, wherever that is.
    #[derive(Clone, Copy, Debug)]
    #[must_use = "the guard must keep it"]
    pub(crate) struct Held(Option<TaskId>);

    impl Holders {
        pub(crate) const fn new() -> Self {
            Self(Mutex::new(BTreeMap::new()))
        }

        fn tasks(&self) -> MutexGuard<'_, BTreeMap<TaskId, Guards>> {
            // Nothing in here panics halfway.
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// The running task has got the lock.
        pub(crate) fn add(&self, at: Site) -> Held {
            let me = me();
            if let Some(me) = me {
                self.tasks().entry(me).or_insert(Guards { count: 0, at }).count += 1;
                tell(self, LockEvent::Acquired(me, at.0));
            }
            Held(me)
        }

        /// A guard is about to release the lock.
        pub(crate) fn remove(&self, held: Held) {
            let Some(task) = held.0 else { return };
            tell(self, LockEvent::Released);
            let mut tasks = self.tasks();
            if let Some(guards) = tasks.get_mut(&task) {
                guards.count -= 1;
                if guards.count == 0 {
                    tasks.remove(&task);
                }
            }
        }

        /// The running task is about to wait for the lock; reported if it holds it.
        pub(crate) fn check(&self, wanted_at: Site) {
            tell(self, LockEvent::Waits(wanted_at.0));
            let Some(me) = me() else { return };
            let held = self.tasks().get(&me).map(|guards| guards.at);
            // Without the list: the hook is foreign.
            if let Some(held_at) = held {
                report(me, held_at.0, wanted_at);
            }
        }

        /// Shows which task holds the lock, or one of those that do.
        pub(crate) fn shown(&self) -> impl fmt::Debug + use<> {
            Shown(self.tasks().iter().next().map(|(task, guards)| (task.get(), guards.at.0)))
        }
    }

    /// A task that holds a lock, and where it took it.
    struct Shown(Option<(u64, &'static Location<'static>)>);

    impl fmt::Debug for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0 {
                Some((task, at)) => write!(f, "<locked by task {task} at {at}>"),
                None => f.write_str("<locked>"),
            }
        }
    }
}

#[cfg(not(all(debug_assertions, feature = "std")))]
mod holders {
    use core::fmt;

    #[inline(always)]
    pub(crate) fn queued(_name: &'static str) {}

    #[cfg_attr(not(feature = "alloc"), expect(dead_code, reason = "there is no limit"))]
    #[inline(always)]
    pub(crate) fn limited<R>(poll: impl FnOnce() -> R) -> R {
        poll()
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Site;

    impl Site {
        #[inline(always)]
        pub(crate) fn here() -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub(crate) struct Owner;

    impl Owner {
        pub(crate) const fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn set(&self, _at: Site) {}
        #[inline(always)]
        pub(crate) fn clear(&self) {}
        #[inline(always)]
        pub(crate) fn check(&self, _wanted_at: Site) {}

        pub(crate) fn shown(&self) -> impl fmt::Debug + use<> {
            format_args!("<locked>")
        }
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Held;

    #[derive(Debug)]
    pub(crate) struct Holders;

    impl Holders {
        pub(crate) const fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn add(&self, _at: Site) -> Held {
            Held
        }

        #[inline(always)]
        pub(crate) fn remove(&self, _held: Held) {}
        #[inline(always)]
        pub(crate) fn check(&self, _wanted_at: Site) {}

        pub(crate) fn shown(&self) -> impl fmt::Debug + use<> {
            format_args!("<locked>")
        }
    }
}

#[cfg(feature = "alloc")]
pub(crate) use holders::limited;
pub(crate) use holders::{Held, Holders, Owner, Site, queued};
