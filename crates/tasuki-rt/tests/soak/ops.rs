//! What a task does: one step after the other, at random. What it does to other tasks is in `other_tasks.rs`.

use crate::kit::rng::Rng;
use crate::other_tasks;
use crate::shared_state::{Pair, Seated, SharedState};
use crate::task_log::{Chaos, Ticket};
use crate::tasks::{Kind, spawn_task};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;
use tasuki::policy::{Policy, SemaphorePolicy};
use tasuki::{
    Barrier, Latch, Mutex, MutexGuard, ReentrantMutexGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
    Semaphore, WaitGroup,
};
use tasuki_rt::{JoinSet, checkpoint, interval, sleep, timeout, yield_now};

pub(crate) const NAMES: [&str; 25] = [
    "mutex fifo",
    "mutex lifo",
    "mutex bypass",
    "read",
    "write",
    "upgrade",
    "semaphore",
    "semaphore bypass",
    "auto event",
    "manual event",
    "condvar",
    "once cell",
    "reentrant mutex",
    "wait group",
    "barrier and latch",
    "child token",
    "time",
    "yield",
    "spawn",
    "join",
    "join set",
    "loop mutex",
    "blocking",
    "post and meddle",
    "sockets",
];

/// Micro- to milliseconds.
pub(crate) fn short(rng: &mut Rng) -> Duration {
    Duration::from_micros(rng.next() % 2_000)
}

/// What is done while something is held.
pub(crate) async fn dwell(rng: &mut Rng) {
    match rng.below(8) {
        0 => sleep(short(rng)).await,
        1..=3 => yield_now().await,
        4 if rng.per_mille(30) => std::panic::resume_unwind(Box::new(Chaos)),
        _ => {}
    }
}

/// Polls once and drops: a place in a queue that is given up, perhaps just when it is served.
pub(crate) async fn glance<F: Future>(future: F, rng: &mut Rng) {
    let mut future = pin!(future);
    poll_fn(|cx| {
        drop(future.as_mut().poll(cx));
        Poll::Ready(())
    })
    .await;
    if rng.per_mille(500) {
        yield_now().await;
    }
}

pub(crate) async fn step(shared: &Arc<SharedState>, rng: &mut Rng, ticket: &Ticket, depth: u8) {
    let what = rng.below(NAMES.len());
    ticket.step(what);
    match what {
        0 => hold(shared, &shared.fifo, &shared.added[0], rng).await,
        1 => hold(shared, &shared.lifo, &shared.added[1], rng).await,
        2 => hold(shared, &shared.bypass, &shared.added[2], rng).await,
        3..=5 => read_or_write(shared, what, rng).await,
        6 => sit(shared, &shared.seats.fifo, &shared.seated[0], rng).await,
        7 => sit(shared, &shared.seats.bypass, &shared.seated[1], rng).await,
        8 | 9 => signal(shared, what, rng).await,
        10 => basket(shared, rng).await,
        11 => once(shared, rng).await,
        12 => nest(shared, rng).await,
        13 => group(shared, rng, depth).await,
        14 => meet(rng).await,
        15 => token(shared, rng).await,
        16 => time(rng).await,
        17 => {
            if rng.per_mille(500) {
                yield_now().await
            } else {
                checkpoint().await
            }
        }
        18 => other_tasks::offspring(shared, rng, depth),
        19 => other_tasks::join(shared, rng).await,
        20 => other_tasks::set(shared, rng).await,
        21 => other_tasks::at_home(rng).await,
        22 => other_tasks::blocking(shared, rng).await,
        23 => other_tasks::meddle(shared, rng).await,
        #[cfg(feature = "net")]
        _ => crate::sockets::converse(shared, rng).await,
        #[cfg(not(feature = "net"))]
        _ => yield_now().await,
    }
}

