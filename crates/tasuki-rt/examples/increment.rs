//! Many tasks increment one number; each takes the lock, so none is lost.

use tasuki::Mutex;
use tasuki_rt::JoinSet;

static SHARED: Mutex<u64> = Mutex::new(0);

async fn increment() {
    // Waits for the lock.
    let mut shared = SHARED.lock().await;
    *shared += 1;
    // Dropping the guard lets the next one go on.
}

fn main() {
    let total = tasuki_rt::run(async {
        let mut tasks = JoinSet::new();
        tasks.extend((0..10_000).map(|_| increment()));
        while let Some(result) = tasks.join_next().await {
            result.expect("no task panics");
        }
        *SHARED.lock().await
    });
    println!("{total}");
}
