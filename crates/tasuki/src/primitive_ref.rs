//! A reference to a primitive, borrowed or counted: the one way in which operations and guards come in both forms.
//!
//! `mutex.lock()` borrows the mutex, `mutex.lock_owned()` keeps an `Arc` of it; in all else they are the same. So an operation, a guard, a permit or a member is written once, over a
//! [`PrimitiveRef`], which is `&T` or `Arc<T>`. (A token is a counted handle by itself: it stands for `Arc<T>` there.) Locks with a value have a [`LockRef`], which also finds
//! the value.
//!
//! ```text
//!   lock(&Mutex) ------------> LockOp { RefSlot: &Mutex }     --take--> Guard<&Mutex> --------map--> Guard<MappedMutex<&RawMutex, U>>
//!   lock_owned(Arc<Mutex>) --> LockOp { RefSlot: Arc<Mutex> } --take--> Guard<Arc<Mutex>> ----map--> Guard<MappedMutex<Arc<Mutex>, U>>
//! ```
//!
//! An operation keeps its reference in a [`RefSlot`], from which its guard takes it: an `Arc` is moved, a borrow copied. A guard of a part keeps what it needs to release, and
//! no more ([`LockRef::Kept`]): of a borrow the raw lock, so that its type does not name the whole; of an `Arc` the `Arc`.
//!
//! # Invariants
//! 1. The slot of a reference that is copied ([`PrimitiveRef::IS_COPIED`]) is never empty.

#[cfg(feature = "alloc")]
use alloc::sync::Arc;
use core::fmt;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A reference to a primitive, which stays in its place for as long as the reference is there: a borrow, or a counted handle.
#[doc(hidden)]
pub trait PrimitiveRef: sealed::Sealed + Sized {
    /// What it refers to.
    type Primitive: ?Sized;

    /// Is it a borrow, which is copied where a counted handle is moved?
    const IS_COPIED: bool;

    /// What it refers to.
    fn primitive(&self) -> &Self::Primitive;

    /// A copy; `Some` exactly of a reference that [is copied](Self::IS_COPIED).
    fn copied(&self) -> Option<Self>;
}

impl<T: ?Sized> sealed::Sealed for &T {}

impl<T: ?Sized> PrimitiveRef for &T {
    type Primitive = T;
    const IS_COPIED: bool = true;

    #[inline(always)]
    fn primitive(&self) -> &T {
        self
    }

    #[inline(always)]
    fn copied(&self) -> Option<Self> {
        Some(self)
    }
}

#[cfg(feature = "alloc")]
impl<T: ?Sized> sealed::Sealed for Arc<T> {}

#[cfg(feature = "alloc")]
impl<T: ?Sized> PrimitiveRef for Arc<T> {
    type Primitive = T;
    const IS_COPIED: bool = false;

    #[inline(always)]
    fn primitive(&self) -> &T {
        self
    }

    #[inline(always)]
    fn copied(&self) -> Option<Self> {
        None
    }
}

/// A lock that guards a value.
#[doc(hidden)]
pub trait Lockable {
    /// The lock without the value.
    type Raw;
    /// What it guards.
    type Value: ?Sized;

    /// The lock.
    fn raw(&self) -> &Self::Raw;

    /// The value.
    fn value(&self) -> *mut Self::Value;
}

/// A reference to a lock that guards a value.
#[doc(hidden)]
pub trait LockRef: PrimitiveRef {
    /// The lock without the value.
    type Raw;
    /// What it guards.
    type Value: ?Sized;
    /// What a guard of a part keeps.
    type Kept: RawRef<Raw = Self::Raw>;

    /// The lock.
    fn raw(&self) -> &Self::Raw;

    /// The value.
    fn value(&self) -> *mut Self::Value;

    /// Keeps what is needed to release.
    fn keep(self) -> Self::Kept;
}

impl<'a, L: Lockable + ?Sized> LockRef for &'a L {
    type Raw = L::Raw;
    type Value = L::Value;
    type Kept = &'a L::Raw;

    #[inline(always)]
    fn raw(&self) -> &L::Raw {
        L::raw(self)
    }

    #[inline(always)]
    fn value(&self) -> *mut L::Value {
        L::value(self)
    }

    #[inline(always)]
    fn keep(self) -> &'a L::Raw {
        L::raw(self)
    }
}

#[cfg(feature = "alloc")]
impl<L: Lockable + ?Sized> LockRef for Arc<L> {
    type Raw = L::Raw;
    type Value = L::Value;
    type Kept = Self;

    #[inline(always)]
    fn raw(&self) -> &L::Raw {
        L::raw(self)
    }

    #[inline(always)]
    fn value(&self) -> *mut L::Value {
        L::value(self)
    }

    #[inline(always)]
    fn keep(self) -> Self {
        self
    }
}

/// The way to a raw lock, to release it.
#[doc(hidden)]
pub trait RawRef {
    /// The lock without the value.
    type Raw;

    /// The lock.
    fn raw(&self) -> &Self::Raw;
}

impl<R> RawRef for &R {
    type Raw = R;

    #[inline(always)]
    fn raw(&self) -> &R {
        self
    }
}

#[cfg(feature = "alloc")]
impl<L: Lockable + ?Sized> RawRef for Arc<L> {
    type Raw = L::Raw;

    #[inline(always)]
    fn raw(&self) -> &L::Raw {
        L::raw(self)
    }
}

/// The place of a reference in an operation, until the guard takes it.
pub(crate) struct RefSlot<R>(Option<R>);

impl<R: PrimitiveRef> RefSlot<R> {
    #[inline(always)]
    pub(crate) fn new(reference: R) -> Self {
        Self(Some(reference))
    }

    /// The reference, which has not been taken.
    #[inline(always)]
    pub(crate) fn get(&self) -> &R {
        match &self.0 {
            Some(reference) => reference,
            // SAFETY: invariant 1.
            None if R::IS_COPIED => unsafe { core::hint::unreachable_unchecked() },
            None => taken(),
        }
    }

    /// The reference, for the guard.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> R {
        match self.get().copied() {
            Some(copy) => copy,
            None => self.0.take().unwrap_or_else(|| taken()),
        }
    }

    /// The reference, for the guard, if `acquires` is true of the primitive. A borrow is copied before that call: after a locked operation it would
    /// be read from memory again.
    #[inline(always)]
    pub(crate) fn take_if(&mut self, acquires: impl FnOnce(&R) -> bool) -> Option<R> {
        match self.get().copied() {
            Some(copy) => acquires(&copy).then_some(copy),
            None if acquires(self.get()) => self.0.take(),
            None => None,
        }
    }
}

#[cold]
#[inline(never)]
fn taken() -> ! {
    panic!("the reference is here until the guard takes it")
}

impl<R> fmt::Debug for RefSlot<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RefSlot")
    }
}
