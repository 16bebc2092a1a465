//! The lists that name every subject, one file a primitive.

mod mutex;
mod parker;
mod semaphore;

pub(crate) use mutex::{VisitMutex, each_mutex, each_own_mutex};
pub(crate) use parker::{VisitPark, each_parker};
pub(crate) use semaphore::{VisitSemaphore, each_semaphore};

/// A visitor of subjects of one trait, so that a workload is compiled for each, and the list of them.
macro_rules! list {
    ($(#[$trait_doc:meta])* $visit:ident: $bound:ident; $(#[$each_doc:meta])* $each:ident: $($subject:ty,)+) => {
        $(#[$trait_doc])*
        pub(crate) trait $visit {
            /// One subject.
            fn visit<S: $bound>(&mut self);
        }

        $(#[$each_doc])*
        pub(crate) fn $each(visit: &mut impl $visit) {
            $(visit.visit::<$subject>();)+
        }
    };
}
use list;
