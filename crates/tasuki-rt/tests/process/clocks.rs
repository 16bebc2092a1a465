//! How often a worker reads the clock: at most once a poll. The program has a `clock_gettime` of its own, which the standard library calls.

use crate::kit::process::alone;
use crate::kit::{runtime, watchdog};
use std::cell::Cell;
use std::hint::spin_loop;
use std::time::Duration;
use tasuki_rt::{Runtime, sleep, yield_now};

thread_local! {
    /// How often this thread has read a clock.
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    let _ = READINGS.try_with(|readings| readings.set(readings.get() + 1));
    // SAFETY: the caller's arguments, for the system call that the function of the C library makes.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int }
}

/// What the only worker reads while a task yields so often, each poll so many turns of a loop long.
fn readings(runtime: &Runtime, polls: u64, turns: u32) -> u64 {
    let task = runtime.spawn(async move {
        // The first polls of a runtime are not measured.
        for _ in 0..100 {
            yield_now().await;
        }
        let before = READINGS.get();
        for _ in 0..polls {
            (0..turns).for_each(|_| spin_loop());
            yield_now().await;
        }
        READINGS.get() - before
    });
    runtime.block_on(task).unwrap()
}

/// The half of a per cent more is for what is not the end of a poll: the worker may sleep, as when the system has stopped the process.
fn at_most(read: u64, polls: u64) {
    assert!(read <= polls + polls / 200 + 16, "{read} readings in {polls} polls");
}

#[test]
fn the_clock_is_read_once_a_poll_at_most() {
    const POLLS: u64 = 2_000;
    // More than 50 µs, for the worker does not look at the clock after each of shorter polls.
    const TURNS: u32 = 5_000;
    alone(|| {
        let _dog = watchdog(120);
        let runtime = runtime(1);
        let without = readings(&runtime, POLLS, TURNS);
        at_most(without, POLLS / 10);
        // With a deadline there is a time to look for.
        let far = runtime.spawn(sleep(Duration::from_secs(3600)));
        let long = readings(&runtime, POLLS, TURNS);
        at_most(long, POLLS);
        assert!(long > without, "{long} readings in {POLLS} long polls, and {without} without a deadline");
        // Beside a task that yields, there are two polls a turn.
        let other = runtime.spawn(async {
            loop {
                yield_now().await;
            }
        });
        at_most(readings(&runtime, POLLS, TURNS), 2 * POLLS);
        other.abort();
        far.abort();
    });
}
