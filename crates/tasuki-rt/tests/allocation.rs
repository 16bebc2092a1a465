//! To create may allocate: a task, a posted closure, a set's member. To wait, to wake, to yield and to cancel does not, the first
//! wait of a task included.
//!
//! The workers are held by a closure while everything is created, then counted from the first poll to the end of the last task; so are
//! the foreign threads that wake.

mod kit;

use kit::{runtime, scaled, until, watchdog};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use tasuki::Barrier;
use tasuki_rt::{EventLoop, JoinHandle, Runtime, yield_now};

/// Counts what the observed threads ask for.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);
thread_local!(static OBSERVED: Cell<bool> = const { Cell::new(false) });

// SAFETY: all is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(usize::from(OBSERVED.get()), Ordering::SeqCst);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.fetch_add(usize::from(OBSERVED.get()), Ordering::SeqCst);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A runtime whose workers can be held.
struct Lab {
    runtime: Runtime,
    loops: Vec<EventLoop>,
}

impl Lab {
    fn new(workers: usize) -> Self {
        let runtime = runtime(workers);
        let mut loops = Vec::new();
        runtime.for_each_worker(|worker| {
            let here = runtime.spawn_on(worker, || async { EventLoop::current().expect("a worker") });
            loops.push(runtime.block_on(here).expect("no panic"));
        });
        Self { runtime, loops }
    }

    /// What all observed threads ask for, from the first poll of the tasks that `create` spawns to the end of the last one.
    fn allocations(&self, create: impl FnOnce(&Runtime) -> Vec<JoinHandle<()>>) -> usize {
        let go = Arc::new(AtomicBool::new(false));
        let held = Arc::new(AtomicUsize::new(0));
        for here in &self.loops {
            let (go, held) = (go.clone(), held.clone());
            let hold = move || {
                held.fetch_add(1, Ordering::SeqCst);
                while !go.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                OBSERVED.set(true);
            };
            here.post(hold).expect("the loop runs");
        }
        until(|| held.load(Ordering::SeqCst) == self.loops.len());
        let tasks = create(&self.runtime);
        ASKED.store(0, Ordering::SeqCst);
        go.store(true, Ordering::SeqCst);
        until(|| tasks.iter().all(JoinHandle::is_finished));
        let asked = ASKED.load(Ordering::SeqCst);
        for here in &self.loops {
            here.post(|| OBSERVED.set(false)).expect("the loop runs");
        }
        tasks.into_iter().for_each(|task| self.runtime.block_on(task).expect("no panic"));
        asked
    }
}

/// On one worker and on two: so many tasks do this.
fn never_allocates<F: Future<Output = ()> + Send + 'static>(
    what: &str,
    tasks: usize,
    mut make: impl FnMut(usize) -> F,
) {
    for workers in [1, 2] {
        let lab = Lab::new(workers);
        let asked = lab.allocations(|runtime| (0..tasks).map(|n| runtime.spawn(make(n))).collect());
        assert_eq!(asked, 0, "{what}: {workers} workers");
    }
}

#[test]
fn parties_of_a_barrier() {
    const PARTIES: usize = scaled(100, 4);
    let _dog = watchdog(60);
    let barrier = Arc::new(Barrier::new(PARTIES));
    never_allocates("barrier", PARTIES, |_| {
        let barrier = barrier.clone();
        async move {
            for _ in 0..scaled(50, 3) {
                barrier.arrive_and_wait().await;
                yield_now().await;
            }
        }
    });
}
