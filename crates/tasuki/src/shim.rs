//! What the model checker replaces: atomics, tracked cells and allocations, critical sections, the identity of the code, hints, yields, the sleep of a thread, and `const` constructors.
//!
//! This is the only file of the crate that knows `cfg(tasuki_loom)`. Everything else imports from here. With `cfg(tasuki_counts)` the real
//! atomics record what is done to them (`counted.rs`).

/// True when the crate is built for the model checker.
pub(crate) const MODEL: bool = cfg!(tasuki_loom);

#[cfg(not(tasuki_loom))]
pub(crate) use real::*;

#[cfg(not(tasuki_loom))]
mod real {
    #[cfg(tasuki_counts)]
    pub(crate) use super::counted::{
        AtomicBool, AtomicI8, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Sleeper,
    };
    #[cfg(not(target_has_atomic = "ptr"))]
    pub(crate) use super::emulated::{AtomicBool, AtomicI8, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize};
    #[cfg(all(feature = "std", not(tasuki_counts)))]
    pub(crate) use crate::parker::sleep::Sleeper;
    #[cfg(all(feature = "std", not(tasuki_counts)))]
    pub(crate) use core::sync::atomic::AtomicU64;
    pub(crate) use core::sync::atomic::Ordering;
    #[cfg(all(target_has_atomic = "ptr", not(tasuki_counts)))]
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicI8, AtomicPtr, AtomicU16, AtomicU32, AtomicUsize};

    /// Held for as long as a queue is locked, a countdown goes down, the table of unclaimed grants is used or cleared (`mutex/raw/overdue.rs`), or `inspect/` has one of its locks or takes a record of its thread. With the feature `critical-section` no interrupt handler of this core runs meanwhile, so
    /// that none can meet what only the code it interrupted can end. Without it, nothing.
    #[cfg(feature = "critical-section")]
    #[derive(Debug)]
    pub(crate) struct Section(critical_section::RestoreState);

    #[cfg(feature = "critical-section")]
    impl Section {
        #[inline(always)]
        pub(crate) fn enter() -> Self {
            // SAFETY: released once, by the drop, on the same thread: a section is in a `LockedQueue`, which is not `Send`, or in a local
            // variable of `countdown.rs`, `mutex/raw/overdue.rs` or `inspect/`. Sections nest: a queue that is locked while another is locked is unlocked before it, or has the section
            // around both (`overdue.rs`); an outer section that goes into a `LockedQueue` ends the inner one first (`LockedQueue::extend_section`).
            Self(unsafe { critical_section::acquire() })
        }
    }

    #[cfg(feature = "critical-section")]
    impl Drop for Section {
        #[inline(always)]
        fn drop(&mut self) {
            // SAFETY: what `acquire` gave, once.
            unsafe { critical_section::release(self.0) };
        }
    }

    #[cfg(not(feature = "critical-section"))]
    pub(crate) use super::NoSection as Section;

    /// A cell whose accesses the model checker can see; here it is `core`'s.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        /// A read: no write may happen at the same time.
        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// A write: no other access may happen at the same time.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// An allocation that the model checker counts; here it is nothing.
    #[cfg(feature = "alloc")]
    #[derive(Debug)]
    pub(crate) struct Tracked;

    #[cfg(feature = "alloc")]
    impl Tracked {
        pub(crate) fn new() -> Self {
            Self
        }
    }

    /// One number per thread, 0 at first: the identity of the task that runs on it.
    #[cfg(feature = "std")]
    pub(crate) mod identity {
        use core::cell::Cell;

        std::thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }

        pub(crate) fn get() -> u64 {
            NUMBER.try_with(Cell::get).unwrap_or(0)
        }

        pub(crate) fn replace(number: u64) -> u64 {
            NUMBER.try_with(|before| before.replace(number)).unwrap_or(0)
        }
    }

    /// A flag that may be wrong at any time.
    pub(crate) use AtomicBool as AtomicHint;

    /// A number that may be outdated at any time.
    pub(crate) use AtomicU32 as AtomicGauge;

    /// A number that may be wrong at any time.
    pub(crate) use AtomicU16 as AtomicCountHint;

    /// An answer that may be wrong at any time; here it is the one that was stored.
    #[inline(always)]
    pub(crate) fn hint(stored: impl FnOnce() -> bool) -> bool {
        stored()
    }

    /// One step of a bounded busy wait.
    #[inline(always)]
    pub(crate) fn spin_hint() {
        core::hint::spin_loop();
    }

    /// Lets another thread run; without `std` there is no thread to yield to.
    #[inline]
    pub(crate) fn yield_thread() {
        #[cfg(feature = "std")]
        std::thread::yield_now();
        #[cfg(not(feature = "std"))]
        core::hint::spin_loop();
    }
}

#[cfg(tasuki_counts)]
pub(crate) mod counted;

/// Nothing is held.
#[cfg(any(tasuki_loom, not(feature = "critical-section")))]
#[derive(Debug)]
pub(crate) struct NoSection;

#[cfg(any(tasuki_loom, not(feature = "critical-section")))]
impl NoSection {
    #[inline(always)]
    pub(crate) fn enter() -> Self {
        Self
    }
}

#[cfg(all(not(tasuki_loom), not(target_has_atomic = "ptr")))]
mod emulated;

#[cfg(tasuki_loom)]
mod dependent;

