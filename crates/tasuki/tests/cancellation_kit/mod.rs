//! How many nodes of cancellation trees exist: an allocator that knows the size of a node and counts such blocks.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use tasuki::CancellationSource;

/// The size of a node's block; found by [`measure`].
static NODE: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Blocks of that size, of all threads.
static EVERYWHERE: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// Blocks of that size: made on this thread, minus freed on it.
    static HERE: Cell<isize> = const { Cell::new(0) };
    /// Bytes: as above.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static LAST_SIZE: Cell<usize> = const { Cell::new(0) };
}

#[derive(Debug)]
pub(crate) struct Nodes;

fn count(layout: Layout, by: isize) {
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + by * layout.size() as isize));
    // Relaxed: statistics, read when the threads are joined.
    if layout.size() == NODE.load(Relaxed) {
        EVERYWHERE.fetch_add(by, Relaxed);
        let _ = HERE.try_with(|here| here.set(here.get() + by));
    }
}

// SAFETY: everything is done by the system's allocator.
unsafe impl GlobalAlloc for Nodes {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LAST_SIZE.try_with(|last| last.set(layout.size()));
        count(layout, 1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Finds the size of a node. Every test of the binary calls it first, so that all nodes count.
pub(crate) fn measure() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        drop(CancellationSource::new());
        let size = LAST_SIZE.with(Cell::get);
        NODE.store(size, Relaxed);
        size
    })
}

pub(crate) fn nodes_here() -> isize {
    HERE.with(Cell::get)
}

pub(crate) fn nodes_everywhere() -> isize {
    EVERYWHERE.load(Relaxed)
}

pub(crate) fn bytes_here() -> isize {
    BYTES.with(Cell::get)
}
