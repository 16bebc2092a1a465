//! The subjects, one file each, and the lists that name them all.

mod async_lock;
mod asyncband;
mod crossbeam;
mod futures;
mod futures_intrusive;
mod list;
mod maitake;
mod mea;
mod parking;
mod parking_lot;
mod raw;
mod saa;
mod standard;
mod tasuki;
mod tokio;

pub(crate) use list::{
    VisitMutex, VisitPark, VisitSemaphore, each_mutex, each_own_mutex, each_parker, each_semaphore,
};
