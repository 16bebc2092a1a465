//! Waiting for a cancel: the one future over the queue of a node.
//!
//! | from    | event              | to        | fn |
//! |---------|--------------------|-----------|----|
//! | idle    | poll, cancelled    | finished  | [`OnCancelOp::try_now`], [`OnCancelOp::enqueue`] |
//! | idle    | poll               | queued    | [`OnCancelOp::enqueue`] |
//! | queued  | poll, cancelled    | finished  | [`OnCancelOp::poll_queued`] |
//! | queued  | drop, at any time  | out of the queue | [`OnCancelOp::cancel`] |
//!
//! The flag releases the waiters, not their batch: from the moment that `CANCELLED` is set a poll is ready, even if the waker of the task is called later.
//! Dropping a waiter changes nothing for others.

use super::CancellationToken;
use super::node::{CANCELLED, Node};
use crate::primitive_ref::{PrimitiveRef, sealed};
use crate::probe::Target;
use crate::queue::Pinned;
use crate::queue::waiter::{clone_waker, drop_waker};
use crate::wait::{Op, WaiterSlot};
use core::task::{Context, Poll};

/// The operation of [`CancellationToken::on_cancel`] and [`CancellationToken::on_cancel_owned`]: `R` is the reference to the token, or the token itself.
#[derive(Debug)]
pub struct OnCancelOp<R> {
    token: R,
}

impl sealed::Sealed for CancellationToken {}

/// A token is a counted handle by itself.
impl PrimitiveRef for CancellationToken {
    type Primitive = Self;
    const IS_COPIED: bool = false;

    #[inline(always)]
    fn primitive(&self) -> &Self {
        self
    }

    fn copied(&self) -> Option<Self> {
        None
    }
}

impl<R: PrimitiveRef<Primitive = CancellationToken>> OnCancelOp<R> {
    pub(super) fn new(token: R) -> Self {
        Self { token }
    }

    #[inline(always)]
    fn node(&self) -> &Node {
        &self.token.primitive().node
    }

    /// No cancel comes.
    pub(crate) fn is_never(&self) -> bool {
        self.node().is_never()
    }
}

impl<R: PrimitiveRef<Primitive = CancellationToken>> Op for OnCancelOp<R> {
    type Output = ();
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::OnCancel";

    fn target(&self) -> Target<'_> {
        if self.is_never() { Target::NEVER } else { Target::SIGNAL }
    }

    #[inline]
    fn try_now(&mut self) -> Option<()> {
        self.node().is_cancelled().then_some(())
    }

    fn is_ready(&self) -> bool {
        self.node().is_cancelled()
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = clone_waker(cx.waker());
        let waiters = &self.node().waiters;
        let mut locked = waiters.queue.lock();
        if locked.word().has(CANCELLED) {
            drop(locked);
            drop_waker(Some(waker));
            return Poll::Ready(());
        }
        let payload = waiters.payload(&locked);
        locked.push_back(slot.init(waker, payload));
        Poll::Pending
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        let node = self.node();
        if node.is_cancelled() {
            let _ = node.waiters.cancel(waiter, |_| {});
            return Poll::Ready(());
        }
        node.waiters.poll_queued(waiter, cx)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<()> {
        let node = self.node();
        let _ = node.waiters.cancel(waiter, |_| {});
        node.is_cancelled().then_some(())
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}
