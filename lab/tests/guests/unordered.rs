//! Many waits in one task, each with a waker of its own: `FuturesUnordered` over ours.

use crate::kit::watchdog::watchdog;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tasuki::{Barrier, Event, Mutex, RwLock, Semaphore};

type Wait = Pin<Box<dyn Future<Output = usize> + Send>>;

/// What many waits share.
struct Common {
    mutex: Mutex<usize>,
    shelf: RwLock<usize>,
    permits: Semaphore,
    signal: Event,
    barrier: Barrier,
}

const EACH: usize = 40;

fn common() -> Arc<Common> {
    Arc::new(Common {
        mutex: Mutex::new(0),
        shelf: RwLock::new(0),
        permits: Semaphore::new(2),
        signal: Event::auto(),
        barrier: Barrier::new(EACH),
    })
}

/// `EACH` waits of every kind; each gives its kind.
fn waits(common: &Arc<Common>) -> FuturesUnordered<Wait> {
    let all = FuturesUnordered::new();
    for n in 0..EACH {
        let shared = [(); 6].map(|()| common.clone());
        let [a, b, c, d, e, f] = shared;
        let kinds: [Wait; 6] = [
            Box::pin(async move {
                let mut guard = a.mutex.lock().await;
                tasuki_rt::yield_now().await;
                *guard += 1;
                0
            }),
            Box::pin(async move {
                if n % 4 == 0 {
                    *b.shelf.write().await += 1
                } else {
                    drop(b.shelf.read().await)
                }
                1
            }),
            Box::pin(async move {
                let _permit = c.permits.acquire().await;
                tasuki_rt::yield_now().await;
                2
            }),
            Box::pin(async move {
                d.signal.wait().await;
                d.signal.set();
                3
            }),
            Box::pin(async move {
                e.barrier.arrive_and_wait().await;
                4
            }),
            Box::pin(async move {
                let limit = Duration::from_millis(n as u64 % 7);
                let never = Event::manual();
                assert!(never.wait().timeout(limit).await.is_err());
                drop(f);
                5
            }),
        ];
        kinds.into_iter().for_each(|wait| all.push(wait));
    }
    all
}

/// In tasks of both kinds, and on the thread of `block_on`, at the same time, on the same primitives but the barrier.
async fn every_wait_ends_once() {
    let common = common();
    common.signal.set();
    let mut ended = [0; 6];
    let mut all = waits(&common);
    while let Some(kind) = all.next().await {
        ended[kind] += 1;
    }
    assert_eq!(ended, [EACH; 6]);
    assert_eq!((*common.mutex.lock().await, *common.shelf.read().await), (EACH, EACH.div_ceil(4)));
    assert_eq!(common.permits.available_permits(), 2);
}

#[test]
fn every_wait_in_one_task_ends_once() {
    let _dog = watchdog(60);
    tasuki_rt::run(async {
        let tasks = [
            tasuki_rt::spawn(every_wait_ends_once()),
            tasuki_rt::spawn_on(tasuki_rt::WorkerId::new(0), every_wait_ends_once),
        ];
        every_wait_ends_once().await;
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// All are dropped at once, whatever state each is in: nothing is held, lost, or woken for ever.
#[test]
fn dropping_them_all_gives_everything_back() {
    let _dog = watchdog(60);
    tasuki_rt::run(async {
        for polls in 0..30 {
            let common = common();
            let left = Arc::new(AtomicUsize::new(0));
            let mut all = waits(&common);
            let mut polled = 0;
            // So many looks, between which other tasks run.
            poll_fn(|cx| {
                while let Poll::Ready(Some(_)) = all.poll_next_unpin(cx) {
                    left.fetch_add(1, Ordering::Relaxed);
                }
                polled += 1;
                if polled > polls {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            drop(all);
            assert!(common.mutex.try_lock().is_some() && common.shelf.try_write().is_some());
            assert_eq!(common.permits.available_permits(), 2);
            assert!(left.load(Ordering::Relaxed) <= 6 * EACH);
        }
    });
}
