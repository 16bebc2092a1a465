//! The floors: the bare atomic operations that a lock, a semaphore, a wait group and a token cannot do without.

use crate::peer::{AsyncMutex, AsyncSemaphore, Kind, Membership, StopCheck};
use std::cell::UnsafeCell;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// A lock that cannot be waited for.
pub(crate) struct CasSwap {
    word: AtomicUsize,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is reached only through a guard, and the word admits one guard at a time.
unsafe impl Sync for CasSwap {}

/// Releases the lock when dropped.
pub(crate) struct Guard<'a>(&'a CasSwap);

/// Takes the lock at the first poll; panics where a real lock would wait.
struct Locking<'a>(&'a CasSwap);

impl<'a> Future for Locking<'a> {
    type Output = Guard<'a>;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Guard<'a>> {
        Poll::Ready(self.0.try_lock().expect("the floor is measured uncontended"))
    }
}

impl AsyncMutex for CasSwap {
    const NAME: &'static str = "raw-cas-swap";
    const KIND: Kind = Kind::Floor;
    const NEVER_WAITS: bool = true;
    const LOCK_BYTES: usize = size_of::<AtomicUsize>();
    type Guard<'a> = Guard<'a>;

    fn new() -> Self {
        CasSwap { word: AtomicUsize::new(0), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Guard<'_>> + Send {
        Locking(self)
    }

    #[inline]
    fn try_lock(&self) -> Option<Guard<'_>> {
        // Acquire: pairs with the Release in `drop` - publishes the counter.
        let taken = self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Guard(self))
    }
}

impl Deref for Guard<'_> {
    type Target = u64;

    #[inline]
    fn deref(&self) -> &u64 {
        // SAFETY: a guard exists, so the word is set for it.
        unsafe { &*self.0.value.get() }
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut u64 {
        // SAFETY: as in `deref`, and the guard is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_lock`.
        self.0.word.swap(0, Ordering::Release);
    }
}

/// A semaphore that cannot be waited for: one compare-and-swap to take, one addition to give back.
pub(crate) struct CasAdd(AtomicUsize);

/// Gives the permit back when dropped.
pub(crate) struct Permit<'a>(&'a CasAdd);

/// Takes a permit at the first poll; panics where a real semaphore would wait.
struct Acquiring<'a>(&'a CasAdd);

impl<'a> Future for Acquiring<'a> {
    type Output = Permit<'a>;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Permit<'a>> {
        Poll::Ready(self.0.try_acquire().expect("the floor is measured uncontended"))
    }
}

impl AsyncSemaphore for CasAdd {
    const NAME: &'static str = "raw-cas-add";
    const KIND: Kind = Kind::Floor;
    const NEVER_WAITS: bool = true;
    const BYTES: usize = size_of::<AtomicUsize>();
    type Permit<'a> = Permit<'a>;

    fn new(permits: usize) -> Self {
        CasAdd(AtomicUsize::new(permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Permit<'_>> + Send {
        Acquiring(self)
    }

    #[inline]
    fn try_acquire(&self) -> Option<Permit<'_>> {
        // Relaxed: the exchange decides.
        let free = self.0.load(Ordering::Relaxed);
        // Acquire: pairs with the Release in `drop` - what the last holder did is seen.
        let taken =
            free > 0 && self.0.compare_exchange(free, free - 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken.then(|| Permit(self))
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_acquire`.
        self.0.0.fetch_add(1, Ordering::Release);
    }
}

/// A counter of members that cannot be waited for: one addition, one subtraction.
pub(crate) struct AddSub(AtomicUsize);

/// Leaves when dropped.
pub(crate) struct Member<'a>(&'a AddSub);

impl Membership for AddSub {
    const NAME: &'static str = "raw-add-sub";
    const KIND: Kind = Kind::Floor;
    const NEVER_WAITS: bool = true;
    type Member<'a> = Member<'a>;
    type Owned = ();

    fn new() -> Self {
        AddSub(AtomicUsize::new(0))
    }

    #[inline]
    fn member(&self) -> Self::Member<'_> {
        // Relaxed: nothing is published on entry. The old count is looked at, as every group must: it may overflow.
        let members = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(members < usize::MAX, "too many members");
        Member(self)
    }

    #[inline]
    fn owned(&self) -> Self::Owned {
        unreachable!("the floor is not waited for")
    }

    async fn wait(self) {
        assert_eq!(self.0.into_inner(), 0, "all have left");
    }
}

impl Drop for Member<'_> {
    #[inline]
    fn drop(&mut self) {
        // AcqRel: so that the last one out sees what the others did. Every group must know the last.
        if self.0.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            std::hint::black_box(());
        }
    }
}

/// One flag.
pub(crate) struct OneLoad(AtomicUsize);

impl StopCheck for OneLoad {
    const NAME: &'static str = "raw-load";
    const KIND: Kind = Kind::Floor;

    fn new() -> Self {
        OneLoad(AtomicUsize::new(0))
    }

    #[inline]
    fn is_requested(&self) -> bool {
        // Acquire: pairs with the Release in `request`.
        self.0.load(Ordering::Acquire) != 0
    }

    fn request(&self) {
        // Release: pairs with the Acquire in `is_requested`.
        self.0.store(1, Ordering::Release);
    }
}
