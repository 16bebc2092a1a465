//! Workers that take turns: each holds the lock across an await, and no thread is blocked.
//!
//! Prints, for each worker, that it acquired and released the lock; never two acquisitions in a row.

use std::time::Duration;
use tasuki::Mutex;
use tasuki_rt::{JoinSet, sleep};

static MUTEX: Mutex<()> = Mutex::new(());

async fn worker(id: usize) {
    let _guard = MUTEX.lock().await;
    println!("Worker {id} acquired lock");
    sleep(Duration::from_millis(300)).await;
    println!("Worker {id} released lock");
}

fn main() {
    tasuki_rt::run(async {
        let mut workers = JoinSet::new();
        workers.extend((1..=3).map(worker));
        while let Some(result) = workers.join_next().await {
            result.expect("no worker panics");
        }
    });
}
