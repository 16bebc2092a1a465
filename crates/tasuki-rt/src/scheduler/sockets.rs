//! When a worker asks the operating system for sockets, and what it does with those that are ready. Without the feature `net` there are none.
//!
//! The poller itself is in `io/poller.rs`; which worker may use it (the poll slot) is decided in `idle.rs`. A worker that is busy asks here between two tasks; one that sleeps waits in the poll (`worker.rs`).

use super::worker::{GLOBAL_EVERY, Local};
use super::{LOCAL_CAPACITY, Shared};
use std::time::Instant;

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

        pub(crate) fn are_elsewhere(&self) -> bool {
            false
        }

        pub(crate) fn sleep(&self, _: &Parker, _: Option<Instant>, _: &mut Vec<Delivery>, _: impl FnOnce()) {}

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

/// The last time that a worker asked the system for sockets, with or without waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskedForSockets {
    /// Its pick.
    tick: u32,
    /// How many tasks it had in its queues afterwards.
    queued: u32,
    /// It wanted to wait for sockets since then, and a token of its parker kept it awake: it has something to do that is in no queue, as the future of `LocalRuntime::block_on`.
    kept_awake: bool,
}

impl AskedForSockets {
    /// Is it time to ask again? A task whose socket is ready goes to the end of the queue: while those run that were there the last time, asking brings it no further. Where they are very many,
    /// or never end, it is time after [`GLOBAL_EVERY`] picks. A worker that has nothing else waits for sockets soon, unless what comes from elsewhere keeps it from that again and again.
    fn is_over(self, tick: u32, has_tasks: bool) -> bool {
        // At least one: a worker that waited has found nothing else, or what was ready.
        let is_busy = has_tasks || self.kept_awake;
        let least = if is_busy { self.queued.clamp(1, GLOBAL_EVERY) } else { 2 * GLOBAL_EVERY };
        tick.wrapping_sub(self.tick) > least
    }
}

impl Local {
    /// Between two tasks, now and then: takes what is ready, unless another worker waits for it, or this one still has what it took the last time.
    #[inline]
    pub(super) fn poll_sockets(&self, shared: &Shared) {
        if shared.sockets.are_used() {
            let has_tasks = self.has_work(shared) || !shared.global.looks_empty();
            if self.asked_for_sockets.get().is_over(self.tick.get(), has_tasks) {
                self.poll_now(shared);
            }
        }
    }

    #[cold]
    fn poll_now(&self, shared: &Shared) {
        if !shared.idle.try_poll(self.index) {
            return;
        }
        self.asks_for_sockets(shared);
        shared.sockets.poll(&mut self.deliveries.borrow_mut());
        if let Some(worker) = shared.idle.end_poll(self.index) {
            shared.remotes[worker].unparker.unpark();
        }
        self.wake_delivered();
    }

    /// Sleeps in the system's wait for sockets, unless the parker has a token: then the system is not asked, and the next look outside has to.
    pub(super) fn sleep_in_poll(&self, shared: &Shared, ends: Option<Instant>) {
        let mut asked = false;
        shared.sockets.sleep(&self.parker, ends, &mut self.deliveries.borrow_mut(), || {
            asked = true;
            self.asks_for_sockets(shared);
        });
        if !asked {
            self.asked_for_sockets.set(AskedForSockets { kept_awake: true, ..self.asked_for_sockets.get() });
        }
    }

    /// For the worker with the poll slot, where it asks the system and nowhere else.
    fn asks_for_sockets(&self, shared: &Shared) {
        shared.remotes[self.index].counters.socket_polls.count();
        self.has_asked_for_sockets();
    }

    fn has_asked_for_sockets(&self) {
        let queued = LOCAL_CAPACITY - self.queue.spare_capacity() + self.home.borrow().len();
        self.asked_for_sockets.set(AskedForSockets {
            tick: self.tick.get(),
            queued: queued as u32,
            kept_awake: false,
        });
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
        self.has_asked_for_sockets();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How many picks come before the first at which it asks again.
    fn picks_before(queued: u32, has_tasks: bool, kept_awake: bool) -> u32 {
        // The count of picks wraps around.
        let asked = AskedForSockets { tick: u32::MAX - 3, queued, kept_awake };
        (1..).find(|picks| asked.is_over(asked.tick.wrapping_add(*picks), has_tasks)).unwrap() - 1
    }

    #[test]
    fn it_asks_again_when_the_tasks_that_it_had_have_run() {
        // Its own queues, or a token at each sleep, keep it awake.
        for (has_tasks, kept_awake) in [(true, false), (false, true), (true, true)] {
            let picks =
                [0, 1, 2, 63, 64, 65, 1_024].map(|queued| picks_before(queued, has_tasks, kept_awake));
            assert_eq!(picks, [1, 1, 2, 63, GLOBAL_EVERY, GLOBAL_EVERY, GLOBAL_EVERY]);
        }
        assert_eq!([0, 1, 1_024].map(|queued| picks_before(queued, false, false)), [2 * GLOBAL_EVERY; 3]);
    }
}
