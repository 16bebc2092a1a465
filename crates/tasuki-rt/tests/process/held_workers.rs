//! A runtime whose workers are held while tasks are created, and that counts what is allocated from their first poll to their end.

use crate::kit::alloc::{asked, observe};
use crate::kit::{runtime, scaled, until};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use tasuki_rt::{EventLoop, JoinHandle, Runtime, WorkerId};

/// A runtime whose workers can be held. One at a time: they share the count.
pub(crate) struct HeldRuntime {
    pub(crate) runtime: Runtime,
    loops: Vec<EventLoop>,
    _alone: std::sync::MutexGuard<'static, ()>,
}

impl HeldRuntime {
    pub(crate) fn new(workers: usize) -> Self {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let runtime = runtime(workers);
        let mut loops = Vec::new();
        runtime.for_each_worker(|worker| {
            let here = runtime.spawn_on(worker, || async { EventLoop::current().expect("a worker") });
            loops.push(runtime.block_on(here).expect("no panic"));
        });
        Self { runtime, loops, _alone }
    }

    /// What all observed threads ask for, from the first poll of the tasks that `create` spawns to the end of the last one.
    pub(crate) fn allocations(&self, create: impl FnOnce(&Runtime) -> Vec<JoinHandle<()>>) -> usize {
        let go = Arc::new(AtomicBool::new(false));
        let held = Arc::new(AtomicUsize::new(0));
        for here in &self.loops {
            let (go, held) = (go.clone(), held.clone());
            let hold = move || {
                held.fetch_add(1, Ordering::SeqCst);
                while !go.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                observe(true);
            };
            here.post(hold).expect("the loop runs");
        }
        until(|| held.load(Ordering::SeqCst) == self.loops.len());
        let tasks = create(&self.runtime);
        let before = asked();
        go.store(true, Ordering::SeqCst);
        until(|| tasks.iter().all(JoinHandle::is_finished));
        let asked = asked() - before;
        for here in &self.loops {
            here.post(|| observe(false)).expect("the loop runs");
        }
        tasks.into_iter().for_each(|task| self.runtime.block_on(task).expect("no panic"));
        asked
    }
}

/// How many tasks meet.
pub(crate) const CROWD: usize = scaled(64, 4);

pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// On one worker and on two, by tasks of any worker and by pinned ones. `create` gives what the tasks do; it may spawn others.
pub(crate) fn never_allocates(what: &str, create: impl Fn(&Runtime) -> Vec<Work>) {
    for (workers, pinned) in [(1, false), (2, false), (1, true), (2, true)] {
        let held = HeldRuntime::new(workers);
        let asked = held.allocations(|runtime| {
            let spawn = |(n, work): (usize, Work)| {
                if pinned {
                    runtime.spawn_on(WorkerId::new(n % workers), move || work)
                } else {
                    runtime.spawn(work)
                }
            };
            create(runtime).into_iter().enumerate().map(spawn).collect()
        });
        assert_none(asked, &format!("{what}, {workers} workers, pinned: {pinned}"));
    }
}

/// Debug builds keep the wait-for graph: the first wait starts its thread, and a crowd needs more records. The run without it counts.
pub(crate) fn assert_none(asked: usize, what: &str) {
    assert!(asked == 0 || cfg!(debug_assertions), "{what}: {asked} times");
}

/// A crowd of tasks that share something, each with a number.
pub(crate) fn crowd<T, F>(shared: T, mut work: impl FnMut(Arc<T>, usize) -> F) -> Vec<Work>
where
    F: Future<Output = ()> + Send + 'static,
{
    let shared = Arc::new(shared);
    (0..CROWD).map(|n| Box::pin(work(shared.clone(), n)) as Work).collect()
}
