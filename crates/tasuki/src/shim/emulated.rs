//! Atomics for targets that can load and store but not compare and exchange: each exchange is a critical section.
//!
//! A load or store outside of one is a plain atomic access of the target. That is enough here: a word that a thread stores without an
//! exchange is one that no other thread may exchange at that moment (it holds `EDIT`, or is the owner), so an exchange compares unequal
//! and stores nothing.
//!
//! # Orderings
//! A critical section is Acquire when it begins and Release when it ends. Its load is Acquire and its store Release for the sake of
//! loads and stores outside of one; on the single cores that this is for they cost nothing.

#![allow(dead_code, reason = "which operations are used depends on the features")]

use core::sync::atomic::{self, Ordering};
#[cfg(feature = "critical-section")]
use critical_section::with;

/// So that `lib.rs` alone says that the feature is missing.
#[cfg(not(feature = "critical-section"))]
fn with<R>(f: impl FnOnce(()) -> R) -> R {
    f(())
}

macro_rules! emulated {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[derive(Debug)]
        pub(crate) struct $name $(<$t>)? (atomic::$name $(<$t>)?);

        impl $(<$t>)? $name $(<$t>)? {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            #[inline(always)]
            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                self.0.load(ordering)
            }

            #[inline(always)]
            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, ordering);
            }

            /// The value before, and `update` of it stored, if that is something.
            fn change(&self, update: impl FnOnce($value) -> Option<$value>) -> Result<$value, $value> {
                with(|_| {
                    // Acquire, Release: see the header.
                    let before = self.0.load(Ordering::Acquire);
                    let after = update(before).ok_or(before)?;
                    self.0.store(after, Ordering::Release);
                    Ok(before)
                })
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                _success: Ordering,
                _failure: Ordering,
            ) -> Result<$value, $value> {
                self.change(|before| (before == current).then_some(new))
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            pub(crate) fn swap(&self, value: $value, _ordering: Ordering) -> $value {
                self.change(|_| Some(value)).unwrap_or_else(|before| before)
            }
        }
    };
}

emulated!(AtomicBool, bool);
emulated!(AtomicI8, i8);
emulated!(AtomicU16, u16);
emulated!(AtomicU32, u32);
emulated!(AtomicUsize, usize);
emulated!(AtomicPtr<T>, *mut T);

macro_rules! counting {
    ($name:ident, $value:ty) => {
        impl $name {
            pub(crate) fn fetch_add(&self, by: $value, _ordering: Ordering) -> $value {
                self.change(|before| Some(before.wrapping_add(by))).unwrap_or_else(|before| before)
            }

            pub(crate) fn fetch_sub(&self, by: $value, _ordering: Ordering) -> $value {
                self.change(|before| Some(before.wrapping_sub(by))).unwrap_or_else(|before| before)
            }

            pub(crate) fn fetch_update(
                &self,
                _success: Ordering,
                _failure: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.change(update)
            }
        }
    };
}

counting!(AtomicU32, u32);
counting!(AtomicUsize, usize);
