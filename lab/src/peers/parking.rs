//! parking: its thread parker.

use crate::peer::Park;
use parking::{Parker, Unparker};

/// `parking::Parker`.
pub(crate) struct Parking(Parker);

impl Park for Parking {
    const NAME: &'static str = "parking";
    type Unparker = Unparker;

    fn new() -> Self {
        Parking(Parker::new())
    }

    fn unparker(&self) -> Unparker {
        self.0.unparker()
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
