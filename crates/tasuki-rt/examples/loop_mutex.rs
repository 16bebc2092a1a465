//! A mutex bound to event loops: a task that waits on a loop resumes on it, and unlocks there.

use std::thread;
use std::time::Duration;
use tasuki_rt::{EventLoop, LoopMutex, Runtime, sleep};

static VISITS: LoopMutex<Vec<usize>> = LoopMutex::new(Vec::new());

async fn visitor(home: usize) {
    let thread = thread::current().id();
    for _ in 0..3 {
        let mut visits = VISITS.lock().await.expect("on an event loop");
        assert_eq!(thread::current().id(), thread, "resumed where it waited");
        visits.push(home);
        println!("loop {home} holds the lock on loop {}", EventLoop::current().expect("on one").id().index());
        sleep(Duration::from_millis(5)).await;
    }
}

fn main() -> std::io::Result<()> {
    let runtime = Runtime::builder().workers(3).build()?;
    let mut tasks = Vec::new();
    runtime.for_each_worker(|id| tasks.push(runtime.spawn_on(id, move || visitor(id.index()))));
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("no visitor panics");
        }
        // The thread in `block_on` is no event loop.
        println!("{}", VISITS.lock().await.expect_err("not on a loop"));
    });
    Ok(())
}
