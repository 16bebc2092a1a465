//! The waker that a simulation gives to a poll, which tells a yield from a wake by a grant.
//!
//! A task may be woken during its own poll for two reasons. It *yields*: what it polls calls `cx.waker().wake_by_ref()` and returns `Pending`. Or something was *granted* to another of its
//! futures, as in a `join!` of a sender and a receiver: then a clone of the waker is called, which the wait has kept. `async-task` schedules the task after the poll in both cases, without a
//! word. So a simulated poll is given a waker of its own: its `wake_by_ref` tells the simulation, and its clones are those of the task's waker.
//!
//! Invariant 1: a [`PollWaker`] borrows the waker of the task; its data points to that.

use crate::context;
use std::marker::PhantomData;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// A waker for one poll.
pub(crate) struct PollWaker<'a> {
    waker: Waker,
    of: PhantomData<&'a Waker>,
}

impl<'a> PollWaker<'a> {
    pub(crate) fn new(of: &'a Waker) -> Self {
        let raw = RawWaker::new(ptr::from_ref(of).cast(), &TABLE);
        // SAFETY: the functions of the table look at the waker that is borrowed (invariant 1); they may be called by any thread, for a waker is `Sync`.
        Self { waker: unsafe { Waker::from_raw(raw) }, of: PhantomData }
    }

    pub(crate) fn get(&self) -> &Waker {
        &self.waker
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake_by_ref, wake_by_ref, drop_nothing);

/// The waker of the task.
///
/// # Safety
///
/// The data is that of a [`PollWaker`], which exists.
unsafe fn of<'a>(data: *const ()) -> &'a Waker {
    // SAFETY: promised by the caller; invariant 1.
    unsafe { &*data.cast::<Waker>() }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the contract of a waker's table.
    let kept = std::mem::ManuallyDrop::new(unsafe { of(data) }.clone());
    RawWaker::new(kept.data(), kept.vtable())
}

unsafe fn wake_by_ref(data: *const ()) {
    context::simulation(|sim| sim.yields());
    // SAFETY: the contract of a waker's table.
    unsafe { of(data) }.wake_by_ref();
}

/// It is borrowed.
unsafe fn drop_nothing(_: *const ()) {}
