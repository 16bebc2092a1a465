//! A first-in, first-out queue without allocation: an intrusive list whose links are in the tasks and closures that are queued.
//!
//! A runnable is in one place at a time (docs/scheduler.md, invariant 1), so one link in the task's cell is enough for the global queue,
//! the inboxes and the home queues; a posted closure has one in its box, and a member of a `JoinSet` one in its completion. A chain owns what is in it: for a task that is the reference of
//! its `Runnable`, which keeps the cell, and the link in it, for as long as it is queued.
//!
//! A chain is [`LANES`] lists, and neighbours are in different ones:
//!
//! ```text
//!   lane 0:  task 0 -> task 4 -> task 8        first = 0, len = 10
//!   lane 1:  task 1 -> task 5 -> task 9        a push goes to lane (0 + 10) % 4 = 2
//!   lane 2:  task 2 -> task 6
//!   lane 3:  task 3 -> task 7
//! ```
//!
//! In one list the address of a task is known when its predecessor has been read: a worker that takes 128 tasks that are no longer in its cache
//! would wait for memory 128 times in a row. So it waits for four at a time.
//!
//! A chain is used by one thread at a time: it is a worker's own, or has a lock around it ([`super::shared_queue`]). That also orders the
//! links, which are plain memory.

use crate::shim::{UnsafeCell, prefetch};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// The place for what comes next in a list of a chain.
#[derive(Debug)]
pub(crate) struct Link(UnsafeCell<NonNull<()>>);

// SAFETY: touched by the owner of the chain only, see `Linked`.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

impl Link {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(NonNull::dangling()))
    }

    fn get(&self) -> NonNull<()> {
        // SAFETY: the chain is ours, and so are the links of what is in it.
        self.0.with(|next| unsafe { *next })
    }

    fn set(&self, next: NonNull<()>) {
        // SAFETY: as above.
        self.0.with_mut(|place| unsafe { *place = next });
    }
}

/// What can be in a chain.
///
/// # Safety
///
/// The pointer that `into_raw` gives stands for the value until `from_raw`; until then `link` is there, always the same, and used by
/// nothing else.
pub(crate) unsafe trait Linked: Sized {
    /// Gives the value away.
    fn into_raw(self) -> NonNull<()>;

    /// Takes it back.
    ///
    /// # Safety
    ///
    /// The pointer is from `into_raw`, and is given back once.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// Its link.
    ///
    /// # Safety
    ///
    /// The pointer is from `into_raw`, and has not been given back while the link is used.
    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link;
}

/// How many lists a chain has.
const LANES: usize = 4;

/// Values in a row.
pub(crate) struct Chain<T: Linked> {
    lanes: [Lane; LANES],
    /// The lane of the first value.
    first: usize,
    len: usize,
    _owns: PhantomData<T>,
}

/// First and last of a list; meaningless while the length of the chain says that the list is empty.
#[derive(Clone, Copy)]
struct Lane {
    head: NonNull<()>,
    tail: NonNull<()>,
}

// SAFETY: it owns its values.
unsafe impl<T: Linked + Send> Send for Chain<T> {}

impl<T: Linked> Chain<T> {
    pub(crate) const fn new() -> Self {
        let none = Lane { head: NonNull::dangling(), tail: NonNull::dangling() };
        Self { lanes: [none; LANES], first: 0, len: 0, _owns: PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// To the end.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        let raw = value.into_raw();
        self.splice(self.len, Lane { head: raw, tail: raw });
        self.len += 1;
    }

    /// The values of a list, at this position and every `LANES` after it. For positions from the length of the chain on, one after the other;
    /// the caller counts.
    #[inline]
    fn splice(&mut self, at: usize, list: Lane) {
        let lane = &mut self.lanes[(self.first + at) % LANES];
        // The lane has something if the value `LANES` positions before is there.
        if at >= LANES {
            // SAFETY: what is in the chain was not given back.
            unsafe { T::link(lane.tail) }.set(list.head);
            lane.tail = list.tail;
        } else {
            *lane = list;
        }
    }

    /// Everything of another chain, to the end, in one step for each lane.
    pub(crate) fn append(&mut self, other: Self) {
        let other = ManuallyDrop::new(other);
        for nth in 0..other.len.min(LANES) {
            self.splice(self.len + nth, other.lanes[(other.first + nth) % LANES]);
        }
        self.len += other.len;
    }

    /// From the front.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let lane = &mut self.lanes[self.first % LANES];
        let raw = lane.head;
        if self.len > LANES {
            // SAFETY: what is in the chain was not given back; it has a successor in its lane, so its link is set.
            lane.head = unsafe { T::link(raw) }.get();
            prefetch(lane.head);
        }
        self.first = (self.first + 1) % LANES;
        self.len -= 1;
        // SAFETY: just taken out of the chain.
        Some(unsafe { T::from_raw(raw) })
    }
}

/// Pops.
impl<T: Linked> Iterator for Chain<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.pop()
    }
}

impl<T: Linked> FromIterator<T> for Chain<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut chain = Self::new();
        values.into_iter().for_each(|value| chain.push(value));
        chain
    }
}

impl<T: Linked> Default for Chain<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> Drop for Chain<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<T: Linked> fmt::Debug for Chain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("len", &self.len).finish_non_exhaustive()
    }
}
