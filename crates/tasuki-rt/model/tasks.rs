//! Stand-ins for tasks and queued closures: each holds plain memory, so a queue or slot that does not publish what it passes on fails the model.

use crate::parts::chain::{Link, Linked};
use loom::cell::UnsafeCell;
use std::ptr::NonNull;

/// A task: its memory is written before it is put somewhere, and read by the thread that takes it.
struct Task(UnsafeCell<usize>);

pub(crate) fn task() -> NonNull<()> {
    let task = Box::new(Task(UnsafeCell::new(0)));
    // The write that its place must publish.
    // SAFETY: no other thread knows it yet.
    task.0.with_mut(|runs| unsafe { *runs = 1 });
    NonNull::from(Box::leak(task)).cast()
}

/// Runs and frees it: twice would be a use after free, which loom's cell and the allocator see.
pub(crate) fn run(task: NonNull<()>) {
    // SAFETY: made by `task`, and taken out of its place by us alone.
    let task = unsafe { Box::from_raw(task.cast::<Task>().as_ptr()) };
    // SAFETY: as above; the model checker looks at the access.
    task.0.with(|runs| assert_eq!(unsafe { *runs }, 1));
}

pub(crate) fn run_all(tasks: impl IntoIterator<Item = Option<NonNull<()>>>) -> usize {
    tasks.into_iter().flatten().map(run).count()
}

/// Something to queue, with a number that only the queue publishes.
pub(crate) struct Token(Box<(Link, UnsafeCell<usize>)>);

impl Token {
    pub(crate) fn new(number: usize) -> Self {
        let token = Self(Box::new((Link::new(), UnsafeCell::new(0))));
        // SAFETY: nothing else knows it yet.
        token.0.1.with_mut(|place| unsafe { *place = number });
        token
    }

    pub(crate) fn number(&self) -> usize {
        // SAFETY: the model checker looks at the access.
        self.0.1.with(|number| unsafe { *number })
    }
}

// SAFETY: the box stays where it is, and its link is used for nothing else.
unsafe impl Linked for Token {
    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self.0)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: made by `into_raw`, and given back once.
        Self(unsafe { Box::from_raw(raw.cast().as_ptr()) })
    }

    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: made by `into_raw`, and not given back.
        unsafe { &raw.cast::<(Link, UnsafeCell<usize>)>().as_ref().0 }
    }
}
