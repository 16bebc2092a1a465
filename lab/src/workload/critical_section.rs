//! A critical section of a given length: work that is calibrated in nanoseconds and touches no memory.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

/// Turns of the calibration loop.
const TURNS: u32 = 20_000;
/// Tries of the calibration; the fastest counts.
const TRIES: usize = 20;

/// Work that takes about a given time and touches no memory.
#[derive(Clone, Copy)]
pub(crate) struct CriticalSection(u32);

impl CriticalSection {
    /// A section of `ns` nanoseconds, by a calibration done once in a process.
    pub(crate) fn of_ns(ns: u32) -> CriticalSection {
        if ns == 0 {
            return CriticalSection(0);
        }
        static NS_PER_TURN: OnceLock<f64> = OnceLock::new();
        let each = NS_PER_TURN.get_or_init(calibrate);
        CriticalSection((f64::from(ns) / each).ceil() as u32)
    }

    /// Does the work. Not inlined, so that all subjects run the same loop, wherever the compiler put theirs: it is one instruction
    /// a turn, and a few percent faster or slower by its place in a cache line.
    #[inline(never)]
    pub(crate) fn run(self) {
        for turn in 0..self.0 {
            black_box(turn);
        }
    }
}

/// Nanoseconds a turn.
fn calibrate() -> f64 {
    let once = || {
        let start = Instant::now();
        CriticalSection(TURNS).run();
        start.elapsed().as_nanos() as f64 / f64::from(TURNS)
    };
    (0..TRIES).map(|_| once()).fold(f64::INFINITY, f64::min).max(0.01)
}
