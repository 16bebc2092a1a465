//! What an event loop is given to do, a task or a posted closure, and how each is queued: by a link of its own.

use super::chain::{Link, Linked};
use super::posted_job::Job;
use crate::task::Runnable;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A task or a posted closure. Two words, which travel in registers: it changes hands several times a poll.
pub(crate) enum Item {
    Task(Runnable),
    Job(Job),
}

// SAFETY: the cell lives while its runnable is given away; the link is for queues, and a runnable is in one.
unsafe impl Linked for Runnable {
    fn into_raw(self) -> NonNull<()> {
        Self::into_raw(self)
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self::from_raw(raw) }
    }

    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: promised by the caller; only looked at.
        let runnable = ManuallyDrop::new(unsafe { Self::from_raw(raw) });
        let link = NonNull::from(&runnable.metadata().link);
        // SAFETY: it is in the cell, which lives on.
        unsafe { link.as_ref() }
    }
}

/// The bit of a raw item that says that it is a closure; cells and boxes are aligned to more.
const JOB: usize = 1;

// SAFETY: as for `Runnable` and `Job`; the bit says which.
unsafe impl Linked for Item {
    #[inline]
    fn into_raw(self) -> NonNull<()> {
        match self {
            Self::Task(runnable) => runnable.into_raw(),
            Self::Job(job) => job.into_raw().map_addr(|addr| addr | JOB),
        }
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            match untagged(raw) {
                (raw, false) => Self::Task(Runnable::from_raw(raw)),
                (raw, true) => Self::Job(Job::from_raw(raw)),
            }
        }
    }

    #[inline]
    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: promised by the caller.
        unsafe {
            match untagged(raw) {
                (raw, false) => <Runnable as Linked>::link(raw),
                (raw, true) => Job::link(raw),
            }
        }
    }
}

/// The pointer without the bit, and whether it is a closure.
#[inline]
fn untagged(raw: NonNull<()>) -> (NonNull<()>, bool) {
    let job = raw.addr().get() & JOB != 0;
    let untagged = raw.as_ptr().map_addr(|addr| addr & !JOB);
    (NonNull::new(untagged).expect("a cell and a box have addresses"), job)
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(runnable) => runnable.metadata().fmt(f),
            Self::Job(job) => job.fmt(f),
        }
    }
}
