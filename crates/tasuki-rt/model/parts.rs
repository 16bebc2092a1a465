//! The files under test.
#![allow(dead_code, unreachable_pub, reason = "a model uses a part of them")]

#[path = "../src/task/census.rs"]
pub(crate) mod census;
#[path = "../src/scheduler/chain.rs"]
pub(crate) mod chain;
#[path = "../src/task/completions.rs"]
pub(crate) mod completions;
#[path = "../src/scheduler/ending.rs"]
pub(crate) mod ending;
#[path = "../src/scheduler/idle.rs"]
pub(crate) mod idle;
#[path = "../src/scheduler/next.rs"]
pub(crate) mod next;
#[path = "../src/task/registry.rs"]
pub(crate) mod registry;
#[path = "../src/scheduler/shared_queue.rs"]
pub(crate) mod shared_queue;
