//! Two permits, five tasks: never more than two inside.

use std::time::Duration;
use tasuki::Semaphore;
use tasuki_rt::{JoinSet, sleep};

static SEMAPHORE: Semaphore = Semaphore::new(2);

async fn task(id: usize) {
    let permit = SEMAPHORE.acquire().await.expect("it is not closed");
    println!("task {id} in");
    sleep(Duration::from_millis(300)).await;
    println!("task {id} out");
    drop(permit);
}

fn main() {
    tasuki_rt::run(async {
        let mut tasks = JoinSet::new();
        tasks.extend((1..=5).map(task));
        while let Some(result) = tasks.join_next().await {
            result.expect("no task panics");
        }
    });
}
