//! The unclaimed grants of watched futures in one bucket of the table of `overdue.rs`, found by their task.
//!
//! The end of a poll or of a task looks for the grants of that task, with the bucket locked, and many tasks may have some at the same time: a release of a hundred thousand locks grants as many. So a search must not
//! look at the grants of other tasks. The records, which lie in the locks, are the nodes of a binary tree: a step down goes by the next bit of the number of the task, from the lowest on, so no path is longer than such a number has bits. Numbers are given
//! one after the other, so mostly a path is as long as that of a balanced tree. The grants of one task are a ring, of which the oldest is in the tree.
//!
//! ```text
//!   root --> [task 0x300] ring of two grants              bits above those of the bucket: 0b11
//!             0 /    \ 1
//!    [task 0x200]    [task 0x100]                         0b10, 0b01
//! ```
//!
//! # Invariants
//! G1. A record in the tree is where a search for its task passes: below each of its ancestors on the side of the bit that the search takes there. So any leaf below a record may take its place.
//! G2. A linked record is in the ring of its task, and stays where it is until it is unlinked (O1 of `overdue.rs`). The oldest of a ring is in the tree; the children of the others mean nothing.
//!
//! # Orderings
//! None: all of it is touched by the holder of the bucket's lock only.

use super::overdue::BUCKETS;
use core::cell::Cell;
use core::fmt;
use core::iter;
use core::ptr::NonNull;

/// At the ends of how many polls of its task the grant was unclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    None,
    Once,
    /// It is to be revoked.
    Due,
}

/// Where there may be a record.
type GrantLink = Cell<Option<NonNull<UnclaimedGrant>>>;

/// What a lock keeps of its grant, for the end of a poll. See the tables of `overdue.rs`.
pub struct UnclaimedGrant {
    pub(super) task: Cell<usize>,
    pub(super) looks: Cell<Looks>,
    /// Which of the two types of locks it is in: those of `Revocable<true>` or `Revocable<false>`.
    pub(super) spins: Cell<bool>,
    /// The process in whose table it is linked.
    pub(super) process: Cell<u32>,
    previous: GrantLink,
    next: GrantLink,
    children: [GrantLink; 2],
}

// SAFETY: nothing of it belongs to a thread: what it points to is shared by the rules of O2.
unsafe impl Send for UnclaimedGrant {}
// SAFETY: O2: each field is touched by the holder of one lock.
unsafe impl Sync for UnclaimedGrant {}

impl UnclaimedGrant {
    /// Of a new lock.
    #[expect(clippy::declare_interior_mutable_const, reason = "each lock has its own")]
    pub(crate) const NEW: Self = Self {
        task: Cell::new(0),
        looks: Cell::new(Looks::None),
        spins: Cell::new(false),
        process: Cell::new(0),
        previous: Cell::new(None),
        next: Cell::new(None),
        children: [const { Cell::new(None) }; 2],
    };

    /// A child, if there is one.
    fn child(&self) -> Option<&GrantLink> {
        self.children.iter().find(|child| child.get().is_some())
    }

    /// Takes over the children of another.
    fn adopt_children(&self, other: &Self) {
        for (mine, its) in self.children.iter().zip(&other.children) {
            mine.set(its.get());
        }
    }
}

impl fmt::Debug for UnclaimedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnclaimedGrant")
    }
}

/// A record that is linked in the tree.
///
/// SAFETY: it is linked in the tree that the caller has locked (G2), and not used for longer than that lock is held.
unsafe fn linked<'t>(grant: NonNull<UnclaimedGrant>) -> &'t UnclaimedGrant {
    #[cfg(test)]
    tests::count_look();
    // SAFETY: the caller's contract.
    unsafe { grant.as_ref() }
}

/// The records of a bucket.
pub(super) struct GrantTree {
    root: GrantLink,
}

// SAFETY: records are shared by the rules of O2.
unsafe impl Send for GrantTree {}

impl GrantTree {
    #[expect(clippy::declare_interior_mutable_const, reason = "each bucket has its own")]
    pub(super) const EMPTY: Self = Self { root: Cell::new(None) };

    pub(super) fn is_empty(&self) -> bool {
        self.root.get().is_none()
    }

    /// Where the oldest grant of this task is, or would be.
    fn place_of(&self, task: usize) -> &GrantLink {
        let (mut place, mut path) = (&self.root, task / BUCKETS);
        while let Some(grant) = place.get() {
            // SAFETY: in this tree, which the caller has locked.
            let grant = unsafe { linked(grant) };
            if grant.task.get() == task {
                break;
            }
            place = &grant.children[path & 1];
            path >>= 1;
        }
        place
    }

    /// SAFETY: the record, which has the number of its task, is in no tree, and does not go before it is unlinked from this one. The pointer is valid for all that is done with what a search finds.
    pub(super) unsafe fn link(&mut self, pointer: NonNull<UnclaimedGrant>) {
        // SAFETY: the caller's contract: it is there.
        let grant = unsafe { pointer.as_ref() };
        let place = self.place_of(grant.task.get());
        let Some(first) = place.get() else {
            grant.previous.set(Some(pointer));
            grant.next.set(Some(pointer));
            grant.children.iter().for_each(|child| child.set(None));
            return place.set(Some(pointer));
        };
        // SAFETY: G2: the ring of the task.
        let first_grant = unsafe { linked(first) };
        let last = first_grant.previous.replace(Some(pointer));
        if let Some(last) = last {
            // SAFETY: as above.
            unsafe { linked(last) }.next.set(Some(pointer));
        }
        grant.previous.set(last);
        grant.next.set(Some(first));
    }

