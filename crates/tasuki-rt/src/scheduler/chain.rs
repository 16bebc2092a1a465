//! First in, first out, without allocation: what is queued carries its own link.
//!
//! A runnable is in one place at a time (docs/scheduler.md, invariant 1), so one link in the task's cell is enough for the global queue,
//! the inboxes and the home queues; a posted closure has one in its box. A chain owns what is in it: for a task that is the reference of
//! its `Runnable`, which keeps the cell, and the link in it, for as long as it is queued.
//!
//! A chain is used by one thread at a time: it is a worker's own, or has a lock around it ([`super::shared_queue`]). That also orders the
//! links, which are plain memory.

use crate::shim::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The place for what comes next in a chain.
#[derive(Debug)]
pub(crate) struct Link(UnsafeCell<Option<NonNull<()>>>);

// SAFETY: touched by the owner of the chain only, see `Linked`.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

impl Link {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(None))
    }

    fn get(&self) -> Option<NonNull<()>> {
        // SAFETY: the chain is ours, and so are the links of what is in it.
        self.0.with(|next| unsafe { *next })
    }

    fn set(&self, next: Option<NonNull<()>>) {
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

/// Values in a row.
pub(crate) struct Chain<T: Linked> {
    /// First and last, unless it is empty.
    ends: Option<(NonNull<()>, NonNull<()>)>,
    len: usize,
    _owns: PhantomData<T>,
}

// SAFETY: it owns its values.
unsafe impl<T: Linked + Send> Send for Chain<T> {}

impl<T: Linked> Chain<T> {
    pub(crate) const fn new() -> Self {
        Self { ends: None, len: 0, _owns: PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// To the end.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        let raw = value.into_raw();
        // SAFETY: from `into_raw`, not given back.
        unsafe { T::link(raw) }.set(None);
        self.splice(raw, raw, 1);
    }

    fn splice(&mut self, first: NonNull<()>, last: NonNull<()>, len: usize) {
        let start = match self.ends {
            Some((start, end)) => {
                // SAFETY: what is in the chain was not given back.
                unsafe { T::link(end) }.set(Some(first));
                start
            }
            None => first,
        };
        self.ends = Some((start, last));
        self.len += len;
    }

    /// Everything of another chain, to the end, in one step.
    pub(crate) fn append(&mut self, mut other: Self) {
        let len = std::mem::take(&mut other.len);
        if let Some((first, last)) = other.ends.take() {
            self.splice(first, last, len);
        }
    }

    /// From the front.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (first, last) = self.ends?;
        // SAFETY: what is in the chain was not given back.
        let next = unsafe { T::link(first) }.get();
        self.ends = next.map(|next| (next, last));
        self.len -= 1;
        // SAFETY: just taken out of the chain.
        Some(unsafe { T::from_raw(first) })
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
