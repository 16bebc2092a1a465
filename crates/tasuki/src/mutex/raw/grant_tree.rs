//! The unclaimed grants of watched futures in one bucket of the table of `overdue.rs`, found by their task.
//!
//! The end of a poll or of a task looks for the grants of that task, with the bucket locked, and many tasks may have some at the same time: a release of a hundred thousand locks grants as many. So a search must not
//! look at the grants of other tasks. The records, which lie in the locks, are the nodes of a binary tree: a step down goes by the next bit of the number of the task, from the lowest on, so no path is longer than such a number has bits. Numbers are given
//! one after the other, so mostly a path is as long as that of a balanced tree. The grants of one task are a ring, of which the first, mostly the oldest, is in the tree.
//!
//! One task may have as many grants, too. So the end of a poll changes a number of the ring, and looks at its first grant and its last: each grant has kept what that number was when it was linked, and they are in the order of these numbers.
//!
//! ```text
//!   root --> [task 0x300] ring of two grants              bits above those of the bucket: 0b11
//!             0 /    \ 1
//!    [task 0x200]    [task 0x100]                         0b10, 0b01
//! ```
//!
//! # Invariants
//! G1. A record in the tree is where a search for its task passes: below each of its ancestors on the side of the bit that the search takes there. So any leaf below a record may take its place.
//! G2. A linked record is in the ring of its task, and stays where it is until it is unlinked (O1 of `overdue.rs`). The first of a ring is in the tree; the children and the `ends` of the others mean nothing.
//! G3. A record of which `since` is another number than `ends` of its ring was there at the last end of a poll: it is *left over*. These are the first of the ring: from the first to the last, `since` only goes up, and the last is `ends`
//!     or less.
//!
//! # Orderings
//! None: all of it is touched by the holder of the bucket's lock only.

use super::overdue::BUCKETS;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

/// Where there may be a record.
type GrantLink = Cell<Option<NonNull<UnclaimedGrant>>>;

/// What a lock keeps of its grant, for the end of a poll. See the tables of `overdue.rs`.
pub struct UnclaimedGrant {
    pub(super) task: Cell<usize>,
    /// Of the first of a ring: how many polls of its task have ended since the ring began. Wraps: it is compared for equality.
    ends: Cell<u8>,
    /// What `ends` was when the record was linked, or spared.
    since: Cell<u8>,
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
        ends: Cell::new(0),
        since: Cell::new(0),
        spins: Cell::new(false),
        process: Cell::new(0),
        previous: Cell::new(None),
        next: Cell::new(None),
        children: [const { Cell::new(None) }; 2],
    };

    /// Of the first of a ring: see G3.
    fn is_left_over(&self) -> bool {
        self.since.get() != self.ends.get()
    }

    /// A child, if there is one.
    fn child(&self) -> Option<&GrantLink> {
        self.children.iter().find(|child| child.get().is_some())
    }

    /// Is the first of the ring instead of another.
    fn replace_first(&self, other: &Self) {
        self.ends.set(other.ends.get());
        self.adopt_children(other);
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

    /// Where the first grant of this task is, or would be.
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
            grant.ends.set(0);
            grant.since.set(0);
            grant.children.iter().for_each(|child| child.set(None));
            return place.set(Some(pointer));
        };
        // SAFETY: G2: the ring of the task.
        let first_grant = unsafe { linked(first) };
        grant.since.set(first_grant.ends.get());
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
            next_grant.replace_first(grant);
            place.set(Some(next));
        }
    }

    /// The first grant of this task.
    pub(super) fn first(&self, task: usize) -> Option<NonNull<UnclaimedGrant>> {
        self.place_of(task).get()
    }

    /// The first grant of this task that is left over (G3).
    pub(super) fn left_over(&self, task: usize) -> Option<NonNull<UnclaimedGrant>> {
        // SAFETY: in this tree, which the caller has locked.
        self.first(task).filter(|first| unsafe { linked(*first) }.is_left_over())
    }

    /// The first grant of this task becomes the last, and is not left over before another poll has ended.
    pub(super) fn spare_first(&mut self, task: usize) {
        let place = self.place_of(task);
        let Some(first) = place.get() else { return };
        // SAFETY: in this tree, which the caller has locked.
        let first_grant = unsafe { linked(first) };
        first_grant.since.set(first_grant.ends.get());
        let Some(next) = first_grant.next.get().filter(|next| *next != first) else { return };
        // SAFETY: G2: the ring of the task.
        unsafe { linked(next) }.replace_first(first_grant);
        place.set(Some(next));
    }

    /// A poll of this task has ended, and none of its grants is left over: all of them are from now on. True if one of them was not there at the end before, or was spared.
    pub(super) fn end_poll(&mut self, task: usize) -> bool {
        let Some(first) = self.first(task) else { return false };
        // SAFETY: in this tree, which the caller has locked.
        let first = unsafe { linked(first) };
        let ends = first.ends.get();
        first.ends.set(ends.wrapping_add(1));
        // SAFETY: G2: the ring of the task.
        first.previous.get().is_some_and(|last| unsafe { linked(last) }.since.get() == ends)
    }

    /// The grants of this task, from the first on.
    #[cfg(test)]
    fn of_task(&self, task: usize) -> impl Iterator<Item = NonNull<UnclaimedGrant>> + '_ {
        let first = self.first(task);
        core::iter::successors(first, move |grant| {
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

    /// However many grants a task has, the end of a poll looks at few; and they are left over from the next end on, but for those that were spared.
    #[test]
    fn the_end_of_a_poll_looks_at_few() {
        const TASK: usize = 7 * BUCKETS;
        let many = if cfg!(miri) { 64 } else { 1 << 14 };
        let grants: Vec<UnclaimedGrant> = (0..many).map(|_| grant_of(TASK)).collect();
        let (old, new) = grants.split_at(many / 2);
        let mut tree = GrantTree::EMPTY;
        // SAFETY: not linked, and their memory stays.
        let link = |tree: &mut GrantTree, grant: &UnclaimedGrant| unsafe { tree.link(grant.into()) };
        let few = |looked: usize, what: &str| assert!(looked <= 8, "{looked} looks {what}");
        old.iter().for_each(|grant| link(&mut tree, grant));
        let (looked, left) = looks(|| tree.left_over(TASK));
        few(looked, "for what is left over");
        assert_eq!(left, None, "no poll has ended");
        let (looked, is_new) = looks(|| tree.end_poll(TASK));
        few(looked, "at the end of a poll");
        assert!(is_new);
        new.iter().for_each(|grant| link(&mut tree, grant));
        for (at, grant) in old.iter().enumerate() {
            let (looked, left) = looks(|| tree.left_over(TASK));
            few(looked, "for what is left over");
            assert_eq!(left, Some(NonNull::from(grant)));
            let (looked, ()) = looks(|| tree.spare_first(TASK));
            few(looked, "to spare one");
            if at % 2 == 0 {
                // SAFETY: it is linked.
                unsafe { tree.unlink(grant.into()) };
            }
        }
        assert!(tree.left_over(TASK).is_none() && tree.end_poll(TASK));
        let spared = old.iter().skip(1).step_by(2);
        for grant in new.iter().chain(spared) {
            assert_eq!(tree.left_over(TASK), Some(NonNull::from(grant)), "in their order");
            // SAFETY: it is linked.
            unsafe { tree.unlink(grant.into()) };
        }
        assert!(tree.is_empty() && !tree.end_poll(TASK));
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
