//! The scheduler's side of the sockets: when a worker polls the system. Without the feature `net` there are none.
//!
//! The poller is in `io/poller.rs`, which worker may use it in `idle.rs`.

use super::Shared;
use super::worker::Local;

#[cfg(feature = "net")]
pub(crate) use crate::io::{Delivery, Sockets};

#[cfg(not(feature = "net"))]
pub(crate) use none::{Delivery, Sockets};

/// A runtime without sockets.
#[cfg(not(feature = "net"))]
mod none {
    use std::convert::Infallible;
    use std::time::Instant;
    use tasuki::Parker;

    #[derive(Debug, Default)]
    pub(crate) struct Sockets(());

    #[derive(Debug)]
    pub(crate) struct Delivery(Infallible);

    impl Delivery {
        pub(crate) fn wake(self) {
            match self.0 {}
        }
    }

    impl Sockets {
        pub(crate) fn are_used(&self) -> bool {
            false
        }

        pub(crate) fn sleep(&self, _: &Parker, _: Option<Instant>, _: &mut Vec<Delivery>) {}

        pub(crate) fn poll(&self, _: &mut Vec<Delivery>) {}

        pub(crate) fn close(&self) {}
    }
}

impl Shared {
    /// The first socket: a worker is to poll from now on.
    #[cfg(feature = "net")]
    pub(crate) fn open_poll_slot(&self) {
        if let Some(worker) = self.idle.open_poll_slot() {
            self.remotes[worker].unparker.unpark();
        }
    }
}

impl Local {
    /// Between two tasks, now and then: takes what is ready, unless another worker waits for it, or this one has done so since the last time.
    #[inline]
    pub(super) fn poll_sockets(&self, shared: &Shared) {
        if shared.sockets.are_used() && !self.waited_for_sockets.take() {
            self.poll_now(shared);
        }
    }

    #[cold]
    fn poll_now(&self, shared: &Shared) {
        if !shared.idle.try_poll(self.index) {
            return;
        }
        shared.sockets.poll(&mut self.deliveries.borrow_mut());
        if let Some(worker) = shared.idle.end_poll(self.index) {
            shared.remotes[worker].unparker.unpark();
        }
        self.wake_delivered();
    }

    /// The worker is awake, and has left the poll slot: wakes the tasks whose sockets are ready, which run here next.
    pub(super) fn wake_delivered(&self) {
        if self.deliveries.borrow().is_empty() {
            return;
        }
        // Foreign code: not under the borrow.
        let mut deliveries = self.deliveries.take();
        deliveries.drain(..).for_each(Delivery::wake);
        self.deliveries.replace(deliveries);
    }

    /// Before a poll, which may be long: another worker takes the poll slot, if this one has left it.
    #[inline]
    pub(super) fn hand_over_poll_slot(&self, shared: &Shared) {
        if self.owes_poll_slot.take() {
            if let Some(worker) = shared.idle.hand_over_poll_slot() {
                shared.remotes[worker].unparker.unpark();
            }
        }
    }
}
