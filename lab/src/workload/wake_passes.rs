//! The floors of a wake-all: a list of waiters is walked, and each is woken.
//!
//! `raw-one-pass` wakes each waiter as the walk reaches it, while it holds its lock. `raw-two-passes` does what a wake-all must do that runs no
//! foreign code under its lock: it copies the wakers of a batch, unlocks, and wakes them. Neither has a queue, cancelled waits or wakers that panic; a node
//! fills a cache line, as a waiter of ours does. What lies between the two floors is the price of the rule, and what lies above the second that of the code
//! (`docs/decisions/0015-wake-all-takes-two-passes.md`).

use super::counting_waker::WakeCount;
use crate::measure::{Contender, Meter, Reading, Sample};
use crate::peer::Kind;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// How many wakers are copied in one hold of the lock: as many as in ours.
const BATCH: usize = 32;

/// A waiter: its link, its waker, and whether it was notified.
#[repr(align(64))]
struct Node {
    next: *mut Node,
    waker: MaybeUninit<Waker>,
    notified: AtomicBool,
}

/// Wakes all waiters of a list. The pointer leads to the first; the links end with null.
type WakeAll = unsafe fn(*mut Node, &AtomicBool);

/// Both floors for so many waiters.
pub(crate) fn floors(waiters: usize) -> [Contender; 2] {
    let floor = |subject, wake_all: WakeAll| {
        let tally = WakeCount::new();
        let run = Box::new(move |ops| release_all(wake_all, waiters, tally, ops));
        Contender { subject, kind: Kind::Floor, run }
    };
    [floor("raw-one-pass", one_pass), floor("raw-two-passes", two_passes)]
}

/// Releases `ops` waiters, `waiters` at a time, and times the releases.
fn release_all(wake_all: WakeAll, waiters: usize, tally: WakeCount, ops: u64) -> Sample {
    let width = waiters.min(ops as usize);
    let rounds = ops / width as u64;
    let lock = AtomicBool::new(false);
    let mut nodes = Vec::with_capacity(width);
    let mut total = Reading::default();
    for _ in 0..rounds {
        link(&mut nodes, width, &tally.waker());
        let before = tally.count();
        let first = black_box(nodes.as_mut_ptr());
        let meter = Meter::start();
        // SAFETY: `link` has made one list of all nodes, which no other thread knows.
        unsafe { wake_all(first, &lock) };
        let timed = meter.read();
        assert_eq!(tally.count() - before, width as u64, "each is woken once");
        assert!(nodes.iter().all(|node| node.notified.load(Ordering::Relaxed)), "each is notified");
        total.ns += timed.ns;
        total.allocations += timed.allocations;
    }
    Sample::alone(rounds * width as u64, total)
}

/// Makes one list of `width` new nodes, in their order.
fn link(nodes: &mut Vec<Node>, width: usize, waker: &Waker) {
    nodes.clear();
    nodes.extend((0..width).map(|_| Node {
        next: ptr::null_mut(),
        waker: MaybeUninit::new(waker.clone()),
        notified: AtomicBool::new(false),
    }));
    let first = nodes.as_mut_ptr();
    for at in 1..width {
        // SAFETY: both are among the `width` nodes.
        unsafe { (*first.add(at - 1)).next = first.add(at) };
    }
}

/// Walks once, and wakes under the lock.
///
/// SAFETY: `node` begins a list that ends with null, whose wakers have not been taken, and which only the caller knows.
#[inline(never)]
unsafe fn one_pass(mut node: *mut Node, lock: &AtomicBool) {
    acquire(lock);
    while !node.is_null() {
        // SAFETY: the caller's contract.
        let (waker, next) = unsafe { notify(node) };
        waker.wake();
        node = next;
    }
    release(lock);
}

/// Copies the wakers of a batch under the lock, and wakes them after it, batch by batch.
///
/// SAFETY: as [`one_pass`].
#[inline(never)]
unsafe fn two_passes(mut node: *mut Node, lock: &AtomicBool) {
    let mut batch = [const { MaybeUninit::<Waker>::uninit() }; BATCH];
    while !node.is_null() {
        acquire(lock);
        let mut len = 0;
        while len < BATCH && !node.is_null() {
            // SAFETY: the caller's contract.
            let (waker, next) = unsafe { notify(node) };
            batch[len].write(waker);
            len += 1;
            node = next;
        }
        release(lock);
        for waker in &batch[..len] {
            // SAFETY: written in this round, and read once.
            unsafe { waker.assume_init_read() }.wake();
        }
    }
}

/// Takes the waker of a node, and notifies it: its memory may be gone from then on.
///
/// SAFETY: the node is alive, and its waker has not been taken.
#[inline(always)]
unsafe fn notify(node: *mut Node) -> (Waker, *mut Node) {
    // SAFETY: the caller's contract, for all three.
    unsafe {
        let next = (*node).next;
        let waker = (*node).waker.assume_init_read();
        // Release: as a real waiter needs it, whose future sees the flag with Acquire. Here one thread does both.
        (*node).notified.store(true, Ordering::Release);
        (waker, next)
    }
}

fn acquire(lock: &AtomicBool) {
    // Acquire: pairs with Release in `release`.
    assert!(lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok(), "one thread");
}

fn release(lock: &AtomicBool) {
    // Release: pairs with Acquire in `acquire`.
    lock.store(false, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists that end inside a batch, at its border and behind it: the sample checks that each is woken once, and notified.
    #[test]
    fn every_waiter_is_woken_once() {
        assert_eq!(size_of::<Node>(), 64);
        for waiters in [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH] {
            for mut floor in floors(waiters) {
                assert_eq!((floor.run)(3 * waiters as u64).ops, 3 * waiters as u64, "{}", floor.subject);
            }
        }
    }
}
