//! The workloads: what a subject is made to do, and the check that it did it.
//!
//! Each workload is generic over its subject and builds a [`Group`](crate::measure::Group); the
//! harness does the rest.

pub(crate) mod cancel;
pub(crate) mod contended;
pub(crate) mod gate;
pub(crate) mod handoff;
pub(crate) mod minimal;
pub(crate) mod parker;
pub(crate) mod section;
pub(crate) mod semaphore;
pub(crate) mod sizes;
pub(crate) mod stage;
pub(crate) mod uncontended;

use crate::measure::Bench;

/// Every workload of the mutex.
pub(crate) fn mutex(bench: &mut Bench) {
    sizes::run(bench);
    uncontended::run(bench);
    handoff::run(bench);
    cancel::run(bench);
    contended::run(bench);
}

/// Every workload of the parker.
pub(crate) fn parker(bench: &mut Bench) {
    parker::run(bench);
}

/// Every workload of the semaphore.
pub(crate) fn semaphore(bench: &mut Bench) {
    semaphore::run(bench);
}
