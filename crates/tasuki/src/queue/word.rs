//! The state word: a tagged pointer, its bits and its predicates.
//!
//! All that a primitive is, as far as its fast paths are concerned, is in one value of this word. The bits are named here and nowhere else; a primitive gives the two
//! flags its own names when it imports them.
//!
//! ```text
//!  63 ........................ 4   3      2      1        0
//! | head pointer, or a count   | FLAG_B FLAG_A  WAITERS  EDIT |
//! ```
//!
//! * `EDIT`: the queue is locked; only the thread that locked it writes the word until it stores it
//!   back without the bit.
//! * `WAITERS`: the upper bits are the head of the list. Without it they are a count that belongs to
//!   the primitive.
//! * `FLAG_A`, `FLAG_B`: two flags of the primitive (the mutex calls them `LOCKED` and `WOKEN`).

use super::waiter::Waiter;
use core::fmt;
use core::ptr;

/// The queue is locked.
pub(crate) const EDIT: usize = 0b0001;
/// The upper bits are a pointer to the first waiter.
pub(crate) const WAITERS: usize = 0b0010;
/// A flag of the primitive.
pub(crate) const FLAG_A: usize = 0b0100;
/// Another flag of the primitive.
pub(crate) const FLAG_B: usize = 0b1000;

const TAGS: usize = EDIT | WAITERS | FLAG_A | FLAG_B;
const FLAGS: usize = FLAG_A | FLAG_B;

/// The lowest bit of the count.
const ONE: usize = TAGS + 1;
/// The greatest count that a word can hold: 2^48 - 1, so that a semaphore has room for it and two bytes more beside the word. With 32 bits it is what has room. The highest
/// bit stays free, so that one test tells a sum or a difference that is a count from one that is none.
pub(crate) const MAX_COUNT: usize =
    if usize::BITS == 64 { usize::MAX >> 16 } else { (usize::MAX >> 1) / ONE };
/// The bits that no count has.
const HIGH: usize = !((MAX_COUNT * ONE) | TAGS);

// The tags live in the alignment of a waiter.
const _: () = assert!(align_of::<Waiter>() > TAGS);

/// One value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(*mut Waiter);

impl Word {
    /// A word without waiters: these flags.
    pub(crate) const fn flags(flags: usize) -> Self {
        Self(ptr::without_provenance_mut(flags))
    }

    /// A word without waiters: no flags, and this count, which is at most [`MAX_COUNT`].
    pub(crate) const fn counted(count: usize) -> Self {
        Self(ptr::without_provenance_mut(count * ONE))
    }

    pub(crate) const fn from_raw(raw: *mut Waiter) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> *mut Waiter {
        self.0
    }

    /// Is any of these bits set?
    #[inline(always)]
    pub(crate) fn has(self, bits: usize) -> bool {
        self.0.addr() & bits != 0
    }

    #[inline(always)]
    pub(crate) fn with(self, bits: usize) -> Self {
        Self(self.0.map_addr(|addr| addr | bits))
    }

    #[inline(always)]
    pub(crate) fn without(self, bits: usize) -> Self {
        Self(self.0.map_addr(|addr| addr & !bits))
    }

    /// The count of a word without waiters.
    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        debug_assert!(!self.has(WAITERS), "{self:?} has waiters, not a count");
        self.0.addr() / ONE
    }

    /// The same flags and so many more; the sum is at most [`MAX_COUNT`].
    #[inline(always)]
    pub(crate) fn plus(self, count: usize) -> Self {
        debug_assert!(count <= MAX_COUNT - self.count(), "{count} more do not fit into {self:?}");
        Self(ptr::without_provenance_mut(self.0.addr() + count * ONE))
    }

    /// The same flags and so many less; there are so many.
    #[inline(always)]
    pub(crate) fn minus(self, count: usize) -> Self {
        debug_assert!(count <= self.count(), "there are no {count} in {self:?}");
        Self(ptr::without_provenance_mut(self.0.addr() - count * ONE))
    }

    /// So many less, at most [`MAX_COUNT`]; `None` if there are fewer, or if the word is more than a count.
    #[inline(always)]
    pub(crate) fn try_minus(self, count: usize) -> Option<Self> {
        debug_assert!(count <= MAX_COUNT, "{count} is no count");
        let less = self.0.addr().wrapping_sub(count * ONE);
        if less & (HIGH | TAGS) == 0 { Some(Self(ptr::without_provenance_mut(less))) } else { None }
    }

    /// The same flags and so many more, at most [`MAX_COUNT`]; `None` if there is no room, or no count to add to.
    #[inline(always)]
    pub(crate) fn try_plus(self, count: usize) -> Option<Self> {
        debug_assert!(count <= MAX_COUNT, "{count} is no count");
        let more = self.0.addr().wrapping_add(count * ONE);
        if more & (HIGH | EDIT | WAITERS) == 0 { Some(Self(ptr::without_provenance_mut(more))) } else { None }
    }

    /// The same flags and another count, in place of the count or the list.
    #[inline(always)]
    pub(crate) fn with_count(self, count: usize) -> Self {
        debug_assert!(count <= MAX_COUNT, "{count} does not fit into the word");
        Self(ptr::without_provenance_mut((count * ONE) | (self.0.addr() & FLAGS)))
    }

    /// The first waiter, null if there is none.
    #[inline(always)]
    pub(crate) fn head(self) -> *mut Waiter {
        if self.has(WAITERS) { self.some_head() } else { ptr::null_mut() }
    }

    /// The first waiter of a word that has `WAITERS`.
    #[inline(always)]
    pub(crate) fn some_head(self) -> *mut Waiter {
        self.0.map_addr(|addr| addr & !TAGS)
    }

    /// The same flags over another list; a null head leaves the flags alone.
    #[inline(always)]
    pub(crate) fn with_head(self, head: *mut Waiter) -> Self {
        if head.is_null() { self.without_waiters() } else { self.with_some_head(head) }
    }

    /// The same flags and no list.
    #[inline(always)]
    pub(crate) fn without_waiters(self) -> Self {
        Self::flags(self.0.addr() & FLAGS)
    }

    /// The same tags over the rest of the list, of a word that has `WAITERS`.
    #[inline(always)]
    pub(crate) fn with_next_head(self, head: *mut Waiter) -> Self {
        debug_assert!(self.has(WAITERS) && !self.has(EDIT), "no list to shorten in {self:?}");
        let tags = self.0.addr() & TAGS;
        Self(head.map_addr(|addr| addr | tags))
    }

    /// The same flags over a list that begins with this waiter.
    #[inline(always)]
    pub(crate) fn with_some_head(self, head: *mut Waiter) -> Self {
        let flags = self.0.addr() & FLAGS;
        Self(head.map_addr(|addr| addr | WAITERS | flags))
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(EDIT, "EDIT"), (WAITERS, "WAITERS"), (FLAG_A, "FLAG_A"), (FLAG_B, "FLAG_B")];
        write!(f, "Word({:#x}", self.0.addr() & !TAGS)?;
        for (bit, name) in names {
            if self.has(bit) {
                write!(f, "|{name}")?;
            }
        }
        f.write_str(")")
    }
}
