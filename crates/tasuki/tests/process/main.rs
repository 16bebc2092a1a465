//! Tests of what a process has once: its memory, its signals and forks, the hook for self-deadlocks, the implementation of critical
//! sections, the notes of waits, which a million waiters fill. Each of them runs alone in a process of its own (`alone` in the kit).

#[path = "../kit/mod.rs"]
mod kit;

mod cancellation_stress;
mod counts;
mod deadlock;
mod holds;
#[cfg(tasuki_interrupts)]
mod interrupt;
mod memory;
mod scale;
mod self_deadlock;
mod system;

#[global_allocator]
static ALLOCATOR: kit::alloc::Counting = kit::alloc::Counting;
