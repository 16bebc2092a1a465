//! What the model checker replaces: atomics, locks, fences and cells; and a wait until a deadline that is made of them. Files that the models include import them from here. The only file of the crate that knows `cfg(tasuki_loom)`.

use std::sync::PoisonError;
use std::time::Instant;

#[cfg(not(tasuki_loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// The primitives' own: why, is said there.
#[cfg(tasuki_loom)]
#[path = "../../tasuki/src/shim/dependent.rs"]
#[allow(dead_code, reason = "it has every width")]
mod dependent;

#[cfg(tasuki_loom)]
pub(crate) use dependent::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(tasuki_loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{Ordering, fence},
    },
};

/// Waits for a notification, and may return without one; `None` when the time is over. Without a deadline it never is.
pub(crate) fn wait_until<'m, T>(
    condvar: &Condvar,
    guard: MutexGuard<'m, T>,
    deadline: Option<Instant>,
) -> Option<MutexGuard<'m, T>> {
    let Some(deadline) = deadline else {
        return Some(condvar.wait(guard).unwrap_or_else(PoisonError::into_inner));
    };
    let left = deadline.saturating_duration_since(Instant::now());
    (!left.is_zero()).then(|| condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0)
}

/// A cell whose accesses the model checker can see; here it is `std`'s.
#[cfg(not(tasuki_loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(tasuki_loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
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

/// Asks the processor to fetch the cell at this address, two cache lines, which is read soon. Nothing where the processor cannot be asked.
#[inline(always)]
pub(crate) fn prefetch(cell: std::ptr::NonNull<()>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = cell.as_ptr().cast::<i8>().cast_const();
        // SAFETY: a hint about an address; nothing is read, whatever is there.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(64)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = cell;
}
