//! tokio's runtimes: work-stealing, and single-threaded.

use crate::peer::{Kind, joined_runtime};
use crate::workload::two_thread_runtime::TwoThreadRuntime;
use std::future::Future;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};
use tokio::spawn;
use tokio::task::{JoinError, JoinHandle, yield_now};
use tokio::time::sleep;

joined_runtime!(
    /// `multi_thread` with two workers.
    TokioTwo, Kind::Peer, "tokio-2", TwoThreadRuntime::tokio()
);
joined_runtime!(
    /// `current_thread`: the thread of `block_on` runs all tasks.
    TokioCurrent, Kind::Peer, "tokio-current", current_thread()
);

fn current_thread() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_current_thread().enable_time().build().expect("a runtime without threads of its own")
    })
}
