//! The allocator of the tests that count what a process allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts the bytes that are allocated now, and how often the observed threads ask for memory.
#[derive(Debug)]
pub(crate) struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);
thread_local!(static OBSERVED: Cell<bool> = const { Cell::new(false) });

fn ask() {
    ASKED.fetch_add(usize::from(OBSERVED.get()), SeqCst);
}

// SAFETY: all is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ask();
        LIVE.fetch_add(layout.size(), SeqCst);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ask();
        LIVE.fetch_add(size, SeqCst);
        LIVE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Bytes of the whole process.
pub(crate) fn live() -> usize {
    LIVE.load(SeqCst)
}

/// Is this thread observed from now on?
pub(crate) fn observe(observed: bool) {
    OBSERVED.set(observed);
}

/// How often the observed threads have asked for memory.
pub(crate) fn asked() -> usize {
    ASKED.load(SeqCst)
}
