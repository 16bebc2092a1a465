//! Strict mode, which belongs to the process: a wait that a limit of the runtime ends does not panic.

#![cfg(any(debug_assertions, feature = "inspect"))]

use crate::kit::process::alone;
use crate::kit::{runtime, watchdog};
use std::time::Duration;
use tasuki::{Mutex, task};
use tasuki_rt::timeout;

#[test]
fn a_limit_of_the_runtime_does_not_panic() {
    alone(|| {
        let _dog = watchdog(60);
        let runtime = runtime(1);
        task::strict(true);
        let limited = runtime.spawn(async {
            let (mutex, other) = (Mutex::new(0), Mutex::new(0));
            let _held = (mutex.lock().await, other.lock().await);
            let both = async { (mutex.lock().await, other.lock().await) };
            (
                timeout(Duration::ZERO, mutex.lock()).await.is_err(),
                timeout(Duration::from_millis(1), both).await.is_err(),
            )
        });
        assert_eq!(runtime.block_on(limited).unwrap(), (true, true));
        let unlimited = runtime.spawn(async {
            let mutex = Mutex::new(0);
            let _held = mutex.lock().await;
            assert!(timeout(Duration::ZERO, mutex.lock()).await.is_err());
            drop(mutex.lock().await);
        });
        assert!(runtime.block_on(unlimited).unwrap_err().is_panic(), "the limit is over");
    });
}
