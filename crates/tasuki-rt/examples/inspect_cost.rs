//! What the notes of `tasuki::inspect` cost: `cargo xtask inspect-cost` builds this program with the feature `inspect` and without, and compares.
//!
//! `inspect_cost uncontended N`: one task takes and releases a mutex N times. `inspect_cost contended N`: sixteen tasks on two workers take one mutex N times together, each for a short section, and
//! nearly all of them wait. `inspect_cost none 0`: what the program costs without either. Prints nanoseconds for each acquisition.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tasuki::Mutex;
use tasuki_rt::Runtime;

const TASKS: usize = 16;
const WORKERS: usize = 2;

async fn uncontended(turns: usize) {
    let mutex = Mutex::new(0_usize);
    for _ in 0..turns {
        *black_box(&mutex).lock().await += 1;
    }
    assert_eq!(mutex.into_inner(), turns);
}

async fn contended(turns: usize) {
    let mutex = Arc::new(Mutex::new(0_usize));
    let spawn = |_| {
        let mutex = mutex.clone();
        tasuki_rt::spawn(async move {
            for _ in 0..turns / TASKS {
                let mut count = mutex.lock().await;
                for _ in 0..20 {
                    *black_box(&mut *count) += 1;
                }
                // Its other waiters come to the queue while it is held.
                tasuki_rt::yield_now().await;
                drop(count);
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
    for task in tasks {
        task.await.expect("it does not panic");
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (kind, turns) = (args.next().expect("a kind"), args.next().expect("a number of turns"));
    let turns: usize = turns.parse().expect("a number");
    let runtime = Runtime::builder().workers(WORKERS).build().expect("threads start");
    let begin = Instant::now();
    match kind.as_str() {
        "none" => {}
        "uncontended" => runtime.block_on(runtime.spawn(uncontended(turns))).expect("it does not panic"),
        "contended" => runtime.block_on(runtime.spawn(contended(turns))).expect("it does not panic"),
        other => panic!("no kind `{other}`"),
    }
    println!("{:.2}", begin.elapsed().as_nanos() as f64 / turns.max(1) as f64);
}
