//! The one guard: access to a value for as long as something is held.
//!
//! Its *holder* says what is held, where the value is and how to release it; the
//! guard types of the crate are this guard over different holders. So there is one `Drop`, one `Deref`
//! and one place that decides what may cross threads. (Everywhere else a holder is a task that has the lock; here [`Holder`] is what its guard is made of.)

use crate::budget::{Charge, wake_again};
use crate::queue::batch::UnwindDrop;
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr;
use core::task::{Context, Poll};

/// What a guard holds. Only the crate implements it.
///
/// SAFETY: from the making of the guard to `release`, `value` is valid for reads through `&Target`, and
/// for [`Exclusive`] holders for writes, and no other holder accesses it in a way that conflicts.
#[doc(hidden)]
pub unsafe trait Holder: sealed::Sealed {
    /// What the guard gives access to.
    type Target: ?Sized;

    /// Where it is.
    fn value(&self) -> *mut Self::Target;

    /// Gives back what is held; called once, as the last use of the value. True if it was granted to a waiter, or one was woken for it.
    fn release(&self) -> bool;

    /// The guard is used: the running task is the holder from now on, also if another task took the lock. For `inspect/`.
    #[inline(always)]
    fn touch(&self) {}
}

/// A holder that shares the value with no other.
///
/// SAFETY: as it says; `value` is valid for writes.
#[doc(hidden)]
pub unsafe trait Exclusive: Holder {}

/// A holder of which a part of the value can be kept.
///
/// SAFETY: what `narrow` returns holds what `self` held. The part points into the value of `self`.
#[doc(hidden)]
pub unsafe trait Narrow: Exclusive + Sized {
    /// The holder of the part.
    type Narrowed<U: ?Sized>: Exclusive<Target = U>;

    /// Holds the same, shows the part.
    fn narrow<U: ?Sized>(self, part: *mut U) -> Self::Narrowed<U>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Access to a value while a lock is held. Dropping it releases the lock, on every way out:
/// the end of the scope, an early return, a panic, a cancelled task.
///
/// Usually written as [`MutexGuard`](crate::MutexGuard), [`RwLockReadGuard`](crate::RwLockReadGuard), and so on.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mutex = tasuki::Mutex::new(1);
/// {
///     let mut guard: tasuki::MutexGuard<'_, i32> = mutex.lock().await;
///     *guard += 1;
///     assert!(mutex.is_locked());
/// }
/// assert!(!mutex.is_locked());
/// # }
/// ```
#[must_use = "the lock is given back at once if the guard is not kept"]
#[clippy::has_significant_drop]
pub struct Guard<H: Holder> {
    /// Dropped after the release, whose wakers may have panicked: it may be the last `Arc` of the value.
    holder: UnwindDrop<H>,
    /// No automatic `Send` and `Sync`: they depend on the value, below. Not the type of the value: what is derived from `H` would make
    /// the guard invariant, and a guard of a `'static` lock could not stand for a shorter one.
    _not_automatic: PhantomData<*mut ()>,
}

// SAFETY: sending a guard sends access to the value, and the right to release, which the holder allows.
unsafe impl<H: Holder + Send> Send for Guard<H> where H::Target: Send {}
// SAFETY: sharing a guard shares `&Target` and the holder.
unsafe impl<H: Holder + Sync> Sync for Guard<H> where H::Target: Sync {}

impl<H: Holder> Guard<H> {
    /// The caller has just acquired what the holder stands for.
    #[inline(always)]
    pub(crate) fn new(holder: H) -> Self {
        Self { holder: UnwindDrop::new(holder), _not_automatic: PhantomData }
    }

    /// Unlocks now. The same as dropping the guard, but visible in the code.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// MutexGuard::unlock(guard);
    /// assert!(!mutex.is_locked());
    /// ```
    pub fn unlock(guard: Self) {
        drop(guard);
    }

    pub(crate) fn holder(&self) -> &H {
        &self.holder
    }

