//! A task that works until it is asked to stop.

use std::time::Duration;
use tasuki::{CancellationSource, CancellationToken};
use tasuki_rt::{sleep, spawn};

async fn cancellable(token: CancellationToken) -> usize {
    let mut rounds = 0;
    while !token.stop_requested() {
        sleep(Duration::from_millis(200)).await;
        rounds += 1;
    }
    rounds
}

fn main() {
    tasuki_rt::run(async {
        let source = CancellationSource::new();
        let task = spawn(cancellable(source.token()));
        sleep(Duration::from_millis(1500)).await;
        source.request_cancel();
        let rounds = task.await.expect("it does not panic");
        println!("stopped after {rounds} rounds");
    });
}
