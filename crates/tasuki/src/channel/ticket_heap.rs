//! A heap by ticket: messages that were put back, in the order of their grants.
//!
//! A receive that is dropped after its grant puts its message back, before all that were never granted, and in the order of the grants. Receives are dropped in any order, so that is a
//! priority queue. It is changed under the queue lock, where neither an allocation nor a walk over all messages has a place: a million receives that are dropped in any order take
//! some twenty steps each. The links are in the messages themselves: in their slots (`locked.rs`), or in their boxes (`rendezvous/boxed_message.rs`).
//!
//! ```text
//!            3            Every message has a smaller ticket than the two below it. An insertion goes down by one random path, to where
//!          /   \          the tickets are greater; a pop merges the two trees below the first message along one random path.
//!         5     4
//!        / \     \        A random path in a tree of n messages has at most log2(n + 1) steps on average, whatever the shape of the tree: every
//!       9   6     8       subtree is entered with half the probability of the one above it.
//! ```
//!
//! | function               | steps, on average, at most | allocates | foreign code |
//! |------------------------|----------------------------|-----------|--------------|
//! | [`TicketHeap::insert`] | log2(n + 1)                | no        | none         |
//! | [`TicketHeap::pop`]    | 2 log2(n + 1)              | no        | none         |
//!
//! # Invariants
//! 1. A message in the heap is in it once, and in no other list. Its two links are the trees below it, whose tickets are greater.
//! 2. A ticket is used once: with one in a nanosecond they last for 36 years.
//!
//! Plain memory: only the holder of the queue lock touches it, or the only user of a heap that was taken out.

use core::cell::Cell;

/// What a new ticket is less for a message that was received and comes back: it is before all that were granted, and behind those that came back so earlier. No ticket that is issued is as great (invariant 2).
pub(super) const RECEIVED: i64 = 1 << 60;

/// Where the messages of a heap are: how a link leads to one.
pub(super) trait Messages {
    /// Leads to a message, or to none.
    type Link: Copy + PartialEq;
    /// Leads to none.
    const NONE: Self::Link;

    /// When it was granted: a message that was granted earlier has a smaller one. Called for messages of the heap, and for one that is inserted.
    fn ticket(&self, message: Self::Link) -> i64;

    /// The two links of a message. Called as [`ticket`](Self::ticket) is.
    fn below(&self, message: Self::Link) -> [&Cell<Self::Link>; 2];
}

/// The messages that were put back and not received since.
#[derive(Debug)]
#[repr(C)]
pub(super) struct TicketHeap<L: Copy> {
    len: Cell<u32>,
    /// The paths are random: a sequence without a pattern that callers could follow by chance.
    coins: Cell<u32>,
    /// The message with the smallest ticket.
    root: Cell<L>,
}

impl<L: Copy + PartialEq> TicketHeap<L> {
    pub(super) const fn new(none: L) -> Self {
        Self { len: Cell::new(0), coins: Cell::new(1), root: Cell::new(none) }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.len.get()
    }

    /// All of them, which are here no longer.
    pub(super) fn take<M: Messages<Link = L>>(&mut self) -> Self {
        core::mem::replace(self, Self::new(M::NONE))
    }

    /// Puts a message in its place.
    pub(super) fn insert<M: Messages<Link = L>>(&mut self, message: L, messages: &M) {
        let ticket = messages.ticket(message);
        let mut link = &self.root;
        while link.get() != M::NONE && messages.ticket(link.get()) < ticket {
            link = self.one_below(link.get(), messages);
        }
        let [left, right] = messages.below(message);
        left.set(link.get());
        right.set(M::NONE);
        link.set(message);
        self.len.set(self.len() + 1);
    }

    /// Takes the message with the smallest ticket out.
    pub(super) fn pop<M: Messages<Link = L>>(&mut self, messages: &M) -> Option<L> {
        self.len.set(self.len().checked_sub(1)?);
        let mut link = &self.root;
        let first = link.get();
        let [mut a, mut b] = messages.below(first).map(Cell::get);
        while a != M::NONE && b != M::NONE {
            if messages.ticket(b) < messages.ticket(a) {
                core::mem::swap(&mut a, &mut b);
            }
            link.set(a);
            link = self.one_below(a, messages);
            a = link.get();
        }
        link.set(if a == M::NONE { b } else { a });
        Some(first)
    }

    /// One of the two links of a message, by chance.
    fn one_below<'m, M: Messages<Link = L>>(&self, message: L, messages: &'m M) -> &'m Cell<L> {
        let coins = self.coins.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.coins.set(coins);
        messages.below(message)[(coins >> 31) as usize]
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Messages in a list, with tickets between which are more than 2^32 others; counts the looks at them.
    struct Listed {
        links: Vec<[Cell<u32>; 2]>,
        looks: Cell<u32>,
    }

    impl Messages for Listed {
        type Link = u32;
        const NONE: u32 = u32::MAX;

        fn ticket(&self, message: u32) -> i64 {
            self.looks.set(self.looks.get() + 1);
            (i64::from(message) - self.links.len() as i64 / 2) * 0x1_2345_6789
        }

        fn below(&self, message: u32) -> [&Cell<u32>; 2] {
            self.looks.set(self.looks.get() + 1);
            self.links[message as usize].each_ref()
        }
    }

    /// A permutation without a pattern: the low bits of a congruential sequence have its full period.
    fn shuffled(n: u32) -> impl Iterator<Item = u32> {
        let mut x = 12_345_u32;
        (0..n).map(move |_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            x % n
        })
    }

    /// Inserts in this order, pops all, and says how many looks at messages there were for each.
    fn steps(order: impl Iterator<Item = u32>) -> u32 {
        let order: Vec<_> = order.collect();
        let count = order.len() as u32;
        let links = order.iter().map(|_| [const { Cell::new(Listed::NONE) }; 2]).collect();
        let (messages, mut heap) = (Listed { links, looks: Cell::new(0) }, TicketHeap::new(Listed::NONE));
        for message in order {
            heap.insert(message, &messages);
        }
        assert_eq!(heap.len(), count);
        for expected in 0..count {
            assert_eq!(heap.pop(&messages), Some(expected));
        }
        assert!(heap.pop(&messages).is_none() && heap.len() == 0);
        messages.looks.get() / count
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
