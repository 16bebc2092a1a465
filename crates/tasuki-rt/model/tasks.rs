//! Tasks that nothing but the places they are in orders.

use loom::cell::UnsafeCell;
use std::ptr::NonNull;

/// A task whose one run nothing else orders.
struct Task(UnsafeCell<usize>);

pub(crate) fn task() -> NonNull<()> {
    let task = Box::new(Task(UnsafeCell::new(0)));
    // The write that its place must publish.
    // SAFETY: nobody else knows it yet.
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
