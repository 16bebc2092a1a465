//! The tests of the primitives: one program, a folder for each primitive, one kit. What needs a process for itself is in `process/`.
//!
//! In a folder: `api` is what users rely on, `cancel` every moment at which a future can be dropped, `hostile` foreign code that
//! misbehaves, `spec` every string of operations against a model of a few lines, `stress` many threads.

mod kit;
mod kit_works;

mod barrier {
    mod api;
}
mod budget {
    mod api;
    mod guest;
    mod hostile;
}
mod cancellation {
    mod api;
    mod hostile;
    mod spec;
    mod tree;
}
mod channel {
    mod api;
    mod hostile;
    mod layouts;
    mod memory;
    mod messages;
    mod oneshot;
    mod put_back;
    mod rendezvous;
    mod spec;
    #[cfg(all(feature = "futures-core", feature = "futures-sink"))]
    mod streams;
    mod stress;
}
mod condvar {
    mod api;
    mod cancel;
    mod hostile;
    mod spec;
    mod stress;
}
mod event {
    mod api;
    mod hostile;
    mod spec;
}
mod latch {
    mod api;
}
mod limits {
    mod api;
    mod each;
    mod foreign_yields;
}
mod mutex {
    mod api;
    mod cancel;
    mod futurelock;
    mod guards;
    mod hostile;
    mod panics;
    mod revocable;
    mod revocable_end;
    mod revocable_overdue;
    mod revocable_programs;
    mod revocable_spec;
    mod spec;
    mod stress;
}
mod once_cell {
    mod api;
    mod hostile;
    mod spec;
}
mod parker {
    mod api;
    mod block;
}
mod queue {
    mod chains;
    mod last_handle;
    mod no_allocation;
}
mod reentrant {
    mod api;
    mod hostile;
}
mod rwlock {
    mod api;
    mod guards;
    mod hostile;
    mod spec;
    mod stress;
    mod types;
}
mod semaphore {
    mod api;
    mod cancel;
    mod hostile;
    mod known_bugs;
    mod spec;
    mod stress;
}
mod surface {
    mod auto_traits;
    mod budget_panics;
    mod channel_subjects;
    mod foreign_panics;
    mod globs;
    mod owned_panics;
    mod panic_places;
    mod promises;
    mod subjects;
    #[cfg(feature = "console")]
    mod subscriber_panics;
    mod two_panics;
    mod unwinding;
    mod wait_sites;
}
mod timer {
    mod api;
    mod driver;
    mod wheel;
}
mod wait_group {
    mod api;
    mod spec;
}

#[global_allocator]
static ALLOCATOR: kit::alloc::Counting = kit::alloc::Counting;