    /// SAFETY: the record is in this tree.
    pub(super) unsafe fn unlink(&mut self, pointer: NonNull<UnclaimedGrant>) {
        // SAFETY: the caller's contract.
        let grant = unsafe { linked(pointer) };
        let place = self.place_of(grant.task.get());
        let (Some(previous), Some(next)) = (grant.previous.get(), grant.next.get()) else { return };
        if next == pointer {
            return replace_by_leaf(place, grant);
        }
        // SAFETY: G2: the ring of the task.
        unsafe { linked(previous) }.next.set(Some(next));
        // SAFETY: as above.
        let next_grant = unsafe { linked(next) };
        next_grant.previous.set(Some(previous));
        if place.get() == Some(pointer) {
            next_grant.adopt_children(grant);
            place.set(Some(next));
        }
    }

    /// The grants of this task, the oldest first. Nothing is linked or unlinked meanwhile: the tree is borrowed.
    pub(super) fn of_task(&self, task: usize) -> impl Iterator<Item = NonNull<UnclaimedGrant>> + '_ {
        let first = self.place_of(task).get();
        iter::successors(first, move |grant| {
            // SAFETY: G2: the ring of the task, in this tree, which the caller has locked.
            let next = unsafe { linked(*grant) }.next.get();
            next.filter(|_| next != first)
        })
    }
}

/// The only grant of its task leaves the tree: a leaf below it takes its place (G1).
fn replace_by_leaf(place: &GrantLink, grant: &UnclaimedGrant) {
    let Some(mut leaf) = grant.child() else { return place.set(None) };
    // SAFETY: in the tree, which the caller has locked.
    while let Some(deeper) = leaf.get().and_then(|below| unsafe { linked(below) }.child()) {
        leaf = deeper;
    }
    let taken = leaf.take();
    if let Some(taken) = taken {
        // SAFETY: as above.
        unsafe { linked(taken) }.adopt_children(grant);
    }
    place.set(taken);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    std::thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// A record was looked at.
    pub(super) fn count_look() {
        LOOKS.with(|looks| looks.set(looks.get() + 1));
    }

    /// How many records were looked at, and what came of it.
    fn looks<R>(f: impl FnOnce() -> R) -> (usize, R) {
        let before = LOOKS.with(Cell::get);
        let result = f();
        (LOOKS.with(Cell::get) - before, result)
    }

    fn grant_of(task: usize) -> UnclaimedGrant {
        let grant = UnclaimedGrant::NEW;
        grant.task.set(task);
        grant
    }

    /// Grants of tasks with any numbers come and go in any order: each task has its own, in their order, and no other.
    #[test]
    fn a_tree_has_what_was_linked() {
        let mut random = 0x2545_F491_4F6C_DD1D_u64;
        let mut below = |n: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % n as u64) as usize
        };
        let task = |n: usize| if n % 5 == 0 { usize::MAX - n * BUCKETS } else { n * BUCKETS + 7 };
        let grants: Vec<UnclaimedGrant> = (0..60).map(|_| grant_of(task(below(20)))).collect();
        let mut tree = GrantTree::EMPTY;
        let mut model: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
            let at = below(grants.len());
            let (pointer, of) = (NonNull::from(&grants[at]), grants[at].task.get());
            let linked = model.entry(of).or_default();
            if let Some(place) = linked.iter().position(|other| *other == at) {
                linked.remove(place);
                // SAFETY: it is linked, as the model says.
                unsafe { tree.unlink(pointer) };
            } else {
                linked.push(at);
                // SAFETY: it is not linked, and its memory stays.
                unsafe { tree.link(pointer) };
            }
            let asked = if below(2) == 0 { of } else { task(below(20)) };
            let found: Vec<_> = tree.of_task(asked).collect();
            let expected = model.get(&asked).into_iter().flatten().map(|at| NonNull::from(&grants[*at]));
            assert!(found.into_iter().eq(expected));
            assert_eq!(tree.is_empty(), model.values().all(Vec::is_empty));
        }
    }

    /// However many tasks have grants, what is done for one of them looks at few.
    #[test]
    fn a_search_does_not_look_at_all() {
        let many = if cfg!(miri) { 64 } else { 1 << 14 };
        let grants: Vec<UnclaimedGrant> = (1..=many).map(|n| grant_of(n * BUCKETS)).collect();
        let mut tree = GrantTree::EMPTY;
        let most = 2 * many.ilog2() as usize + 8;
        for grant in &grants {
            // SAFETY: not linked, and its memory stays.
            let (looked, ()) = looks(|| unsafe { tree.link(grant.into()) });
            assert!(looked <= most, "{looked} looks to link");
        }
        for grant in &grants {
            let (looked, found) = looks(|| tree.of_task(grant.task.get()).count());
            assert!(looked <= most && found == 1, "{looked} looks to find {found}");
            // SAFETY: it is linked.
            let (looked, ()) = looks(|| unsafe { tree.unlink(grant.into()) });
            assert!(looked <= 2 * most, "{looked} looks to unlink");
        }
        assert!(tree.is_empty());
    }
}
