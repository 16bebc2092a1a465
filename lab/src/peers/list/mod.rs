//! Lists of everything that is measured, one file a primitive: each calls a visitor with the type of every subject.

mod channel;
mod lock;
mod mutex;
mod parker;
mod runtime;
mod semaphore;
mod signal;

pub(crate) use channel::{
    VisitChannel, VisitOneshot, each_channel, each_oneshot, each_own_channel, each_unbounded,
};
pub(crate) use lock::{VisitCondvar, VisitRwLock, VisitTimer, each_condvar, each_rwlock, each_timer};
pub(crate) use mutex::{VisitMutex, each_mutex, each_own_mutex};
pub(crate) use parker::{VisitPark, each_parker};
pub(crate) use runtime::{VisitNet, VisitRuntime, each_net, each_runtime};
pub(crate) use semaphore::{VisitSemaphore, each_semaphore};
pub(crate) use signal::{
    VisitAuto, VisitBarrier, VisitBroadcast, VisitGroup, VisitStop, each_auto_event, each_barrier,
    each_group, each_group_release, each_manual_event, each_stop, each_token,
};

/// A visitor of subjects of one trait, so that a workload is compiled for each.
macro_rules! visitor {
    ($(#[$doc:meta])* $visit:ident: $bound:ident) => {
        $(#[$doc])*
        pub(crate) trait $visit {
            /// One subject.
            fn visit<S: $bound>(&mut self);
        }
    };
}
use visitor;

/// The function that names subjects to a visitor.
macro_rules! list {
    ($(#[$doc:meta])* $each:ident: $visit:ident; $($subject:ty,)+) => {
        $(#[$doc])*
        pub(crate) fn $each(visit: &mut impl $visit) {
            $(visit.visit::<$subject>();)+
        }
    };
}
use list;
