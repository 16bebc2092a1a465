//! The loom models: every interleaving with so many preemptions at most, and every value that a weak memory lets a thread read, of small
//! scenarios. Empty unless built with `--cfg tasuki_loom`; `cargo xtask model` runs them, with two preemptions if it is told no other number.
//!
//! A model waits only by being woken, so a lost wake-up is a deadlock, which loom reports (or, for a thread that
//! sleeps on a `Parker`, a path with too many branches).

/// The library under its own name.
extern crate tasuki_model as tasuki;

#[cfg(tasuki_loom)]
mod barrier;
#[cfg(tasuki_loom)]
mod budget;
#[cfg(tasuki_loom)]
mod bypass;
#[cfg(tasuki_loom)]
mod cancellation;
#[cfg(tasuki_loom)]
mod channel;
#[cfg(tasuki_loom)]
mod condvar;
#[cfg(tasuki_loom)]
mod event;
#[cfg(tasuki_loom)]
mod hints;
#[cfg(tasuki_loom)]
mod keyed;
#[cfg(tasuki_loom)]
mod latch;
#[cfg(tasuki_loom)]
mod lifo;
#[cfg(tasuki_loom)]
mod limit;
#[cfg(tasuki_loom)]
mod mutex;
#[cfg(tasuki_loom)]
mod once_cell;
#[cfg(tasuki_loom)]
mod oneshot;
#[cfg(tasuki_loom)]
mod overdue;
#[cfg(tasuki_loom)]
mod parker;
#[cfg(tasuki_loom)]
mod queue;
#[cfg(tasuki_loom)]
mod records;
#[cfg(tasuki_loom)]
mod reentrant;
#[cfg(tasuki_loom)]
mod rendezvous;
#[cfg(tasuki_loom)]
mod revocable;
#[cfg(tasuki_loom)]
mod rwlock;
#[cfg(tasuki_loom)]
mod semaphore;
#[cfg(tasuki_loom)]
mod semaphore_bypass;
#[cfg(tasuki_loom)]
mod support;
#[cfg(tasuki_loom)]
mod versus;
#[cfg(tasuki_loom)]
mod wait_group;
