//! The kits of the libraries: the lab has none of its own.

#[path = "../../../crates/tasuki-rt/tests/kit/program.rs"]
pub(crate) mod program;
#[path = "../../../crates/tasuki/tests/kit/watchdog.rs"]
pub(crate) mod watchdog;
