//! Checks that exist only with debug assertions; zero-sized and empty otherwise.
//!
//! The one check so far: **no foreign code under the queue lock**. Editing a queue raises a
//! per-thread depth; every call into a `Waker` asserts that the depth is zero.

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
