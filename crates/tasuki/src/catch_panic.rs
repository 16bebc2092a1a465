//! Catching panics of foreign code (wakers, drivers), for callers that must go on, or go on first and unwind later.
//!
//! [`catch`] gives the payload to a caller that resumes the panic later (`queue/batch.rs`); [`caught`] ends the panic here, and the panic hook alone has reported it.
//! A payload is foreign, too: its drop may panic, with another payload to drop. [`discard`] drops it without panicking.

use alloc::boxed::Box;
use core::any::Any;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// So many payloads are dropped, each the panic of the drop before; the next one is leaked.
const PATIENCE: usize = 4;

/// What a panic carries. The owner resumes it or calls [`discard`]; a plain drop may panic.
pub(crate) type PanicPayload = Box<dyn Any + Send>;

/// Runs `f`; what its panic carried, if it panicked.
#[inline]
pub(crate) fn catch<R>(f: impl FnOnce() -> R) -> Result<R, PanicPayload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Runs `f`; `None` if it panicked.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    catch(f).map_err(discard).ok()
}

/// Drops what a panic carried. Never panics.
pub(crate) fn discard(mut payload: PanicPayload) {
    for _ in 0..PATIENCE {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    core::mem::forget(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::panic::panic_any;
    use std::rc::Rc;

    /// Panics with another of its kind when it is dropped, so many times.
    struct Bomb(usize, Rc<Cell<usize>>);

    // SAFETY: this test has one thread.
    unsafe impl Send for Bomb {}

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
            if self.0 > 0 {
                panic_any(Self(self.0 - 1, self.1.clone()));
            }
        }
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped() {
        assert_eq!(caught(|| 1), Some(1));
        // The last one leaks, as it must: Miri would mind.
        for (bombs, dropped) in
            [(0, 1), (1, 2), (3, 4), (9, PATIENCE)].into_iter().take(3 + usize::from(!cfg!(miri)))
        {
            let drops = Rc::new(Cell::new(0));
            assert_eq!(caught(|| panic_any(Bomb(bombs, drops.clone()))), None::<()>);
            assert_eq!(drops.get(), dropped);
        }
    }
}
