//! The loom models of the scheduler's own parts. Empty unless built with `--cfg tasuki_loom`.
//!
//! The files under test are included, not linked: they are private, and the queues beside them (`st3`, `async-task`) have no models. `cargo xtask model rt::`
//! runs them.

#[cfg(all(test, tasuki_loom))]
mod completions;
#[cfg(all(test, tasuki_loom))]
mod first_run;
#[cfg(all(test, tasuki_loom))]
mod idle_protocol;
#[cfg(all(test, tasuki_loom))]
mod inbox;
#[cfg(all(test, tasuki_loom))]
mod next_slot;
#[cfg(all(test, tasuki_loom))]
mod parts;
#[cfg(all(test, tasuki_loom))]
mod poll_slot;
#[cfg(all(test, tasuki_loom))]
mod readiness;
#[cfg(all(test, tasuki_loom))]
mod shutdown;
#[cfg(all(test, tasuki_loom))]
mod task_counts;
/// The name by which the files know each other.
#[cfg(all(test, tasuki_loom))]
use parts as scheduler;
#[cfg(all(test, tasuki_loom))]
#[path = "../src/shim.rs"]
mod shim;
#[cfg(all(test, tasuki_loom))]
mod stealing;
#[cfg(all(test, tasuki_loom))]
mod tasks;
#[cfg(all(test, tasuki_loom))]
mod timekeeper;
