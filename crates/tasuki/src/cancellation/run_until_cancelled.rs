//! `run_until_cancelled`: a future that is dropped when a token is cancelled.
//!
//! It holds the future of the user and a wait for the cancel, both pinned. Its one projection is [`UntilCancelled::parts`].
//!
//! | state    | poll finds                     | does                                   | to        |
//! |----------|--------------------------------|----------------------------------------|-----------|
//! | running  | the first time, budget exhausted | nothing; wakes the task              | running   |
//! | running  | cancelled                      | drops the future unpolled; `None`      | finished  |
//! | running  | the future is ready            | leaves the queue of the token, drops the future; `Some` | finished  |
//! | running  | the same, and the drop of the waker panics | the same: what the output stands for, a message that was received, would be lost with the panic | finished |
//! | running  | the future is pending          | registers with the token               | running   |
//! | running  | the same, and cancelled meanwhile | drops the future; `None`            | finished  |
//! | running  | the future panics              | nothing: it is the future's panic, and the next poll polls it again | running |
//! | finished |                                | panics                                 |           |
//!
//! A limit that is reached drops the future, as a cancelled token does.
//!
//! A wait with [`or_cancelled`](Wait::or_cancelled) can pass its output on (`Op::discard`), and lets the panic of a waker go on. The future here is the user's: what its output stands for is not known. So the panic ends here,
//! and the panic hook has reported it. Without `std` nothing can catch it, and the output is dropped.

use super::{CancellationToken, OnCancel};
use crate::budget::Charge;
use crate::queue::batch::UnwindDrop;
use crate::wait::{Awaitable, Cancel, Wait};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

/// The future of [`CancellationToken::run_until_cancelled`].
pub type RunUntilCancelled<'a, F> = Wait<UntilCancelled<'a, F>>;

/// Runs a future until a token is cancelled.
#[must_use = "nothing runs unless it is awaited or polled"]
pub struct UntilCancelled<'a, F> {
    token: &'a CancellationToken,
    /// Gone when finished. Both are pinned, and dropped in their place.
    running: Option<Running<'a, F>>,
    charge: Charge,
}

struct Running<'a, F> {
    /// Dropped first: should that panic, the wait is dropped without a second panic.
    future: F,
    on_cancel: OnCancel<'a>,
}

impl<'a, F> UntilCancelled<'a, F> {
    #[track_caller]
    pub(super) fn new(token: &'a CancellationToken, future: F) -> RunUntilCancelled<'a, F>
    where
        F: Future,
    {
        let running = Some(Running { future, on_cancel: token.on_cancel() });
        Wait::of(Self { token, running, charge: Charge::default() })
    }

    /// The charge, which is not pinned.
    fn charge(self: Pin<&mut Self>) -> &mut Charge {
        // SAFETY: nothing is moved out of the reference.
        unsafe { &mut self.get_unchecked_mut().charge }
    }

    /// The pinned parts, while it runs.
    fn parts(self: Pin<&mut Self>) -> Option<(Pin<&mut OnCancel<'a>>, Pin<&mut F>)> {
        // SAFETY: nothing is moved out of the reference, here or below.
        let this = unsafe { self.get_unchecked_mut() };
        let running = this.running.as_mut()?;
        // SAFETY: pinned with the whole: never moved, and dropped in its place by `finish` or with the whole.
        let on_cancel = unsafe { Pin::new_unchecked(&mut running.on_cancel) };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut running.future) };
        Some((on_cancel, future))
    }

    /// Cancels the wait for the token, and drops the waker, whatever that does.
    fn cancel_wait(self: Pin<&mut Self>) {
        let Some((on_cancel, _)) = self.parts() else { return };
        let cancel = || {
            let _ = on_cancel.cancel(Cancel(()));
        };
        #[cfg(feature = "std")]
        let _ = crate::catch_panic::caught(cancel);
        #[cfg(not(feature = "std"))]
        cancel();
    }

    /// Running => finished: drops the future, and leaves the queue of the token.
    fn finish(self: Pin<&mut Self>) {
        // SAFETY: nothing is moved out of the reference; what is replaced is dropped in its place.
        let this = unsafe { self.get_unchecked_mut() };
        this.running = None;
    }
}

impl<F: Future> Future for UntilCancelled<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Before anything is polled: whether the future will be ready is not known, and it may hold what it was given.
        if self.running.is_some() {
            ready!(self.as_mut().charge().poll(cx));
        }
        let cancelled = self.token.stop_requested();
        let Some((on_cancel, future)) = self.as_mut().parts() else {
            panic!("`tasuki::future::RunUntilCancelled` polled after it was finished");
        };
        if !cancelled {
            if let Poll::Ready(output) = future.poll(cx) {
                // Dropped if the drop of the future panics: that is the future's own panic.
                let mut output = UnwindDrop::new(Some(output));
                self.as_mut().cancel_wait();
                self.finish();
                return Poll::Ready(output.take());
            }
            if on_cancel.poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.finish();
        Poll::Ready(None)
    }
}

impl<F: Future> Awaitable for UntilCancelled<'_, F> {
    type Unfinished<E> = E;

    fn cancel(self: Pin<&mut Self>, _right: Cancel) -> Option<Self::Output> {
        self.finish();
        None
    }

    fn unfinished<E>(self: Pin<&mut Self>, limit: E, _right: Cancel) -> E {
        limit
    }

    fn has_ended(&self) -> bool {
        self.running.is_none()
    }
}

impl<F> fmt::Debug for UntilCancelled<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &mut f.debug_struct("RunUntilCancelled");
        name.field("token", self.token).field("finished", &self.running.is_none()).finish_non_exhaustive()
    }
}
