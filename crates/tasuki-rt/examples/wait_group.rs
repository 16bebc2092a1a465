//! Three units of work, and a controller that goes on when all are done.

use std::time::Duration;
use tasuki::WaitGroup;
use tasuki_rt::{sleep, spawn};

static GROUP: WaitGroup = WaitGroup::new();

async fn unit(id: usize) {
    sleep(Duration::from_millis(200)).await;
    println!("unit {id} done");
    GROUP.done();
}

async fn controller() {
    GROUP.add(3);
    for id in 1..=3 {
        drop(spawn(unit(id)));
    }
    GROUP.wait().await;
    println!("all done");
}

fn main() {
    tasuki_rt::run(controller());
}
