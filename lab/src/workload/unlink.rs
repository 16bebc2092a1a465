//! The floor of cancelling: leaving a doubly linked list, and nothing else.
//!
//! No lock, no state, no waker; a node fills a cache line, as a lock future does. In a shuffled order among a million
//! the lines are not in the cache, so this shows what memory alone costs.

use super::cancel::Order;
use crate::measure::{Contender, Meter, Reading, Sample};
use crate::peer::Kind;
use std::hint::black_box;

/// A member of the ring, which begins and ends at node 0.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Node {
    next: u32,
    prev: u32,
}

/// The floor for `waiters` that leave in this order.
pub(crate) fn floor(order: Order, waiters: usize) -> Contender {
    let run = Box::new(move |ops| unlink_all(order, waiters, ops));
    Contender { subject: "raw-unlink", kind: Kind::Floor, run }
}

/// Links and unlinks `ops` nodes, `waiters` at a time, and times the unlinking.
fn unlink_all(order: Order, waiters: usize, ops: u64) -> Sample {
    let width = waiters.min(ops as usize);
    let rounds = ops / width as u64;
    let order = order.indices(width);
    let mut ring = vec![Node { next: 0, prev: 0 }; width + 1];
    let mut total = Reading::default();
    for _ in 0..rounds {
        link(&mut ring);
        let ring = black_box(&mut ring[..]);
        let meter = Meter::start();
        for &index in &order {
            let Node { next, prev } = ring[index as usize + 1];
            ring[prev as usize].next = next;
            ring[next as usize].prev = prev;
        }
        let timed = meter.read();
        assert!(ring[0].next == 0 && ring[0].prev == 0, "all have left");
        total.ns += timed.ns;
        total.allocations += timed.allocations;
    }
    Sample::alone(rounds * width as u64, total)
}

/// Makes one ring of all nodes, in their order.
fn link(ring: &mut [Node]) {
    let count = ring.len() as u32;
    for (at, node) in ring.iter_mut().enumerate() {
        let at = at as u32;
        *node = Node { next: (at + 1) % count, prev: (at + count - 1) % count };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_empties_the_ring() {
        assert_eq!(size_of::<Node>(), 64);
        for order in [Order::Fifo, Order::Lifo, Order::Random] {
            assert_eq!(unlink_all(order, 100, 300).ops, 300);
        }
    }
}
