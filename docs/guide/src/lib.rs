//! The guide, as documentation tests: `cargo test -p tasuki-guide` runs every program of its chapters.

#[doc = include_str!("../README.md")]
pub mod contents {}

#[doc = include_str!("../../../README.md")]
pub mod first_page {}

#[doc = include_str!("../why.md")]
pub mod why {}

#[doc = include_str!("../cancellation.md")]
pub mod cancellation {}

#[doc = include_str!("../channels.md")]
pub mod channels {}

#[doc = include_str!("../fairness.md")]
pub mod fairness {}

#[doc = include_str!("../executors.md")]
pub mod executors {}

#[doc = include_str!("../threads.md")]
pub mod threads {}

#[doc = include_str!("../hangs.md")]
pub mod hangs {}

#[doc = include_str!("../testing.md")]
pub mod testing {}

#[doc = include_str!("../migrating.md")]
pub mod migrating {}

#[doc = include_str!("../cookbook.md")]
pub mod cookbook {}
