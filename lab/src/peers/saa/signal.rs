//! saa's gate and barrier.

use crate::peer::{AsyncBarrier, AutoEvent, Broadcast};
use saa::{Barrier, Gate};
use std::future::Future;

/// `saa::Gate`, closed: it releases the waiters of now, and keeps nothing for later.
pub(crate) struct SaaGate(Gate);

impl AutoEvent for SaaGate {
    const NAME: &'static str = "saa";

    fn new() -> Self {
        SaaGate(Gate::new())
    }

    #[inline]
    fn set(&self) {
        self.0.permit().expect("neither open nor sealed");
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.enter_async()
    }
}

impl Broadcast for SaaGate {
    const NAME: &'static str = "saa";
    const BYTES: usize = size_of::<Gate>();

    fn new() -> Self {
        SaaGate(Gate::new())
    }

    fn rearm(&mut self) {
        // Nothing is stored.
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.enter_async()
    }

    #[inline]
    fn release(&self) {
        self.0.permit().expect("neither open nor sealed");
    }
}

/// `saa::Barrier`; more parties than its most would be clamped.
pub(crate) struct SaaBarrier(Barrier);

impl AsyncBarrier for SaaBarrier {
    const NAME: &'static str = "saa";
    const BYTES: usize = size_of::<Barrier>();
    const MOST: usize = 63;
    type WaitResult = bool;

    fn new(parties: usize) -> Self {
        assert!(parties <= Self::MOST, "more would be clamped");
        SaaBarrier(Barrier::with_count(parties))
    }

    #[inline]
    fn arrive(&self) -> impl Future<Output = Self::WaitResult> + Send {
        self.0.wait_async()
    }

    #[inline]
    fn is_leader(result: &Self::WaitResult) -> bool {
        *result
    }
}
