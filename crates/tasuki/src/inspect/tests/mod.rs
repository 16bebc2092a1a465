//! The graph against programs whose deadlocks are known. A test plays several tasks on one thread: it is whichever [`Actor`] it says. (`random_programs/` compares with a second detector.)

mod cycles;
mod debug;
mod no_cycles;
mod snapshots;

use super::Deadlock;
use super::graph::cycle_of;
use crate::runtime::{Driver, TaskId, Timers, enter};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::vec::Vec;

/// Written by a test that takes all slots for holders, where their number does not grow; read by one that needs many.
pub(super) static SLOTS: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// A task that the test is whenever it says so.
#[derive(Clone, Copy)]
pub(super) struct Actor(TaskId);

impl Actor {
    pub(super) fn new() -> Self {
        Self(TaskId::fresh())
    }

    pub(super) fn number(self) -> u64 {
        self.0.get()
    }

    /// Runs `f` as this task.
    pub(super) fn run<R>(self, f: impl FnOnce() -> R) -> R {
        enter(&self, f)
    }

    /// Polls a future as this task.
    pub(super) fn poll<F: Future + ?Sized>(self, future: Pin<&mut F>) -> Poll<F::Output> {
        self.run(|| future.poll(&mut Context::from_waker(Waker::noop())))
    }

    fn waits<F: Future + ?Sized>(self, future: Pin<&mut F>) {
        assert!(self.poll(future).is_pending(), "it was to wait");
    }

    /// The deadlock that this task is in or waits for.
    fn deadlock(self) -> Option<Deadlock> {
        cycle_of(self.number()).and_then(|cycle| Deadlock::new(&cycle))
    }
}

impl Driver for Actor {
    fn task(&self) -> Option<TaskId> {
        Some(self.0)
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        None
    }

    fn may_block(&self) -> bool {
        true
    }
}

fn two() -> (Actor, Actor) {
    (Actor::new(), Actor::new())
}

/// The tasks of a deadlock, in order.
fn tasks(deadlock: &Deadlock) -> Vec<TaskId> {
    deadlock.hops.iter().map(|hop| hop.task).collect()
}
