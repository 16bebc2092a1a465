//! Memory: an allocator that counts, and how much a lock and a wait take.
//!
//! Records of locks and waits are in static memory first, and then in blocks that double their number. So what is counted begins where the static memory ends and ends where a block is nearly full;
//! in between there is up to twice as much.

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};
use tasuki::Mutex;

/// How many records of locks, and of waits beside the first of their tasks, are in static memory.
const STATIC_LOCKS: usize = 1_024;
const STATIC_WAITS: usize = 4_096;
/// How many times as many there are when the last block is full.
const BLOCKS: usize = 16;
/// For the runtime's own.
const SPARE: usize = 64;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// The system's allocator behind two counters. Relaxed throughout: numbers to look at.
pub(crate) struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Bytes of each of the items that `make` makes after the first ones, on the heap, and of itself.
async fn each<T>(static_ones: usize, make: impl Fn(&mut Context<'_>) -> T) -> f64 {
    let total = static_ones * BLOCKS - SPARE;
    let (mut items, mut before) = (Vec::with_capacity(total), 0);
    for number in 0..total {
        // A task has a budget, and begins no wait without it.
        if number % 32 == 0 {
            tasuki_rt::yield_now().await;
        }
        if number == static_ones {
            before = live();
        }
        items.push(poll_fn(|cx| Poll::Ready(make(cx))).await);
    }
    ((live() - before) as f64 / (total - static_ones) as f64).round()
}

/// A mutex that guards nothing, and that a task has used.
pub(crate) async fn of_lock() -> f64 {
    let make = |_: &mut Context<'_>| {
        let mutex = Box::new(Mutex::new(()));
        drop(mutex.try_lock().expect("no other task has it"));
        mutex
    };
    each(STATIC_LOCKS, make).await
}

/// A future that waits for a mutex.
pub(crate) async fn of_waiter() -> f64 {
    let mutex = Arc::new(Mutex::new(()));
    // Another task took it: one that waits for itself is reported.
    let held = tasuki_rt::spawn(mutex.clone().lock_owned()).await.expect("it does not panic");
    let make = |cx: &mut Context<'_>| {
        let mut wait = Box::pin(mutex.lock());
        assert!(wait.as_mut().poll(cx).is_pending(), "another task holds it");
        wait
    };
    let bytes = each(STATIC_WAITS, make).await;
    drop(held);
    bytes
}
