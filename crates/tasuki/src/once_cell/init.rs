//! The futures that make the value of a cell: a wait for the turn, then the initialiser.

use super::OnceCell;
use super::turn::{Turn, TurnOp, TurnOutcome};
use crate::queue::batch::UnwindDrop;
use crate::wait::{Awaitable, Cancel, Single, Wait};
use core::convert::Infallible;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// The future of [`OnceCell::get_or_try_init`].
pub type GetOrTryInit<'a, T, F, Fut, E> = Wait<Init<'a, T, F, Fut, E>>;

/// Waits for the turn, then runs the initialiser.
#[must_use = "a future does nothing unless it is polled"]
pub struct Init<'a, T, F, Fut: Future, E> {
    /// What to run when it is our turn; gone when it runs.
    init: Option<F>,
    finish: fn(Fut::Output) -> Result<T, E>,
    wait: Single<TurnOp<'a, T>>,
    /// The turn, and the initialiser that has it. Dropped in this order: a turn passes on when its initialiser is gone.
    running: Option<Fut>,
    turn: Option<Turn<'a, T>>,
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future, E> Init<'a, T, F, Fut, E> {
    #[track_caller]
    pub(super) fn new(cell: &'a OnceCell<T>, init: F, finish: fn(Fut::Output) -> Result<T, E>) -> Self {
        let wait = Single::new(TurnOp::new(cell));
        Self { init: Some(init), finish, wait, running: None, turn: None }
    }
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future, E> Future for Init<'a, T, F, Fut, E> {
    type Output = Result<&'a T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing that is pinned is moved out: `wait` and `running` are only reached pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: a field of the pinned whole.
        let mut running = unsafe { Pin::new_unchecked(&mut this.running) };
        // On the stack while foreign code runs: if that panics, the turn passes on.
        let turn = match this.turn.take() {
            Some(turn) => turn,
            None => {
                // SAFETY: a field of the pinned whole.
                let wait = unsafe { Pin::new_unchecked(&mut this.wait) };
                let turn = match core::task::ready!(wait.poll(cx)) {
                    TurnOutcome::Value(value) => return Poll::Ready(Ok(value)),
                    TurnOutcome::Turn(turn) => turn,
                };
                let init = this.init.take().expect("the initialiser runs once");
                running.set(Some(init()));
                turn
            }
        };
        let initialiser = running.as_mut().as_pin_mut().expect("it runs while the turn is held");
        let Poll::Ready(output) = initialiser.poll(cx) else {
            this.turn = Some(turn);
            return Poll::Pending;
        };
        let mut output = UnwindDrop::new(Some(output));
        running.set(None);
        let made = (this.finish)(output.take().expect("it was put there"));
        Poll::Ready(made.map(|value| turn.complete(value)))
    }
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future, E> Awaitable for Init<'a, T, F, Fut, E> {
    type Unfinished<L> = L;

    /// An initialiser that is running is dropped, and the turn passes on.
    fn cancel(self: Pin<&mut Self>, right: Cancel) -> Option<Self::Output> {
        // SAFETY: nothing that is pinned is moved out.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: a field of the pinned whole.
        let mut running = unsafe { Pin::new_unchecked(&mut this.running) };
        // On the stack, so that the turn passes on and the wait is over also if the destructor of the initialiser panics.
        let turn = this.turn.take();
        running.set(None);
        drop(turn);
        // SAFETY: a field of the pinned whole.
        let wait = unsafe { Pin::new_unchecked(&mut this.wait) };
        match wait.cancel(right)? {
            TurnOutcome::Value(value) => Some(Ok(value)),
            // Granted at the last moment, and no time left to make the value: the next one has the turn.
            TurnOutcome::Turn(turn) => {
                drop(turn);
                None
            }
        }
    }

    fn unfinished<L>(self: Pin<&mut Self>, limit: L, _right: Cancel) -> L {
        limit
    }

    fn has_ended(&self) -> bool {
        // An initialiser that panicked is still there, to be dropped with the whole; its turn has passed on.
        self.wait.has_ended() && self.turn.is_none()
    }
}

impl<T, F, Fut: Future, E> fmt::Debug for Init<'_, T, F, Fut, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetOrInit").field("has_turn", &self.turn.is_some()).finish_non_exhaustive()
    }
}

/// The future of [`OnceCell::get_or_init`].
pub type GetOrInit<'a, T, F, Fut> = Wait<InfallibleInit<'a, T, F, Fut>>;

/// An [`Init`] whose initialiser cannot fail: what [`OnceCell::get_or_init`] waits for.
#[must_use = "a future does nothing unless it is polled"]
pub struct InfallibleInit<'a, T, F, Fut: Future> {
    pub(super) init: Init<'a, T, F, Fut, Infallible>,
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future> Future for InfallibleInit<'a, T, F, Fut> {
    type Output = &'a T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<&'a T> {
        // SAFETY: a projection to the only field.
        let init = unsafe { self.map_unchecked_mut(|this| &mut this.init) };
        init.poll(cx).map(|Ok(value)| value)
    }
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future> Awaitable for InfallibleInit<'a, T, F, Fut> {
    type Unfinished<L> = L;

    fn cancel(self: Pin<&mut Self>, right: Cancel) -> Option<&'a T> {
        // SAFETY: a projection to the only field.
        let init = unsafe { self.map_unchecked_mut(|this| &mut this.init) };
        init.cancel(right).map(|Ok(value)| value)
    }

    fn unfinished<L>(self: Pin<&mut Self>, limit: L, _right: Cancel) -> L {
        limit
    }

    fn has_ended(&self) -> bool {
        self.init.has_ended()
    }
}

impl<T, F, Fut: Future> fmt::Debug for InfallibleInit<'_, T, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.init.fmt(f)
    }
}