#[cfg(tasuki_loom)]
pub(crate) use model::*;

#[cfg(tasuki_loom)]
mod model {
    pub(crate) use super::NoSection as Section;
    pub(crate) use super::dependent::{AtomicBool, AtomicI8, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::Ordering;

    /// Fails the model if it is not dropped before the end.
    #[derive(Debug)]
    pub(crate) struct Tracked {
        _allocation: loom::alloc::Track<()>,
    }

    impl Tracked {
        pub(crate) fn new() -> Self {
            Self { _allocation: loom::alloc::Track::new(()) }
        }
    }

    /// Loom's threads share one thread of the system, so they need loom's own variables.
    pub(crate) mod identity {
        use core::cell::Cell;

        loom::thread_local! {
            static NUMBER: Cell<u64> = Cell::new(0);
        }

        pub(crate) fn get() -> u64 {
            NUMBER.with(Cell::get)
        }

        pub(crate) fn replace(number: u64) -> u64 {
            NUMBER.with(|before| before.replace(number))
        }
    }

    /// A flag that may be wrong at any time. The model does not see it, or every access would be a branch: models of hints
    /// choose the answers, all others take what was stored.
    pub(crate) use std::sync::atomic::AtomicBool as AtomicHint;

    /// A number that may be outdated at any time; as above.
    pub(crate) use std::sync::atomic::AtomicU32 as AtomicGauge;

    /// A number that may be wrong at any time; the model does not see it either.
    pub(crate) use std::sync::atomic::AtomicU16 as AtomicCountHint;

    /// An answer that may be wrong at any time.
    pub(crate) fn hint(stored: impl FnOnce() -> bool) -> bool {
        super::hints::answer().unwrap_or_else(stored)
    }

    pub(crate) fn spin_hint() {
        loom::thread::yield_now();
    }

    pub(crate) fn yield_thread() {
        loom::thread::yield_now();
    }

    /// The futex, as the model sees it. The kernel checks the newest value, and orders nothing for user
    /// space: so the check is a relaxed read-modify-write, and the sleep is a flag that the model does not
    /// see. Between the check and the flag there is no point at which the model switches threads.
    #[derive(Debug)]
    pub(crate) struct Sleeper {
        asleep: std::sync::atomic::AtomicBool,
    }

    impl Sleeper {
        pub(crate) fn new() -> Self {
            Self { asleep: std::sync::atomic::AtomicBool::new(false) }
        }

        /// With a deadline it returns at once, as for no reason: the model has no clock.
        pub(crate) fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<std::time::Instant>) {
            if deadline.is_some() || word.fetch_add(0, Ordering::Relaxed) != expected {
                return loom::thread::yield_now();
            }
            self.asleep.store(true, Ordering::Relaxed);
            while self.asleep.load(Ordering::Relaxed) {
                loom::thread::yield_now();
            }
        }

        pub(crate) fn wake(&self, _word: &AtomicU32) {
            self.asleep.store(false, Ordering::Relaxed);
        }
    }
}

/// Hints with answers that the model chooses.
#[cfg(tasuki_loom)]
pub mod hints {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// The answers to come, the next in the lowest bit, and how many.
    static ANSWERS: Mutex<Option<(u32, u32)>> = Mutex::new(None);

    fn lock_answers() -> MutexGuard<'static, Option<(u32, u32)>> {
        ANSWERS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next hints of this execution answer by the bits of `answers`, over and over; `of` is how many there are. Called at its beginning.
    pub fn shuffle(answers: u32, of: u32) {
        *lock_answers() = Some((answers, of));
    }

    /// From now on hints answer as they were stored.
    pub fn restore() {
        *lock_answers() = None;
    }

    pub(super) fn answer() -> Option<bool> {
        let mut answers = lock_answers();
        let (bits, of) = answers.as_mut()?;
        let answer = *bits & 1;
        *bits = *bits >> 1 | answer << (*of - 1);
        Some(answer == 1)
    }
}

/// Items that exist in the model only.
#[cfg(tasuki_loom)]
macro_rules! in_model {
    ($($item:item)*) => { $($item)* };
}

#[cfg(not(tasuki_loom))]
macro_rules! in_model {
    ($($item:item)*) => {};
}

pub(crate) use in_model;

/// `const fn` outside the model, `fn` inside it: loom's constructors are not `const`.
#[cfg(not(tasuki_loom))]
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        $(#[$meta])* $vis const fn $($rest)*
    };
}

#[cfg(tasuki_loom)]
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        $(#[$meta])* $vis fn $($rest)*
    };
}

pub(crate) use const_fn;

/// An array of the process, or of one execution of a model, each element made by `$init`.
#[cfg(all(feature = "std", not(tasuki_loom)))]
macro_rules! static_array {
    ($(#[$meta:meta])* static $name:ident: [$type:ty; $len:expr] = $init:expr;) => {
        $(#[$meta])* static $name: [$type; $len] = [const { $init }; $len];
    };
}

#[cfg(tasuki_loom)]
macro_rules! static_array {
    ($(#[$meta:meta])* static $name:ident: [$type:ty; $len:expr] = $init:expr;) => {
        loom::lazy_static! { $(#[$meta])* static ref $name: [$type; $len] = core::array::from_fn(|_| $init); }
    };
}

#[cfg(feature = "std")]
pub(crate) use static_array;
