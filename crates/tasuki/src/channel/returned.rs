//! Messages that were put back: a heap by ticket, linked through the slots themselves.
//!
//! A receive that is dropped after its grant puts its message back, before all that were never granted, and in the order of the grants. Receives are dropped in any order, so that is a
//! priority queue. It is changed under the queue lock, where neither an allocation nor a walk over all messages has a place: a million receives that are dropped in any order take
//! some twenty steps each.
//!
//! ```text
//!            3            Every message has a smaller ticket than the two below it. An insertion goes down by one random path, to where
//!          /   \          the tickets are greater; a pop merges the two trees below the first message along one random path.
//!         5     4
//!        / \     \        A random path in a tree of n messages has log2(n + 1) steps on average, whatever the shape of the tree: every subtree
//!       9   6     8       is entered with half the probability of the one above it.
//! ```
//!
//! | function             | steps, on average | allocates | foreign code |
//! |----------------------|-------------------|-----------|--------------|
//! | [`Returned::insert`] | log2(n)           | no        | none         |
//! | [`Returned::pop`]    | 2 log2(n)         | no        | none         |
//!
//! # Invariants
//! 1. A slot in the heap is pending, and in no other list: its `next` and `right` are the trees below it.
//! 2. A ticket is used once: with one in a nanosecond they last for 36 years.
//!
//! Plain memory: only the holder of the queue lock touches it, or the only user of a heap that was detached.

use super::store::{NONE, Numbered, Slot};
use core::cell::Cell;
use core::mem;

/// The messages that were put back and not received since.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Returned {
    len: Cell<u32>,
    /// The message with the smallest ticket.
    root: Cell<u32>,
    /// The paths are random: a sequence without a pattern that callers could follow by chance.
    coins: Cell<u32>,
}

impl Returned {
    pub(super) const fn new() -> Self {
        Self { root: Cell::new(NONE), len: Cell::new(0), coins: Cell::new(1) }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.len.get()
    }

    /// All of them, which are here no longer.
    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::new())
    }

    /// Puts a message in its place.
    pub(super) fn insert<'c, T: 'c>(&mut self, at: Numbered<'c, T>, slot: impl Fn(u32) -> &'c Slot<T>) {
        let mut link = &self.root;
        while link.get() != NONE && is_older(slot(link.get()), at.slot) {
            link = self.one_below(slot(link.get()));
        }
        at.slot.next.set(link.get());
        at.slot.right.set(NONE);
        link.set(at.number);
        self.len.set(self.len() + 1);
    }

    /// Takes the message with the smallest ticket out.
    pub(super) fn pop<'c, T: 'c>(&mut self, slot: impl Fn(u32) -> &'c Slot<T>) -> Option<Numbered<'c, T>> {
        self.len.set(self.len().checked_sub(1)?);
        let mut link = &self.root;
        let first = Numbered { number: link.get(), slot: slot(link.get()) };
        let (mut a, mut b) = (first.slot.next.get(), first.slot.right.get());
        while a != NONE && b != NONE {
            if is_older(slot(b), slot(a)) {
                mem::swap(&mut a, &mut b);
            }
            link.set(a);
            link = self.one_below(slot(a));
            a = link.get();
        }
        link.set(if a == NONE { b } else { a });
        Some(first)
    }

    /// One of the two trees below a slot, by chance.
    fn one_below<'c, T>(&self, slot: &'c Slot<T>) -> &'c Cell<u32> {
        let coins = self.coins.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.coins.set(coins);
        if coins >> 31 == 0 { &slot.next } else { &slot.right }
    }
}

/// Was the first granted before the second?
fn is_older<T>(first: &Slot<T>, second: &Slot<T>) -> bool {
    first.ticket.get() < second.ticket.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// A permutation without a pattern: the low bits of a congruential sequence have its full period.
    fn shuffled(n: u32) -> impl Iterator<Item = u32> {
        let mut x = 12_345_u32;
        (0..n).map(move |_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            x % n
        })
    }

    /// Inserts in this order, pops all, and says how many slots were looked at for each message. Between two tickets are more than 2^32 others.
    fn steps(order: impl Iterator<Item = u32>) -> u32 {
        let order: Vec<_> = order.collect();
        let count = order.len() as u32;
        let slots: Vec<_> = (0..count).map(|_| Slot::<()>::new()).collect();
        for (number, slot) in slots.iter().enumerate() {
            slot.ticket.set((number as i64 - i64::from(count / 2)) * 0x1_2345_6789);
        }
        let looks = Cell::new(0);
        let slot = |number: u32| {
            looks.set(looks.get() + 1);
            &slots[number as usize]
        };
        let mut heap = Returned::new();
        for number in order {
            heap.insert(Numbered { number, slot: &slots[number as usize] }, slot);
        }
        assert_eq!(heap.len(), count);
        for expected in 0..count {
            assert_eq!(heap.pop(slot).map(|at| at.number), Some(expected));
        }
        assert!(heap.pop(slot).is_none() && heap.len() == 0);
        looks.get() / count
    }

    /// In any order of the drops a message costs some steps for each doubling of their number, and not some for each other message.
    #[test]
    fn a_put_back_takes_logarithmic_time() {
        let bits = if cfg!(miri) { 7 } else { 17 };
        let count: u32 = 1 << bits;
        let halves = (0..count / 2).flat_map(|n| [n, count - 1 - n]);
        let strides = (0..count).map(|n| n.wrapping_mul(12_345) % count);
        for (name, steps) in [
            ("ascending", steps(0..count)),
            ("descending", steps((0..count).rev())),
            ("from both ends", steps(halves)),
            ("in strides", steps(strides)),
            ("shuffled", steps(shuffled(count))),
        ] {
            assert!(steps <= 8 * bits, "{name}: {steps} looks for each of {count} messages");
        }
    }
}
