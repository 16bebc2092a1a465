//! Checks that exist only with debug assertions; zero-sized and empty otherwise.
//!
//! * **No foreign code under the queue lock.** Editing a queue raises a per-thread depth; every call into a
//!   `Waker` asserts that the depth is zero.
//! * **Self-deadlock.** Which task holds which lock, and where it took it, is written down while it is held; a task that
//!   is about to wait for a lock that it holds is reported ([`task::on_self_deadlock`](crate::task::on_self_deadlock)). Only tasks
//!   with an identity are written down, so nothing happens, and nothing is allocated, for all others.

#[cfg(all(debug_assertions, feature = "std"))]
mod depth {
    use core::cell::Cell;

    std::thread_local! {
        static EDITS: Cell<u32> = const { Cell::new(0) };
    }

    // Under the model all threads share one OS thread, so a per-thread depth means nothing.
    pub(crate) fn edit_begins() {
        if !crate::shim::MODEL {
            let _ = EDITS.try_with(|edits| edits.set(edits.get() + 1));
        }
    }

    pub(crate) fn edit_ends() {
        if !crate::shim::MODEL {
            let _ = EDITS.try_with(|edits| edits.set(edits.get() - 1));
        }
    }

    #[track_caller]
    pub(crate) fn foreign_code() {
        let depth = EDITS.try_with(Cell::get).unwrap_or(0);
        assert_eq!(depth, 0, "foreign code must not run while a wait queue is being edited");
    }
}

#[cfg(not(all(debug_assertions, feature = "std")))]
mod depth {
    #[inline(always)]
    pub(crate) fn edit_begins() {}
    #[inline(always)]
    pub(crate) fn edit_ends() {}
    #[inline(always)]
    pub(crate) fn foreign_code() {}
}

pub(crate) use depth::{edit_begins, edit_ends, foreign_code};

#[cfg(all(debug_assertions, feature = "std"))]
mod holders {
    use crate::shim::MODEL;
    use crate::task::{self, SelfDeadlock, TaskId};
    use core::fmt;
    use core::panic::Location;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::vec::Vec;

    /// Where in the user's code a lock was asked for.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Site(&'static Location<'static>);

    impl Site {
        #[track_caller]
        pub(crate) fn here() -> Self {
            Self(Location::caller())
        }
    }

    /// A lock, by its address, in the hands of a task.
    #[derive(Clone, Copy)]
    struct Held {
        lock: usize,
        task: TaskId,
        at: Site,
    }

    static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());
    /// How many are in the list, so that those who are not need not look. Relaxed: a task finds what it wrote itself.
    static COUNT: AtomicUsize = AtomicUsize::new(0);

    fn with_list<R>(f: impl FnOnce(&mut Vec<Held>) -> R) -> R {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut held);
        COUNT.store(held.len(), Ordering::Relaxed);
        result
    }

    /// The running task has got a lock.
    pub(crate) fn acquired<L>(lock: &L, at: Site) {
        if let Some(task) = task::current().filter(|_| !MODEL) {
            let lock = (&raw const *lock).addr();
            with_list(|held| held.push(Held { lock, task, at }));
        }
    }

    /// Somebody gives a lock up: this task's entry, or else any, for guards may be sent.
    pub(crate) fn released<L>(lock: &L) {
        if COUNT.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (lock, me) = ((&raw const *lock).addr(), task::current());
        with_list(|held| {
            let mine = held.iter().rposition(|entry| entry.lock == lock && Some(entry.task) == me);
            let any = || held.iter().rposition(|entry| entry.lock == lock);
            if let Some(index) = mine.or_else(any) {
                held.swap_remove(index);
            }
        });
    }

    /// The running task is about to wait for a lock; reported if it holds it.
    pub(crate) fn will_wait<L>(lock: &L, wanted_at: Site) {
        if COUNT.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (lock, Some(me)) = ((&raw const *lock).addr(), task::current()) else { return };
        let held =
            with_list(|held| held.iter().find(|entry| entry.lock == lock && entry.task == me).copied());
        if let Some(held) = held {
            task::report(&SelfDeadlock::new(me, held.at.0, wanted_at.0));
        }
    }

    /// Shows who holds a lock.
    pub(crate) fn holder<L>(lock: &L) -> impl fmt::Debug {
        struct Holder(Option<Held>);
        impl fmt::Debug for Holder {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    Some(held) => write!(f, "<locked by {} at {}>", held.task, held.at.0),
                    None => f.write_str("<locked>"),
                }
            }
        }
        let lock = (&raw const *lock).addr();
        Holder(with_list(|held| held.iter().find(|entry| entry.lock == lock).copied()))
    }
}

#[cfg(not(all(debug_assertions, feature = "std")))]
mod holders {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Site;

    impl Site {
        #[inline(always)]
        pub(crate) fn here() -> Self {
            Self
        }
    }

    #[inline(always)]
    pub(crate) fn acquired<L>(_lock: &L, _at: Site) {}
    #[inline(always)]
    pub(crate) fn released<L>(_lock: &L) {}
    #[inline(always)]
    pub(crate) fn will_wait<L>(_lock: &L, _wanted_at: Site) {}

    pub(crate) fn holder<L>(_lock: &L) -> impl core::fmt::Debug {
        format_args!("<locked>")
    }
}

pub(crate) use holders::{Site, acquired, holder, released, will_wait};
