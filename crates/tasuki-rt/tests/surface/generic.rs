//! Every operation is `Send` where it must be: awaited by what is generic over futures, inside a task that moves. The compiler forgets
//! lifetimes in suspended futures; an operation whose type mentions one twice would not compile here.

use crate::kit::{runtime, watchdog};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tasuki::policy::{Bypass, Lifo};
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, Mutex, MutexGuard, OnceCell, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard, Semaphore, WaitGroup,
};
use tasuki_rt::{timeout, yield_now};

const LONG: Duration = Duration::from_secs(60);

/// Three ways in which generic code holds a future and its output across an await.
async fn every_way<F: Future>(mut future: impl FnMut() -> F) {
    // Polled by hand, the output kept.
    {
        let mut once = pin!(future());
        let poll = poll_fn(|cx| Poll::Ready(once.as_mut().poll(cx))).await;
        yield_now().await;
        drop(poll);
    }
    // Passed on, and held while something else is awaited.
    let output = timeout(LONG, async { future().await }).await;
    yield_now().await;
    drop(output);
}

#[derive(Default)]
struct All {
    mutex: Mutex<u8>,
    lifo: Mutex<u8, Lifo>,
    bypass: Mutex<u8, Bypass>,
    rwlock: RwLock<u8>,
    event: Event,
    condvar: Condvar,
    group: WaitGroup,
    once: OnceCell<u8>,
    nested: ReentrantMutex<u8>,
    source: CancellationSource,
}

#[test]
fn operations_can_be_awaited_by_generic_code_in_tasks() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let all = Arc::new(All::default());
    all.event.set();
    let all_too = all.clone();
    let locks = runtime.spawn(async move {
        let all = &*all_too;
        let token = all.source.token();
        every_way(|| all.mutex.lock()).await;
        every_way(|| all.lifo.lock()).await;
        every_way(|| all.bypass.lock()).await;
        every_way(|| all_too.rwlock.read()).await;
        every_way(|| all.rwlock.write()).await;
        every_way(|| all.rwlock.upgradable_read()).await;
        every_way(|| all.nested.lock()).await;
        every_way(|| all.rwlock.read().timeout(LONG)).await;
        every_way(|| all.rwlock.write().or_cancelled(&token)).await;
        every_way(|| all.mutex.lock().or_cancelled(&token).timeout(LONG)).await;
        every_way(|| async { RwLockUpgradableReadGuard::upgrade(all.rwlock.upgradable_read().await).await })
            .await;
        every_way(|| RwLockUpgradableReadGuard::upgrade(all.rwlock.try_upgradable_read().unwrap())).await;
        every_way(|| MutexGuard::hand_off(all.mutex.try_lock().unwrap())).await;
        every_way(|| all.condvar.wait(all.mutex.try_lock().unwrap()).timeout(Duration::ZERO)).await;
        every_way(|| all.condvar.wait_while(all.mutex.try_lock().unwrap(), |_| false)).await;
        // Held over another await, with the guard in a tuple, as `join!` would.
        let (reader, other) =
            (timeout(LONG, all.rwlock.read()).await, timeout(LONG, all.rwlock.read()).await);
        yield_now().await;
        drop((reader, other));
    });
    let signals = runtime.spawn(async move {
        let (semaphore, latch, barrier) = (Semaphore::new(2), Latch::new(0), Barrier::new(1));
        every_way(|| semaphore.acquire()).await;
        every_way(|| semaphore.acquire_many(2).timeout(LONG)).await;
        every_way(|| latch.wait()).await;
        every_way(|| barrier.arrive_and_wait()).await;
        every_way(|| all.group.wait()).await;
        every_way(|| all.once.get_or_init(|| async { 1 })).await;
        every_way(|| all.once.get_or_try_init(|| async { Ok::<_, ()>(1) })).await;
        every_way(|| all.once.wait()).await;
        every_way(|| all.event.wait().timeout(Duration::ZERO)).await;
        all.source.request_cancel();
        let token = all.source.token();
        every_way(|| token.on_cancel()).await;
        every_way(|| token.run_until_cancelled(yield_now())).await;
        let shared = Arc::new((Mutex::new(1), RwLock::new(1)));
        let (mutex, rwlock) = (Arc::new(Mutex::new(1)), Arc::new(RwLock::new(1)));
        every_way(|| mutex.clone().lock_owned()).await;
        every_way(|| rwlock.clone().read_owned()).await;
        every_way(|| rwlock.clone().write_owned()).await;
        every_way(|| async { (shared.0.lock().await, shared.1.read().await) }).await;
    });
    runtime.block_on(async {
        locks.await.unwrap();
        signals.await.unwrap();
    });
}
