//! Tests of what a process has once: its memory, its processor time, its threads, its panic hook. Each of them runs alone in a process of
//! its own (`alone` in the kit), or with the others that count the same one after the other.

#[path = "../kit/mod.rs"]
mod kit;

mod allocation;
mod caller;
#[cfg(all(target_os = "linux", not(miri)))]
mod clocks;
mod crowd;
#[cfg(target_os = "linux")]
mod fork;
mod held_workers;
mod idle;
mod refused_threads;
mod sockets;
#[cfg(feature = "tracing")]
mod spans;
mod start;
mod strict;
mod threads;
mod timer_threads;

#[global_allocator]
static ALLOCATOR: kit::alloc::Counting = kit::alloc::Counting;