    /// Takes the holder out, unreleased.
    pub(crate) fn into_holder(self) -> H {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once; `ManuallyDrop` keeps `this` from being used or dropped again.
        unsafe { ptr::read(&this.holder) }.into_inner()
    }
}

impl<H: Exclusive> Guard<H> {
    /// Unlocks now, and lets the next owner run: the returned future yields once if a waiter was queued, and mostly is ready
    /// at once otherwise. The lock is released by the call, not by the first poll.
    ///
    /// Use it instead of a plain drop where a task locks again and again and others should have their turn soon.
    ///
    /// A task that wants the lock may not have been polled yet, and so not be queued. Therefore on `tasuki-rt` a hand-off also yields, waiter or not, after at most eight turns of nothing but lock and hand-off.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing: the lock was released by the call. The task then runs on without the yield.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{Mutex, MutexGuard};
    /// # let rt = async {
    /// let mutex = Mutex::new(1);
    /// let guard = mutex.lock().await;
    /// MutexGuard::hand_off(guard).await;
    /// # assert!(!mutex.is_locked());
    /// # };
    /// # let mut rt = std::pin::pin!(rt);
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(std::future::Future::poll(rt.as_mut(), &mut cx).is_ready());
    /// ```
    pub fn hand_off(guard: Self) -> HandOff {
        let holder = UnwindDrop::new(guard.into_holder());
        HandOff { yields: holder.release(), charge: Charge::default() }
    }
}

impl<H: Narrow> Guard<H> {
    /// Keeps the lock and gives access to a part of the value only.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new((1, "one"));
    /// let mut number = MutexGuard::map(mutex.try_lock().unwrap(), |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(mutex.into_inner().0, 2);
    /// ```
    pub fn map<U: ?Sized>(
        mut guard: Self,
        part: impl FnOnce(&mut H::Target) -> &mut U,
    ) -> Guard<H::Narrowed<U>> {
        let part: *mut U = part(&mut guard);
        Guard::new(guard.into_holder().narrow(part))
    }

    /// Keeps the lock and gives access to a part of the value only; returns the guard if `part` returns `None`.
    ///
    /// # Errors
    ///
    /// The guard itself, if the closure returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{Mutex, MutexGuard};
    ///
    /// let mutex = Mutex::new(vec![1, 2]);
    /// let guard = mutex.try_lock().unwrap();
    /// let guard = MutexGuard::filter_map(guard, |v| v.get_mut(7)).unwrap_err();
    /// assert_eq!(guard.len(), 2);
    /// ```
    pub fn filter_map<U: ?Sized>(
        mut guard: Self,
        part: impl FnOnce(&mut H::Target) -> Option<&mut U>,
    ) -> Result<Guard<H::Narrowed<U>>, Self> {
        match part(&mut guard).map(|part| part as *mut U) {
            Some(part) => Ok(Guard::new(guard.into_holder().narrow(part))),
            None => Err(guard),
        }
    }
}

impl<H: Holder> Drop for Guard<H> {
    #[inline]
    fn drop(&mut self) {
        self.holder.release();
    }
}

/// The future of [`MutexGuard::hand_off`](Guard::hand_off).
///
/// It has no limits ([`timeout`](crate::future::Wait::timeout) and the others): it waits for nothing, and its second poll is ready at the latest. The lock was released
/// by the call, so there is nothing that a limit could end or give back.
#[derive(Debug)]
#[must_use = "the lock is released already, but only awaiting this lets the next owner run"]
pub struct HandOff {
    /// Still to yield, because there was a waiter.
    yields: bool,
    charge: Charge,
}

impl Future for HandOff {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if core::mem::take(&mut self.yields) {
            self.charge.waive();
            wake_again(cx);
            return Poll::Pending;
        }
        self.charge.poll_without_refill(cx)
    }
}

impl<H: Holder> Deref for Guard<H> {
    type Target = H::Target;

    #[inline]
    fn deref(&self) -> &H::Target {
        self.holder.touch();
        // SAFETY: the contract of `Holder`; the guard has not been released.
        unsafe { &*self.holder.value() }
    }
}

impl<H: Exclusive> DerefMut for Guard<H> {
    #[inline]
    fn deref_mut(&mut self) -> &mut H::Target {
        self.holder.touch();
        // SAFETY: the contract of `Exclusive`; the guard has not been released.
        unsafe { &mut *self.holder.value() }
    }
}

impl<H: Holder> fmt::Debug for Guard<H>
where
    H::Target: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<H: Holder> fmt::Display for Guard<H>
where
    H::Target: fmt::Display,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
