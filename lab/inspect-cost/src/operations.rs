//! The operations whose price is asked for. Each counts what it does, and checks the count.

use std::future::poll_fn;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tasuki::{Mutex, RwLock, Semaphore};

/// Tasks that share the contended mutex.
const TASKS: u64 = 16;
/// How often each uses its guard.
const USES: u64 = 20;

/// A task locks and unlocks.
pub(crate) async fn uncontended(ops: u64) -> u64 {
    let mutex = Mutex::new(0_u64);
    for _ in 0..ops {
        *black_box(&mutex).lock().await += 1;
    }
    assert_eq!(mutex.into_inner(), ops);
    ops
}

/// A task acquires one of two permits and releases it.
pub(crate) async fn semaphore(ops: u64) -> u64 {
    let semaphore = Semaphore::new(2);
    for _ in 0..ops {
        drop(black_box(&semaphore).acquire().await);
    }
    assert_eq!(semaphore.available_permits(), 2);
    ops
}

/// A task reads.
pub(crate) async fn rwlock_read(ops: u64) -> u64 {
    let lock = RwLock::new(1_u64);
    let mut sum = 0;
    for _ in 0..ops {
        sum += *black_box(&lock).read().await;
    }
    assert_eq!(sum, ops);
    ops
}

/// Tasks that wait for each other.
pub(crate) async fn contended(ops: u64) -> u64 {
    let mutex = Arc::new(Mutex::new(0_u64));
    let each = ops.div_ceil(TASKS);
    let spawn = |_| {
        let mutex = mutex.clone();
        tasuki_rt::spawn(async move {
            for _ in 0..each {
                let mut count = mutex.lock().await;
                for _ in 0..USES {
                    *black_box(&mut *count) += 1;
                }
                // The other tasks come to the queue while it is held.
                tasuki_rt::yield_now().await;
                drop(count);
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
    for task in tasks {
        task.await.expect("it does not panic");
    }
    assert_eq!(*mutex.lock().await, each * TASKS * USES);
    each * TASKS
}

/// Two tasks that are polled by hand. Each poll of a pair: claims the mutex and yields; releases it, which grants it to the other, and enqueues again.
pub(crate) fn wait_grant(ops: u64) -> u64 {
    let mutex = Mutex::new(0_u64);
    let each = ops.div_ceil(2);
    let turns = || async {
        for _ in 0..each {
            let mut count = black_box(&mutex).lock().await;
            *count += 1;
            let mut has_yielded = false;
            poll_fn(
                |_| if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending },
            )
            .await;
        }
    };
    let (one, two) = (pin!(tasuki::task::identify(turns())), pin!(tasuki::task::identify(turns())));
    let mut tasks: [Pin<&mut dyn Future<Output = ()>>; 2] = [one, two];
    let mut cx = Context::from_waker(Waker::noop());
    let mut left = vec![0, 1];
    for poll in 0.. {
        let Some(&task) = left.get(poll / 2 % left.len().max(1)) else { break };
        if tasks[task].as_mut().poll(&mut cx).is_ready() {
            left.retain(|one| *one != task);
        }
    }
    assert_eq!(mutex.try_lock().as_deref(), Some(&(2 * each)));
    2 * each
}
