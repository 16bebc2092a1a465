//! A registered socket, as the poller and its tasks see it: its readiness, and two queues for tasks that share it.
//!
//! A task that polls (`poll_*`, the stream traits) has one slot for each direction, as these interfaces ask for. Tasks that share a socket by reference, such as several that
//! accept from one listener, wait in an [`Event`] for each direction: as with every wait of `tasuki`, without an allocation, and a cancelled one leaves the queue.

use super::readiness::{Direction, Readiness, Report, Seen};
use crate::task::contain_panic;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tasuki::Event;
use tasuki::runtime::Charge;

/// What the poller and the owner of a socket share.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) readiness: Readiness,
    /// For each direction, the tasks that share the socket. Set for a moment only, to release those that are there.
    enqueued: [Event; 2],
    pub(super) token: usize,
}

/// A task that polled and has gone leaves its waker here, whose destructor is foreign code. The last owner may be a worker that has just woken the owner of the socket: each destructor is
/// contained by itself, so that a panic ends neither the worker nor, as the second of two, the process.
impl Drop for Source {
    fn drop(&mut self) {
        for waker in self.readiness.take_wakers() {
            contain_panic(|| drop(waker));
        }
    }
}

/// A wake that a report asks for, to be called when the worker is awake and holds nothing.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The task in a slot.
    Slot(Waker),
    /// All tasks that are enqueued for this direction.
    Queue(Arc<Source>, Direction),
}

/// Sets a manual event for a moment, which releases all that wait. Wakers that panic go no further, and leave it reset: an event that stays set would make every wait for the next
/// moment spin.
pub(crate) fn release_waiters(event: &Event) {
    contain_panic(|| event.set());
    event.reset();
}

impl Delivery {
    /// Foreign code.
    pub(crate) fn wake(self) {
        match self {
            Self::Slot(waker) => contain_panic(|| waker.wake()),
            Self::Queue(source, direction) => release_waiters(&source.enqueued[direction as usize]),
        }
    }
}

/// The error of every operation on a socket whose runtime has shut down.
pub(crate) fn gone() -> io::Error {
    io::Error::other("the runtime of this socket has shut down: make sockets in the runtime that uses them")
}

impl Source {
    pub(super) fn new(token: usize, ready: bool) -> Self {
        Self { readiness: Readiness::new(ready), enqueued: [Event::manual(), Event::manual()], token }
    }

    /// Takes a report of the system, and says which wakes it asks for.
    pub(super) fn deliver(self: &Arc<Self>, report: Report, deliveries: &mut Vec<Delivery>) {
        let enqueued = self.readiness.deliver(report, |waker| deliveries.push(Delivery::Slot(waker)));
        for direction in [Direction::Read, Direction::Write] {
            if enqueued[direction as usize] {
                deliveries.push(Delivery::Queue(self.clone(), direction));
            }
        }
    }

    /// What is known now, ready or not.
    ///
    /// # Errors
    /// The runtime has shut down.
    pub(crate) fn observe(&self) -> io::Result<Seen> {
        let seen = self.readiness.observe();
        if seen.is_gone() { Err(gone()) } else { Ok(seen) }
    }

    /// Ready, or the task is in the slot of this direction. Charged to the budget.
    #[inline]
    pub(crate) fn poll_ready(&self, cx: &Context<'_>, direction: Direction) -> Poll<io::Result<Seen>> {
        let seen = self.readiness.look(direction).or_else(|| self.readiness.register(cx.waker(), direction));
        let Some(seen) = seen else { return Poll::Pending };
        ready!(self.poll_charge_seen(cx, direction, seen.has_yielded(direction)));
        Poll::Ready(if seen.is_gone() { Err(gone()) } else { Ok(seen) })
    }

    /// Charges an operation that never waits, to the task that polls this direction.
    pub(crate) fn poll_charge(&self, cx: &Context<'_>, direction: Direction) -> Poll<()> {
        self.poll_charge_seen(cx, direction, self.readiness.has_yielded(direction))
    }

    /// At most one yield for an operation, also to an executor inside a task, which polls again within the same poll.
    #[inline]
    fn poll_charge_seen(&self, cx: &Context<'_>, direction: Direction, has_yielded: bool) -> Poll<()> {
        if has_yielded {
            self.readiness.set_yielded(direction, false);
        } else if Charge::default().poll(cx).is_pending() {
            self.readiness.set_yielded(direction, true);
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Waits until it is ready, beside other tasks. Charged to the budget when it need not wait.
    pub(crate) async fn ready(&self, direction: Direction) -> io::Result<Seen> {
        let mut charge = Charge::default();
        loop {
            if let Some(seen) = self.readiness.look(direction) {
                poll_fn(|cx| charge.poll(cx)).await;
                return if seen.is_gone() { Err(gone()) } else { Ok(seen) };
            }
            charge.waive();
            let mut wait = pin!(self.enqueued[direction as usize].wait());
            poll_fn(|cx| {
                if wait.as_mut().poll(cx).is_pending() && self.readiness.announce(direction).is_none() {
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
        }
    }

    /// As [`ready`](Self::ready), where a poll is asked for.
    pub(crate) fn poll_readiness(&self, cx: &Context<'_>, direction: Direction) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(cx, direction))?;
        Poll::Ready(Ok(()))
    }
}
