//! tasuki-rt, with two workers and with one.

use crate::peer::{Kind, joined_runtime};
use crate::workload::two_thread_runtime::{self, TwoThreadRuntime};
use std::future::Future;
use std::sync::OnceLock;
use tasuki_rt::{JoinError, JoinHandle, Resume, Runtime, sleep, spawn, yield_now};

joined_runtime!(
    /// Two workers.
    TasukiTwo, Kind::Ours, "tasuki-rt-2", TwoThreadRuntime::tasuki(Resume::Next)
);
joined_runtime!(
    /// One worker.
    TasukiOne, Kind::Ours, "tasuki-rt-1", one_worker()
);

fn one_worker() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| two_thread_runtime::start_tasuki(1, Resume::Next))
}
