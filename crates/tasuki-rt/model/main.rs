//! The loom models of the scheduler's own parts. Empty unless built with `--cfg loom`.
//!
//! The files under test are included, not linked: they are private, and the queues beside them are not ours to model. `cargo xtask model rt::`
//! runs them.

#[cfg(all(test, loom))]
mod census;
#[cfg(all(test, loom))]
mod ending;
#[cfg(all(test, loom))]
mod idle_protocol;
#[cfg(all(test, loom))]
mod inbox;
#[cfg(all(test, loom))]
mod next_slot;
#[cfg(all(test, loom))]
mod parts;
#[cfg(all(test, loom))]
#[path = "../src/shim.rs"]
mod shim;
#[cfg(all(test, loom))]
mod stealing;
#[cfg(all(test, loom))]
mod tasks;
#[cfg(all(test, loom))]
mod timekeeper;
