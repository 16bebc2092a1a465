//! Lists every thread parker that is measured.

use super::super::{crossbeam, parking, standard, tasuki};
use crate::peer::Park;

/// Visits every parker with its own type.
pub(crate) trait VisitPark {
    /// One parker.
    fn visit<P: Park>(&mut self);
}

/// Names every parker the lab knows.
pub(crate) fn each_parker(visit: &mut impl VisitPark) {
    visit.visit::<tasuki::TasukiParker>();
    visit.visit::<standard::StdThread>();
    visit.visit::<crossbeam::Crossbeam>();
    visit.visit::<parking::Parking>();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token left before parking is found.
    struct Token;

    impl VisitPark for Token {
        fn visit<P: Park>(&mut self) {
            let parker = P::new();
            let unparker = parker.unparker();
            P::unpark(&unparker);
            parker.park();
        }
    }

    #[test]
    fn every_parker_keeps_a_token() {
        each_parker(&mut Token);
    }
}
