//! saa: one word each, spins before it queues. Nothing of it guards a value or is given back by itself,
//! so the adapters keep the value beside it and give back when dropped.

mod mutex;
mod rwlock;
mod semaphore;
mod signal;

pub(crate) use mutex::Saa;
pub(crate) use rwlock::SaaRwLock;
pub(crate) use semaphore::SaaSemaphore;
pub(crate) use signal::{SaaBarrier, SaaGate};

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Makes what a peer's future yields into a guard: no state of its own, so nothing is added to each poll.
pub(super) struct Then<F, G> {
    future: F,
    guard: G,
}

impl<T, F: Future<Output = T>, R, G: Fn(T) -> R> Future for Then<F, G> {
    type Output = R;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        // SAFETY: structural pinning of `future` alone - it is never moved and there is no `Drop` impl.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        future.poll(cx).map(&this.guard)
    }
}
