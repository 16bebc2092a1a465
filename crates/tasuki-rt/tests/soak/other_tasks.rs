//! What a task does to other tasks: spawns, joins and aborts them, shares a mutex of its event loop with them, blocks a thread, posts closures, and keeps wakers.

use crate::kit::rng::Rng;
use crate::ops::{dwell, short};
use crate::shared_state::{Pair, Posted, SharedState};
use crate::task_log::Chaos;
use crate::tasks::{Kind, spawn_task};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Poll;
use tasuki_rt::{EventLoop, JoinSet, LoopMutex, spawn_blocking, spawn_local, timeout};

pub(crate) fn offspring(shared: &Arc<SharedState>, rng: &mut Rng, depth: u8) {
    if depth > 0 {
        let handle = spawn_task(None, shared, Kind::pick(rng), rng.next(), depth - 1, None);
        if rng.per_mille(700) {
            shared.keep(handle, rng.below(256));
        }
    }
}

pub(crate) async fn join(shared: &SharedState, rng: &mut Rng) {
    let Some(mut handle) = shared.take(rng.below(256)) else { return };
    if rng.per_mille(400) {
        handle.abort();
    }
    // Two tasks may wait for each other: not for ever.
    match timeout(short(rng), &mut handle).await {
        Ok(result) => shared.judge(result),
        Err(_) => shared.keep(handle, rng.below(256)),
    }
}

pub(crate) async fn set(shared: &Arc<SharedState>, rng: &mut Rng) {
    let mut set = JoinSet::new();
    let count = 1 + rng.below(6);
    for _ in 0..count {
        set.insert(spawn_task(None, shared, Kind::pick(rng), rng.next(), 0, None));
    }
    match rng.below(4) {
        0 => return,
        1 => set.abort_all(),
        2 => return set.detach_all(),
        _ => {}
    }
    let mut joined = 0;
    while let Some(result) = set.join_next().await {
        shared.judge(result);
        joined += 1;
    }
    assert_eq!(joined, count);
}

/// A mutex of the loop, shared by tasks that are not `Send`.
pub(crate) async fn at_home(rng: &mut Rng) {
    let seeds = [rng.next(), rng.next(), rng.next()];
    let family = move || async move {
        let (mutex, added) = (Rc::new(LoopMutex::new(Pair::default())), Rc::new(AtomicU64::new(0)));
        let children = seeds.map(|seed| {
            let (mutex, added, mut rng) = (mutex.clone(), added.clone(), Rng::new(seed));
            spawn_local(async move {
                for _ in 0..5 {
                    let mut guard = mutex.lock().await.expect("on an event loop");
                    let before = guard.read();
                    dwell(&mut rng).await;
                    assert_eq!(guard.read(), before);
                    guard.add(&added);
                }
            })
        });
        for child in children {
            drop(child.await);
        }
        let pair = Rc::try_unwrap(mutex).expect("the children are gone").into_inner();
        assert_eq!(pair.read(), added.load(SeqCst));
    };
    let here = EventLoop::current().expect("a task runs on a loop").id();
    let mut set = JoinSet::new();
    set.spawn_on(here, family);
    while set.join_next().await.is_some() {}
}

pub(crate) async fn blocking(shared: &Arc<SharedState>, rng: &mut Rng) {
    let ticket = shared.log.open("blocking", false);
    let (shared, patience) = (shared.clone(), short(rng));
    let work = spawn_blocking(move || {
        let mut guard = shared.fifo.lock().block();
        guard.read();
        std::thread::sleep(patience / 20);
        guard.add(&shared.added[0]);
        drop(guard);
        ticket.finish()
    });
    if rng.per_mille(800) {
        drop(work.await);
    }
}

pub(crate) async fn meddle(shared: &Arc<SharedState>, rng: &mut Rng) {
    match rng.below(6) {
        0 | 1 => {
            let posted = Posted(shared.clone());
            shared.posts.fetch_add(1, SeqCst);
            // Refused or run, it is dropped.
            let _ = EventLoop::current().expect("a task runs on a loop").post(move || drop(posted));
        }
        2 | 3 => shared.keep_waker(poll_fn(|cx| Poll::Ready(cx.waker().clone())).await),
        4 => {
            if let Some(handle) = shared.take(rng.below(256)) {
                handle.abort();
            }
        }
        _ => std::panic::resume_unwind(Box::new(Chaos)),
    }
}
