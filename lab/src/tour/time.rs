//! Tour stop: waits that end by a deadline or by a token, and lose nothing.

use super::{Guide, all, grouped, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tasuki::{CancellationSource, Mutex, Semaphore};

/// How long the short ones wait.
const SHORT: Duration = Duration::from_millis(30);

/// What the tasks share.
#[derive(Default)]
struct Desk {
    mutex: Mutex<()>,
    elapsed: AtomicUsize,
    served: AtomicUsize,
}

/// Lets limits end waits, and shows that the waiters that stay are granted.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(100_000, 2_000);
    let desk = Arc::new(Desk::default());
    let number = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    let progress = || format!("   {} waits ran out", number(&desk.elapsed));
    let (taken, early, failed) = guide.run(wait_all(desk.clone(), tasks), progress)?;
    guide.check(
        early == 0 && number(&desk.elapsed) == tasks.div_ceil(2) && taken >= SHORT,
        format_args!(
            "{} waits ran out after {} ms, not before",
            grouped(number(&desk.elapsed)),
            SHORT.as_millis()
        ),
    )?;
    guide.check(
        failed == 0 && number(&desk.served) == tasks / 2,
        "those with more patience were all served",
    )?;
    cancelled(guide)
}

/// Half of the waits for a held lock have a limit. How long until they ran out, how many others were served
/// before the lock was given back, and how many failed.
async fn wait_all(desk: Arc<Desk>, tasks: usize) -> (Duration, usize, usize) {
    let mut held = Some(desk.mutex.lock().await);
    let start = Instant::now();
    let wait = |task: usize| {
        let desk = desk.clone();
        async move {
            let limit = if task % 2 == 0 { SHORT } else { Duration::MAX };
            let outcome = desk.mutex.lock().timeout(limit).await;
            let count = if outcome.is_ok() { &desk.served } else { &desk.elapsed };
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let waits: Vec<_> = (0..tasks).map(|task| tasuki_rt::spawn(wait(task))).collect();
    until(|| desk.elapsed.load(Ordering::Relaxed) == tasks.div_ceil(2)).await;
    let (taken, early) = (start.elapsed(), desk.served.load(Ordering::Relaxed));
    held.take();
    (taken, early, all(waits).await)
}

/// A wait ended by a token, while permits stay whole.
fn cancelled(guide: &Guide) -> Result<(), String> {
    let (semaphore, source) = (Semaphore::new(1), CancellationSource::new());
    let token = source.token();
    let held = semaphore.try_acquire().map_err(|_| "a new semaphore has its permits")?;
    let outcome = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| semaphore.acquire().or_cancelled(&token).block().is_err());
        std::thread::sleep(Duration::from_millis(5));
        source.request_cancel();
        waiter.join()
    });
    drop(held);
    let ended = outcome.map_err(|_| "the waiter panicked")?;
    guide.check(
        ended && semaphore.available_permits() == 1,
        "a token ends a thread's wait; the permit is still there",
    )
}
