//! Wakers that are taken under the queue lock and woken after it; and how foreign code is called whose panic must keep no other waker and no destructor from its turn.
//!
//! A waker is foreign code and may do anything, so it never runs while the queue is locked. What grants many waiters at once moves their wakers into a [`WakeBatch`], an array on
//! its stack, unlocks the queue, and wakes them; then it locks the queue again for the next batch.
//!
//! A panicking `wake` does not stop the others: with `std` the remaining wakers are woken first and
//! then the panic goes on. Without `std` nothing can catch it; the remaining wakers are woken while it
//! unwinds, and a second panic aborts.
//!
//! | type or function | what it contains |
//! |---|---|
//! | [`Panics`], [`call_each`] | a series of foreign calls: all are made, and the first panic goes on at the end |
//! | [`while_unwinding`], [`UnwindDrop`] | foreign code in a destructor: while another panic unwinds its own panic is dropped |

use super::{Deferred, QueueUnlocked, QueueWaker, waiter};
#[cfg(feature = "std")]
use crate::catch_panic::{PanicPayload, catch, caught, discard};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};

/// How many wakers one hold of `EDIT` may collect. The lock is held for a short time, so that the next
/// thread gets it soon, and the batch stays on the stack. The model needs only to see the border crossed.
const CAPACITY: usize = if crate::shim::MODEL { 2 } else { 32 };

/// Wakers on their way from the queue to being woken.
#[derive(Debug)]
#[must_use = "these wakers must be woken, after the queue has been unlocked"]
pub(crate) struct WakeBatch {
    wakers: [MaybeUninit<QueueWaker>; CAPACITY],
    /// The wakers in `woken..len` are initialised and have not been woken.
    woken: usize,
    len: usize,
}

