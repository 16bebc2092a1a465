//! Many sleeps that are due at one tick: they are woken a few at a time, and other tasks run in between.

use crate::kit::{runtime, scaled, watchdog};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tasuki_rt::{sleep_until, yield_now};

/// Counts the sleeps that have woken it.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A sleep of this task, then so many others for the same time, armed on the wheel of this worker, and how many of these have woken.
async fn many_sleeps() -> (impl Future<Output = ()>, Vec<impl Future<Output = ()>>, Arc<Count>) {
    let mut wait = Duration::from_secs(1);
    loop {
        let due = Instant::now() + wait;
        let mut first = Box::pin(sleep_until(due));
        let _ = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await;
        let woken = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(woken.clone());
        let mut sleeps: Vec<_> = (0..MANY).map(|_| Box::pin(sleep_until(due))).collect();
        sleeps.iter_mut().for_each(|sleep| _ = sleep.as_mut().poll(&mut Context::from_waker(&waker)));
        // One that is due when it is first polled is not on the wheel.
        if Instant::now() < due {
            return (first, sleeps, woken);
        }
        wait *= 2;
    }
}

const MANY: usize = scaled(20_000, 300);

/// Many sleeps are due at one tick: a task that yields runs between any few of them.
#[test]
fn many_sleeps_due_at_once_are_woken_in_steps() {
    let _dog = watchdog(120);
    let runtime = runtime(1);
    let longest = runtime.spawn(async move {
        let (_first, sleeps, woken) = many_sleeps().await;
        let (mut last, mut longest) = (0, 0);
        while last < MANY {
            yield_now().await;
            let now = woken.0.load(Ordering::SeqCst);
            (longest, last) = (longest.max(now - last), now);
        }
        drop(sleeps);
        longest
    });
    let longest = runtime.block_on(longest).unwrap();
    assert!(longest <= 256, "{longest} wakes in a row");
}

/// The same where the worker sleeps until then: the task that is woken first does not wait for all the others.
#[test]
fn many_sleeps_due_at_once_are_woken_in_steps_by_an_idle_worker() {
    let _dog = watchdog(120);
    let runtime = runtime(1);
    let before = runtime.spawn(async move {
        let (first, sleeps, woken) = many_sleeps().await;
        first.await;
        let before = woken.0.load(Ordering::SeqCst);
        while woken.0.load(Ordering::SeqCst) < MANY {
            yield_now().await;
        }
        drop(sleeps);
        before
    });
    let before = runtime.block_on(before).unwrap();
    assert!(before <= 512, "{before} wakes before the first task runs");
}
