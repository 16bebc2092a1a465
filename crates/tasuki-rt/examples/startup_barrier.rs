//! A startup barrier across four workers: a task on each, spawned before the threads start; no task enters phase 1 before all
//! have been in phase 0.

use tasuki::Barrier;
use tasuki_rt::{EventLoop, Runtime, WorkerId};

static BARRIER: Barrier = Barrier::new(4);

async fn worker(id: WorkerId) {
    assert_eq!(EventLoop::current().map(|here| here.id()), Some(id), "on its own worker");
    println!("worker {} phase0", id.index());
    BARRIER.arrive_and_wait().await;
    assert_eq!(EventLoop::current().map(|here| here.id()), Some(id), "and back on it");
    println!("worker {} phase1", id.index());
}

fn main() -> std::io::Result<()> {
    let runtime = Runtime::builder().workers(4).build()?;
    let mut tasks = Vec::new();
    runtime.for_each_worker(|id| tasks.push(runtime.spawn_on(id, move || worker(id))));
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("no worker panics");
        }
    });
    Ok(())
}
