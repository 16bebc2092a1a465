//! A global allocator that counts, when asked to.
//!
//! Off by default: then it costs one relaxed load, so that peers that allocate are not charged for
//! being watched. The harness turns it on for one extra, untimed sample of each subject.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// How many want allocations counted.
static COUNTING: AtomicUsize = AtomicUsize::new(0);
/// Allocations counted so far, by all threads.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes asked for less bytes given back while counting, by all threads.
static BYTES: AtomicI64 = AtomicI64::new(0);

/// The same two, by the workers of the tour alone.
static CREW_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static CREW_BYTES: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// Whether this thread is a worker of the tour.
    static ENLISTED: Cell<bool> = const { Cell::new(false) };
    /// Allocations counted so far, by this thread.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator behind a counter.
pub(crate) struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        give_back(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

/// Counts one allocation; Relaxed throughout: a number to read after joining, publishing nothing.
#[inline]
fn count(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) > 0 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        OWN.set(OWN.get() + 1);
        if ENLISTED.get() {
            CREW_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            CREW_BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// Counts what is given back; Relaxed as above.
#[inline]
fn give_back(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) > 0 {
        BYTES.fetch_sub(bytes, Ordering::Relaxed);
        if ENLISTED.get() {
            CREW_BYTES.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Runs `work` with allocations counted.
pub(crate) fn counting<T>(work: impl FnOnce() -> T) -> T {
    let _watch = Watch::start();
    work()
}

/// Allocations are counted while it exists.
pub(crate) struct Watch(());

impl Watch {
    /// Begins to count.
    pub(crate) fn start() -> Watch {
        COUNTING.fetch_add(1, Ordering::Relaxed);
        Watch(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        COUNTING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many allocations were counted so far, in all threads.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// How many allocations were counted so far, in this thread.
pub(crate) fn own_allocations() -> u64 {
    OWN.get()
}

/// By how many bytes the heap grew so far, in all threads, while allocations were counted.
pub(crate) fn live_bytes() -> i64 {
    BYTES.load(Ordering::Relaxed)
}

/// Makes this thread a worker of the tour: its allocations are counted apart.
pub(crate) fn enlist() {
    ENLISTED.set(true);
}

/// How many allocations of these workers were counted so far, and by how many bytes they made the heap grow.
pub(crate) fn of_workers() -> (u64, i64) {
    (CREW_ALLOCATIONS.load(Ordering::Relaxed), CREW_BYTES.load(Ordering::Relaxed))
}

/// Resident memory of this process in bytes, where the system tells.
pub(crate) fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
