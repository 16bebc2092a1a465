//! crossbeam: its thread parker.

use crate::peer::Park;
use crossbeam_utils::sync::{Parker, Unparker};

/// `crossbeam_utils::sync::Parker`.
pub(crate) struct Crossbeam(Parker);

impl Park for Crossbeam {
    const NAME: &'static str = "crossbeam";
    type Unparker = Unparker;

    fn new() -> Self {
        Crossbeam(Parker::new())
    }

    fn unparker(&self) -> Unparker {
        self.0.unparker().clone()
    }

    #[inline]
    fn park(&self) {
        self.0.park();
    }

    #[inline]
    fn unpark(unparker: &Unparker) {
        unparker.unpark();
    }
}
