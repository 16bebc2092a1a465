//! The graph against programs whose deadlocks are known. A test plays several tasks on one thread: it is whichever [`Actor`] it says. (`random_programs/` compares with a second detector.)

mod cycles;
mod debug;
mod guessed;
mod no_cycles;
mod snapshots;
mod unpolled;

use super::Deadlock;
use super::graph::cycle_of;
use crate::budget::uncharged;
use crate::runtime::{Driver, TaskId, Timers, enter};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::sync::OnceLock;
use std::vec::Vec;

/// Written by a test that takes all slots for holders, where their number does not grow; read by one that needs many.
pub(super) static SLOTS: std::sync::RwLock<()> = std::sync::RwLock::new(());

std::thread_local! {
    /// What this thread has done to make reports: labels that it looked at or was given, and steps of searches.
    static WORK: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

pub(super) fn count_work(steps: usize) {
    let _ = WORK.try_with(|work| work.set(work.get() + steps));
}

/// How much of it `f` does.
pub(super) fn work_of(f: impl FnOnce()) -> usize {
    let done = || WORK.try_with(core::cell::Cell::get).unwrap_or(0);
    let before = done();
    f();
    done() - before
}

/// A task that the test is whenever it says so. With a waker it has no other identity.
#[derive(Clone, Copy)]
pub(super) struct Actor(TaskId, Option<&'static Waker>);

impl Actor {
    pub(super) fn new() -> Self {
        Self(TaskId::fresh(), None)
    }

    /// A task that no runtime tells of: it is known by its waker.
    pub(super) fn guessed() -> Self {
        let waker = own_waker();
        Self(TaskId::of_waker(waker).expect("it has an address"), Some(waker))
    }

    pub(super) fn number(self) -> u64 {
        self.0.get()
    }

    /// Runs `f` as this task.
    pub(super) fn run<R>(self, f: impl FnOnce() -> R) -> R {
        if self.1.is_some() { f() } else { enter(&self, f) }
    }

    /// Polls a future as this task, which never yields.
    pub(super) fn poll<F: Future + ?Sized>(self, future: Pin<&mut F>) -> Poll<F::Output> {
        let mut cx = Context::from_waker(self.1.unwrap_or(Waker::noop()));
        self.run(|| uncharged(|| future.poll(&mut cx)))
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

/// A waker that differs from all others, and does nothing.
fn own_waker() -> &'static Waker {
    const COUNT: usize = 1 << 14;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static ADDRESSES: [u64; COUNT] = [0; COUNT];
    static WAKERS: [OnceLock<Waker>; COUNT] = [const { OnceLock::new() }; COUNT];
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), |_| (), |_| (), |_| ());
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: its functions do nothing.
    let new = || unsafe { Waker::new((&raw const ADDRESSES[number]).cast(), &VTABLE) };
    WAKERS[number].get_or_init(new)
}

fn two() -> (Actor, Actor) {
    (Actor::new(), Actor::new())
}

/// The tasks of a deadlock, in order.
fn tasks(deadlock: &Deadlock) -> Vec<TaskId> {
    deadlock.hops.iter().map(|hop| hop.task).collect()
}
