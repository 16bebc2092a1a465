//! What a crowd of tasks leaves behind when it has gone: nothing. Alone in its binary, because it counts every byte of the process.

mod kit;

use kit::{runtime, scaled, until, watchdog};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tasuki::Event;
use tasuki_rt::{Runtime, WorkerId, spawn};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::SeqCst);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// So many tasks wait at once, spawned from outside, inside, or pinned; then all are woken at once, and end.
fn crowd(runtime: &Runtime, tasks: usize, kind: usize) {
    let shared = Arc::new((Event::manual(), AtomicUsize::new(0)));
    let waits = {
        let shared = shared.clone();
        move || {
            let shared = shared.clone();
            async move {
                shared.1.fetch_add(1, Ordering::SeqCst);
                shared.0.wait().await;
            }
        }
    };
    match kind {
        0 => (0..tasks).for_each(|_| drop(runtime.spawn(waits()))),
        1 => (0..tasks).for_each(|n| drop(runtime.spawn_on(WorkerId::new(n % 2), waits.clone()))),
        _ => drop(runtime.spawn(async move { (0..tasks).for_each(|_| drop(spawn(waits()))) })),
    }
    until(|| shared.1.load(Ordering::SeqCst) == tasks);
    shared.0.set();
    until(|| runtime.tasks() == 0);
}

#[test]
fn memory_is_given_back_when_a_crowd_has_left() {
    const TASKS: usize = scaled(100_000, 50);
    let _dog = watchdog(300);
    let runtime = runtime(2);
    runtime.start().unwrap();
    // What threads allocate once.
    (0..3).for_each(|kind| crowd(&runtime, 10, kind));
    let before = LIVE.load(Ordering::SeqCst);
    for round in 0..scaled(6, 3) {
        crowd(&runtime, TASKS, round % 3);
        // A cell is freed just after its task has ended.
        until(|| LIVE.load(Ordering::SeqCst) <= before);
    }
}
