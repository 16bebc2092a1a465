//! What the tests share: wakers that count or misbehave, a watchdog, seeds, an executor that polls only
//! what was woken, the enumeration of operation strings, an allocator that counts.
//!
//! The two test programs include the module and use parts of it.
#![allow(dead_code, unused_macros, unused_imports, reason = "each test program uses a part of the kit")]

pub(crate) mod alloc;
pub(crate) mod driver;
pub(crate) mod fixture;
pub(crate) mod gate;
pub(crate) mod hostile;
pub(crate) mod panics;
pub(crate) mod policy;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod rng;
pub(crate) mod sources;
pub(crate) mod spec;
pub(crate) mod stress;
pub(crate) mod tally;
pub(crate) mod traits;
pub(crate) mod waker;
pub(crate) mod watchdog;

use std::time::Duration;

/// A number from the environment, or the default: how tests are made longer or deeper.
pub(crate) fn env_or(name: &str, default: u64) -> u64 {
    let parse = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number"));
    std::env::var(name).map_or(default, parse)
}

/// How long a test of threads that do random things goes on. Short by default: it is repeated with every run of the suite, each time with another seed.
pub(crate) fn stress_time() -> Duration {
    match env_or("TASUKI_STRESS_SECONDS", 0) {
        0 => Duration::from_millis(300),
        seconds => Duration::from_secs(seconds),
    }
}

/// `full`, or `fewer` under the thread sanitizer: for what one thread does alone, so that there is no race to see.
pub(crate) const fn fewer_under_tsan(full: usize, fewer: usize) -> usize {
    if cfg!(tasuki_tsan) { fewer } else { full }
}

/// So many that a recursion would overflow [`on_a_small_stack`](fixture::on_a_small_stack), and that a step for each pair of them would never end: a
/// million in release builds.
pub(crate) const VERY_MANY: usize =
    fewer_under_tsan(scaled(if cfg!(debug_assertions) { 100_000 } else { 1_000_000 }, 100), 100_000);

/// `full` outside Miri, `small` under it.
pub(crate) const fn scaled(full: usize, small: usize) -> usize {
    if cfg!(miri) { small } else { full }
}

/// What a future is larger by with the feature `console`: the pointer to its spans.
pub(crate) const fn spans() -> usize {
    if cfg!(feature = "console") { size_of::<usize>() } else { 0 }
}
