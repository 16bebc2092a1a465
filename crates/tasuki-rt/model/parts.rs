//! The files of `tasuki-rt` that the models include and test.
#![allow(dead_code, unreachable_pub, reason = "a model uses a part of them")]

#[path = "../src/scheduler/chain.rs"]
pub(crate) mod chain;
#[path = "../src/task/completions.rs"]
pub(crate) mod completions;
#[path = "../src/scheduler/idle.rs"]
pub(crate) mod idle;
#[path = "../src/scheduler/next_slot.rs"]
pub(crate) mod next_slot;
#[path = "../src/scheduler/shutdown/progress.rs"]
pub(crate) mod progress;
#[path = "../src/io/readiness.rs"]
pub(crate) mod readiness;
#[path = "../src/task/registry.rs"]
pub(crate) mod registry;
#[path = "../src/scheduler/shared_queue.rs"]
pub(crate) mod shared_queue;
#[path = "../src/task/task_counts.rs"]
pub(crate) mod task_counts;
