//! A runtime that cannot start.

use crate::kit::process::{alone_with, is_alone};
use crate::kit::{Counted, Drops, runtime, watchdog};
use std::sync::Arc;
use std::time::Duration;
use tasuki_rt::{Runtime, WorkerId};

/// No thread can be had with such a stack. What the tasks do when they are dropped may ask for the threads again.
#[test]
#[cfg_attr(miri, ignore = "starts a program")]
fn a_start_that_fails_drops_tasks_without_a_lock() {
    const STACK: (&str, &str) = ("RUST_MIN_STACK", "70368744177664");
    let _dog = (!is_alone()).then(|| watchdog(60));
    // A closure, whose type has the name of this test.
    alone_with(&[STACK], || {
        a_start_that_fails();
    });
}

fn a_start_that_fails() {
    struct StartsAgain {
        runtime: Arc<Runtime>,
        _counted: Counted,
    }
    impl Drop for StartsAgain {
        fn drop(&mut self) {
            assert!(self.runtime.start().is_err(), "the runtime has shut down");
        }
    }
    let (runtime, drops) = (Arc::new(runtime(2)), Drops::default());
    let [held, pinned] = [(); 2].map(|()| StartsAgain { runtime: runtime.clone(), _counted: drops.one() });
    drop(runtime.spawn(async move { drop(held) }));
    let task = runtime.spawn_on(WorkerId::new(1), || async move { drop(pinned) });
    assert!(runtime.start().is_err());
    assert!(task.is_finished() && drops.count() == 2 && runtime.tasks() == 0);
    let again = runtime.start().unwrap_err();
    assert!(again.to_string().contains("has shut down") && runtime.handle().is_shut_down(), "{again}");
    runtime.shutdown_timeout(Duration::MAX).unwrap();
}
