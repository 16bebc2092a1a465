//! Wakers taken under `EDIT`, woken after.
//!
//! A panicking `wake` does not stop the others: with `std` the remaining wakers are woken first and
//! then the panic goes on. Without `std` nothing can catch it; the remaining wakers are woken while it
//! unwinds, and a second panic aborts.

use super::{Deferred, QueueUnlocked, waiter};
use core::mem::MaybeUninit;
use core::task::Waker;

/// How many wakers one hold of `EDIT` may collect. The section stays short for whoever wants the queue
/// next, and the batch stays on the stack. The model needs only to see the border crossed.
const CAPACITY: usize = if crate::shim::MODEL { 2 } else { 32 };

/// Wakers on their way from the queue to being woken.
#[derive(Debug)]
#[must_use = "these wakers must be woken, after the queue has been unlocked"]
pub(crate) struct WakeBatch {
    wakers: [MaybeUninit<Waker>; CAPACITY],
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
    pub(crate) fn push(&mut self, waker: Deferred<Option<Waker>>) {
        if let Some(waker) = waker.into_inner() {
            self.wakers[self.len].write(waker);
            self.len += 1;
        }
    }

    /// Adds what `next` gives, until it gives nothing or the batch is full.
    #[inline(always)]
    pub(crate) fn fill(&mut self, mut next: impl FnMut() -> Option<Waker>) {
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
            panics.catch(|| {
                while let Some(waker) = self.next() {
                    waiter::wake(Some(waker));
                }
            });
        }
        self.woken = 0;
        self.len = 0;
    }

    fn next(&mut self) -> Option<Waker> {
        let waker = self.wakers[..self.len].get(self.woken)?;
        self.woken += 1;
        // SAFETY: it was in `woken..len`, and has just left that range.
        Some(unsafe { waker.assume_init_read() })
    }
}

impl Drop for WakeBatch {
    /// Only a panic that could not be caught leaves wakers behind; they are woken all the same.
    fn drop(&mut self) {
        while let Some(waker) = self.next() {
            waiter::wake(Some(waker));
        }
    }
}

/// The first panic of a series of foreign calls, kept until the series is over.
#[derive(Debug, Default)]
#[must_use = "a caught panic goes on when the series is over"]
pub(crate) struct Panics {
    #[cfg(feature = "std")]
    first: Option<std::boxed::Box<dyn core::any::Any + Send>>,
}

impl Panics {
    #[cfg(feature = "std")]
    pub(crate) fn catch(&mut self, call: impl FnOnce()) {
        // Unwind-safe: the state of the primitive was complete before the first foreign call.
        if let Err(panic) = std::panic::catch_unwind(core::panic::AssertUnwindSafe(call)) {
            self.first.get_or_insert(panic);
        }
    }

    #[cfg(not(feature = "std"))]
    pub(crate) fn catch(&mut self, call: impl FnOnce()) {
        call();
    }

    /// Lets the panic go on.
    pub(crate) fn resume(self) {
        #[cfg(feature = "std")]
        if let Some(panic) = self.first {
            std::panic::resume_unwind(panic);
        }
    }
}
