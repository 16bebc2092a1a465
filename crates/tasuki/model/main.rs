//! The loom models: every interleaving, and every value that a weak memory lets a thread read, of small
//! scenarios with real threads. Empty unless built with `--cfg loom`; `cargo xtask model` runs them.
//!
//! A model waits only by being woken, so a lost wake-up is a deadlock, which loom reports (or, for a thread that
//! sleeps on a `Parker`, a path with too many branches).

#[cfg(loom)]
mod barrier;
#[cfg(loom)]
mod bypass;
#[cfg(loom)]
mod cancellation;
#[cfg(loom)]
mod condvar;
#[cfg(loom)]
mod event;
#[cfg(loom)]
mod hints;
#[cfg(loom)]
mod latch;
#[cfg(loom)]
mod lifo;
#[cfg(loom)]
mod limit;
#[cfg(loom)]
mod mutex;
#[cfg(loom)]
mod once_cell;
#[cfg(loom)]
mod parker;
#[cfg(loom)]
mod queue;
#[cfg(loom)]
mod reentrant;
#[cfg(loom)]
mod rwlock;
#[cfg(loom)]
mod semaphore;
#[cfg(loom)]
mod semaphore_bypass;
#[cfg(loom)]
mod support;
#[cfg(loom)]
mod versus;
#[cfg(loom)]
mod wait_group;
