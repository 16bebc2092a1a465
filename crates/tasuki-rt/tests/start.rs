//! A runtime that cannot start. A test program of its own, because it is started once more with other settings.

mod kit;

use kit::{Counted, Drops, runtime, until, watchdog};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tasuki_rt::{Runtime, WorkerId};

/// No thread can be had with such a stack. What the tasks do when they are dropped may ask for the threads again.
#[test]
#[cfg_attr(miri, ignore = "starts a program")]
fn a_start_that_fails_drops_tasks_without_a_lock() {
    const STACK: (&str, &str) = ("RUST_MIN_STACK", "70368744177664");
    if std::env::var(STACK.0).is_ok_and(|size| size == STACK.1) {
        return a_start_that_fails();
    }
    let _dog = watchdog(60);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "a_start_that_fails_drops_tasks_without_a_lock",
        "--test-threads=1",
        "--nocapture",
    ]);
    // What it has to say goes to the other stream.
    let mut child = command.env(STACK.0, STACK.1).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    until(|| child.try_wait().unwrap().is_some() || began.elapsed() > Duration::from_secs(20));
    let _ = child.kill();
    assert!(child.wait().unwrap().success());
}

fn a_start_that_fails() {
    struct StartsAgain {
        runtime: Arc<Runtime>,
        _counted: Counted,
    }
    impl Drop for StartsAgain {
        fn drop(&mut self) {
            self.runtime.start().unwrap();
        }
    }
    let (runtime, drops) = (Arc::new(runtime(2)), Drops::default());
    let [held, pinned] = [(); 2].map(|()| StartsAgain { runtime: runtime.clone(), _counted: drops.one() });
    drop(runtime.spawn(async move { drop(held) }));
    let task = runtime.spawn_on(WorkerId::new(1), || async move { drop(pinned) });
    assert!(runtime.start().is_err());
    assert!(task.is_finished() && drops.count() == 2 && runtime.tasks() == 0);
    runtime.shutdown_timeout(Duration::MAX).unwrap();
}
