//! The workloads: what a subject is made to do, and the check that it did it.
//!
//! Each workload is generic over its subject and builds a [`Group`](crate::measure::Group); the
//! harness does the rest.

pub(crate) mod barrier;
pub(crate) mod cancel;
pub(crate) mod condvar;
pub(crate) mod contended;
pub(crate) mod event;
pub(crate) mod gate;
pub(crate) mod group;
pub(crate) mod handoff;
pub(crate) mod minimal;
pub(crate) mod parker;
pub(crate) mod release;
pub(crate) mod runtime;
pub(crate) mod rwlock;
pub(crate) mod section;
pub(crate) mod semaphore;
pub(crate) mod sizes;
pub(crate) mod stage;
pub(crate) mod tally;
pub(crate) mod time;
pub(crate) mod token;
pub(crate) mod uncontended;
pub(crate) mod unlink;

use crate::measure::Bench;

/// Every workload of the mutex.
fn mutex(bench: &mut Bench) {
    sizes::run(bench);
    uncontended::run(bench);
    handoff::run(bench);
    cancel::run(bench);
    contended::run(bench);
}

/// Every workload of one primitive, by the name it has on the command line.
pub(crate) fn run(what: &str, bench: &mut Bench) {
    match what {
        "mutex" => mutex(bench),
        "parker" => parker::run(bench),
        "semaphore" => semaphore::run(bench),
        "event" => event::run(bench),
        "wait-group" => group::run(bench),
        "barrier" => barrier::run(bench),
        "token" => token::run(bench),
        "rwlock" => rwlock::run(bench),
        "condvar" => condvar::run(bench),
        "time" => time::run(bench),
        "runtime" => runtime::run(bench),
        other => unreachable!("{other} is not in the list of the command line"),
    }
}

/// What a future that need not wait yields. A macro, so that the future is polled where it was made:
/// moving a big one costs more than some locks do.
macro_rules! now {
    ($future:expr) => {{
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match std::future::Future::poll(std::pin::pin!($future), &mut cx) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("nobody else holds it"),
        }
    }};
}
pub(crate) use now;