impl WakeBatch {
    pub(crate) fn new() -> Self {
        Self { wakers: [const { MaybeUninit::uninit() }; CAPACITY], woken: 0, len: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    /// Adds what came out of a slot. The batch is not full.
    pub(crate) fn push(&mut self, waker: Deferred<Option<QueueWaker>>) {
        if let Some(waker) = waker.into_inner() {
            self.wakers[self.len].write(waker);
            self.len += 1;
        }
    }

    /// Adds what `next` gives, until it gives nothing or the batch is full.
    #[inline(always)]
    pub(crate) fn fill(&mut self, mut next: impl FnMut() -> Option<QueueWaker>) {
        let mut len = self.len;
        for slot in &mut self.wakers[len..] {
            let Some(waker) = next() else { break };
            slot.write(waker);
            len += 1;
        }
        self.len = len;
    }

    /// Wakes them in the order in which they were taken; the batch is empty again.
    pub(crate) fn wake_all(&mut self, _unlocked: QueueUnlocked, panics: &mut Panics) {
        while self.woken < self.len {
            // One catch for as many as go well.
            panics.catch(|| self.wake_rest());
        }
        self.woken = 0;
        self.len = 0;
    }

    /// Wakes what has not been woken. The one that is being woken counts as woken, so a panic leaves the others.
    // A function of its own: with `self` as its argument the compiler knows that the wakers do not change it.
    #[inline(never)]
    fn wake_rest(&mut self) {
        let len = self.len;
        waiter::wake_each(|| {
            if self.woken == len {
                return None;
            }
            let waker = &self.wakers[self.woken];
            self.woken += 1;
            // SAFETY: it was in `woken..len`, and has just left that range.
            Some(unsafe { waker.assume_init_read() })
        });
    }
}

impl Drop for WakeBatch {
    /// Only a panic that could not be caught leaves wakers behind; they are woken all the same.
    #[inline]
    fn drop(&mut self) {
        if self.woken < self.len {
            self.wake_rest();
        }
    }
}

/// The first panic of a series of foreign calls, kept until the series is over.
#[derive(Debug, Default)]
#[must_use = "a caught panic goes on when the series is over"]
pub(crate) struct Panics {
    /// What the first carried. No destructor: what is not resumed is leaked, for its drop may panic.
    #[cfg(feature = "std")]
    first: Option<ManuallyDrop<PanicPayload>>,
}

impl Panics {
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn catch(&mut self, call: impl FnOnce()) {
        // Unwind-safe: the state of the primitive was complete before the first foreign call.
        if let Err(panic) = catch(call) {
            self.keep(panic);
        }
    }

    #[cfg(feature = "std")]
    #[cold]
    fn keep(&mut self, panic: PanicPayload) {
        match self.first {
            None => self.first = Some(ManuallyDrop::new(panic)),
            // What a panic carries is foreign too: its drop may panic.
            Some(_) => discard(panic),
        }
    }

    #[cfg(not(feature = "std"))]
    pub(crate) fn catch(&mut self, call: impl FnOnce()) {
        call();
    }

    /// Lets the panic go on, unless the thread is unwinding already: a second panic would abort the process.
    #[inline]
    pub(crate) fn resume(self) {
        #[cfg(feature = "std")]
        if let Some(panic) = self.first {
            go_on(ManuallyDrop::into_inner(panic));
        }
    }
}

/// Calls foreign code until it says, by false, that nothing is left. A panic does not end the series: with `std` it goes on when the series is over; without, the rest is called
/// while it unwinds, and a second panic aborts.
#[inline]
pub(crate) fn call_each(next: impl FnMut() -> bool) {
    let mut series = Series { next, is_over: false };
    let mut panics = Panics::default();
    while !series.is_over {
        // One catch for as many as go well.
        panics.catch(|| series.run());
    }
    drop(series);
    panics.resume();
}

/// Calls that are made, all of them, whatever panics.
struct Series<F: FnMut() -> bool> {
    next: F,
    is_over: bool,
}

impl<F: FnMut() -> bool> Series<F> {
    fn run(&mut self) {
        while (self.next)() {}
        self.is_over = true;
    }
}

impl<F: FnMut() -> bool> Drop for Series<F> {
    /// Only a panic that could not be caught leaves calls behind; they are made all the same.
    fn drop(&mut self) {
        if !self.is_over {
            self.run();
        }
    }
}

/// A value of the user's, or what may own one (an `Arc` of a primitive), that is dropped beside other foreign code: if that has panicked, a panic of this value's destructor is dropped. Nothing where
/// the value has no destructor: a guard or a future that borrows its primitive.
pub(crate) struct UnwindDrop<T>(ManuallyDrop<T>);

impl<T> UnwindDrop<T> {
    #[inline(always)]
    pub(crate) const fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }

    /// The value itself.
    #[inline(always)]
    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is neither used again nor dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T> Deref for UnwindDrop<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for UnwindDrop<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for UnwindDrop<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if core::mem::needs_drop::<T>() {
            // SAFETY: dropped once, here, and not used again.
            while_unwinding(|| unsafe { ManuallyDrop::drop(&mut self.0) });
        }
    }
}

/// Foreign code that may run in a destructor. If the thread unwinds, a panic of that code is dropped, for it would end the process.
#[inline(always)]
pub(crate) fn while_unwinding(call: impl FnOnce()) {
    #[cfg(feature = "std")]
    if std::thread::panicking() {
        return caught_here(call);
    }
    call();
}

#[cfg(feature = "std")]
#[cold]
#[inline(never)]
fn caught_here(call: impl FnOnce()) {
    let _ = caught(call);
}

#[cfg(feature = "std")]
#[cold]
fn go_on(panic: PanicPayload) {
    if std::thread::panicking() {
        discard(panic);
    } else {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A call panics: the others are made all the same, and the panic goes on; also where it cannot be caught, and the others are made while it unwinds.
    #[test]
    fn a_series_is_not_ended_by_a_panic() {
        for caught in [true, false] {
            let mut calls = 0;
            let next = || {
                calls += 1;
                assert_ne!(calls, 3, "a hostile destructor");
                calls < 8
            };
            let called = catch_unwind(AssertUnwindSafe(|| match caught {
                true => call_each(next),
                false => Series { next, is_over: false }.run(),
            }));
            assert!(called.is_err() && calls == 8, "{calls} calls, caught: {caught}");
        }
    }
}
