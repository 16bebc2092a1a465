//! The permit: so many of a semaphore's permits, until it is dropped.
//!
//! One type over a reference to the semaphore, borrowed or counted, so that there is one `Drop`.

use super::{Semaphore, SemaphorePolicy};
use crate::policy::Fifo;
use crate::primitive_ref::PrimitiveRef;
use crate::probe::{Held, LockMode, LockProbe, Site, WaitNote};
use core::fmt;

/// How a permit reaches its semaphore. Sealed: a reference or an `Arc`.
pub trait PermitHolder: PrimitiveRef + Clone {
    /// Gives back permits that a [`Permit`] holds.
    #[doc(hidden)]
    fn release_held(&self, permits: usize, right: Release);

    /// Which tasks hold permits of it.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    fn probe(&self) -> &LockProbe;

    /// The same semaphore?
    #[doc(hidden)]
    fn is_same(&self, other: &Self) -> bool;
}

/// The right to give back permits without a look at their number, which only a permit has: there are not more of them than were taken.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Release(());

/// Permits of a semaphore; they go back to it on drop.
///
/// Usually written as [`SemaphorePermit`] or, with an `Arc`, `OwnedSemaphorePermit`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let semaphore = tasuki::Semaphore::new(3);
/// let permit = semaphore.acquire_many(2).await.unwrap();
/// assert_eq!((permit.num_permits(), semaphore.available_permits()), (2, 1));
/// drop(permit);
/// assert_eq!(semaphore.available_permits(), 3);
/// # }
/// ```
#[must_use = "the permits go back at once if this is not kept"]
#[clippy::has_significant_drop]
pub struct Permit<H: PermitHolder> {
    holder: H,
    permits: usize,
    held: Held,
}

/// Permits of a borrowed [`Semaphore`]; they go back to it on drop.
///
/// # Examples
///
/// ```
/// let semaphore = tasuki::Semaphore::new(3);
/// let permit: tasuki::SemaphorePermit<'_> = semaphore.try_acquire_many(2).unwrap();
/// assert_eq!(semaphore.available_permits(), 1);
/// drop(permit);
/// assert_eq!(semaphore.available_permits(), 3);
/// ```
pub type SemaphorePermit<'a, P = Fifo> = Permit<&'a Semaphore<P>>;

impl<H: PermitHolder> Permit<H> {
    /// The caller has just taken so many permits.
    #[inline(always)]
    pub(super) fn new(holder: H, permits: usize, note: WaitNote, site: Site) -> Self {
        let mode = const { LockMode::permits(H::IS_COPIED) };
        let held = if permits == 0 { Held::NONE } else { holder.probe().claim(mode, note, site) };
        Self { holder, permits, held }
    }

    /// Returns how many permits it holds.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(3);
    /// assert_eq!(semaphore.try_acquire_many(2).unwrap().num_permits(), 2);
    /// ```
    pub fn num_permits(&self) -> usize {
        self.permits
    }

    /// Removes the permits from the semaphore for good: they do not go back.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(3);
    /// semaphore.try_acquire().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 2);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Takes another permit of the same semaphore into this one.
    ///
    /// # Panics
    ///
    /// If they belong to two semaphores, or would be more than [`Semaphore::MAX_PERMITS`] together. This one
    /// is then unchanged, and the other goes back to its semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire().unwrap();
    /// permit.merge(semaphore.try_acquire_many(2).unwrap());
    /// assert_eq!(permit.num_permits(), 3);
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(
            self.holder.is_same(&other.holder),
            "merged permits must be of one semaphore: drop the other one, or keep it apart"
        );
        let sum = self.permits.checked_add(other.permits).filter(|sum| *sum <= Semaphore::MAX_PERMITS);
        let sum = sum.expect("merged permits must not be more than `MAX_PERMITS`: keep them apart");
        if self.permits == 0 {
            // An empty permit has no place among the holders.
            core::mem::swap(&mut self.held, &mut other.held);
        }
        self.permits = sum;
        other.permits = 0;
    }

    /// Splits some of the permits off into a permit of their own; `None`, with nothing changed, if there are fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tasuki::Semaphore::new(3);
    /// let mut permit = semaphore.try_acquire_many(3).unwrap();
    /// let part = permit.split(1).unwrap();
    /// assert_eq!((permit.num_permits(), part.num_permits()), (2, 1));
    /// assert!(permit.split(3).is_none());
    /// ```
    #[must_use = "the part goes back at once if it is not kept"]
    #[track_caller]
    pub fn split(&mut self, permits: usize) -> Option<Self> {
        let left = self.permits.checked_sub(permits)?;
        let part = Self::new(self.holder.clone(), permits, WaitNote::NONE, Site::here());
        self.permits = left;
        if left == 0 {
            self.holder.probe().remove(core::mem::replace(&mut self.held, Held::NONE));
        }
        Some(part)
    }
}

impl<H: PermitHolder> Drop for Permit<H> {
    #[inline(always)]
    fn drop(&mut self) {
        self.holder.probe().remove(self.held);
        if self.permits > 0 {
            self.holder.release_held(self.permits, Release(()));
        }
    }
}

impl<H: PermitHolder> fmt::Debug for Permit<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl<P: SemaphorePolicy, R: PrimitiveRef<Primitive = Semaphore<P>> + Clone> PermitHolder for R {
    #[inline(always)]
    fn release_held(&self, permits: usize, _right: Release) {
        self.primitive().raw.release::<true>(permits);
    }

    #[expect(private_interfaces, reason = "only the crate can implement or call it")]
    #[inline(always)]
    fn probe(&self) -> &LockProbe {
        &self.primitive().raw.probe
    }

    fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self.primitive(), other.primitive())
    }
}
