//! Two sides of a race, on two threads.
//!
//! The model checker lets the main thread run first and then looks for accesses to swap. It remembers only the last access
//! to each atomic, so a thread that loads before it writes hides its write from what the other has loaded before. That
//! is why each race is run in both arrangements: what is hidden in one is seen in the other.

use crate::support::{join, model, spawn};

/// Which side gets the main thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versus {
    left_is_main: bool,
}

impl Versus {
    /// Runs the two sides against each other; what they return can be checked after that.
    pub(crate) fn run<L: 'static, R: 'static>(
        self,
        left: impl FnOnce() -> L + 'static,
        right: impl FnOnce() -> R + 'static,
    ) -> (L, R) {
        if self.left_is_main {
            let right = spawn(right);
            let left = left();
            (left, join([right]).remove(0))
        } else {
            let left = spawn(left);
            let right = right();
            (join([left]).remove(0), right)
        }
    }
}

/// Runs a scenario in both arrangements. It calls [`Versus::run`] once.
pub(crate) fn race<T: 'static>(object: fn() -> T, scenario: fn(&'static T, Versus)) {
    for left_is_main in [true, false] {
        model(object, move |site| scenario(site, Versus { left_is_main }));
    }
}
