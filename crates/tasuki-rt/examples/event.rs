//! A manual event: all wait, one call of `set` releases them all.

use std::time::Duration;
use tasuki::{Event, Reset};
use tasuki_rt::{JoinSet, sleep};

static EVENT: Event = Event::new(Reset::Manual, false);

async fn waiter(id: usize) {
    println!("waiter {id} waiting");
    EVENT.wait().await;
    println!("waiter {id} woke");
}

async fn trigger() {
    sleep(Duration::from_secs(1)).await;
    println!("set");
    EVENT.set();
}

fn main() {
    tasuki_rt::run(async {
        let mut tasks = JoinSet::new();
        tasks.extend((1..=3).map(waiter));
        tasks.spawn(trigger());
        while let Some(result) = tasks.join_next().await {
            result.expect("no task panics");
        }
    });
}
