//! The allocator of the test programs. It counts what each thread allocates, for tests that must not allocate, and the nodes of
//! cancellation trees: blocks of a node's size, which [`measure`] finds. A program that uses it says
//! `#[global_allocator] static ALLOCATOR: Counting = Counting;`.

use super::poll::pending;
use super::waker::Spy;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::pin::Pin;
use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, Once, OnceLock};
use tasuki::CancellationSource;

/// The size of a node's block; found by [`measure`].
static NODE: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Blocks of that size, of all threads.
static NODES: AtomicIsize = AtomicIsize::new(0);

/// What one thread did: the test harness and other tests allocate on others.
struct Counts {
    allocations: Cell<usize>,
    /// Bytes: made minus freed.
    bytes: Cell<isize>,
    /// Blocks of a node's size: made minus freed.
    nodes: Cell<isize>,
    last_size: Cell<usize>,
}

thread_local! {
    static HERE: Counts = const {
        Counts { allocations: Cell::new(0), bytes: Cell::new(0), nodes: Cell::new(0), last_size: Cell::new(0) }
    };
}

#[derive(Debug)]
pub(crate) struct Counting;

/// A block appears (`by` is 1) or goes (-1).
fn count(size: usize, by: isize) {
    // Relaxed: statistics, read when the threads are joined.
    let nodes = if size == NODE.load(Relaxed) { by } else { 0 };
    if nodes != 0 {
        NODES.fetch_add(nodes, Relaxed);
    }
    let _ = HERE.try_with(|here| {
        if by > 0 {
            here.allocations.set(here.allocations.get() + 1);
            here.last_size.set(size);
        }
        here.bytes.set(here.bytes.get() + by * size as isize);
        here.nodes.set(here.nodes.get() + nodes);
    });
}

// SAFETY: everything is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// A wait for a lock, queued for as long as the program runs. Where `inspect` is active, the first wait starts its thread, and one that comes when that thread has ended starts another: with a wait that stays there is
/// a thread, and it does not end. So what is counted does not depend on the tests that ran before.
fn keep_watched() {
    static QUEUED: Once = Once::new();
    QUEUED.call_once(|| {
        let mutex = leak(tasuki::Mutex::new(()));
        std::mem::forget(mutex.try_lock());
        let mut wait = Box::pin(mutex.lock());
        pending(&mut wait, leak(Spy::new()));
        forget(wait);
    });
}

/// How many allocations this thread makes in the call.
pub(crate) fn allocations<R>(call: impl FnOnce() -> R) -> (usize, R) {
    keep_watched();
    let before = HERE.with(|here| here.allocations.get());
    let output = call();
    (HERE.with(|here| here.allocations.get()) - before, output)
}

/// Finds the size of a node. Every test that counts nodes calls it first, so that all of its nodes count.
pub(crate) fn measure() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        drop(CancellationSource::new());
        let size = HERE.with(|here| here.last_size.get());
        NODE.store(size, Relaxed);
        size
    })
}

/// Nodes: made on this thread, minus freed on it.
pub(crate) fn nodes_here() -> isize {
    HERE.with(|here| here.nodes.get())
}

/// Nodes of all threads.
pub(crate) fn nodes_everywhere() -> isize {
    NODES.load(Relaxed)
}

/// Bytes: made on this thread, minus freed on it.
pub(crate) fn bytes_here() -> isize {
    HERE.with(|here| here.bytes.get())
}

/// What tests forget on purpose: reachable from here, so that Miri does not take it for a leak of ours.
static FORGOTTEN: Mutex<Vec<AtomicPtr<()>>> = Mutex::new(Vec::new());

/// Forgets a boxed future.
pub(crate) fn forget<F>(future: Pin<Box<F>>) {
    let place = (&raw const *future).cast_mut().cast();
    FORGOTTEN.lock().unwrap().push(AtomicPtr::new(place));
    std::mem::forget(future);
}

/// A value that lives as long as the program.
pub(crate) fn leak<T>(value: T) -> &'static T {
    let leaked: *mut T = Box::into_raw(Box::new(value));
    FORGOTTEN.lock().unwrap().push(AtomicPtr::new(leaked.cast()));
    // SAFETY: it is not freed.
    unsafe { &*leaked }
}