async fn hold<P: Policy>(shared: &SharedState, mutex: &Mutex<Pair, P>, added: &AtomicU64, rng: &mut Rng) {
    let guard = match rng.below(10) {
        0 => mutex.try_lock(),
        1 => mutex.lock().timeout(short(rng)).await.ok(),
        2 => mutex.lock().or_cancelled(&shared.stop.token()).await.ok(),
        3 => return glance(mutex.lock(), rng).await,
        _ => Some(mutex.lock().await),
    };
    let Some(mut guard) = guard else { return };
    let before = guard.read();
    dwell(rng).await;
    assert_eq!(guard.read(), before);
    guard.add(added);
    if rng.per_mille(300) {
        MutexGuard::hand_off(guard).await;
    }
}

async fn read_or_write(shared: &SharedState, what: usize, rng: &mut Rng) {
    let (lock, added) = (&shared.rwlock, &shared.added[3]);
    match (what, rng.below(4)) {
        (3, 0) => glance(lock.read(), rng).await,
        (3, _) => {
            let Ok(guard) = lock.read().timeout(short(rng)).await else { return };
            let before = guard.read();
            dwell(rng).await;
            assert_eq!(guard.read(), before);
        }
        (4, 0) => glance(lock.write(), rng).await,
        (4, _) => {
            let mut guard = lock.write().await;
            let before = guard.read();
            dwell(rng).await;
            assert_eq!(guard.read(), before);
            guard.add(added);
            let reader = RwLockWriteGuard::downgrade(guard);
            assert_eq!(reader.read(), before + 1);
        }
        (_, way) => {
            let guard = lock.upgradable_read().await;
            let before = guard.read();
            dwell(rng).await;
            let mut guard = match way {
                0 => return glance(RwLockUpgradableReadGuard::upgrade(guard), rng).await,
                1 => match RwLockUpgradableReadGuard::try_upgrade(guard) {
                    Ok(guard) => guard,
                    Err(_) => return,
                },
                _ => RwLockUpgradableReadGuard::upgrade(guard).await,
            };
            assert_eq!(guard.read(), before, "a writer slipped into an upgrade");
            guard.add(added);
        }
    }
}

async fn sit<P: SemaphorePolicy>(
    shared: &SharedState,
    seats: &Semaphore<P>,
    inside: &AtomicUsize,
    rng: &mut Rng,
) {
    let count = 1 + rng.below(4);
    let permit = match rng.below(6) {
        0 => return glance(seats.acquire_many(count), rng).await,
        1 => seats.try_acquire_many(count).ok(),
        2 => seats.acquire_many(count).timeout(short(rng)).await.ok().and_then(Result::ok),
        3 => seats.acquire_many(count).or_cancelled(&shared.stop.token()).await.ok().and_then(Result::ok),
        _ => seats.acquire_many(count).await.ok(),
    };
    let Some(mut permit) = permit else { return };
    // Dropped before the permit.
    let _seated = Seated::new(inside, count);
    dwell(rng).await;
    if count > 1 && rng.per_mille(500) {
        let half = permit.split(1).expect("there are more");
        permit.merge(half);
    }
}

async fn signal(shared: &SharedState, what: usize, rng: &mut Rng) {
    match (what, rng.below(3)) {
        (8, 0) => {
            shared.auto_set.fetch_add(1, SeqCst);
            shared.auto.set();
        }
        (8, _) => {
            if shared.auto.wait().timeout(short(rng)).await.is_ok() {
                shared.auto_seen.fetch_add(1, SeqCst);
            }
        }
        (_, 0) => {
            shared.manual.set();
            shared.manual.reset();
        }
        (_, 1) => drop(shared.manual.wait().timeout(short(rng)).await),
        // Another task sets it, or all is over.
        _ => drop(shared.manual.wait().or_cancelled(&shared.stop.token()).timeout(10 * short(rng)).await),
    }
}

