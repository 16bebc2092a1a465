//! The *next* slot: its owner fills and empties it while a thief empties it.

use crate::parts::next::NextSlot;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;

/// A task whose one run nothing but the slot orders.
struct Task(UnsafeCell<usize>);

fn task() -> NonNull<()> {
    let task = Box::new(Task(UnsafeCell::new(0)));
    // The write that the slot must publish.
    // SAFETY: nobody else knows it yet.
    task.0.with_mut(|runs| unsafe { *runs = 1 });
    NonNull::from(Box::leak(task)).cast()
}

/// Runs and frees it: twice would be a use after free, which loom's cell and the allocator see.
fn run(task: NonNull<()>) {
    // SAFETY: made by `task`, and taken out of the slot by us alone.
    let task = unsafe { Box::from_raw(task.cast::<Task>().as_ptr()) };
    // SAFETY: as above; the model checker looks at the access.
    task.0.with(|runs| assert_eq!(unsafe { *runs }, 1));
}

fn run_all(tasks: impl IntoIterator<Item = Option<NonNull<()>>>) -> usize {
    tasks.into_iter().flatten().map(run).count()
}

#[test]
fn every_task_is_taken_once() {
    loom::model(|| {
        let slot = Arc::new(NextSlot::new());
        let thief = {
            let slot = slot.clone();
            thread::spawn(move || run_all([slot.take(), slot.take()]))
        };
        let mut ran = run_all([slot.put(task())]);
        ran += run_all([slot.put(task())]);
        ran += run_all([slot.take()]);
        ran += run_all([slot.put(task())]);
        ran += thief.join().unwrap();
        ran += run_all([slot.take()]);
        assert_eq!(ran, 3);
        assert!(slot.is_empty());
    });
}
