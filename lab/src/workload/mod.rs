//! The workloads: what a subject is made to do, and the check that it did it.
//!
//! Each workload is generic over its subject and builds a [`Group`](crate::measure::Group); the
//! harness does the rest.

pub(crate) mod barrier;
pub(crate) mod cancel;
pub(crate) mod channel;
pub(crate) mod channel_cancel;
pub(crate) mod condvar;
pub(crate) mod contended;
pub(crate) mod counting_waker;
pub(crate) mod critical_section;
pub(crate) mod event;
pub(crate) mod handoff;
pub(crate) mod hostile;
pub(crate) mod inspect;
pub(crate) mod minimal;
pub(crate) mod net;
pub(crate) mod parker;
pub(crate) mod release;
pub(crate) mod runtime;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod sizes;
pub(crate) mod start_gate;
pub(crate) mod time;
pub(crate) mod token;
pub(crate) mod two_thread_runtime;
pub(crate) mod uncontended;
pub(crate) mod unlink;
pub(crate) mod wait_group;
pub(crate) mod wake_passes;

use crate::measure::Bench;

/// Every workload of the mutex.
fn mutex(bench: &mut Bench) {
    sizes::run(bench);
    uncontended::run(bench);
    handoff::run(bench);
    cancel::run(bench);
    contended::run(bench);
}

/// Every workload of channels.
fn channels(bench: &mut Bench) {
    channel::run(bench);
    channel_cancel::run(bench);
}

/// A family of workloads: its name on the command line, and what describes its groups.
pub(crate) type Family = (&'static str, fn(&mut Bench));

/// All families.
pub(crate) const FAMILIES: [Family; 14] = [
    ("mutex", mutex),
    ("parker", parker::run),
    ("semaphore", semaphore::run),
    ("event", event::run),
    ("wait-group", wait_group::run),
    ("barrier", barrier::run),
    ("token", token::run),
    ("rwlock", rwlock::run),
    ("condvar", condvar::run),
    ("channel", channels),
    ("time", time::run),
    ("runtime", runtime::run),
    ("net", net::run),
    ("inspect", inspect::run),
];

/// Describes every workload of a family; nothing if there is none of that name.
pub(crate) fn run(what: &str, bench: &mut Bench) {
    let families = FAMILIES.iter().chain([&hostile::FAMILY]);
    families.filter(|(name, _)| *name == what).for_each(|(_, describe)| describe(bench));
}

/// What a future that need not wait yields. A macro, so that the future is polled where it was made:
/// moving a big one costs more than some locks do.
macro_rules! now {
    ($future:expr) => {{
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match std::future::Future::poll(std::pin::pin!($future), &mut cx) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("no other task holds it"),
        }
    }};
}
pub(crate) use now;