async fn basket(shared: &SharedState, rng: &mut Rng) {
    if rng.per_mille(450) {
        let mut basket = shared.basket.lock().await;
        basket.push_back(rng.next());
        shared.put.fetch_add(1, SeqCst);
        drop(basket);
        if rng.per_mille(800) {
            shared.filled.notify_one()
        } else {
            shared.filled.notify_all()
        }
        return;
    }
    let basket = shared.basket.lock().await;
    let wait = shared.filled.wait_while(basket, |basket| basket.is_empty());
    if let Ok(mut basket) = wait.timeout(short(rng)).await {
        assert!(basket.pop_front().is_some(), "woken without cause");
        shared.taken.fetch_add(1, SeqCst);
    }
}

async fn once(shared: &SharedState, rng: &mut Rng) {
    let lucky = rng.per_mille(20);
    let value = shared.once.get_or_try_init(|| async {
        yield_now().await;
        if !lucky {
            return Err(());
        }
        shared.inits.fetch_add(1, SeqCst);
        Ok(7)
    });
    assert!(value.await.is_ok_and(|value| *value == 7) || !lucky);
}

async fn nest(shared: &SharedState, rng: &mut Rng) {
    let outer = shared.nested.lock().await.expect("tasks have an identity");
    let before = outer.load(SeqCst);
    dwell(rng).await;
    let inner = shared.nested.lock().await.expect("tasks have an identity");
    assert_eq!((ReentrantMutexGuard::depth(&inner), outer.load(SeqCst)), (2, before));
    inner.fetch_add(1, SeqCst);
}

async fn group(shared: &Arc<SharedState>, rng: &mut Rng, depth: u8) {
    if depth == 0 {
        return;
    }
    let (group, done) = (Arc::new(WaitGroup::new()), Arc::new(AtomicUsize::new(0)));
    let count = 1 + rng.below(4);
    for _ in 0..count {
        let member = group.clone().member_owned();
        let done = done.clone();
        let end = move || {
            done.fetch_add(1, SeqCst);
            drop(member);
        };
        let handle = spawn_task(None, shared, Kind::pick(rng), rng.next(), depth - 1, Some(Box::new(end)));
        shared.keep(handle, rng.below(256));
    }
    group.wait().await;
    assert_eq!(done.load(SeqCst), count, "released before all were done");
}

async fn meet(rng: &mut Rng) {
    let (barrier, latch) = (Arc::new(Barrier::new(3)), Arc::new(Latch::new(3)));
    let leaders = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    for _ in 0..3 {
        let (barrier, latch, leaders, patience) =
            (barrier.clone(), latch.clone(), leaders.clone(), short(rng));
        set.spawn(async move {
            for _ in 0..4 {
                let arrival = barrier.arrive_and_wait().timeout(patience + Duration::from_millis(5)).await;
                leaders.fetch_add(usize::from(arrival.is_ok_and(|arrival| arrival.is_leader())), SeqCst);
            }
            latch.count_down();
            latch.wait().await;
        });
    }
    latch.wait().await;
    while set.join_next().await.is_some() {}
    assert!(leaders.load(SeqCst) <= 4);
}

async fn token(shared: &SharedState, rng: &mut Rng) {
    let child = shared.stop.child();
    let grandchild = child.token().child();
    let patience = short(rng);
    let token = grandchild.token();
    let mut waits = pin!(token.run_until_cancelled(sleep(patience)));
    if poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx).is_ready())).await {
        return;
    }
    if rng.per_mille(500) {
        child.cancel_with("enough");
        assert!(token.stop_requested());
    }
    drop(child);
    waits.await;
}

async fn time(rng: &mut Rng) {
    match rng.below(4) {
        0 => sleep(10 * short(rng)).await,
        1 => drop(timeout(short(rng), sleep(short(rng))).await),
        2 => glance(sleep(Duration::from_secs(3600)), rng).await,
        _ => {
            let mut interval = interval(Duration::from_micros(500));
            for _ in 0..3 {
                interval.tick().await;
            }
        }
    }
}
